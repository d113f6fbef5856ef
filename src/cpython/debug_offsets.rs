//! The offsets that CPython publishes from 3.13 on: `_Py_DebugOffsets`, at the start of
//! `_PyRuntime`. They are of the process that is watched, so they are checked like everything else.

use super::layout::{InstructionField, LineFormat, LoopEnd, StructLayout, ThreadField};
use super::memory::TargetMemory;

/// The first word of the structure.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Number of words of the structure that are read.
const WORDS: usize = 64;
/// Number of bytes of a frame that are read.
const FRAME_BYTES: usize = 72;
/// Maximum offset in a structure of which single words are read.
const LARGE: u64 = 1 << 20;

/// The indexes of some of its words. Each version of CPython has its own structure.
struct WordIndexes {
    interpreters_head: usize,
    interpreter_next: usize,
    threads_head: usize,
    /// The first word of the group of `PyThreadState`, which is its size; also of the next two.
    thread: usize,
    frame: usize,
    code: usize,
    /// `co_code_adaptive` in the group of `PyCodeObject`.
    adaptive: usize,
    /// The bits that tag a reference from a frame (`_PyStackRef`).
    reference_tag: u64,
}

const OFFSETS_3_13: WordIndexes = WordIndexes {
    interpreters_head: 5,
    interpreter_next: 8,
    threads_head: 9,
    thread: 19,
    frame: 28,
    code: 34,
    adaptive: 43,
    reference_tag: 0,
};

const OFFSETS_3_14: WordIndexes =
    WordIndexes { thread: 22, frame: 31, code: 39, adaptive: 48, reference_tag: 1, ..OFFSETS_3_13 };

/// Reads the layout that the interpreter of a version publishes at `runtime`. `None` if it
/// publishes another version or impossible offsets, or if it was built without the GIL: its objects
/// have another layout.
pub(super) fn read(version: (u8, u8), runtime: u64, memory: &impl TargetMemory) -> Option<StructLayout> {
    let at = match version {
        (3, 13) => &OFFSETS_3_13,
        (3, 14) => &OFFSETS_3_14,
        _ => return None,
    };
    let mut bytes = [0; 8 * WORDS];
    memory.read(runtime, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| words.get(index).map(|bytes| u64::from_le_bytes(*bytes));
    let is_free_threaded = word(2)? != 0;
    // The version as in PY_VERSION_HEX, without the micro version.
    let published = word(1)? >> 16;
    let expected = u64::from(version.0) << 8 | u64::from(version.1);
    if word(0)? != COOKIE || published != expected || is_free_threaded {
        return None;
    }
    let offset = |index: usize| usize::try_from(word(index).filter(|&offset| offset < LARGE)?).ok();
    let layout = StructLayout {
        first_interpreter: offset(at.interpreters_head)?,
        next_interpreter: offset(at.interpreter_next)?,
        first_thread: offset(at.threads_head)?,
        next_thread: offset(at.thread + 2)?,
        innermost: offset(at.thread + 4)?,
        thread: ThreadField::KernelId(offset(at.thread + 6)?),
        stack_chunk: Some(offset(at.thread + 7)?),
        in_cframe: None,
        frame_bytes: FRAME_BYTES,
        previous: offset(at.frame + 1)?,
        code: offset(at.frame + 2)?,
        code_tag: at.reference_tag,
        instruction: InstructionField::Address { field: offset(at.frame + 3)?, units: offset(at.adaptive)? },
        owner: Some(offset(at.frame + 5)?),
        loop_end: LoopEnd::Shim,
        file_name: offset(at.code + 1)?,
        name: offset(at.code + 3)?,
        line_table: offset(at.code + 4)?,
        first_line: offset(at.code + 5)?,
        line_format: LineFormat::Locations,
        ascii: 0x28,
        characters: 0x38,
    };
    layout.is_within_limits().then_some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PublishedWords<'a>(&'a [u64]);

    impl TargetMemory for PublishedWords<'_> {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
            buffer.copy_from_slice(bytes.get(address as usize..)?.get(..buffer.len())?);
            Some(())
        }
    }

    fn layout(version: (u8, u8), words: &[u64]) -> Option<StructLayout> {
        read(version, 0, &PublishedWords(words))
    }

    /// The structure as CPython 3.13.0 publishes it.
    fn published() -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let offsets = [
            (0, COOKIE),
            (1, 0x030d_00f0),
            (5, 0x278),
            (8, 0x1c60),
            (9, 0x1cb0),
            (21, 8),
            (23, 0x48),
            (25, 0xa0),
            (26, 0xe8),
            (29, 8),
            (31, 0x38),
            (33, 0x46),
            (35, 0x70),
            (37, 0x80),
            (38, 0x88),
            (39, 0x44),
            (43, 0xc8),
        ];
        offsets.into_iter().for_each(|(index, offset)| words[index] = offset);
        words
    }

    #[test]
    fn published_offsets_are_read_and_checked() {
        let found = layout((3, 13), &published()).expect("it is complete");
        assert_eq!((found.first_thread, found.owner), (0x1cb0, Some(0x46)));
        assert_eq!(found.instruction, InstructionField::Address { field: 0x38, units: 0xc8 });
        for (index, wrong) in [(0, 0), (1, 0x030e_00f0), (2, 1), (29, 1000), (33, 72), (8, u64::MAX), (43, LARGE)] {
            let mut words = published();
            words[index] = wrong;
            assert_eq!(layout((3, 13), &words), None, "{wrong:#x} as word {index}");
        }
        assert_eq!(layout((3, 13), &published()[..40]), None, "it lies at the end of what is mapped");
        assert_eq!(layout((3, 14), &published()), None, "it is of another version");
        assert_eq!(layout((3, 15), &published()), None);
    }

    /// 3.14 has three more words of the interpreter and two more of the frame, and tags references.
    #[test]
    fn the_structure_of_3_14_is_longer() {
        let mut words = [0; WORDS];
        let old = published();
        words[..19].copy_from_slice(&old[..19]);
        words[22..37].copy_from_slice(&old[19..34]);
        words[39..49].copy_from_slice(&old[34..44]);
        words[1] = 0x030e_00f0;
        let expected = layout((3, 13), &old).map(|older| StructLayout { code_tag: 1, ..older });
        assert!(expected.is_some());
        assert_eq!(layout((3, 14), &words), expected);
    }

    proptest::proptest! {
        /// Whatever a process publishes, the offsets lie in what is read.
        #[test]
        fn no_offset_leads_astray(changes in proptest::collection::vec((0..WORDS, proptest::num::u64::ANY), 0..4)) {
            let mut words = published();
            changes.into_iter().for_each(|(index, word)| words[index] = word);
            let layout = layout((3, 13), &words);
            proptest::prop_assert!(layout.is_none_or(|layout| layout.is_within_limits()));
        }
    }
}

//! The offsets that CPython publishes from 3.13 on: `_Py_DebugOffsets`, at the start of
//! `_PyRuntime`. They are of the process that is watched, so they are checked like everything else.

use super::layout::{InstructionField, LineFormat, LoopEnd, StructLayout, ThreadField};
use super::memory::TargetMemory;

/// The first word of the structure.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Number of words of the structure that are read.
const WORDS: usize = 64;
/// Maximum offset in a structure of which single words are read.
const LARGE: u64 = 1 << 20;

/// The indexes of some of its words. Each version of CPython has its own structure.
struct WordIndexes {
    interpreters_head: usize,
    interpreter_next: usize,
    threads_head: usize,
    /// The first word of the group of `PyThreadState`, which is its size; also of the next two.
    thread: usize,
    /// The index of `native_thread_id`; `datastack_chunk` follows.
    thread_id: usize,
    /// The index of `base_frame`, in versions that have it.
    base_frame: Option<usize>,
    frame: usize,
    /// Number of bytes of a frame that are read.
    frame_bytes: usize,
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
    thread_id: 25,
    base_frame: None,
    frame: 28,
    frame_bytes: 72,
    code: 34,
    adaptive: 43,
    reference_tag: 0,
};

const OFFSETS_3_14: WordIndexes = WordIndexes {
    thread: 22,
    thread_id: 28,
    frame: 31,
    frame_bytes: 80,
    code: 39,
    adaptive: 48,
    reference_tag: 1,
    ..OFFSETS_3_13
};

const OFFSETS_3_15: WordIndexes = WordIndexes {
    thread_id: 31,
    base_frame: Some(27),
    frame: 39,
    code: 47,
    adaptive: 56,
    reference_tag: 3,
    ..OFFSETS_3_14
};

/// Reads the layout that the interpreter of a version publishes at `runtime`. `None` if it
/// publishes another version or impossible offsets, or if it was built without the GIL: its objects
/// have another layout.
pub(super) fn read(version: (u8, u8), runtime: u64, memory: &impl TargetMemory) -> Option<StructLayout> {
    let at = match version {
        (3, 13) => &OFFSETS_3_13,
        (3, 14) => &OFFSETS_3_14,
        (3, 15) => &OFFSETS_3_15,
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
        base_frame: at.base_frame.map(offset).map_or(Some(None), |base| base.map(Some))?,
        thread: ThreadField::KernelId(offset(at.thread_id)?),
        stack_chunk: Some(offset(at.thread_id + 1)?),
        in_cframe: None,
        frame_bytes: at.frame_bytes,
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
        assert_eq!(layout((3, 16), &published()), None);
    }

    /// The words that are read of what CPython 3.14.10 and 3.15.2 publish: their structures are
    /// longer, and references are tagged.
    #[test]
    fn the_structures_of_later_versions_are_longer() {
        let words = |version: u64, offsets: &[(usize, u64)]| {
            let mut words = [0; WORDS];
            let common = [(0, COOKIE), (1, version << 16 | 0x0af0), (8, 0x1c68), (9, 0x1cb0), (24, 8), (26, 0x48)];
            common.iter().chain(offsets).for_each(|&(index, offset)| words[index] = offset);
            words
        };
        let code = [(0, 0xd8), (1, 0x70), (2, 0x78), (3, 0x80), (4, 0x88), (5, 0x44), (9, 0xd0)];
        let frame = [(0, 0x58), (1, 8), (2, 0), (3, 0x38), (4, 0x50), (5, 0x4a), (6, 0x40)];
        let groups = |thread: &[(usize, u64)], frame_at: usize| {
            let frame = frame.iter().map(|&(index, offset)| (frame_at + index, offset));
            let code = code.iter().map(|&(index, offset)| (frame_at + 8 + index, offset));
            thread.iter().copied().chain(frame).chain(code).collect::<Vec<_>>()
        };
        let found = layout((3, 14), &words(0x030e, &groups(&[(28, 0xa0), (29, 0xe8)], 31))).expect("it is complete");
        assert_eq!((found.owner, found.innermost, found.base_frame), (Some(0x4a), 0x48, None));
        assert_eq!((found.thread, found.stack_chunk), (ThreadField::KernelId(0xa0), Some(0xe8)));
        assert_eq!((found.name, found.line_table, found.code_tag), (0x80, 0x88, 1));
        assert_eq!(found.instruction, InstructionField::Address { field: 0x38, units: 0xd0 });
        let later = groups(&[(27, 0x50), (28, 0x58), (30, 0xb0), (31, 0xb8), (32, 0x100)], 39);
        let later = layout((3, 15), &words(0x030f, &later)).expect("it is complete");
        let thread = (ThreadField::KernelId(0xb8), Some(0x100));
        let expected =
            StructLayout { thread: thread.0, stack_chunk: thread.1, base_frame: Some(0x50), code_tag: 3, ..found };
        assert_eq!(later, expected);
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

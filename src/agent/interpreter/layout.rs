//! The layout of the structures of CPython that the agent reads, by version. A version without a
//! layout is not read.
//!
//! CPython changes these structures with every minor version and keeps them within one. From 3.13
//! on it publishes the offsets itself (`_Py_DebugOffsets`, at the start of `_PyRuntime`).

use crate::agent::os::process_memory::ProcessMemory;

/// Sign of the end of the frames that one call of the interpreter's loop evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopEnd {
    /// A flag at this offset of the outermost of these frames (3.11).
    Flag(usize),
    /// A frame of its own, without a function, behind them (from 3.12 on).
    Shim,
}

/// Offsets in bytes, each in the structure that its group names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructLayout {
    /// `_PyRuntimeState`: the first interpreter.
    pub(super) first_interpreter: usize,
    /// `PyInterpreterState`: the next interpreter, and the first thread.
    pub(super) next_interpreter: usize,
    pub(super) first_thread: usize,
    /// `PyThreadState`: the next thread, the kernel's id of the thread, the chunk of the stack of
    /// frames in use and, after it, the end of what is in use.
    pub(super) next_thread: usize,
    pub(super) native_thread_id: usize,
    pub(super) stack_chunk: usize,
    /// `PyThreadState`: the innermost frame, or a `_PyCFrame` that has it.
    pub(super) innermost: usize,
    /// `_PyCFrame`: the innermost frame, in versions that have this structure.
    pub(super) in_cframe: Option<usize>,
    /// `_PyInterpreterFrame`.
    pub(super) code: usize,
    pub(super) previous: usize,
    pub(super) instruction: usize,
    pub(super) owner: usize,
    pub(super) loop_end: LoopEnd,
    /// `PyCodeObject`.
    pub(super) first_line: usize,
    pub(super) file_name: usize,
    pub(super) qualified_name: usize,
    pub(super) line_table: usize,
    pub(super) instructions: usize,
    /// Start of the characters of a `str`, if all are ASCII and otherwise.
    pub(super) ascii: usize,
    pub(super) characters: usize,
}

/// Number of bytes of a frame that are read.
pub(super) const FRAME_BYTES: usize = 72;
/// Number of bytes of a thread's state that are read.
pub(super) const THREAD_BYTES: usize = 320;
/// Number of bytes of a code object that are read.
pub(super) const CODE_BYTES: usize = 144;
/// Offset of an object's type, in every version.
pub(super) const TYPE: usize = 8;

const CPYTHON_3_11: StructLayout = StructLayout {
    first_interpreter: 0x28,
    next_interpreter: 0,
    first_thread: 0x10,
    next_thread: 0x8,
    native_thread_id: 0xa0,
    stack_chunk: 0x128,
    innermost: 0x38,
    in_cframe: Some(0x8),
    code: 0x20,
    previous: 0x30,
    instruction: 0x38,
    owner: 0x45,
    loop_end: LoopEnd::Flag(0x44),
    first_line: 0x48,
    file_name: 0x70,
    qualified_name: 0x80,
    line_table: 0x88,
    instructions: 0xb8,
    ascii: 0x30,
    characters: 0x48,
};

const CPYTHON_3_12: StructLayout = StructLayout {
    first_thread: 0x48,
    native_thread_id: 0x90,
    stack_chunk: 0xe8,
    in_cframe: Some(0),
    code: 0,
    previous: 0x8,
    owner: 0x46,
    loop_end: LoopEnd::Shim,
    first_line: 0x44,
    instructions: 0xc0,
    ascii: 0x28,
    characters: 0x38,
    ..CPYTHON_3_11
};

impl StructLayout {
    /// Returns the layout of a version, whose `_PyRuntime` lies at an address. `None` if the version
    /// was never tested, or is built in another way (without the GIL).
    pub(super) fn of(version: (u8, u8), runtime: u64, memory: &ProcessMemory) -> Option<StructLayout> {
        match version {
            (3, 11) => Some(CPYTHON_3_11),
            (3, 12) => Some(CPYTHON_3_12),
            (3, 13) => StructLayout::published(runtime, memory),
            _ => None,
        }
    }

    /// Reads the offsets that CPython 3.13 publishes.
    fn published(runtime: u64, memory: &ProcessMemory) -> Option<StructLayout> {
        let mut bytes = [0; 376];
        memory.read(runtime, &mut bytes)?;
        let word = |index: usize| u64::from_le_bytes(bytes[8 * index..8 * index + 8].try_into().unwrap_or_default());
        let is_free_threaded = word(2) != 0;
        if &bytes[..8] != b"xdebugpy" || is_free_threaded {
            return None;
        }
        // The groups, in order: cookie, version and free_threaded, then of `runtime_state`,
        // `interpreter_state`, `thread_state`, `interpreter_frame` and `code_object`.
        let offset = |index: usize, structure_bytes: usize| {
            usize::try_from(word(index)).ok().filter(|offset| offset + 8 <= structure_bytes)
        };
        const LARGE: usize = 1 << 20;
        Some(StructLayout {
            first_interpreter: offset(5, LARGE)?,
            next_interpreter: offset(8, LARGE)?,
            first_thread: offset(9, LARGE)?,
            next_thread: offset(21, THREAD_BYTES)?,
            innermost: offset(23, THREAD_BYTES)?,
            native_thread_id: offset(25, THREAD_BYTES)?,
            stack_chunk: offset(26, THREAD_BYTES - 8)?,
            in_cframe: None,
            previous: offset(29, FRAME_BYTES)?,
            code: offset(30, FRAME_BYTES)?,
            instruction: offset(31, FRAME_BYTES)?,
            owner: usize::try_from(word(33)).ok().filter(|&owner| owner < FRAME_BYTES)?,
            loop_end: LoopEnd::Shim,
            file_name: offset(35, CODE_BYTES)?,
            qualified_name: offset(37, CODE_BYTES)?,
            line_table: offset(38, CODE_BYTES)?,
            first_line: offset(39, CODE_BYTES)?,
            instructions: offset(43, LARGE)?,
            ascii: 0x28,
            characters: 0x38,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_lies_in_what_is_read() {
        for layout in [CPYTHON_3_11, CPYTHON_3_12] {
            for offset in [layout.innermost, layout.native_thread_id, layout.stack_chunk + 8, layout.next_thread] {
                assert!(offset + 8 <= THREAD_BYTES);
            }
            for offset in [layout.code, layout.previous, layout.instruction] {
                assert!(offset + 8 <= FRAME_BYTES);
            }
            for offset in [layout.file_name, layout.qualified_name, layout.line_table, layout.first_line] {
                assert!(offset + 8 <= CODE_BYTES);
            }
            assert!(layout.owner < FRAME_BYTES);
        }
    }

    /// The start of a runtime that publishes these offsets, after cookie and version.
    fn runtime(free_threaded: u64) -> [u64; 47] {
        let mut words = [0; 47];
        let offsets = [
            (0, u64::from_le_bytes(*b"xdebugpy")),
            (2, free_threaded),
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
        let memory = ProcessMemory::open();
        let layout = |words: &[u64; 47]| StructLayout::of((3, 13), words.as_ptr() as u64, &memory);
        let found = layout(&runtime(0)).expect("it is complete");
        assert_eq!((found.first_thread, found.owner, found.instructions), (0x1cb0, 0x46, 0xc8));
        assert_eq!(layout(&runtime(1)), None, "without the GIL, objects have another layout");
        let mut wrong = runtime(0);
        wrong[29] = 1000;
        assert_eq!(layout(&wrong), None, "a frame is not that long");
        wrong = [0; 47];
        assert_eq!(layout(&wrong), None);
        assert_eq!(StructLayout::of((3, 10), 0, &memory), None);
        assert_eq!(StructLayout::of((3, 99), 0, &memory), None);
    }
}

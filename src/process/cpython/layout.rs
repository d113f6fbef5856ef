//! The layout of the structures of CPython that are read, by version. A version without a layout is
//! not read.
//!
//! CPython changes these structures with every minor version and keeps them within one. From 3.13
//! on it publishes the offsets itself ([`debug_offsets`](super::debug_offsets)).

/// Sign of the end of the frames that one call of the interpreter's loop evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopEnd {
    /// Each call evaluates one frame (up to 3.10).
    EachFrame,
    /// A flag at this offset of the outermost of these frames (3.11).
    Flag(usize),
    /// A frame of its own, without a function, behind them (from 3.12 on).
    Shim,
}

/// The field of a thread's state that tells which thread it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadField {
    /// The kernel's id of the thread.
    KernelId(usize),
    /// The address of the C library's descriptor of the thread (up to 3.10).
    Descriptor(usize),
}

/// The field of a frame that tells its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstructionField {
    /// The address of a code unit. They begin at `units` in the code object.
    Address { field: usize, units: usize },
    /// The number of the code unit, of 32 bits (3.10).
    Index(usize),
    /// The offset of the code unit in bytes, of 32 bits (up to 3.9).
    Bytes(usize),
}

/// The encoding of the lines of a code object.
pub(super) use crate::wire::interpreter::LineFormat;

/// Offsets in bytes, each in the structure that its group names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StructLayout {
    /// `_PyRuntimeState`: the first interpreter.
    pub(super) first_interpreter: usize,
    /// `PyInterpreterState`: the next interpreter, and the first thread.
    pub(super) next_interpreter: usize,
    pub(super) first_thread: usize,
    /// `PyThreadState`: the next thread, and which thread it is.
    pub(super) next_thread: usize,
    pub(super) thread: ThreadField,
    /// `PyThreadState`: the chunk of the stack of frames in use and, after it, the end of what is
    /// in use; in versions that have such a stack.
    pub(super) stack_chunk: Option<usize>,
    /// `PyThreadState`: the innermost frame, or a `_PyCFrame` that has it.
    pub(super) innermost: usize,
    /// `PyThreadState`: the frame that ends the list, in versions that have it.
    pub(super) base_frame: Option<usize>,
    /// `_PyCFrame`: the innermost frame, in versions that have this structure.
    pub(super) in_cframe: Option<usize>,
    /// The frame: number of bytes of it that are read, and its fields.
    pub(super) frame_bytes: usize,
    pub(super) code: usize,
    /// Bits of the field `code` that are no part of the address.
    pub(super) code_tag: u64,
    pub(super) previous: usize,
    pub(super) instruction: InstructionField,
    /// The owner of the frame's memory, in versions where that is not always the heap.
    pub(super) owner: Option<usize>,
    pub(super) loop_end: LoopEnd,
    /// `PyCodeObject`.
    pub(super) first_line: usize,
    pub(super) file_name: usize,
    /// The qualified name, or the plain one in versions without (up to 3.10).
    pub(super) name: usize,
    pub(super) line_table: usize,
    pub(super) line_format: LineFormat,
    /// Start of the characters of a `str`, if all are ASCII and otherwise.
    pub(super) ascii: usize,
    pub(super) characters: usize,
}

/// Maximum number of bytes of a frame that are read.
pub(super) const FRAME_BYTES: usize = 112;
/// Number of bytes of a thread's state that are read.
pub(super) const THREAD_BYTES: usize = 320;
/// Number of bytes of a code object that are read.
pub(super) const CODE_BYTES: usize = 144;
/// Offset of an object's type, in every version that is read.
pub(super) const TYPE: usize = 8;

const CPYTHON_3_8: StructLayout = StructLayout {
    first_interpreter: 0x20,
    next_interpreter: 0,
    first_thread: 0x8,
    next_thread: 0x8,
    thread: ThreadField::Descriptor(0xb0),
    stack_chunk: None,
    innermost: 0x18,
    base_frame: None,
    in_cframe: None,
    frame_bytes: 0x6c,
    code: 0x20,
    code_tag: 0,
    previous: 0x18,
    instruction: InstructionField::Bytes(0x68),
    owner: None,
    loop_end: LoopEnd::EachFrame,
    first_line: 0x28,
    file_name: 0x68,
    name: 0x70,
    line_table: 0x78,
    line_format: LineFormat::Increments,
    ascii: 0x30,
    characters: 0x48,
};

const CPYTHON_3_10: StructLayout = StructLayout {
    frame_bytes: 0x64,
    instruction: InstructionField::Index(0x60),
    line_format: LineFormat::Ranges,
    ..CPYTHON_3_8
};

const CPYTHON_3_11: StructLayout = StructLayout {
    first_interpreter: 0x28,
    next_interpreter: 0,
    first_thread: 0x10,
    next_thread: 0x8,
    thread: ThreadField::KernelId(0xa0),
    stack_chunk: Some(0x128),
    innermost: 0x38,
    base_frame: None,
    in_cframe: Some(0x8),
    frame_bytes: 72,
    code: 0x20,
    code_tag: 0,
    previous: 0x30,
    instruction: InstructionField::Address { field: 0x38, units: 0xb8 },
    owner: Some(0x45),
    loop_end: LoopEnd::Flag(0x44),
    first_line: 0x48,
    file_name: 0x70,
    name: 0x80,
    line_table: 0x88,
    line_format: LineFormat::Locations,
    ascii: 0x30,
    characters: 0x48,
};

const CPYTHON_3_12: StructLayout = StructLayout {
    first_thread: 0x48,
    thread: ThreadField::KernelId(0x90),
    stack_chunk: Some(0xe8),
    in_cframe: Some(0),
    code: 0,
    previous: 0x8,
    instruction: InstructionField::Address { field: 0x38, units: 0xc0 },
    owner: Some(0x46),
    loop_end: LoopEnd::Shim,
    first_line: 0x44,
    ascii: 0x28,
    characters: 0x38,
    ..CPYTHON_3_11
};

impl StructLayout {
    /// Returns the layout of a version that does not publish it. `None` if the version is not known.
    pub(super) fn of(version: (u8, u8)) -> Option<StructLayout> {
        match version {
            (3, 8 | 9) => Some(CPYTHON_3_8),
            (3, 10) => Some(CPYTHON_3_10),
            (3, 11) => Some(CPYTHON_3_11),
            (3, 12) => Some(CPYTHON_3_12),
            _ => None,
        }
    }

    /// Returns whether every field lies in what is read of its structure.
    pub(super) fn is_within_limits(&self) -> bool {
        let (ThreadField::KernelId(thread) | ThreadField::Descriptor(thread)) = self.thread;
        let chunk = self.stack_chunk.map_or(0, |chunk| chunk.saturating_add(8));
        let (instruction, bytes) = match self.instruction {
            InstructionField::Address { field, .. } => (field, 8),
            InstructionField::Index(field) | InstructionField::Bytes(field) => (field, 4),
        };
        let flag = if let LoopEnd::Flag(flag) = self.loop_end { flag } else { 0 };
        let is_in = |size: usize, field: usize, bytes: usize| field.checked_add(bytes).is_some_and(|end| end <= size);
        self.frame_bytes <= FRAME_BYTES
            && [thread, chunk, self.innermost, self.next_thread, self.base_frame.unwrap_or(0)]
                .iter()
                .all(|&field| is_in(THREAD_BYTES, field, 8))
            && [self.code, self.previous].iter().all(|&field| is_in(self.frame_bytes, field, 8))
            && is_in(self.frame_bytes, instruction, bytes)
            && [self.owner.unwrap_or(0), flag].iter().all(|&field| is_in(self.frame_bytes, field, 1))
            && [self.file_name, self.name, self.line_table].iter().all(|&field| is_in(CODE_BYTES, field, 8))
            && is_in(CODE_BYTES, self.first_line, 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_lies_in_what_is_read() {
        for layout in [CPYTHON_3_8, CPYTHON_3_10, CPYTHON_3_11, CPYTHON_3_12] {
            assert!(layout.is_within_limits(), "{layout:?}");
        }
        assert!(!StructLayout { previous: 105, ..CPYTHON_3_8 }.is_within_limits());
        assert!(!StructLayout { stack_chunk: Some(usize::MAX), ..CPYTHON_3_11 }.is_within_limits());
        assert!(!StructLayout { name: usize::MAX - 3, ..CPYTHON_3_11 }.is_within_limits());
    }
}

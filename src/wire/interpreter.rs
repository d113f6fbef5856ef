//! Frames of an interpreter (CPython) on native stacks: the words that stand for them in a stack,
//! the functions to which they refer, and what became of them.
//!
//! A stack is a list of words, leaf first. A native frame is a packed
//! [`FrameAddress`](super::FrameAddress), below 2^58. A frame of the interpreter is a word with the
//! highest bit set. Those that one native frame of the interpreter's loop evaluates come right
//! before it. This is the stack of `f` in `sorted(rows, key=f)` in `main`:
//!
//! ```text
//! f | eval loop | list_sort | builtin_sorted | vectorcall | main | eval loop | Py_RunMain …
//! ```
//!
//! Here `f` and `main` are words of the interpreter. A reader that does not want them leaves them
//! out and has the native stack.

/// The bit that tells frames of an interpreter from native frames.
const INTERPRETED: u64 = 1 << 63;
/// Number of bits of an instruction's offset, in code units.
pub const OFFSET_BITS: u32 = 18;
/// The offset of an instruction that is not known or is too large.
pub const UNKNOWN_OFFSET: u32 = (1 << OFFSET_BITS) - 1;

/// Returns whether a word of a stack is a frame of an interpreter.
pub fn is_interpreted(word: u64) -> bool {
    word & INTERPRETED != 0
}

/// A frame of an interpreter in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterpreterFrame {
    /// The [`InterpreterFunction::id`].
    pub function: u32,
    /// Offset of the instruction in code units (of 2 bytes), or [`UNKNOWN_OFFSET`].
    pub offset: u32,
}

impl InterpreterFrame {
    /// Packs the frame into a word of a stack.
    pub fn pack(self) -> u64 {
        INTERPRETED | u64::from(self.function) << OFFSET_BITS | u64::from(self.offset.min(UNKNOWN_OFFSET))
    }

    /// The inverse of [`pack`](Self::pack); `None` if the word is a native frame.
    pub fn unpack(word: u64) -> Option<InterpreterFrame> {
        let frame = InterpreterFrame { function: (word >> OFFSET_BITS) as u32, offset: word as u32 & UNKNOWN_OFFSET };
        is_interpreted(word).then_some(frame)
    }
}

/// The encoding of a [line table](InterpreterFunction::line_table).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LineFormat {
    /// `co_linetable` of CPython 3.11 and later (`Objects/locations.md`).
    Locations = 0,
    /// `co_lnotab` of CPython up to 3.9 (`Objects/lnotab_notes.txt`): pairs of an increment of the
    /// offset in bytes, and one of the line.
    Increments = 1,
    /// `co_linetable` of CPython 3.10: the same, but a pair is a range and the line of it.
    Ranges = 2,
}

impl LineFormat {
    /// All formats in wire order.
    pub const ALL: [LineFormat; 3] = [LineFormat::Locations, LineFormat::Increments, LineFormat::Ranges];

    /// The format with this number on the wire, if there is one.
    pub fn from_wire(byte: u8) -> Option<LineFormat> {
        LineFormat::ALL.get(byte as usize).copied()
    }
}

/// A function of an interpreter. `B` is as in [`Hello`](super::Hello).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterpreterFunction<B> {
    /// Id of the function, never reused in this connection.
    pub id: u32,
    /// The line at which its source begins.
    pub first_line: u32,
    /// Qualified name, such as `Handler.handle`, in UTF-8.
    pub name: B,
    /// Path of the source file as the interpreter was given it, in UTF-8.
    pub file: B,
    /// Encoding of `line_table`.
    pub line_format: LineFormat,
    /// The lines of its instructions.
    pub line_table: B,
}

/// The threads whose interpreter's frames can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameAccess {
    /// No thread's: the layout of this version is not known.
    #[default]
    Nobody = 0,
    /// All threads'.
    All = 1,
    /// Sleeping threads' alone. Handlers make no system calls under a seccomp filter, and nothing
    /// else tells them what memory can be read.
    Sleeping = 2,
}

impl FrameAccess {
    /// All values in wire order.
    pub const ALL: [FrameAccess; 3] = [FrameAccess::Nobody, FrameAccess::All, FrameAccess::Sleeping];

    /// The value with this number on the wire, if there is one.
    pub fn from_wire(byte: u8) -> Option<FrameAccess> {
        FrameAccess::ALL.get(byte as usize).copied()
    }
}

/// The interpreter of a process. The counters are cumulative since the [`Hello`](super::Hello).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interpreter {
    /// Major version of CPython.
    pub major: u8,
    /// Minor version of CPython; 0 if it is not known, which is so before 3.8.
    pub minor: u8,
    /// The threads whose frames can be read.
    pub access: FrameAccess,
    /// Number of samples whose stack has frames of the interpreter.
    pub merged: u64,
    /// Number of these samples with a function that was freed before its name could be read.
    pub unnamed: u64,
    /// Number of samples with the interpreter's loop on their stack whose frames could not be read,
    /// or did not match the native stack. They have native frames alone.
    pub unmerged: u64,
}

impl core::fmt::Display for Interpreter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.major, self.minor) {
            (3, 0) => f.write_str("Python before 3.8"),
            (major, minor) => write!(f, "Python {major}.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::FrameAddress;
    use super::*;

    #[test]
    fn a_word_is_either_native_or_interpreted() {
        let frame = InterpreterFrame { function: u32::MAX, offset: 7 };
        assert_eq!(InterpreterFrame::unpack(frame.pack()), Some(frame));
        let long = InterpreterFrame { function: 0, offset: u32::MAX };
        assert_eq!(InterpreterFrame::unpack(long.pack()).map(|frame| frame.offset), Some(UNKNOWN_OFFSET));
        let highest = FrameAddress::Instruction((1 << 57) - 1).pack();
        assert_eq!(InterpreterFrame::unpack(highest), None);
    }
}

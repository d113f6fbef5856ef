//! The wire kept in a file. A recording is what the viewer received, as it received it: played back it gives the same
//! numbers.
//!
//! # The format
//!
//! ```text
//! file    "\x89sigtop\n"  u16 version  u16 zero                                                    12 bytes
//! block   u32 packed length  u32 plain length  u32 CRC-32 of both and of what follows  packed      any number of them
//! ```
//!
//! Numbers of fixed width are little-endian. A block is deflated by itself (RFC 1951) and at most [`MAX_PLAIN`] long; its
//! plain bytes are entries, a kind byte and a body each, whose integers are the wire's varints. The first entry of a
//! recording is an [`About`], the last of a finished one says that it ends there. What is cut off, by SIGKILL or a full
//! disk, can be read up to its last whole block.
//!
//! | kind | body |
//! | --- | --- |
//! | 1 about | version of sigtop, command line, host, flags, pid, clock, engine, period, monotonic and wall time of the start |
//! | 2 said | source, pid, time of arrival, a message of the [wire](super::wire), kind and body, with its length |
//! | 3 closed, 4 cut | source, pid, time of arrival, and for a cut the kind of its cause and a number |
//! | 5 now | time that has passed without anything else |
//! | 6 names | file (path, build id, device, inode), what was found of it, and the functions at each of some addresses |
//! | 7 cpu | CPU time of the target, and user and system share of the last second |
//! | 8 ended | how the target ended, and when |
//! | 9 stacks | the numbers of stacks begin anew |
//! | 10 end | nothing: the recording is whole |
//! | 128… sample | see [`SAMPLE`] |
//!
//! A stack is written once, as its difference to the one before, and has a number from then on: a steady program costs some
//! ten bytes a sample. Times are differences to the entry before.
//!
//! Written by [`Encoder`], read by [`Blocks`] and [`Decoder`]. The bytes are as hostile as a socket's.

mod block;
mod reading;
mod stacks;
#[cfg(test)]
mod tests;
mod writing;

use std::fmt;
use std::io;

pub use block::{Block, Blocks, HEAD_BYTES, head, pack_again};
pub use reading::Decoder;
pub use writing::Encoder;

use super::wire::{Arrival, Clock, Engine, Malformed, Sample, SourceId};

/// First bytes of a recording. The first is none of ASCII, and the last shows what a text transfer did to line ends.
pub const MAGIC: [u8; 8] = *b"\x89sigtop\n";
/// Of this format, with the wire of this sigtop inside.
pub const VERSION: u16 = 1;
/// Bytes of a block's entries, at most.
pub const MAX_PLAIN: usize = 1 << 20;
/// Bytes of entries from which on a block is closed.
pub const FULL: usize = 1 << 16;
/// Stacks that have a number, at most; then numbers begin anew.
pub const MAX_STACKS: usize = 1 << 18;
/// Frames of these, at most.
pub const MAX_STACK_FRAMES: usize = 1 << 24;
/// Bytes of a text, at most; a longer one is cut.
pub const MAX_TEXT: usize = 4096;
/// Functions at one address, at most: calls inlined into one another.
pub const MAX_LINES: usize = 64;
/// Streams open at once, at most: four times the agents that a viewer listens to.
const MAX_SOURCES: usize = 4096;
/// Addresses in one entry of names, at most.
pub const MAX_ADDRESSES: usize = 4096;
/// Bytes of one entry of names from which on the next is begun.
const NAMES_BYTES: usize = 1 << 15;

const _: () = assert!(FULL + NAMES_BYTES + MAX_LINES * (3 * MAX_TEXT + 16) + super::wire::MAX_MESSAGE <= MAX_PLAIN);

/// Kinds of entries.
mod kind {
    pub(super) const ABOUT: u8 = 1;
    pub(super) const SAID: u8 = 2;
    pub(super) const CLOSED: u8 = 3;
    pub(super) const CUT: u8 = 4;
    pub(super) const NOW: u8 = 5;
    pub(super) const NAMES: u8 = 6;
    pub(super) const CPU: u8 = 7;
    pub(super) const ENDED: u8 = 8;
    pub(super) const STACKS: u8 = 9;
    pub(super) const END: u8 = 10;
}

/// The bit that makes a kind a sample. Its other bits say what follows, in this order, because it is not as with the last
/// sample; then come the thread (difference to the last of its source), the number of the stack unless it is new, the
/// target's time (difference), and how much later it came (difference).
pub const SAMPLE: u8 = 0x80;

/// What follows in a sample.
mod with {
    /// Source and pid.
    pub(super) const SOURCE: u8 = 1;
    /// Clock, flags and module generation.
    pub(super) const SETTING: u8 = 2;
    /// Weight.
    pub(super) const WEIGHT: u8 = 4;
    /// A new stack: how many of the outermost frames of the last sample's stack stay, how many are new, and these.
    pub(super) const STACK: u8 = 8;
    /// All of them.
    pub(super) const ALL: u8 = SOURCE | SETTING | WEIGHT | STACK;
}

/// What was recorded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Version of the sigtop that wrote it.
    pub version: String,
    /// The command as launched, or the command line of the process attached to.
    pub command: String,
    /// Where it ran.
    pub host: String,
    /// Whether names are in the recording.
    pub names: bool,
    /// Whether the target was launched.
    pub launched: bool,
    /// Process launched or attached to.
    pub pid: u32,
    /// Asked for at the start.
    pub clock: Clock,
    /// Asked for at the start.
    pub engine: Engine,
    /// Asked for at the start, ns; 0 when nobody knows.
    pub period_ns: u64,
    /// Start of the watch, on the recorder's `CLOCK_MONOTONIC`, ns: what times of arrival are on too.
    pub started_ns: u64,
    /// The same in UTC, ns since 1970.
    pub started_unix_ns: u64,
    /// What a profile of somebody else's says of its own making, as far as it does; of such a one `engine` means nothing.
    pub origin: Option<String>,
}

/// What a recording holds, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<'a> {
    /// What it is. The first.
    About(About),
    /// Anything but a sample that came from an agent.
    Arrived(Arrival),
    /// A sample.
    Sampled(Sampled<'a>),
    /// Names of addresses.
    Named(Named),
    /// The target's CPU time.
    Cpu(Cpu),
    /// The target has ended.
    Ended {
        /// When, ns.
        at_ns: u64,
        /// How.
        how: Ending,
    },
    /// It is so late, ns.
    Now(u64),
    /// The recording is whole.
    End,
}

/// A sample that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled<'a> {
    /// From which stream.
    pub source: SourceId,
    /// The process, in the recorder's pid namespace.
    pub pid: u32,
    /// When, on the recorder's `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// All but the stack; the slot, which only the wire needs, is 0.
    pub sample: Sample,
    /// Number of the stack: equal numbers of one recording are equal frames.
    pub stack: u32,
    /// Its frames, [packed](super::wire::FrameAddress::pack), leaf first.
    pub frames: &'a [u64],
}

/// How a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Nobody knows.
    Gone,
}

/// CPU time of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// When, ns.
    pub at_ns: u64,
    /// So far, ns.
    pub used_ns: u64,
    /// Of all watched processes in the last second, percent of one core: user and system.
    pub now: Option<(f32, f32)>,
}

/// A file, as modules name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamedFile {
    /// As the target saw it.
    pub path: Box<[u8]>,
    /// GNU build id; empty when there is none.
    pub build_id: Box<[u8]>,
    /// Of the file.
    pub device: u64,
    /// Of the file.
    pub inode: u64,
}

/// What was found of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Symbols so far; more is to come.
    Reading,
    /// Symbols and line tables.
    Lines,
    /// Symbols.
    Symbols,
    /// What it exports.
    Exports,
    /// Nothing, and why.
    Missing(String),
}

/// Names of addresses of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which file.
    pub file: NamedFile,
    /// What was found of it.
    pub found: Found,
    /// The file's own addresses, and the functions there, innermost first; none where there is no name.
    pub addresses: Vec<(u64, Vec<NamedLine>)>,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLine {
    /// Full name.
    pub full: String,
    /// Short name.
    pub short: String,
    /// Source file; empty when unknown.
    pub file: String,
    /// Source line; 0 when unknown.
    pub line: u32,
    /// Whether it was inlined into the next.
    pub inlined: bool,
}

/// Why there is no more to read.
#[derive(Debug)]
pub enum RecordError {
    /// It does not begin as a recording does.
    NotARecording,
    /// It was written by another version of sigtop.
    Version(u16),
    /// It ends inside of a block or without its end: these many bytes are whole.
    CutOff {
        /// Bytes of all whole blocks, and the head.
        whole_bytes: u64,
    },
    /// A block is damaged.
    Damaged {
        /// Where it begins, bytes from the start.
        at_bytes: u64,
    },
    /// A block is whole, and what it says makes no sense.
    Malformed {
        /// Where it begins, bytes from the start.
        at_bytes: u64,
        /// What is wrong.
        fault: Malformed,
    },
    /// It could not be read.
    Io(io::Error),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::NotARecording => write!(f, "is not a recording of sigtop"),
            RecordError::Version(version) if *version > VERSION => {
                write!(f, "was written by a newer sigtop (format {version}, this one reads {VERSION}): update sigtop")
            }
            RecordError::Version(version) => {
                write!(f, "was written by an older sigtop (format {version}, this one reads {VERSION})")
            }
            RecordError::CutOff { whole_bytes } => write!(
                f,
                "was cut off after {whole_bytes} bytes (its recorder was killed, or the disk was full): what was \
                 recorded before is here"
            ),
            RecordError::Damaged { at_bytes } => {
                write!(f, "is damaged at byte {at_bytes} (the checksum is wrong): what was recorded before is here")
            }
            RecordError::Malformed { at_bytes, fault } => {
                write!(f, "makes no sense at byte {at_bytes} ({fault}): what was recorded before is here")
            }
            RecordError::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for RecordError {}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> RecordError {
        RecordError::Io(error)
    }
}

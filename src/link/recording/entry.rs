//! The entries of a recording as values.

use crate::wire::{Arrival, Clock, Engine, Sample, SourceId};

/// Description of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingInfo {
    /// Version of the sigtop that wrote the recording.
    pub version: String,
    /// The command as launched, or the command line of the process attached to.
    pub command: String,
    /// Name of the host.
    pub host: String,
    /// `true` if the recording holds symbols.
    pub names: bool,
    /// `true` if the target was launched.
    pub launched: bool,
    /// Process launched or attached to.
    pub pid: u32,
    /// Clock requested at the start.
    pub clock: Clock,
    /// Engine requested at the start.
    pub engine: Engine,
    /// Sampling period requested at the start, ns; 0 if it is not known.
    pub period_ns: u64,
    /// Start of the session on the recorder's `CLOCK_MONOTONIC`, ns. Times of arrival are on the
    /// same clock.
    pub started_ns: u64,
    /// Start of the session in UTC, ns since 1970.
    pub started_unix_ns: u64,
    /// A description of the original, if the recording was made from another tool's profile.
    /// `engine` has no meaning then.
    pub origin: Option<String>,
    /// Kernel and processors of the host, such as `Linux 6.8.0 x86_64, 8 CPUs`; empty if unknown.
    pub kernel: String,
}

/// An entry of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordingEntry<'a> {
    /// The description of the recording. The first entry.
    Info(RecordingInfo),
    /// An event of a connection other than a sample.
    Event(Arrival),
    /// A sample.
    Sample(RecordedSample<'a>),
    /// Functions at addresses of a file.
    Symbols(FileSymbols),
    /// The target's CPU time.
    Cpu(CpuReading),
    /// CPU time that was not sampled.
    Unsampled(UnsampledReading),
    /// The target has ended.
    Exited {
        /// Time of the end, ns.
        at_ns: u64,
        /// Kind of the end.
        exit: TargetExit,
    },
    /// The current time, ns.
    Time(u64),
    /// The connection comes from another recording, with which others are merged.
    Merged {
        /// The connection, which has not introduced itself yet.
        source: SourceId,
        /// The name of the recording.
        name: String,
    },
    /// The end of a complete recording.
    End,
}

/// A received sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSample<'a> {
    /// Connection it came from.
    pub source: SourceId,
    /// The process, in the recorder's pid namespace.
    pub pid: u32,
    /// Time of arrival on the recorder's `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// The sample without its stack. Its slot, which only the wire needs, is 0.
    pub sample: Sample,
    /// Number of the stack: within a recording, equal numbers mean equal frames.
    pub stack: u32,
    /// The frames, [packed](crate::wire::FrameAddress::pack), leaf first.
    pub frames: &'a [u64],
}

/// The way a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetExit {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It was not a child of the viewer: the status is not known.
    Gone,
}

impl TargetExit {
    /// The exit status that a shell reports: the status, 128 plus the signal number, or 0 where the
    /// status is not known.
    pub fn exit_status(self) -> u8 {
        match self {
            TargetExit::Exited(status) => status as u8,
            TargetExit::Killed(signal) => 128u8.saturating_add(signal as u8),
            TargetExit::Gone => 0,
        }
    }
}

/// CPU time of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuReading {
    /// Time of the reading, ns.
    pub at_ns: u64,
    /// CPU time used so far, ns.
    pub used_ns: u64,
    /// User and system time of all watched processes in the last second, in percent of one CPU.
    pub now: Option<(f32, f32)>,
}

/// CPU time without samples, as seen from outside. The last reading holds.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsampledReading {
    /// Time of the reading, ns.
    pub at_ns: u64,
    /// CPU time that is neither in samples nor in the counted losses, ns.
    pub uncounted_ns: u64,
    /// CPU time that was reported as not sampled, with the part that agents have counted, ns.
    pub ns: u64,
    /// Fraction of all CPU time that was reported as not sampled; 0 if nothing was reported.
    pub share: f64,
    /// The reported reason; empty if there was none.
    pub reason: String,
}

/// A file, as modules identify it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedFile {
    /// Path as the target saw it.
    pub path: Box<[u8]>,
    /// GNU build id; empty if there is none.
    pub build_id: Box<[u8]>,
    /// Device of the file.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
}

/// The kinds of symbols that could be read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolStatus {
    /// Symbols so far; the file is still being read.
    Reading,
    /// Symbols and line tables.
    Lines,
    /// Symbols.
    Symbols,
    /// Exported symbols.
    Exports,
    /// No symbols, with the reason.
    Missing(String),
}

/// Functions at addresses of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSymbols {
    /// The file.
    pub file: RecordedFile,
    /// The kind of its symbols.
    pub status: SymbolStatus,
    /// Addresses within the file and the functions there, innermost first. The list of functions is
    /// empty where no symbol covers the address.
    pub addresses: Vec<(u64, Vec<RecordedFunction>)>,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFunction {
    /// Full name.
    pub full: String,
    /// Short name.
    pub short: String,
    /// Source file; empty if it is not known.
    pub file: String,
    /// Source line; 0 if it is not known.
    pub line: u32,
    /// `true` if the function is inlined into the next one.
    pub inlined: bool,
}

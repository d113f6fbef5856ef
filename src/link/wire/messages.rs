//! What is said: the messages of both ends, as values. How they are written is `writing`, how they are read `reading`.

use alloc::boxed::Box;

use super::{MAX_MESSAGE, VERSION};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Clock {
    /// CPU time, user and system.
    Prof = 0,
    /// Wall time, of sleeping threads too.
    Real = 1,
    /// User CPU time.
    Virtual = 2,
}

/// Who ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Engine {
    /// A POSIX timer for each thread.
    Threads = 0,
    /// The classic `setitimer(2)`: one timer for the process.
    Itimer = 1,
}

/// What the agent did with the last [`Engage`](Request::Engage).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EngineState {
    /// Nothing is armed.
    Off = 0,
    /// Timers are armed and signals can reach the handler.
    Running = 1,
    /// The target has a handler of its own for every signal that could be used.
    SignalTaken = 2,
    /// The target uses this interval timer itself.
    TimerTaken = 3,
    /// This clock cannot be had with this engine.
    Unsupported = 4,
    /// The kernel refused every timer (RLIMIT_SIGPENDING, seccomp).
    TimerRefused = 5,
    /// A profile is being written into a file by another clock (`CPUPROFILE`, `ProfilerStart`).
    ClockTaken = 6,
}

/// Why an agent was born.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Birth {
    /// By the first CPU tick of a launched process.
    Tick = 0,
    /// By a viewer's knock.
    Knock = 1,
}

/// Ways to lose a tick. Each has its own counter in an [`Account`], and its place on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Loss {
    /// The ring between handlers and agent thread was full.
    RingFull = 0,
    /// More handlers ran at once than there are slots.
    NoSlot = 1,
    /// The tick came before the agent could keep it.
    NotReady = 2,
    /// The viewer did not read fast enough: the socket was full.
    SocketFull = 3,
    /// A thread could not be given a timer.
    NoTimer = 4,
    /// CPU time that the process used and no tick stood for: threads that ended before one, or that block the signal. In periods.
    Unseen = 5,
}

impl Loss {
    /// All of them, in wire order.
    pub const ALL: [Loss; 6] =
        [Loss::RingFull, Loss::NoSlot, Loss::NotReady, Loss::SocketFull, Loss::NoTimer, Loss::Unseen];
}

/// Bits of [`Sample::flags`].
pub mod flag {
    /// The stack does not reach the thread's first frame.
    pub const TRUNCATED: u32 = 1;
    /// A signal handler of the target is on the stack.
    pub const SIGNAL_FRAME: u32 = 2;
    /// The thread has not run since its last sample: counted again, not interrupted.
    pub const REPEAT: u32 = 4;
    /// The stack could not be read: nothing but the leaf.
    pub const UNREADABLE: u32 = 8;
}

/// An address on a stack, and which kind it is: the call of a return address lies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameAddress {
    /// The instruction that was interrupted.
    Instruction(u64),
    /// Where a callee returns to.
    Return(u64),
}

impl FrameAddress {
    /// An address inside of the instruction meant: the one place where a return address loses its 1.
    pub fn lookup(self) -> u64 {
        match self {
            FrameAddress::Instruction(address) => address,
            FrameAddress::Return(address) => address.saturating_sub(1),
        }
    }

    /// As one word: user addresses have 47 bits (57 with 5-level paging), so the kind takes the lowest bit.
    pub fn pack(self) -> u64 {
        match self {
            FrameAddress::Instruction(address) => address << 1 | 1,
            FrameAddress::Return(address) => address << 1,
        }
    }

    /// The inverse of [`pack`](Self::pack).
    pub fn unpack(word: u64) -> FrameAddress {
        if word & 1 == 1 { FrameAddress::Instruction(word >> 1) } else { FrameAddress::Return(word >> 1) }
    }
}

/// The agent introduces itself and its process. `B` is `&[u8]` where it is written, `Box<[u8]>` where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<B> {
    /// From [`LINK_VARIABLE`](super::LINK_VARIABLE); 0 when born by a knock without one.
    pub token: u64,
    /// In the target's own pid namespace.
    pub pid: u32,
    /// Parent, likewise.
    pub parent: u32,
    /// Start of the process, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
    /// `CLOCK_MONOTONIC` of the target as it wrote this, ns.
    pub monotonic_ns: u64,
    /// CPU time of the process so far, ns.
    pub cpu_ns: u64,
    /// Why the agent was born.
    pub birth: Birth,
    /// Target of `/proc/self/exe`.
    pub executable: B,
    /// Arguments, each ended by a NUL, cut at [`MAX_ARGV`](super::MAX_ARGV).
    pub argv: B,
}

/// A file (or the vdso) mapped with execute permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module<B> {
    /// Of this mapping, never used again in this connection.
    pub id: u32,
    /// First module generation in which samples may lie in it.
    pub generation: u32,
    /// Lowest address of its mappings.
    pub start: u64,
    /// One past the highest.
    pub end: u64,
    /// What is added to an address of the file to give an address of the process (wrapping).
    pub bias: u64,
    /// Of the file.
    pub device: u64,
    /// Of the file.
    pub inode: u64,
    /// Of the file, as the target sees it; `[vdso]` for the vdso.
    pub path: B,
    /// GNU build id; empty when there is none.
    pub build_id: B,
}

/// A module that is no longer mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unload {
    /// [`Module::id`].
    pub id: u32,
    /// First generation without it.
    pub generation: u32,
}

/// A thread, when it is first seen and when its name changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread<B> {
    /// Thread id in the target's pid namespace.
    pub tid: u32,
    /// Its name (comm).
    pub name: B,
}

/// A tick that found its stack. The stack itself is in the [`StackMemory`](super::StackMemory), at [`slot`](Self::slot).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Thread that ran (or waited).
    pub tid: u32,
    /// Which clock ticked.
    pub clock: Clock,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Module generation in which the addresses were read.
    pub generation: u32,
    /// `CLOCK_MONOTONIC` of the target when the agent took it from its ring, ns: at most a drain interval late.
    pub monotonic_ns: u64,
    /// What the sample stands for, ns of its clock: interval × (1 + overrun).
    pub weight_ns: u64,
    /// Where the stack is kept.
    pub slot: u8,
}

/// Counters since the [`Hello`], all cumulative. `ticks` = samples sent + Σ `lost_ticks`, once the ring is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// `CLOCK_MONOTONIC` of the target, ns.
    pub monotonic_ns: u64,
    /// Ticks of ours that reached a handler and were to become samples.
    pub ticks: u64,
    /// Samples written to the socket.
    pub sent: u64,
    /// Ticks lost, by [`Loss`].
    pub lost_ticks: [u64; Loss::ALL.len()],
    /// Their weight, ns, by [`Loss`].
    pub lost_ns: [u64; Loss::ALL.len()],
    /// CPU time of the agent thread, ns.
    pub agent_cpu_ns: u64,
    /// CPU time of the handlers, ns, estimated from their number and depth.
    pub handler_cpu_ns: u64,
    /// CPU time of the whole process, the agent included, ns.
    pub process_cpu_ns: u64,
    /// Threads of the process, without the agent's.
    pub threads: u32,
    /// Threads that have a timer.
    pub timers: u32,
    /// Signals that were not ours and were passed on.
    pub foreign_signals: u64,
}

/// What is in force now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engaged {
    /// Clock in use.
    pub clock: Clock,
    /// Engine in use.
    pub engine: Engine,
    /// How it went.
    pub state: EngineState,
    /// Period as asked, ns.
    pub period_ns: u64,
    /// Signal that the ticks ride on; 0 when off.
    pub signal: u32,
}

/// Everything that an agent says, as the viewer keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First message of a connection.
    Hello(Hello<Box<[u8]>>),
    /// Modules come before the first sample of their generation.
    Module(Module<Box<[u8]>>),
    /// A module is gone.
    Unload(Unload),
    /// A thread or its new name.
    Thread(Thread<Box<[u8]>>),
    /// A thread has ended.
    ThreadEnd {
        /// Thread id.
        tid: u32,
    },
    /// A tick and its stack: frames, [packed](FrameAddress::pack), leaf first.
    Sample(Sample, Box<[u64]>),
    /// Counters, about once a second and last of all.
    Account(Account),
    /// Answer to an [`Engage`](Request::Engage).
    Engaged(Engaged),
    /// Another viewer watches already; the agent hangs up.
    Busy {
        /// Its pid, as the target sees it.
        viewer: u32,
    },
}

/// Which stream of messages one belongs to: a connection, counted from 0, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// Something that came from one agent. This is what a recording keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// From which stream.
    pub source: SourceId,
    /// The process, in the viewer's pid namespace (`SO_PEERCRED`).
    pub pid: u32,
    /// When, on the viewer's `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// What.
    pub event: Event,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message; the first of a source is its Hello.
    Said(Message),
    /// The stream ended: the process ended, executed another program, or its agent left.
    Closed,
    /// The stream was cut because of these bytes.
    Cut(Malformed),
}

/// What a viewer says to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Sample with this clock, engine and period from now on.
    Engage {
        /// Which clock.
        clock: Clock,
        /// Which engine.
        engine: Engine,
        /// Of the clock, ns, in [`PERIODS_NS`](super::PERIODS_NS).
        period_ns: u64,
    },
    /// Disarm and leave; the process stays preloaded and unwatched.
    Leave,
}

/// Bytes that are not a message of this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The frame announces more than [`MAX_MESSAGE`], or nothing.
    Length(u32),
    /// No such kind.
    Kind(u8),
    /// The body ends inside of a field.
    Short,
    /// Bytes are left behind the last field.
    Trailing,
    /// A field has a value outside of its range; its name.
    Field(&'static str),
    /// Not a sigtop agent.
    Magic(u32),
    /// An agent of another version.
    Version(u16),
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Malformed::Length(length) => write!(f, "a message of {length} bytes (limit {MAX_MESSAGE})"),
            Malformed::Kind(kind) => write!(f, "an unknown kind of message ({kind})"),
            Malformed::Short => write!(f, "a message that ends inside of a field"),
            Malformed::Trailing => write!(f, "a message with bytes behind its last field"),
            Malformed::Field(name) => write!(f, "a message whose {name} is out of range"),
            Malformed::Magic(magic) => write!(f, "a stream that is not sigtop's (magic {magic:08x})"),
            Malformed::Version(version) => write!(f, "an agent that speaks version {version}, not {VERSION}"),
        }
    }
}

impl core::error::Error for Malformed {}

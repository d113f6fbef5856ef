//! The messages of both ends as values. `encode` writes them, `decode` reads them.

use alloc::boxed::Box;

use super::deepest_stack::{DeepestStack, StackFrame};
use super::interpreter::{Interpreter, InterpreterFunction};
use super::loss_cause::LossCause;
use super::malformed::Malformed;
use super::protocol::{INTERVALS_BYTES, PERIODS_NS};

/// The time or the memory that samples measure. For clocks of memory, a weight or period in `ns` is a
/// number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Clock {
    /// CPU time, user and system (`ITIMER_PROF`).
    Prof = 0,
    /// Wall-clock time, also of sleeping threads (`ITIMER_REAL`).
    Real = 1,
    /// User CPU time (`ITIMER_VIRTUAL`).
    Virtual = 2,
    /// Allocated bytes.
    Alloc = 3,
    /// Those of the allocated bytes that are not freed yet: a view of the samples of
    /// [`Alloc`](Clock::Alloc), for the viewer alone.
    Live = 4,
}

impl Clock {
    /// All clocks in wire order.
    pub const ALL: [Clock; 5] = [Clock::Prof, Clock::Real, Clock::Virtual, Clock::Alloc, Clock::Live];

    /// The clock that an agent samples for this one.
    pub fn sampled(self) -> Clock {
        if self == Clock::Live { Clock::Alloc } else { self }
    }

    /// Whether the clock measures bytes of memory, not time.
    pub fn is_memory(self) -> bool {
        matches!(self, Clock::Alloc | Clock::Live)
    }

    /// Shortest and longest period that an agent accepts for this clock.
    pub fn periods(self) -> core::ops::RangeInclusive<u64> {
        if self.is_memory() { INTERVALS_BYTES } else { PERIODS_NS }
    }

    /// The clock with this number on the wire.
    pub fn from_wire(byte: u8) -> Result<Clock, Malformed> {
        Clock::ALL.get(byte as usize).copied().ok_or(Malformed::Field("clock"))
    }
}

/// The timers that cause ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Engine {
    /// One POSIX timer per thread.
    Threads = 0,
    /// One `setitimer(2)` timer per process.
    Itimer = 1,
    /// A process beside the target, in the best way that the kernel allows.
    External = 2,
    /// A process beside the target that reads samples of the kernel (`perf_event_open(2)`).
    Events = 3,
    /// A process beside the target that stops its threads for an instant (`ptrace(2)`).
    Ptrace = 4,
}

impl Engine {
    /// All engines in wire order.
    pub const ALL: [Engine; 5] = [Engine::Threads, Engine::Itimer, Engine::External, Engine::Events, Engine::Ptrace];

    /// Whether threads are sampled from outside, without an agent.
    pub fn is_external(self) -> bool {
        matches!(self, Engine::External | Engine::Events | Engine::Ptrace)
    }

    /// The engine with this number on the wire.
    pub fn from_wire(byte: u8) -> Result<Engine, Malformed> {
        Engine::ALL.get(byte as usize).copied().ok_or(Malformed::Field("engine"))
    }
}

/// The result of the last [`Engage`](Request::Engage) request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EngineState {
    /// No timer is armed.
    Off = 0,
    /// Timers are armed, and their signal reaches the handler.
    Running = 1,
    /// The target handles every signal that could be used itself.
    SignalTaken = 2,
    /// The target uses the interval timer itself.
    TimerTaken = 3,
    /// The engine does not support the clock.
    Unsupported = 4,
    /// The kernel refused every timer (RLIMIT_SIGPENDING, seccomp).
    TimerRefused = 5,
    /// A profile is being written to a file (`CPUPROFILE`, `ProfilerStart`) with another clock.
    ClockTaken = 6,
}

impl EngineState {
    /// All states in wire order.
    pub const ALL: [EngineState; 7] = [
        EngineState::Off,
        EngineState::Running,
        EngineState::SignalTaken,
        EngineState::TimerTaken,
        EngineState::Unsupported,
        EngineState::TimerRefused,
        EngineState::ClockTaken,
    ];

    /// The state with this number on the wire.
    pub fn from_wire(byte: u8) -> Result<EngineState, Malformed> {
        EngineState::ALL.get(byte as usize).copied().ok_or(Malformed::Field("engine state"))
    }
}

/// The event that spawned an agent thread, or the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpawnCause {
    /// The first CPU tick of a launched process.
    Tick = 0,
    /// A viewer's wake signal (knock).
    Knock = 1,
    /// There is no agent: a sampler of the viewer speaks for the process.
    External = 2,
}

/// Bits of [`Sample::flags`].
pub mod flag {
    /// The stack does not reach the thread's outermost frame.
    pub const TRUNCATED: u32 = 1;
    /// A signal handler of the target is on the stack.
    pub const SIGNAL_FRAME: u32 = 2;
    /// The thread has not run since its previous sample, whose stack is counted again.
    pub const REPEAT: u32 = 4;
    /// The stack could not be read: it is the leaf alone.
    pub const UNREADABLE: u32 = 8;
    /// The thread is in the wait that was sent last for it.
    pub const WAITS: u32 = 16;
    /// The thread waited for a CPU, about where it ran then.
    pub const RUNNABLE: u32 = 32;
    /// The thread's process was stopped, by a signal, a debugger or the freezer.
    pub const STOPPED: u32 = 64;
    /// The thread waited for a CPU because its control group had used its quota. The viewer adds
    /// this bit to [`RUNNABLE`].
    pub const THROTTLED: u32 = 128;
}

/// An address on a stack and its kind. A return address lies after the call it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameAddress {
    /// The address of the interrupted instruction.
    Instruction(u64),
    /// The address to which a callee returns.
    Return(u64),
}

impl FrameAddress {
    /// An address inside the instruction to look up. Nothing else subtracts 1 from a return
    /// address.
    pub fn lookup(self) -> u64 {
        match self {
            FrameAddress::Instruction(address) => address,
            FrameAddress::Return(address) => address.saturating_sub(1),
        }
    }

    /// Packs address and kind into a word. User addresses have 47 bits (57 with 5-level paging), so
    /// there is room for the kind in the lowest bit.
    pub const fn pack(self) -> u64 {
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

/// Introduces the agent and its process. `B` is `&[u8]` for a message to encode and `Box<[u8]>` for
/// a decoded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<B> {
    /// Token from [`LINK_VARIABLE`](super::LINK_VARIABLE); 0 for an agent spawned by a wake signal
    /// without one.
    pub token: u64,
    /// Process id in the target's own pid namespace.
    pub pid: u32,
    /// Process id of the parent in the same namespace.
    pub parent: u32,
    /// Start time of the process in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
    /// The target's `CLOCK_MONOTONIC` when the message was written, ns.
    pub monotonic_ns: u64,
    /// CPU time of the process so far, ns.
    pub cpu_ns: u64,
    /// The event that spawned the agent thread.
    pub spawn_cause: SpawnCause,
    /// Path of the program's file, or of the link beside it by which it was started.
    pub executable: B,
    /// Arguments, each terminated by a NUL, truncated to [`MAX_ARGV`](super::MAX_ARGV).
    pub argv: B,
}

/// A file (or the vdso) mapped with execute permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module<B> {
    /// Id of the module, never reused in this connection.
    pub id: u32,
    /// First module generation whose samples may refer to it.
    pub generation: u32,
    /// Start address of its lowest mapping.
    pub start: u64,
    /// End address of its highest mapping.
    pub end: u64,
    /// Difference (wrapping) between addresses of the process and addresses of the file.
    pub bias: u64,
    /// Device of the file.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Path of the file as the target sees it. The program's own file has the path of the Hello,
    /// and the vdso is `[vdso]`.
    pub path: B,
    /// GNU build id; empty if there is none.
    pub build_id: B,
}

/// A module that is no longer mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unload {
    /// The [`Module::id`].
    pub id: u32,
    /// First module generation without it.
    pub generation: u32,
}

/// A thread, sent when it is found and when its name changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread<B> {
    /// Thread id in the target's pid namespace.
    pub tid: u32,
    /// Name (comm).
    pub name: B,
}

/// A system call in which a thread sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockingCall {
    /// Its number; `None` outside of a system call, as in a page fault.
    pub number: Option<u32>,
    /// Its first three arguments.
    pub arguments: [u64; 3],
}

/// The wait of a sleeping thread, sent before the first sample of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait<B> {
    /// The thread.
    pub tid: u32,
    /// The system call that it is in.
    pub call: BlockingCall,
    /// Id of the thread of the same process that holds the lock for which it waits; 0 if that is
    /// not known.
    pub holder: u32,
    /// Whether the descriptor for which it waits is one of a regular file.
    pub is_file: bool,
    /// Target of the descriptor's link in `/proc/PID/fd`; empty without a descriptor.
    pub object: B,
}

/// A sample without its stack, which is in the [`StackMemory`](super::StackMemory) at
/// [`slot`](Self::slot).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Thread that ran, or slept.
    pub tid: u32,
    /// Clock of the tick.
    pub clock: Clock,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Module generation to which the addresses belong.
    pub generation: u32,
    /// The target's `CLOCK_MONOTONIC` when the agent drained the sample from its ring, ns. It is at
    /// most a drain interval late.
    pub monotonic_ns: u64,
    /// Time from the tick to `monotonic_ns`, ms; 0 if it is not known.
    pub age_ms: u32,
    /// Time that the sample represents, ns of its clock: period × (1 + overrun). Of an allocation,
    /// the bytes that it represents.
    pub weight_ns: u64,
    /// The allocation, if the sample is one of [`Clock::Alloc`].
    pub allocation: Allocation,
    /// Stack slot.
    pub slot: u8,
}

/// The allocation that was sampled. Samples of other clocks have the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The id by which [`Message::Freed`] refers to it; 0 if its end is not watched. An id is used
    /// again only after its allocation was freed.
    pub id: u32,
    /// Number of allocations that the sample represents.
    pub objects: u32,
}

impl Allocation {
    /// Packs both into a word.
    pub fn pack(self) -> u64 {
        u64::from(self.id) << 32 | u64::from(self.objects)
    }

    /// The inverse of [`pack`](Self::pack).
    pub fn unpack(word: u64) -> Allocation {
        Allocation { id: (word >> 32) as u32, objects: word as u32 }
    }
}

/// Counters of an agent, cumulative since the [`Hello`]. Once the ring is drained, `ticks` equals
/// `sent` plus the sum of `lost_ticks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCounters {
    /// The target's `CLOCK_MONOTONIC`, ns.
    pub monotonic_ns: u64,
    /// Ticks that reached a handler.
    pub ticks: u64,
    /// Samples written to the socket.
    pub sent: u64,
    /// Lost ticks by [`LossCause`].
    pub lost_ticks: [u64; LossCause::ALL.len()],
    /// Weight of the lost ticks by [`LossCause`], ns.
    pub lost_ns: [u64; LossCause::ALL.len()],
    /// Weight of the lost samples of memory by [`LossCause`], bytes.
    pub lost_bytes: [u64; LossCause::ALL.len()],
    /// CPU time of the agent thread, ns.
    pub agent_cpu_ns: u64,
    /// CPU time of the handlers, ns, estimated from the number of ticks and frames.
    pub handler_cpu_ns: u64,
    /// CPU time of the whole process including the agent, ns.
    pub process_cpu_ns: u64,
    /// Number of threads without the agent's.
    pub threads: u32,
    /// Number of threads that have a timer.
    pub timers: u32,
    /// Number of signals that were not ticks and were forwarded to the target's handler.
    pub foreign_signals: u64,
}

impl AgentCounters {
    /// Adds the weight of ticks of a clock that were lost.
    pub fn add_lost_weight(&mut self, cause: LossCause, clock: Clock, weight: u64) {
        let weights = if clock.is_memory() { &mut self.lost_bytes } else { &mut self.lost_ns };
        weights[cause as usize] = weights[cause as usize].saturating_add(weight);
    }
}

/// The configuration in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engaged {
    /// The clock in use.
    pub clock: Clock,
    /// The engine in use.
    pub engine: Engine,
    /// The result of the request.
    pub state: EngineState,
    /// The requested period, ns.
    pub period_ns: u64,
    /// The signal of the ticks; 0 while off.
    pub signal: u32,
}

/// A message of an agent, as the viewer decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message of a connection.
    Hello(Hello<Box<[u8]>>),
    /// A module, sent before the first sample of its generation.
    Module(Module<Box<[u8]>>),
    /// A module was unmapped.
    Unload(Unload),
    /// A new thread, or a new name.
    Thread(Thread<Box<[u8]>>),
    /// A thread has ended.
    ThreadEnd {
        /// Thread id.
        tid: u32,
    },
    /// A sleeping thread waits for something else than before.
    Wait(Wait<Box<[u8]>>),
    /// A sample and its stack: [packed](FrameAddress::pack) frames, leaf first.
    Sample(Sample, Box<[u64]>),
    /// Counters, sent about once a second and as the last message.
    Counters(AgentCounters),
    /// The answer to an [`Engage`](Request::Engage) request.
    Engaged(Engaged),
    /// Another viewer watches the process already. The agent closes the connection.
    Busy {
        /// Pid of that viewer, as the target sees it.
        viewer: u32,
    },
    /// A function of an interpreter, sent before the first sample that has a frame of it.
    Function(InterpreterFunction<Box<[u8]>>),
    /// A deeper stack of a thread was found.
    DeepestStack(DeepestStack<Box<[StackFrame]>>),
    /// The interpreter of the process, sent when one is found and with the counters.
    Interpreter(Interpreter),
    /// A sampled allocation was freed, or a part of a mapping was.
    Freed {
        /// The [`Allocation::id`].
        id: u32,
        /// The part of the whole allocation that is in use still, in units of 2^-32. It is 0 if the
        /// allocation has ended, and its id may be used again.
        left: u32,
    },
}

/// Number of a connection, counted from 0 and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// An event of a connection and its time of arrival. A recording stores these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The connection.
    pub source: SourceId,
    /// The process that the messages are about, in the viewer's pid namespace: the one at the other
    /// end (`SO_PEERCRED`), or the one that the viewer's sampler watches.
    pub pid: u32,
    /// Time of arrival on the viewer's `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// The event.
    pub event: ConnectionEvent,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A message arrived. The first one of a connection is its Hello.
    Received(Message),
    /// The agent closed the connection: the process ended or executed another program, or the agent
    /// left.
    Closed,
    /// The viewer closed the connection because of malformed bytes.
    Aborted(Malformed),
}

/// A request of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Sample with this clock, engine and period.
    Engage {
        /// The clock.
        clock: Clock,
        /// The engine.
        engine: Engine,
        /// The period, ns of the clock or bytes, within [`Clock::periods`].
        period_ns: u64,
        /// Maximum number of samples of memory of a thread in a second; 0 if there is none.
        per_second: u32,
        /// Whether the process was sampled from outside until now: its time before is not missed.
        is_continued: bool,
    },
    /// Disarm all timers and disconnect. The agent stays loaded.
    Leave,
}

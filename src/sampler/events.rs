//! The messages between the two threads of the sampler. The tracer stops threads and copies their
//! stacks; the walker unwinds the copies and speaks to the viewer.

use super::stack_copy::StackCopy;
use crate::process::cpython::frames::{CPython, FrameList};
use crate::process::unwind::ThreadRegisters;
use crate::wire::{BlockingCall, Clock, Engine, LossCause};

/// Maximum number of samples that wait for the walker. Further ones are lost and counted.
pub(super) const MAX_QUEUED: usize = 256;

/// One process image: a process from its start, or an exec, to its end or the next exec. The number
/// is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ImageId(pub(super) u32);

/// The sampling that the viewer has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SamplerConfig {
    /// The clock.
    pub(super) clock: Clock,
    /// The period, ns.
    pub(super) period_ns: u64,
}

/// The start of a process image.
#[derive(Clone, Debug)]
pub(super) struct ImageStart {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) start_ticks: u64,
    /// CPU time of the process so far, ns.
    pub(super) cpu_ns: u64,
    /// The engine that samples it: events or ptrace.
    pub(super) engine: Engine,
    /// The process whose memory it has, if it has been made while that was watched.
    pub(super) maker: Option<u32>,
}

/// The stack of a sample.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the largest kind, and registers are many on some processors")]
pub(super) enum SampledStack {
    /// Registers, a copy of the stack, and the frames of the interpreter if there are any.
    Copied(ThreadRegisters, StackCopy, Option<Box<FrameList>>),
    /// The thread was somewhere in the kernel, which does not tell more to this user.
    Kernel,
    /// The thread has not run since its last sample, and has the same stack.
    Repeated,
}

/// A sample whose stack was not walked yet.
#[derive(Debug)]
pub(super) struct UnwalkedSample {
    pub(super) tid: u32,
    pub(super) clock: Clock,
    pub(super) weight_ns: u64,
    /// Time of the sample on `CLOCK_MONOTONIC`, ns.
    pub(super) monotonic_ns: u64,
    pub(super) stack: SampledStack,
    /// Addresses of the kernel's functions in which the thread was, leaf first.
    pub(super) kernel: Vec<u64>,
    pub(super) state: SampledState,
}

/// The state of a thread in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampledState {
    /// It ran.
    Running,
    /// It ran in the function that made the system call at whose end it stopped.
    BeforeCall,
    /// It waited for a CPU, about where it ran then.
    Runnable,
    /// It slept, and since its stack was copied in this system call.
    Asleep(Option<BlockingCall>),
}

/// The tracer's counters of one image, cumulative.
#[derive(Clone, Debug, Default)]
pub(super) struct TracerCounters {
    pub(super) lost_ticks: [u64; LossCause::ALL.len()],
    pub(super) lost_ns: [u64; LossCause::ALL.len()],
    /// Time for which threads were stopped, ns.
    pub(super) stopped_ns: u64,
    /// CPU time of the process, ns.
    pub(super) process_cpu_ns: u64,
    /// Number of threads.
    pub(super) threads: u32,
}

/// A message of the tracer to the walker, about one image.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the largest kind, and registers are many on some processors")]
pub(super) enum TracerEvent {
    Started(ImageStart),
    Thread {
        tid: u32,
    },
    ThreadEnded {
        tid: u32,
    },
    /// The kernel tells the name of a thread, which may have ended since.
    ThreadNamed {
        tid: u32,
        name: Vec<u8>,
    },
    /// The process has mapped code.
    Mapped,
    Sample(UnwalkedSample),
    Counters(TracerCounters),
    /// The process has ended, or executed another program.
    Ended,
}

/// A message of the walker to the tracer.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few messages")]
pub(super) enum WalkerRequest {
    /// Sample in this way from now on.
    Configure(SamplerConfig),
    /// The viewer does not want this image.
    Leave(ImageId),
    /// The connection of this image is lost.
    Reconnect(ImageId),
    /// The process has this interpreter now, or none any more.
    Interpret { image: ImageId, cpython: Option<CPython> },
    /// The copies of this thread's stack end too early, or lack a part behind a large frame, which
    /// is around this address.
    CopyMore { image: ImageId, tid: u32, around: Option<u64> },
}

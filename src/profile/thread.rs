//! Sampled threads of all processes.

use super::ids::ProcessId;
pub use super::ids::ThreadId;
use super::stack::FrameId;

/// The scheduler's state of a thread, as last read from `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadState {
    /// It runs or waits for a CPU.
    Running,
    /// It is in uninterruptible sleep, such as waiting for a disk.
    Waiting,
    /// It is in interruptible sleep.
    Sleeping,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It runs or sleeps in the kernel alone, for io_uring, where nothing of it is sampled.
    IoUring,
    /// The state was never read.
    #[default]
    Unknown,
    /// It has ended.
    Ended,
}

/// A thread of a watched process.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The thread's process.
    pub process: ProcessId,
    /// Thread id as the target sees it.
    pub tid: u32,
    /// The latest name. It may hold any bytes but NUL.
    pub name: String,
    /// Whether the thread has ended.
    pub ended: bool,
    /// The last known state before the thread ended.
    pub state: ThreadState,
    /// Its deepest stack so far, if one was measured.
    pub deepest: Option<StackUse>,
}

/// The deepest stack of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackUse {
    /// Its size in bytes.
    pub used: u64,
    /// The size to which it may grow, in bytes; 0 if that is not known.
    pub size: u64,
    /// Its frames and their sizes in bytes, leaf first.
    pub frames: Box<[(FrameId, u64)]>,
}

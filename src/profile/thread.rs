//! Sampled threads of all processes.

use super::ids::ProcessId;
pub use super::ids::ThreadId;

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
}

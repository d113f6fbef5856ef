//! Threads by name, over all processes.

use super::process::ProcessId;

/// Index of a thread in a [`Profile`](super::Profile); two threads that had the same tid are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// What a thread does, as last seen from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It runs, or waits for a CPU.
    Running,
    /// It waits for a disk, or for something else that no signal ends.
    Waiting,
    /// It sleeps.
    Sleeping,
    /// A signal or a debugger stopped it.
    Stopped,
    /// Nobody looked.
    #[default]
    Unknown,
    /// It has ended.
    Ended,
}

/// A thread of a watched process.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Whose.
    pub process: ProcessId,
    /// As the target sees it.
    pub tid: u32,
    /// Its latest name; may hold any bytes but NUL.
    pub name: String,
    /// Whether it has ended.
    pub ended: bool,
    /// What it does, as long as it has not.
    pub state: State,
}

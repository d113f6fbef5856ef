//! Threads by name, over all processes.

use super::process::ProcessId;

/// Index of a thread in a [`Profile`](super::Profile); two threads that had the same tid are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

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
}

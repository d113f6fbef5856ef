//! Knocks at processes that carry the agent and have not called: those attached to, and idle ones that are to be watched by
//! the wall clock. One thread of theirs at a time, and a pause between two, since each knock may interrupt a sleep.
//!
//! A launched process that runs now and then is left alone for [`PATIENCE_NS`]: the first period of
//! CPU time gives birth to its agent without a knock. One that sleeps on from look to look is not.

use std::collections::HashMap;

use crate::attach::AttachError;
use crate::attach::{knock, proc};

/// Between two knocks at one process, ns.
const PAUSE_NS: u64 = 1_000_000_000;
/// Knocks before giving up.
const ATTEMPTS: usize = 8;
/// How long a launched process that runs now and then has for its first period of CPU time, ns.
const PATIENCE_NS: u64 = 3_000_000_000;

/// Who was knocked at, and when; and who is looked at to find out whether it sleeps on.
#[derive(Default)]
pub(super) struct Caller {
    knocks: HashMap<u32, (usize, u64)>,
    /// When a process was first looked at, ns, and how often it had been put on a CPU at the last
    /// look.
    looks: HashMap<u32, (u64, Option<u64>)>,
}

/// What came of a knock.
#[derive(Debug)]
pub(super) enum Knocked {
    /// One was sent, or it is not time for the next.
    Wait,
    /// It cannot be done.
    Failed(AttachError),
    /// It was done often enough, and nobody called.
    GivenUp,
}

impl Caller {
    /// Whether a launched process is better left to its first tick: it has run since the last look,
    /// or was not looked at before, and has not been there for long.
    pub(super) fn is_stirring(&mut self, pid: u32, now_ns: u64) -> bool {
        let scheduled = proc::times_scheduled(pid);
        let (since_ns, before) = self.looks.get(&pid).copied().unwrap_or((now_ns, None));
        self.looks.insert(pid, (since_ns, scheduled));
        (before.is_none() || scheduled != before) && now_ns.saturating_sub(since_ns) < PATIENCE_NS
    }

    /// Knocks at a process if it is time to.
    pub(super) fn call(&mut self, pid: u32, now_ns: u64) -> Knocked {
        let (attempt, due_ns) = self.knocks.get(&pid).copied().unwrap_or((0, 0));
        if now_ns < due_ns {
            return Knocked::Wait;
        }
        if attempt == ATTEMPTS {
            return Knocked::GivenUp;
        }
        self.knocks.insert(pid, (attempt + 1, now_ns + PAUSE_NS));
        let threads = match knock::candidates(pid) {
            Ok(threads) => threads,
            Err(error) => return Knocked::Failed(error),
        };
        let Some(&thread) = threads.get(attempt % threads.len().max(1)) else { return Knocked::Wait };
        match knock::knock(pid, thread, std::process::id()) {
            Ok(()) | Err(AttachError::NoProcess { .. }) => Knocked::Wait,
            Err(error) => Knocked::Failed(error),
        }
    }
}

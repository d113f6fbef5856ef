//! Knocks (sends the wake signal) at processes that have the agent's library but whose agent has
//! not connected: those attached to, launched ones that use CPU time by threads that the agent does
//! not know, and launched ones that keep sleeping if the wall clock is sampled and they cannot be
//! sampled from outside. One thread is signalled at a time, with a pause
//! between two, because each knock may end a wait early. That of a launched process is not taken:
//! nobody has asked for its agent yet.
//!
//! A launched process that runs now and then is left alone for [`FIRST_TICK_NS`]: its first period
//! of CPU time starts the agent.

use std::collections::HashMap;

use crate::attach::AttachError;
use crate::attach::knock;
use crate::attach::proc::{self, ProcessIdentity};

/// Time between two knocks at one process, ns.
const PAUSE_NS: u64 = 1_000_000_000;
/// Time to the next look where no thread may be signalled now, ns.
const LOOK_NS: u64 = 100_000_000;
/// Maximum number of knocks at one process.
const ATTEMPTS: usize = 8;
/// Time in which a launched process that runs now and then should use its first period, ns.
const FIRST_TICK_NS: u64 = 3_000_000_000;

/// The processes that were signalled, and those observed to find out whether they sleep.
#[derive(Default)]
pub(super) struct AttachRetry {
    /// Number of knocks and time of the next one, ns.
    knocks: HashMap<ProcessIdentity, (usize, u64)>,
    /// Time of the first observation, ns, and the number of times that the process had been
    /// scheduled at the last one.
    observations: HashMap<ProcessIdentity, (u64, Option<u64>)>,
}

/// The result of a knock.
#[derive(Debug)]
pub(super) enum KnockResult {
    /// A signal was sent, or it is too early for the next one.
    Wait,
    /// No signal can be sent.
    Failed(AttachError),
    /// All attempts were made, and the agent has not connected.
    GivenUp,
}

impl AttachRetry {
    /// Whether to wait for the first tick of a launched process: it is young, and it has run since
    /// the last observation or was not observed before.
    pub(super) fn may_tick_soon(&mut self, pid: u32, now_ns: u64) -> bool {
        let Ok(process) = ProcessIdentity::of(pid) else { return false };
        let scheduled = proc::schedule(pid).map(|schedule| schedule.slices);
        let (since_ns, before) = self.observations.get(&process).copied().unwrap_or((now_ns, None));
        self.observations.insert(process, (since_ns, scheduled));
        (before.is_none() || scheduled != before) && now_ns.saturating_sub(since_ns) < FIRST_TICK_NS
    }

    /// Knocks at a process if its next knock is due. `may_end_wait` says whether a thread may be
    /// signalled whose wait ends by it.
    pub(super) fn knock(&mut self, pid: u32, may_end_wait: bool, now_ns: u64) -> KnockResult {
        let Ok(process) = ProcessIdentity::of(pid) else { return KnockResult::Wait };
        let (attempt, due_ns) = self.knocks.get(&process).copied().unwrap_or((0, 0));
        if now_ns < due_ns {
            return KnockResult::Wait;
        }
        if attempt == ATTEMPTS {
            return KnockResult::GivenUp;
        }
        self.knocks.insert(process, (attempt + 1, now_ns + PAUSE_NS));
        let mut threads = match knock::knock_targets(pid) {
            Ok(threads) => threads,
            Err(error) => return KnockResult::Failed(error),
        };
        threads.retain(|thread| may_end_wait || !thread.may_end_wait);
        let Some(&thread) = threads.get(attempt % threads.len().max(1)) else {
            self.knocks.insert(process, (attempt, now_ns + LOOK_NS));
            return KnockResult::Wait;
        };
        match knock::knock(pid, thread, std::process::id()) {
            Ok(()) | Err(AttachError::NoProcess { .. }) => KnockResult::Wait,
            Err(error) => KnockResult::Failed(error),
        }
    }
}

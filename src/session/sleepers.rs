//! Launched processes that carry the agent and have kept sleeping since their start. On the wall
//! clock they are sampled from outside until they have used a period of CPU time and their agents
//! connect. The listener then lets the sampler leave them.

use std::collections::{HashMap, HashSet};

use crate::attach::external::supervisor::Sampler;

/// Time after which a process that is in no sample is named to the sampler again, ns.
const AGAIN_NS: u64 = 1_000_000_000;

/// The processes that are sampled from outside while they sleep.
pub(super) struct Sleepers {
    /// Time from which on the wall clock is sampled, ns.
    since_ns: u64,
    /// The time at which each was last named to the sampler, ns, by pid.
    named: HashMap<u32, u64>,
    /// Those that the kernel does not let the sampler look into.
    refused: HashSet<u32>,
    /// Whether no sampler can be started.
    has_failed: bool,
}

impl Sleepers {
    /// Creates the state of a session that starts now.
    pub(super) fn new(now_ns: u64) -> Sleepers {
        Sleepers { since_ns: now_ns, named: HashMap::new(), refused: HashSet::new(), has_failed: false }
    }

    /// Has a process sampled that nobody samples. Returns whether that may be possible.
    pub(super) fn sample(&mut self, pid: u32, sampler: &mut Sampler, now_ns: u64) -> bool {
        if self.has_failed || self.refused.contains(&pid) {
            return false;
        }
        let last = self.named.get(&pid).copied();
        if last.is_none_or(|named_ns| now_ns.saturating_sub(named_ns) >= AGAIN_NS) {
            self.named.insert(pid, now_ns);
            let missed_since_ns = if last.is_some() { 0 } else { self.since_ns };
            self.has_failed = sampler.watch_asleep(pid, missed_since_ns).is_err();
        }
        !self.has_failed
    }

    /// Notes that the kernel does not let the sampler look into a process. Returns whether it is
    /// one of these.
    pub(super) fn refuse(&mut self, pid: u32) -> bool {
        let is_known = self.named.remove(&pid).is_some();
        if is_known {
            self.refused.insert(pid);
        }
        is_known
    }

    /// Notes that no sampler can be started.
    pub(super) fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Forgets all processes while another clock is sampled. Returns whether there were any, whose
    /// sampler is to be stopped.
    pub(super) fn clear(&mut self, now_ns: u64) -> bool {
        self.since_ns = now_ns;
        !std::mem::take(&mut self.named).is_empty()
    }
}

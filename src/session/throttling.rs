//! Tells the time that a quota takes from a thread from the time for which it waits for a CPU: it
//! marks samples of threads that wait for one while `cpu.stat` counts that their group is stopped.
//! They are marked before anything reads or records them.

use std::collections::HashMap;

use crate::attach::cpu_quota::CpuQuota;
use crate::wire::{Arrival, ConnectionEvent, Message, flag};

/// Time between two readings of the counters of one process, ns.
const READ_NS: u64 = 50_000_000;
/// Time for which a counter that has grown says that the group is stopped now and then, ns. A
/// period has 100 ms unless an administrator changes it, and samples arrive up to 100 ms later.
const HOLDS_NS: u64 = 250_000_000;
/// Maximum number of processes whose counters are read.
const MAX_PROCESSES: usize = 64;

/// The counters of each process that has waited for a CPU.
#[derive(Default)]
pub(super) struct Throttling(HashMap<u32, ProcessQuota>);

struct ProcessQuota {
    quota: CpuQuota,
    periods: u64,
    read_ns: u64,
    grew_ns: Option<u64>,
}

impl Throttling {
    /// Marks the samples of threads that wait for a CPU because of a quota.
    pub(super) fn mark(&mut self, arrivals: &mut [Arrival]) {
        self.mark_with(arrivals, CpuQuota::of_process);
    }

    fn mark_with(&mut self, arrivals: &mut [Arrival], find: impl Fn(u32) -> CpuQuota) {
        for Arrival { pid, at_ns, event, .. } in arrivals {
            if let ConnectionEvent::Received(Message::Sample(sample, _)) = event
                && sample.flags & flag::RUNNABLE != 0
                && self.is_throttled(*pid, *at_ns, &find)
            {
                sample.flags |= flag::THROTTLED;
            }
        }
    }

    fn is_throttled(&mut self, pid: u32, now_ns: u64, find: impl Fn(u32) -> CpuQuota) -> bool {
        if self.0.len() >= MAX_PROCESSES && !self.0.contains_key(&pid) {
            self.0.clear();
        }
        let process = self.0.entry(pid).or_insert_with(|| {
            let quota = find(pid);
            ProcessQuota { periods: quota.throttled_periods(), quota, read_ns: now_ns, grew_ns: None }
        });
        if now_ns.saturating_sub(process.read_ns) >= READ_NS {
            let periods = process.quota.throttled_periods();
            if periods > process.periods {
                process.grew_ns = Some(now_ns);
            }
            (process.periods, process.read_ns) = (periods, now_ns);
        }
        process.grew_ns.is_some_and(|grew_ns| now_ns.saturating_sub(grew_ns) < HOLDS_NS)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::wire::{Allocation, Clock, Sample, SourceId};

    /// A control group whose counter a test sets.
    struct Group(PathBuf);

    impl Group {
        fn new() -> Group {
            let group = Group(std::env::temp_dir().join(format!("sigtop-throttling-{}", std::process::id())));
            fs::create_dir_all(group.0.join("a")).expect("a folder");
            group.set(5);
            group
        }

        fn set(&self, periods: u64) {
            let stat = format!("nr_periods 100\nnr_throttled {periods}\nthrottled_usec 9\n");
            fs::write(self.0.join("a/cpu.stat"), stat).expect("a file");
        }
    }

    /// Whether a sample that arrives at this time is marked.
    fn is_marked(throttling: &mut Throttling, group: &Group, at_ms: u64, flags: u32) -> bool {
        let sample = Sample {
            tid: 7,
            clock: Clock::Real,
            flags,
            generation: 0,
            monotonic_ns: at_ms * 1_000_000,
            age_ms: 0,
            weight_ns: 10_000_000,
            allocation: Allocation::default(),
            slot: 0,
        };
        let event = ConnectionEvent::Received(Message::Sample(sample, Default::default()));
        let mut arrivals = [Arrival { source: SourceId(1), pid: 7, at_ns: at_ms * 1_000_000, event }];
        throttling.mark_with(&mut arrivals, |_| CpuQuota::find("0::/a\n", &group.0));
        match &arrivals[0].event {
            ConnectionEvent::Received(Message::Sample(sample, _)) => sample.flags & flag::THROTTLED != 0,
            _ => false,
        }
    }

    #[test]
    fn a_thread_that_waits_for_a_cpu_while_its_group_is_stopped_is_throttled() {
        let (group, mut throttling) = (Group::new(), Throttling::default());
        let mut at = |at_ms, flags| is_marked(&mut throttling, &group, at_ms, flags);
        assert!(!at(1_000, flag::RUNNABLE), "what the counter has before the first reading is of the past");
        assert!(!at(1_100, flag::RUNNABLE), "it waits for a CPU that others use");
        group.set(6);
        assert!(!at(1_110, flag::RUNNABLE), "it is not read as often as this");
        assert!(at(1_160, flag::RUNNABLE));
        assert!(!at(1_170, 0) && !at(1_170, flag::WAITS), "these do not wait for a CPU");
        assert!(at(1_400, flag::RUNNABLE), "the same period, or the next one");
        assert!(!at(1_500, flag::RUNNABLE));
        group.set(9);
        assert!(at(1_600, flag::RUNNABLE));
        fs::remove_dir_all(&group.0).expect("ours");
    }
}

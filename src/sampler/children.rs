//! When to look for child processes, and whether one is new.
//!
//! The kernel shows the number that it gave to the latest process or thread of the machine. As long
//! as it stays the same there are no new children, which costs one short read to know. Otherwise
//! the children of threads that have run lately are read every 10 ms, as only they can have made
//! any, and those of all threads at longer intervals.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::time::{ClockId, clock_gettime};

use super::clock::ticks_per_second;

/// Time between two searches among threads that have run, ns.
pub(super) const SEARCH_NS: u64 = 10_000_000;
/// Time between two searches among all threads, ns.
const FULL_SEARCH_NS: u64 = 100_000_000;
/// Minimum time between two searches, in multiples of the CPU time of the last one: they take at
/// most half a percent of a processor.
const REST: u64 = 400;
/// Searches go on until all threads were searched this long after the last new process, ns. A
/// parent that sleeps for long is known to have run only after a while.
const SEARCH_ON_NS: u64 = 500_000_000;
/// Maximum length of `/proc/loadavg`, bytes.
const MAX_LINE: usize = 128;

/// A search that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildSearch {
    /// Among the children of threads that have run lately.
    OfActiveThreads,
    /// Among the children of all threads.
    OfAllThreads,
}

/// The schedule of searches.
pub(super) struct ChildSchedule {
    loadavg: Option<File>,
    latest_pid: Vec<u8>,
    /// Time of the last new process, ns.
    changed_ns: u64,
    /// Times from which on searches are due, ns.
    next_ns: u64,
    next_full_ns: u64,
    /// Time of the last search among all threads, ns.
    full_ns: u64,
    /// Start of the sampler in the unit of the start times of processes.
    start_ticks: u64,
}

impl ChildSchedule {
    pub(super) fn new() -> ChildSchedule {
        let per_second = ticks_per_second();
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
            .map_or(0, |now| now.tv_sec() as u64 * per_second + now.tv_nsec() as u64 * per_second / 1_000_000_000);
        ChildSchedule {
            loadavg: File::open("/proc/loadavg").ok(),
            latest_pid: Vec::new(),
            changed_ns: 0,
            next_ns: 0,
            next_full_ns: 0,
            full_ns: 0,
            start_ticks: now,
        }
    }

    /// Returns the search that is due now, if one is.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<ChildSearch> {
        if now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns + SEARCH_NS;
        if self.is_any_process_new() {
            self.changed_ns = now_ns;
        }
        let is_full = now_ns >= self.next_full_ns;
        let is_over = self.full_ns >= self.changed_ns + SEARCH_ON_NS;
        match is_full {
            _ if is_over => None,
            true => Some(ChildSearch::OfAllThreads),
            false => Some(ChildSearch::OfActiveThreads),
        }
    }

    /// Searches among all threads soon, because a process is watched that may have children.
    pub(super) fn search_all(&mut self, now_ns: u64) {
        (self.changed_ns, self.next_full_ns) = (now_ns, now_ns);
    }

    /// Plans the next search after one that took so much CPU time.
    pub(super) fn plan(&mut self, search: ChildSearch, ended_ns: u64, used_ns: u64) {
        let rest_ns = REST.saturating_mul(used_ns);
        match search {
            ChildSearch::OfActiveThreads => self.next_ns = ended_ns + SEARCH_NS.max(rest_ns),
            ChildSearch::OfAllThreads => {
                (self.full_ns, self.next_full_ns) = (ended_ns, ended_ns + FULL_SEARCH_NS.max(rest_ns));
            }
        }
    }

    /// Returns whether a process has started since the sampler, by its start time: then all its CPU
    /// time is to be sampled.
    pub(super) fn is_new(&self, start_ticks: u64) -> bool {
        start_ticks >= self.start_ticks
    }

    /// Returns whether the kernel has made a process or thread since the last call.
    fn is_any_process_new(&mut self) -> bool {
        let mut line = [0; MAX_LINE];
        let length = self.loadavg.as_ref().and_then(|file| file.read_at(&mut line, 0).ok()).unwrap_or(0);
        let latest = line[..length].trim_ascii_end().rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        let is_new = latest.is_empty() || latest != self.latest_pid;
        if is_new {
            self.latest_pid = latest.to_vec();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::proc::ProcStat;

    #[test]
    fn a_new_process_makes_searches_due() {
        let mut schedule = ChildSchedule::new();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start_ticks = ProcStat::of(child.id()).unwrap().start_ticks;
        child.wait().unwrap();
        assert!(schedule.is_any_process_new());
        assert!(schedule.is_new(start_ticks) && !schedule.is_new(ProcStat::of(1).unwrap().start_ticks));
    }

    #[test]
    fn long_searches_are_rare() {
        let mut schedule = ChildSchedule::new();
        assert_eq!(schedule.due(1), Some(ChildSearch::OfAllThreads));
        schedule.plan(ChildSearch::OfAllThreads, 2, FULL_SEARCH_NS);
        assert_eq!(schedule.due(SEARCH_NS), None);
        assert_eq!(schedule.due(2 * SEARCH_NS), Some(ChildSearch::OfActiveThreads));
        schedule.plan(ChildSearch::OfActiveThreads, 2 * SEARCH_NS, SEARCH_NS);
        assert_eq!(schedule.due((REST + 1) * SEARCH_NS), None);
    }

    #[test]
    fn searches_end_after_one_of_all_threads() {
        let mut schedule = ChildSchedule { loadavg: None, ..ChildSchedule::new() };
        // Every search finds a new process, as the kernel does not tell.
        assert!(schedule.due(SEARCH_NS).is_some() && schedule.due(2 * SEARCH_NS).is_some());
        schedule.loadavg = File::open("/proc/self/comm").ok();
        assert!(schedule.due(3 * SEARCH_NS).is_some());
        schedule.plan(ChildSearch::OfAllThreads, 3 * SEARCH_NS + SEARCH_ON_NS, 0);
        assert_eq!(schedule.due(4 * SEARCH_NS + SEARCH_ON_NS), None);
        schedule.search_all(5 * SEARCH_NS + SEARCH_ON_NS);
        assert_eq!(schedule.due(5 * SEARCH_NS + SEARCH_ON_NS), Some(ChildSearch::OfAllThreads));
    }
}

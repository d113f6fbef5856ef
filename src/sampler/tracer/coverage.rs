//! Chooses the threads that have events where there are more than may have them.
//!
//! With each record the kernel goes through the events of all threads that share a ring, so their
//! number is limited. Of more threads, those that run have events: each thread is looked at twice a
//! second, and one that has run takes the place of one that has not for as long. What it has used
//! without events is lost, and counted.

use super::{Tracer, TracerReport};
use crate::sampler::perf::{ThreadNumbers, WatchedTid};

/// Time in which each thread is looked at once, ns.
const TURN_NS: u64 = 500_000_000;
/// Time without a run after which a thread may lose its events, ns.
const IDLE_NS: u64 = 500_000_000;
/// Maximum number of such threads that are remembered.
const MAX_IDLE: usize = 1024;

impl Tracer {
    /// Notes which threads have events, once all of them were opened again.
    pub(super) fn note_coverage(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        for process in self.processes.values_mut().filter(|process| process.has_events()) {
            for (&tid, thread) in &mut process.threads {
                thread.has_events = kernel.events.is_watched(tid);
            }
        }
    }

    /// Looks at some threads, and gives events to those that have run without.
    pub(super) fn take_turns(&mut self, now_ns: u64) {
        if !self.kernel.as_ref().is_some_and(|kernel| kernel.events.is_full()) {
            return;
        }
        let (tick, period_ns, follow) = (self.tick, self.config.period_ns, self.links.follow);
        let (mut wanted, mut ended) = (Vec::new(), Vec::new());
        for process in self.processes.values_mut().filter(|process| process.has_events()) {
            let (pid, has_children) = (process.pid, process.scope.has_children() && follow);
            for tid in process.threads_in_turn(period_ns, TURN_NS) {
                let numbers = ThreadNumbers { pid, tid };
                let Some(has_run) = process.update_thread(tid, tick) else {
                    ended.push(numbers);
                    continue;
                };
                let Some(thread) = process.threads.get(&tid) else { continue };
                if !thread.has_events && has_run {
                    wanted.push(WatchedTid { thread: numbers, has_children });
                } else if thread.has_events && now_ns.saturating_sub(thread.ran_ns) >= IDLE_NS {
                    self.idle.push(numbers);
                }
            }
        }
        ended.into_iter().for_each(|ThreadNumbers { pid, tid }| self.end_thread(pid, tid, now_ns, false));
        wanted.into_iter().for_each(|watched| self.hand_over(watched, now_ns));
        // Each is found again in its next turn.
        if self.idle.len() > MAX_IDLE {
            self.idle.clear();
        }
    }

    /// Gives events to a thread in place of one that has not run for a while, if there is one.
    fn hand_over(&mut self, to: WatchedTid, now_ns: u64) {
        if !std::mem::replace(&mut self.is_turn_told, true) {
            let _ = self.links.reports.send(TracerReport::TakeTurns { pid: to.thread.pid });
        }
        while let Some(from) = self.idle.pop() {
            let Some(process) = self.processes.get_mut(&from.pid) else { continue };
            let is_idle = process.update_thread(from.tid, self.tick) == Some(false);
            let Some(thread) = process.threads.get_mut(&from.tid) else { continue };
            if !is_idle || !thread.has_events || now_ns.saturating_sub(thread.ran_ns) < IDLE_NS {
                continue;
            }
            let Some(kernel) = &mut self.kernel else { return };
            let is_done = kernel.events.hand_over(&kernel.rings, from.tid, to);
            thread.has_events = kernel.events.is_watched(from.tid);
            if is_done {
                let process = self.processes.get_mut(&to.thread.pid);
                if let Some(thread) = process.and_then(|process| process.threads.get_mut(&to.thread.tid)) {
                    thread.has_events = true;
                }
                return;
            }
        }
    }
}

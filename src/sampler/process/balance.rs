//! The balance of a process: CPU time that it has used, and that samples and losses stand for.

use super::WatchedProcess;
use crate::attach::proc::ProcStat;
use crate::sampler::clock::ticks_per_second;
use crate::sampler::events::TracerCounters;
use crate::sampler::scope::WatchScope;
use crate::wire::LossCause;

/// Maximum number of threads whose system times are read one by one.
const MAX_THREADS_READ: usize = 128;
/// The CPU time over which a difference between samples by events and the CPU clock is made up
/// for, in periods of each thread that may run at a time.
const BALANCED_WITHIN: u64 = 8;
/// The largest such difference, in the same. What is beyond is lost.
const MOST_BALANCE: u64 = 64;

impl WatchedProcess {
    /// CPU time that no thread is known to have used, ns.
    pub(in crate::sampler) fn missing_ns(&self) -> u64 {
        (self.cpu_ns - self.base_ns.min(self.cpu_ns)).saturating_sub(self.accounted_ns)
    }

    /// Counts time as lost, ns. The agent of a process that is sampled asleep counts its CPU time.
    pub(in crate::sampler) fn lose(&mut self, cause: LossCause, ns: u64) {
        if self.scope.is_asleep() && cause == LossCause::Unaccounted {
            return;
        }
        self.counters.lost_ns[cause as usize] += ns;
    }

    /// Returns the counters as of now.
    pub(in crate::sampler) fn counters(&mut self, period_ns: u64) -> TracerCounters {
        for cause in [LossCause::Unaccounted, LossCause::NotReady, LossCause::NoTimer].map(|cause| cause as usize) {
            self.counters.lost_ticks[cause] = self.counters.lost_ns[cause] / period_ns.max(1);
        }
        self.counters.process_cpu_ns = self.cpu_ns;
        self.counters.threads = self.threads.len() as u32;
        self.counters.clone()
    }

    pub(in crate::sampler) fn give_up(&mut self, ns: u64) {
        self.accounted_ns += ns;
        self.lose(LossCause::Unaccounted, ns);
    }

    /// CPU time that samples by events did not stand for so far, ns, less than 0 if they stood for
    /// too much.
    pub(in crate::sampler) fn balance_ns(&self) -> i64 {
        let used_ns = self.cpu_ns.saturating_sub(self.base_ns) as i64;
        used_ns.saturating_sub_unsigned(self.accounted_ns).saturating_add(self.carried_ns)
    }

    /// Takes the CPU time that a sample by an event stands for, ns. Its own is `due_ns`, and a part
    /// of what others have left or taken too much: the totals are right, and no sample weighs more
    /// than twice its own.
    pub(in crate::sampler) fn take_event_weight(&mut self, due_ns: u64, period_ns: u64, cpus: usize) -> u64 {
        let threads = self.threads.len().clamp(1, cpus.max(1)) as u64;
        let most_ns = (MOST_BALANCE * threads * period_ns) as i64;
        let balance_ns = self.balance_ns();
        if balance_ns > most_ns {
            // The kernel has taken fewer samples than it was asked for.
            self.give_up((balance_ns - most_ns) as u64);
        }
        let excess_ns = self.balance_ns() as f64 - due_ns as f64;
        let factor = 1.0 + (excess_ns / (BALANCED_WITHIN * threads * period_ns) as f64).clamp(-0.5, 1.0);
        let weight_ns = (due_ns as f64 * factor) as u64;
        self.accounted_ns += weight_ns;
        weight_ns
    }

    /// Counts samples for which there was no room.
    pub(in crate::sampler) fn lose_events(&mut self, count: u64, period_ns: u64) {
        let lost_ns = count.saturating_mul(period_ns);
        self.accounted_ns = self.accounted_ns.saturating_add(lost_ns);
        self.counters.lost_ticks[LossCause::RingFull as usize] += count;
        self.lose(LossCause::RingFull, lost_ns);
    }

    /// Notes the CPU time of a thread that has ended, ns.
    pub(in crate::sampler) fn note_ended_thread(&mut self, used_ns: u64) {
        self.counted_by_events_ns += used_ns;
        if self.scope == WatchScope::FromStart {
            self.cpu_ns = self.cpu_ns.max(self.counted_by_events_ns);
        }
    }

    /// Takes the system time since the last call, ns, by thread, of a process whose user may not
    /// look into the kernel. That of threads that are not known is the first thread's.
    pub(in crate::sampler) fn take_system_time(&mut self) -> Vec<(u32, u64)> {
        let Ok(stat) = ProcStat::of(self.pid) else { return Vec::new() };
        let mut left = stat.system_ticks.saturating_sub(self.system_ticks);
        self.system_ticks = self.system_ticks.max(stat.system_ticks);
        let tick_ns = 1_000_000_000 / ticks_per_second();
        self.accounted_ns += left * tick_ns;
        let mut taken = Vec::new();
        if left > 0 && self.threads.len() <= MAX_THREADS_READ {
            for (&tid, thread) in &mut self.threads {
                let Ok(stat) = ProcStat::of_thread(self.pid, tid) else { continue };
                let before = thread.system_ticks.replace(stat.system_ticks);
                let ticks = stat.system_ticks.saturating_sub(before.unwrap_or(stat.system_ticks)).min(left);
                left -= ticks;
                taken.push((tid, ticks * tick_ns));
            }
        }
        taken.push((self.pid, left * tick_ns));
        taken.retain(|&(_, ns)| ns > 0);
        taken
    }

    /// Counts everything that is in no sample as unaccounted, at the end of the process.
    pub(in crate::sampler) fn close(&mut self) {
        if self.has_events() {
            self.lose(LossCause::Unaccounted, self.balance_ns().max(0) as u64);
            self.accounted_ns = self.cpu_ns.saturating_sub(self.base_ns);
        } else {
            self.give_up(self.missing_ns());
        }
        let unsampled_ns = self.threads.values().map(|thread| thread.unsampled_ns).sum();
        self.lose(LossCause::Unaccounted, unsampled_ns);
        self.threads.clear();
    }
}

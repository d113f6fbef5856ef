//! CPU time for which no tick came: the CPU time of the process compared with the weights of its
//! samples.
//!
//! No sample shows the time of a thread that ends before its timer's first tick, or that blocks the
//! signal. The process's clock shows it: the time by which it has advanced since the engine was
//! engaged, without that of the agent thread, is either sampled, counted as lost by some cause, or
//! unaccounted. The difference is never exact, because the kernel checks timers at scheduler ticks.
//! So the time that each living thread may still owe is allowed for, and only the excess is
//! counted. A tick that is overdue will stand for all of the thread's time, so that time is allowed
//! for, too; and as a tick may be on its way to the ring, what is found once is not counted yet.
//! The clock is read before the samples are taken from the ring: samples that come while the agent
//! thread waits for a CPU would be missed in the weights, but not in the clock.

use crate::agent::os::syscall;
use crate::agent::sampling::counters;
use crate::agent::timers::threads::Threads;
use core::sync::atomic::Ordering;

use crate::wire::ring::word;
use crate::wire::{Clock, Engaged, EngineState, LossCause, SCHEDULER_TICK_NS};

/// CPU time and weights since the engine was engaged, ns; 0 while another clock is sampled.
#[derive(Debug, Default)]
pub(crate) struct CpuBalance {
    used_then_ns: u64,
    used_ns: u64,
    lost_then_ns: u64,
    sampled_ns: u64,
    /// Unaccounted periods that were found once and are not counted yet.
    found_once: u64,
}

impl CpuBalance {
    /// Creates a balance that starts at the present values.
    pub(crate) fn begin() -> CpuBalance {
        let used_ns = used_ns();
        CpuBalance { used_then_ns: used_ns, used_ns, lost_then_ns: lost_ns(), sampled_ns: 0, found_once: 0 }
    }

    /// Reads the process's clock, before the samples up to now are taken from the ring, and the
    /// clocks of threads with overdue ticks, if that may be the reason for unaccounted time.
    pub(crate) fn read_clock(&mut self, threads: &mut Threads) {
        self.used_ns = used_ns();
        if self.found_once > 0 {
            threads.read_overdue();
        }
    }

    /// Adds the weight of a sample.
    pub(crate) fn sampled(&mut self, weight_ns: u64) {
        self.sampled_ns = self.sampled_ns.saturating_add(weight_ns);
    }

    /// Counts the unaccounted time up to the last reading of the clock as lost. Unless this is the
    /// last time, it must have been found before.
    pub(crate) fn settle(&mut self, engaged: &Engaged, threads: &Threads, is_last: bool) {
        let overdue_ns = if is_last { 0 } else { threads.overdue_ns(engaged.period_ns + SCHEDULER_TICK_NS) };
        let found = self.periods(engaged, threads.len(), overdue_ns);
        let periods = if is_last { found } else { found.min(self.found_once) };
        self.found_once = found - periods;
        if periods > 0 {
            counters::count_unhandled(periods);
            counters::count_loss(LossCause::Unaccounted, periods, periods * engaged.period_ns);
        }
    }

    /// Returns whether there is unaccounted time, with `threads` threads alive.
    pub(crate) fn is_short(&self, engaged: &Engaged, threads: usize) -> bool {
        self.periods(engaged, threads, 0) > 0
    }

    fn periods(&self, engaged: &Engaged, threads: usize, overdue_ns: u64) -> u64 {
        if engaged.clock != Clock::Prof || engaged.state != EngineState::Running {
            return 0;
        }
        let used_ns = self.used_ns.saturating_sub(self.used_then_ns);
        let shown_ns = self.sampled_ns + lost_ns().saturating_sub(self.lost_then_ns) + overdue_ns;
        unseen_periods(used_ns, shown_ns, engaged.period_ns, threads)
    }
}

/// Returns the whole periods of `used_ns` that are unaccounted, beyond what each thread may still
/// owe: a period, and the time to the next scheduler tick.
fn unseen_periods(used_ns: u64, shown_ns: u64, period_ns: u64, threads: usize) -> u64 {
    let owed_ns = threads.max(1) as u64 * (period_ns + SCHEDULER_TICK_NS);
    used_ns.saturating_sub(shown_ns.saturating_add(owed_ns)) / period_ns.max(1)
}

/// Returns the CPU time of the process without the agent thread's, ns.
pub(crate) fn used_ns() -> u64 {
    syscall::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn lost_ns() -> u64 {
    (0..LossCause::ALL.len()).map(|cause| counters::counter(word::LOST_NS + cause).load(Ordering::Relaxed)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_threads_cannot_owe_is_unseen() {
        const MS: u64 = 1_000_000;
        assert_eq!(unseen_periods(1_000 * MS, 986 * MS, 4 * MS, 1), 0, "one period and one tick of the scheduler");
        assert_eq!(unseen_periods(1_000 * MS, 700 * MS, 4 * MS, 1), 71, "300 ms without 14");
        assert_eq!(unseen_periods(1_000 * MS, 700 * MS, 4 * MS, 30), 0);
        assert_eq!(unseen_periods(1_000 * MS, 1_400 * MS, 4 * MS, 1), 0, "more sampled than used is not less");
    }
}

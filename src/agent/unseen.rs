//! What no tick stood for: the CPU time of the process against the weights of its samples.
//!
//! A thread that ends before its timer's first tick, or blocks the signal, uses time that no sample shows. The process's clock shows
//! it: what it has gone on by since the engine was engaged, without the agent's own part, is either sampled, or counted as lost by some
//! cause, or unseen. The difference is never exact: a timer is looked at by the scheduler's tick, so what each living thread owes is
//! allowed for, and only what goes beyond is counted.

use core::sync::atomic::Ordering;

use super::state;
use super::sys;
use crate::link::wire::ring::word;
use crate::link::wire::{Clock, Engaged, EngineState, Loss};

/// The longest tick of a scheduler in use (100 Hz), ns.
const SCHEDULER_TICK_NS: u64 = 10_000_000;

/// The balance since the engine was engaged, ns; 0 for all while another clock ticks.
#[derive(Debug, Default)]
pub(super) struct Balance {
    used_then_ns: u64,
    lost_then_ns: u64,
    sampled_ns: u64,
}

impl Balance {
    /// From now on.
    pub(super) fn begin() -> Balance {
        Balance { used_then_ns: used_ns(), lost_then_ns: lost_ns(), sampled_ns: 0 }
    }

    /// A sample stands for some.
    pub(super) fn sampled(&mut self, weight_ns: u64) {
        self.sampled_ns = self.sampled_ns.saturating_add(weight_ns);
    }

    /// Counts what is unseen by now, while so many threads live.
    pub(super) fn settle(&self, engaged: &Engaged, threads: u32) {
        let periods = self.periods(engaged, threads);
        if periods > 0 {
            state::count_unhandled(periods);
            state::lose(Loss::Unseen, periods, periods * engaged.period_ns);
        }
    }

    /// Whether something is unseen by now, while so many threads live.
    pub(super) fn is_short(&self, engaged: &Engaged, threads: u32) -> bool {
        self.periods(engaged, threads) > 0
    }

    fn periods(&self, engaged: &Engaged, threads: u32) -> u64 {
        if engaged.clock != Clock::Prof || engaged.state != EngineState::Running {
            return 0;
        }
        let used_ns = used_ns().saturating_sub(self.used_then_ns);
        let shown_ns = self.sampled_ns + lost_ns().saturating_sub(self.lost_then_ns);
        unseen_periods(used_ns, shown_ns, engaged.period_ns, threads)
    }
}

/// Whole periods of `used_ns` that nothing stands for, beyond what each thread may owe: a period, and the time to the scheduler's tick
/// after it.
fn unseen_periods(used_ns: u64, shown_ns: u64, period_ns: u64, threads: u32) -> u64 {
    let owed_ns = u64::from(threads.max(1)) * (period_ns + SCHEDULER_TICK_NS);
    used_ns.saturating_sub(shown_ns.saturating_add(owed_ns)) / period_ns.max(1)
}

/// CPU time of the process without the agent thread's, ns.
pub(super) fn used_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn lost_ns() -> u64 {
    (0..Loss::ALL.len()).map(|cause| state::counter(word::LOST_NS + cause).load(Ordering::Relaxed)).sum()
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

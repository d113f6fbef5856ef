//! Limits the overhead of sampling: compares the CPU time of the handlers with that of the target,
//! and halves the sampling frequency if it exceeds the budget.
//!
//! A check covers at least [`CHECK_NS`] and enough CPU time of the target to be significant: a
//! sleeping thread is sampled at no cost to it, and one costly sample of a target that hardly runs
//! says nothing. What happens in the first second is the start of the sampler, and does not count.
//! The frequency is never raised automatically. If the user raises it, the checks go
//! on.

use std::fmt::{self, Display, Formatter};

use crate::profile::loss::Losses;
use crate::tally::measure;
use crate::wire::PERIODS_NS;

/// Minimum time between two checks, ns.
const CHECK_NS: u64 = 2_000_000_000;
/// Time after the first counters that does not count, ns.
const START_NS: u64 = 1_000_000_000;
/// Minimum CPU time of the target between two checks, in sampling periods.
const MIN_PERIODS: u64 = 50;

/// The budget and the counters at the last check.
pub(super) struct OverheadLimiter {
    /// Maximum fraction of the target's CPU time.
    budget: f64,
    /// The time of the first counters, ns.
    first_ns: Option<u64>,
    last: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    at_ns: u64,
    handlers_ns: u64,
    process_ns: u64,
}

/// A halved sampling frequency and its reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoweredRate {
    /// The new period, ns.
    pub(super) period_ns: u64,
    /// The fraction of the target's CPU time that the handlers exceeded.
    pub(super) budget: f64,
}

impl Display for LoweredRate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (rate, budget) = (measure::hertz(self.period_ns), 100.0 * self.budget);
        write!(f, "{rate}: halved to stay under {budget} % of the target's CPU time (--budget)")
    }
}

impl OverheadLimiter {
    /// `budget` is a fraction of the target's CPU time.
    pub(super) fn new(budget: f64) -> OverheadLimiter {
        OverheadLimiter { budget, first_ns: None, last: Counters::default() }
    }

    /// Returns a lower frequency if the handlers exceeded the budget since the last check.
    pub(super) fn check(&mut self, losses: &Losses, period_ns: u64, now_ns: u64) -> Option<LoweredRate> {
        let now = Counters { at_ns: now_ns, handlers_ns: losses.handler_cpu_ns, process_ns: losses.process_cpu_ns };
        if now.process_ns > 0 && now_ns.saturating_sub(*self.first_ns.get_or_insert(now_ns)) < START_NS {
            self.last = now;
        }
        if self.last.at_ns == 0 {
            self.last = now;
        }
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let target_ns = since(now.process_ns, self.last.process_ns).max(1);
        if since(now.at_ns, self.last.at_ns) < CHECK_NS || target_ns < MIN_PERIODS.saturating_mul(period_ns) {
            return None;
        }
        let then = std::mem::replace(&mut self.last, now);
        let cost = since(now.handlers_ns, then.handlers_ns) as f64 / target_ns as f64;
        let period_ns = period_ns.saturating_mul(2);
        (cost > self.budget && PERIODS_NS.contains(&period_ns))
            .then_some(LoweredRate { period_ns, budget: self.budget })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The counters after some seconds of CPU time, with 100 ticks each and this cost per tick.
    fn losses(seconds: u64, tick_ns: u64) -> Losses {
        let (handler_cpu_ns, process_cpu_ns) = (100 * seconds * tick_ns, seconds * SECOND);
        Losses { handler_cpu_ns, process_cpu_ns, ..Losses::default() }
    }

    #[test]
    fn the_frequency_is_halved_only_above_the_budget() {
        let mut overhead_limiter = OverheadLimiter::new(0.0005);
        let period_ns = SECOND / 100;
        let checked: Vec<_> =
            (1..=7).map(|s| overhead_limiter.check(&losses(s, 8_000), period_ns, s * SECOND)).collect();
        let lowered = LoweredRate { period_ns: 2 * period_ns, budget: 0.0005 };
        assert_eq!(checked, [None, None, Some(lowered), None, Some(lowered), None, Some(lowered)]);
        assert_eq!(lowered.to_string(), "50 Hz: halved to stay under 0.05 % of the target's CPU time (--budget)");
        let mut overhead_limiter = OverheadLimiter::new(0.01);
        assert!((1..=7).all(|s| overhead_limiter.check(&losses(s, 8_000), period_ns, s * SECOND).is_none()));
    }

    /// Regression test: in short runs, the start of a sampler halved the rate.
    #[test]
    fn the_start_of_a_sampler_does_not_count() {
        let period_ns = SECOND / 100;
        let checks = |start_ns: u64, tick_ns: u64| {
            let mut overhead_limiter = OverheadLimiter::new(0.01);
            let tenths = (1..=60).map(|tenth| {
                let steady = losses(1, tick_ns * tenth / 10);
                let handler_cpu_ns = steady.handler_cpu_ns + if tenth >= 5 { start_ns } else { 0 };
                let now = Losses { handler_cpu_ns, process_cpu_ns: tenth * SECOND / 10, ..Losses::default() };
                overhead_limiter.check(&now, period_ns, 7 * SECOND + tenth * SECOND / 10).is_some()
            });
            tenths.filter(|is_halved| *is_halved).count()
        };
        assert_eq!(checks(SECOND / 5, 8_000), 0, "a fifth of a second at the start");
        assert!(checks(0, 200_000) > 0, "2 % all the time");
    }

    #[test]
    fn a_few_periods_are_not_enough_for_a_check() {
        let mut overhead_limiter = OverheadLimiter::new(0.0005);
        let dear = |s: u64| Losses { handler_cpu_ns: s * SECOND / 2, ..losses(s, 0) };
        assert!((1..=20).all(|s| overhead_limiter.check(&dear(s), SECOND, s * SECOND).is_none()));
    }

    /// Regression test: the rate of an idle server fell to 0.4 Hz by wall-clock time, as its
    /// sleeping threads were sampled often, and one stop is a large part of its CPU time.
    #[test]
    fn samples_of_sleeping_threads_are_not_enough_for_a_check() {
        let mut overhead_limiter = OverheadLimiter::new(0.01);
        let (period_ns, cpu_ns) = (SECOND / 100, SECOND / 1000);
        let idle = |s: u64| Losses {
            ticks: s * 500,
            handler_cpu_ns: s * cpu_ns / 20,
            process_cpu_ns: s * cpu_ns,
            ..Losses::default()
        };
        assert!((1..=400).all(|s| overhead_limiter.check(&idle(s), period_ns, s * SECOND).is_none()));
    }
}

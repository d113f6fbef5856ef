//! What the handlers may cost: compares their CPU time with the target's, and halves the rate where it is too much.
//!
//! It judges over [`SPAN_NS`] at least, and only what has enough samples not to be an accident. The rate is never raised by itself: whoever
//! raises it by hand is judged anew.

use std::fmt::{self, Display, Formatter};

use crate::link::wire::PERIODS_NS;
use crate::profile::loss::Losses;
use crate::tally::measure;

/// Between two judgements, ns.
const SPAN_NS: u64 = 2_000_000_000;
/// Ticks that a judgement needs.
const ENOUGH_TICKS: u64 = 50;

/// The budget, and what was seen at the last judgement.
pub(super) struct Governor {
    /// Part of the target's CPU time.
    budget: f64,
    then: Seen,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at_ns: u64,
    ticks: u64,
    handlers_ns: u64,
    process_ns: u64,
}

/// A rate that was halved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slower {
    /// The new period, ns.
    pub(super) period_ns: u64,
    /// Part of the target's CPU time that the handlers cost.
    cost: f64,
    budget: f64,
}

impl Display for Slower {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Slower { period_ns, cost, budget } = self;
        let (cost, budget) = (100.0 * cost, 100.0 * budget);
        let rate = measure::hertz(*period_ns);
        write!(f, "handlers cost {cost:.2}% of the target (--budget {budget}%): the rate is halved to {rate}")
    }
}

impl Governor {
    /// With this part of the target's CPU time.
    pub(super) fn new(budget: f64) -> Governor {
        Governor { budget, then: Seen::default() }
    }

    /// Looks whether the handlers, as the accounts of all processes tell, cost too much at this period.
    pub(super) fn judge(&mut self, losses: &Losses, period_ns: u64, now_ns: u64) -> Option<Slower> {
        let now = Seen {
            at_ns: now_ns,
            ticks: losses.ticks,
            handlers_ns: losses.handler_cpu_ns,
            process_ns: losses.process_cpu_ns,
        };
        if self.then.at_ns == 0 {
            self.then = now;
        }
        let since = |now: u64, then: u64| now.saturating_sub(then);
        if since(now.at_ns, self.then.at_ns) < SPAN_NS || since(now.ticks, self.then.ticks) < ENOUGH_TICKS {
            return None;
        }
        let then = std::mem::replace(&mut self.then, now);
        let target_ns = since(now.process_ns, then.process_ns).max(1);
        let cost = since(now.handlers_ns, then.handlers_ns) as f64 / target_ns as f64;
        let period_ns = period_ns.saturating_mul(2);
        (cost > self.budget && PERIODS_NS.contains(&period_ns)).then_some(Slower {
            period_ns,
            cost,
            budget: self.budget,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// After so many seconds with 100 ticks each that cost so much.
    fn losses(seconds: u64, tick_ns: u64) -> Losses {
        let ticks = 100 * seconds;
        let (handler_cpu_ns, process_cpu_ns) = (ticks * tick_ns, seconds * SECOND);
        Losses { ticks, handler_cpu_ns, process_cpu_ns, ..Losses::default() }
    }

    #[test]
    fn what_costs_too_much_is_halved_and_what_does_not_is_left() {
        let mut governor = Governor::new(0.0005);
        let period_ns = SECOND / 100;
        let judged: Vec<_> = (1..=7).map(|s| governor.judge(&losses(s, 8_000), period_ns, s * SECOND)).collect();
        let slower = Slower { period_ns: 2 * period_ns, cost: 0.0008, budget: 0.0005 };
        assert_eq!(judged, [None, None, Some(slower), None, Some(slower), None, Some(slower)]);
        assert_eq!(
            slower.to_string(),
            "handlers cost 0.08% of the target (--budget 0.05%): the rate is halved to 50 Hz"
        );
        let mut governor = Governor::new(0.01);
        assert!((1..=7).all(|s| governor.judge(&losses(s, 8_000), period_ns, s * SECOND).is_none()));
    }

    #[test]
    fn a_few_ticks_prove_nothing() {
        let mut governor = Governor::new(0.0005);
        let dear = |s: u64| Losses { ticks: s, handler_cpu_ns: s * SECOND / 2, ..losses(s, 0) };
        assert!((1..=20).all(|s| governor.judge(&dear(s), SECOND, s * SECOND).is_none()));
    }
}

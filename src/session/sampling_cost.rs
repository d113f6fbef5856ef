//! The cost of sampling: CPU time of agents and handlers during the window, as a fraction of one
//! CPU.

use std::collections::VecDeque;

use crate::profile::loss::Losses;

/// Minimum time between two readings, ns.
const STEP_NS: u64 = 1_000_000_000;
/// Maximum number of readings: slightly more than the longest window of a minute.
const READINGS: usize = 64;
/// Minimum time that a fraction is computed over, ns.
const LEAST_NS: u64 = 1_000_000_000;

/// Readings of the CPU time that sampling has used so far.
pub(super) struct SamplingCost {
    /// Time and CPU time, ns, oldest first.
    readings: VecDeque<(u64, u64)>,
    first: (u64, u64),
}

impl SamplingCost {
    /// Starts at a time, with no CPU time used.
    pub(super) fn new(since_ns: u64) -> SamplingCost {
        SamplingCost { readings: VecDeque::new(), first: (since_ns, 0) }
    }

    /// Adds a reading if the last one is old enough.
    pub(super) fn read(&mut self, losses: &Losses, now_ns: u64) {
        let last_ns = self.readings.back().map_or(self.first.0, |reading| reading.0);
        if now_ns.saturating_sub(last_ns) >= STEP_NS {
            self.readings.push_back((now_ns, spent_ns(losses)));
            if self.readings.len() > READINGS {
                self.readings.pop_front();
            }
        }
    }

    /// The fraction of one CPU that was used in the window, or since the start if it is `None`.
    /// Returns `None` until a second has passed.
    pub(super) fn cpu_fraction(&self, losses: &Losses, window_ns: Option<u64>, now_ns: u64) -> Option<f64> {
        let since_ns = window_ns.map_or(0, |window_ns| now_ns.saturating_sub(window_ns));
        let readings = [self.first].into_iter().chain(self.readings.iter().copied());
        let (at_ns, then_ns) = readings.take_while(|reading| reading.0 <= since_ns).last().unwrap_or(self.first);
        let passed_ns = now_ns.saturating_sub(at_ns);
        let spent_ns = spent_ns(losses).saturating_sub(then_ns);
        (passed_ns >= LEAST_NS).then(|| spent_ns as f64 / passed_ns as f64)
    }
}

fn spent_ns(losses: &Losses) -> u64 {
    losses.agent_cpu_ns.saturating_add(losses.handler_cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn spent(ns: u64) -> Losses {
        Losses { handler_cpu_ns: ns / 2, agent_cpu_ns: ns - ns / 2, process_cpu_ns: ns, ..Losses::default() }
    }

    #[test]
    fn the_fraction_is_of_one_cpu_even_if_the_target_is_idle() {
        let mut cost = SamplingCost::new(100 * SECOND_NS);
        assert_eq!(cost.cpu_fraction(&spent(0), None, 100 * SECOND_NS), None);
        for second in 1..=100 {
            cost.read(&spent(second * 1_000_000), (100 + second) * SECOND_NS);
        }
        let close = |part: Option<f64>, to: f64| part.is_some_and(|part| (part - to).abs() < to / 1000.0);
        // A millisecond per second is 0.1 %, independent of the target's own CPU time.
        let (now, now_ns) = (spent(100_000_000), 200 * SECOND_NS);
        assert!(close(cost.cpu_fraction(&now, Some(10 * SECOND_NS), now_ns), 0.001));
        assert!(close(cost.cpu_fraction(&now, None, now_ns), 0.001));
        // CPU time before the window does not count.
        let burst = spent(110_000_000);
        assert!(close(cost.cpu_fraction(&burst, Some(10 * SECOND_NS), now_ns), 0.002));
    }
}

//! What sampling costs the target: its CPU time, read from the agents' accounts, as a part of one
//! CPU over the window.

use std::collections::VecDeque;

use crate::profile::loss::Losses;

/// Least time between two readings that are kept, ns.
const STEP_NS: u64 = 1_000_000_000;
/// Readings that are kept: the longest window, a minute, and some more.
const READINGS: usize = 64;
/// The agent's part is shown over such a time at least, ns.
const LEAST_NS: u64 = 1_000_000_000;

/// Readings of the CPU time that sampling has cost so far.
pub(super) struct Cost {
    /// When, and how much by then, ns; the oldest first.
    readings: VecDeque<(u64, u64)>,
    first: (u64, u64),
}

impl Cost {
    /// A watch that began then, with nothing spent.
    pub(super) fn new(since_ns: u64) -> Cost {
        Cost { readings: VecDeque::new(), first: (since_ns, 0) }
    }

    /// Takes a reading, if the last one is old enough.
    pub(super) fn read(&mut self, losses: &Losses, now_ns: u64) {
        let last_ns = self.readings.back().map_or(self.first.0, |reading| reading.0);
        if now_ns.saturating_sub(last_ns) >= STEP_NS {
            self.readings.push_back((now_ns, spent_ns(losses)));
            if self.readings.len() > READINGS {
                self.readings.pop_front();
            }
        }
    }

    /// The part of one CPU that was spent in the window (`None`: since the start); `None` until a
    /// second has passed.
    pub(super) fn of_a_cpu(&self, losses: &Losses, window_ns: Option<u64>, now_ns: u64) -> Option<f64> {
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
    fn the_part_is_of_one_cpu_and_not_of_an_idle_targets_time() {
        let mut cost = Cost::new(100 * SECOND_NS);
        assert_eq!(cost.of_a_cpu(&spent(0), None, 100 * SECOND_NS), None);
        for second in 1..=100 {
            cost.read(&spent(second * 1_000_000), (100 + second) * SECOND_NS);
        }
        let close = |part: Option<f64>, to: f64| part.is_some_and(|part| (part - to).abs() < to / 1000.0);
        // A millisecond each second is 0.1 %, whatever the target used itself.
        let (now, now_ns) = (spent(100_000_000), 200 * SECOND_NS);
        assert!(close(cost.of_a_cpu(&now, Some(10 * SECOND_NS), now_ns), 0.001));
        assert!(close(cost.of_a_cpu(&now, None, now_ns), 0.001));
        // What was before the window does not count.
        let burst = spent(110_000_000);
        assert!(close(cost.of_a_cpu(&burst, Some(10 * SECOND_NS), now_ns), 0.002));
    }
}

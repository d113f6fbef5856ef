//! The chance by which the CPU time of samples differs from the true one.

use crate::profile::Profile;
use crate::wire::SCHEDULER_TICK_NS;

/// The chance by which the total of the samples of a tree differs from its CPU time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    period_ns: u64,
    /// Variance of the samples that have arrived, ns².
    sampled_ns2: f64,
}

impl Chance {
    /// The chance for the samples of a profile so far. `period_ns` is the longest period.
    pub(super) fn of(profile: &Profile, period_ns: u64) -> Chance {
        Chance { period_ns, sampled_ns2: variance_ns2(profile, period_ns) }
    }

    /// Three standard deviations of the total of samples, and a scheduler tick, ns. `used_ns` is
    /// the CPU time that was to be sampled, of which processes without a sample used `missed_ns`.
    fn bound_ns(self, used_ns: u64, missed_ns: u64) -> u64 {
        let period_ns = self.period_ns as f64;
        // At random times, there is one sample for each period. Those of one thread keep step.
        let (at_random, in_step) = (used_ns as f64 * period_ns, self.sampled_ns2 + missed_ns as f64 * period_ns);
        (3.0 * at_random.min(in_step).sqrt()) as u64 + SCHEDULER_TICK_NS
    }

    /// CPU time of a tree beyond what its processes show, ns: 0 if chance explains it. Only the
    /// total of samples differs by chance, and not the time that is known to have none.
    pub(super) fn never_reported_ns(self, used_ns: u64, unsampled_ns: u64, sampled_ns: u64) -> u64 {
        let to_be_sampled_ns = used_ns.saturating_sub(unsampled_ns);
        let never_reported_ns = to_be_sampled_ns.saturating_sub(sampled_ns);
        // Where no process is sampled, for a reason that is known, nothing differs by chance.
        let is_sampled = sampled_ns > 0 || unsampled_ns == 0;
        let is_by_chance = is_sampled && never_reported_ns <= self.bound_ns(to_be_sampled_ns, never_reported_ns);
        if is_by_chance { 0 } else { never_reported_ns }
    }
}

/// Variance of the samples that have arrived, ns²: in the time of each thread, a timer of random
/// phase ticks once more or less, which has a variance of a quarter at most. Changes of the phase,
/// which come after ten or more samples, add one each.
fn variance_ns2(profile: &Profile, period_ns: u64) -> f64 {
    let mut threads = vec![0.0; profile.processes().len()];
    for thread in profile.threads() {
        threads[thread.process.0 as usize] += 1.0;
    }
    let interval_ns = period_ns.max(SCHEDULER_TICK_NS) as f64;
    let samples = profile.processes().iter().map(|process| process.sampled_ns as f64 / interval_ns);
    let by_chance = samples.zip(threads).map(|(samples, threads)| samples.min(threads / 4.0 + samples / 10.0));
    by_chance.sum::<f64>() * interval_ns * interval_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const PERIOD_NS: u64 = 10_000_000;

    #[test]
    fn the_bound_is_three_standard_deviations_and_a_tick() {
        // 3 * sqrt(1 s * 10 ms) + 10 ms.
        assert_eq!(Chance { period_ns: PERIOD_NS, sampled_ns2: 1e18 }.bound_ns(S, 0), 310_000_000);
    }

    /// Regression test: on a busy machine, a child may end long after the last reading of its
    /// clock. The time between was taken for chance if another process had a tick before it blocked
    /// signals.
    #[test]
    fn time_that_is_known_to_have_no_samples_does_not_differ_by_chance() {
        let chance = Chance { period_ns: PERIOD_NS, sampled_ns2: 1e18 };
        assert_eq!(chance.never_reported_ns(3 * S, 27 * S / 10, PERIOD_NS), 3 * S / 10 - PERIOD_NS);
        assert_eq!(chance.never_reported_ns(3 * S, 29 * S / 10, PERIOD_NS), 0);
        assert_eq!(chance.never_reported_ns(3 * S, 0, 27 * S / 10), 0);
    }

    /// Regression test: 100 processes of 45 ms lacked a tenth of their CPU time, and nothing said
    /// so.
    #[test]
    fn the_ends_of_many_processes_are_no_chance() {
        let (used_ns, missed_ns) = (455 * S / 100, 45 * S / 100);
        let chance = Chance { period_ns: PERIOD_NS, sampled_ns2: 100.0 * 0.65 * 1e14 };
        assert_eq!(chance.never_reported_ns(used_ns, 0, used_ns - missed_ns), missed_ns);
    }

    /// Regression test: 300 processes of 50 ms lacked 6 % of their CPU time, for the kernel's work
    /// at their ends, and it was taken for chance.
    #[test]
    fn samples_of_one_process_differ_less_than_random_ones() {
        let (used_ns, missed_ns) = (158 * S / 10, S);
        // Five samples of each process: 1 + 5 / 10 are by chance.
        let chance = Chance { period_ns: PERIOD_NS, sampled_ns2: 300.0 * 1.5 * 1e14 };
        assert_eq!(chance.never_reported_ns(used_ns, 0, used_ns - missed_ns), missed_ns);
        let chance = Chance { sampled_ns2: 1e18, ..chance };
        assert_eq!(chance.never_reported_ns(used_ns, 0, used_ns - missed_ns), 0);
    }
}

//! The weights of the samples of one thread: how much CPU time each stands for, and how much of it
//! is in system calls.
//!
//! The instant of a tick in its period is random. If a sample had the time since the last one, its
//! weight would depend on that instant, and with it on what a program that keeps step with the
//! period does there. Each sample therefore stands for one period. Time that it leaves waits for
//! later samples, and where much has built up, each takes half of it.
//!
//! A stop that is asked for takes a few microseconds to arrive. A thread that enters a system call
//! in the meantime stops at the end of that call, so calls are overcounted: by a factor of two in a
//! program that makes many short ones. The kernel's own accounts of user and system time are not
//! biased in this way, so calls get no more than the thread's share of system time. System time
//! outside of calls (page faults, interrupts) is on samples in user code, so calls are only ever
//! corrected downwards. With few samples, the share of calls is above that of system time by chance
//! half of the time. A correction begins beyond one standard deviation, so that chance does not
//! take from calls.
//!
//! Samples in user code get larger weights at the expense of those in calls. In a program that
//! hardly computes between its calls, such as a web server, a few samples would stand for all user
//! code, so their weights are at most doubled. Where that is not enough, samples at the end of a
//! call count as user code of the function that made it: the thread was there when it was asked to
//! stop.

use super::events::SampledState;

/// Number of the kernel's clock ticks that a thread must have run for a correction. With fewer,
/// chance is larger than the bias.
const LEAST_TICKS: f64 = 40.0;
/// Number of the kernel's clock ticks after which older ones are forgotten.
const MOST_TICKS: f64 = 2_000.0;
/// The largest factor for the weight of a sample in user code.
const LARGEST_FACTOR: f64 = 2.0;

/// Times or numbers of samples in user code and in system calls.
#[derive(Clone, Copy, Debug, Default)]
struct Split {
    user: f64,
    calls: f64,
}

impl Split {
    fn all(&self) -> f64 {
        self.user + self.calls
    }

    fn share_of_calls(&self) -> f64 {
        self.calls / self.all()
    }

    /// The variance of this share if these are independent events.
    fn variance(&self) -> f64 {
        let share = self.share_of_calls();
        share * (1.0 - share) / self.all()
    }

    fn add(&mut self, amount: f64, is_in_call: bool) {
        *(if is_in_call { &mut self.calls } else { &mut self.user }) += amount;
    }

    fn halve(&mut self) {
        (self.user, self.calls) = (self.user / 2.0, self.calls / 2.0);
    }
}

/// A correction of one thread's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Correction {
    /// Factors for the weights of samples in user code and in calls.
    user: f64,
    calls: f64,
    /// The share of calls in the end.
    wanted: f64,
}

/// The share of system calls in the samples of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SystemShare {
    /// User and system time as the kernel counts it since the thread is watched, clock ticks.
    last_ticks: Option<(u64, u64)>,
    /// User and system time that is taken into account, clock ticks.
    kernel: Split,
    /// Number of samples in user code and in calls, uncorrected.
    sampled: Split,
    /// Weights of corrected samples, ns.
    corrected: Split,
}

impl SystemShare {
    /// Takes the thread's user and system time into account, in clock ticks since its start.
    pub(super) fn update(&mut self, user_ticks: u64, system_ticks: u64) {
        if let Some((user, system)) = self.last_ticks {
            self.kernel.user += user_ticks.saturating_sub(user) as f64;
            self.kernel.calls += system_ticks.saturating_sub(system) as f64;
        }
        self.last_ticks = Some((user_ticks, system_ticks));
        if self.kernel.all() > MOST_TICKS {
            [&mut self.kernel, &mut self.sampled, &mut self.corrected].into_iter().for_each(Split::halve);
        }
    }

    fn correction(&self) -> Option<Correction> {
        if self.kernel.all() < LEAST_TICKS || self.sampled.calls <= 0.0 {
            return None;
        }
        let (wanted, had) = (self.kernel.share_of_calls(), self.sampled.share_of_calls());
        let deviation = (self.kernel.variance() + self.sampled.variance()).sqrt();
        if had - wanted <= deviation {
            return None;
        }
        let user = ((1.0 - wanted) / (1.0 - had)).min(LARGEST_FACTOR);
        Some(Correction { user, calls: (1.0 - user * (1.0 - had)) / had, wanted })
    }

    /// Takes what a sample stands for from the thread's unsampled CPU time, ns. Returns its weight,
    /// ns, and where the thread was.
    pub(super) fn weigh(&mut self, unsampled_ns: &mut u64, period_ns: u64, is_in_call: bool) -> (u64, SampledState) {
        let correction = self.correction();
        self.sampled.add(1.0, is_in_call);
        let factor = correction.map_or(1.0, |it| if is_in_call { it.calls } else { it.user });
        let due_ns = factor * period_ns.max(*unsampled_ns / 2) as f64;
        let weight_ns = (due_ns as u64).min(*unsampled_ns);
        *unsampled_ns -= weight_ns;
        let Some(correction) = correction else { return (weight_ns, SampledState::Running) };
        let mut corrected = self.corrected;
        corrected.add(weight_ns as f64 / 2.0, true);
        let is_before_call = is_in_call && corrected.share_of_calls() > correction.wanted;
        self.corrected.add(weight_ns as f64, is_in_call && !is_before_call);
        (weight_ns, if is_before_call { SampledState::BeforeCall } else { SampledState::Running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 10_000_000;

    /// A sample: whether the test says that it is in a call, its weight, ns, and whether it counts
    /// as one in a call.
    type Weighed = (bool, u64, bool);

    /// A thread that is always on a CPU, and is sampled at a random instant of each period.
    struct BusyThread {
        share: SystemShare,
        random: u64,
        period: u64,
        last_ns: u64,
        unsampled_ns: u64,
        samples: Vec<Weighed>,
    }

    impl BusyThread {
        fn new() -> BusyThread {
            let share = SystemShare::default();
            BusyThread {
                share,
                random: 88_172_645_463_325_252,
                period: 0,
                last_ns: 0,
                unsampled_ns: 0,
                samples: vec![],
            }
        }

        /// A number in 0..1.
        fn random(&mut self) -> f64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 11) as f64 / (1u64 << 53) as f64
        }

        fn run(&mut self, periods: u64, is_in_call: impl Fn(&mut Self) -> bool) {
            for _ in 0..periods {
                let at_ns = ((self.period as f64 + self.random()) * PERIOD_NS as f64) as u64;
                self.unsampled_ns += at_ns - std::mem::replace(&mut self.last_ns, at_ns);
                let is_in_call = is_in_call(self);
                let (weight_ns, state) = self.share.weigh(&mut self.unsampled_ns, PERIOD_NS, is_in_call);
                self.samples.push((is_in_call, weight_ns, is_in_call && state == SampledState::Running));
                self.period += 1;
            }
        }

        /// Runs for a number of seconds with 100 periods and clock ticks each, with this share of
        /// system time and this share of samples in calls. Returns the share of calls.
        fn run_with_shares(&mut self, system_share: f64, sampled_share: f64, seconds: u64) -> f64 {
            for second in 0..=seconds {
                let system = (second as f64 * 100.0 * system_share) as u64;
                self.share.update(second * 100 - system, system);
                self.run(100, |thread| thread.random() <= sampled_share);
            }
            self.weight_share(|(_, _, counts_as_call)| *counts_as_call)
        }

        fn weight_share(&self, is_meant: impl Fn(&Weighed) -> bool) -> f64 {
            let all: u64 = self.samples.iter().map(|(_, weight_ns, _)| weight_ns).sum();
            assert_eq!(all + self.unsampled_ns, self.last_ns);
            assert!(self.unsampled_ns <= 6 * PERIOD_NS, "{}", self.unsampled_ns);
            let meant = self.samples.iter().filter(|sample| is_meant(sample)).map(|(_, weight_ns, _)| weight_ns);
            meant.sum::<u64>() as f64 / all as f64
        }
    }

    /// Regression test: nginx and sqlite had 8 to 13 points too many in calls.
    #[test]
    fn overcounted_calls_get_the_share_of_system_time() {
        for (system_share, sampled_share) in [(0.195, 0.387), (0.86, 0.99), (0.5, 1.0), (0.02, 0.6)] {
            let share = BusyThread::new().run_with_shares(system_share, sampled_share, 60);
            assert!((share - system_share).abs() < 0.02, "{share} for {system_share}");
        }
    }

    /// Samples in user code stand for code that computes for long between its calls.
    #[test]
    fn samples_in_user_code_get_larger_weights() {
        let mut thread = BusyThread::new();
        thread.run_with_shares(0.2, 0.4, 60);
        let in_user_code = thread.weight_share(|(is_in_call, ..)| !is_in_call);
        assert!((0.75..0.82).contains(&in_user_code), "{in_user_code}");
    }

    /// Regression test: a few samples in user code took the time of twenty others each.
    #[test]
    fn no_sample_weighs_more_than_a_few_periods() {
        let mut thread = BusyThread::new();
        thread.run_with_shares(0.6, 0.97, 60);
        let largest = thread.samples.iter().map(|(_, weight_ns, _)| *weight_ns).max();
        assert!(largest <= Some(4 * PERIOD_NS), "{largest:?}");
    }

    /// Regression test: the weight of a sample depended on where in the period it was, so a part of
    /// 30 % of such a program had 20 to 40 % of the time.
    #[test]
    fn work_that_keeps_step_with_the_period_has_its_true_share() {
        for phase in [0.0, 0.35, 0.7] {
            let mut thread = BusyThread::new();
            // Without system time, nothing is corrected.
            thread.run(2_000, |thread| (thread.last_ns as f64 / PERIOD_NS as f64 + phase).fract() < 0.3);
            let share = thread.weight_share(|(is_in_part, ..)| *is_in_part);
            // Three standard deviations.
            assert!((share - 0.3).abs() < 0.031, "{share} at {phase}");
        }
    }

    #[test]
    fn system_time_outside_of_calls_changes_nothing() {
        assert_eq!(BusyThread::new().run_with_shares(0.4, 0.0, 20), 0.0);
        let share = BusyThread::new().run_with_shares(0.4, 0.3, 20);
        assert!((share - 0.3).abs() < 0.03, "{share}");
    }

    /// Regression test: chance alone took some percent from the calls of most threads.
    #[test]
    fn chance_takes_nothing_from_calls() {
        let mut share = SystemShare::default();
        share.update(0, 0);
        let sample = |share: &mut SystemShare, count| {
            (0..count)
                .for_each(|number| assert!(share.weigh(&mut PERIOD_NS.clone(), PERIOD_NS, number % 20 < 9).0 > 0));
        };
        sample(&mut share, 100);
        share.update(60, 40);
        assert_eq!(share.correction(), None);
        // The same with many samples is no chance.
        sample(&mut share, 900);
        share.update(600, 400);
        assert!(share.correction().is_some_and(|it| it.calls < 0.9));
    }

    #[test]
    fn a_short_run_is_not_corrected() {
        let mut share = SystemShare::default();
        share.update(0, 0);
        share.update(39, 0);
        let is_plain = |sample| share.weigh(&mut 7, PERIOD_NS, sample % 2 == 0) == (7, SampledState::Running);
        assert!((0..100).all(is_plain));
    }
}

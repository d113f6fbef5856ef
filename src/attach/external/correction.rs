//! Corrects the share of samples in system calls.
//!
//! A stop that is asked for takes a few microseconds to arrive. A thread that enters a system call
//! in the meantime stops at the end of that call, so calls are overcounted: by a factor of two in a
//! program that makes many short ones. The kernel's own accounts of user and system time are not
//! biased in this way. The weights of the samples of each thread are therefore scaled so that calls
//! get no more than the thread's share of system time. System time outside of calls (page faults,
//! interrupts) is on samples in user code, so calls are only ever corrected downwards.
//!
//! With few samples, the share of calls is above that of system time by chance half of the time. A
//! correction begins beyond one standard deviation, so that chance does not take from calls.
//!
//! A factor is used for later samples than those it was computed from. What it takes from a sample
//! is added to the next one, so that the total is the CPU time.

/// Number of the kernel's clock ticks that a thread must have run for a correction. With fewer,
/// chance is larger than the bias.
const LEAST_TICKS: f64 = 40.0;
/// Number of the kernel's clock ticks after which older ones are forgotten.
const MOST_TICKS: f64 = 2_000.0;
/// The smallest factor.
const LEAST_FACTOR: f64 = 0.02;
/// The largest factor. In a program that hardly computes between its calls, such as a web server,
/// stops nearly always come to the ends of calls, and few samples stand for all user code.
const LARGEST_FACTOR: f64 = 20.0;

/// The shares of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SystemShare {
    /// User and system time as the kernel counts it since the thread is watched, clock ticks.
    last_ticks: Option<(u64, u64)>,
    /// User and system time that is taken into account, clock ticks.
    kernel: (f64, f64),
    /// CPU time of the samples in user code and in system calls, uncorrected, ns.
    sampled: (f64, f64),
    /// Sum of the squares of these times.
    squares: f64,
    /// Time that corrections took from samples so far, ns; negative if they added time.
    owed_ns: f64,
}

impl SystemShare {
    /// Takes the thread's user and system time into account, in clock ticks since its start.
    pub(super) fn update(&mut self, user_ticks: u64, system_ticks: u64) {
        if let Some((user, system)) = self.last_ticks {
            self.kernel.0 += user_ticks.saturating_sub(user) as f64;
            self.kernel.1 += system_ticks.saturating_sub(system) as f64;
        }
        self.last_ticks = Some((user_ticks, system_ticks));
        let all = self.kernel.0 + self.kernel.1;
        if all > MOST_TICKS {
            let SystemShare { kernel, sampled, squares, .. } = self;
            for value in [&mut kernel.0, &mut kernel.1, &mut sampled.0, &mut sampled.1, squares] {
                *value /= 2.0;
            }
        }
    }

    /// Returns the factor for samples in user code and that for samples in system calls.
    fn factors(&self) -> (f64, f64) {
        let ((user, system), (sampled_user, sampled_system)) = (self.kernel, self.sampled);
        let sampled = sampled_user + sampled_system;
        if user + system < LEAST_TICKS || sampled_system <= 0.0 || sampled_user <= 0.0 {
            return (1.0, 1.0);
        }
        let (wanted, had) = (system / (user + system), sampled_system / sampled);
        // The kernel counts ticks, and samples have different weights.
        let variance =
            wanted * (1.0 - wanted) / (user + system) + had * (1.0 - had) * self.squares / (sampled * sampled);
        if had - wanted <= variance.sqrt() {
            return (1.0, 1.0);
        }
        let factor = |wanted: f64, had: f64| (wanted / had).clamp(LEAST_FACTOR, LARGEST_FACTOR);
        (factor(1.0 - wanted, 1.0 - had), factor(wanted, had))
    }

    /// Returns the corrected weight of a sample that stands for this CPU time, ns.
    pub(super) fn weigh(&mut self, cpu_ns: u64, is_in_system_call: bool) -> u64 {
        let (user, system) = self.factors();
        let sampled = if is_in_system_call { &mut self.sampled.1 } else { &mut self.sampled.0 };
        *sampled += cpu_ns as f64;
        self.squares += cpu_ns as f64 * cpu_ns as f64;
        let due_ns = (cpu_ns as f64 + self.owed_ns).max(0.0);
        let weight_ns = due_ns * if is_in_system_call { system } else { user };
        self.owed_ns = cpu_ns as f64 + self.owed_ns - weight_ns;
        weight_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights of user code and of calls of a thread that has this share of system time, while
    /// this share of its samples is in calls; a second has 100 samples and clock ticks.
    fn weights(system_share: f64, sampled_share: f64, seconds: u64) -> (u64, u64) {
        let mut share = SystemShare::default();
        let mut random = 88_172_645_463_325_252u64;
        let mut sums = (0, 0);
        for second in 0..=seconds {
            let system = (second as f64 * 100.0 * system_share) as u64;
            share.update(second * 100 - system, system);
            for _ in 0..100 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let is_in_call = (random >> 11) as f64 / (1u64 << 53) as f64 <= sampled_share;
                let weight_ns = share.weigh(10_000_000, is_in_call);
                let sum = if is_in_call { &mut sums.1 } else { &mut sums.0 };
                *sum += weight_ns;
            }
        }
        sums
    }

    #[test]
    fn overcounted_calls_get_the_share_of_system_time_and_the_total_stays() {
        let (user, system) = weights(0.195, 0.387, 60);
        let (share, total_ns) = (system as f64 / (user + system) as f64, (user + system) as f64);
        assert!((share - 0.195).abs() < 0.02, "{share}");
        assert!((total_ns / 61e9 - 1.0).abs() < 0.005, "{total_ns}");
    }

    /// Regression test: nginx and sqlite had 8 to 13 points too many in calls.
    #[test]
    fn rare_samples_of_user_code_get_the_share_of_user_time() {
        let (user, system) = weights(0.86, 0.99, 60);
        let (share, total_ns) = (system as f64 / (user + system) as f64, (user + system) as f64);
        assert!((share - 0.86).abs() < 0.03, "{share}");
        assert!((total_ns / 61e9 - 1.0).abs() < 0.005, "{total_ns}");
    }

    #[test]
    fn system_time_outside_of_calls_changes_nothing() {
        let (user, system) = weights(0.4, 0.0, 20);
        assert_eq!((user, system), (21_000_000_000, 0));
        let (user, system) = weights(0.4, 0.3, 20);
        assert_eq!(user + system, 21_000_000_000);
        assert!((system as f64 / 21e9 - 0.3).abs() < 0.03);
    }

    /// Regression test: chance alone took some percent from the calls of most threads.
    #[test]
    fn chance_takes_nothing_from_calls() {
        let mut share = SystemShare::default();
        share.update(0, 0);
        let sample = |share: &mut SystemShare, count| {
            (0..count).for_each(|number| assert!(share.weigh(10_000_000, number % 20 < 9) > 0));
        };
        sample(&mut share, 100);
        share.update(60, 40);
        assert_eq!((share.weigh(10_000_000, true), share.weigh(10_000_000, false)), (10_000_000, 10_000_000));
        // The same with many samples is no chance.
        sample(&mut share, 900);
        share.update(600, 400);
        assert!(share.weigh(10_000_000, true) < 9_000_000);
    }

    #[test]
    fn a_short_run_is_not_corrected() {
        let mut share = SystemShare::default();
        share.update(0, 0);
        share.update(39, 0);
        assert!((0..100).all(|sample| share.weigh(7, sample % 2 == 0) == 7));
    }
}

//! The countdown of a thread: which of its allocations are sampled, and what each stands for.
//!
//! The bytes until the next candidate come from an exponential distribution whose mean is the
//! interval, so candidates are a Poisson process by bytes. Where there are more than a limit, only
//! some of them are sampled: the interval is doubled for as long as it takes, and a candidate is
//! sampled with the chance that makes samples a Poisson process of that longer interval. The weight
//! of a sample is computed with the interval that was in force for it. As that depends on earlier
//! candidates and on the time alone, weights are unbiased at every rate and while it changes.
//!
//! An allocation of `s` bytes is a candidate with the chance `1 - e^(-s / interval)`, and sampled
//! with `1 - e^(-s / (interval << doublings))`.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::agent::allocations::poisson;

/// The time for which the number of candidates decides on the interval, ns. The clock that tells
/// it has ticks of up to 10 ms.
const PERIOD_NS: u64 = 50_000_000;
/// Maximum number of times that the interval is doubled.
const MAX_DOUBLINGS: u32 = 16;

/// The interval between samples, and their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spacing {
    /// Mean bytes between two candidates.
    pub(crate) interval: u64,
    /// Maximum number of samples of a thread in a second; 0 if there is none. A sudden rise of
    /// their rate may exceed it for a moment.
    pub(crate) per_second: u32,
}

/// An allocation that has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bytes: i64,
    /// Whether its bytes were subtracted from the countdown already.
    pub(crate) is_subtracted: bool,
}

/// The countdown of one thread, in a cache line of its own. Only its thread writes it, also in
/// signal handlers, except for [`restart`](Self::restart).
#[repr(C, align(64))]
pub(crate) struct Countdown {
    /// Thread pointer of its thread; 0 while it has none. A thread that starts where one has ended
    /// has the same.
    pub(crate) owner: AtomicUsize,
    /// Bytes until the next candidate. The replacements subtract from it without a locked
    /// instruction, because only signal handlers of the same thread do so too.
    pub(crate) left: AtomicI64,
    /// State of the random numbers; 0 before the first.
    random: AtomicU64,
    /// Start of the current period, ns.
    since_ns: AtomicU64,
    /// Number of candidates in it.
    candidates: AtomicU32,
    /// Number of samples in it since the last doubling.
    samples: AtomicU32,
    /// Number of times that the interval is doubled.
    doublings: AtomicU32,
    /// Length of the countdown that `left` is the rest of, bytes.
    drawn: AtomicI64,
    /// Bytes that were allocated during earlier countdowns.
    counted: AtomicU64,
}

const _: () = assert!(size_of::<Countdown>() == 64 && core::mem::offset_of!(Countdown, left) == 8);

/// Returns how often a number has to be halved until it is within a limit.
fn halvings(number: u64, limit: u64) -> u32 {
    (0..MAX_DOUBLINGS).find(|&halvings| number >> halvings <= limit).unwrap_or(MAX_DOUBLINGS)
}

impl Countdown {
    /// Makes the thread draw anew. If it subtracts at this moment it may miss that.
    pub(crate) fn restart(&self) {
        self.random.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    /// Returns the number of bytes that the thread has allocated. For another thread, it may be
    /// wrong by the length of a countdown for an instant.
    pub(crate) fn counted(&self) -> u64 {
        let counted = self.counted.load(Ordering::Relaxed);
        if self.random.load(Ordering::Relaxed) == 0 {
            return counted;
        }
        let (drawn, left) = (self.drawn.load(Ordering::Relaxed), self.left.load(Ordering::Relaxed));
        counted.wrapping_add(drawn.saturating_sub(left).max(0) as u64)
    }

    /// Takes back bytes that were counted, but are no memory.
    pub(crate) fn uncount(&self, bytes: u64) {
        self.counted.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts an allocation. Returns the bytes and the number of allocations that it stands for if
    /// it is sampled. `now_ns` is 0 if the time is not known: then there is no limit.
    pub(crate) fn count(
        &self,
        Counted { bytes, is_subtracted }: Counted,
        spacing: Spacing,
        now_ns: impl FnOnce() -> u64,
        seed: impl FnOnce() -> u64,
    ) -> Option<(u64, u64)> {
        let state = self.random.load(Ordering::Relaxed);
        let is_fresh = state == 0;
        let mut state = if is_fresh { seed() | 1 } else { state };
        let mut random = || {
            state = poisson::next_random(state);
            state
        };
        let left = match is_fresh {
            true => {
                self.begin_period(0, 0);
                self.doublings.store(0, Ordering::Relaxed);
                let drawn = poisson::draw(spacing.interval, random());
                self.drawn.store(drawn, Ordering::Relaxed);
                drawn - bytes
            }
            false => self.left.load(Ordering::Relaxed).saturating_sub(if is_subtracted { 0 } else { bytes }),
        };
        let weight = (left < 0).then(|| {
            let doublings = self.note_candidate(spacing.per_second, now_ns());
            let weight = poisson::weigh(bytes as u64, spacing.interval, doublings, &mut random);
            self.note_sample(weight.is_some(), spacing.per_second);
            weight
        });
        if left < 0 {
            let used = self.drawn.load(Ordering::Relaxed).saturating_sub(left);
            let drawn = poisson::draw(spacing.interval, random());
            self.drawn.store(drawn, Ordering::Relaxed);
            self.left.store(drawn, Ordering::Relaxed);
            self.counted.store(self.counted.load(Ordering::Relaxed).wrapping_add(used as u64), Ordering::Relaxed);
        } else {
            self.left.store(left, Ordering::Relaxed);
        }
        self.random.store(random(), Ordering::Relaxed);
        weight.flatten()
    }

    fn begin_period(&self, now_ns: u64, candidates: u32) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.candidates.store(candidates, Ordering::Relaxed);
        self.samples.store(0, Ordering::Relaxed);
    }

    /// Counts a candidate. Returns how often the interval is doubled for it: by the rate in the
    /// period before, and once more each time that a period has as many samples as it may have.
    fn note_candidate(&self, per_second: u32, now_ns: u64) -> u32 {
        if per_second == 0 || now_ns == 0 {
            return 0;
        }
        let (since_ns, candidates) = (self.since_ns.load(Ordering::Relaxed), self.candidates.load(Ordering::Relaxed));
        let elapsed_ns = now_ns.saturating_sub(since_ns);
        if elapsed_ns < PERIOD_NS {
            self.candidates.store(candidates.saturating_add(1), Ordering::Relaxed);
        } else {
            let rate = u64::from(candidates) * 1_000_000_000 / elapsed_ns;
            self.doublings.store(halvings(rate, per_second.into()), Ordering::Relaxed);
            self.begin_period(now_ns, 1);
        }
        self.doublings.load(Ordering::Relaxed)
    }

    /// Counts a candidate that is sampled.
    fn note_sample(&self, is_sampled: bool, per_second: u32) {
        let samples = self.samples.load(Ordering::Relaxed) + u32::from(is_sampled);
        let most = (u64::from(per_second) * PERIOD_NS / 1_000_000_000).max(1);
        let is_full = u64::from(samples) >= most;
        if is_full {
            let doublings = self.doublings.load(Ordering::Relaxed) + 1;
            self.doublings.store(doublings.min(MAX_DOUBLINGS), Ordering::Relaxed);
        }
        self.samples.store(if is_full { 0 } else { samples }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Box<Countdown> {
        // SAFETY: zero is valid.
        unsafe { Box::<Countdown>::new_zeroed().assume_init() }
    }

    const MS: u64 = 1_000_000;
    const INTERVAL: u64 = 1 << 17;
    const LIMITED: Spacing = Spacing { interval: INTERVAL, per_second: 1_000 };

    /// Allocated bytes, and what the samples say of them.
    #[derive(Clone, Copy, Default)]
    struct Sums {
        truth: f64,
        estimate: f64,
        /// Sum of the squares of the weights, which estimates the variance.
        squares: f64,
        samples: u32,
    }

    /// Allocates this number of bytes in blocks of a size for each millisecond from `from` to `to`.
    fn run(countdown: &Countdown, spacing: Spacing, (from, to): (u64, u64), per_ms: u64, size: i64) -> Sums {
        let mut sums = Sums::default();
        for ms in from..to {
            for _ in 0..per_ms / size as u64 {
                let allocation = Counted { bytes: size, is_subtracted: false };
                let weight =
                    countdown.count(allocation, spacing, || (1000 + ms) * MS / 4_000_000 * 4_000_000, || 0x5eed);
                sums.truth += size as f64;
                if let Some((bytes, _)) = weight {
                    sums.estimate += bytes as f64;
                    sums.squares += (bytes as f64).powi(2);
                    sums.samples += 1;
                }
            }
        }
        sums
    }

    #[test]
    fn a_fast_thread_has_half_to_all_of_the_samples_that_it_may_have() {
        let countdown = fresh();
        // 12 candidates in a millisecond.
        run(&countdown, LIMITED, (0, 200), 12 * INTERVAL, 512);
        let sums = run(&countdown, LIMITED, (200, 1200), 12 * INTERVAL, 512);
        assert!((400..1_100).contains(&sums.samples), "{} samples", sums.samples);
        // A slow one has all of its own.
        let sums = run(&countdown, LIMITED, (5000, 6000), INTERVAL / 4, 512);
        assert!((180..320).contains(&sums.samples), "{} samples", sums.samples);
    }

    #[test]
    fn a_sudden_rise_has_a_limited_number_of_samples() {
        let countdown = fresh();
        let sums = run(&countdown, LIMITED, (0, 90), 300 * INTERVAL, 4096);
        assert!((300..1_200).contains(&sums.samples), "{} samples of 27 000 candidates", sums.samples);
        let free = Spacing { per_second: 0, ..LIMITED };
        let sums = run(&fresh(), free, (0, 90), 30 * INTERVAL, 4096);
        assert!((2_500..2_900).contains(&sums.samples), "{} samples of 2 700 candidates", sums.samples);
    }

    /// Bytes of three sites that allocate at different times of a rate that changes by a factor of
    /// a thousand, and one that allocates in large blocks.
    #[test]
    fn weights_are_unbiased_while_the_rate_changes() {
        let countdown = fresh();
        let mut sites = [Sums::default(); 4];
        for cycle in 0..40 {
            let start = cycle * 1000;
            let phases =
                [(0, 0, 70, 64, 512), (1, 70, 90, 64_000, 4096), (2, 90, 300, 800, 96), (3, 300, 330, 90_000, 3 << 20)];
            for (site, from, to, kib, size) in phases {
                let sums = run(&countdown, LIMITED, (start + from, start + to), kib << 10, size);
                let site = &mut sites[site];
                site.truth += sums.truth;
                site.estimate += sums.estimate;
                site.squares += sums.squares;
            }
        }
        for (site, sums) in sites.iter().enumerate() {
            let distance = (sums.estimate - sums.truth) / sums.squares.sqrt();
            let error = sums.squares.sqrt() / sums.truth;
            assert!(distance.abs() < 4.0 && error < 0.1, "{site}: {distance} standard deviations of {error}");
        }
    }
}

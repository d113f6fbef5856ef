//! Corrects the weights of samples so that their sum is the number of bytes that the countdowns
//! have counted. Then totals are exact, and only the shares of functions are estimates.
//!
//! The bytes that are missing at the time of a batch are spread over its samples in proportion to
//! their variances, so an allocation that is certainly sampled keeps its size. A sample alone would
//! stand for the bytes since the one before, which vary more than its estimate: of a batch of `n`
//! samples, the part `n / (n + 4)` is corrected, and the rest with later ones.

use crate::wire::Allocation;

/// Number of samples from which on most of what is missing is corrected.
const DAMPING: f64 = 4.0;
/// Maximum change of a weight, as a part of it.
const MAX_CHANGE: f64 = 0.75;

/// The counted bytes, and those that were reported.
#[derive(Default)]
pub(crate) struct ExactTotal {
    /// The counted bytes when the clock was turned on.
    base: u64,
    /// Sum of the weights that were reported, bytes.
    reported: u64,
}

impl ExactTotal {
    /// Begins with the bytes that are counted up to now.
    pub(crate) fn begin(counted: u64) -> ExactTotal {
        ExactTotal { base: counted, reported: 0 }
    }

    /// Notes a sample that is reported.
    pub(crate) fn report(&mut self, bytes: u64) {
        self.reported = self.reported.wrapping_add(bytes);
    }

    /// Returns the correction for a batch of samples, before they are reported. `counted` are the
    /// bytes that are counted up to now, and `lost` those of samples that were not written. The
    /// last batch is corrected as a whole.
    pub(crate) fn correction(
        &self,
        counted: u64,
        lost: u64,
        is_last: bool,
        batch: impl Iterator<Item = (u64, u64)>,
    ) -> WeightCorrection {
        let (mut samples, mut sum, mut variances) = (0.0, 0u64, 0.0);
        for (weight, detail) in batch {
            samples += 1.0;
            sum = sum.wrapping_add(weight);
            variances += variance(weight, Allocation::unpack(detail).objects);
        }
        let known = self.base.wrapping_add(self.reported).wrapping_add(lost).wrapping_add(sum);
        let missing = counted.wrapping_sub(known) as i64 as f64;
        let part = if is_last { 1.0 } else { samples / (samples + DAMPING) };
        WeightCorrection { factor: if variances > 0.0 { missing * part / variances } else { 0.0 } }
    }
}

/// Variance of a weight that stands for this number of allocations.
fn variance(weight: u64, objects: u32) -> f64 {
    let weight = weight as f64;
    weight * weight * (1.0 - 1.0 / f64::from(objects.max(1)))
}

/// The correction of the samples of a batch.
#[derive(Clone, Copy)]
pub(crate) struct WeightCorrection {
    /// Bytes per variance.
    factor: f64,
}

impl WeightCorrection {
    /// Returns the corrected weight of a sample, and its allocation, packed.
    pub(crate) fn apply(self, weight: u64, detail: u64) -> (u64, u64) {
        let Allocation { id, objects } = Allocation::unpack(detail);
        let change = self.factor * variance(weight, objects) / (weight as f64).max(1.0);
        let scale = 1.0 + change.clamp(-MAX_CHANGE, MAX_CHANGE);
        let scaled = |number: u64| (number as f64 * scale + 0.5) as u64;
        let objects = scaled(objects.into()).clamp(1, u32::MAX.into()) as u32;
        (scaled(weight), Allocation { id, objects }.pack())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::allocations::countdown::{Countdown, Counted, Spacing};

    const INTERVAL: u64 = 1 << 19;

    /// Sums of the true and the sampled bytes of two sites, and of the numbers of allocations.
    #[derive(Default)]
    struct SampledSites {
        truth: [f64; 2],
        sampled: [f64; 2],
        objects: [f64; 2],
    }

    /// A thread that allocates `mib` MiB in blocks of 1 000 and of 200 000 bytes, and reports
    /// `batches` times.
    fn run(seed: u64, mib: u64, batches: u64) -> SampledSites {
        // SAFETY: zero is valid.
        let countdown = unsafe { Box::<Countdown>::new_zeroed().assume_init() };
        let mut exact = ExactTotal::begin(countdown.counted());
        let (mut run, mut random) = (SampledSites::default(), seed);
        let spacing = Spacing { interval: INTERVAL, per_second: 0 };
        for batch in 1..=batches {
            let mut samples = Vec::new();
            while run.truth.iter().sum::<f64>() < (mib << 20) as f64 * batch as f64 / batches as f64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let site = usize::from(random >> 33 & 511 == 0);
                let bytes = [1_000, 200_000][site];
                run.truth[site] += bytes as f64;
                let counted = Counted { bytes, is_subtracted: false };
                let weight = countdown.count(counted, spacing, || 0, || seed.rotate_left(17) ^ 0x5eed_0bad);
                samples.extend(
                    weight
                        .map(|(weight, objects)| (site, weight, Allocation { id: 0, objects: objects as u32 }.pack())),
                );
            }
            let weights = samples.iter().map(|&(_, weight, detail)| (weight, detail));
            let correction = exact.correction(countdown.counted(), 0, batch == batches, weights);
            for (site, weight, detail) in samples {
                let (weight, detail) = correction.apply(weight, detail);
                exact.report(weight);
                run.sampled[site] += weight as f64;
                run.objects[site] += f64::from(Allocation::unpack(detail).objects);
            }
        }
        assert_eq!(countdown.counted() as f64, run.truth.iter().sum::<f64>(), "the countdown knows all bytes");
        run
    }

    /// Regression test: totals of short runs were off by 5 to 24 %.
    #[test]
    fn totals_are_exact_and_shares_are_unbiased() {
        for (mib, batches) in [(200, 2), (50, 5)] {
            let (mut share, mut squares, mut objects) = (0.0, 0.0, 0.0);
            let runs = 200;
            for seed in 1..=runs {
                let SampledSites { truth, sampled, objects: count } = run(seed * 7919, mib, batches);
                let [true_bytes, bytes] = [truth, sampled].map(|bytes| bytes.iter().sum::<f64>());
                // A last batch of few samples cannot take the whole correction.
                let most = if mib == 200 { 0.001 } else { 0.06 };
                assert!((bytes / true_bytes - 1.0).abs() < most, "{mib} MiB: {bytes} of {true_bytes}");
                let off = sampled[1] / bytes - truth[1] / true_bytes;
                (share, squares) = (share + off, squares + off * off);
                objects += count[0] / (truth[0] / 1_000.0);
            }
            let runs = runs as f64;
            let (mean, deviation) = (share / runs, (squares / runs).sqrt());
            // 30 % are in large blocks, which a third of a sample stands for.
            let samples = (mib << 20) as f64 / INTERVAL as f64;
            println!("{mib} MiB: share off by {mean:.4} +- {deviation:.4}, {:.3} of the objects", objects / runs);
            assert!(mean.abs() < 4.0 * deviation / runs.sqrt() + 0.002, "{mean} {deviation}");
            assert!(deviation < 1.2 * (0.25 / samples).sqrt(), "{deviation} of {samples} samples");
            assert!((objects / runs - 1.0).abs() < 0.03, "{objects}");
        }
    }

    #[test]
    fn a_certain_sample_keeps_its_size() {
        let exact = ExactTotal::begin(5);
        let large = (1 << 30, Allocation { id: 7, objects: 1 }.pack());
        let small = (1 << 19, Allocation { id: 8, objects: 1 << 13 }.pack());
        let correction = exact.correction(5 + (1 << 30) + (1 << 18), 0, true, [large, small].into_iter());
        assert_eq!(correction.apply(large.0, large.1), large);
        let (bytes, detail) = correction.apply(small.0, small.1);
        assert_eq!((bytes, Allocation::unpack(detail)), (1 << 18, Allocation { id: 8, objects: 1 << 12 }));
        let nothing = exact.correction(1 << 40, 0, true, core::iter::empty());
        assert_eq!(nothing.apply(large.0, large.1), large);
    }
}

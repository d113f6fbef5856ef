//! The margins of sampled bytes and of numbers of allocations.
//!
//! An allocation of `s` bytes is sampled with the chance `c = 1 - e^(-s / interval)`, and weighs
//! `w = s / c` bytes and `1 / c` allocations then. A sum of such weights has a variance of about
//! `sum × (w - s)`: none for allocations of many intervals, which are all sampled. Rows are taken
//! to have allocations of one size, their mean.

/// Bytes in a number of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySum {
    /// The bytes.
    pub bytes: u64,
    /// The number of allocations.
    pub objects: u64,
}

impl MemorySum {
    /// The number of allocations that a sample of them stands for.
    fn objects_of_sample(self, interval: u64) -> f64 {
        let size = self.bytes as f64 / self.objects.max(1) as f64;
        // Without a size, a sample stands for the interval.
        -(-size / (interval as f64).max(1.0)).exp_m1().recip()
    }

    /// The variance of the bytes.
    fn variance(self, interval: u64) -> f64 {
        let size = self.bytes as f64 / self.objects.max(1) as f64;
        if self.bytes == 0 { 0.0 } else { self.bytes as f64 * size * (self.objects_of_sample(interval) - 1.0) }
    }

    /// Returns the number of samples of equal weight that would tell the share of this part of
    /// `all` as exactly; `samples` if it is nothing or all.
    pub fn equal_samples(self, all: MemorySum, interval: u64, samples: u64) -> u64 {
        let share = self.bytes as f64 / all.bytes.max(1) as f64;
        if !(share > 0.0 && share < 1.0) {
            return samples;
        }
        let rest = MemorySum {
            bytes: all.bytes.saturating_sub(self.bytes),
            objects: all.objects.saturating_sub(self.objects).max(1),
        };
        let variance = (1.0 - share).powi(2) * self.variance(interval) + share * share * rest.variance(interval);
        (share * (1.0 - share) * (all.bytes as f64).powi(2) / variance) as u64
    }

    /// Half the width of the 95 % interval of the number of allocations, relative to it.
    pub fn count_margin(self, interval: u64) -> f64 {
        1.96 * ((self.objects_of_sample(interval) - 1.0) / self.objects.max(1) as f64).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::measure::margin;
    use crate::tally::random::SplitMix64;

    const INTERVAL: u64 = 1 << 19;

    /// Three sites that allocate in blocks of different sizes: bytes in all, and of a block.
    const SITES: [(u64, u64); 3] = [(40 << 20, 64), (30 << 20, 100_000), (30 << 20, 3 << 20)];

    /// The sums of the sites as a run samples them.
    fn sample(random: &mut SplitMix64) -> [MemorySum; 3] {
        SITES.map(|(bytes, size)| {
            let chance = -(-(size as f64) / INTERVAL as f64).exp_m1();
            let count = (bytes / size) as f64;
            // Rare samples are a Poisson process.
            let mut sampled = 0u32;
            if chance < 0.01 {
                let (mut at, mean) = (0.0, 1.0 / chance);
                while at < count {
                    at -= (1.0 - random.next()).ln() * mean;
                    sampled += u32::from(at < count);
                }
            } else {
                sampled = (0..count as u32).map(|_| u32::from(random.next() < chance)).sum();
            }
            let objects = f64::from(sampled) / chance;
            MemorySum { bytes: (objects * size as f64) as u64, objects: objects as u64 }
        })
    }

    /// Regression test: a row of a few samples was off by more than its double, without a margin.
    #[test]
    fn nineteen_of_twenty_runs_have_the_truth_within_the_margins() {
        let mut random = SplitMix64(7);
        let truth = SITES.map(|(bytes, size)| {
            (bytes as f64 / SITES.iter().map(|site| site.0 as f64).sum::<f64>(), (bytes / size) as f64)
        });
        let (mut shares, mut counts, mut widest) = ([0; 3], [0; 3], [0.0f64; 3]);
        for _ in 0..1000 {
            let sums = sample(&mut random);
            let all = MemorySum {
                bytes: sums.iter().map(|sum| sum.bytes).sum(),
                objects: sums.iter().map(|sum| sum.objects).sum(),
            };
            for (site, sum) in sums.into_iter().enumerate() {
                let samples = sum.equal_samples(all, INTERVAL, 200);
                let margin = margin(sum.bytes, all.bytes, samples).unwrap();
                let share = sum.bytes as f64 / all.bytes as f64;
                shares[site] += u32::from((share - truth[site].0).abs() <= margin);
                let relative = sum.count_margin(INTERVAL);
                counts[site] += u32::from((sum.objects as f64 / truth[site].1 - 1.0).abs() <= relative + 1e-3);
                widest[site] = widest[site].max(margin);
            }
        }
        println!("shares {shares:?}, counts {counts:?}, widest margins {widest:?}");
        // 950 are expected; four standard deviations are 28. Margins may be wider than they need.
        assert!(shares.iter().chain(&counts).all(|&inside| inside >= 920), "{shares:?} {counts:?}");
        assert!(widest.iter().all(|&margin| margin < 0.2), "{widest:?}");
    }

    #[test]
    fn large_allocations_have_no_margin() {
        let large = MemorySum { bytes: 100 << 30, objects: 100 };
        assert!(large.count_margin(INTERVAL) < 1e-9);
        let small = MemorySum { bytes: 1 << 30, objects: 1 << 24 };
        let all = MemorySum { bytes: 101 << 30, objects: (1 << 24) + 100 };
        let samples = large.equal_samples(all, INTERVAL, 2148);
        assert!(margin(large.bytes, all.bytes, samples).unwrap() < 0.001, "{samples}");
        // 2048 samples: 4.3 %.
        assert!((small.count_margin(INTERVAL) - 0.043).abs() < 0.001, "{}", small.count_margin(INTERVAL));
        let nothing = MemorySum::default();
        assert_eq!((nothing.equal_samples(all, INTERVAL, 9), nothing.equal_samples(nothing, 0, 9)), (9, 9));
    }
}

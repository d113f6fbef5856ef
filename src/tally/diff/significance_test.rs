//! Whether a difference is significant, or chance explains it.
//!
//! If a row weighs the same all the time, each of its samples is from the current period with the
//! probability `p`: the length of that period divided by that of both. A difference is significant
//! if the probability of the row's share in the current period is less than [`FALSE_ALARMS`]
//! divided by the number of rows (see [`significance`]). Samples that come in bursts count as
//! fewer; see [`Burstiness`](super::Burstiness).

use crate::tally::change::{Change, Changes, Difference};
use crate::tally::significance;
use crate::tally::top::TopTable;

/// The probability that a comparison of a constant load shows a significant difference in any row.
/// It is small, so that bursts do not raise it above 5 %.
const FALSE_ALARMS: f64 = 0.03;

/// Computes differences and tests whether they are significant.
#[derive(Clone, Copy, Debug)]
pub struct SignificanceTest {
    /// The share of the current period in the time of both.
    expected: f64,
    /// The mean weight of a sample, ns.
    sample_ns: f64,
    /// The evidence that a significant difference needs.
    threshold: f64,
    /// The number of samples that carry as much information as one, because they come in bursts.
    burst: f64,
}

impl SignificanceTest {
    /// Creates a test for a current period of `now_ns` and a baseline of `before_ns`. `interval` is
    /// the mean number of bytes between two samples of memory, which count many allocations each;
    /// 0 for time.
    pub fn new(
        (now, before): (&TopTable, &TopTable),
        (now_ns, before_ns): (u64, u64),
        interval: u64,
    ) -> SignificanceTest {
        let samples = (now.samples + before.samples).max(1) as f64;
        SignificanceTest {
            expected: now_ns as f64 / (now_ns as f64 + before_ns as f64),
            sample_ns: ((now.total_ns as f64 + before.total_ns as f64) / samples + interval as f64).max(1.0),
            threshold: significance::threshold(now.rows.len().max(before.rows.len()).max(1), FALSE_ALARMS),
            burst: 1.0,
        }
    }

    /// Creates a test that accepts every difference. It compares a total with an earlier value of
    /// the same total.
    pub fn accept_all() -> SignificanceTest {
        SignificanceTest { expected: 0.5, sample_ns: 1.0, threshold: f64::NEG_INFINITY, burst: 1.0 }
    }

    /// Returns the same test for another number of rows.
    pub fn with_rows(self, rows: usize) -> SignificanceTest {
        let threshold = significance::threshold(rows.max(1), FALSE_ALARMS);
        SignificanceTest { threshold: if self.threshold.is_finite() { threshold } else { self.threshold }, ..self }
    }

    /// Returns the same test for samples of this burstiness.
    pub fn with_burstiness(self, burst: f64) -> SignificanceTest {
        SignificanceTest { burst, ..self }
    }

    /// The mean weight of a sample, ns.
    pub fn sample_ns(&self) -> f64 {
        self.sample_ns
    }

    /// Returns the difference between the weights of both periods, ns.
    pub fn difference(&self, now_ns: u64, before_ns: u64) -> Difference {
        let (now, both) = (now_ns as f64, now_ns as f64 + before_ns as f64);
        let evidence = significance::evidence(both / self.sample_ns / self.burst, now / both, self.expected);
        let negative = now_ns < before_ns;
        let significant = now_ns != before_ns && evidence > self.threshold;
        Difference { ns: now_ns.abs_diff(before_ns), change: Change { negative, significant } }
    }

    /// Returns the differences of a row's flat and cum. `burstiness` is that of either, if it is
    /// not the test's own.
    pub(super) fn flat_and_cum(
        &self,
        now: (u64, u64),
        before: (u64, u64),
        burstiness: Option<(f64, f64)>,
    ) -> (u64, u64, Changes) {
        let (flat_burst, cum_burst) = burstiness.unwrap_or((self.burst, self.burst));
        let flat = self.with_burstiness(flat_burst).difference(now.0, before.0);
        let cum = self.with_burstiness(cum_burst).difference(now.1, before.1);
        (flat.ns, cum.ns, Changes { before_ns: before, flat: flat.change, cum: cum.change })
    }
}

#[cfg(test)]
mod tests {
    use super::super::bursts::Burstiness;
    use super::super::top::diff_tables;
    use super::*;
    use crate::symbols::FunctionId;
    use crate::tally::query::Sort;
    use crate::tally::random::{SplitMix64, program_shares};
    use crate::tally::text::Text;
    use crate::tally::top::{InlineState, TopRow};

    /// The number of trials that succeed.
    fn draw_binomial(random: &mut SplitMix64, trials: u32, probability: f64) -> u64 {
        (0..trials).map(|_| u64::from(random.next() < probability)).sum()
    }

    const PERIOD_NS: u64 = 10_101_010;

    /// The number of samples in a window of 10 s at 99 Hz on one core.
    const WINDOW_SAMPLES: u32 = 990;

    /// The samples of each function of a program; the second function's share is multiplied by
    /// `factor`.
    fn draw_window(random: &mut SplitMix64, factor: f64, samples: u32) -> Vec<u64> {
        let shares = program_shares().into_iter().enumerate();
        let shares = shares.map(|(index, share)| share * if index == 1 { factor } else { 1.0 });
        shares.map(|share| draw_binomial(random, samples, share)).collect()
    }

    fn test() -> SignificanceTest {
        let threshold = significance::threshold(25, FALSE_ALARMS);
        SignificanceTest { expected: 0.5, sample_ns: PERIOD_NS as f64, threshold, burst: 1.0 }
    }

    fn significant(now: &[u64], before: &[u64]) -> Vec<bool> {
        let one =
            |(now, before): (&u64, &u64)| test().difference(now * PERIOD_NS, before * PERIOD_NS).change.significant;
        now.iter().zip(before).map(one).collect()
    }

    #[test]
    fn at_most_5_percent_of_comparisons_of_a_constant_load_are_significant() {
        let mut random = SplitMix64(1);
        let wrong = (0..400).filter(|_| {
            let (now, before) =
                (draw_window(&mut random, 1.0, WINDOW_SAMPLES), draw_window(&mut random, 1.0, WINDOW_SAMPLES));
            significant(&now, &before).contains(&true)
        });
        let wrong = wrong.count();
        assert!(wrong <= 20, "{wrong} of 400");
    }

    #[test]
    fn a_doubled_function_is_significant() {
        let mut random = SplitMix64(2);
        let missed = (0..100).filter(|_| {
            let (before, now) =
                (draw_window(&mut random, 1.0, WINDOW_SAMPLES), draw_window(&mut random, 2.0, WINDOW_SAMPLES));
            !significant(&now, &before)[1]
        });
        let missed = missed.count();
        assert!(missed <= 10, "{missed} of 100");
    }

    /// A sample of memory stands for many allocations: by their number, chance would never explain
    /// anything.
    #[test]
    fn allocations_are_not_samples() {
        let bytes = |intervals: u64| intervals << 19;
        let table = |intervals: u64| TopTable { total_ns: bytes(intervals), samples: 1_000_000, ..TopTable::default() };
        let test = |interval| SignificanceTest::new((&table(200), &table(200)), (1, 1), interval);
        // 120 and 100 samples: a difference of less than 1.4 standard deviations.
        let change = |interval| test(interval).difference(bytes(120), bytes(100)).change.significant;
        assert!(!change(1 << 19) && change(0));
        assert!(test(1 << 19).difference(bytes(200), bytes(100)).change.significant);
    }

    /// Tables of a program whose samples come in bursts of one function: those of the parts of a
    /// baseline, and that of another window.
    fn draw_bursty(random: &mut SplitMix64, burst: u64) -> (Vec<TopTable>, TopTable) {
        let parts: Vec<Vec<u64>> = (0..16)
            .map(|_| {
                let drawn = draw_window(random, 1.0, WINDOW_SAMPLES / 8 / burst as u32);
                drawn.into_iter().map(|samples| samples * burst).collect()
            })
            .collect();
        let table = |counts: Vec<u64>| {
            let row = |(index, count): (usize, &u64)| TopRow {
                function: FunctionId(index as u32),
                full: Text::from(format!("f{index}").as_str()),
                short: Text::default(),
                module: Text::default(),
                owner: Text::default(),
                inline: InlineState::No,
                flat_ns: count * PERIOD_NS,
                cum_ns: count * PERIOD_NS,
                latency_ns: 0,
                changes: None,
            };
            let samples = counts.iter().sum();
            let rows = counts.iter().enumerate().map(row).collect();
            TopTable {
                rows,
                total_ns: samples * PERIOD_NS,
                kept_ns: samples * PERIOD_NS,
                samples,
                kept_samples: samples,
                ..TopTable::default()
            }
        };
        let sum = |parts: &[Vec<u64>]| (0..25).map(|index| parts.iter().map(|part| part[index]).sum()).collect();
        (parts[..8].iter().cloned().map(table).collect(), table(sum(&parts[8..])))
    }

    #[test]
    fn burstiness_keeps_false_alarms_below_5_percent() {
        let mut random = SplitMix64(3);
        for burst in [1, 3, 10] {
            let wrong = |corrected: bool, random: &mut SplitMix64| {
                let (parts, now) = draw_bursty(random, burst);
                let flats = |index: usize| parts.iter().map(|part| part.rows[index].flat_ns).sum::<u64>();
                let mut before = now.clone();
                before.rows.iter_mut().enumerate().for_each(|(index, row)| row.flat_ns = flats(index));
                before.rows.iter_mut().for_each(|row| row.cum_ns = row.flat_ns);
                let bursts = if corrected { Burstiness::new(&parts) } else { Burstiness::default() };
                let table = diff_tables(&now, &before, (&test(), &bursts), Sort::Flat);
                let significant = |changes: Changes| changes.flat.significant || changes.cum.significant;
                table.rows.iter().any(|row| row.changes.is_some_and(significant))
            };
            let count =
                |corrected: bool, random: &mut SplitMix64| (0..200).filter(|_| wrong(corrected, random)).count();
            let (plain, corrected) = (count(false, &mut random), count(true, &mut random));
            assert!(corrected <= 10, "{corrected} of 200 in bursts of {burst}, {plain} without correction");
            assert!(burst < 10 || plain > 100, "bursts of {burst} do not show: {plain}");
        }
    }

    #[test]
    fn a_function_that_runs_in_one_part_only_is_bursty() {
        // A garbage collector that takes a tenth of a window, all in one part.
        let parts = |at: usize| {
            let count = |part: usize| if part == at { 99 } else { 0 };
            (0..8).map(|part| count(part) * PERIOD_NS).collect::<Vec<u64>>()
        };
        let bursts = Burstiness::default();
        let burstiness = bursts.load(&parts(3).try_into().unwrap(), PERIOD_NS as f64);
        assert!(burstiness > 20.0, "{burstiness}");
        let steady = bursts.load(&[12 * PERIOD_NS; 8], PERIOD_NS as f64);
        assert!((steady - 1.0).abs() < 1e-9, "{steady}");
        let change = |burst| test().with_burstiness(burst).difference(198 * PERIOD_NS, 99 * PERIOD_NS).change;
        assert!(change(1.0).significant && !change(burstiness).significant);
    }

    #[test]
    fn differences_have_size_sign_and_significance() {
        let test = test();
        let difference = |now, before| test.difference(now, before);
        assert_eq!(difference(7, 7), Difference::default());
        assert_eq!(difference(0, 0), Difference::default());
        assert_eq!(difference(5, 7).change, Change { negative: true, significant: false });
        let much = 1000 * PERIOD_NS;
        assert_eq!(difference(much, 0), Difference { ns: much, change: Change { negative: false, significant: true } });
        assert_eq!(difference(0, much).change, Change { negative: true, significant: true });
        assert!(SignificanceTest::accept_all().difference(2, 1).change.significant);
    }
}

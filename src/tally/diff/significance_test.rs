//! Whether a difference is significant, or chance explains it.
//!
//! Shares are compared, not times: the machine may give the program more of its time in one period
//! than in the other. A difference is significant if the probability that a constant share differs
//! so much (see [`significance`]) is less than the row's part of [`FALSE_ALARMS`]. Rows have parts
//! in proportion to the variance of their samples: many rows that are too small to tell do not hide
//! a large one. Where the load as a whole is another ([`LOAD_CHANGE`]), the times of rows are
//! compared, too. Samples that come in bursts count as fewer; see [`Burstiness`].
//!
//! The current period may begin before the baseline was set. What both have in common differs in
//! neither, and only the rest of both is compared; a row's part of it is estimated.

use std::collections::{HashMap, HashSet};

use super::bursts::Burstiness;
use crate::tally::change::{Change, Changes, Difference};
use crate::tally::significance;
use crate::tally::text::Text;
use crate::tally::top::TopTable;

/// The probability that a comparison of a constant load shows a significant difference in any row.
const FALSE_ALARMS: f64 = 0.05;
/// The factor from which on another load is no longer the work of other programs on the machine.
const LOAD_CHANGE: f64 = 1.5;

/// The periods that are compared, ns.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    /// The length of the current period.
    pub now_ns: u64,
    /// The length of the baseline.
    pub before_ns: u64,
    /// The length of what both have in common.
    pub shared_ns: u64,
}

/// Computes differences and tests whether they are significant.
#[derive(Clone, Copy, Debug)]
pub struct SignificanceTest {
    /// Whether every difference is significant.
    accepts_all: bool,
    /// The weights of all samples of the current period and of the baseline, without those that
    /// both have in common, ns.
    totals_ns: (f64, f64),
    /// The part of the baseline that is in the current period, too.
    shared: f64,
    /// The share of the current period in the time of both, if another load is significant.
    expected: Option<f64>,
    /// The mean weight of a sample, ns.
    sample_ns: f64,
    /// The number of rows of equal variance that would need as much evidence as a row with all of
    /// the variance.
    rows: f64,
    /// The number of samples that carry as much information as one, because they come in bursts.
    burst: f64,
    /// The same of the load.
    load_burst: f64,
}

impl SignificanceTest {
    /// Creates a test.
    pub fn new((now, before): (&TopTable, &TopTable), periods: Periods, bursts: &Burstiness) -> SignificanceTest {
        let samples = (now.samples + before.samples).max(1) as f64;
        // Samples of memory have unequal weights.
        let interval = now.interval.max(before.interval) as f64;
        let shared = periods.shared_ns.min(periods.before_ns) as f64 / (periods.before_ns as f64).max(1.0);
        let mut test = SignificanceTest {
            accepts_all: false,
            totals_ns: rest(shared, now.total_ns, before.total_ns),
            shared,
            expected: None,
            sample_ns: ((now.total_ns as f64 + before.total_ns as f64) / samples).max(interval).max(1.0),
            rows: 1.0,
            burst: 1.0,
            load_burst: bursts.load,
        };
        test.rows = test.variances(now, before).max(0.25);
        let (now_ns, before_ns) = rest(shared, periods.now_ns, periods.before_ns);
        let expected = now_ns / (now_ns + before_ns);
        let factor = test.totals_ns.0 / test.totals_ns.1 * before_ns / now_ns;
        if !(LOAD_CHANGE.recip()..LOAD_CHANGE).contains(&factor)
            && test.evidence_of_time(test.totals_ns, expected, bursts.load) > significance::threshold(1.0, FALSE_ALARMS)
        {
            test.expected = Some(expected);
        }
        test
    }

    /// Creates a test that accepts every difference. It compares a total with an earlier value of
    /// the same total.
    pub fn accept_all() -> SignificanceTest {
        SignificanceTest {
            accepts_all: true,
            totals_ns: (0.0, 0.0),
            shared: 0.0,
            expected: None,
            sample_ns: 1.0,
            rows: 1.0,
            burst: 1.0,
            load_burst: 1.0,
        }
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
        let significant = now_ns != before_ns && (self.accepts_all || self.is_significant(now_ns, before_ns));
        Difference { ns: now_ns.abs_diff(before_ns), change: Change { negative: now_ns < before_ns, significant } }
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

    fn is_significant(&self, now_ns: u64, before_ns: u64) -> bool {
        let (now, before) = rest(self.shared, now_ns, before_ns);
        let samples = |ns: f64| ns / self.sample_ns / self.burst;
        let totals = (samples(self.totals_ns.0), samples(self.totals_ns.1));
        let evidence = significance::evidence_of_shares((samples(now), totals.0), (samples(before), totals.1));
        let share = self.share(now + before);
        let threshold = |part: f64| significance::threshold(self.rows / part, FALSE_ALARMS);
        // A share that shrinks while the time grows is in doubt.
        let is_shown = (now / self.totals_ns.0 < before / self.totals_ns.1) == (now_ns < before_ns);
        let time = self.expected.is_some_and(|expected| {
            // The load's variance is one of the row, too, as far as that has a share of it.
            let burst = self.burst + share * (self.load_burst - 1.0);
            self.evidence_of_time((now, before), expected, burst) > threshold(share)
        });
        is_shown && evidence > threshold(share * (1.0 - share)) || time
    }

    /// The evidence that a weight is not constant in time.
    fn evidence_of_time(&self, (now, before): (f64, f64), expected: f64, burst: f64) -> f64 {
        let both = now + before;
        significance::evidence(both / self.sample_ns / burst, now / both, expected)
    }

    /// The share of a weight in both periods, from 0 to 1.
    fn share(&self, both_ns: f64) -> f64 {
        (both_ns / (self.totals_ns.0 + self.totals_ns.1)).clamp(0.0, 1.0)
    }

    /// The sum of the variances of all flats and cums that are not the same samples. It is 1 for
    /// many small rows that call nothing.
    fn variances(&self, now: &TopTable, before: &TopTable) -> f64 {
        let mut rows: HashMap<&Text, [(u64, u64); 2]> = HashMap::new();
        for (period, table) in [now, before].into_iter().enumerate() {
            for row in &table.rows {
                rows.entry(&row.full).or_default()[period] = (row.flat_ns, row.cum_ns);
            }
        }
        let pairs = rows.values().flat_map(|[now, before]| [(now.0, before.0), (now.1, before.1)]);
        let distinct: HashSet<(u64, u64)> = pairs.collect();
        let variance = |(now_ns, before_ns): (u64, u64)| {
            let (now, before) = rest(self.shared, now_ns, before_ns);
            let share = self.share(now + before);
            share * (1.0 - share)
        };
        distinct.into_iter().map(variance).sum()
    }
}

/// The weights without what both periods have in common, of which a weight of the baseline has the
/// part `shared`.
fn rest(shared: f64, now_ns: u64, before_ns: u64) -> (f64, f64) {
    let (now, before) = (now_ns as f64, before_ns as f64);
    ((now - shared * before).max(0.0), (1.0 - shared) * before)
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

    const PERIODS: Periods = Periods { now_ns: 10_000_000_000, before_ns: 10_000_000_000, shared_ns: 0 };

    fn test(now: &[u64], before: &[u64]) -> SignificanceTest {
        SignificanceTest::new((&table(now), &table(before)), PERIODS, &Burstiness::default())
    }

    fn significant(now: &[u64], before: &[u64]) -> Vec<bool> {
        let test = test(now, before);
        let one = |(now, before): (&u64, &u64)| test.difference(now * PERIOD_NS, before * PERIOD_NS).change.significant;
        now.iter().zip(before).map(one).collect()
    }

    /// The table of functions with so many samples each.
    fn table(counts: &[u64]) -> TopTable {
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
            library_ns: 0,
            library_call: Text::default(),
            is_own: true,
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

    /// Tables of a program whose samples come in bursts of one function: those of the parts of a
    /// baseline, and that of another window.
    fn draw_bursty(random: &mut SplitMix64, burst: u64) -> (Vec<TopTable>, TopTable) {
        let parts: Vec<Vec<u64>> = (0..16)
            .map(|_| {
                let drawn = draw_window(random, 1.0, WINDOW_SAMPLES / 8 / burst as u32);
                drawn.into_iter().map(|samples| samples * burst).collect()
            })
            .collect();
        let sum = |parts: &[Vec<u64>]| -> Vec<u64> {
            (0..25).map(|index| parts.iter().map(|part| part[index]).sum()).collect()
        };
        (parts[..8].iter().map(|part| table(part)).collect(), table(&sum(&parts[8..])))
    }

    #[test]
    fn burstiness_keeps_false_alarms_below_5_percent() {
        let mut random = SplitMix64(3);
        for burst in [1, 3, 10] {
            let wrong = |corrected: bool, random: &mut SplitMix64| {
                let (parts, now) = draw_bursty(random, burst);
                let flats = |index: usize| parts.iter().map(|part| part.rows[index].flat_ns / PERIOD_NS).sum::<u64>();
                let before = table(&(0..25).map(flats).collect::<Vec<_>>());
                let bursts = if corrected { Burstiness::new(&parts) } else { Burstiness::default() };
                let test = SignificanceTest::new((&now, &before), PERIODS, &bursts);
                let table = diff_tables(&now, &before, (&test, &bursts), (Sort::Flat, false));
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
        let (bursts, totals) = (Burstiness::default(), [124 * PERIOD_NS; 8]);
        let burstiness = bursts.thread(&parts(3).try_into().unwrap(), &totals, PERIOD_NS as f64);
        assert!(burstiness > 20.0, "{burstiness}");
        let steady = bursts.thread(&[12 * PERIOD_NS; 8], &totals, PERIOD_NS as f64);
        assert!((steady - 1.0).abs() < 1e-9, "{steady}");
        let test = test(&[198, 792], &[99, 891]);
        let change = |burst| test.with_burstiness(burst).difference(198 * PERIOD_NS, 99 * PERIOD_NS).change;
        assert!(change(1.0).significant && !change(burstiness).significant);
    }

    #[test]
    fn differences_have_size_sign_and_significance() {
        let test = test(&[1000, 500], &[1000, 500]);
        let difference = |now, before| test.difference(now, before);
        assert_eq!(difference(7, 7), Difference::default());
        assert_eq!(difference(0, 0), Difference::default());
        assert_eq!(difference(5, 7).change, Change { negative: true, significant: false });
        let much = 1000 * PERIOD_NS;
        assert_eq!(difference(much, 0), Difference { ns: much, change: Change { negative: false, significant: true } });
        assert_eq!(difference(0, much).change, Change { negative: true, significant: true });
        assert!(SignificanceTest::accept_all().difference(2, 1).change.significant);
    }

    /// Regression test: the machine gave the program another part of its time, and all rows of it
    /// were marked.
    #[test]
    fn another_load_is_no_change_of_shares_unless_it_is_much_larger() {
        let before = [400, 300, 200, 100];
        let times = |tenths: u64| before.map(|count| count * tenths / 10);
        assert!(!significant(&times(13), &before).contains(&true));
        assert!(!significant(&times(8), &before).contains(&true));
        assert_eq!(significant(&times(20), &before), [true; 4]);
        assert_eq!(significant(&times(5), &before), [true; 4]);
        // The load itself comes and goes.
        let mut bursts = Burstiness::default();
        bursts.load = 400.0;
        let test = SignificanceTest::new((&table(&times(20)), &table(&before)), PERIODS, &bursts);
        assert!(!test.difference(800 * PERIOD_NS, 400 * PERIOD_NS).change.significant);
    }

    /// Regression test: 300 rows with a sample or two hid a difference of four standard deviations.
    #[test]
    fn small_rows_do_not_hide_a_large_one() {
        let program = |planted: u64| [vec![planted, 790 - planted - 300], vec![1; 300]].concat();
        // 1.6 times; (156 - 97) / sqrt(253 * 0.84) is 4.05.
        let found = significant(&program(156), &program(97));
        assert!(found[0] && !found[2..].contains(&true));
    }

    #[test]
    fn what_both_periods_have_in_common_is_not_compared() {
        // The second half of the baseline is the first half of the current period. The function has
        // 50 samples in each half before, and 80 in the new one: 2.8 standard deviations.
        let (now, before) = ([130, 870], [100, 900]);
        let half = Periods { shared_ns: 5_000_000_000, ..PERIODS };
        let significant = |periods| {
            let test = SignificanceTest::new((&table(&now), &table(&before)), periods, &Burstiness::default());
            test.difference(130 * PERIOD_NS, 100 * PERIOD_NS).change.significant
        };
        assert!(significant(half) && !significant(PERIODS));
        let whole = Periods { shared_ns: 10_000_000_000, ..PERIODS };
        let test = SignificanceTest::new((&table(&before), &table(&before)), whole, &Burstiness::default());
        assert_eq!(test.difference(100, 100), Difference::default());
    }
}

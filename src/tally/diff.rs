//! Differences: how much more or less something weighs than in a baseline, in the sense of pprof's `-base`. Values have signs; percentages
//! are of both totals together and have none; rows are in order of the size of their difference.
//!
//! What chance explains: if a row weighs the same all the time, each of its `k` samples is from now with the probability `p`, the time
//! that is seen now divided by both times. That `q k` of them or more extremely many are from now has then a probability of at most
//! `2 exp(-k D)` (Chernoff, as in [`trend`](super::trend)), and of about that divided by `sqrt(4 pi k D)`. A difference is sure where
//! this is less than [`CHANCE`] divided by the number of rows. Where samples come in bursts, `k` is [lessened](Bursts).

mod bursts;
mod flames;
mod lines;
mod threads;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

pub use bursts::{Bursts, parts};
pub use flames::flames;
pub use lines::lines;
pub use threads::threads;

use super::callers::{Callers, Edge};
use super::query::Sort;
use super::table::{Row, Table};
use super::text::Text;

/// Comparisons of a constant load that show a sure difference on any row, of all. Few, so that bursts do not bring them over 5 %.
const CHANCE: f64 = 0.03;

/// What kind of difference a size is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// It is less than it was.
    pub negative: bool,
    /// Chance does not explain it.
    pub sure: bool,
}

/// Of a row's flat and cum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of its flat.
    pub flat: Change,
    /// Of its cum.
    pub cum: Change,
}

/// A difference and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Its size, ns.
    pub ns: u64,
    /// What it is.
    pub change: Change,
}

/// Tells differences from chance.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// The part of the time seen that is now.
    part: f64,
    /// What a sample weighs.
    sample_ns: f64,
    /// How unlikely a difference must be: the logarithm of its probability, without its sign.
    needed: f64,
    /// How many samples tell as much as one, because they come in bursts.
    burst: f64,
}

impl Judge {
    /// A judge of so long a time now, and so long a time before, ns.
    pub fn new(now: &Table, before: &Table, now_ns: u64, before_ns: u64) -> Judge {
        let samples = (now.samples + before.samples).max(1) as f64;
        let rows = now.rows.len().max(before.rows.len()).max(1) as f64;
        Judge {
            part: now_ns as f64 / (now_ns as f64 + before_ns as f64),
            sample_ns: ((now.total_ns as f64 + before.total_ns as f64) / samples).max(1.0),
            needed: (2.0 * rows / CHANCE).ln(),
            burst: 1.0,
        }
    }

    /// The same judge for so many rows.
    pub fn among(self, rows: usize) -> Judge {
        let needed = (2.0 * rows.max(1) as f64 / CHANCE).ln();
        Judge { needed: if self.needed.is_finite() { needed } else { self.needed }, ..self }
    }

    /// The same judge of what is so bursty.
    pub fn of_bursts(self, burst: f64) -> Judge {
        Judge { burst, ..self }
    }

    /// What a sample weighs, ns.
    pub fn sample_ns(&self) -> f64 {
        self.sample_ns
    }

    /// One that believes every difference: what came since is there.
    pub fn credulous() -> Judge {
        Judge { part: 0.5, sample_ns: 1.0, needed: f64::NEG_INFINITY, burst: 1.0 }
    }

    /// The difference of what weighs so much now and weighed so much before, ns.
    pub fn difference(&self, now_ns: u64, before_ns: u64) -> Difference {
        let (now, both) = (now_ns as f64, now_ns as f64 + before_ns as f64);
        let found = now / both;
        let part = |found: f64, expected: f64| if found == 0.0 { 0.0 } else { found * (found / expected).ln() };
        let against =
            both / self.sample_ns / self.burst * (part(found, self.part) + part(1.0 - found, 1.0 - self.part));
        let unlikely = against + (4.0 * std::f64::consts::PI * against.max(1.0)).ln() / 2.0;
        let negative = now_ns < before_ns;
        let sure = now_ns != before_ns && unlikely > self.needed;
        Difference { ns: now_ns.abs_diff(before_ns), change: Change { negative, sure } }
    }
}

/// What a table has more or less than another.
pub fn tables(now: &Table, before: &Table, (judge, bursts): (&Judge, &Bursts), sort: Sort) -> Table {
    let base: HashMap<&Text, &Row> = before.rows.iter().map(|row| (&row.full, row)).collect();
    let known: HashSet<&Text> = now.rows.iter().map(|row| &row.full).collect();
    let gone = before.rows.iter().filter(|row| !known.contains(&row.full));
    let mut rows: Vec<Row> =
        now.rows.iter().map(|row| changed(row, Some(row), base.get(&row.full).copied(), (judge, bursts))).collect();
    rows.extend(gone.map(|row| changed(row, None, Some(row), (judge, bursts))));
    match sort {
        Sort::Flat => rows.sort_by(|a, b| b.flat_ns.cmp(&a.flat_ns).then_with(|| a.full.cmp(&b.full))),
        Sort::Cum => rows.sort_by(|a, b| b.cum_ns.cmp(&a.cum_ns).then_with(|| a.full.cmp(&b.full))),
        Sort::Name => rows.sort_by(|a, b| a.full.cmp(&b.full)),
    }
    Table {
        rows,
        total_ns: now.total_ns.saturating_add(before.total_ns),
        kept_ns: now.kept_ns.saturating_add(before.kept_ns),
        ..now.clone_head()
    }
}

fn changed(row: &Row, now: Option<&Row>, before: Option<&Row>, (judge, bursts): (&Judge, &Bursts)) -> Row {
    let numbers = |row: Option<&Row>| row.map_or((0, 0), |row| (row.flat_ns, row.cum_ns));
    let (now, before) = (numbers(now), numbers(before));
    let burst = bursts.row(&row.full);
    let flat = judge.of_bursts(burst.0).difference(now.0, before.0);
    let cum = judge.of_bursts(burst.1).difference(now.1, before.1);
    let changes = Changes { flat: flat.change, cum: cum.change };
    Row { flat_ns: flat.ns, cum_ns: cum.ns, changes: Some(changes), ..row.clone() }
}

/// What callers and callees have more or less than others of the same centre.
pub fn callers(now: &Callers, before: &Callers, (judge, bursts): (&Judge, &Bursts)) -> Callers {
    let known = if now.short.is_empty() { before } else { now };
    let burst = bursts.row(&Text::from(now.full.as_str()));
    let flat = judge.of_bursts(burst.0).difference(now.flat_ns, before.flat_ns);
    let cum = judge.of_bursts(burst.1).difference(now.cum_ns, before.cum_ns);
    Callers {
        flat_ns: flat.ns,
        cum_ns: cum.ns,
        whole_ns: now.cum_ns.saturating_add(before.cum_ns),
        changes: Some(Changes { flat: flat.change, cum: cum.change }),
        callers: edges(&now.callers, &before.callers, (judge, bursts)),
        callees: edges(&now.callees, &before.callees, (judge, bursts)),
        ..known.clone()
    }
}

fn edges(now: &[Edge], before: &[Edge], (judge, bursts): (&Judge, &Bursts)) -> Vec<Edge> {
    let weight =
        |edges: &[Edge], full: &Text| edges.iter().find(|edge| edge.full == *full).map_or(0, |edge| edge.weight_ns);
    let gone = before.iter().filter(|edge| !now.iter().any(|other| other.full == edge.full));
    let changed = |edge: &Edge| {
        let judge = judge.of_bursts(bursts.row(&edge.full).1);
        let Difference { ns, change } = judge.difference(weight(now, &edge.full), weight(before, &edge.full));
        Edge { weight_ns: ns, change: Some(change), ..edge.clone() }
    };
    let mut edges: Vec<Edge> = now.iter().chain(gone).map(changed).collect();
    edges.sort_by(|a, b| (Reverse(a.weight_ns), &a.full).cmp(&(Reverse(b.weight_ns), &b.full)));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steele, Lea and Flood's generator: the same numbers at each run.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// How many of so many trials succeed.
        fn binomial(&mut self, trials: u32, chance: f64) -> u64 {
            (0..trials).map(|_| u64::from(self.next() < chance)).sum()
        }
    }

    const PERIOD_NS: u64 = 10_101_010;

    /// Of a program of 25 functions that runs a window of 10 s at 99 Hz on one core, the samples of each; the second function's share is
    /// `times` as large.
    fn window(random: &mut Random, times: f64) -> Vec<u64> {
        shared(random, times, 990)
    }

    /// The same in so many draws.
    fn window_of(random: &mut Random, draws: u32) -> Vec<u64> {
        shared(random, 1.0, draws)
    }

    fn shared(random: &mut Random, times: f64, draws: u32) -> Vec<u64> {
        let shares: Vec<f64> = (0..25).map(|index| 1.0 / (1.6 + f64::from(index))).collect();
        let sum: f64 = shares.iter().sum();
        let share = |index: usize| shares[index] / sum * if index == 1 { times } else { 1.0 };
        (0..25).map(|index| random.binomial(draws, share(index))).collect()
    }

    fn judge() -> Judge {
        Judge { part: 0.5, sample_ns: PERIOD_NS as f64, needed: (2.0 * 25.0 / CHANCE).ln(), burst: 1.0 }
    }

    fn sure(now: &[u64], before: &[u64]) -> Vec<bool> {
        let one = |(now, before): (&u64, &u64)| judge().difference(now * PERIOD_NS, before * PERIOD_NS).change.sure;
        now.iter().zip(before).map(one).collect()
    }

    #[test]
    fn a_constant_load_shows_no_sure_difference_in_95_of_100() {
        let mut random = Random(1);
        let wrong = (0..400).filter(|_| {
            let (now, before) = (window(&mut random, 1.0), window(&mut random, 1.0));
            sure(&now, &before).contains(&true)
        });
        let wrong = wrong.count();
        assert!(wrong <= 20, "{wrong} of 400");
    }

    #[test]
    fn a_doubled_function_is_sure() {
        let mut random = Random(2);
        let missed = (0..100).filter(|_| {
            let (before, now) = (window(&mut random, 1.0), window(&mut random, 2.0));
            !sure(&now, &before)[1]
        });
        let missed = missed.count();
        assert!(missed <= 10, "{missed} of 100");
    }

    /// Tables of equal parts of windows of such a program whose samples come in bursts of so many of one function: the baseline's, and
    /// one of another window.
    fn bursty(random: &mut Random, burst: u64) -> (Vec<Table>, Table) {
        let parts: Vec<Vec<u64>> = (0..16)
            .map(|_| {
                let drawn = window_of(random, 990 / 8 / burst as u32);
                drawn.into_iter().map(|samples| samples * burst).collect()
            })
            .collect();
        let table = |counts: Vec<u64>| {
            let row = |(index, count): (usize, &u64)| Row {
                function: crate::symbols::FunctionId(index as u32),
                full: Text::from(format!("f{index}").as_str()),
                short: Text::default(),
                module: Text::default(),
                owner: Text::default(),
                inline: crate::tally::table::Inline::No,
                flat_ns: count * PERIOD_NS,
                cum_ns: count * PERIOD_NS,
                changes: None,
            };
            let samples = counts.iter().sum();
            let rows = counts.iter().enumerate().map(row).collect();
            Table { rows, total_ns: samples * PERIOD_NS, kept_ns: samples * PERIOD_NS, samples, kept_samples: samples }
        };
        let sum = |parts: &[Vec<u64>]| (0..25).map(|index| parts.iter().map(|part| part[index]).sum()).collect();
        (parts[..8].iter().cloned().map(table).collect(), table(sum(&parts[8..])))
    }

    #[test]
    fn a_constant_load_that_comes_in_bursts_shows_none_either() {
        let mut random = Random(3);
        for burst in [1, 3, 10] {
            let wrong = |corrected: bool, random: &mut Random| {
                let (parts, now) = bursty(random, burst);
                let flats = |index: usize| parts.iter().map(|part| part.rows[index].flat_ns).sum::<u64>();
                let mut before = now.clone();
                before.rows.iter_mut().enumerate().for_each(|(index, row)| row.flat_ns = flats(index));
                before.rows.iter_mut().for_each(|row| row.cum_ns = row.flat_ns);
                let bursts = if corrected { Bursts::of(&parts) } else { Bursts::default() };
                let told = tables(&now, &before, (&judge(), &bursts), Sort::Flat);
                told.rows.iter().any(|row| row.changes.is_some_and(|changes| changes.flat.sure || changes.cum.sure))
            };
            let count = |corrected: bool, random: &mut Random| (0..200).filter(|_| wrong(corrected, random)).count();
            let (plain, corrected) = (count(false, &mut random), count(true, &mut random));
            assert!(corrected <= 10, "{corrected} of 200 in bursts of {burst}, {plain} as if there were none");
            assert!(burst < 10 || plain > 100, "bursts of {burst} do not show: {plain}");
        }
    }

    #[test]
    fn a_function_that_runs_now_and_then_is_known_for_it() {
        // A collector that takes a tenth of a window at a time, all in one of its parts.
        let parts = |at: usize| {
            let count = |part: usize| if part == at { 99 } else { 0 };
            (0..8).map(|part| count(part) * PERIOD_NS).collect::<Vec<u64>>()
        };
        let bursts = Bursts::default();
        let spread = bursts.load(&parts(3).try_into().unwrap(), PERIOD_NS as f64);
        assert!(spread > 20.0, "{spread}");
        let steady = bursts.load(&[12 * PERIOD_NS; 8], PERIOD_NS as f64);
        assert!((steady - 1.0).abs() < 1e-9, "{steady}");
        let change = |burst| judge().of_bursts(burst).difference(198 * PERIOD_NS, 99 * PERIOD_NS).change;
        assert!(change(1.0).sure && !change(spread).sure);
    }

    #[test]
    fn a_difference_has_size_sign_and_nothing_else() {
        let judge = judge();
        let told = |now, before| judge.difference(now, before);
        assert_eq!(told(7, 7), Difference::default());
        assert_eq!(told(0, 0), Difference::default());
        assert_eq!(told(5, 7).change, Change { negative: true, sure: false });
        let much = 1000 * PERIOD_NS;
        assert_eq!(told(much, 0), Difference { ns: much, change: Change { negative: false, sure: true } });
        assert_eq!(told(0, much).change, Change { negative: true, sure: true });
        assert!(Judge::credulous().difference(2, 1).change.sure);
    }
}

//! How a row's flat goes: its share in each of a few parts of a window, and whether it rises or falls by more than chance
//! explains. The window is compared with the one before it; a window that is more than half as long as what is kept by time
//! is too long for that, and halves of what is kept are compared. What a tick held is kept for
//! the next answer; the rest is forgotten.
//!
//! If a row's share is the same all the time, then of its `k` samples each is from the newer half with the probability `p`
//! that any sample is. That `q k` of them or more extremely many are from there has then a probability of at most
//! `2 exp(-k D)`, where `D = q ln(q/p) + (1-q) ln((1-q)/(1-p))` (Chernoff), and of about that divided by `sqrt(4 pi k D)`. A
//! row is marked where this is less than [`CHANCE`] divided by the number of rows. Samples that come in bursts tell less
//! than their number says: `k` is lessened by how much more the parts of one half differ than chance has it.

use std::collections::VecDeque;

use super::query::Query;
use super::rows::RowId;
use super::running::Ground;
use crate::profile::journal::Mark;
use crate::profile::window::{BUCKET_NS, BUCKETS, Span, Weight};

/// Parts of a window, and of what is compared.
pub const PARTS: usize = 8;
/// Parts of a half.
const HALF: usize = PARTS / 2;
/// How much what all rows have in common counts beside what a row itself shows, whose parts differ in six ways.
const COMMON: f64 = 18.0;
/// Windows of a constant load that show a wrong mark on any row, of all. Few, so that bursts do not bring them over 5 %.
const CHANCE: f64 = 0.02;

/// Where a row's share goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Up, and chance does not explain it.
    Rising,
    /// Down, and chance does not explain it.
    Falling,
    /// Nowhere, as far as is known.
    #[default]
    Steady,
}

/// Of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// Its share of all samples in each part of the window, 0 to 1, oldest first; 0 also where there are no samples.
    pub shares: [f32; PARTS],
    /// Where it goes.
    pub direction: Direction,
}

/// Of a table's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trends {
    /// In the order of the table's rows.
    pub rows: Vec<Trend>,
}

impl Trends {
    /// That of a row of the table, by its position.
    pub fn of(&self, position: usize) -> Option<&Trend> {
        self.rows.get(position)
    }
}

/// Where a sample lies.
#[derive(Clone, Copy)]
struct Place {
    /// In which part of the window, if it is in there.
    window: Option<usize>,
    /// In which part of what is compared, if it is in there.
    compared: Option<usize>,
}

/// A window, and what is compared, both parted.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    window: u64,
    compared: u64,
    now_ns: u64,
}

impl Parts {
    /// The total has none, nor has nothing.
    pub(super) fn of(span: Span) -> Option<Parts> {
        match span {
            Span::Total | Span::Last { ns: 0, .. } => None,
            Span::Last { ns, now_ns } => {
                let window = ns.div_ceil(BUCKET_NS);
                Some(Parts { window, compared: window.saturating_mul(2).min(BUCKETS as u64), now_ns })
            }
        }
    }

    /// Both.
    fn span(self) -> Span {
        let ns = self.window.max(self.compared).saturating_mul(BUCKET_NS);
        Span::Last { ns, now_ns: self.now_ns }
    }

    /// Where that is which is so many buckets old.
    fn at(self, age: u64) -> Place {
        let part = |buckets: u64| {
            let parts_old = u128::from(age) * PARTS as u128 / u128::from(buckets);
            (PARTS - 1).checked_sub(parts_old.min(PARTS as u128) as usize)
        };
        Place { window: part(self.window), compared: part(self.compared) }
    }
}

/// What a row weighed in each part.
#[derive(Clone, Copy, Default)]
struct Course {
    window_ns: [u64; PARTS],
    parts_ns: [u64; PARTS],
    /// Sum of the squares of the weights of its samples that are compared, ns².
    squares: f64,
    /// Whether it is among those that may not be 0.
    is_listed: bool,
}

impl Course {
    fn add(&mut self, place: Place, seen: Seen) {
        if let Some(part) = place.window {
            self.window_ns[part] = self.window_ns[part].saturating_add(seen.ns);
        }
        let Some(part) = place.compared else { return };
        self.parts_ns[part] = self.parts_ns[part].saturating_add(seen.ns);
        self.squares += seen.squares;
    }
}

/// What a row weighed in a tick.
#[derive(Clone, Copy, Default)]
struct Seen {
    ns: u64,
    /// Sum of the squares of the weights of its samples, ns².
    squares: f64,
}

impl Seen {
    fn of(weight: Weight) -> Seen {
        let ns = weight.ns as f64;
        // An entry may be several samples of about one weight.
        Seen { ns: weight.ns, squares: ns * ns / weight.samples.max(1) as f64 }
    }

    fn and(self, other: Seen) -> Seen {
        Seen { ns: self.ns.saturating_add(other.ns), squares: self.squares + other.squares }
    }
}

/// One tick.
#[derive(Default)]
struct Tick {
    total: Seen,
    /// Each row once, in no order.
    rows: Vec<(RowId, Seen)>,
}

impl Tick {
    fn merge(&mut self) {
        self.rows.sort_unstable_by_key(|&(row, _)| row.0);
        self.rows.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.and(next.1);
            }
            same
        });
        self.rows.shrink_to_fit();
    }
}

/// Ticks as they were added up for the last answer: most are the same in the next.
#[derive(Default)]
struct Ticks {
    /// What they are of: the question without its time, and how often conclusions about stacks were given up.
    of: Option<(Query, u64)>,
    mark: Mark,
    /// Number of the first.
    first: u64,
    ticks: VecDeque<Tick>,
}

impl Ticks {
    /// Turns to the ticks from `first` to `last`.
    fn turn_to(&mut self, (first, last): (u64, u64), query: &Query, ground: Ground<'_>) {
        let of = Some((Query { span: Span::Total, sort: Default::default(), ..query.clone() }, ground.conclusions));
        let journal = ground.profile.journal(query.era, query.clock);
        let new = journal.and_then(|journal| journal.since(self.mark));
        let end = self.first + self.ticks.len() as u64;
        match new.filter(|_| self.of == of && first < end && self.first <= first) {
            Some(new) => {
                let mut stale: Vec<u64> = new.map(|entered| entered.tick).collect();
                stale.dedup();
                self.ticks.drain(..(first - self.first) as usize);
                self.ticks.truncate((last + 1 - first) as usize);
                self.first = first;
                stale.retain(|tick| (first..end.min(last + 1)).contains(tick));
                stale.sort_unstable();
                stale.dedup();
                for tick in stale {
                    self.ticks[(tick - first) as usize] = Tick::default();
                    self.add((tick, tick), query, ground);
                }
                if end <= last {
                    self.add((end, last), query, ground);
                }
            }
            None => {
                (self.of, self.first) = (of, first);
                self.ticks.clear();
                self.add((first, last), query, ground);
            }
        }
        self.mark = journal.map(|journal| journal.end()).unwrap_or_default();
    }

    fn add(&mut self, (first, last): (u64, u64), query: &Query, ground: Ground<'_>) {
        self.ticks.resize_with(self.ticks.len().max((last + 1 - self.first) as usize), Tick::default);
        ground.profile.visit_ticks(query.era, query.clock, (first, last), |tick, key, weight| {
            let (tick, seen) = (&mut self.ticks[(tick - self.first) as usize], Seen::of(weight));
            tick.total = tick.total.and(seen);
            if let Some(row) = ground.flat(key).filter(|&row| row != RowId::NONE) {
                tick.rows.push((row, seen));
            }
        });
        let range = (first - self.first) as usize..=(last - self.first) as usize;
        self.ticks.range_mut(range).for_each(Tick::merge);
    }
}

/// Where trends are added up.
#[derive(Default)]
pub(super) struct Courses {
    ticks: Ticks,
    total: Course,
    /// By row; all 0 between answers.
    rows: Vec<Course>,
    /// Rows that may not be 0.
    moved: Vec<RowId>,
}

impl Courses {
    /// The trends of these rows.
    pub(super) fn trends(&mut self, parts: Parts, query: &Query, ground: Ground<'_>, rows: &[RowId]) -> Trends {
        let Some((first, last)) = parts.span().ticks() else { return Trends::default() };
        self.rows.resize(ground.rows, Course::default());
        let mut ticks = std::mem::take(&mut self.ticks);
        ticks.turn_to((first, last), query, ground);
        for (number, tick) in (first..).zip(&ticks.ticks) {
            let place = parts.at(last - number);
            self.total.add(place, tick.total);
            tick.rows.iter().for_each(|&(row, seen)| self.add(row, place, seen));
        }
        self.ticks = ticks;
        self.take(rows)
    }

    fn add(&mut self, row: RowId, place: Place, seen: Seen) {
        let course = &mut self.rows[row.index()];
        if !std::mem::replace(&mut course.is_listed, true) {
            self.moved.push(row);
        }
        course.add(place, seen);
    }

    /// The trends of these rows; all is 0 again.
    fn take(&mut self, rows: &[RowId]) -> Trends {
        let total = std::mem::take(&mut self.total);
        let is_moved = |row: &RowId| {
            self.rows[row.index()].window_ns != [0; PARTS] || self.rows[row.index()].parts_ns != [0; PARTS]
        };
        let moved: Vec<RowId> = self.moved.iter().copied().filter(is_moved).collect();
        let courses = moved.iter().map(|row| &self.rows[row.index()]);
        let needed = (2.0 * courses.len() as f64 / CHANCE).ln();
        let spreads = courses.map(|course| Spread::of(course, &total.parts_ns));
        let common = spreads.fold(Spread::default(), |sum, one| sum.with(one, 1.0));
        let trend = |row: &RowId| {
            let course = &self.rows[row.index()];
            let direction = direction(course, &total.parts_ns, common, needed);
            Trend { shares: shares(&course.window_ns, &total.window_ns), direction }
        };
        let trends = Trends { rows: rows.iter().map(trend).collect() };
        self.moved.drain(..).for_each(|row| self.rows[row.index()] = Course::default());
        trends
    }
}

fn shares(own_ns: &[u64; PARTS], all_ns: &[u64; PARTS]) -> [f32; PARTS] {
    let share = |part: usize| if all_ns[part] == 0 { 0.0 } else { own_ns[part] as f64 / all_ns[part] as f64 };
    std::array::from_fn(|part| share(part) as f32)
}

fn direction(course: &Course, total_ns: &[u64; PARTS], common: Spread, needed: f64) -> Direction {
    let sum = |parts: &[u64]| parts.iter().map(|&ns| ns as f64).sum::<f64>();
    let (own, all) = (sum(&course.parts_ns), sum(total_ns));
    let expected = sum(&total_ns[HALF..]) / all;
    if own == 0.0 || course.squares == 0.0 || !(expected > 0.0 && expected < 1.0) {
        return Direction::Steady;
    }
    // What its samples weigh, where each counts as much as it moves the sum.
    let sample_ns = course.squares / own;
    let spread = Spread::of(course, total_ns).with(common, COMMON / common.free.max(1.0));
    let samples = own / sample_ns / spread.burstiness().max(common.burstiness()) / common.doubt(spread);
    let found = sum(&course.parts_ns[HALF..]) / own;
    let part = |found: f64, expected: f64| if found == 0.0 { 0.0 } else { found * (found / expected).ln() };
    let divergence = part(found, expected) + part(1.0 - found, 1.0 - expected);
    let against = samples * divergence;
    match against + (4.0 * std::f64::consts::PI * against.max(1.0)).ln() / 2.0 > needed {
        false => Direction::Steady,
        true if found > expected => Direction::Rising,
        true => Direction::Falling,
    }
}

/// How much the parts of one half differ.
#[derive(Clone, Copy, Default)]
struct Spread {
    /// Squares of what they are off, each divided by what chance has it.
    squares: f64,
    /// What chance has their sum.
    free: f64,
}

impl Spread {
    fn of(course: &Course, total_ns: &[u64; PARTS]) -> Spread {
        let mut spread = Spread::default();
        let own = course.parts_ns.iter().map(|&ns| ns as f64).sum::<f64>();
        if course.squares == 0.0 {
            return spread;
        }
        let sample_ns = course.squares / own;
        for half in [0..HALF, HALF..PARTS] {
            let sum = |parts: &[u64; PARTS]| parts[half.clone()].iter().map(|&ns| ns as f64).sum::<f64>();
            let (own_ns, all_ns) = (sum(&course.parts_ns), sum(total_ns));
            if own_ns == 0.0 {
                continue;
            }
            let share = own_ns / all_ns;
            for part in half {
                let expected_ns = share * total_ns[part] as f64;
                let off_ns = course.parts_ns[part] as f64 - expected_ns;
                if expected_ns > 0.0 {
                    spread.squares += off_ns * off_ns / (expected_ns * sample_ns);
                    spread.free += 1.0 - total_ns[part] as f64 / all_ns;
                }
            }
        }
        spread
    }

    fn with(self, other: Spread, weight: f64) -> Spread {
        Spread { squares: self.squares + weight * other.squares, free: self.free + weight * other.free }
    }

    /// 1 where chance explains it.
    fn burstiness(self) -> f64 {
        if self.free > 0.0 { (self.squares / self.free).max(1.0) } else { 1.0 }
    }

    /// By how much more `other` may well be bursty: it is known no better than from what all rows show. 1 where nothing comes in bursts.
    fn doubt(self, other: Spread) -> f64 {
        if other.burstiness() > 1.0 && self.free > 0.0 { 1.0 + (2.0 / self.free).sqrt() } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples a second, and buckets of a window of 10 s.
    const RATE: u64 = 99;
    const WINDOW: u64 = 100;

    /// Steele, Lea and Flood's generator: the same numbers at each run.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// A row by its share.
        fn row(&mut self, shares: &[f64]) -> RowId {
            let mut left = self.next() * shares.iter().sum::<f64>();
            let found = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            RowId(found.unwrap_or(0) as u32)
        }
    }

    /// A program of 25 functions, from 15 % down to 1 %.
    fn program() -> Vec<f64> {
        let shares: Vec<f64> = (0..25).map(|index| 1.0 / (1.6 + f64::from(index))).collect();
        let sum: f64 = shares.iter().sum();
        shares.iter().map(|share| share / sum).collect()
    }

    /// Bucket and row of every sample; samples come in bursts of one row.
    type Samples = Vec<(u64, RowId)>;

    fn run(chance: &mut Chance, seconds: u64, burst: u64, shares: impl Fn(u64) -> Vec<f64>) -> Samples {
        let mut samples = Samples::new();
        let mut row = RowId(0);
        for index in 0..seconds * RATE {
            let bucket = index * 10 / RATE;
            if index % burst == 0 {
                row = chance.row(&shares(bucket));
            }
            samples.push((bucket, row));
        }
        samples
    }

    /// The window that ends with a bucket.
    fn window(samples: &Samples, last: u64, weight_ns: u64) -> Vec<Direction> {
        let parts = Parts { window: WINDOW, compared: 2 * WINDOW, now_ns: 0 };
        let mut courses = Courses::default();
        courses.rows.resize(program().len(), Course::default());
        for &(bucket, row) in samples {
            if bucket <= last && last - bucket < 2 * WINDOW {
                let (place, seen) = (parts.at(last - bucket), Seen::of(Weight { ns: weight_ns, samples: 1 }));
                courses.total.add(place, seen);
                courses.add(row, place, seen);
            }
        }
        let rows: Vec<RowId> = (0..program().len() as u32).map(RowId).collect();
        courses.take(&rows).rows.iter().map(|trend| trend.direction).collect()
    }

    /// Of so many windows of a constant load, those with a mark.
    fn marked(windows: u64, burst: u64) -> usize {
        let mut chance = Chance(1);
        let constant = |_: u64| window(&run(&mut chance, 20, burst, |_| program()), 2 * WINDOW - 1, 10_101_010);
        (0..windows).map(constant).filter(|found| found.iter().any(|&row| row != Direction::Steady)).count()
    }

    #[test]
    fn a_constant_load_shows_no_mark_in_95_of_100_windows() {
        for burst in [1, 3, 10] {
            let marked = marked(300, burst);
            assert!(marked <= 15, "{marked} of 300 in bursts of {burst}");
        }
    }

    #[test]
    fn a_doubled_function_is_marked_within_two_windows() {
        let mut chance = Chance(2);
        let change = 2 * WINDOW;
        let doubled = |bucket: u64| {
            let mut shares = program();
            shares[1] *= if bucket < change { 1.0 } else { 2.0 };
            shares
        };
        let mut missed = 0;
        for _ in 0..60 {
            let samples = run(&mut chance, 40, 1, doubled);
            let mut answers = (change..change + 2 * WINDOW).step_by(10).map(|last| window(&samples, last, 10_101_010));
            missed += u32::from(!answers.any(|found| found[1] == Direction::Rising));
        }
        assert!(missed <= 3, "{missed} of 60");
    }
}

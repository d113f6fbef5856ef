//! How a row's flat goes: its share in each of a few parts of a window, and whether it rises or falls by more than chance
//! explains. The window is compared with the one before it; a window that is more than half as long as what is kept by time
//! is too long for that, and halves of what is kept are compared. Parts begin at times that stay, so that a sample is added up
//! once and stands still on the screen until a new part begins: the newest part grows until then, from one slice of the window to two.
//!
//! If a row's share is the same all the time, then of its `k` samples each is from the newer half with the probability `p`
//! that any sample is. That `q k` of them or more extremely many are from there has then a probability of at most
//! `2 exp(-k D)`, where `D = q ln(q/p) + (1-q) ln((1-q)/(1-p))` (Chernoff), and of about that divided by `sqrt(4 pi k D)`. A
//! row is marked where this is less than [`CHANCE`] divided by the number of rows. Samples that come in bursts tell less
//! than their number says: `k` is lessened by how much more the parts of one half differ than chance has it.

use super::query::Query;
use super::rows::RowId;
use super::running::Ground;
use crate::profile::journal::Mark;
use crate::profile::window::{BUCKET_NS, BUCKETS, Span, Weight};

/// Parts of a window, and of what is compared.
pub const PARTS: usize = 8;
/// Slices of a window: the newest part is one that is over and the one under way.
const SLICES: usize = PARTS + 1;
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

/// A length of time, cut into slices from the beginning of all time on.
#[derive(Clone, Copy, PartialEq)]
struct Scale {
    buckets: u64,
}

impl Scale {
    /// The slice that a tick is in.
    fn slice(self, tick: u64) -> u64 {
        (u128::from(tick) * SLICES as u128 / u128::from(self.buckets)) as u64
    }
}

/// Of a window of so many buckets, and of what is compared: parts of twice the window, if so much is kept.
fn scales(window: u64) -> [Scale; SIDES] {
    let twice = window.saturating_mul(2 * SLICES as u64) / PARTS as u64;
    [window, twice.min(BUCKETS as u64)].map(|buckets| Scale { buckets })
}

/// What is told of: a window, and what is compared.
const SIDES: usize = 2;
const WINDOW: usize = 0;
const COMPARED: usize = 1;

/// A window and what is compared, in slices.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    scales: [Scale; SIDES],
    last: u64,
}

impl Parts {
    /// The total has none, nor has nothing.
    pub(super) fn of(span: Span) -> Option<Parts> {
        match span {
            Span::Total | Span::Last { ns: 0, .. } => None,
            Span::Last { ns, now_ns } => {
                let window = ns.div_ceil(BUCKET_NS);
                Some(Parts { scales: scales(window), last: now_ns / BUCKET_NS })
            }
        }
    }

    /// First tick that either side may have.
    fn first(self) -> u64 {
        let longest = self.scales.iter().map(|scale| scale.buckets).max().unwrap_or(0);
        (self.last + 1).saturating_sub(longest)
    }

    /// The newest slice of each side.
    fn newest(self) -> [u64; SIDES] {
        self.scales.map(|scale| scale.slice(self.last))
    }

    /// The slice of each side that a tick is in, where it is one of those that are told of.
    fn at(self, tick: u64) -> Place {
        let newest = self.newest();
        Place(std::array::from_fn(|side| {
            let slice = self.scales[side].slice(tick);
            (slice <= newest[side] && newest[side] - slice < SLICES as u64).then_some(slice)
        }))
    }
}

/// In which slices a sample lies.
#[derive(Clone, Copy)]
struct Place([Option<u64>; SIDES]);

/// What a row weighed in each slice; a slice takes the place of the one that is [`SLICES`] older.
#[derive(Clone, Copy, Default)]
struct Course {
    slices_ns: [[u64; SLICES]; SIDES],
    /// Sums of the squares of the weights of its samples that are compared, ns².
    squares: [f64; SLICES],
    /// Whether it is among those that may not be 0.
    is_listed: bool,
}

impl Course {
    fn add(&mut self, place: Place, weight: Weight) {
        for (slices_ns, slice) in self.slices_ns.iter_mut().zip(place.0) {
            let Some(slice) = slice else { continue };
            let sum = &mut slices_ns[slice as usize % SLICES];
            *sum = sum.saturating_add(weight.ns);
        }
        if let Some(slice) = place.0[COMPARED] {
            let ns = weight.ns as f64;
            // An entry may be several samples of about one weight.
            self.squares[slice as usize % SLICES] += ns * ns / weight.samples.max(1) as f64;
        }
    }

    /// A slice begins.
    fn clear(&mut self, side: usize, slice: u64) {
        let at = slice as usize % SLICES;
        self.slices_ns[side][at] = 0;
        if side == COMPARED {
            self.squares[at] = 0.0;
        }
    }

    fn is_empty(&self) -> bool {
        self.slices_ns == [[0; SLICES]; SIDES]
    }

    /// Of each part, oldest first.
    fn parted(&self, newest: [u64; SIDES]) -> Parted {
        let parts = |side: usize| {
            let slices = &self.slices_ns[side];
            let of = |age: usize| slices[(newest[side] as usize + SLICES - age) % SLICES];
            let mut parts: [u64; PARTS] = std::array::from_fn(|part| of(PARTS - part));
            parts[PARTS - 1] = parts[PARTS - 1].saturating_add(of(0));
            parts
        };
        Parted { window_ns: parts(WINDOW), parts_ns: parts(COMPARED), squares: self.squares.iter().sum() }
    }
}

/// What a row weighed in each part.
#[derive(Clone, Copy, Default)]
struct Parted {
    window_ns: [u64; PARTS],
    parts_ns: [u64; PARTS],
    /// Sum of the squares of the weights of its samples that are compared, ns².
    squares: f64,
}

/// What makes sums from before those of something else: the question without its time, how often conclusions about stacks were given
/// up, and the lengths.
type Scope = (Query, u64, [Scale; SIDES]);

/// Where trends are added up, and kept from one answer to the next.
#[derive(Default)]
pub(super) struct Courses {
    scope: Option<Scope>,
    /// All before this is in, as far as it lies before the end.
    mark: Mark,
    last: u64,
    total: Course,
    /// By row.
    rows: Vec<Course>,
    /// Rows that may not be 0.
    moved: Vec<RowId>,
}

impl Courses {
    /// The trends of these rows.
    pub(super) fn trends(&mut self, parts: Parts, query: &Query, ground: Ground<'_>, rows: &[RowId]) -> Trends {
        self.advance(parts, query, ground);
        self.told(parts, rows)
    }

    /// Brings the sums to the end of a window: what came is added, and all only where the question was another one.
    fn advance(&mut self, parts: Parts, query: &Query, ground: Ground<'_>) {
        let plain = Query { span: Span::Total, sort: Default::default(), ..query.clone() };
        let scope = Some((plain, ground.conclusions, parts.scales));
        let journal = ground.profile.journal(query.era, query.clock);
        let new = journal.and_then(|journal| journal.since(self.mark));
        let new = new.filter(|_| self.scope == scope && self.last <= parts.last);
        let first = match &new {
            Some(_) => (self.last + 1).max(parts.first()),
            None => parts.first(),
        };
        if new.is_none() {
            (self.total, self.last) = (Course::default(), parts.last);
            self.rows.clear();
            self.moved.clear();
        }
        self.rows.resize(ground.rows, Course::default());
        self.begin(parts);
        let known = self.last;
        for entered in new.into_iter().flatten().filter(|entered| entered.tick <= known) {
            self.add(ground.flat(entered.key), parts.at(entered.tick), entered.weight);
        }
        if first <= parts.last {
            ground.profile.visit_ticks(query.era, query.clock, (first, parts.last), |tick, key, weight| {
                self.add(ground.flat(key), parts.at(tick), weight);
            });
        }
        self.mark = journal.map(|journal| journal.end()).unwrap_or_default();
        (self.scope, self.last) = (scope, parts.last);
    }

    /// Makes room for the slices that began.
    fn begin(&mut self, parts: Parts) {
        for (side, scale) in parts.scales.into_iter().enumerate() {
            let (known, newest) = (scale.slice(self.last), scale.slice(parts.last));
            for slice in (known + 1).max((newest + 1).saturating_sub(SLICES as u64))..=newest {
                self.total.clear(side, slice);
                self.moved.iter().for_each(|row| self.rows[row.index()].clear(side, slice));
            }
        }
    }

    fn add(&mut self, row: Option<RowId>, place: Place, weight: Weight) {
        self.total.add(place, weight);
        let Some(row) = row.filter(|&row| row != RowId::NONE) else { return };
        let course = &mut self.rows[row.index()];
        if !std::mem::replace(&mut course.is_listed, true) {
            self.moved.push(row);
        }
        course.add(place, weight);
    }

    /// The trends of these rows.
    fn told(&mut self, parts: Parts, rows: &[RowId]) -> Trends {
        let newest = parts.newest();
        let total = self.total.parted(newest);
        let courses = &mut self.rows;
        self.moved.retain(|row| {
            let course = &mut courses[row.index()];
            course.is_listed = !course.is_empty();
            course.is_listed
        });
        let needed = (2.0 * self.moved.len() as f64 / CHANCE).ln();
        let parted = |row: &RowId| self.rows[row.index()].parted(newest);
        let spreads = self.moved.iter().map(|row| Spread::of(&parted(row), &total.parts_ns));
        let common = spreads.fold(Spread::default(), |sum, one| sum.with(one, 1.0));
        let trend = |row: &RowId| {
            let course = parted(row);
            let direction = direction(&course, &total.parts_ns, common, needed);
            Trend { shares: shares(&course.window_ns, &total.window_ns), direction }
        };
        Trends { rows: rows.iter().map(trend).collect() }
    }
}

fn shares(own_ns: &[u64; PARTS], all_ns: &[u64; PARTS]) -> [f32; PARTS] {
    let share = |part: usize| if all_ns[part] == 0 { 0.0 } else { own_ns[part] as f64 / all_ns[part] as f64 };
    std::array::from_fn(|part| share(part) as f32)
}

fn direction(course: &Parted, total_ns: &[u64; PARTS], common: Spread, needed: f64) -> Direction {
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
    fn of(course: &Parted, total_ns: &[u64; PARTS]) -> Spread {
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
        let parts = Parts { scales: scales(WINDOW), last };
        let mut courses = Courses::default();
        courses.rows.resize(program().len(), Course::default());
        for &(bucket, row) in samples {
            courses.add(Some(row), parts.at(bucket), Weight { ns: weight_ns, samples: 1 });
        }
        let rows: Vec<RowId> = (0..program().len() as u32).map(RowId).collect();
        courses.told(parts, &rows).rows.iter().map(|trend| trend.direction).collect()
    }

    /// Of so many windows of a constant load, those with a mark.
    fn marked(windows: u64, burst: u64) -> usize {
        let mut chance = Chance(1);
        let constant = |_: u64| window(&run(&mut chance, 25, burst, |_| program()), 5 * WINDOW / 2 - 1, 10_101_010);
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
        let mut missed = 0;
        for round in 0..60 {
            // Wherever in a part it begins.
            let change = 2 * WINDOW + 7 * round % 25;
            let doubled = |bucket: u64| {
                let mut shares = program();
                shares[1] *= if bucket < change { 1.0 } else { 2.0 };
                shares
            };
            let samples = run(&mut chance, 45, 1, doubled);
            let mut answers = (change..change + 2 * WINDOW).step_by(10).map(|last| window(&samples, last, 10_101_010));
            missed += u32::from(!answers.any(|found| found[1] == Direction::Rising));
        }

        assert!(missed <= 3, "{missed} of 60");
    }
}

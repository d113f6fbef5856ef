//! Trends: the share of a row in each of a few parts of a window, and whether it rises or falls
//! significantly. The window is compared with the one before it. If the window is longer than half
//! the history, the two halves of the history are compared instead. Parts begin at fixed times, so
//! a sample is added once, and the graph on screen does not move until a new part begins. Until
//! then the newest part grows, from one slice of the window to two.
//!
//! If a row's share is constant, each of its samples is from the newer half with the probability
//! that any sample is. A row has a direction if the probability of its share in the newer half is
//! less than [`FALSE_ALARMS`] divided by the number of rows (see [`significance`]). Samples that
//! come in bursts carry less information than their number says: it is divided by how much more the
//! parts of one half differ than chance explains.

use super::query::Query;
use super::rows::RowId;
use super::significance;
use super::stacks::SPAN;
use super::sums::incremental::Context;
use crate::profile::change_log::LogPosition;
use crate::profile::totals::{BUCKET_NS, BUCKETS, Span, ThreadStack, Weight};

/// The number of parts of a window, and of the compared period.
pub const PARTS: usize = 8;
/// The number of slices of a window. The newest part has two: one that is complete, and the current
/// one.
const SLICES: usize = PARTS + 1;
/// The number of parts of a half.
const HALF: usize = PARTS / 2;
/// The weight, in degrees of freedom, of the dispersion that all rows have in common. A row's own
/// has six.
const COMMON_WEIGHT: f64 = 18.0;
/// The probability that a window of a constant load shows a direction for any row. It is small, so
/// that bursts do not raise it above 5 %.
const FALSE_ALARMS: f64 = 0.02;

/// The direction of a row's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// It rises significantly.
    Rising,
    /// It falls significantly.
    Falling,
    /// It does not change significantly.
    #[default]
    Steady,
}

/// The trend of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// Its share of all samples in each part of the window, from 0 to 1, oldest first; 0 in parts
    /// without samples.
    pub shares: [f32; PARTS],
    /// Its direction.
    pub direction: Direction,
}

/// The trends of a table's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trends {
    /// One trend per row, in the order of the table.
    pub rows: Vec<Trend>,
}

impl Trends {
    /// The trend of the row at a position of the table.
    pub fn get(&self, position: usize) -> Option<&Trend> {
        self.rows.get(position)
    }
}

/// A length of time that is divided into slices. Slices are numbered from time 0.
#[derive(Clone, Copy, PartialEq)]
struct Scale {
    buckets: u64,
}

impl Scale {
    /// The slice that contains a bucket.
    fn slice(self, bucket: u64) -> u64 {
        (u128::from(bucket) * SLICES as u128 / u128::from(self.buckets)) as u64
    }
}

/// The scales of a window of `window` buckets, and of the compared period: twice the window, if the
/// history is that long.
fn scales(window: u64) -> [Scale; PERIODS] {
    let twice = window.saturating_mul(2 * SLICES as u64) / PARTS as u64;
    [window, twice.min(BUCKETS as u64)].map(|buckets| Scale { buckets })
}

/// The periods of a trend: the window that is shown, and the period whose halves are compared.
const PERIODS: usize = 2;
const WINDOW: usize = 0;
const COMPARED: usize = 1;

/// A window and its compared period, in slices.
#[derive(Clone, Copy)]
pub(super) struct TrendWindow {
    scales: [Scale; PERIODS],
    /// The last bucket.
    last: u64,
}

impl TrendWindow {
    /// Returns the window of a span. The session has none, and neither has an empty span.
    pub(super) fn new(span: Span) -> Option<TrendWindow> {
        match span {
            Span::Total | Span::Last { ns: 0, .. } => None,
            Span::Last { ns, now_ns } => {
                let window = ns.div_ceil(BUCKET_NS);
                Some(TrendWindow { scales: scales(window), last: now_ns / BUCKET_NS })
            }
        }
    }

    /// The first bucket of either period.
    fn first(self) -> u64 {
        let longest = self.scales.iter().map(|scale| scale.buckets).max().unwrap_or(0);
        (self.last + 1).saturating_sub(longest)
    }

    /// The newest slice of each period.
    fn newest(self) -> [u64; PERIODS] {
        self.scales.map(|scale| scale.slice(self.last))
    }

    /// The slice of each period that contains a bucket, if it is one of the [`SLICES`] newest.
    fn slices(self, bucket: u64) -> SlicePair {
        let newest = self.newest();
        std::array::from_fn(|period| {
            let slice = self.scales[period].slice(bucket);
            (slice <= newest[period] && newest[period] - slice < SLICES as u64).then_some(slice)
        })
    }
}

/// The slices of a sample.
type SlicePair = [Option<u64>; PERIODS];

/// The weight of a row in each slice. A slice replaces the one that is [`SLICES`] older.
#[derive(Clone, Copy, Default)]
struct RowSlices {
    slices_ns: [[u64; SLICES]; PERIODS],
    /// The sum of the squared weights of samples in each slice of the compared period, ns².
    squares: [f64; SLICES],
    /// Whether it is in [`TrendSums::nonzero`].
    is_listed: bool,
}

impl RowSlices {
    fn add(&mut self, slices: SlicePair, weight: Weight) {
        for (slices_ns, slice) in self.slices_ns.iter_mut().zip(slices) {
            let Some(slice) = slice else { continue };
            let sum = &mut slices_ns[slice as usize % SLICES];
            *sum = sum.saturating_add(weight.ns);
        }
        if let Some(slice) = slices[COMPARED] {
            let ns = weight.ns as f64;
            // An entry may stand for several samples of similar weight.
            self.squares[slice as usize % SLICES] += ns * ns / weight.samples.max(1) as f64;
        }
    }

    /// Clears a slice that begins.
    fn clear(&mut self, period: usize, slice: u64) {
        let at = slice as usize % SLICES;
        self.slices_ns[period][at] = 0;
        if period == COMPARED {
            self.squares[at] = 0.0;
        }
    }

    fn is_empty(&self) -> bool {
        self.slices_ns == [[0; SLICES]; PERIODS]
    }

    /// The sums of each part, oldest first.
    fn part_sums(&self, newest: [u64; PERIODS]) -> PartSums {
        let parts = |period: usize| {
            let slices = &self.slices_ns[period];
            let slice = |age: usize| slices[(newest[period] as usize + SLICES - age) % SLICES];
            let mut parts: [u64; PARTS] = std::array::from_fn(|part| slice(PARTS - part));
            parts[PARTS - 1] = parts[PARTS - 1].saturating_add(slice(0));
            parts
        };
        PartSums { window_ns: parts(WINDOW), compared_ns: parts(COMPARED), squares: self.squares.iter().sum() }
    }
}

/// The weight of a row in each part of both periods.
#[derive(Clone, Copy, Default)]
struct PartSums {
    window_ns: [u64; PARTS],
    compared_ns: [u64; PARTS],
    /// The sum of the squared weights of samples in the compared period, ns².
    squares: f64,
}

/// The inputs that determine the sums, except for time and samples: the query without its span and
/// order, [`Context::invalidations`], and the lengths of both periods.
type TrendScope = (Query, u64, [Scale; PERIODS]);

/// The sums behind trends. They are kept from one answer to the next.
#[derive(Default)]
pub(super) struct TrendSums {
    scope: Option<TrendScope>,
    /// The samples that are summed: all before this position, up to bucket `last`.
    position: LogPosition,
    last: u64,
    total: RowSlices,
    rows: Vec<RowSlices>,
    /// The rows whose sums may differ from 0.
    nonzero: Vec<RowId>,
}

impl TrendSums {
    /// Updates the sums to the end of the window, and returns the trends of these rows.
    pub(super) fn trends(
        &mut self,
        window: TrendWindow,
        query: &Query,
        context: Context<'_>,
        rows: &[RowId],
    ) -> Trends {
        self.update(window, query, context);
        self.build(window, rows)
    }

    /// Adds new samples up to the end of the window, or all samples if the scope has changed.
    fn update(&mut self, window: TrendWindow, query: &Query, context: Context<'_>) {
        let plain = Query { span: Span::Total, sort: Default::default(), ..query.clone() };
        let scope = Some((plain, context.invalidations, window.scales));
        let log = context.profile.change_log(query.generation, query.clock);
        let new = log.and_then(|log| log.since(self.position));
        let new = new.filter(|_| self.scope == scope && self.last <= window.last);
        let first = match &new {
            Some(_) => (self.last + 1).max(window.first()),
            None => window.first(),
        };
        if new.is_none() {
            (self.total, self.last) = (RowSlices::default(), window.last);
            self.rows.clear();
            self.nonzero.clear();
        }
        self.rows.resize(context.row_count, RowSlices::default());
        self.begin_slices(window);
        let summed = self.last;
        // A change of the latency alone has no weight.
        let counts = |key: ThreadStack, weight: Weight| weight.ns > 0 && !context.idle.sums(key.0)[SPAN];
        for entered in new.into_iter().flatten() {
            if entered.bucket <= summed && counts(entered.key, entered.weight) {
                self.add(context.flat_row(entered.key), window.slices(entered.bucket), entered.weight);
            }
        }
        if first <= window.last {
            context.profile.visit_buckets(
                query.generation,
                query.clock,
                (first, window.last),
                |bucket, key, weight| {
                    if counts(key, weight) {
                        self.add(context.flat_row(key), window.slices(bucket), weight);
                    }
                },
            );
        }
        self.position = log.map(|log| log.position()).unwrap_or_default();
        (self.scope, self.last) = (scope, window.last);
    }

    /// Clears the slices that have begun.
    fn begin_slices(&mut self, window: TrendWindow) {
        for (period, scale) in window.scales.into_iter().enumerate() {
            let (known, newest) = (scale.slice(self.last), scale.slice(window.last));
            for slice in (known + 1).max((newest + 1).saturating_sub(SLICES as u64))..=newest {
                self.total.clear(period, slice);
                self.nonzero.iter().for_each(|row| self.rows[row.index()].clear(period, slice));
            }
        }
    }

    fn add(&mut self, row: Option<RowId>, slices: SlicePair, weight: Weight) {
        self.total.add(slices, weight);
        let Some(row) = row.filter(|&row| row != RowId::NONE) else { return };
        let sums = &mut self.rows[row.index()];
        if !std::mem::replace(&mut sums.is_listed, true) {
            self.nonzero.push(row);
        }
        sums.add(slices, weight);
    }

    /// Builds the trends of these rows.
    fn build(&mut self, window: TrendWindow, rows: &[RowId]) -> Trends {
        let newest = window.newest();
        let total = self.total.part_sums(newest);
        let sums = &mut self.rows;
        self.nonzero.retain(|row| {
            let row_slices = &mut sums[row.index()];
            row_slices.is_listed = !row_slices.is_empty();
            row_slices.is_listed
        });
        let threshold = significance::threshold(self.nonzero.len() as f64, FALSE_ALARMS);
        let part_sums = |row: &RowId| self.rows[row.index()].part_sums(newest);
        let dispersions = self.nonzero.iter().map(|row| Dispersion::new(&part_sums(row), &total.compared_ns));
        let common = dispersions.fold(Dispersion::default(), |sum, one| sum.add(one, 1.0));
        let trend = |row: &RowId| {
            let own = part_sums(row);
            let direction = direction(&own, &total.compared_ns, common, threshold);
            Trend { shares: shares(&own.window_ns, &total.window_ns), direction }
        };
        Trends { rows: rows.iter().map(trend).collect() }
    }
}

fn shares(own_ns: &[u64; PARTS], all_ns: &[u64; PARTS]) -> [f32; PARTS] {
    let share = |part: usize| if all_ns[part] == 0 { 0.0 } else { own_ns[part] as f64 / all_ns[part] as f64 };
    std::array::from_fn(|part| share(part) as f32)
}

fn direction(row: &PartSums, total_ns: &[u64; PARTS], common: Dispersion, threshold: f64) -> Direction {
    let sum = |parts: &[u64]| parts.iter().map(|&ns| ns as f64).sum::<f64>();
    let (own, all) = (sum(&row.compared_ns), sum(total_ns));
    let expected = sum(&total_ns[HALF..]) / all;
    if own == 0.0 || row.squares == 0.0 || !(expected > 0.0 && expected < 1.0) {
        return Direction::Steady;
    }
    // The mean weight of its samples, weighted by themselves.
    let sample_ns = row.squares / own;
    let dispersion = Dispersion::new(row, total_ns).add(common, COMMON_WEIGHT / common.free.max(1.0));
    let samples = own / sample_ns / dispersion.burstiness().max(common.burstiness()) / common.uncertainty(dispersion);
    let share = sum(&row.compared_ns[HALF..]) / own;
    match significance::evidence(samples, share, expected) > threshold {
        false => Direction::Steady,
        true if share > expected => Direction::Rising,
        true => Direction::Falling,
    }
}

/// The dispersion of the parts within each half.
#[derive(Clone, Copy, Default)]
struct Dispersion {
    /// The sum of squared deviations, each divided by the variance that chance explains.
    squares: f64,
    /// The degrees of freedom: the expected sum.
    free: f64,
}

impl Dispersion {
    fn new(row: &PartSums, total_ns: &[u64; PARTS]) -> Dispersion {
        let mut dispersion = Dispersion::default();
        let own = row.compared_ns.iter().map(|&ns| ns as f64).sum::<f64>();
        if row.squares == 0.0 {
            return dispersion;
        }
        let sample_ns = row.squares / own;
        for half in [0..HALF, HALF..PARTS] {
            let sum = |parts: &[u64; PARTS]| parts[half.clone()].iter().map(|&ns| ns as f64).sum::<f64>();
            let (own_ns, all_ns) = (sum(&row.compared_ns), sum(total_ns));
            if own_ns == 0.0 {
                continue;
            }
            let share = own_ns / all_ns;
            for part in half {
                let expected_ns = share * total_ns[part] as f64;
                let off_ns = row.compared_ns[part] as f64 - expected_ns;
                if expected_ns > 0.0 {
                    dispersion.squares += off_ns * off_ns / (expected_ns * sample_ns);
                    dispersion.free += 1.0 - total_ns[part] as f64 / all_ns;
                }
            }
        }
        dispersion
    }

    fn add(self, other: Dispersion, weight: f64) -> Dispersion {
        Dispersion { squares: self.squares + weight * other.squares, free: self.free + weight * other.free }
    }

    /// The ratio to what chance explains, at least 1.
    fn burstiness(self) -> f64 {
        if self.free > 0.0 { (self.squares / self.free).max(1.0) } else { 1.0 }
    }

    /// A factor for the uncertainty of `other`: its burstiness is estimated from the degrees of
    /// freedom of all rows. It is 1 if `other` is not bursty.
    fn uncertainty(self, other: Dispersion) -> f64 {
        if other.burstiness() > 1.0 && self.free > 0.0 { 1.0 + (2.0 / self.free).sqrt() } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::random::{SplitMix64, program_shares};

    /// The sampling frequency, Hz.
    const RATE: u64 = 99;
    /// The number of buckets of a window of 10 s.
    const WINDOW: u64 = 100;

    /// Draws a row by its share.
    fn draw_row(random: &mut SplitMix64, shares: &[f64]) -> RowId {
        let mut left = random.next() * shares.iter().sum::<f64>();
        let drawn = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        RowId(drawn.unwrap_or(0) as u32)
    }

    /// The bucket and the row of every sample.
    type Samples = Vec<(u64, RowId)>;

    /// Draws the samples of a program. They come in bursts of one row.
    fn draw_samples(random: &mut SplitMix64, seconds: u64, burst: u64, shares: impl Fn(u64) -> Vec<f64>) -> Samples {
        let mut samples = Samples::new();
        let mut row = RowId(0);
        for index in 0..seconds * RATE {
            let bucket = index * 10 / RATE;
            if index % burst == 0 {
                row = draw_row(random, &shares(bucket));
            }
            samples.push((bucket, row));
        }
        samples
    }

    /// The directions of all rows in the window that ends with a bucket.
    fn directions(samples: &Samples, last: u64, weight_ns: u64) -> Vec<Direction> {
        let window = TrendWindow { scales: scales(WINDOW), last };
        let mut sums = TrendSums::default();
        sums.rows.resize(program_shares().len(), RowSlices::default());
        for &(bucket, row) in samples {
            sums.add(Some(row), window.slices(bucket), Weight::new(weight_ns, 1));
        }
        let rows: Vec<RowId> = (0..program_shares().len() as u32).map(RowId).collect();
        sums.build(window, &rows).rows.iter().map(|trend| trend.direction).collect()
    }

    /// The number of windows of a constant load with a direction.
    fn count_false_alarms(windows: u64, burst: u64) -> usize {
        let mut random = SplitMix64(1);
        let mut draw = |_: u64| draw_samples(&mut random, 25, burst, |_| program_shares());
        let constant = |window: u64| directions(&draw(window), 5 * WINDOW / 2 - 1, 10_101_010);
        (0..windows).map(constant).filter(|rows| rows.iter().any(|&row| row != Direction::Steady)).count()
    }

    #[test]
    fn at_most_5_percent_of_windows_of_a_constant_load_have_a_direction() {
        for burst in [1, 3, 10] {
            let false_alarms = count_false_alarms(300, burst);
            assert!(false_alarms <= 15, "{false_alarms} of 300 in bursts of {burst}");
        }
    }

    #[test]
    fn a_doubled_function_is_rising_within_two_windows() {
        let mut random = SplitMix64(2);
        let mut missed = 0;
        for round in 0..60 {
            // The change begins at different positions within a part.
            let change = 2 * WINDOW + 7 * round % 25;
            let doubled = |bucket: u64| {
                let mut shares = program_shares();
                shares[1] *= if bucket < change { 1.0 } else { 2.0 };
                shares
            };
            let samples = draw_samples(&mut random, 45, 1, doubled);
            let mut answers =
                (change..change + 2 * WINDOW).step_by(10).map(|last| directions(&samples, last, 10_101_010));
            missed += u32::from(!answers.any(|rows| rows[1] == Direction::Rising));
        }

        assert!(missed <= 3, "{missed} of 60");
    }
}

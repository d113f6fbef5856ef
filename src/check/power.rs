//! The number of samples that a check needs to find what it looks for.

use super::compare::{ComparedRow, Comparison};
use super::rules::GrowthRule;
use super::series::UnitKind;
use super::significance::quantile;

/// The probability that a check of the length that is asked for does not find a growth.
const MISSED: f64 = 0.02;
/// The factor by which more samples are asked for, because their number comes of an estimate.
const MARGIN: f64 = 1.4;
/// Maximum factor that is asked for at a time: few samples tell too little about the length that it
/// takes.
const MAX_FACTOR: f64 = 30.0;

/// The need of a check that was too short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needed {
    /// The factor by which it needs more samples than it had.
    pub factor: f64,
    /// Whether even more may be needed.
    pub at_least: bool,
    /// The number of runs or files a side, if they are its units.
    pub units: Option<usize>,
}

impl Needed {
    /// The need of a function that has hardly any samples.
    pub const MUCH_MORE: Needed = Needed { factor: MAX_FACTOR, at_least: true, units: None };

    /// The larger of two needs.
    pub fn max(self, other: Needed) -> Needed {
        if other.factor > self.factor { other } else { self }
    }
}

/// Returns what it takes to find the growth of a rule in this row, among `tests` rows of which
/// `false_alarms` are accepted; `None` if that was there.
pub fn needed(
    comparison: &Comparison,
    row: &ComparedRow,
    rule: &GrowthRule,
    (tests, false_alarms): (usize, f64),
) -> Option<Needed> {
    let error = row.error?;
    let share = row.shares[0];
    let mut growth = rule.growth_to_find();
    if row.measured == row.shares && rule.limit == 0.0 {
        // The total grows with the function.
        growth *= (1.0 - share) / (1.0 + share * growth);
    }
    let difference = growth * row.measured[0];
    let probability = false_alarms / tests.max(1) as f64 / 2.0;
    let detectable = |error: f64, freedom: f64| error * (quantile(probability, freedom) + quantile(MISSED, freedom));
    if detectable(error, row.freedom) <= difference {
        return None;
    }
    if !matches!(comparison.kind, UnitKind::Runs | UnitKind::Files) {
        let factor = MARGIN * (detectable(error, row.freedom) / difference).powi(2);
        return Some(Needed { factor: factor.min(MAX_FACTOR), at_least: factor > MAX_FACTOR, units: None });
    }
    let now = comparison.units[0].min(comparison.units[1]).max(1);
    let is_enough = |units: usize| {
        let scale = (MARGIN * now as f64 / units as f64).sqrt();
        detectable(error * scale, row.freedom * units as f64 / now as f64) <= difference
    };
    // More runs are never worse, so the smallest number is found by halving.
    let most = (now as f64 * MAX_FACTOR) as usize;
    let (mut low, mut high) = (now, most);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    Some(Needed { factor: high as f64 / now as f64, at_least: !is_enough(high), units: Some(high) })
}

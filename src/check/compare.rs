//! Compares the values of every function of two builds.

use std::collections::{BTreeMap, HashSet};

use super::names::NameMatcher;
use super::series::{Series, UnitKind};
use super::significance::{Estimate, freedom_of_difference, mean, quantile, share, upper_tail};
use crate::tally::significance::{evidence, evidence_of_shares};

/// Minimum number of samples of both sides together for a function to be compared. Chance explains
/// every change of fewer.
const MIN_SAMPLES: f64 = 10.0;

/// The number that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The share of a function in the total.
    Share,
    /// The value of a function in a run or a file.
    Time,
}

/// A function, or the total, of both builds. Pairs are of the base and of the new build.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparedRow {
    /// The name.
    pub name: String,
    /// The shares in the total, 0 to 1.
    pub shares: [f64; 2],
    /// The values in a unit: a run or a file, or all files if the units are no files.
    pub values: [f64; 2],
    /// The numbers that are compared: shares or values.
    pub measured: [f64; 2],
    /// The standard error of their difference; `None` if it is not known.
    pub error: Option<f64>,
    /// The degrees of freedom of the standard error.
    pub freedom: f64,
    /// The probability that chance explains the difference.
    pub p: f64,
    /// The standard error of the change relative to the base; `None` if it is not known.
    relative_error: Option<f64>,
}

impl ComparedRow {
    /// The change relative to the base; `None` if the base has none of it.
    pub fn change(&self) -> Option<f64> {
        (self.measured[0] > 0.0).then(|| self.measured[1] / self.measured[0] - 1.0)
    }

    /// Half the width of the 95 % interval of the change.
    pub fn margin(&self) -> Option<f64> {
        self.relative_error.map(|error| error * quantile(0.025, self.freedom))
    }

    /// Whether the measured number is larger in the new build.
    pub fn has_grown(&self) -> bool {
        self.measured[1] > self.measured[0]
    }
}

/// All functions of two builds.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The functions that have enough samples, largest share first.
    pub rows: Vec<ComparedRow>,
    /// The names of functions that have not.
    pub omitted: Vec<String>,
    /// The total. It is compared by its value in a unit.
    pub total: ComparedRow,
    /// The number that is compared.
    pub measure: Measure,
    /// The units from which the variance is estimated.
    pub kind: UnitKind,
    /// The number of units of each side.
    pub units: [usize; 2],
    /// The number of samples of each side.
    pub samples: [f64; 2],
    /// The sum of all values of each side.
    pub sums: [f64; 2],
}

/// The values of one row in the units of both sides, with the totals of the units.
struct PairedUnits<'s> {
    parts: [&'s [f64]; 2],
    totals: [&'s [f64]; 2],
    /// The mean value of a sample.
    sample_value: [f64; 2],
    kind: UnitKind,
    /// The number by which sums are divided for the value in a unit.
    divisors: [f64; 2],
}

impl Comparison {
    /// Compares two sides. `files` are their numbers of files.
    pub fn new(base: &Series, new: &Series, kind: UnitKind, measure: Measure, files: [usize; 2]) -> Comparison {
        let sides = [base, new];
        let is_file = matches!(kind, UnitKind::Runs | UnitKind::Files);
        let mut omitted = Vec::new();
        let mut rows = Vec::new();
        for (name, parts) in pair_functions(sides) {
            let parts = PairedUnits::new([&parts[0], &parts[1]], sides, kind, files);
            if parts.samples() < MIN_SAMPLES {
                omitted.push(name);
                continue;
            }
            rows.push(ComparedRow { name, ..parts.compare(measure) });
        }
        let weight = |row: &ComparedRow| row.shares[0] + row.shares[1];
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then_with(|| a.name.cmp(&b.name)));
        let totals = sides.map(|side| side.totals.as_slice());
        let mut total = PairedUnits::new(totals, sides, kind, files).compare_values(true);
        if !is_file {
            (total.error, total.relative_error, total.p) = (None, None, 1.0);
        }
        let total = ComparedRow { name: "total".to_owned(), ..total };
        let samples = sides.map(|side| side.samples);
        let sums = sides.map(|side| side.totals.iter().sum());
        let units = sides.map(|side| side.totals.iter().filter(|&&total| total > 0.0).count());
        Comparison { rows, omitted, total, measure, kind, units, samples, sums }
    }

    /// Returns the same sides with some functions as one of this name.
    pub fn as_one([base, new]: [&Series; 2], names: &HashSet<&str>, name: &str) -> [Series; 2] {
        let matcher = Comparison::matcher([base, new]);
        let merge = |side: usize, series: &Series| {
            let mut merged = series.clone();
            let mut sums = vec![0.0; series.totals.len()];
            merged.functions.retain(|name, values| {
                let is_merged = names.contains(matcher.name(side, name));
                if is_merged {
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += *value);
                }
                !is_merged
            });
            merged.functions.insert(name.to_owned(), sums);
            merged
        };
        [merge(0, base), merge(1, new)]
    }

    /// Returns the same comparison without some functions: their values are in no total.
    pub fn without([base, new]: [&Series; 2], names: &HashSet<&str>) -> [Series; 2] {
        let matcher = Comparison::matcher([base, new]);
        let remove = |side: usize, series: &Series| {
            let mut rest = series.clone();
            rest.functions.retain(|name, values| {
                let is_removed = names.contains(matcher.name(side, name));
                if is_removed {
                    rest.totals.iter_mut().zip(values.iter()).for_each(|(total, value)| *total -= value);
                }
                !is_removed
            });
            let sum = |series: &Series| series.totals.iter().sum::<f64>();
            rest.samples *= sum(&rest) / sum(series).max(f64::MIN_POSITIVE);
            rest
        };
        [remove(0, base), remove(1, new)]
    }

    fn matcher(sides: [&Series; 2]) -> NameMatcher {
        let [base, new] = sides.map(|side| side.functions.keys().map(String::as_str));
        NameMatcher::new(base, new)
    }
}

/// Pairs the values of functions by their common names. A function that is missing has zeros.
fn pair_functions(sides: [&Series; 2]) -> BTreeMap<String, [Vec<f64>; 2]> {
    let matcher = Comparison::matcher(sides);
    let mut pairs: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for (side, series) in sides.into_iter().enumerate() {
        for (name, values) in &series.functions {
            let none = || sides.map(|side| vec![0.0; side.totals.len()]);
            let pair = pairs.entry(matcher.name(side, name).to_owned()).or_insert_with(none);
            pair[side].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    pairs
}

impl<'s> PairedUnits<'s> {
    fn new(parts: [&'s [f64]; 2], sides: [&'s Series; 2], kind: UnitKind, files: [usize; 2]) -> PairedUnits<'s> {
        PairedUnits {
            parts,
            totals: sides.map(|side| side.totals.as_slice()),
            sample_value: sides.map(|side| side.sample_value().max(f64::MIN_POSITIVE)),
            kind,
            divisors: files.map(|files| files.max(1) as f64),
        }
    }

    /// The number of samples of both sides.
    fn samples(&self) -> f64 {
        (0..2).map(|side| self.sum(side) / self.sample_value[side]).sum()
    }

    fn compare(&self, measure: Measure) -> ComparedRow {
        match measure {
            Measure::Share => self.compare_shares(),
            Measure::Time => self.compare_values(false),
        }
    }

    fn sum(&self, side: usize) -> f64 {
        self.parts[side].iter().sum()
    }

    fn total(&self, side: usize) -> f64 {
        self.totals[side].iter().sum()
    }

    fn row(&self, estimates: [Estimate; 2], exact: f64) -> ComparedRow {
        let [base, new] = estimates;
        let measured = [base.value, new.value];
        let error = (base.variance + new.variance).sqrt();
        let freedom = freedom_of_difference(base, new);
        let is_known = error > 0.0 && freedom.is_finite();
        let p = match is_known {
            _ if measured[0] == measured[1] => 1.0,
            true => (2.0 * upper_tail((measured[1] - measured[0]).abs() / error, freedom)).max(exact).min(1.0),
            false => 1.0,
        };
        let ratio = measured[1] / measured[0];
        let relative = (new.variance + ratio * ratio * base.variance).sqrt() / measured[0];
        let part = |side: usize| if self.total(side) > 0.0 { self.sum(side) / self.total(side) } else { 0.0 };
        ComparedRow {
            name: String::new(),
            shares: [part(0), part(1)],
            values: [0, 1].map(|side| self.sum(side) / self.divisors[side]),
            measured,
            error: is_known.then_some(error),
            freedom,
            p,
            relative_error: Some(relative).filter(|relative| is_known && relative.is_finite()),
        }
    }

    /// The share of both sides together: that which they have if nothing has changed.
    fn common_share(&self) -> f64 {
        (self.sum(0) + self.sum(1)) / (self.total(0) + self.total(1)).max(f64::MIN_POSITIVE)
    }

    fn compare_shares(&self) -> ComparedRow {
        let common = self.common_share();
        let are_neighbors = self.kind == UnitKind::Blocks;
        let mut dispersion = [1.0; 2];
        let estimates = [0, 1].map(|side| {
            let estimate = share(self.parts[side], self.totals[side], are_neighbors);
            let independent =
                common * (1.0 - common) * self.sample_value[side] / self.total(side).max(f64::MIN_POSITIVE);
            dispersion[side] = at_least_one(estimate.variance / independent);
            at_least(estimate, independent, self.kind)
        });
        let counts = |side: usize| {
            let sample = self.sample_value[side] * dispersion[side];
            (self.sum(side) / sample, self.total(side) / sample)
        };
        self.row(estimates, 2.0 * (-evidence_of_shares(counts(1), counts(0))).exp())
    }

    /// Compares values in a unit; those of the total vary less than independent samples.
    fn compare_values(&self, is_total: bool) -> ComparedRow {
        let common = self.common_share();
        let mut dispersion: f64 = 1.0;
        let estimates = [0, 1].map(|side| {
            let estimate = mean(self.parts[side]);
            let (count, sample) = (self.parts[side].len().max(1) as f64, self.sample_value[side]);
            // A run begins and ends between two ticks.
            let ends = sample * sample / 6.0 / count;
            let independent = common * (1.0 - common) * sample * self.total(side) / (count * count);
            let floor = if is_total { ends } else { independent.max(ends) };
            dispersion = dispersion.max(estimate.variance / floor.max(f64::MIN_POSITIVE));
            at_least(estimate, floor, self.kind)
        });
        let samples = (0..2).map(|side| self.sum(side) / self.sample_value[side] / dispersion).sum();
        let expected = self.parts[1].len() as f64 / (self.parts[0].len() + self.parts[1].len()).max(1) as f64;
        let of_new = self.sum(1) / (self.sum(0) + self.sum(1)).max(f64::MIN_POSITIVE);
        let exact = if is_total { 0.0 } else { 2.0 * (-evidence(samples, of_new, expected)).exp() };
        self.row(estimates, exact)
    }
}

fn at_least_one(factor: f64) -> f64 {
    if factor.is_finite() { factor.max(1.0) } else { 1.0 }
}

/// The estimate with a variance that is not less than that of independent samples, or exactly that
/// if there is nothing to estimate it from.
fn at_least(estimate: Estimate, independent: f64, kind: UnitKind) -> Estimate {
    match kind {
        UnitKind::Counts => Estimate { variance: independent, freedom: f64::from(u32::MAX), ..estimate },
        _ => Estimate { variance: estimate.variance.max(independent), ..estimate },
    }
}

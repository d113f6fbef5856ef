//! The values of every function in each unit of one side. The variance is estimated from the
//! differences between units.

use std::collections::HashMap;

use super::names::canonical;
use crate::pprof::path::base;
use crate::pprof::profile::{Location, SavedProfile};

/// Minimum number of files a side from which the variance between files is estimated.
pub const MIN_FILES: usize = 5;
/// Number of blocks of time that a side is divided into. Fewer need more evidence, and shorter ones
/// are no longer independent.
pub const BLOCKS: usize = 32;

/// The units of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Runs that the check has started itself.
    Runs,
    /// Files.
    Files,
    /// Blocks of time of the samples in few files.
    Blocks,
    /// All samples are one unit: the files have no times. The variance is that of independent
    /// samples.
    Counts,
}

impl UnitKind {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            UnitKind::Runs => "runs",
            UnitKind::Files => "files",
            UnitKind::Blocks => "blocks",
            UnitKind::Counts => "counts",
        }
    }

    /// Chooses the units of both sides.
    pub fn choose(base: &[SavedProfile], new: &[SavedProfile], are_runs: bool) -> UnitKind {
        let has_times = |profile: &SavedProfile| !profile.samples.times_ns().is_empty();
        match base.len().min(new.len()) {
            _ if are_runs => UnitKind::Runs,
            MIN_FILES.. => UnitKind::Files,
            _ if base.iter().chain(new).all(has_times) => UnitKind::Blocks,
            _ => UnitKind::Counts,
        }
    }
}

/// The values of one side.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The sum of all values in each unit.
    pub totals: Vec<f64>,
    /// The values of each function in each unit, by canonical name.
    pub functions: HashMap<String, Vec<f64>>,
    /// The number of samples.
    pub samples: f64,
    /// Whether functions have the values of what they call, too.
    pub is_cum: bool,
}

/// The choice of values to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueChoice {
    /// The index of the sample type.
    pub value: usize,
    /// Whether a function has the values of what it calls, too.
    pub cum: bool,
}

impl Series {
    /// Adds up the values of one side. All profiles have the same sample types.
    pub fn new(profiles: &[SavedProfile], kind: UnitKind, choice: ValueChoice) -> Series {
        let per_file = match kind {
            UnitKind::Blocks => BLOCKS.div_ceil(profiles.len().max(1)),
            UnitKind::Runs | UnitKind::Files | UnitKind::Counts => 1,
        };
        let mut series =
            Series { totals: vec![0.0; per_file * profiles.len()], is_cum: choice.cum, ..Series::default() };
        for (file, profile) in profiles.iter().enumerate() {
            series.add(profile, choice, file * per_file, per_file);
        }
        series
    }

    /// Adds a profile in `count` units from `first` on.
    fn add(&mut self, profile: &SavedProfile, choice: ValueChoice, first: usize, count: usize) {
        let mut names: Vec<String> = profile.functions.iter().map(|function| canonical(&function.name)).collect();
        // Code without a name is a function of its file.
        let unnamed = names.len() as u32;
        names.extend(profile.mappings.iter().map(|mapping| format!("[{}]", base(&mapping.file))));
        names.push("[unknown]".to_owned());
        let in_file = |location: &Location| unnamed + location.mapping.unwrap_or(profile.mappings.len() as u32);
        // Functions with the same canonical name are one: the first of them.
        let mut firsts: HashMap<&str, u32> = HashMap::new();
        let same: Vec<u32> = (0..).zip(&names).map(|(id, name)| *firsts.entry(name).or_insert(id)).collect();
        let mut sums: HashMap<u32, Vec<f64>> = HashMap::new();
        let mut functions: Vec<u32> = Vec::new();
        let times = profile.samples.times_ns();
        let start = times.iter().min().copied().unwrap_or(0);
        let length = (times.iter().max().copied().unwrap_or(0) - start).max(1) as f64;
        let (mut all, mut records) = (0.0, 0.0);
        profile.samples.for_each(|sample| {
            let value = sample.values[choice.value] as f64;
            if value == 0.0 {
                return;
            }
            let at = times.get(sample.index).map_or(0.0, |time| (time - start) as f64 / length);
            let unit = ((at * count as f64) as usize).min(count - 1);
            self.totals[first + unit] += value;
            all += value;
            records += 1.0;
            functions.clear();
            let stack = sample.stack.iter().take(if choice.cum { usize::MAX } else { 1 });
            for location in stack.map(|&location| &profile.locations[location as usize]) {
                let lines = location.lines.iter().take(if choice.cum { usize::MAX } else { 1 });
                let nameless = location.lines.is_empty().then(|| in_file(location));
                for function in lines.map(|line| line.function).chain(nameless) {
                    // Recursive calls count once.
                    let function = same[function as usize];
                    if !functions.contains(&function) {
                        functions.push(function);
                    }
                }
            }
            for &function in &functions {
                sums.entry(function).or_insert_with(|| vec![0.0; count])[unit] += value;
            }
        });
        self.samples += count_samples(profile, choice.value, all).unwrap_or(records);
        let units = self.totals.len();
        for (function, values) in sums {
            let name = &names[function as usize];
            let into = self.functions.entry(name.clone()).or_insert_with(|| vec![0.0; units]);
            into[first..first + count].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }

    /// The mean value of a sample.
    pub fn sample_value(&self) -> f64 {
        self.totals.iter().sum::<f64>() / self.samples.max(1.0)
    }
}

/// Returns the number of samples that make up the sum of a sample type, if the profile says it.
fn count_samples(profile: &SavedProfile, value: usize, all: f64) -> Option<f64> {
    let kind = &profile.sample_types[value];
    if &*kind.unit == "count" {
        return Some(all);
    }
    let counts = profile.sample_types.iter().position(|of| &*of.unit == "count" && of.kind.contains("samples"));
    let period = profile.period_of(value).filter(|_| counts.is_none());
    let counted = counts.map(|index| profile.samples.values(index).map(|value| value as f64).sum());
    counted.or(period.map(|period| all / period as f64)).filter(|&samples: &f64| samples > 0.0)
}

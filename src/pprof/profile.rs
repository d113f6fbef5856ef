//! A saved profile in the shape of pprof's `profile.proto`: stacks with one or more values and with
//! labels. Every other file format fits into it. It has no processes and threads; what a live
//! [`Profile`](crate::profile::Profile) knows of them is in the labels.

use super::samples::{Sample, Samples};
use crate::pprof::units::{are_compatible, scale};
use crate::profile::loss::LossCause;
use crate::tally::text::Text;

/// The quantity and unit of a sample value, such as `cpu` in `nanoseconds`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// The quantity: pprof's `type`.
    pub kind: Text,
    /// Its unit.
    pub unit: Text,
}

impl ValueType {
    /// Creates a value type.
    pub fn new(kind: &str, unit: &str) -> ValueType {
        ValueType { kind: kind.into(), unit: unit.into() }
    }
}

/// An event of perf without its modifiers (`cycles:u`, `cpu_core/cycles/u`). The part of a
/// tracepoint after the colon is its name and not a modifier.
pub(crate) fn without_modifiers(event: &str) -> &str {
    let is_modifiers = |text: &str| text.bytes().all(|byte| b"ukhGHpPSDIWeb".contains(&byte));
    match event.rsplit_once([':', '/']) {
        Some((bare, modifiers)) if is_modifiers(modifiers) => bare,
        _ => event,
    }
}

/// A file mapped into the address space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its id in the file, unique among its kind.
    pub id: u64,
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub limit: u64,
    /// The file offset that `start` maps.
    pub offset: u64,
    /// The file's path.
    pub file: Text,
    /// The GNU build id in hexadecimal; empty if unknown.
    pub build_id: Text,
    /// Its locations have function names.
    pub has_functions: bool,
    /// Its locations have source files.
    pub has_filenames: bool,
    /// Its locations have source lines.
    pub has_line_numbers: bool,
    /// Its locations have inlined calls.
    pub has_inline_frames: bool,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name to show.
    pub name: Text,
    /// The name in the symbol table; may equal `name`.
    pub system_name: Text,
    /// The source file; empty if unknown.
    pub file: Text,
    /// The line that the function starts in; 0 if unknown.
    pub start_line: i64,
}

/// A function and source line at a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// An index into [`SavedProfile::functions`].
    pub function: u32,
    /// The source line; 0 if unknown.
    pub line: i64,
    /// The source column; 0 if unknown.
    pub column: i64,
}

/// A code address with its functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Its id in the file, unique among its kind.
    pub id: u64,
    /// An index into [`SavedProfile::mappings`].
    pub mapping: Option<u32>,
    /// The address in the address space of the mapping.
    pub address: u64,
    /// The functions, innermost first; all but the last are inlined. Empty if unknown.
    pub lines: Vec<Line>,
    /// Identical code folding: several functions share this address.
    pub folded: bool,
}

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelValue {
    /// A text.
    Text(Text),
    /// A number with its unit, which may be empty.
    Number(i64, Text),
}

/// A key and value attached to a sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The key. It may occur several times in a set.
    pub key: Text,
    /// The value.
    pub value: LabelValue,
}

/// The facts that a recording has and no other file format: see [`SavedProfile::recordings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingFacts {
    /// The command as launched, or that of the process attached to.
    pub command: Text,
    /// The name of the host that recorded it; empty if unknown.
    pub host: Text,
    /// The kernel and its machine; empty if unknown.
    pub kernel: Text,
    /// The engine: the word that `--engine` takes. It is empty if unknown.
    pub engine: Text,
    /// The losses, by cause, without the causes that lost nothing.
    pub losses: Vec<SavedLoss>,
}

/// Ticks that were lost for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedLoss {
    /// The cause: the word of [`LossCause::id`](crate::profile::loss::LossCause::id).
    pub cause: &'static str,
    /// The number of lost ticks.
    pub ticks: u64,
    /// Their weight, in ns or bytes.
    pub weight: u64,
}

impl SavedLoss {
    /// Lists the causes that lost something.
    pub fn list(ticks: &[u64; LossCause::ALL.len()], weights: &[u64; LossCause::ALL.len()]) -> Vec<SavedLoss> {
        let all = LossCause::ALL.into_iter().zip(ticks.iter().zip(weights));
        let lost = all.filter(|(_, (ticks, weight))| **ticks > 0 || **weight > 0);
        lost.map(|(cause, (&ticks, &weight))| SavedLoss { cause: cause.id(), ticks, weight }).collect()
    }
}

/// A saved profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedProfile {
    /// The meaning of each sample value.
    pub sample_types: Vec<ValueType>,
    /// The samples.
    pub samples: Samples,
    /// The label sets; samples refer to them by index. The first is empty.
    pub labels: Vec<Box<[Label]>>,
    /// The mapped files. The first is the program.
    pub mappings: Vec<Mapping>,
    /// The locations; stacks refer to them by index.
    pub locations: Vec<Location>,
    /// The functions; locations refer to them by index.
    pub functions: Vec<Function>,
    /// A regular expression for whole function names. Matching frames are removed together with
    /// their callees.
    pub drop_frames: Text,
    /// A regular expression for functions that `drop_frames` does not remove.
    pub keep_frames: Text,
    /// The start time, ns since 1970; 0 if unknown.
    pub time_ns: i64,
    /// The duration, ns; 0 if unknown.
    pub duration_ns: i64,
    /// The unit in which the sampling period is measured.
    pub period_type: ValueType,
    /// The sampling period.
    pub period: i64,
    /// Comments, which reports show at the top unless they start with `#`.
    pub comments: Vec<Text>,
    /// The kind of the sample type to show by default; empty for the last one.
    pub default_sample_type: Text,
    /// The URL of the profile's documentation.
    pub doc_url: Text,
    /// The recordings that it was converted from. Only recordings have these facts: they are not
    /// written to files.
    pub recordings: Vec<RecordingFacts>,
}

impl SavedProfile {
    /// Returns the index of a sample type, given by its kind or its position. An event of perf may
    /// be given without its modifiers, if only one is meant. An empty name selects the default.
    ///
    /// # Errors
    /// If there is no such type; the message lists the existing ones.
    pub fn value_index(&self, name: &str) -> Result<usize, String> {
        let Some(last) = self.sample_types.len().checked_sub(1) else {
            return Err("profile has no samples".to_owned());
        };
        if name.is_empty() {
            let default = self.sample_types.iter().position(|of| of.kind == self.default_sample_type);
            return Ok(default.filter(|_| !self.default_sample_type.is_empty()).unwrap_or(last));
        }
        if let Ok(index) = name.parse::<i64>() {
            let inside = usize::try_from(index).ok().filter(|&index| index <= last);
            return inside.ok_or_else(|| format!("sample_index {name} is outside the range [0..{last}]"));
        }
        let without_prefix = name.strip_prefix("inuse_").unwrap_or(name);
        let found = self.sample_types.iter().position(|of| of.kind == name || of.kind == without_prefix);
        let event = || {
            let mut events = (0..).zip(&self.sample_types).filter(|(_, of)| without_modifiers(&of.kind) == name);
            let (index, _) = events.next()?;
            events.next().is_none().then_some(index)
        };
        found.or_else(event).ok_or_else(|| {
            let kinds: Vec<&str> = self.sample_types.iter().map(|of| of.kind.as_str()).collect();
            format!("sample_index {name:?} must be one of: [{}]", kinds.join(" "))
        })
    }

    /// Returns the sampling period in the unit of the value with this index; `None` unless both are
    /// times.
    pub fn period_of(&self, value: usize) -> Option<u64> {
        let unit = &self.sample_types[value].unit;
        if !are_compatible(unit, "nanoseconds") || !are_compatible(&self.period_type.unit, unit) {
            return None;
        }
        let period = scale(self.period, &self.period_type.unit, unit).0;
        (period >= 1.0).then_some(period as u64)
    }

    /// The path of a location's mapping; empty if it has none.
    pub fn object(&self, location: &Location) -> &Text {
        static NONE: std::sync::LazyLock<Text> = std::sync::LazyLock::new(Text::default);
        location.mapping.map_or(&NONE, |mapping| &self.mappings[mapping as usize].file)
    }

    /// The labels of a sample.
    pub fn labels_of(&self, sample: &Sample) -> &[Label] {
        self.labels.get(sample.labels as usize).map_or(&[], |labels| labels)
    }

    /// Checks that all indices are in range and that every sample has its values.
    ///
    /// # Errors
    /// The first inconsistency found.
    pub fn check(&self) -> Result<(), String> {
        let (locations, labels) = (self.locations.len(), self.labels.len().max(1));
        if !self.samples.is_empty() && self.sample_types.is_empty() {
            return Err("missing sample type information".to_owned());
        }
        let mut invalid = None;
        self.samples.for_each(|sample| {
            let has_locations = sample.stack.iter().all(|&location| (location as usize) < locations);
            if !has_locations || sample.labels as usize >= labels || sample.values.len() != self.sample_types.len() {
                invalid = invalid.or(Some(sample.index));
            }
        });
        if let Some(index) = invalid {
            return Err(format!("sample {index} has an index out of range"));
        }
        for (index, location) in self.locations.iter().enumerate() {
            let mapped = location.mapping.is_none_or(|mapping| (mapping as usize) < self.mappings.len());
            if !mapped || location.lines.iter().any(|line| line.function as usize >= self.functions.len()) {
                return Err(format!("location {} has an index out of range", index + 1));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_without_its_modifiers_if_it_is_the_only_one() {
        let index = |kinds: &[&str], name: &str| {
            let sample_types = kinds.iter().map(|kind| ValueType::new(kind, "count")).collect();
            SavedProfile { sample_types, ..SavedProfile::default() }.value_index(name).ok()
        };
        let kinds = ["samples", "cpu-clock:u", "cycles:u", "cycles:k", "sched:sched_switch"];
        let names = ["cpu-clock", "cpu-clock:u", "cycles:k", "sched:sched_switch"];
        assert_eq!(names.map(|name| index(&kinds, name)), [Some(1), Some(1), Some(3), Some(4)]);
        assert_eq!(["cycles", "sched", "cpu"].map(|name| index(&kinds, name)), [None; 3]);
        assert_eq!(index(&["cycles:u", "cycles"], "cycles"), Some(1), "the whole name goes first");
    }
}

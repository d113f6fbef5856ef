//! A profile as files keep it: stacks with values of several kinds and labels, in the shape of pprof's `profile.proto`, which
//! every other format fits into. It has names and no processes: what a live [`Profile`](crate::profile::Profile) knows beyond
//! that is in its labels.
//!
//! The functions here do to it what pprof does, step by step, so that a report says what pprof's would: [`merge`], [`filter`],
//! [`tags`], [`prune`], and [`graph`] which adds up. Reading and writing files is `write`'s.

pub mod filter;
pub mod graph;
pub mod merge;
pub mod nodes;
pub mod prune;
pub mod rename;
mod samples;
pub mod tagging;
pub mod tags;
pub mod trim;

pub use samples::{Sample, Samples, put_varint, take_varint};

use super::text::Text;
use super::units::{are_alike, scale};

/// What a value measures: `cpu` in `nanoseconds`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// What.
    pub kind: Text,
    /// In which unit.
    pub unit: Text,
}

impl ValueType {
    /// From both words.
    pub fn new(kind: &str, unit: &str) -> ValueType {
        ValueType { kind: kind.into(), unit: unit.into() }
    }
}

/// A file in an address space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// What the file calls it; no other has it.
    pub id: u64,
    /// First address.
    pub start: u64,
    /// One past the last.
    pub limit: u64,
    /// Of the file, at `start`.
    pub offset: u64,
    /// Path.
    pub file: Text,
    /// GNU build id in hexadecimal digits; empty when unknown.
    pub build_id: Text,
    /// Its locations have names.
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
    /// For people.
    pub name: Text,
    /// As the linker knows it; may be the same.
    pub system_name: Text,
    /// Source file.
    pub file: Text,
    /// Line that it begins in; 0 when unknown.
    pub start_line: i64,
}

/// A function at a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Index in [`Saved::functions`].
    pub function: u32,
    /// Source line; 0 when unknown.
    pub line: i64,
    /// Source column; 0 when unknown.
    pub column: i64,
}

/// A place in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// What the file calls it; no other has it.
    pub id: u64,
    /// Index in [`Saved::mappings`].
    pub mapping: Option<u32>,
    /// In the mapping's address space.
    pub address: u64,
    /// Innermost first: all but the last are inlined. Empty when it has no name.
    pub lines: Vec<Line>,
    /// Several places look like this one.
    pub folded: bool,
}

/// A value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelValue {
    /// A text.
    Text(Text),
    /// A number, and its unit if it has one.
    Number(i64, Text),
}

/// Something that is said of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// What.
    pub key: Text,
    /// Of which value; a key may come several times.
    pub value: LabelValue,
}

/// The whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// What the values of each sample are, in their order.
    pub sample_types: Vec<ValueType>,
    /// The stacks.
    pub samples: Samples,
    /// Sets of labels; samples name theirs by index. The first is empty.
    pub labels: Vec<Box<[Label]>>,
    /// Files. The first is the program.
    pub mappings: Vec<Mapping>,
    /// Places; stacks name them by index.
    pub locations: Vec<Location>,
    /// Functions; locations name them by index.
    pub functions: Vec<Function>,
    /// Frames to be left out, with all that they call: a regular expression for the whole of a name.
    pub drop_frames: Text,
    /// Frames that stay all the same.
    pub keep_frames: Text,
    /// When it was begun, ns since 1970; 0 when unknown.
    pub time_ns: i64,
    /// How long it took, ns; 0 when unknown.
    pub duration_ns: i64,
    /// What is counted between samples.
    pub period_type: ValueType,
    /// How much of it.
    pub period: i64,
    /// Lines for the heading of reports; those that begin with `#` are not shown.
    pub comments: Vec<Text>,
    /// Kind of the value to be shown; empty for the last.
    pub default_sample_type: Text,
    /// Where to read about it.
    pub doc_url: Text,
}

impl Saved {
    /// Which value a name means: a kind, or a position; the default for an empty one.
    ///
    /// # Errors
    /// What there is instead.
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
        let bare = name.strip_prefix("inuse_").unwrap_or(name);
        let found = self.sample_types.iter().position(|of| of.kind == name || of.kind == bare);
        found.ok_or_else(|| {
            let kinds: Vec<&str> = self.sample_types.iter().map(|of| of.kind.as_str()).collect();
            format!("sample_index {name:?} must be one of: [{}]", kinds.join(" "))
        })
    }

    /// The period between two samples, in the unit of this value, where it is a time and is measured in periods of time.
    pub fn period_of(&self, value: usize) -> Option<u64> {
        let unit = &self.sample_types[value].unit;
        if !are_alike(unit, "nanoseconds") || !are_alike(&self.period_type.unit, unit) {
            return None;
        }
        let period = scale(self.period, &self.period_type.unit, unit).0;
        (period >= 1.0).then_some(period as u64)
    }

    /// The file of a location's mapping; empty when there is none.
    pub fn object(&self, location: &Location) -> &Text {
        static NONE: std::sync::LazyLock<Text> = std::sync::LazyLock::new(Text::default);
        location.mapping.map_or(&NONE, |mapping| &self.mappings[mapping as usize].file)
    }

    /// The labels of a sample.
    pub fn labels_of(&self, sample: &Sample) -> &[Label] {
        self.labels.get(sample.labels as usize).map_or(&[], |labels| labels)
    }

    /// Whether indices are where they should be, and every sample has its values.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let (locations, labels) = (self.locations.len(), self.labels.len().max(1));
        if !self.samples.is_empty() && self.sample_types.is_empty() {
            return Err("missing sample type information".to_owned());
        }
        let mut wrong = None;
        self.samples.each(|sample| {
            let places = sample.stack.iter().all(|&location| (location as usize) < locations);
            if !places || sample.labels as usize >= labels || sample.values.len() != self.sample_types.len() {
                wrong = wrong.or(Some(sample.index));
            }
        });
        if let Some(index) = wrong {
            return Err(format!("sample {index} names what is not there"));
        }
        for (index, location) in self.locations.iter().enumerate() {
            let mapped = location.mapping.is_none_or(|mapping| (mapping as usize) < self.mappings.len());
            if !mapped || location.lines.iter().any(|line| line.function as usize >= self.functions.len()) {
                return Err(format!("location {} names what is not there", index + 1));
            }
        }
        Ok(())
    }
}

//! The options of a report, with pprof's names and defaults, and the error of generating one.

use std::fmt;
use std::io;
use std::path::Path;

use jiff::tz::TimeZone;

use crate::keyword::{Keyword, Word};
use crate::pprof::format::SaveFormat;
use crate::pprof::tag_filter::TagFilter;
use crate::tally::query::{Filters, OwnCode, Pattern};

/// The kind of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportKind {
    /// `-top`: a table of functions.
    Top,
    /// `-tree`: every function with its callers and callees.
    Tree,
    /// `-peek`: the matching functions with their callers and callees.
    Peek(Pattern),
    /// `-list`: the source lines of the matching functions.
    List(Pattern),
    /// `-disasm`: the machine code of the matching functions.
    Disasm(Pattern),
    /// stackprof's `--method`: callers, callees and source of the matching functions.
    Method(Pattern),
    /// `-traces`: the stack of every sample.
    Traces,
    /// `-tags`: the labels of all samples with their values.
    Tags,
    /// `-comments`: the comments of the profile.
    Comments,
    /// `-raw`: the whole profile as text.
    Raw,
    /// `-topproto`: the rows of `-top` as a gzipped `profile.proto`.
    TopProto,
    /// `-callgrind`: costs by address for KCachegrind.
    Callgrind,
    /// `-dot`: a call graph for graphviz.
    Dot,
    /// The filtered profile in a file format.
    Export(SaveFormat),
}

impl From<SaveFormat> for ReportKind {
    fn from(format: SaveFormat) -> ReportKind {
        match format {
            SaveFormat::Text => ReportKind::Top,
            SaveFormat::Callgrind => ReportKind::Callgrind,
            SaveFormat::Dot => ReportKind::Dot,
            format => ReportKind::Export(format),
        }
    }
}

impl ReportKind {
    /// Whether it is printed as text or JSON, as opposed to a file format.
    pub fn is_table(&self) -> bool {
        use ReportKind::{Callgrind, Dot, Export, TopProto};
        !matches!(self, TopProto | Callgrind | Dot | Export(_))
    }

    /// The kind that a file name selects: a file format, or a picture of the call graph.
    pub fn from_path(path: &Path) -> Option<ReportKind> {
        let is_picture =
            path.extension().is_some_and(|extension| ["png", "pdf", "ps"].iter().any(|own| extension == *own));
        let format =
            SaveFormat::from_path(path).map(|(format, _)| format).filter(|&format| format != SaveFormat::Recording);
        format.map(ReportKind::from).or(is_picture.then_some(ReportKind::Dot))
    }
}

/// The unit of code that a node of the call graph stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A function.
    Functions,
    /// A function in a source file.
    FileFunctions,
    /// A source file.
    Files,
    /// A source line.
    Lines,
    /// An address.
    Addresses,
}

impl Keyword for Granularity {
    const ALL: &'static [Granularity] = &[
        Granularity::Functions,
        Granularity::FileFunctions,
        Granularity::Files,
        Granularity::Lines,
        Granularity::Addresses,
    ];

    fn word(self) -> Word {
        match self {
            Granularity::Functions => Word::new("functions", "functions"),
            Granularity::FileFunctions => Word::new("filefunctions", "functions in source files"),
            Granularity::Files => Word::new("files", "source files"),
            Granularity::Lines => Word::new("lines", "source lines"),
            Granularity::Addresses => Word::new("addresses", "addresses"),
        }
    }
}

/// The options of a report, by pprof's names.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The kind of the report.
    pub kind: ReportKind,
    /// Whether to print JSON in place of text.
    pub json: bool,
    /// The filters by function, file and mapping.
    pub filters: Filters,
    /// The choice of own code, and whether foreign code is folded into it.
    pub own: OwnCode,
    /// Removes the callees of matching functions.
    pub prune_from: Option<Pattern>,
    /// Keeps samples by label.
    pub tagfocus: Option<TagFilter>,
    /// Removes samples by label.
    pub tagignore: Option<TagFilter>,
    /// Removes the labels whose key does not match.
    pub tagshow: Option<Pattern>,
    /// Removes the labels whose key matches.
    pub taghide: Option<Pattern>,
    /// The label keys whose values become frames at the root of the stacks.
    pub tagroot: Vec<String>,
    /// The label keys whose values become frames at the leaf of the stacks.
    pub tagleaf: Vec<String>,
    /// Sort by cum instead of flat.
    pub cum: bool,
    /// Draw a tree of call paths instead of a graph of functions.
    pub call_tree: bool,
    /// The maximum number of nodes, 0 for all; `None` is the default of the kind.
    pub nodecount: Option<usize>,
    /// The minimum cum of a node, as a fraction of the total.
    pub nodefraction: f64,
    /// The minimum weight of an edge, as a fraction of the total.
    pub edgefraction: f64,
    /// Whether the three limits above apply.
    pub trim: bool,
    /// The unit of code that a node stands for; `None` is the default of the kind.
    pub granularity: Option<Granularity>,
    /// Attribute inlined code to the function that it was inlined into.
    pub noinlines: bool,
    /// Show source columns with lines.
    pub showcolumns: bool,
    /// Leave out nodes with negative values.
    pub drop_negative: bool,
    /// Percentages are relative to what the filters leave.
    pub relative_percentages: bool,
    /// Leave out the header lines about the profile.
    pub compact_labels: bool,
    /// The unit of values; `minimum` selects one that fits the smallest value.
    pub unit: String,
    /// The number that values are divided by; not 0.
    pub divide_by: f64,
    /// Divide values by the first sample type.
    pub mean: bool,
    /// The kind or index of the sample type; empty for the profile's default.
    pub sample_index: String,
    /// The directories to search for sources, separated by `:`; empty for the working directory.
    pub source_path: String,
    /// The prefixes to remove from source paths, separated by `:`.
    pub trim_path: String,
    /// The time zone for the header.
    pub zone: TimeZone,
}

impl Default for ReportOptions {
    /// pprof's defaults on the command line.
    fn default() -> ReportOptions {
        ReportOptions {
            kind: ReportKind::Top,
            json: false,
            filters: Filters::default(),
            own: OwnCode::default(),
            prune_from: None,
            tagfocus: None,
            tagignore: None,
            tagshow: None,
            taghide: None,
            tagroot: Vec::new(),
            tagleaf: Vec::new(),
            cum: false,
            call_tree: false,
            nodecount: None,
            nodefraction: 0.005,
            edgefraction: 0.001,
            trim: true,
            granularity: None,
            noinlines: false,
            showcolumns: false,
            drop_negative: false,
            relative_percentages: false,
            compact_labels: false,
            unit: "minimum".to_owned(),
            divide_by: 1.0,
            mean: false,
            sample_index: String::new(),
            source_path: String::new(),
            trim_path: String::new(),
            zone: TimeZone::UTC,
        }
    }
}

impl ReportOptions {
    /// The factor of all values, if it is not 1.
    pub fn ratio(&self) -> Option<f64> {
        Some(1.0 / self.divide_by).filter(|&ratio| ratio > 0.0 && ratio != 1.0)
    }
}

/// The reason why there is no report.
#[derive(Debug)]
pub enum ReportError {
    /// The report could not be written.
    Write(io::Error),
    /// The options ask for something that the profile does not have; the message is pprof's.
    Unavailable(String),
}

impl From<io::Error> for ReportError {
    fn from(error: io::Error) -> ReportError {
        ReportError::Write(error)
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::Write(error) => write!(f, "cannot write the report: {error}"),
            ReportError::Unavailable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReportError {}

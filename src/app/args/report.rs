//! The arguments of `sigtop report`. Names and meanings are pprof's; `-` and `_` are equal in them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::groups::{ConfigArgs, SymbolArgs};
use super::parsers::{keyword_parser, parse_own, parse_pattern};
use crate::pprof::format::SaveFormat;
use crate::pprof::report::{Granularity, ReportKind, ReportOptions};
use crate::pprof::tag_filter::TagFilter;
use crate::profile::kernel_frames::KernelFrames;
use crate::tally::query::{Filters, OwnCode, Pattern};

/// The arguments of `sigtop report`.
#[derive(Args, Clone, Debug)]
pub struct Report {
    /// Profiles in any format, or - for stdin; several are merged. If the first of several files is
    /// an executable, it replaces the profile's main binary
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,

    /// The kind of report.
    #[command(flatten)]
    pub kinds: ReportKindArgs,

    /// Print the report as JSON: values as integers in the profile's unit, percentages unrounded,
    /// and the number of omitted rows. The schemas are listed in the manual
    #[arg(long)]
    pub json: bool,

    /// Write to this file instead of stdout. Without a report kind, the extension selects one.
    /// With --dot, graphviz draws .svg, .png, .pdf and .ps
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Keep samples with a matching function, file or module
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub focus: Vec<Pattern>,

    /// Drop samples with a matching function, file or module
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub ignore: Vec<Pattern>,

    /// Remove matching frames from the stacks
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub hide: Vec<Pattern>,

    /// Remove all other frames from the stacks
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub show: Vec<Pattern>,

    /// Start stacks at the matching frame next to the root
    #[arg(long, alias = "show_from", value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub show_from: Vec<Pattern>,

    /// Remove the callees of matching frames from the stacks
    #[arg(long, alias = "prune_from", value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub prune_from: Option<Pattern>,

    /// Keep samples with these labels: RE, key=RE, or a range key=1kb:4kb
    #[arg(long, value_name = "LABELS", value_parser = TagFilter::new, help_heading = "Filters")]
    pub tagfocus: Option<TagFilter>,

    /// Drop samples with these labels
    #[arg(long, value_name = "LABELS", value_parser = TagFilter::new, help_heading = "Filters")]
    pub tagignore: Option<TagFilter>,

    /// Keep only labels with a matching key
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub tagshow: Option<Pattern>,

    /// Remove labels with a matching key
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Filters")]
    pub taghide: Option<Pattern>,

    /// Add the values of these labels as frames at the root
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = "Filters")]
    pub tagroot: Vec<String>,

    /// Add the values of these labels as frames at the leaf
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = "Filters")]
    pub tagleaf: Vec<String>,

    /// Sample type to show: a name, or an index from 0 [default: the profile's own default, or the
    /// last]
    #[arg(long, alias = "sample_index", value_name = "VALUE", help_heading = "Filters")]
    pub sample_index: Option<String>,

    /// Maximum number of nodes, 0 for all [default: all, 80 for --tree and --dot]
    #[arg(long, value_name = "N", help_heading = "Filters")]
    pub nodecount: Option<usize>,

    /// Hide nodes below this fraction of the total
    #[arg(long, value_name = "FRACTION", default_value_t = 0.005, help_heading = "Filters")]
    pub nodefraction: f64,

    /// Hide edges below this fraction of the total
    #[arg(long, value_name = "FRACTION", default_value_t = 0.001, help_heading = "Filters")]
    pub edgefraction: f64,

    /// Show all nodes and edges
    #[arg(long, alias = "no_trim", help_heading = "Filters")]
    pub no_trim: bool,

    /// Sort by cum instead of flat
    #[arg(long, help_heading = "Display")]
    pub cum: bool,

    /// Aggregate samples at this level [default: functions]
    #[arg(long, value_name = "LEVEL", value_parser = keyword_parser::<Granularity>(), group = "level", help_heading = "Display")]
    pub granularity: Option<Granularity>,

    /// Same as --granularity functions
    #[arg(long, group = "level", help_heading = "Display")]
    pub functions: bool,

    /// Same as --granularity filefunctions
    #[arg(long, group = "level", help_heading = "Display")]
    pub filefunctions: bool,

    /// Same as --granularity files
    #[arg(long = "files", id = "files_flag", group = "level", help_heading = "Display")]
    pub files_flag: bool,

    /// Same as --granularity lines
    #[arg(long, group = "level", help_heading = "Display")]
    pub lines: bool,

    /// Same as --granularity addresses
    #[arg(long, group = "level", help_heading = "Display")]
    pub addresses: bool,

    /// Draw a tree of call paths instead of a graph of functions, with --dot and --callgrind
    #[arg(long, alias = "call_tree", help_heading = "Display")]
    pub call_tree: bool,

    /// Attribute inlined code to the function that it was inlined into
    #[arg(long, help_heading = "Display")]
    pub noinlines: bool,

    /// Whether stacks of recordings have functions of the kernel [default: off, of perf's: on]
    #[arg(long, value_parser = keyword_parser::<KernelFrames>(), value_name = "WHEN", help_heading = "Display")]
    pub kernel: Option<KernelFrames>,

    /// Show own code alone: the values of libraries and runtimes belong to the own function that
    /// called them. Own code is what REGEX matches (functions, files, mappings) or, without it,
    /// what has its source outside of /usr, of packages and of the language's library; without
    /// debug information, the main binary less known runtimes
    #[arg(
        long,
        value_name = "REGEX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_own,
        help_heading = "Filters"
    )]
    pub own: Option<OwnCode>,

    /// Source of missing names: the mapped files on this machine, or in the directories of
    /// $PPROF_BINARY_PATH, or none
    #[arg(long, value_enum, value_name = "SOURCE", default_value = "local", help_heading = "Display")]
    pub symbolize: Symbolize,

    /// Whether debug information is downloaded.
    #[command(flatten)]
    pub debug_information: SymbolArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,

    /// Divide all values by this number
    #[arg(long, alias = "divide_by", value_name = "N", default_value_t = 1.0, value_parser = parse_divisor, help_heading = "Display")]
    pub divide_by: f64,

    /// Show means: divide each value by the first sample type
    #[arg(long, help_heading = "Display")]
    pub mean: bool,

    /// Show source columns with lines
    #[arg(long, help_heading = "Display")]
    pub showcolumns: bool,

    /// Show percentages of what the filters leave
    #[arg(long, alias = "relative_percentages", help_heading = "Display")]
    pub relative_percentages: bool,

    /// Unit of values; minimum selects one that fits the smallest value
    #[arg(long, default_value = "minimum", help_heading = "Display")]
    pub unit: String,

    /// Omit the header lines about the profile
    #[arg(long, alias = "compact_labels", help_heading = "Display")]
    pub compact_labels: bool,

    /// Directories to search for sources, separated by colons
    #[arg(
        long,
        alias = "source_path",
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        help_heading = "Display"
    )]
    pub source_path: String,

    /// Prefixes to remove from source paths, separated by colons
    #[arg(
        long,
        alias = "trim_path",
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        help_heading = "Display"
    )]
    pub trim_path: String,

    /// Subtract this profile
    #[arg(long, value_name = "FILE", conflicts_with = "diff_base", help_heading = "Comparison")]
    pub base: Vec<String>,

    /// Subtract this profile and show percentages of it
    #[arg(long, alias = "diff_base", value_name = "FILE", help_heading = "Comparison")]
    pub diff_base: Vec<String>,

    /// Scale the profile to the total of the subtracted one
    #[arg(long, help_heading = "Comparison")]
    pub normalize: bool,

    /// Hide nodes with negative values
    #[arg(long, alias = "drop_negative", help_heading = "Comparison")]
    pub drop_negative: bool,
}

/// The kind of report; at most one may be given.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
pub struct ReportKindArgs {
    /// Table of functions (default)
    #[arg(long, visible_alias = "text", help_heading = "Report kind")]
    pub top: bool,

    /// Callers and callees of matching functions
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Report kind")]
    pub peek: Option<Pattern>,

    /// Every function with its callers and callees
    #[arg(long, help_heading = "Report kind")]
    pub tree: bool,

    /// Source lines of matching functions
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Report kind")]
    pub list: Option<Pattern>,

    /// Machine code of matching functions, or of the function at 0xADDRESS, disassembled by objdump
    /// if it is installed
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Report kind")]
    pub disasm: Option<Pattern>,

    /// Callers, callees and source of matching functions, in stackprof's layout
    #[arg(long, value_name = "REGEX", value_parser = parse_pattern, help_heading = "Report kind")]
    pub method: Option<Pattern>,

    /// Stack of every sample
    #[arg(long, help_heading = "Report kind")]
    pub traces: bool,

    /// Deepest stack of each thread with the sizes of its frames; of recordings only
    #[arg(long, help_heading = "Report kind")]
    pub stacks: bool,

    /// Labels of all samples with their values
    #[arg(long, help_heading = "Report kind")]
    pub tags: bool,

    /// Comments of the profile
    #[arg(long, help_heading = "Report kind")]
    pub comments: bool,

    /// The whole profile as text
    #[arg(long, help_heading = "Report kind")]
    pub raw: bool,

    /// Folded stacks, one per line
    #[arg(long, help_heading = "Report kind")]
    pub folded: bool,

    /// Flame graph as SVG
    #[arg(long, help_heading = "Report kind")]
    pub flame: bool,

    /// JSON for speedscope.app
    #[arg(long, help_heading = "Report kind")]
    pub speedscope: bool,

    /// JSON for profiler.firefox.com
    #[arg(long, help_heading = "Report kind")]
    pub firefox: bool,

    /// Call graph for graphviz
    #[arg(long, help_heading = "Report kind")]
    pub dot: bool,

    /// Callgrind file for KCachegrind
    #[arg(long, help_heading = "Report kind")]
    pub callgrind: bool,

    /// profile.proto, gzipped
    #[arg(long, help_heading = "Report kind")]
    pub proto: bool,

    /// The rows of --top as profile.proto, gzipped
    #[arg(long, help_heading = "Report kind")]
    pub topproto: bool,

    /// gperftools CPU profile, for old tools
    #[arg(long, help_heading = "Report kind")]
    pub gperftools: bool,
}

impl ReportKindArgs {
    /// The kind that a flag or the extension of the output file selects.
    fn kind(&self, output: Option<&Path>) -> ReportKind {
        let flags = [
            (self.top, ReportKind::Top),
            (self.tree, ReportKind::Tree),
            (self.traces, ReportKind::Traces),
            (self.tags, ReportKind::Tags),
            (self.comments, ReportKind::Comments),
            (self.raw, ReportKind::Raw),
            (self.folded, SaveFormat::Folded.into()),
            (self.flame, SaveFormat::Flame.into()),
            (self.speedscope, SaveFormat::Speedscope.into()),
            (self.firefox, SaveFormat::Firefox.into()),
            (self.dot, ReportKind::Dot),
            (self.callgrind, ReportKind::Callgrind),
            (self.proto, SaveFormat::Proto.into()),
            (self.topproto, ReportKind::TopProto),
            (self.gperftools, SaveFormat::Gperftools.into()),
        ];
        let patterns = [
            self.peek.clone().map(ReportKind::Peek),
            self.list.clone().map(ReportKind::List),
            self.disasm.clone().map(ReportKind::Disasm),
            self.method.clone().map(ReportKind::Method),
        ];
        let flag = flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, kind)| kind);
        let given = patterns.into_iter().flatten().next().or(flag);
        given.or_else(|| output.and_then(ReportKind::from_path)).unwrap_or(ReportKind::Top)
    }
}

/// The source of names for locations without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Symbolize {
    /// The mapped files on this machine; mangled names are demangled
    Local,
    /// No source; all names stay as they are
    None,
}

fn parse_divisor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Err("zero divisor specified".to_owned()),
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("expected a number".to_owned()),
    }
}

impl Report {
    fn granularity(&self) -> Option<Granularity> {
        let flags = [
            (self.functions, Granularity::Functions),
            (self.filefunctions, Granularity::FileFunctions),
            (self.files_flag, Granularity::Files),
            (self.lines, Granularity::Lines),
            (self.addresses, Granularity::Addresses),
        ];
        let flag = flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, level)| level);
        self.granularity.or(flag)
    }

    /// The options of the report.
    pub fn options(&self) -> ReportOptions {
        ReportOptions {
            kind: self.kinds.kind(self.output.as_deref()),
            json: self.json,
            filters: Filters {
                focus: self.focus.clone(),
                ignore: self.ignore.clone(),
                hide: self.hide.clone(),
                show: self.show.clone(),
                show_from: self.show_from.clone(),
                ..Filters::default()
            },
            own: self.own.clone().unwrap_or_default(),
            prune_from: self.prune_from.clone(),
            tagfocus: self.tagfocus.clone(),
            tagignore: self.tagignore.clone(),
            tagshow: self.tagshow.clone(),
            taghide: self.taghide.clone(),
            tagroot: self.tagroot.clone(),
            tagleaf: self.tagleaf.clone(),
            cum: self.cum,
            call_tree: self.call_tree,
            nodecount: self.nodecount,
            nodefraction: self.nodefraction,
            edgefraction: self.edgefraction,
            trim: !self.no_trim,
            granularity: self.granularity(),
            noinlines: self.noinlines,
            showcolumns: self.showcolumns,
            drop_negative: self.drop_negative,
            relative_percentages: self.relative_percentages,
            compact_labels: self.compact_labels,
            unit: self.unit.clone(),
            divide_by: self.divide_by,
            mean: self.mean,
            sample_index: self.sample_index.clone().unwrap_or_default(),
            source_path: self.source_path.clone(),
            trim_path: self.trim_path.clone(),
            zone: jiff::tz::TimeZone::system(),
        }
    }
}

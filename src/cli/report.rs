//! The arguments of `sigtop report`, in pprof's words; `-` and `_` in them are the same.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::pattern;
use crate::tally::query::{Filters, Pattern};
use crate::tally::saved::tags::TagFilter;
use crate::write::report::{Form, Granularity, Options};

/// What to report, of what, and how.
#[derive(Args, Clone, Debug)]
pub struct Report {
    /// Profiles of any format: files, `-` for stdin, or http://host/debug/pprof/profile?seconds=N. Several are merged
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,

    /// What is printed.
    #[command(flatten)]
    pub forms: Forms,

    /// Write to this file, not to stdout; without a form its ending says which. With --dot, .svg, .png, .pdf and .ps are drawn by
    /// graphviz
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Keep samples with a function, file or module that matches
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub focus: Vec<Pattern>,

    /// Drop samples with a function, file or module that matches
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub ignore: Vec<Pattern>,

    /// Take matching frames out of the stacks
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub hide: Vec<Pattern>,

    /// Leave only matching frames in the stacks
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub show: Vec<Pattern>,

    /// Begin stacks at the matching frame nearest to the root
    #[arg(long, alias = "show_from", value_name = "REGEX", value_parser = pattern, help_heading = "What is shown")]
    pub show_from: Vec<Pattern>,

    /// Keep samples with these labels: `RE`, `key=RE`, or a range of numbers `key=1kb:4kb`
    #[arg(long, value_name = "LABELS", value_parser = TagFilter::new, help_heading = "What is shown")]
    pub tagfocus: Option<TagFilter>,

    /// Drop samples with these labels
    #[arg(long, value_name = "LABELS", value_parser = TagFilter::new, help_heading = "What is shown")]
    pub tagignore: Option<TagFilter>,

    /// Which of a profile's values: a name, or a number from 0 on [default: the profile's own, or the last]
    #[arg(long, alias = "sample_index", value_name = "VALUE", help_heading = "What is shown")]
    pub sample_index: Option<String>,

    /// Most nodes; 0 for all [default: all, 80 for --tree and --dot]
    #[arg(long, value_name = "N", help_heading = "What is shown")]
    pub nodecount: Option<usize>,

    /// Leave out nodes with a smaller part of the total
    #[arg(long, value_name = "PART", default_value_t = 0.005, help_heading = "What is shown")]
    pub nodefraction: f64,

    /// Leave out edges with a smaller part of the total
    #[arg(long, value_name = "PART", default_value_t = 0.001, help_heading = "What is shown")]
    pub edgefraction: f64,

    /// Leave nothing out
    #[arg(long, alias = "no_trim", help_heading = "What is shown")]
    pub no_trim: bool,

    /// Sort by cum, not by flat
    #[arg(long, help_heading = "How it is shown")]
    pub cum: bool,

    /// What is one node [default: functions]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "How it is shown")]
    pub granularity: Option<Grain>,

    /// Charge what was inlined to the function it was inlined into
    #[arg(long, help_heading = "How it is shown")]
    pub noinlines: bool,

    /// Where names come from that a profile has not: from the files that it names, as they are here, or from nowhere
    #[arg(long, value_enum, value_name = "FROM", default_value = "local", help_heading = "How it is shown")]
    pub symbolize: Symbolize,

    /// Divide all values by this number
    #[arg(long, alias = "divide_by", value_name = "N", default_value_t = 1.0, value_parser = divisor, help_heading = "How it is shown")]
    pub divide_by: f64,

    /// Means: divide each value by the count of its samples, the profile's first value
    #[arg(long, help_heading = "How it is shown")]
    pub mean: bool,

    /// Show source columns, where lines are shown
    #[arg(long, help_heading = "How it is shown")]
    pub showcolumns: bool,

    /// Percentages of what the filters left
    #[arg(long, alias = "relative_percentages", help_heading = "How it is shown")]
    pub relative_percentages: bool,

    /// The unit of values; `minimum` for one that fits the smallest
    #[arg(long, default_value = "minimum", help_heading = "How it is shown")]
    pub unit: String,

    /// Leave out the lines on the profile itself
    #[arg(long, alias = "compact_labels", help_heading = "How it is shown")]
    pub compact_labels: bool,

    /// Where sources are looked for, directories with `:` between them
    #[arg(
        long,
        alias = "source_path",
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        help_heading = "How it is shown"
    )]
    pub source_path: String,

    /// What is taken off the front of source paths, with `:` between them
    #[arg(
        long,
        alias = "trim_path",
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        help_heading = "How it is shown"
    )]
    pub trim_path: String,

    /// Subtract this profile
    #[arg(long, value_name = "FILE", conflicts_with = "diff_base", help_heading = "Comparing")]
    pub base: Vec<String>,

    /// Subtract this profile; percentages are of it
    #[arg(long, alias = "diff_base", value_name = "FILE", help_heading = "Comparing")]
    pub diff_base: Vec<String>,

    /// Scale the profile to the total of the one that is subtracted
    #[arg(long, help_heading = "Comparing")]
    pub normalize: bool,

    /// Leave out nodes below zero
    #[arg(long, alias = "drop_negative", help_heading = "Comparing")]
    pub drop_negative: bool,
}

/// What is printed: one of these.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
pub struct Forms {
    /// Functions, one a line (the usual)
    #[arg(long, visible_alias = "text", help_heading = "Form")]
    pub top: bool,
    /// Callers and callees of the functions that match
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "Form")]
    pub peek: Option<Pattern>,
    /// Every function between its callers and callees
    #[arg(long, help_heading = "Form")]
    pub tree: bool,
    /// Source lines of the functions that match
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "Form")]
    pub list: Option<Pattern>,
    /// Machine code of the functions that match, as objdump says it where that is installed; also of the function at 0xADDRESS
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "Form")]
    pub disasm: Option<Pattern>,
    /// The functions that match, one a page: callers, callees and source, as stackprof prints them
    #[arg(long, value_name = "REGEX", value_parser = pattern, help_heading = "Form")]
    pub method: Option<Pattern>,
    /// Every sample's stack
    #[arg(long, help_heading = "Form")]
    pub traces: bool,
    /// All there is, as text
    #[arg(long, help_heading = "Form")]
    pub raw: bool,
    /// Folded stacks, a line each
    #[arg(long, help_heading = "Form")]
    pub folded: bool,
    /// A flame graph as SVG
    #[arg(long, help_heading = "Form")]
    pub flame: bool,
    /// For speedscope.app
    #[arg(long, help_heading = "Form")]
    pub speedscope: bool,
    /// For profiler.firefox.com
    #[arg(long, help_heading = "Form")]
    pub firefox: bool,
    /// A graph for graphviz
    #[arg(long, help_heading = "Form")]
    pub dot: bool,
    /// For KCachegrind
    #[arg(long, help_heading = "Form")]
    pub callgrind: bool,
    /// A profile.proto, gzipped
    #[arg(long, help_heading = "Form")]
    pub proto: bool,
    /// A gperftools CPU profile, for old tools
    #[arg(long, help_heading = "Form")]
    pub gperftools: bool,
}

impl Forms {
    /// The form asked for, or the one that a file's name means.
    fn form(&self, output: Option<&Path>) -> Form {
        let flags = [
            (self.tree, Form::Tree),
            (self.traces, Form::Traces),
            (self.raw, Form::Raw),
            (self.folded, Form::Folded),
            (self.flame, Form::Svg),
            (self.speedscope, Form::Speedscope),
            (self.firefox, Form::Firefox),
            (self.dot, Form::Dot),
            (self.callgrind, Form::Callgrind),
            (self.proto, Form::Proto),
            (self.gperftools, Form::Legacy),
        ];
        let flag = flags.into_iter().find(|(given, _)| *given).map(|(_, form)| form);
        let with = self.peek.clone().map(Form::Peek).or(self.list.clone().map(Form::List));
        let with = with.or(self.disasm.clone().map(Form::Disasm)).or(self.method.clone().map(Form::Method));
        let top = self.top.then_some(Form::Top);
        with.or(flag).or(top).or(output.and_then(Form::of_file)).unwrap_or(Form::Top)
    }
}

/// Where names come from that a profile has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Symbolize {
    /// From files here
    Local,
    /// From nowhere
    None,
}

fn divisor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Err("zero divisor specified".to_owned()),
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("a number".to_owned()),
    }
}

/// What is one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grain {
    /// A function
    Functions,
    /// A function in a file
    Filefunctions,
    /// A source file
    Files,
    /// A source line
    Lines,
    /// An address
    Addresses,
}

impl Report {
    /// As they are meant.
    pub fn options(&self) -> Options {
        let granularity = self.granularity.map(|grain| match grain {
            Grain::Functions => Granularity::Functions,
            Grain::Filefunctions => Granularity::FileFunctions,
            Grain::Files => Granularity::Files,
            Grain::Lines => Granularity::Lines,
            Grain::Addresses => Granularity::Addresses,
        });
        Options {
            form: self.forms.form(self.output.as_deref()),
            filters: Filters {
                focus: self.focus.clone(),
                ignore: self.ignore.clone(),
                hide: self.hide.clone(),
                show: self.show.clone(),
                show_from: self.show_from.clone(),
                ..Filters::default()
            },
            tagfocus: self.tagfocus.clone(),
            tagignore: self.tagignore.clone(),
            cum: self.cum,
            nodecount: self.nodecount,
            nodefraction: self.nodefraction,
            edgefraction: self.edgefraction,
            trim: !self.no_trim,
            granularity,
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

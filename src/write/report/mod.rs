//! What pprof prints of a profile, character for character: [`report`] does to a saved profile what pprof does before it prints,
//! and the files here are its forms.

mod callgrind;
mod disasm;
mod dot;
mod labels;
mod list;
mod method;
mod raw;
mod table;
mod traces;
mod tree;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use jiff::tz::TimeZone;

use super::{firefox, folded, formats, legacy, pprof, speedscope, svg};
use crate::tally::query::{Filters, Pattern};
use crate::tally::saved::Saved;
use crate::tally::saved::graph::{Edges, Grain, Nodes, Order, Sums, mean};
use crate::tally::saved::tags::TagFilter;
use crate::tally::saved::trim::{Trim, Trimmed, trimmed};
use crate::tally::units::{scale, scaled_label};

/// What is printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Functions, one a line.
    Top,
    /// Every function between its callers and callees.
    Tree,
    /// The same, of the functions that match.
    Peek(Pattern),
    /// Source lines of the functions that match.
    List(Pattern),
    /// Machine code of the functions that match.
    Disasm(Pattern),
    /// The functions that match, one a page.
    Method(Pattern),
    /// Every sample's stack.
    Traces,
    /// All there is, as text.
    Raw,
    /// All there is, as a profile.
    Proto,
    /// A gperftools CPU profile.
    Legacy,
    /// Folded stacks.
    Folded,
    /// A flame graph as a picture.
    Svg,
    /// For speedscope.app.
    Speedscope,
    /// For profiler.firefox.com.
    Firefox,
    /// For KCachegrind.
    Callgrind,
    /// A graph for graphviz.
    Dot,
}

impl Form {
    /// What a file's name means: a format, or a kind of picture that a graph is drawn as.
    pub fn of_file(path: &Path) -> Option<Form> {
        let is_drawn = path.extension().is_some_and(|ending| ["png", "pdf", "ps"].iter().any(|drawn| ending == *drawn));
        formats::by_name(path).map(|format| format.form.clone()).or(is_drawn.then_some(Form::Dot))
    }
}

/// What is one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A function.
    Functions,
    /// A function in a file.
    FileFunctions,
    /// A source file.
    Files,
    /// A source line.
    Lines,
    /// An address.
    Addresses,
}

/// What is asked, in pprof's words.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is printed.
    pub form: Form,
    /// Which samples and frames.
    pub filters: Filters,
    /// Which samples, by their labels.
    pub tagfocus: Option<TagFilter>,
    /// Which samples not, by their labels.
    pub tagignore: Option<TagFilter>,
    /// By cum, not by flat.
    pub cum: bool,
    /// Most nodes; `None` is what the form usually has, 0 all.
    pub nodecount: Option<usize>,
    /// Least part of the total for a node.
    pub nodefraction: f64,
    /// Least part of the total for an edge.
    pub edgefraction: f64,
    /// Whether anything is left out.
    pub trim: bool,
    /// What is one node; `None` is what the form usually has.
    pub granularity: Option<Granularity>,
    /// What was inlined is its caller's.
    pub noinlines: bool,
    /// With source columns.
    pub showcolumns: bool,
    /// Without nodes below zero.
    pub drop_negative: bool,
    /// Percentages of what the filters left.
    pub relative_percentages: bool,
    /// Without the lines on the profile itself.
    pub compact_labels: bool,
    /// Of values; `minimum` for one that fits the smallest.
    pub unit: String,
    /// What values are divided by; not 0.
    pub divide_by: f64,
    /// Means over the first value, in place of sums.
    pub mean: bool,
    /// Which value; empty for the default.
    pub sample_index: String,
    /// Where sources are looked for, with `:` between directories; empty for the working directory.
    pub source_path: String,
    /// What is taken off the front of source paths.
    pub trim_path: String,
    /// Of the time in the heading.
    pub zone: TimeZone,
}

impl Default for Options {
    /// pprof's.
    fn default() -> Options {
        Options {
            form: Form::Top,
            filters: Filters::default(),
            tagfocus: None,
            tagignore: None,
            cum: false,
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

/// Why there is no report.
#[derive(Debug)]
pub enum ReportError {
    /// It could not be written.
    Write(io::Error),
    /// It was asked for something that is not there; in pprof's words.
    Asked(String),
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
            ReportError::Asked(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReportError {}

/// Names and frames as pprof makes them when it has read a profile.
pub fn prepare(saved: &mut Saved) {
    if saved.mappings.is_empty() {
        // pprof makes one up, and it has no name.
        saved.mappings.push(crate::tally::saved::Mapping { id: 1, ..Default::default() });
        saved.locations.iter_mut().for_each(|location| location.mapping = Some(0));
    }
    saved.demangle();
    saved.drop_own_frames();
}

/// Prints. Returns sentences on filters that matched nothing.
///
/// # Errors
/// When there is nothing to print, or it cannot be written.
pub fn report(out: &mut dyn Write, mut saved: Saved, options: &Options) -> Result<Vec<String>, ReportError> {
    let value = saved.value_index(&options.sample_index).map_err(ReportError::Asked)?;
    let mut unmatched = Vec::new();
    let mut complaints = Vec::new();
    for (filter, name) in [(&options.tagfocus, "tagfocus"), (&options.tagignore, "tagignore")] {
        if let Some(filter) = filter
            && filter.is_range()
        {
            let text = filter.text().split_once('=').map_or(filter.text(), |(_, value)| value);
            complaints.push(format!("{name}:Interpreted '{text}' as range, not regexp"));
        }
    }
    let mut focus = |saved: &mut Saved| {
        unmatched.extend(saved.filter(&options.filters));
        unmatched.extend(saved.filter_by_tags(options.tagfocus.as_ref(), options.tagignore.as_ref()));
    };
    if options.relative_percentages {
        focus(&mut saved);
    }
    let total = total(&saved, value, options.mean);
    if !options.relative_percentages {
        focus(&mut saved);
    }
    complaints.extend(unmatched.into_iter().map(|name| format!("{name} expression matched no samples")));
    let noinlines = options.noinlines;
    if noinlines {
        saved.without_inlines();
    }
    let unit = options.unit.clone();
    let mut print = Print { saved, options, value, total, unit };
    match &options.form {
        Form::Top => print.top(out)?,
        Form::Tree => print.tree(out, None)?,
        Form::Peek(pattern) => print.tree(out, Some(pattern))?,
        Form::List(pattern) => print.list(out, pattern)?,
        Form::Disasm(pattern) => print.disasm(out, pattern)?,
        Form::Method(pattern) => print.method(out, pattern)?,
        Form::Traces => print.traces(out)?,
        Form::Raw => print.raw(out)?,
        Form::Proto => pprof::write(out, &print.saved)?,
        Form::Legacy => {
            legacy::check(&print.saved, value).map_err(ReportError::Asked)?;
            legacy::write(out, &print.saved, value)?;
        }
        Form::Folded => folded::write(out, &print.saved, value)?,
        Form::Svg => svg::write(out, &print.saved, value)?,
        Form::Speedscope => speedscope::write(out, &print.saved, value)?,
        Form::Firefox => firefox::write(out, &print.saved, value)?,
        Form::Callgrind => print.callgrind(out)?,
        Form::Dot => print.dot(out)?,
    }
    Ok(complaints)
}

/// Sum of all values without their signs; of the base alone, where it is marked.
fn total(saved: &Saved, value: usize, is_mean: bool) -> i64 {
    let is_base: Vec<bool> = (0..saved.labels.len() as u32).map(|labels| saved.is_base(labels)).collect();
    let (mut total, mut base) = ((0i64, 0i64), (0i64, 0i64));
    saved.samples.each_packed(|_, values, labels| {
        let divisor = if is_mean { values[0] } else { 0 };
        let add = |sums: &mut (i64, i64)| {
            *sums = (sums.0.wrapping_add(values[value].wrapping_abs()), sums.1.wrapping_add(divisor));
        };
        add(&mut total);
        if is_base.get(labels as usize).copied().unwrap_or_default() {
            add(&mut base);
        }
    });
    let (sum, divisor) = if base.0 > 0 { base } else { total };
    mean(sum, divisor)
}

/// A report under way: the profile as the filters left it.
struct Print<'a> {
    saved: Saved,
    options: &'a Options,
    value: usize,
    total: i64,
    unit: String,
}

impl Print<'_> {
    fn granularity(&self) -> Granularity {
        match self.options.form {
            Form::List(_) => Granularity::Lines,
            Form::Disasm(_) | Form::Raw | Form::Proto | Form::Callgrind => Granularity::Addresses,
            _ => self.options.granularity.unwrap_or(Granularity::Functions),
        }
    }

    fn grain(&self) -> Grain {
        let granularity = self.granularity();
        let one_of = |all: &[Granularity]| all.contains(&granularity);
        use Granularity::{Addresses, FileFunctions, Files, Functions, Lines};
        let line = one_of(&[Lines, Addresses]);
        // With addresses and all that is inlined, pprof leaves everything as it is.
        let whole = granularity == Addresses && !self.options.noinlines;
        Grain {
            function: one_of(&[Functions, FileFunctions, Lines, Addresses]),
            file: one_of(&[FileFunctions, Files, Lines, Addresses]),
            line,
            column: whole || line && self.options.showcolumns,
            address: one_of(&[Addresses]),
            object: matches!(self.options.form, Form::Raw | Form::List(_) | Form::Disasm(_) | Form::Callgrind),
        }
    }

    fn nodes(&self) -> Nodes {
        let Options { trim_path, source_path, .. } = self.options;
        Nodes::of(&self.saved, self.grain(), |path| trim_path_of(path, trim_path, source_path).to_owned())
    }

    fn trimmed(&mut self, nodes: &Nodes, edges: Edges) -> Trimmed {
        self.saved.unmark_base();
        let usual = match self.options.form {
            Form::Top => 0,
            _ => 80,
        };
        let order = match self.options.form {
            Form::Dot => Order::Entropy,
            _ if self.options.cum => Order::Cum,
            _ => Order::Flat,
        };
        let trims = self.options.trim
            && !matches!(self.options.form, Form::Peek(_) | Form::List(_) | Form::Callgrind | Form::Raw | Form::Proto);
        let trim = if trims {
            let Options { nodefraction, edgefraction, nodecount, .. } = *self.options;
            let node_count = nodecount.unwrap_or(usual);
            Trim { node_fraction: nodefraction, edge_fraction: edgefraction, node_count, order }
        } else {
            Trim { order, ..Trim::NOTHING }
        };
        let tags = (self.options.form == Form::Dot).then(|| self.unit.clone());
        let sums = Sums { tags: tags.as_deref(), ..self.sums(edges) };
        trimmed(&self.saved, nodes, sums, trim)
    }

    fn sums(&self, edges: Edges) -> Sums<'static> {
        let Options { drop_negative, mean, .. } = *self.options;
        Sums { value: self.value, edges, tags: None, drop_negative, is_mean: mean }
    }

    fn own_unit(&self) -> String {
        self.saved.sample_types[self.value].unit.as_str().to_owned()
    }

    /// Takes the unit that fits the smallest value shown.
    fn choose_unit(&mut self, trimmed: &Trimmed) {
        let graph = &trimmed.graph;
        if self.unit != "minimum" || graph.order.is_empty() {
            return;
        }
        let much = |&node: &u32| {
            let (flat, cum) = graph.shown(node);
            if flat == 0 { cum.wrapping_abs() } else { flat.wrapping_abs() }
        };
        let own = self.own_unit();
        let least = graph.order.iter().map(much).filter(|&much| much > 0).min().unwrap_or(self.total);
        let (least, most) = (self.divided(least), self.divided(self.total));
        let fitting = |value: i64| scale(value, &own, "minimum").1;
        let (low, high) = (fitting(least), fitting(most));
        let hundredfold = least.wrapping_mul(100);
        let wide = low != high && hundredfold < most && self.options.form != Form::Callgrind;
        let unit = if wide { fitting(hundredfold) } else { low };
        self.unit = if unit.is_empty() { own } else { unit };
    }

    /// What values are called.
    fn kind(&self) -> String {
        let mean = if self.options.mean { "mean_" } else { "" };
        format!("{mean}{}", self.saved.sample_types[self.value].kind)
    }

    fn divided(&self, value: i64) -> i64 {
        let ratio = 1.0 / self.options.divide_by;
        if ratio > 0.0 && ratio != 1.0 { (value as f64 * ratio) as i64 } else { value }
    }

    fn shown(&self, value: i64) -> String {
        scaled_label(self.divided(value), &self.saved.sample_types[self.value].unit, &self.unit)
    }
}

/// A source path without what the profile's machine put before it.
fn trim_path_of<'p>(path: &'p str, trim_path: &str, search_path: &str) -> &'p str {
    let parts =
        |list: &str| -> Vec<String> { list.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect() };
    if trim_path.is_empty() {
        for directory in parts(search_path) {
            let wanted = format!("/{}/", crate::tally::saved::graph::base(&directory));
            if let Some(at) = path.find(&wanted) {
                return &path[at + wanted.len()..];
            }
        }
    }
    let usual = ["/proc/self/cwd/./".to_owned(), "/proc/self/cwd/".to_owned()];
    for mut prefix in parts(trim_path).into_iter().chain(usual) {
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        if let Some(rest) = path.strip_prefix(&prefix) {
            return rest;
        }
    }
    path
}

impl Print<'_> {
    /// Nodes by name alone, whatever the form groups by: no object files.
    fn untrimmed_nodes(&self) -> Nodes {
        Nodes::of(&self.saved, self.grain(), str::to_owned)
    }
}

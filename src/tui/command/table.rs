//! The table of `:` commands, named as in pprof's interactive mode. Parsing, completion, the help
//! page and the man page read it.

use super::colon_command::{ColonCommand, FilterKind, TagFilterKind, TimePoint};
use super::options::{self, WindowStep};
use crate::keyword;
use crate::tally::query::{Grouping, Pattern, Sort, TagRoot};
use crate::tui::action::Action;
use crate::tui::name_style::NameStyle;
use crate::wire::{Clock, Engine};

/// Parses the value of a command.
type ParseValue = fn(&str) -> Result<ColonCommand, String>;

/// Syntax of a command line.
#[derive(Clone, Copy)]
pub(super) enum Syntax {
    /// `name`
    Bare(fn() -> ColonCommand),
    /// `name=value` or `name value`, with the complete list of values.
    Keyword(ParseValue, fn() -> Vec<&'static str>),
    /// `name=value` or `name value`, with examples of values.
    Value(ParseValue, &'static [&'static str]),
    /// `name=REGEX`
    Filter(FilterKind),
    /// `name=TAG`
    TagFilter(TagFilterKind),
    /// `name REGEX`
    Function(fn(Pattern) -> ColonCommand),
    /// `nameN -cum REGEX -REGEX`
    Top,
}

/// A `:` command.
pub struct CommandSpec {
    /// The word that the line starts with.
    pub name: &'static str,
    /// An example of the whole line.
    pub usage: &'static str,
    /// The effect of the command, without the list of values.
    summary: &'static str,
    pub(super) syntax: Syntax,
}

impl CommandSpec {
    /// Describes the command, with the list of its values if that is fixed.
    pub fn help(&self) -> String {
        match self.syntax {
            Syntax::Keyword(_, values) => format!("{}: {}", self.summary, values().join(", ")),
            _ => self.summary.to_owned(),
        }
    }
}

const fn spec(name: &'static str, usage: &'static str, summary: &'static str, syntax: Syntax) -> CommandSpec {
    CommandSpec { name, usage, summary, syntax }
}

use ColonCommand as C;
use Syntax as S;

/// All commands.
pub static COMMANDS: [CommandSpec; 37] = [
    spec(
        "top",
        "top10 -cum REGEX -REGEX",
        "show Top alone, with 10 rows; -cum sorts, REGEX focuses, -REGEX ignores",
        S::Top,
    ),
    spec("peek", "peek REGEX", "callers and callees of the first matching function", S::Function(C::Peek)),
    spec("list", "list REGEX", "source of the first matching function", S::Function(C::List)),
    spec("disasm", "disasm REGEX", "assembly of the first matching function", S::Function(C::Disasm)),
    spec("focus", "focus=REGEX", "keep samples with a matching frame; focus= clears", S::Filter(FilterKind::Focus)),
    spec("ignore", "ignore=REGEX", "drop samples with a matching frame; ignore= clears", S::Filter(FilterKind::Ignore)),
    spec("hide", "hide=REGEX", "remove matching frames; hide= clears", S::Filter(FilterKind::Hide)),
    spec("show", "show=REGEX", "remove frames that do not match; show= clears", S::Filter(FilterKind::Show)),
    spec(
        "show_from",
        "show_from=REGEX",
        "start stacks at the matching frame nearest to the root",
        S::Filter(FilterKind::ShowFrom),
    ),
    spec(
        "tagfocus",
        "tagfocus=tid=5",
        "keep samples by tid=, pid=, thread=REGEX, process=, source=, wait=, holder=",
        S::TagFilter(TagFilterKind::Focus),
    ),
    spec(
        "tagignore",
        "tagignore=tid=5",
        "drop samples by these tags; tagignore= clears",
        S::TagFilter(TagFilterKind::Ignore),
    ),
    spec(
        "tagroot",
        "tagroot=thread",
        "add frames at the root of every stack",
        S::Keyword(|text| keyword::parse(text).map(C::Roots), keyword::names::<TagRoot>),
    ),
    spec(":", ":", "clear all filters; so does an empty line", S::Bare(|| C::ClearFilters)),
    spec("cum", "cum", "sort by cum", S::Bare(|| C::Sort(Sort::Cum))),
    spec("flat", "flat", "sort by flat", S::Bare(|| C::Sort(Sort::Flat))),
    spec("latency", "latency", "sort by share of the wall-clock time", S::Bare(|| C::Sort(Sort::Latency))),
    spec(
        "sort",
        "sort=cum",
        "sort rows by",
        S::Keyword(|text| keyword::parse(text).map(C::Sort), keyword::names::<Sort>),
    ),
    spec(
        "window",
        "window=60s",
        "length of the rolling window, at most 60s or all",
        S::Value(|text| options::window_ns(text).map(C::Window), &WINDOWS),
    ),
    spec(
        "clock",
        "clock=wall",
        "sampling clock",
        S::Keyword(|text| keyword::parse(text).map(C::Clock), keyword::names::<Clock>),
    ),
    spec(
        "engine",
        "engine=itimer",
        "timer source",
        S::Keyword(|text| keyword::parse(text).map(C::Engine), keyword::names::<Engine>),
    ),
    spec(
        "hz",
        "hz=249",
        "sampling frequency in Hz",
        S::Value(|text| options::period_ns_of_hz(text).map(C::Period), &["49", "99", "249", "999"]),
    ),
    spec(
        "period",
        "period=1ms",
        "sampling period",
        S::Value(|text| options::period_ns(text).map(C::Period), &["10ms", "4ms", "1ms"]),
    ),
    spec(
        "granularity",
        "granularity=lines",
        "rows are (the value alone works too)",
        S::Keyword(|text| keyword::parse(text).map(C::Group), keyword::names::<Grouping>),
    ),
    spec(
        "own",
        "own=REGEX",
        "own code is what matches; fold the rest into it; own= uses the default",
        S::Value(|text| parse_own(text).map(C::OwnCode), &[]),
    ),
    spec(
        "names",
        "names=full",
        "style of function names",
        S::Keyword(|text| keyword::parse(text).map(C::Names), keyword::names::<NameStyle>),
    ),
    spec("undo", "undo", "undo the last filter change", S::Bare(|| C::Act(Action::Undo))),
    spec("redo", "redo", "redo the filter change", S::Bare(|| C::Act(Action::Redo))),
    spec("reset", "reset", "reset totals", S::Bare(|| C::Act(Action::Reset))),
    spec("freeze", "freeze", "pause or resume the display", S::Bare(|| C::Act(Action::Freeze))),
    spec(
        "at",
        "at -3m",
        "pause, and show the history at this time: -3m, 14:05 or 14:05:30",
        S::Value(|text| parse_time(text).map(C::At), &[]),
    ),
    spec("mark", "mark", "set the start, then the end of a time span; then clear it", S::Bare(|| C::Act(Action::Mark))),
    spec("base", "base", "diff against the current view, on or off", S::Bare(|| C::Act(Action::Baseline))),
    spec("diff", "diff", "same as base", S::Bare(|| C::Act(Action::Baseline))),
    spec("losses", "losses", "lost samples and the agent's overhead", S::Bare(|| C::Act(Action::Losses))),
    spec("explain", "explain", "say in sentences where the time goes", S::Bare(|| C::Act(Action::Explain))),
    spec("help", "help", "keys and commands", S::Bare(|| C::Act(Action::Help))),
    spec("quit", "quit", "quit", S::Bare(|| C::Act(Action::Quit))),
];

/// Parses a time of the history: `-3m` or `14:05`.
fn parse_time(text: &str) -> Result<TimePoint, String> {
    match text.strip_prefix('-') {
        Some(ago) => options::duration(ago).map(|ago| TimePoint::Ago(ago.as_nanos().try_into().unwrap_or(u64::MAX))),
        None => text.parse().map(TimePoint::OfDay).map_err(|_| "a time is -3m, 14:05 or 14:05:30".to_owned()),
    }
}

/// Parses the pattern of own code; without one, own code is what it is by default.
fn parse_own(text: &str) -> Result<Option<Pattern>, String> {
    if text.is_empty() { Ok(None) } else { Pattern::parse(text).map(Some) }
}

/// The names of the window steps, for completion.
const WINDOWS: [&str; WindowStep::ALL.len()] = {
    let mut names = [""; WindowStep::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = WindowStep::ALL[index].name;
        index += 1;
    }
    names
};

/// Other names of commands, each with the command's name.
pub(super) const ALIASES: [(&str, &str); 6] =
    [("text", "top"), ("exit", "quit"), ("q", "quit"), ("?", "help"), ("h", "help"), ("o", "help")];

/// Commands of pprof that do not exist here, each with the end of the sentence that says why.
pub(super) const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &[
            "callgrind",
            "comments",
            "dot",
            "eog",
            "evince",
            "gif",
            "gv",
            "kcachegrind",
            "pdf",
            "png",
            "proto",
            "ps",
            "raw",
            "svg",
            "tags",
            "topproto",
            "traces",
            "tree",
            "web",
            "output",
        ],
        "writes a report: save with e and use sigtop report; here top and peek show live numbers",
    ),
    (&["weblist"], "needs a browser; use list REGEX for source, disasm REGEX for assembly"),
    (&["nodecount", "nodefraction", "edgefraction", "trim"], "drops rows; sigtop shows every row, top10 the first ten"),
    (
        &["tagshow", "taghide", "tagleaf", "sample_index", "mean"],
        "is not supported here; tagfocus and tagignore filter by thread and process",
    ),
    (&["filefunctions", "noinlines"], "is not supported here; see granularity="),
    (&["diff_base", "normalize", "drop_negative"], "compares files; base compares with the current view"),
    (&["relative_percentages"], "is the key % here"),
    (
        &["unit", "divide_by", "call_tree", "compact_labels", "showcolumns", "source_path", "trim_path", "options"],
        "has no effect here",
    ),
    (&["prune_from"], "is not supported here; show_from cuts the root side, hide removes frames"),
];

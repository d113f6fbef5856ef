//! The words that a line of commands can begin with, in pprof's sense: the one table that the line is read by, and completion, help page
//! and man page are made from.

use super::action::Action;
use super::order::{Kind, Order, TagKind};
use super::setting::{self, chosen};
use crate::tally::query::{Pattern, Sort};

/// How the rest of a line is read.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    /// `word`
    Alone(fn() -> Order),
    /// `word=value`, or `word value`
    Value(fn(&str) -> Result<Order, String>, &'static [&'static str]),
    /// `word=regex`
    Filter(Kind),
    /// `word=tag`
    Tag(TagKind),
    /// `word regex`
    Function(fn(Pattern) -> Order),
    /// `wordN -cum regex -regex`
    Top,
}

/// A word that a line can begin with.
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// How a line with it looks.
    pub form: &'static str,
    /// What it does.
    pub words: &'static str,
    pub(super) reader: Reader,
}

const fn word(name: &'static str, form: &'static str, words: &'static str, reader: Reader) -> Word {
    Word { name, form, words, reader }
}

use Reader as R;

/// All words that a line can begin with.
pub static WORDS: [Word; 33] = [
    word(
        "top",
        "top10 -cum REGEX -REGEX",
        "Top alone, so many rows; -cum sorts; REGEX is focus, -REGEX ignore",
        R::Top,
    ),
    word("peek", "peek REGEX", "callers and callees of the first function that matches", R::Function(Order::Peek)),
    word("list", "list REGEX", "source of the first function that matches", R::Function(Order::List)),
    word("disasm", "disasm REGEX", "assembly of the first function that matches", R::Function(Order::Disasm)),
    word("focus", "focus=REGEX", "keep samples with a match; focus= clears", R::Filter(Kind::Focus)),
    word("ignore", "ignore=REGEX", "drop samples with a match; ignore= clears", R::Filter(Kind::Ignore)),
    word("hide", "hide=REGEX", "delete frames with a match; hide= clears", R::Filter(Kind::Hide)),
    word("show", "show=REGEX", "delete frames without a match; show= clears", R::Filter(Kind::Show)),
    word("show_from", "show_from=REGEX", "cut what is above the first match from the root", R::Filter(Kind::ShowFrom)),
    word(
        "tagfocus",
        "tagfocus=tid=5",
        "keep samples by tid=, pid=, thread=REGEX, process=REGEX",
        R::Tag(TagKind::Focus),
    ),
    word("tagignore", "tagignore=tid=5", "drop samples by these; tagignore= clears", R::Tag(TagKind::Ignore)),
    word(
        "tagroot",
        "tagroot=thread",
        "threads, processes as roots of all stacks; tagroot= clears",
        R::Value(roots, &["thread", "process", "process,thread", "none"]),
    ),
    word(":", ":", "no filters; the empty line does it too", R::Alone(|| Order::ClearFilters)),
    word("cum", "cum", "sort by cum", R::Alone(|| Order::Sort(Sort::Cum))),
    word("flat", "flat", "sort by flat", R::Alone(|| Order::Sort(Sort::Flat))),
    word("sort", "sort=cum", "sort by flat, cum, name", R::Value(sort, &["flat", "cum", "name"])),
    word("window", "window=60s", "length of the window, or all", R::Value(window, &["2s", "10s", "60s", "all"])),
    word("clock", "clock=real", "clock: prof, real", R::Value(clock, &["prof", "real"])),
    word("engine", "engine=itimer", "engine: threads, itimer", R::Value(engine, &["threads", "itimer"])),
    word("hz", "hz=249", "samples a second of the clock", R::Value(hz, &["49", "99", "249", "999"])),
    word("period", "period=1ms", "time between two samples", R::Value(period, &["10ms", "4ms", "1ms"])),
    word(
        "granularity",
        "granularity=lines",
        "rows are functions, files, lines, addresses, modules, threads, processes; the word alone does it too",
        R::Value(granularity, &["functions", "files", "lines", "addresses", "modules", "threads", "processes"]),
    ),
    word("names", "names=full", "names short, full, bare", R::Value(names, &["short", "full", "bare"])),
    word("undo", "undo", "take the last change of the filters back", R::Alone(|| Order::Act(Action::Undo))),
    word("redo", "redo", "do it again", R::Alone(|| Order::Act(Action::Redo))),
    word("reset", "reset", "forget this clock's totals", R::Alone(|| Order::Act(Action::Reset))),
    word("freeze", "freeze", "stand still, and go on", R::Alone(|| Order::Act(Action::Freeze))),
    word("mark", "mark", "mark one end of a span, then the other; then none", R::Alone(|| Order::Act(Action::Mark))),
    word(
        "base",
        "base",
        "differences from what is shown now; the word again leaves",
        R::Alone(|| Order::Act(Action::Baseline)),
    ),
    word("diff", "diff", "the same", R::Alone(|| Order::Act(Action::Baseline))),
    word("losses", "losses", "account of losses and of the agent's cost", R::Alone(|| Order::Act(Action::Losses))),
    word("help", "help", "keys and words explained", R::Alone(|| Order::Act(Action::Help))),
    word("quit", "quit", "quit", R::Alone(|| Order::Act(Action::Quit))),
];

/// Other ways to say a word.
pub(super) const ALSO: [(&str, &str); 6] =
    [("text", "top"), ("exit", "quit"), ("q", "quit"), ("?", "help"), ("h", "help"), ("o", "help")];

/// Words of pprof that mean nothing here, and why.
pub(super) const ABSENT: &[(&[&str], &str)] = &[
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
        "makes a report of a file; here the numbers are live: top and peek show them",
    ),
    (&["weblist"], "is a page for a browser; here list REGEX shows source, disasm REGEX assembly"),
    (
        &["nodecount", "nodefraction", "edgefraction", "trim"],
        "leaves rows out; here every row is there: top10 shows ten",
    ),
    (
        &["tagshow", "taghide", "tagleaf", "sample_index", "mean"],
        "is about tags and values; tagfocus and tagignore choose by thread and process",
    ),
    (&["filefunctions", "noinlines"], "groups rows in a way that b and granularity= do not"),
    (&["diff_base", "normalize", "drop_negative"], "compares files; base compares with what is shown now"),
    (&["relative_percentages"], "is the key % here"),
    (
        &["unit", "divide_by", "call_tree", "compact_labels", "showcolumns", "source_path", "trim_path", "options"],
        "has no effect on a screen",
    ),
    (&["prune_from"], "cuts what is below a match; show_from cuts what is above, hide deletes frames"),
];

fn sort(text: &str) -> Result<Order, String> {
    chosen(text, &setting::SORTS).map(Order::Sort)
}

fn window(text: &str) -> Result<Order, String> {
    setting::window_ns(text).map(Order::Window)
}

fn clock(text: &str) -> Result<Order, String> {
    chosen(text, &setting::CLOCKS).map(Order::Clock)
}

fn engine(text: &str) -> Result<Order, String> {
    chosen(text, &setting::ENGINES).map(Order::Engine)
}

fn hz(text: &str) -> Result<Order, String> {
    setting::hertz(text).map(Order::Period)
}

fn period(text: &str) -> Result<Order, String> {
    setting::period_ns(text).map(Order::Period)
}

fn granularity(text: &str) -> Result<Order, String> {
    chosen(text, &setting::GROUPS).map(Order::Group)
}

fn roots(text: &str) -> Result<Order, String> {
    chosen(text, &setting::ROOTS).map(Order::Roots)
}

fn names(text: &str) -> Result<Order, String> {
    chosen(text, &setting::NAMES).map(Order::Names)
}

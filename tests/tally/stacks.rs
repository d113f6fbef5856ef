//! Stacks as plain lists of names, filters as pprof's manual describes them, and generators of
//! random stacks and queries.

use proptest::prelude::*;
use regex::Regex;
use sigtop::profile::totals::{BUCKET_NS, Span};
use sigtop::symbols::scenario::{Scenario, scenario};
use sigtop::tally::query::tags::TagFilter;
use sigtop::tally::query::{Filters, Grouping, OwnCode, Pattern, Query, Sort, TagRoot};

/// Function name, file, line number.
pub(crate) type Line = (String, String, u32);

/// One address, with its functions from the outermost to the innermost inlined one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Location {
    pub(crate) module: &'static str,
    pub(crate) lines: Vec<Line>,
    /// The address in its module's file; `None` for the mark of a truncated stack.
    pub(crate) address: Option<u64>,
}

/// Pid, tid, process name and thread name. Some threads share a name, some a process, and after an
/// exec two have the same number.
pub(crate) const THREADS: [(u32, u32, &str, &str); 5] = [
    (7, 7, "app", "app"),
    (7, 8, "app", "worker"),
    (7, 9, "app", "io,a=b"),
    (20, 20, "child", "child"),
    (20, 21, "child", "worker"),
];

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at_ms: u64,
    pub(crate) weight_ms: u64,
    /// The index in [`THREADS`].
    pub(crate) thread: usize,
    /// The locations, root first.
    pub(crate) stack: Vec<Location>,
}

pub(crate) fn text(samples: &[Sample]) -> String {
    let (pid, _, process, _) = THREADS[0];
    let mut text = format!("process {pid} /bin/{process}\n");
    let mut at = 1;
    for Sample { at_ms, weight_ms, thread, stack } in samples {
        for (pid, tid, process, thread) in &THREADS[at.min(*thread + 1)..=*thread] {
            if pid == tid {
                text += &format!("process {pid} /bin/{process}\n");
            }
            text += &format!("thread {tid} {thread}\n");
        }
        at = at.max(*thread + 1);
        let mut frames = Vec::new();
        for Location { module, lines, address } in stack {
            match lines.as_slice() {
                [(name, _, _)] if name == "[JIT]" => frames.push(format!("{:#x}", address.unwrap_or_default())),
                [(name, _, _)] if name.starts_with('[') || name.contains("0x") => frames.push(name.clone()),
                [(name, file, number), inlined @ ..] => {
                    frames.push(format!("{module}!{name}@{file}:{number}"));
                    frames
                        .extend(inlined.iter().map(|(name, file, number)| format!("{name}@{file}:{number} (inline)")));
                }
                [] => unreachable!("a location has lines"),
            }
        }
        text += &format!("at {at_ms}ms prof {weight_ms}ms {}\n", frames.join(";"));
    }
    text
}

fn any_of(patterns: &[Pattern], text: &str) -> bool {
    patterns.iter().any(|pattern| Regex::new(pattern.text()).unwrap().is_match(text))
}

impl Location {
    fn line_matches(patterns: &[Pattern], line: &Line) -> bool {
        any_of(patterns, &line.0) || any_of(patterns, &line.1)
    }

    fn module_matches(&self, patterns: &[Pattern]) -> bool {
        !self.module.is_empty() && any_of(patterns, self.module)
    }

    fn matches(&self, patterns: &[Pattern]) -> bool {
        self.module_matches(patterns) || self.lines.iter().any(|line| Self::line_matches(patterns, line))
    }
}

/// Returns whether a tag matches the thread. Each tag is `KEY=VALUE`.
fn tagged(tags: &[TagFilter], thread: usize) -> bool {
    let (pid, tid, process, thread) = THREADS[thread];
    let one = |tag: &TagFilter| match tag.text().split_once('=').expect("a key") {
        ("pid", value) => value == pid.to_string(),
        ("tid", value) => value == tid.to_string(),
        ("process", value) => Regex::new(value).unwrap().is_match(process),
        ("thread", value) => value.split(',').any(|value| Regex::new(value).unwrap().is_match(thread)),
        (key, _) => unreachable!("{key}"),
    };
    tags.iter().any(one)
}

impl Sample {
    /// Returns the filtered stack with its owners at the root, or `None` if the filters drop the
    /// sample.
    pub(crate) fn filtered(&self, query: &Query) -> Option<Vec<Location>> {
        self.reduced(query).map(|(stack, _)| stack)
    }

    /// Returns the same, and whether it was reduced to its leaf because no line is own.
    pub(crate) fn reduced(&self, query: &Query) -> Option<(Vec<Location>, bool)> {
        let (pid, tid, process, thread) = THREADS[self.thread];
        let label = |key: &str, name: &str, number: u32| Location {
            module: "",
            lines: vec![(format!("{key}:{name} {number}"), key.to_owned(), 0)],
            address: None,
        };
        let mut stack = Vec::new();
        let (by_thread, by_process) = (query.group == Grouping::Thread, query.group == Grouping::Process);
        let is_plain = query.roots == TagRoot::Plain;
        if matches!(query.roots, TagRoot::Processes | TagRoot::Both) || is_plain && by_process {
            stack.push(label("process", process, pid));
        }
        if matches!(query.roots, TagRoot::Threads | TagRoot::Both) || is_plain && by_thread {
            stack.push(label("thread", thread, tid));
        }
        stack.extend(self.stack.iter().cloned());
        let stack = if self.passes(&query.filters) { filtered(&stack, &query.filters) } else { None }?;
        Some(if query.own.folds { folded(stack, query) } else { (stack, false) })
    }

    /// Returns the rows of a stack. The names of files say whether they are inlined.
    pub(crate) fn steps(&self, stack: &[Location], group: Grouping) -> Vec<Step> {
        let (pid, tid, process, thread) = THREADS[self.thread];
        let owner = match group {
            Grouping::Thread => format!(" [{thread} {tid}]"),
            Grouping::Process => format!(" [{process} {pid}]"),
            _ => String::new(),
        };
        let own = |location: &Location| {
            let lines = location.lines.iter().enumerate();
            lines
                .map(|(place, line)| {
                    let owner = if is_owner(&line.0) { "" } else { &owner };
                    (key(location, line, place > 0, group) + owner, place > 0 && group != Grouping::File)
                })
                .collect::<Vec<_>>()
        };
        stack.iter().flat_map(own).collect()
    }

    /// Returns whether the thread filters keep the sample.
    pub(crate) fn passes(&self, filters: &Filters) -> bool {
        let Filters { tagfocus, tagignore, .. } = filters;
        !tagged(tagignore, self.thread) && (tagfocus.is_empty() || tagged(tagfocus, self.thread))
    }
}

/// Returns whether a line is own code.
fn is_own(location: &Location, line: &Line, query: &Query) -> bool {
    match &query.own.pattern {
        Some(pattern) => {
            location.module_matches(std::slice::from_ref(pattern))
                || any_of(std::slice::from_ref(pattern), &line.0)
                || any_of(std::slice::from_ref(pattern), &line.1)
        }
        None => location.module == "/bin/app" || line.0 == "[JIT]",
    }
}

/// Folds foreign lines into own ones. A stack without an own line keeps its innermost. What has no
/// address, such as a thread, stays. Returns whether the stack was reduced to its leaf.
fn folded(mut stack: Vec<Location>, query: &Query) -> (Vec<Location>, bool) {
    let is_code = |location: &Location| location.address.is_some();
    let leaf = stack.iter().rfind(|location| is_code(location)).cloned();
    let has_own = stack
        .iter()
        .any(|location| is_code(location) && location.lines.iter().any(|line| is_own(location, line, query)));
    for location in stack.iter_mut().filter(|location| is_code(location)) {
        let whole = location.clone();
        location.lines.retain(|line| is_own(&whole, line, query));
    }
    stack.retain(|location| !location.lines.is_empty());
    let reduced =
        leaf.filter(|_| !has_own).map(|leaf| Location { lines: leaf.lines[leaf.lines.len() - 1..].to_vec(), ..leaf });
    let is_reduced = reduced.is_some();
    stack.extend(reduced);
    (stack, is_reduced)
}

/// Returns the filtered stack, or `None` if the filters drop the sample.
fn filtered(stack: &[Location], filters: &Filters) -> Option<Vec<Location>> {
    let Filters { focus, ignore, hide, show, show_from, .. } = filters;
    if stack.iter().any(|location| location.matches(ignore)) {
        return None;
    }
    if !focus.is_empty() && !stack.iter().any(|location| location.matches(focus)) {
        return None;
    }
    let mut stack = stack.to_vec();
    for location in &mut stack {
        if location.module_matches(hide) {
            location.lines.clear();
        }
        location.lines.retain(|line| !Location::line_matches(hide, line));
        if !show.is_empty() && !location.module_matches(show) {
            location.lines.retain(|line| Location::line_matches(show, line));
        }
    }
    stack.retain(|location| !location.lines.is_empty());
    if stack.is_empty() {
        return None;
    }
    if show_from.is_empty() {
        return Some(stack);
    }
    let rootmost = stack.iter().position(|location| location.matches(show_from))?;
    let mut stack = stack.split_off(rootmost);
    // A location has the same lines at any position in the stack.
    for location in stack.iter_mut().filter(|location| !location.module_matches(show_from)) {
        if let Some(first) = location.lines.iter().position(|line| Location::line_matches(show_from, line)) {
            location.lines.drain(..first);
        }
    }
    Some(stack)
}

impl Sample {
    /// Returns whether a span includes the sample.
    pub(crate) fn is_in(&self, span: Span) -> bool {
        let Span::Last { ns, now_ns } = span else { return true };
        let age = (now_ns / BUCKET_NS).checked_sub(self.at_ms * 1_000_000 / BUCKET_NS);
        age.is_some_and(|age| age < ns.div_ceil(BUCKET_NS))
    }

    pub(crate) fn weight_ns(&self) -> u64 {
        self.weight_ms * 1_000_000
    }
}

/// Returns the same without the leaves of stacks that were reduced to them: they are called by
/// nobody.
pub(crate) fn calling(samples: &[Sample], query: &Query) -> Vec<(Vec<Step>, u64)> {
    let counts = samples.iter().filter(|sample| sample.is_in(query.span) && sample.weight_ms > 0);
    let steps = counts.filter_map(|sample| {
        let (mut stack, is_reduced) = sample.reduced(query)?;
        stack.truncate(stack.len() - usize::from(is_reduced));
        Some((sample.steps(&stack, query.group), sample.weight_ns()))
    });
    steps.collect()
}

/// A function on a stack, and whether it is inlined into the one before.
pub(crate) type Step = (String, bool);

/// Returns the functions, root first, and the weight of every sample that counts.
pub(crate) fn counted(samples: &[Sample], query: &Query) -> Vec<(Vec<Step>, u64)> {
    let counts = samples.iter().filter(|sample| sample.is_in(query.span) && sample.weight_ms > 0);
    counts
        .filter_map(|sample| Some((sample.steps(&sample.filtered(query)?, query.group), sample.weight_ns())))
        .collect()
}

/// Returns the row name of a line of a location.
fn key(location: &Location, line: &Line, inlined: bool, group: Grouping) -> String {
    let (name, file, number) = line;
    let mark = if inlined { " (inline)" } else { "" };
    let module = match location.module {
        "" => "<unknown>".to_owned(),
        module => format!("[{}]", module.rsplit('/').next().unwrap()),
    };
    let Some(address) = location.address else { return name.clone() };
    match group {
        Grouping::Function
        | Grouping::Thread
        | Grouping::Process
        | Grouping::Title
        | Grouping::Wait
        | Grouping::WaitReason
        | Grouping::WaitHolder => name.clone(),
        Grouping::File if file.is_empty() => module,
        Grouping::File => format!("{file}{mark}"),
        Grouping::Line if file.is_empty() => name.clone(),
        Grouping::Line => format!("{name} {file}:{number}"),
        Grouping::Address if file.is_empty() => format!("{address:016x} {module}"),
        Grouping::Address => format!("{address:016x} {name} {file}:{number}"),
        Grouping::Module if location.module.is_empty() => module,
        Grouping::Module => location.module.to_owned(),
    }
}

/// Returns whether a row is a thread or process itself.
fn is_owner(name: &str) -> bool {
    name.starts_with("thread:") || name.starts_with("process:")
}

/// Returns whether the table has this row. If rows are split by owner, an owner has a row only if
/// it is all that is left of a stack.
pub(crate) fn is_listed(query: &Query, name: &str, flat_ns: u64) -> bool {
    !matches!(query.group, Grouping::Thread | Grouping::Process) || !is_owner(name) || flat_ns != 0
}

/// Plays the samples, with frames for their owners.
pub(crate) fn played(samples: &[Sample]) -> Scenario {
    let mut played = scenario(&text(samples)).unwrap();
    played.profile.add_owner_frames();
    assert!(played.names.catch_up(&played.profile).is_empty());
    played
}

fn location() -> impl Strategy<Value = Location> {
    let line = || {
        (prop::sample::select(vec!["a", "b", "ab", "c::d", "e"]), prop::sample::select(vec!["x.c", "src/b.h"]), 1..3u32)
    };
    let module = prop::sample::select(vec!["/bin/app", "/lib/liba.so", "/lib/b.so"]);
    let own = |(name, file, number): (&str, &str, u32)| (name.to_owned(), file.to_owned(), number);
    let coded = (module, prop::collection::vec(line(), 1..4)).prop_map(move |(module, lines)| Location {
        module,
        lines: lines.into_iter().map(own).collect(),
        address: Some(0),
    });
    let bare = |module, name: &str, address| Location {
        module,
        lines: vec![(name.to_owned(), String::new(), 0)],
        address: Some(address),
    };
    prop_oneof![
        12 => coded,
        1 => Just(bare("liba.so", "liba.so+0x40", 0x40)),
        1 => Just(bare("", "[JIT]", 0x7000)),
    ]
}

pub(crate) fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let stack = (prop::bool::weighted(0.15), prop::collection::vec(location(), 1..9)).prop_map(|(cut, mut stack)| {
        if cut {
            stack.insert(
                0,
                Location { module: "", lines: vec![("[truncated]".to_owned(), String::new(), 0)], address: None },
            );
        }
        stack
    });
    let sample = (0..4_000u64, 0..4u64, 0..THREADS.len(), stack);
    let sample = sample.prop_map(|(at_ms, weight_ms, thread, stack)| Sample { at_ms, weight_ms, thread, stack });
    prop::collection::vec(sample, 0..24).prop_map(|mut samples| {
        samples.sort_by_key(|sample| sample.thread);
        addressed(samples)
    })
}

/// Gives each location the address that a scenario gives it, in the order in which the locations
/// are written there.
fn addressed(mut samples: Vec<Sample>) -> Vec<Sample> {
    let mut known: Vec<(&str, Vec<Line>)> = Vec::new();
    for location in samples.iter_mut().flat_map(|sample| &mut sample.stack) {
        if location.address == Some(0) {
            let one = (location.module, location.lines.clone());
            let place = known.iter().position(|other| *other == one).unwrap_or_else(|| {
                known.push(one);
                known.len() - 1
            });
            location.address = Some((1 << 24) + 16 * place as u64);
        }
    }
    samples
}

fn filters() -> impl Strategy<Value = Filters> {
    let texts = vec!["a", "^a$", "b", "c::", "x\\.c", "liba", "^$", "e", "0x", "trunc", "/b", ".", "thread", "worker"];
    let kind = move || {
        let pattern = prop::sample::select(texts.clone()).prop_map(|text| Pattern::new(text).unwrap());
        let some = prop::collection::vec(pattern, 1..3);
        prop_oneof![2 => Just(Vec::new()), 1 => some]
    };
    let tags = || {
        let texts = vec!["pid=7", "pid=20", "tid=8", "tid=9", "thread=worker", "thread=a,^child$", "process=^app$"];
        let tag = prop::sample::select(texts).prop_map(|text| TagFilter::new(text).unwrap());
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(tag, 1..3)]
    };
    let kinds = (kind(), kind(), kind(), kind(), kind(), tags(), tags());
    kinds.prop_map(|(focus, ignore, hide, show, show_from, tagfocus, tagignore)| Filters {
        focus,
        ignore,
        hide,
        show,
        show_from,
        tagfocus,
        tagignore,
    })
}

pub(crate) fn query() -> impl Strategy<Value = Query> {
    let last = (0..4_500u64, 0..5_000u64)
        .prop_map(|(ms, now_ms)| Span::Last { ns: ms * 1_000_000, now_ns: now_ms * 1_000_000 });
    let span = prop_oneof![Just(Span::Total), last];
    let sort = prop::sample::select(vec![Sort::Flat, Sort::Cum, Sort::Name]);
    let group = prop_oneof![
        4 => Just(Grouping::Function),
        4 => prop::sample::select(vec![Grouping::File, Grouping::Line, Grouping::Address, Grouping::Module]),
        4 => prop::sample::select(vec![Grouping::Thread, Grouping::Process]),
    ];
    let roots = prop_oneof![
        2 => Just(TagRoot::Plain),
        1 => prop::sample::select(vec![TagRoot::Threads, TagRoot::Processes, TagRoot::Both, TagRoot::Waits]),
    ];
    let pattern = prop::sample::select(vec!["^a$", "c::", "x\\.c", "liba", "app"]);
    let pattern = prop::option::of(pattern.prop_map(|text| Pattern::new(text).unwrap()));
    let own = (any::<bool>(), pattern).prop_map(|(folds, pattern)| OwnCode { folds, pattern });
    (span, filters(), sort, group, roots, own).prop_map(|(span, filters, sort, group, roots, own)| Query {
        span,
        filters,
        sort,
        group,
        roots,
        own,
        ..Query::default()
    })
}

/// Returns a query for all samples of the clock.
pub(crate) fn everything(sort: Sort) -> Query {
    Query { sort, ..Query::default() }
}

//! Judges sampled stacks of a generated program by the names alone: exact, truncated and marked as
//! such, or wrong in one of several ways.

use std::collections::BTreeMap;

use regex::Regex;

use super::{Kind, Language};
use crate::harness::raw::{Entry, Frame};

/// The verdict on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The stack reaches from the thread's first frame to the leaf, and every step is legal.
    Exact,
    /// The stack is marked as truncated, and the frames that it has are legal.
    Cut,
    /// The sample was taken before or after `main`, outside of the generated functions.
    Outside,
    /// The root is missing, but the stack is not marked as truncated.
    Rootless,
    /// The sample was taken inside libgcc's jump to a landing pad, where stack and registers are
    /// neither the old nor the new ones, and no table says so. It counts as a miss, whatever the
    /// stack looks like.
    HandOver,
    /// A function follows one that does not call it.
    Step,
    /// A frame between two functions does not belong there.
    Between,
    /// The frames after the last function are not code that it calls.
    Leaf,
    /// A frame before the first function does not belong there.
    Root,
}

/// Verdicts on all samples of a program.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Number of samples by verdict.
    pub(crate) samples: BTreeMap<Verdict, u64>,
    /// One stack for each verdict except [`Verdict::Exact`].
    pub(crate) examples: BTreeMap<Verdict, String>,
}

impl Judgement {
    /// Returns the number of samples with a verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> u64 {
        self.samples.get(&verdict).copied().unwrap_or(0)
    }

    /// Adds the verdicts of another run.
    pub(crate) fn add(&mut self, other: Judgement) {
        for (verdict, samples) in other.samples {
            *self.samples.entry(verdict).or_default() += samples;
        }
        for (verdict, stack) in other.examples {
            self.examples.entry(verdict).or_insert(stack);
        }
    }

    /// Returns the number of samples that count: all except those outside of the generated
    /// functions.
    pub(crate) fn all(&self) -> u64 {
        self.samples.iter().filter(|(verdict, _)| **verdict != Verdict::Outside).map(|(_, samples)| samples).sum()
    }
}

impl std::fmt::Display for Judgement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:?}", self.samples)?;
        self.examples.iter().try_for_each(|(verdict, stack)| writeln!(f, "  {verdict:?}:\n    {stack}"))
    }
}

/// A parsed function name.
struct Parsed {
    number: usize,
    kind: Kind,
    callers: Vec<usize>,
}

/// The rules for stacks of one language.
pub(crate) struct Judge {
    language: Language,
    function: Regex,
    leaf: BTreeMap<String, Regex>,
    standard: Regex,
    threads: Regex,
}

impl Judge {
    /// Creates a judge of programs in this language.
    pub(crate) fn new(language: Language) -> Judge {
        let compile = |pattern: &str| Regex::new(pattern).expect("a pattern of ours");
        // Names of functions that each kind calls in libc. What those call is up to the library.
        let leaf = [
            (Kind::Memcpy, "mem(cpy|move|set)"),
            (Kind::Malloc, "alloc|free|operator (new|delete)"),
            (Kind::Libm, "sin|cos|exp|pow"),
            (Kind::Syscall, "syscall|getppid"),
            (Kind::Clock, "gettime"),
            (Kind::Text, "printf|str(to|len)"),
            (Kind::Sort, "qsort"),
            // A catch ends with a jump to it.
            (Kind::Catch, "free"),
        ];
        Judge {
            language,
            function: compile(r"^<?(?:[a-z]\w*(?:\[[0-9a-f]+\])?::)?f(\d+)_([a-z]+)_from_(r|\d+(?:_\d+)*)(\W.*)?$"),
            leaf: leaf.into_iter().map(|(kind, pattern)| (kind.word(), compile(pattern))).collect(),
            standard: compile(
                r"^<&?(mut )?(\[|\*|[ui](8|16|32|64|128|size)\b|f(32|64)\b|str\b|char\b|bool\b)|core::|alloc::|std::|hashbrown::|compiler_builtins|__rust|rust_|__rdl|^_Unwind|^panic_unwind::|^__cxa|^__gxx|^__gcc|^operator |\{closure|\{\{closure",
            ),
            threads: compile(r"^(_start|_dl_start.*|(__GI_)?(__)?clone3?|start_thread)$"),
        }
    }

    /// Judges every entry of one clock.
    pub(crate) fn all<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Judgement {
        let mut judgement = Judgement::default();
        for entry in entries {
            let verdict = self.judge(entry);
            *judgement.samples.entry(verdict).or_default() += entry.samples;
            if verdict != Verdict::Exact {
                judgement.examples.entry(verdict).or_insert_with(|| show(&entry.frames));
            }
        }
        judgement
    }

    /// Returns a stack of a statically linked program as if its libraries were files of their own,
    /// which they are by the names of their functions. libgcc's helpers have no names there.
    pub(crate) fn with_libraries(&self, mut entry: Entry) -> Entry {
        for frame in entry.frames.iter_mut().filter(|frame| is_ours(frame) && frame.name() != "_start") {
            let is_standard = self.standard.is_match(frame.name());
            let is_program = self.parse(frame).is_some() || is_caller(frame) || is_linkage(frame);
            if !is_program && (self.language.is_c_family() || !is_standard) {
                let is_helper = frame.name().starts_with("uw_");
                frame.name.take_if(|_| is_helper);
                frame.module = if is_helper {
                    "libgcc_s"
                } else if is_standard {
                    "libstdc++"
                } else {
                    "libc."
                }
                .to_owned();
            }
        }
        entry
    }

    /// Judges one stack.
    pub(crate) fn judge(&self, entry: &Entry) -> Verdict {
        // The function itself, its unnamed helper that replaces the registers it has saved by new
        // ones, or the hook that it calls for debuggers after that.
        let helped = entry
            .frames
            .iter()
            .rev()
            .take_while(|frame| match &frame.name {
                Some(name) => name == "_Unwind_DebugHook",
                None => frame.module.starts_with("libgcc_s"),
            })
            .count();
        let leaf = entry.frames.iter().rev().nth(helped.min(1));
        let hands_over = leaf.is_some_and(|leaf| HAND_OVER.contains(&leaf.name()));
        match self.follow(entry) {
            verdict @ (Verdict::Exact | Verdict::Cut) => verdict,
            _ if hands_over => Verdict::HandOver,
            verdict => verdict,
        }
    }

    fn follow(&self, entry: &Entry) -> Verdict {
        let parsed: Vec<Option<Parsed>> = entry.frames.iter().map(|frame| self.parse(frame)).collect();
        let Some(first) = parsed.iter().position(Option::is_some) else {
            return self.without_functions(entry);
        };
        let (before, chain) = entry.frames.split_at(first);
        if before.iter().any(|frame| !self.may_be_root(frame)) {
            return Verdict::Root;
        }
        let mut last: Option<&Parsed> = None;
        let mut between = 0..0;
        for (place, now) in parsed[first..].iter().enumerate() {
            let Some(now) = now else {
                between.end = place + 1;
                continue;
            };
            if let Some(last) = last {
                if !now.callers.contains(&last.number) {
                    return Verdict::Step;
                }
                let frames = &chain[between.clone()];
                if !frames.iter().all(|frame| self.may_lie_between(last, frame))
                    || (now.kind == Kind::Compare && frames.is_empty())
                {
                    return Verdict::Between;
                }
            }
            last = Some(now);
            between = place + 1..place + 1;
        }
        let last = last.expect("there is a first");
        if !self.may_be_leaf(last, &chain[between]) {
            return Verdict::Leaf;
        }
        let rooted = parsed[first].as_ref().is_some_and(|first| first.kind == Kind::Entry) && self.has_root(before);
        match (entry.truncated, rooted) {
            (true, _) => Verdict::Cut,
            (false, true) => Verdict::Exact,
            (false, false) => Verdict::Rootless,
        }
    }

    fn parse(&self, frame: &Frame) -> Option<Parsed> {
        let parts = self.function.captures(frame.name())?;
        if parts.get(4).is_some_and(|suffix| suffix.as_str().contains("{closure")) {
            return None;
        }
        let kind = *Kind::ALL.iter().find(|kind| kind.word() == parts[2])?;
        let callers = parts[3].split('_').filter_map(|word| word.parse().ok()).collect();
        Some(Parsed { number: parts[1].parse().ok()?, kind, callers })
    }

    /// Judges a stack without generated functions. The program has none at its start and end; any
    /// other stack without them has lost them.
    fn without_functions(&self, entry: &Entry) -> Verdict {
        let starts = entry.frames.iter().any(|frame| is_ours(frame) && (frame.name() == "_start" || is_caller(frame)));
        let starts = starts || entry.frames.first().is_some_and(|root| self.threads.is_match(root.name()));
        let loader = entry.frames.iter().any(|frame| frame.module.starts_with("ld-"));
        match entry.truncated {
            true => Verdict::Cut,
            false if starts || loader => Verdict::Outside,
            false => Verdict::Rootless,
        }
    }

    /// Returns whether the stack begins with the thread's first function and has a caller of the
    /// entry.
    fn has_root(&self, before: &[Frame]) -> bool {
        let start = before.first().is_some_and(|root| match root.name.as_deref() {
            Some(name) => self.threads.is_match(name),
            // libc hides the names of a thread's first functions.
            None => root.module.starts_with("libc"),
        });
        start && before.iter().any(is_caller)
    }

    fn may_be_root(&self, frame: &Frame) -> bool {
        match frame.name.as_deref() {
            _ if frame.module.starts_with("libc.") || frame.module.starts_with("libc-") => true,
            Some(name) if is_ours(frame) => {
                is_caller(frame) || self.threads.is_match(name) || self.standard.is_match(name)
            }
            _ => false,
        }
    }

    fn may_lie_between(&self, caller: &Parsed, frame: &Frame) -> bool {
        match (self.language, caller.kind) {
            (Language::Rust | Language::Panics, Kind::Sort | Kind::Catch) => self.standard.is_match(frame.name()),
            (Language::C | Language::Cpp, Kind::Sort) => frame.module.starts_with("libc"),
            _ => false,
        }
    }

    /// Returns whether the frames after the last function are legal: the function that it calls,
    /// and what the library needs for that.
    fn may_be_leaf(&self, caller: &Parsed, frames: &[Frame]) -> bool {
        let Some((called, rest)) = frames.split_first() else { return true };
        if !self.language.is_c_family() {
            // Rust's own library is part of the program, and any function may allocate, panic or
            // drop.
            let standard =
                |frame: &Frame| self.standard.is_match(frame.name()) || frame.name.is_none() && is_ours(frame);
            return frames.iter().all(|frame| in_library(frame) || is_linkage(frame) || standard(frame));
        }
        // Any function of the C++ program may pass an exception on.
        let passes = self.language == Language::Cpp
            && (["libgcc_s", "libstdc++"].iter().any(|library| called.module.starts_with(library))
                || is_linkage(called)
                    && ["_Unwind_Resume", "__cxa_"].iter().any(|start| called.name().starts_with(start)));
        let calls = self.leaf.get(&caller.kind.word()).is_some_and(|pattern| match called.name.as_deref() {
            // The loader binds a name at its first call; a jump through the linkage table may have
            // no name.
            _ if called.module.starts_with("ld-") => true,
            None => in_library(called) || is_ours(called),
            Some(name) => (in_library(called) || is_linkage(called)) && pattern.is_match(name),
        });
        let binds = self.language == Language::Cpp && called.module.starts_with("ld-");
        (passes || calls || binds) && rest.iter().all(in_library)
    }
}

/// Returns whether a frame is a jump through the linkage table, named after its target.
fn is_linkage(frame: &Frame) -> bool {
    is_ours(frame) && frame.name().ends_with("@plt")
}

fn in_library(frame: &Frame) -> bool {
    const LIBRARIES: [&str; 8] = ["libc.", "libc-", "libm.", "libm-", "ld-", "[vdso]", "libstdc++", "libgcc_s"];
    LIBRARIES.iter().any(|module| frame.module.starts_with(module))
}

/// Functions of libgcc that jump to a landing pad.
const HAND_OVER: [&str; 4] =
    ["_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_Resume_or_Rethrow", "_Unwind_ForcedUnwind"];

/// Returns whether a frame is in the program itself, not in a library.
fn is_ours(frame: &Frame) -> bool {
    frame.module.starts_with("chains")
}

/// Returns whether a frame is a function that calls the entry: `main`, `worker` or `work`.
fn is_caller(frame: &Frame) -> bool {
    let name = frame.name().rsplit_once("::h").map_or(frame.name(), |(name, _)| name);
    let last = name.rsplit("::").next().unwrap_or(name);
    is_ours(frame) && ["main", "worker", "work"].contains(&last.split('(').next().unwrap_or(last))
}

/// Formats a stack, leaf first, so that the interesting end is always shown.
fn show(frames: &[Frame]) -> String {
    let one = |frame: &Frame| format!("{}!{}", frame.module, frame.name.as_deref().unwrap_or("?"));
    let mut lines: Vec<String> = frames.iter().rev().take(16).map(one).collect();
    if let Some(root) = frames.first().filter(|_| frames.len() > 16) {
        lines.push(format!("… {} more, to {}", frames.len() - 17, one(root)));
    }
    lines.join("\n    ")
}

//! Text of the pages over the panes: keys and terms, losses and overhead, the explanation of a
//! name, and the deepest stack of a thread.

use std::time::Duration;

use crate::profile::loss::Overflows;
use crate::session::{Facts, unread_reason};
use crate::symbols::coverage::NameCoverage;
use crate::symbols::worker::SymbolState;
use crate::tally::measure;
use crate::tally::threads::ThreadRow;
use crate::tui::command::table;
use crate::tui::keys::{Binding, KeyContext};
use crate::tui::layout::Pane;
use crate::tui::pane::help::deepest;
use crate::tui::pane::help::explain::{self, NameQuestion};
use crate::tui::pane::help::holder;
use crate::tui::pane::help::lines::{HelpLine, KEY_COLUMNS, entry};
use crate::tui::pane::help::summary::{self, TimeSummary};
use crate::tui::text;
use crate::wire::LossCause;
use crate::wire::interpreter::FrameAccess;

/// A page over the panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpPage {
    /// Keys and terms.
    Help,
    /// Losses and overhead.
    Losses,
    /// Explanation of a function's name.
    Explain,
    /// Sentences that say where the time goes.
    Summary,
    /// Deepest stack of a thread.
    Stack,
    /// Stacks of a thread that waits for a lock and of its holder.
    Holder,
}

/// The facts from which the pages are made.
pub struct PageFacts<'a> {
    /// The keys.
    pub table: &'a [Binding],
    /// The facts of the newest answer.
    pub facts: Option<&'a Facts>,
    /// The name that is explained.
    pub explanation: Option<&'a NameQuestion>,
    /// The sentences about the time, once they are there.
    pub summary: Option<&'a TimeSummary>,
    /// The thread whose deepest stack is shown.
    pub thread: Option<&'a ThreadRow>,
    /// The threads whose stacks are compared.
    pub chain: Vec<&'a ThreadRow>,
    /// The time of the answer, ns.
    pub now_ns: u64,
}

/// Minimum columns to show terms beside the keys.
const TWO_FROM_COLUMNS: u16 = 110;

/// The lines of a page on a screen of this width, in one or two columns.
pub fn columns(page: HelpPage, shown: &PageFacts<'_>, width: u16) -> Vec<Vec<HelpLine>> {
    let table = shown.table;
    match page {
        HelpPage::Losses => vec![losses(shown.facts, width)],
        HelpPage::Explain => vec![explain::lines(shown.explanation, width)],
        HelpPage::Summary => vec![summary::lines(shown.summary, width)],
        HelpPage::Holder => holder::columns(&shown.chain, shown.now_ns, width),
        HelpPage::Stack => vec![deepest::lines(shown.thread, width)],
        HelpPage::Help if width >= TWO_FROM_COLUMNS => {
            let half = width / 2;
            vec![keys(table, half), terms(width - half)]
        }
        HelpPage::Help => {
            let mut lines = keys(table, width);
            lines.push(HelpLine::Blank);
            lines.extend(terms(width));
            vec![lines]
        }
    }
}

fn keys(table: &[Binding], width: u16) -> Vec<HelpLine> {
    let screen = ("Screen", vec![KeyContext::Screen, KeyContext::Panes, KeyContext::Everywhere]);
    let panes = Pane::ALL.map(|pane| (pane.name(), KeyContext::of_pane(pane)));
    let others: [(&str, &[KeyContext]); 6] = [
        ("Prompt", &[KeyContext::Prompt]),
        ("Command line", &[KeyContext::Colon]),
        ("Save", &[KeyContext::Save]),
        ("Confirmation of setitimer", &[KeyContext::Confirm]),
        ("After the end of a process", &[KeyContext::Successor]),
        ("Quit with a launched target", &[KeyContext::Question, KeyContext::Ending]),
    ];
    let others = others.map(|(heading, contexts)| (heading, contexts.to_vec()));
    let mut lines = Vec::new();
    for (heading, places) in [screen].into_iter().chain(panes).chain(others) {
        if !lines.is_empty() {
            lines.push(HelpLine::Blank);
        }
        lines.push(HelpLine::Heading(heading.to_owned()));
        let mut entries: Vec<(String, &str)> = Vec::new();
        for binding in table.iter().filter(|binding| places.contains(&binding.context)) {
            match entries.last_mut() {
                Some((label, words)) if *words == binding.help => {
                    label.push_str(" · ");
                    label.push_str(&binding.label);
                }
                _ => entries.push((binding.label.clone().into_owned(), binding.help)),
            }
        }
        entries.into_iter().for_each(|(label, words)| entry(&mut lines, width, &label, words));
    }
    lines
}

/// Terms on the screen and their meaning.
const TERMS: &[(&str, &str)] = &[
    ("flat", "time in the function itself; flat% is its share of the total, sum% the running sum of flat%"),
    ("cum", "time in the function and its callees; recursive calls count once"),
    (
        "lat%",
        "latency: the share of the wall-clock time in which the process ran; cum divided by the number of its \
      threads that ran at that moment; of fewer than 1 000 samples, and where threads run for less than some \
      ten periods at a time, with its margin, 80±3%",
    ),
    ("Δ points", "in a diff, the share now less the share before, in percentage points; the times are behind it"),
    ("runs%", "share of the window in which a thread ran, by wall-clock time; what it waited for is behind it"),
    ("(inline)", "the compiler inlined the function into its callers"),
    ("last 10 s, total", "samples of the window, and all samples since the start or the last reset (R)"),
    ("CPU time", "PROF: one sample per period of CPU time, user and system, of each thread; idle threads have none"),
    ("wall time", "REAL: one sample per period of wall-clock time, including threads that sleep or wait"),
    ("running 1.9 of 8", "mean number of threads that ran in the last second, of all"),
    ("watched, running", "time since sigtop attached, and since the process started"),
    ("samples (22/s)", "samples of the window, and their number per second, of all threads"),
    (
        "99 Hz, got 87",
        "requested sampling frequency per thread and second of the clock, and the measured one; shown only where it \
         is not what was asked for",
    ),
    ("512 KiB, got 8 MiB", "requested mean bytes between two samples of memory, and the measured one if it is longer"),
    ("lost", "ticks that did not become a sample; L lists the causes"),
    (
        "overhead",
        "what sampling takes of the target's CPU time in the window (signal handlers, agent threads, stops); sigtop and \
         its samplers take a share of a CPU beside it, and have all of it while the target sleeps",
    ),
    (
        "focus, ignore",
        "regular expressions on function, file and module names that select samples; all values refer to \
      the selected samples, percentages to the total (% switches)",
    ),
    ("→ callee", "in the source: the heaviest callee of the line; ←: where an inlined line was inlined"),
    ("paused", "the display stands still; sampling continues and new samples are counted"),
    ("module+0x12ab", "an address outside every symbol of its module"),
    ("–", "not yet known"),
];

fn terms(width: u16) -> Vec<HelpLine> {
    let mut lines = vec![HelpLine::Heading("Terms".to_owned())];
    TERMS.iter().for_each(|(term, meaning)| entry(&mut lines, width, term, meaning));
    lines.push(HelpLine::Blank);
    lines.push(HelpLine::Heading("Commands".to_owned()));
    table::COMMANDS.iter().for_each(|command| entry(&mut lines, width, command.usage, &command.help()));
    lines
}

/// Reads a number.
type Count = fn(&Facts) -> u64;

fn losses(facts: Option<&Facts>, width: u16) -> Vec<HelpLine> {
    let unknown = || "–".to_owned();
    let number = |name: &str, value: String, note: String| HelpLine::Number(name.to_owned(), value, note);
    let time = |ns: u64| measure::duration(Duration::from_nanos(ns));
    let count = |value: fn(&Facts) -> u64| facts.map_or_else(unknown, |facts| measure::count(value(facts)));
    let of_cpu = |ns: fn(&Facts) -> u64| facts.map_or_else(unknown, |facts| time(ns(facts)));

    let mut lines = vec![HelpLine::Heading("Ticks".to_owned())];
    lines.push(number("received", count(|facts| facts.losses.ticks), String::new()));
    lines.push(number("lost", count(|facts| facts.losses.lost()), String::new()));
    for (index, loss) in LossCause::ALL.into_iter().enumerate() {
        let value = facts.map_or_else(unknown, |facts| measure::count(facts.losses.lost_ticks[index]));
        // One session may have samples of time and of memory.
        let weights = facts.map_or([0, 0], |facts| [facts.losses.lost_ns[index], facts.losses.lost_bytes[index]]);
        let words = weights.into_iter().zip([time as fn(u64) -> String, measure::bytes]);
        let words: Vec<String> = words.filter(|(weight, _)| *weight > 0).map(|(weight, text)| text(weight)).collect();
        lines.push(number(&format!("  {}", loss.long()), value, words.join(", ")));
    }
    if let Some(unsampled) = facts.and_then(|facts| facts.unsampled.as_ref()) {
        entry(&mut lines, width, "not sampled", &unsampled.share_of_cpu_time());
    }
    if let Some(reason) = facts.and_then(Facts::rate_limit) {
        entry(&mut lines, width, "rate", reason);
    }
    if let Some((facts, bytes)) = facts.and_then(|facts| Some((facts, facts.longer_interval()?))) {
        let (got, asked) = (measure::interval(bytes), measure::interval(facts.period_ns));
        let words = format!("one sample in {got}, not in {asked}: threads allocate too quickly for --budget");
        entry(&mut lines, width, "interval", &words);
    }
    lines.push(number("foreign, forwarded", count(|facts| facts.losses.foreign_signals), String::new()));
    lines.push(HelpLine::Blank);
    lines.push(HelpLine::Heading("Stacks".to_owned()));
    let of_samples = |part: Count| {
        let stacks = facts.map(|facts| (part(facts), facts.stacks.samples)).filter(|(part, _)| *part > 0);
        stacks.map_or(String::new(), |(part, all)| measure::percentage(part, all).trim_start().to_owned())
    };
    lines.push(number("samples received", count(|facts| facts.stacks.samples), String::new()));
    for (name, part) in [
        ("  truncated stacks", (|facts| facts.stacks.truncated) as Count),
        ("  of these, leaf only", |facts| facts.stacks.unreadable),
    ] {
        lines.push(number(name, count(part), of_samples(part)));
    }
    for found in facts.iter().flat_map(|facts| &facts.interpreters) {
        if found.access == FrameAccess::Sleeping {
            let reason = "under a seccomp filter the agent reads only sleeping threads; --engine external reads all";
            entry(&mut lines, width, &found.to_string(), reason);
        }
        if found.access != FrameAccess::Nobody {
            lines.push(number(&format!("  {found} stacks"), measure::count(found.merged), String::new()));
            lines.push(number("    with a freed function", measure::count(found.unnamed), String::new()));
            lines.push(number(
                "  Python not readable",
                measure::count(found.unmerged),
                "native frames only".to_owned(),
            ));
        } else {
            entry(&mut lines, width, &found.to_string(), unread_reason(found));
        }
    }
    let full: [(&str, Count); 8] = [
        ("processes rejected", |facts| facts.overflows.processes),
        ("samples of unnamed threads", |facts| facts.overflows.threads),
        ("mappings of unnamed files", |facts| facts.overflows.modules),
        ("stacks shortened", |facts| facts.overflows.stacks),
        ("Python functions rejected", |facts| facts.overflows.scripts),
        ("allocations not in LIVE", |facts| facts.overflows.allocations),
        ("dropped from the window", |facts| facts.overflows.window),
        ("samples cut by --memory", |facts| facts.overflows.memory),
    ];
    // Limits are rarely reached: only those that are have a line.
    if facts.is_some_and(|facts| facts.overflows != Overflows::default()) {
        lines.push(HelpLine::Blank);
        lines.push(HelpLine::Heading("Limits reached".to_owned()));
    }
    for (name, value) in full {
        if let Some(facts) = facts.filter(|facts| value(facts) > 0) {
            let bytes = Some(facts.overflows.allocated_bytes).filter(|_| name.starts_with("allocations"));
            lines.push(number(name, count(value), bytes.map(measure::bytes).unwrap_or_default()));
        }
    }
    lines.push(HelpLine::Blank);
    lines.push(HelpLine::Heading("CPU time".to_owned()));
    lines.push(number("target", of_cpu(|facts| facts.losses.process_cpu_ns), String::new()));
    let is_external = facts.is_some_and(|facts| facts.engine.is_external() && facts.origin.is_none());
    let (handlers, agents) = if is_external { ("stops", "sampler") } else { ("signal handlers", "agent threads") };
    lines.push(number(handlers, of_cpu(|facts| facts.losses.handler_cpu_ns), "estimated".to_owned()));
    lines.push(number(agents, of_cpu(|facts| facts.losses.agent_cpu_ns), String::new()));
    let percent = |part: Option<f64>| part.map_or_else(unknown, |part| format!("{} %", measure::percents(part)));
    let lost = percent(facts.and_then(|facts| facts.overhead));
    lines.push(number("overhead", lost, "of the target's CPU time in the window".to_owned()));
    let beside = percent(facts.and_then(|facts| facts.sigtop_of_a_cpu));
    lines.push(number("sigtop", beside, "of a CPU in the window".to_owned()));
    lines.extend(facts.map(|facts| names(facts, width)).unwrap_or_default());
    lines
}

/// State of symbolization, in total and by file.
fn names(facts: &Facts, width: u16) -> Vec<HelpLine> {
    let mut lines = vec![HelpLine::Blank, HelpLine::Heading("Names".to_owned())];
    let (pending, all) = facts.symbolizing;
    let frames = format!("{} of {}", measure::count(all.saturating_sub(pending) as u64), measure::count(all as u64));
    entry(&mut lines, width, "symbolized", &frames);
    for (file, state) in &facts.files {
        let words = match state {
            SymbolState::Reading => "symbols; reading line tables",
            SymbolState::Lines => "symbols and line tables",
            SymbolState::Symbols => "symbols, no line tables",
            SymbolState::Exports => "exported symbols only",
            SymbolState::Missing(why) => why,
        };
        let room = usize::from(KEY_COLUMNS) - 2;
        entry(&mut lines, width, &text::cut_middle(file, room), words);
    }
    let all: u64 = facts.coverage.iter().map(NameCoverage::total_ns).sum();
    if all > 0 {
        lines.push(HelpLine::Blank);
        lines.push(HelpLine::Heading("Samples with names, by the file of their leaf".to_owned()));
    }
    for file in facts.coverage.iter().filter(|_| all > 0) {
        let share = |ns: u64| measure::percentage(ns, all).trim_start().to_owned();
        let words = format!(
            "{} of samples: {} with line, {} with name only, {} with neither",
            share(file.total_ns()),
            share(file.line_ns),
            share(file.name_ns),
            share(file.nameless_ns)
        );
        let room = usize::from(KEY_COLUMNS) - 2;
        entry(&mut lines, width, &text::cut_middle(&file.module, room), &words);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keys::TABLE;
    use crate::wire::Clock;
    use crate::wire::Engine;

    const KEYS: PageFacts<'_> = PageFacts {
        table: TABLE,
        facts: None,
        explanation: None,
        summary: None,
        thread: None,
        chain: Vec::new(),
        now_ns: 0,
    };

    #[test]
    fn every_key_is_explained() {
        let help = columns(HelpPage::Help, &KEYS, 80).concat();
        for binding in TABLE {
            let explained =
                help.iter().any(|line| matches!(line, HelpLine::Entry(key, _) if key.contains(&*binding.label)));
            assert!(explained, "{} is not on the page", binding.label);
        }
    }

    #[test]
    fn a_limited_rate_and_the_costs_of_a_sampler_have_their_words() {
        let mut facts = Facts::unknown(Clock::Prof);
        (facts.period_ns, facts.effective_hz, facts.samplers_of_a_cpu) = (1_000_000, Some(410.0), Some(0.24));
        let has = |facts: &Facts, words: &str| format!("{:?}", losses(Some(facts), 140)).contains(words);
        assert!(!has(&facts, "the sampler rests") && has(&facts, "agent threads"));
        facts.engine = Engine::External;
        assert!(has(&facts, "the sampler rests") && has(&facts, "stops") && !has(&facts, "agent threads"));
    }

    #[test]
    fn lines_fit() {
        for width in [40_u16, 60, 80, 109, 110, 140, 400] {
            for column in columns(HelpPage::Help, &KEYS, width) {
                for line in column {
                    if let HelpLine::Entry(key, words) = line {
                        let key_columns = if words.is_empty() { 0 } else { usize::from(KEY_COLUMNS) };
                        assert!(text::columns(&key, 99) < key_columns.max(38), "{key}");
                        assert!(
                            2 + key_columns + text::columns(&words, 999) <= usize::from(width),
                            "{words} at {width}"
                        );
                    }
                }
            }
        }
    }
}

//! The words of the pages that lie over the panes: what keys and words mean, and the account of losses and costs.

use std::time::Duration;

use super::keys::{Binding, Place};
use super::text;
use super::why::{self, Why};
use super::words;
use crate::link::wire::Loss;
use crate::profile::loss::Overflows;
use crate::symbols::worker::SymbolState;
use crate::tally::measure;
use crate::track::Facts;

/// A page of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// What keys and words mean.
    Help,
    /// What was lost, and what the agent costs.
    Losses,
    /// Why there is no better name.
    Why,
}

/// One line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing.
    Blank,
    /// What follows is about this.
    Heading(String),
    /// A key or a word, and what it means.
    Entry(String, String),
    /// A name, a number, and a word on it.
    Number(String, String, String),
}

/// Columns from which on words stand beside the keys.
const TWO_FROM_COLUMNS: u16 = 110;
/// Columns of an entry's key.
pub const KEY_COLUMNS: u16 = 18;

/// The lines of a page on a screen so wide: one column of them, or two.
pub fn columns(page: Page, table: &[Binding], facts: Option<&Facts>, why: Option<&Why>, width: u16) -> Vec<Vec<Line>> {
    match page {
        Page::Losses => vec![losses(facts, width)],
        Page::Why => vec![why::lines(why, width)],
        Page::Help if width >= TWO_FROM_COLUMNS => {
            let half = width / 2;
            vec![keys(table, half), words(width - half)]
        }
        Page::Help => {
            let mut lines = keys(table, width);
            lines.push(Line::Blank);
            lines.extend(words(width));
            vec![lines]
        }
    }
}

fn keys(table: &[Binding], width: u16) -> Vec<Line> {
    let groups = [
        ("Screen", &[Place::Screen, Place::Panes, Place::Everywhere][..]),
        ("Top", &[Place::Top]),
        ("Callers", &[Place::Callers]),
        ("Flame", &[Place::Flame]),
        ("Source", &[Place::Source]),
        ("Threads", &[Place::Threads]),
        ("Output", &[Place::Output, Place::Typing]),
        ("Prompt", &[Place::Prompt]),
        ("Command line", &[Place::Colon]),
        ("Save", &[Place::Save]),
        ("Sample by setitimer", &[Place::Confirm]),
        ("Quit with a launched target", &[Place::Question, Place::Ending]),
    ];
    let mut lines = Vec::new();
    for (heading, places) in groups {
        if !lines.is_empty() {
            lines.push(Line::Blank);
        }
        lines.push(Line::Heading(heading.to_owned()));
        let mut entries: Vec<(String, &str)> = Vec::new();
        for binding in table.iter().filter(|binding| places.contains(&binding.place)) {
            match entries.last_mut() {
                Some((label, words)) if *words == binding.words => {
                    label.push_str(" · ");
                    label.push_str(&binding.label);
                }
                _ => entries.push((binding.label.clone().into_owned(), binding.words)),
            }
        }
        entries.into_iter().for_each(|(label, words)| entry(&mut lines, width, &label, words));
    }
    lines
}

/// What the words on the screen mean.
const WORDS: &[(&str, &str)] = &[
    ("flat", "time in the function itself; flat% its part of the total, sum% the sum of flat% down to this row"),
    ("cum", "time in the function and in all that it calls; a recursive call counts once"),
    ("(inline)", "the compiler put the function into its callers"),
    ("last 10 s, total", "samples of the window, and of everything since the start or the last R"),
    ("PROF (cpu)", "a tick for every so much CPU time, user and system, of a thread: an idle thread has none"),
    ("REAL (wall)", "a tick for every so much time that passes, for threads that sleep and wait too"),
    ("99 Hz (98.7)", "the rate asked for, and the rate of signals that came, per second of the clock and thread"),
    ("lost", "ticks that did not become a sample; L says why"),
    ("agent", "CPU time of sampling in the target over the window, of one CPU"),
    (
        "focus, ignore",
        "a regular expression on function, file and module names that chooses samples: all numbers are \
      of the samples left, percentages stay on the total until %",
    ),
    ("→ callee", "in the source: what this line calls most; ← where an inlined line was inlined"),
    ("frozen", "the numbers stand still; samples go on being taken, and wait"),
    ("module+0x12ab", "code outside of every symbol of its file"),
    ("–", "not known yet"),
];

fn words(width: u16) -> Vec<Line> {
    let mut lines = vec![Line::Heading("Words".to_owned())];
    WORDS.iter().for_each(|(word, meaning)| entry(&mut lines, width, word, meaning));
    lines.push(Line::Blank);
    lines.push(Line::Heading("Commands".to_owned()));
    words::WORDS.iter().for_each(|word| entry(&mut lines, width, word.form, word.words));
    lines
}

/// Adds a key and its words, on as many lines as they take.
pub fn entry(lines: &mut Vec<Line>, width: u16, key: &str, words: &str) {
    let room = usize::from(width.saturating_sub(KEY_COLUMNS + 4)).max(16);
    let long = text::columns(key, 99) > usize::from(KEY_COLUMNS) - 1;
    let mut key = key.to_owned();
    if long {
        lines.push(Line::Entry(std::mem::take(&mut key), String::new()));
    }
    for line in text::wrap(words, room) {
        lines.push(Line::Entry(std::mem::take(&mut key), line));
    }
}

/// How a loss is called.
fn cause(loss: Loss) -> &'static str {
    match loss {
        Loss::RingFull => "the ring was full",
        Loss::NoSlot => "too many handlers at once",
        Loss::NotReady => "the agent was not ready",
        Loss::SocketFull => "sigtop read too slowly",
        Loss::NoTimer => "a thread got no timer",
        Loss::Unseen => "CPU time that no tick saw",
    }
}

/// A number of the account.
type Count = fn(&Facts) -> u64;

fn losses(facts: Option<&Facts>, width: u16) -> Vec<Line> {
    let unknown = || "–".to_owned();
    let number = |name: &str, value: String, note: String| Line::Number(name.to_owned(), value, note);
    let time = |ns: u64| measure::duration(Duration::from_nanos(ns));
    let count = |value: fn(&Facts) -> u64| facts.map_or_else(unknown, |facts| measure::count(value(facts)));
    let of_cpu = |ns: fn(&Facts) -> u64| facts.map_or_else(unknown, |facts| time(ns(facts)));

    let mut lines = vec![Line::Heading("Ticks".to_owned())];
    lines.push(number("came", count(|facts| facts.losses.ticks), String::new()));
    lines.push(number("lost", count(|facts| facts.losses.lost()), String::new()));
    for (index, loss) in Loss::ALL.into_iter().enumerate() {
        let value = facts.map_or_else(unknown, |facts| measure::count(facts.losses.lost_ticks[index]));
        let weight = facts.map(|facts| facts.losses.lost_ns[index]).filter(|ns| *ns > 0);
        lines.push(number(&format!("  {}", cause(loss)), value, weight.map(time).unwrap_or_default()));
    }
    if let Some(unsampled) = facts.and_then(|facts| facts.unsampled.as_ref()) {
        entry(&mut lines, width, "not sampled", &unsampled.share_of_cpu_time());
    }
    lines.push(number("of others, passed on", count(|facts| facts.losses.foreign_signals), String::new()));
    lines.push(Line::Blank);
    lines.push(Line::Heading("Stacks".to_owned()));
    let of_samples = |part: Count| {
        let stacks = facts.map(|facts| (part(facts), facts.stacks.samples)).filter(|(part, _)| *part > 0);
        stacks.map_or(String::new(), |(part, all)| measure::percentage(part, all).trim_start().to_owned())
    };
    lines.push(number("of samples received", count(|facts| facts.stacks.samples), String::new()));
    for (name, part) in [
        ("  cut short: [truncated]", (|facts| facts.stacks.truncated) as Count),
        ("  of these, leaf alone", |facts| facts.stacks.unreadable),
    ] {
        lines.push(number(name, count(part), of_samples(part)));
    }
    let full: [(&str, Count); 5] = [
        ("processes turned away", |facts| facts.overflows.processes),
        ("samples of threads unnamed", |facts| facts.overflows.threads),
        ("mappings of files unnamed", |facts| facts.overflows.modules),
        ("stacks cut down", |facts| facts.overflows.stacks),
        ("entries out of the window", |facts| facts.overflows.window),
    ];
    // What is full is rare: a line for it comes when it is.
    if facts.is_some_and(|facts| facts.overflows != Overflows::default()) {
        lines.push(Line::Blank);
        lines.push(Line::Heading("What found sigtop full".to_owned()));
    }
    for (name, value) in full {
        if facts.is_some_and(|facts| value(facts) > 0) {
            lines.push(number(name, count(value), String::new()));
        }
    }
    lines.push(Line::Blank);
    lines.push(Line::Heading("CPU time".to_owned()));
    lines.push(number("of the target", of_cpu(|facts| facts.losses.process_cpu_ns), String::new()));
    lines.push(number("of handlers in it", of_cpu(|facts| facts.losses.handler_cpu_ns), "estimated".to_owned()));
    lines.push(number("of agent threads in it", of_cpu(|facts| facts.losses.agent_cpu_ns), String::new()));
    let share = facts.and_then(|facts| facts.agent_share);
    let share = share.map_or_else(unknown, |share| measure::percent(share * 100.0).trim_start().to_owned());
    lines.push(number("sampling, of the target", share, String::new()));
    let part = facts.and_then(|facts| facts.agent_of_a_cpu);
    let part = part.map_or_else(unknown, |part| measure::percent(part * 100.0).trim_start().to_owned());
    lines.push(number("sampling, of a CPU", part, "in the window".to_owned()));
    lines.extend(facts.map(|facts| names(facts, width)).unwrap_or_default());
    lines
}

/// What was found of each file, and how many frames wait for it.
fn names(facts: &Facts, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::Blank, Line::Heading("Names".to_owned())];
    let (pending, all) = facts.symbolizing;
    let frames = format!("{} of {}", measure::count(all.saturating_sub(pending) as u64), measure::count(all as u64));
    entry(&mut lines, width, "frames named", &frames);
    for (file, state) in &facts.files {
        let words = match state {
            SymbolState::Reading => "symbols; its line tables are being read",
            SymbolState::Lines => "symbols and line tables",
            SymbolState::Symbols => "symbols, no line tables",
            SymbolState::Exports => "only what it exports",
            SymbolState::Missing(why) => why,
        };
        let room = usize::from(KEY_COLUMNS) - 2;
        entry(&mut lines, width, &text::cut_middle(file, room), words);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keys::TABLE;

    #[test]
    fn every_key_is_explained() {
        let help = columns(Page::Help, TABLE, None, None, 80).concat();
        for binding in TABLE {
            let explained =
                help.iter().any(|line| matches!(line, Line::Entry(key, _) if key.contains(&*binding.label)));
            assert!(explained, "{} is not on the page", binding.label);
        }
    }

    #[test]
    fn lines_fit() {
        for width in [40_u16, 60, 80, 109, 110, 140, 400] {
            for column in columns(Page::Help, TABLE, None, None, width) {
                for line in column {
                    if let Line::Entry(key, words) = line {
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

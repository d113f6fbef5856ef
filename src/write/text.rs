//! pprof's text form of a top list (`-top`): lines of a heading, then a row for each function.
//!
//! ```text
//! File: server
//! Type: cpu
//! Samples: 1 851 (0.00% miss rate)
//! Active filters:
//!    focus=parse
//! Showing nodes accounting for 1.54s, 28.21% of 5.46s total
//! Dropped 16 nodes (cum <= 0.03s)
//! Showing top 2 nodes out of 57
//!       flat  flat%   sum%        cum   cum%
//!      2.09s 38.28% 38.28%      2.09s 38.28%  memmove
//!      0.77s 14.10% 52.38%      0.77s 14.10%  parse_value (inline)
//! ```
//!
//! Every line but `Samples:`, which is ours, is pprof's, and so is the unit, chosen for the rows that are shown. In one
//! thing it differs: pprof looks for inlined calls among the rows it shows, after it has dropped calls of less than a
//! thousandth of the total, so that a mark can come and go with other rows; here all calls count (its
//! `-edgefraction=0`), and a mark is a function's own.

use std::fmt::Write;

use crate::profile::Clock;
use crate::profile::loss::Loss;
use crate::tally::measure::{Unit, count, percentage, value};
use crate::tally::query::{Filters, Pattern};
use crate::tally::table::{Inline, Row, Table};
use crate::tally::tag::Tag;

/// What the lines above the rows say.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// The program.
    pub file: &'a str,
    /// What was measured.
    pub clock: Clock,
    /// How long it was watched, for pprof's line of duration and total.
    pub duration_ns: Option<u64>,
    /// Ticks lost in the table's span, by [`Loss`].
    pub lost_ticks: [u64; Loss::ALL.len()],
    /// Their weight, ns. Samples and lost ticks may stand for several periods each.
    pub lost_ns: [u64; Loss::ALL.len()],
    /// The table's filters.
    pub filters: &'a Filters,
}

/// Which rows are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least part of what the filters left, for a row's cum.
    pub nodefraction: f64,
    /// Most rows; `None` for all.
    pub nodecount: Option<usize>,
}

impl Default for Limits {
    /// pprof's, from the command line.
    fn default() -> Limits {
        Limits { nodefraction: 0.005, nodecount: None }
    }
}

/// Bytes of a filter's text in the heading.
const MAX_FILTER: usize = 80;

/// Appends the report to `out`. Rows stand in the table's order.
pub fn top(out: &mut String, heading: &Heading, table: &Table, limits: &Limits) {
    let part_ns = |of_ns: u64| (of_ns as f64 * limits.nodefraction) as u64;
    let flat_ns = |rows: &mut dyn Iterator<Item = &Row>| rows.fold(0u64, |sum, row| sum.saturating_add(row.flat_ns));
    let cutoff_ns = part_ns(flat_ns(&mut table.rows.iter()));
    let enough: Vec<&Row> = table.rows.iter().filter(|row| row.cum_ns >= cutoff_ns).collect();
    let rows = &enough[..limits.nodecount.unwrap_or(usize::MAX).min(enough.len())];

    let own_ns = |row: &&Row| Some(if row.flat_ns > 0 { row.flat_ns } else { row.cum_ns }).filter(|&ns| ns > 0);
    let unit = Unit::of_report(rows.iter().filter_map(own_ns).min().unwrap_or(0), table.total_ns);
    // Without rows there is no report to have a unit: every value has its own.
    let shown = |ns: u64| value(ns, if rows.is_empty() { Unit::of(ns) } else { unit });

    let mut line = |arguments: std::fmt::Arguments| {
        // A String takes everything.
        let _ = out.write_fmt(arguments);
        out.push('\n');
    };
    line(format_args!("File: {}", heading.file));
    line(format_args!("Type: {}", kind(heading.clock)));
    if let Some(duration_ns) = heading.duration_ns {
        let share = match table.total_ns {
            0 => String::new(),
            total_ns => format!("({})", percentage(total_ns, duration_ns)),
        };
        let (duration, total) = (value(duration_ns, Unit::of(duration_ns)), shown(table.total_ns));
        line(format_args!("Duration: {duration}, Total samples = {total} {share}"));
    }
    let misses = misses(&heading.lost_ticks, &heading.lost_ns, table.total_ns);
    line(format_args!("Samples: {} ({misses})", count(table.samples)));
    let filters = active(heading.filters);
    if !filters.is_empty() {
        line(format_args!("Active filters:"));
        filters.iter().for_each(|filter| line(format_args!("   {filter}")));
    }
    let shown_ns = flat_ns(&mut rows.iter().copied());
    let share = percentage(shown_ns, table.total_ns);
    let (part, total) = (shown(shown_ns), shown(table.total_ns));
    line(format_args!("Showing nodes accounting for {part}, {} of {total} total", share.trim()));
    let dropped = table.rows.len() - enough.len();
    if table.total_ns > 0 && dropped > 0 {
        let plural = if dropped > 1 { "s" } else { "" };
        line(format_args!("Dropped {dropped} node{plural} (cum <= {})", shown(part_ns(table.total_ns))));
    }
    if table.total_ns > 0 && (1..enough.len()).contains(&rows.len()) {
        line(format_args!("Showing top {} nodes out of {}", rows.len(), enough.len()));
    }
    line(format_args!("{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum"));
    let mut sum_ns = 0u64;
    for row in rows {
        sum_ns = sum_ns.saturating_add(row.flat_ns);
        let [flat, sum, cum] = [row.flat_ns, sum_ns, row.cum_ns].map(|ns| percentage(ns, table.total_ns));
        let (flat_value, cum_value) = (shown(row.flat_ns), shown(row.cum_ns));
        let mark = match row.inline {
            Inline::No => "",
            Inline::Partial => " (partial-inline)",
            Inline::Yes => " (inline)",
        };
        line(format_args!("{flat_value:>10} {flat} {sum} {cum_value:>10} {cum}  {}{mark}", row.full));
    }
}

/// pprof's name of what a clock measures.
pub(super) fn kind(clock: Clock) -> &'static str {
    match clock {
        Clock::Prof => "cpu",
        Clock::Real => "wall",
        Clock::Virtual => "user",
    }
}

/// The part of the time that was lost, with the ticks lost by each cause:
/// `0.16% miss rate: 2 ring full, 1 socket full`.
pub(super) fn misses(lost_ticks: &[u64; Loss::ALL.len()], lost_ns: &[u64; Loss::ALL.len()], sampled_ns: u64) -> String {
    let lost_ns = lost_ns.iter().fold(0u64, |sum, &ns| sum.saturating_add(ns));
    let all_ns = lost_ns.saturating_add(sampled_ns).max(1);
    let mut text = format!("{:.2}% miss rate", lost_ns as f64 / all_ns as f64 * 100.0);
    let causes = Loss::ALL.into_iter().zip(lost_ticks).filter(|(_, ticks)| **ticks > 0);
    for (index, (loss, &ticks)) in causes.enumerate() {
        text += if index == 0 { ": " } else { ", " };
        text += &count(ticks);
        text += match loss {
            Loss::RingFull => " ring full",
            Loss::NoSlot => " no slot",
            Loss::NotReady => " not ready",
            Loss::SocketFull => " socket full",
            Loss::NoTimer => " no timer",
            Loss::Unseen => " unseen",
        };
    }
    text
}

/// The filters in force, one line each; several of a kind are one regular expression to pprof.
fn active(filters: &Filters) -> Vec<String> {
    let Filters { focus, ignore, hide, show, show_from, tagfocus, tagignore } = filters;
    let patterns = [("focus", focus), ("ignore", ignore), ("hide", hide), ("show", show), ("show_from", show_from)];
    let patterns = patterns.map(|(name, patterns)| (name, patterns.iter().map(Pattern::text).collect::<Vec<_>>()));
    let tags = [("tagfocus", tagfocus), ("tagignore", tagignore)];
    let tags = tags.map(|(name, tags)| (name, tags.iter().map(Tag::text).collect()));
    let told = |(name, texts): (&str, Vec<&str>)| {
        let mut text = format!("{name}={}", texts.join("|"));
        if text.len() > MAX_FILTER {
            let end = (0..=MAX_FILTER).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        text
    };
    patterns.into_iter().chain(tags).filter(|(_, texts)| !texts.is_empty()).map(told).collect()
}

//! pprof's `-top` table of a live profile: header lines, then one row for each function.
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
//! Where foreign code is folded, the part of flat that is of libraries follows cum%, and the
//! heaviest library call follows the name: `main::encode -> serde_json::to_string`.
//!
//! All lines are pprof's, except for `Samples:`, and all columns, except for lat% if rows are sorted
//! by it and, of memory, for the margin of cum% in percentage points and the number of allocations
//! with its margin (both of 95 %). The unit is chosen for the rows that are shown, as
//! in pprof. There is one difference: pprof derives the `(inline)` mark from the rows that it shows
//! and ignores edges below 0.1 % of the total, so the mark depends on other rows. Here the mark
//! considers all calls, as pprof does with `-edgefraction=0`.
//!
//! [`report`](super::report) prints the same table for saved profiles, where values may have any
//! unit. `tests/report/screen.rs` checks that both agree.

use std::fmt::Write;

use crate::profile::Clock;
use crate::profile::loss::LossCause;
use crate::symbols::sanitize::sanitize;
use crate::tally::measure::{ValueUnit, count, margin, percentage, rough_count, rough_share, value};
use crate::tally::query::tags::TagFilter;
use crate::tally::query::{Filters, OwnCode, Pattern, Sort};
use crate::tally::top::{InlineState, TopRow, TopTable};

/// The facts in the header lines.
#[derive(Clone, Copy, Debug)]
pub struct TopHeader<'a> {
    /// The name of the program.
    pub file: &'a str,
    /// The clock that is shown.
    pub clock: Clock,
    /// The duration of the measurement.
    pub duration_ns: Option<u64>,
    /// The number of ticks lost in the table's time span, by [`LossCause`].
    pub lost_ticks: [u64; LossCause::ALL.len()],
    /// The weight of the lost ticks, ns. A tick may stand for several periods.
    pub lost_ns: [u64; LossCause::ALL.len()],
    /// The active filters.
    pub filters: &'a Filters,
    /// Whether foreign code is folded into own code.
    pub own: &'a OwnCode,
    /// The order of the rows. By latency, they have the column `lat%`, which pprof has not.
    pub sort: Sort,
}

/// The limits of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopLimits {
    /// The minimum cum of a row, as a fraction of what the filters leave.
    pub nodefraction: f64,
    /// The maximum number of rows; `None` for all.
    pub nodecount: Option<usize>,
}

impl Default for TopLimits {
    /// pprof's defaults on the command line.
    fn default() -> TopLimits {
        TopLimits { nodefraction: 0.005, nodecount: None }
    }
}

/// Maximum length of a filter in the header, in bytes.
const MAX_FILTER: usize = 80;

/// The rows of a table within its limits, and their unit.
pub(super) struct SelectedRows<'a> {
    /// The rows that are heavy enough.
    pub(super) large: Vec<&'a TopRow>,
    /// The number of them that are shown.
    shown: usize,
    /// The minimum cum of a row, as a fraction of the total.
    fraction: f64,
    /// The unit of all values, or `None` without rows: then there is no common unit.
    unit: Option<ValueUnit>,
    clock: Clock,
}

impl<'a> SelectedRows<'a> {
    pub(super) fn new(clock: Clock, table: &'a TopTable, limits: &TopLimits) -> SelectedRows<'a> {
        let flat_ns = table.rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.flat_ns));
        let cutoff_ns = (flat_ns as f64 * limits.nodefraction) as u64;
        let large: Vec<&TopRow> = table.rows.iter().filter(|row| row.cum_ns >= cutoff_ns).collect();
        let shown = limits.nodecount.unwrap_or(usize::MAX).min(large.len());
        let value_ns =
            |row: &&TopRow| Some(if row.flat_ns > 0 { row.flat_ns } else { row.cum_ns }).filter(|&ns| ns > 0);
        let smallest_ns = large[..shown].iter().filter_map(value_ns).min().unwrap_or(0);
        let unit = (shown > 0).then(|| ValueUnit::for_report(clock, smallest_ns, table.total_ns));
        SelectedRows { large, shown, fraction: limits.nodefraction, unit, clock }
    }

    pub(super) fn rows(&self) -> &[&'a TopRow] {
        &self.large[..self.shown]
    }

    /// The sum of the flats of the rows.
    pub(super) fn sum_ns(&self) -> u64 {
        self.rows().iter().fold(0u64, |sum, row| sum.saturating_add(row.flat_ns))
    }

    fn value(&self, ns: u64) -> String {
        value(ns, self.unit.unwrap_or_else(|| ValueUnit::largest_in(self.clock, ns)))
    }
}

/// Appends the table to `out`. The rows keep their order.
pub fn write_top(out: &mut String, header: &TopHeader, table: &TopTable, limits: &TopLimits) {
    let selected = SelectedRows::new(header.clock, table, limits);
    let mut line = |arguments: std::fmt::Arguments| {
        // Writing to a String cannot fail.
        let _ = out.write_fmt(arguments);
        out.push('\n');
    };
    line(format_args!("File: {}", sanitize(header.file)));
    line(format_args!("Type: {}", sample_kind(header.clock)));
    if let Some(duration_ns) = header.duration_ns {
        let share = match table.total_ns {
            0 => String::new(),
            // Bytes are no share of a duration.
            _ if header.clock.is_memory() => String::new(),
            total_ns => format!("({})", percentage(total_ns, duration_ns)),
        };
        let (duration, total) =
            (value(duration_ns, ValueUnit::largest_in(Clock::Real, duration_ns)), selected.value(table.total_ns));
        line(format_args!("Duration: {duration}, Total samples = {total} {share}"));
    }
    let losses = format_losses(&header.lost_ticks, &header.lost_ns, table.total_ns);
    line(format_args!("Samples: {} ({losses})", format_samples(header.clock, table.samples, table.latency_ns)));
    write_selected(out, header, table, &selected);
}

/// Appends the table to `out` without the lines about the profile.
pub fn write_rows(out: &mut String, header: &TopHeader, table: &TopTable, limits: &TopLimits) {
    write_selected(out, header, table, &SelectedRows::new(header.clock, table, limits));
}

fn write_selected(out: &mut String, header: &TopHeader, table: &TopTable, selected: &SelectedRows) {
    let mut line = |arguments: std::fmt::Arguments| {
        // Writing to a String cannot fail.
        let _ = out.write_fmt(arguments);
        out.push('\n');
    };
    let (rows, shown) = (selected.rows(), |ns: u64| selected.value(ns));
    let filters = active_filters(header.filters, header.own);
    if !filters.is_empty() {
        line(format_args!("Active filters:"));
        filters.iter().for_each(|filter| line(format_args!("   {filter}")));
    }
    let shown_ns = selected.sum_ns();
    let share = percentage(shown_ns, table.total_ns);
    let (sum, total) = (shown(shown_ns), shown(table.total_ns));
    line(format_args!("Showing nodes accounting for {sum}, {} of {total} total", share.trim()));
    let dropped = table.rows.len() - selected.large.len();
    if table.total_ns > 0 && dropped > 0 {
        let plural = if dropped > 1 { "s" } else { "" };
        let cutoff_ns = (table.total_ns as f64 * selected.fraction) as u64;
        line(format_args!("Dropped {dropped} node{plural} (cum <= {})", shown(cutoff_ns)));
    }
    if table.total_ns > 0 && (1..selected.large.len()).contains(&rows.len()) {
        line(format_args!("Showing top {} nodes out of {}", rows.len(), selected.large.len()));
    }
    let has_latency = header.sort == Sort::Latency && !header.clock.is_memory();
    let latency = match header.clock.is_memory() {
        true => "   cum±      count",
        false if has_latency => "   lat%",
        false => "",
    };
    let library = if header.own.folds { "    library" } else { "" };
    let latency = format!("{latency}{library}");
    line(format_args!("{:>10} {:>5}% {:>5}% {:>10} {:>5}%{latency}", "flat", "flat", "sum", "cum", "cum"));
    let mut sum_ns = 0u64;
    for row in rows {
        sum_ns = sum_ns.saturating_add(row.flat_ns);
        let [flat, sum, cum] = [row.flat_ns, sum_ns, row.cum_ns].map(|ns| percentage(ns, table.total_ns));
        let (flat_value, cum_value) = (shown(row.flat_ns), shown(row.cum_ns));
        let mark = inline_mark(row.inline);
        let latency = match has_latency {
            _ if header.clock.is_memory() => {
                let samples = table.independent_samples(row.cum_ns, row.latency_ns, false);
                let margin = margin(row.cum_ns, table.total_ns, samples).unwrap_or(0.0) * 100.0;
                let count = rough_count(row.latency_ns, table.count_margin(row.cum_ns, row.latency_ns));
                format!(" {:>6} {count:>10}", format!("±{margin:.1}"))
            }
            true => {
                format!(" {:>6}", rough_share(row.latency_ns, table.latency_ns, table.samples, table.unknown_latency).0)
            }
            false => String::new(),
        };
        let library = if header.own.folds { format!(" {:>10}", shown(row.library_ns)) } else { String::new() };
        let call = library_call(row);
        line(format_args!(
            "{flat_value:>10} {flat} {sum} {cum_value:>10} {cum}{latency}{library}  {}{mark}{call}",
            row.full
        ));
    }
}

/// Columns of a row before the name, on a clock and in this order of rows.
pub fn columns_before_name(clock: Clock, sort: Sort, own: &OwnCode) -> usize {
    let library = if own.folds { 11 } else { 0 };
    library
        + match (clock.is_memory(), sort) {
            (true, _) => 62,
            (false, Sort::Latency) => 51,
            (false, _) => 44,
        }
}

/// The heaviest library call, as it follows the name where foreign code is folded.
pub fn library_call(row: &TopRow) -> String {
    if row.library_call.is_empty() { String::new() } else { format!(" -> {}", row.library_call) }
}

/// pprof's mark behind the name of an inlined function.
pub fn inline_mark(inline: InlineState) -> &'static str {
    match inline {
        InlineState::No => "",
        InlineState::Partial => " (partial-inline)",
        InlineState::Yes => " (inline)",
    }
}

/// pprof's name for the sample type of a clock.
pub(super) fn sample_kind(clock: Clock) -> &'static str {
    clock.names().sample_type
}

/// Formats the number of samples and, on a clock of memory, of the allocations that they stand for.
pub(super) fn format_samples(clock: Clock, samples: u64, objects: u64) -> String {
    match clock.is_memory() {
        true => format!("{} of {} allocations", count(samples), count(objects)),
        false => count(samples),
    }
}

/// Formats the share of time that was lost and the number of ticks lost by each cause:
/// `0.16% miss rate: 2 ring full, 1 socket full`.
pub fn format_losses(
    lost_ticks: &[u64; LossCause::ALL.len()],
    lost_ns: &[u64; LossCause::ALL.len()],
    sampled_ns: u64,
) -> String {
    let lost_ns = lost_ns.iter().fold(0u64, |sum, &ns| sum.saturating_add(ns));
    let all_ns = lost_ns.saturating_add(sampled_ns).max(1);
    let mut text = format!("{:.2}% miss rate", lost_ns as f64 / all_ns as f64 * 100.0);
    let causes = LossCause::ALL.into_iter().zip(lost_ticks).filter(|(_, ticks)| **ticks > 0);
    for (index, (loss, &ticks)) in causes.enumerate() {
        text += if index == 0 { ": " } else { ", " };
        text += &format!("{} {}", count(ticks), loss.short());
    }
    text
}

/// The active filters, one line each. pprof joins several filters of one kind to one regular
/// expression.
pub(super) fn active_filters(filters: &Filters, own: &OwnCode) -> Vec<String> {
    let Filters { focus, ignore, hide, show, show_from, tagfocus, tagignore } = filters;
    let patterns = [("focus", focus), ("ignore", ignore), ("hide", hide), ("show", show), ("show_from", show_from)];
    let patterns = patterns.map(|(name, patterns)| (name, patterns.iter().map(Pattern::text).collect::<Vec<_>>()));
    let own = own.pattern.as_ref().filter(|_| own.folds).map(Pattern::text);
    let own = [("own", Vec::from_iter(own))];
    let tags = [("tagfocus", tagfocus), ("tagignore", tagignore)];
    let tags = tags.map(|(name, tags)| (name, tags.iter().map(TagFilter::text).collect()));
    let format = |(name, texts): (&str, Vec<&str>)| {
        let mut text = format!("{name}={}", texts.join("|"));
        if text.len() > MAX_FILTER {
            let end = (0..=MAX_FILTER).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        text
    };
    patterns.into_iter().chain(own).chain(tags).filter(|(_, texts)| !texts.is_empty()).map(format).collect()
}

//! The header lines of a report: facts about the profile, active filters, and what is left out.

use jiff::Timestamp;

use super::options::{ReportKind, ReportOptions};
use super::printer::ReportPrinter;
use crate::pprof::path::base;
use crate::pprof::tag_filter::TagFilter;
use crate::pprof::trim::TrimmedGraph;
use crate::pprof::units::{label, percentage, scale};
use crate::tally::query::Pattern;

/// Maximum length of a filter, in bytes.
const MAX_FILTER: usize = 80;

impl ReportPrinter<'_> {
    /// The lines about the profile.
    pub(super) fn profile_header(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let profile = &self.profile;
        if let Some(first) = profile.mappings.first() {
            if !first.file.is_empty() {
                lines.push(format!("File: {}", base(&first.file)));
            }
            if !first.build_id.is_empty() {
                lines.push(format!("Build ID: {}", first.build_id));
            }
        }
        lines
            .extend(profile.comments.iter().filter(|text| !text.starts_with('#')).map(|text| text.as_str().to_owned()));
        let of = &profile.sample_types[self.value];
        if !self.value_name().is_empty() {
            lines.push(format!("Type: {}", self.value_name()));
        }
        if !profile.doc_url.is_empty() {
            lines.push(format!("Doc: {}", profile.doc_url));
        }
        if profile.time_ns != 0
            && let Ok(time) = Timestamp::from_nanosecond(profile.time_ns.into())
        {
            let local = time.to_zoned(self.options.zone.clone());
            lines.push(format!("Time: {}", local.strftime("%Y-%m-%d %H:%M:%S %Z")));
        }
        if profile.duration_ns != 0 {
            let duration = label(profile.duration_ns, "nanoseconds");
            let (total_ns, unit) = scale(self.total, &of.unit, "nanoseconds");
            let share = if unit == "ns" && total_ns != 0.0 {
                format!("({})", percentage(total_ns as i64, profile.duration_ns))
            } else {
                String::new()
            };
            lines.push(format!("Duration: {duration}, Total samples = {} {share}", self.format(self.total)));
        }
        lines
    }

    /// The lines about the profile and about what the report shows of it.
    pub(super) fn header(&self, trimmed: &TrimmedGraph) -> Vec<String> {
        let is_graph = self.options.kind == ReportKind::Dot;
        let mut lines = if is_graph || !self.options.compact_labels { self.profile_header() } else { Vec::new() };
        let filters = active_filters(self.options);
        if !filters.is_empty() {
            lines.push("Active filters:".to_owned());
            lines.extend(filters.into_iter().map(|filter| format!("   {filter}")));
        }
        let shown = trimmed.graph.shown_total();
        lines.push(format!(
            "Showing nodes accounting for {}, {} of {} total",
            self.format(shown),
            percentage(shown, self.total).trim(),
            self.format(self.total)
        ));
        if self.total != 0 {
            let cutoff = |fraction: f64| self.format(((self.total as f64 * fraction) as i64).wrapping_abs());
            let dropped = |count: usize, what: &str, by: &str, fraction: f64| {
                let plural = if count > 1 { "s" } else { "" };
                format!("Dropped {count} {what}{plural} ({by} <= {})", cutoff(fraction))
            };
            if trimmed.dropped_nodes > 0 {
                lines.push(dropped(trimmed.dropped_nodes, "node", "cum", self.options.nodefraction));
            }
            if is_graph && trimmed.dropped_edges > 0 {
                lines.push(dropped(trimmed.dropped_edges, "edge", "freq", self.options.edgefraction));
            }
            let count = trimmed.graph.order.len();
            if count > 0 && count < trimmed.candidate_nodes {
                lines.push(format!("Showing top {count} nodes out of {}", trimmed.candidate_nodes));
            }
        }
        if is_graph {
            lines.push("\nSee https://git.io/JfYMW for how to read the graph".to_owned());
        }
        lines
    }
}

/// The active filters, one line each. pprof joins several filters of one kind to one regular
/// expression.
pub(super) fn active_filters(options: &ReportOptions) -> Vec<String> {
    let joined = |patterns: &[Pattern]| patterns.iter().map(Pattern::text).collect::<Vec<&str>>().join("|");
    let filters = &options.filters;
    let tag = |filter: &Option<TagFilter>| filter.as_ref().map_or(String::new(), |filter| filter.text().to_owned());
    let all = [
        ("focus", joined(&filters.focus)),
        ("ignore", joined(&filters.ignore)),
        ("hide", joined(&filters.hide)),
        ("show", joined(&filters.show)),
        ("show_from", joined(&filters.show_from)),
        ("own", options.own.pattern.as_ref().filter(|_| options.own.folds).map_or("", Pattern::text).to_owned()),
        ("tagfocus", tag(&options.tagfocus)),
        ("tagignore", tag(&options.tagignore)),
        ("tagshow", joined(options.tagshow.as_slice())),
        ("taghide", joined(options.taghide.as_slice())),
    ];
    let format = |(name, text): (&str, String)| {
        let mut text = format!("{name}={text}");
        if text.len() > MAX_FILTER {
            let end = (0..=MAX_FILTER).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        text
    };
    all.into_iter().filter(|(_, text)| !text.is_empty()).map(format).collect()
}

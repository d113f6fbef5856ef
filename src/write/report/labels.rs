//! The lines above a report: on the profile, the filters, and what is left out.

use jiff::Timestamp;

use super::{Form, Options, Print};
use crate::tally::query::Pattern;
use crate::tally::saved::graph::base;
use crate::tally::saved::trim::Trimmed;
use crate::tally::units::{label, percentage, scale};

/// Bytes of a filter's text.
const MAX_FILTER: usize = 80;

impl Print<'_> {
    /// On the profile itself.
    pub(super) fn profile_labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        let saved = &self.saved;
        if let Some(first) = saved.mappings.first() {
            if !first.file.is_empty() {
                labels.push(format!("File: {}", base(&first.file)));
            }
            if !first.build_id.is_empty() {
                labels.push(format!("Build ID: {}", first.build_id));
            }
        }
        labels.extend(saved.comments.iter().filter(|text| !text.starts_with('#')).map(|text| text.as_str().to_owned()));
        let of = &saved.sample_types[self.value];
        if !self.kind().is_empty() {
            labels.push(format!("Type: {}", self.kind()));
        }
        if !saved.doc_url.is_empty() {
            labels.push(format!("Doc: {}", saved.doc_url));
        }
        if saved.time_ns != 0
            && let Ok(time) = Timestamp::from_nanosecond(saved.time_ns.into())
        {
            let local = time.to_zoned(self.options.zone.clone());
            labels.push(format!("Time: {}", local.strftime("%Y-%m-%d %H:%M:%S %Z")));
        }
        if saved.duration_ns != 0 {
            let duration = label(saved.duration_ns, "nanoseconds");
            let (total_ns, unit) = scale(self.total, &of.unit, "nanoseconds");
            let share = if unit == "ns" && total_ns != 0.0 {
                format!("({})", percentage(total_ns as i64, saved.duration_ns))
            } else {
                String::new()
            };
            labels.push(format!("Duration: {duration}, Total samples = {} {share}", self.shown(self.total)));
        }
        labels
    }

    /// On the profile and on what is shown of it.
    pub(super) fn labels(&self, trimmed: &Trimmed) -> Vec<String> {
        let is_graph = self.options.form == Form::Dot;
        let mut labels = if is_graph || !self.options.compact_labels { self.profile_labels() } else { Vec::new() };
        let filters = active(self.options);
        if !filters.is_empty() {
            labels.push("Active filters:".to_owned());
            labels.extend(filters.into_iter().map(|filter| format!("   {filter}")));
        }
        let shown = trimmed.graph.shown_total();
        labels.push(format!(
            "Showing nodes accounting for {}, {} of {} total",
            self.shown(shown),
            percentage(shown, self.total).trim(),
            self.shown(self.total)
        ));
        if self.total != 0 {
            let least = |fraction: f64| self.shown(((self.total as f64 * fraction) as i64).wrapping_abs());
            let dropped = |count: usize, what: &str, by: &str, fraction: f64| {
                let plural = if count > 1 { "s" } else { "" };
                format!("Dropped {count} {what}{plural} ({by} <= {})", least(fraction))
            };
            if trimmed.dropped_nodes > 0 {
                labels.push(dropped(trimmed.dropped_nodes, "node", "cum", self.options.nodefraction));
            }
            if is_graph && trimmed.dropped_edges > 0 {
                labels.push(dropped(trimmed.dropped_edges, "edge", "freq", self.options.edgefraction));
            }
            let count = trimmed.graph.order.len();
            if count > 0 && count < trimmed.enough {
                labels.push(format!("Showing top {count} nodes out of {}", trimmed.enough));
            }
        }
        if is_graph {
            labels.push("\nSee https://git.io/JfYMW for how to read the graph".to_owned());
        }
        labels
    }
}

/// The filters in force, one line each; several of a kind are one regular expression to pprof.
fn active(options: &Options) -> Vec<String> {
    let joined = |patterns: &Vec<Pattern>| patterns.iter().map(Pattern::text).collect::<Vec<&str>>().join("|");
    let filters = &options.filters;
    let tag = |filter: &Option<crate::tally::saved::tags::TagFilter>| {
        filter.as_ref().map_or(String::new(), |filter| filter.text().to_owned())
    };
    let all = [
        ("focus", joined(&filters.focus)),
        ("ignore", joined(&filters.ignore)),
        ("hide", joined(&filters.hide)),
        ("show", joined(&filters.show)),
        ("show_from", joined(&filters.show_from)),
        ("tagfocus", tag(&options.tagfocus)),
        ("tagignore", tag(&options.tagignore)),
    ];
    let told = |(name, text): (&str, String)| {
        let mut text = format!("{name}={text}");
        if text.len() > MAX_FILTER {
            let end = (0..=MAX_FILTER).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        text
    };
    all.into_iter().filter(|(_, text)| !text.is_empty()).map(told).collect()
}

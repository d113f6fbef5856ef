//! The table of [`live_top`](super::live_top) as JSON: the same rows and the same numbers.

use serde_json::{Value, json};

use super::json::{JsonObject, insert_share, members, recordings};
use super::live_top::{SelectedRows, TopHeader, TopLimits, active_filters, sample_kind};
use super::profile::{RecordingFacts, SavedLoss};
use crate::symbols::sanitize::sanitize;
use crate::tally::measure::percent_of;
use crate::tally::query::Sort;
use crate::tally::top::{InlineState, TopRow, TopTable};

/// The facts that the header lines of the text do not have.
#[derive(Clone, Debug)]
pub struct TopJsonFacts {
    /// The command as launched, or that of the process attached to.
    pub command: String,
    /// The processes.
    pub pids: Vec<u32>,
    /// The word of the engine; empty if unknown.
    pub engine: &'static str,
    /// The sampling period, ns or bytes; 0 if unknown.
    pub period: u64,
    /// The number of ticks per second of the clock, or `None` if unknown.
    pub achieved_hz: Option<f64>,
    /// The share of CPU time without samples in percent, if it is significant.
    pub unsampled_percent: Option<u32>,
    /// Whether the table is that of all samples, at the end.
    pub is_last: bool,
}

/// Returns the table as an object of the schema `sigtop.top.v1`. The rows keep their order.
pub fn to_json(header: &TopHeader, facts: &TopJsonFacts, table: &TopTable, limits: &TopLimits) -> Value {
    let selected = SelectedRows::new(header.clock, table, limits);
    let by_count = selected.large.len() - selected.rows().len();
    let by_fraction = table.rows.len() - selected.large.len();
    let recording = RecordingFacts {
        command: facts.command.as_str().into(),
        engine: facts.engine.into(),
        losses: SavedLoss::list(&header.lost_ticks, &header.lost_ns),
        ..RecordingFacts::default()
    };
    let (kind, unit) = (sample_kind(header.clock), header.clock.unit());
    let mut sum = 0u64;
    let row = |row: &&TopRow| {
        sum = sum.saturating_add(row.flat_ns);
        json_row(header, table.total_ns, row, sum)
    };
    json!({
        "schema": "sigtop.top.v1",
        "file": sanitize(header.file),
        "type": kind,
        "unit": unit,
        "duration_ns": header.duration_ns.unwrap_or(0),
        "period": {"type": kind, "unit": unit, "value": facts.period},
        "recordings": recordings(&[recording]),
        "filters": active_filters(header.filters, header.own),
        "total": table.total_ns,
        "shown": selected.sum_ns(),
        "omitted": by_fraction + by_count,
        "omitted_by_fraction": by_fraction,
        "omitted_by_count": by_count,
        "samples": table.samples,
        "achieved_hz": facts.achieved_hz,
        "pids": facts.pids,
        "is_last": facts.is_last,
        "unsampled_percent": facts.unsampled_percent,
        "rows": selected.rows().iter().map(row).collect::<Vec<Value>>(),
    })
}

fn json_row(header: &TopHeader, total: u64, row: &TopRow, sum: u64) -> Value {
    let inline = match row.inline {
        InlineState::No => "no",
        InlineState::Partial => "partial",
        InlineState::Yes => "yes",
    };
    let mut object: JsonObject = members(json!({"name": &*row.full, "inline": inline, "module": &*row.module}));
    if !row.owner.is_empty() {
        object.insert("owner".to_owned(), (&*row.owner).into());
    }
    for (name, value) in [("flat", row.flat_ns), ("sum", sum), ("cum", row.cum_ns)] {
        insert_share(&mut object, name, value.into(), percent_of(value, total));
    }
    if header.clock.is_memory() {
        object.insert("count".to_owned(), row.latency_ns.into());
    } else if header.sort == Sort::Latency {
        object.insert("latency".to_owned(), row.latency_ns.into());
    }
    if header.own.folds {
        object.insert("library".to_owned(), row.library_ns.into());
        object.insert("library_call".to_owned(), (&*row.library_call).into());
    }
    object.into()
}

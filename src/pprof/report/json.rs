//! Reports as JSON. A report is built once as a value; text and JSON are two printers of it, so
//! their numbers are equal. `assets/schemas` describes the objects.
//!
//! Values are integers in the profile's unit, percentages are not rounded, and a report that leaves
//! rows out says how many.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::header::active_filters;
use super::options::ReportKind;
use super::printer::ReportPrinter;
use crate::pprof::json::{JsonObject, insert_share, members, recordings};
use crate::pprof::path::base;
use crate::pprof::trim::TrimmedGraph;
use crate::pprof::units::percent_of;

impl ReportPrinter<'_> {
    /// The kind of the report as JSON calls it: the schema is `sigtop.KIND.v1`.
    fn schema(&self) -> String {
        let kind = match &self.options.kind {
            ReportKind::Tree | ReportKind::Peek(_) => "tree",
            ReportKind::List(_) => "list",
            ReportKind::Disasm(_) => "disasm",
            ReportKind::Method(_) => "method",
            ReportKind::Traces => "traces",
            ReportKind::Tags => "tags",
            ReportKind::Comments => "comments",
            ReportKind::Raw => "raw",
            _ => "top",
        };
        format!("sigtop.{kind}.v1")
    }

    /// The head: what the header lines of the text say, in numbers.
    pub(super) fn json_head(&self, trimmed: Option<&TrimmedGraph>) -> JsonObject {
        let profile = &self.profile;
        let main = profile.mappings.first();
        let mut head = members(json!({
            "schema": self.schema(),
            "file": main.map_or("", |main| base(&main.file)),
            "build_id": main.map_or("", |main| &*main.build_id),
            "type": self.value_name(),
            "unit": self.profile_unit(),
            "time_unix_ns": profile.time_ns,
            "duration_ns": profile.duration_ns,
            "period": {"type": &*profile.period_type.kind, "unit": &*profile.period_type.unit, "value": profile.period},
            "comments": profile.comments.iter().map(|comment| &**comment).collect::<Vec<&str>>(),
            "recordings": recordings(&profile.recordings),
            "filters": active_filters(self.options),
            "total": self.divide(self.total),
        }));
        if let Some(trimmed) = trimmed {
            let by_count = trimmed.candidate_nodes - trimmed.graph.order.len();
            head.extend(members(json!({
                "shown": self.divide(trimmed.graph.shown_total()),
                "omitted": trimmed.dropped_nodes + by_count,
                "omitted_by_fraction": trimmed.dropped_nodes,
                "omitted_by_count": by_count,
            })));
            if matches!(self.options.kind, ReportKind::Tree | ReportKind::Peek(_)) {
                head.insert("omitted_edges".to_owned(), trimmed.dropped_edges.into());
            }
        }
        head
    }

    /// A value and its share of the total under two names: `flat` and `flat_percent`.
    pub(super) fn json_value(&self, name: &str, value: i64, total: i64) -> JsonObject {
        let mut object = JsonObject::new();
        insert_share(&mut object, name, self.divide(value).into(), percent_of(value, total));
        object
    }

    /// Writes the report: the head and one list.
    pub(super) fn write_json(
        &self,
        out: &mut dyn Write,
        trimmed: Option<&TrimmedGraph>,
        list: &str,
        rows: Vec<Value>,
    ) -> io::Result<()> {
        let mut report = self.json_head(trimmed);
        report.insert(list.to_owned(), rows.into());
        write_line(out, &report.into())
    }

    /// Writes the report: the head, more members, and one list that is too long to be kept in
    /// memory. `rows` passes each element to its argument.
    pub(super) fn write_json_stream(
        &self,
        out: &mut dyn Write,
        more: JsonObject,
        list: &str,
        rows: impl FnOnce(&mut dyn FnMut(&Value)),
    ) -> io::Result<()> {
        let mut head = self.json_head(None);
        head.extend(more);
        let head = Value::from(head).to_string();
        write!(out, "{},\"{list}\":[", head.strip_suffix('}').unwrap_or(&head))?;
        let (mut is_first, mut failed) = (true, Ok(()));
        rows(&mut |row| {
            if failed.is_ok() {
                let comma = if std::mem::take(&mut is_first) { "" } else { "," };
                failed = write!(out, "{comma}{row}");
            }
        });
        failed?;
        writeln!(out, "]}}")
    }
}

/// Writes one object on one line.
fn write_line(out: &mut dyn Write, object: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    writeln!(out)
}

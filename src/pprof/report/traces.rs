//! `-traces`: the labels and the stack of every sample, leaf first.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::printer::ReportPrinter;
use crate::pprof::graph::{NodeTable, mean};
use crate::pprof::json::JsonObject;
use crate::pprof::profile::{Label, LabelValue};
use crate::pprof::units::label;

const SEPARATOR: &str = "-----------+-------------------------------------------------------";

/// A sample with the names of its functions.
struct Trace<'n> {
    /// The index of its label set.
    labels: u32,
    value: i64,
    /// The functions, leaf first, and whether each is inlined.
    frames: Vec<(&'n str, bool)>,
}

impl ReportPrinter<'_> {
    pub(super) fn print_traces(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.options.json {
            writeln!(out, "{}", self.profile_header().join("\n"))?;
        }
        let (profile, nodes) = (&self.profile, self.build_nodes_with_full_paths());
        let units = &self.label_units;
        let format_labels = |labels: &[Label]| {
            let (mut texts, mut numbers) = (BTreeMap::<&str, Vec<String>>::new(), BTreeMap::<&str, Vec<String>>::new());
            for Label { key, value } in labels {
                match value {
                    LabelValue::Text(text) => texts.entry(key).or_default().push(text.as_str().to_owned()),
                    LabelValue::Number(number, _) => {
                        let unit = units.get(key).map_or("", |unit| unit.as_str());
                        numbers.entry(key).or_default().push(label(*number, unit));
                    }
                }
            }
            let lines = |of: BTreeMap<&str, Vec<String>>| {
                let lines = of.into_iter().map(|(key, values)| format!("{key:>10}:  {}\n", values.join(" ")));
                let mut lines: Vec<String> = lines.collect();
                lines.sort();
                lines.concat()
            };
            lines(texts) + &lines(numbers)
        };
        let sets: Vec<String> = profile.labels.iter().map(|labels| format_labels(labels)).collect();
        if self.options.json {
            return self.write_json_stream(out, JsonObject::new(), "samples", |emit| {
                self.for_each_trace(&nodes, |trace| emit(&self.json_trace(trace)));
            });
        }
        let mut failed = Ok(());
        let mut text = String::new();
        self.for_each_trace(&nodes, |trace| {
            if failed.is_err() {
                return;
            }
            text.clear();
            text += SEPARATOR;
            text.push('\n');
            text += sets.get(trace.labels as usize).map_or("", String::as_str);
            let mut value = self.format(trace.value);
            for (name, is_inlined) in &trace.frames {
                let mark = if *is_inlined { " (inline)" } else { "" };
                text += &format!("{value:>10}   {name}{mark}\n");
                value.clear();
            }
            failed = out.write_all(text.as_bytes());
        });
        failed?;
        writeln!(out, "{SEPARATOR}")
    }

    /// Calls `visit` with every sample that has a stack.
    fn for_each_trace<'n>(&self, nodes: &'n NodeTable, mut visit: impl FnMut(&Trace<'n>)) {
        let mut trace = Trace { labels: 0, value: 0, frames: Vec::new() };
        self.profile.samples.for_each(|sample| {
            if sample.stack.is_empty() {
                return;
            }
            let divisor = if self.options.mean { sample.values[0] } else { 0 };
            trace.labels = sample.labels;
            trace.value = mean(sample.values[self.value], divisor);
            trace.frames.clear();
            for &location in sample.stack {
                let functions = nodes.at(location);
                let named = functions.iter().enumerate();
                trace.frames.extend(named.map(|(depth, &node)| (nodes.name(node), depth + 1 != functions.len())));
            }
            visit(&trace);
        });
    }

    fn json_trace(&self, trace: &Trace) -> Value {
        let frames = trace.frames.iter().map(|(name, is_inlined)| json!({"name": name, "inline": is_inlined}));
        json!({
            "value": self.divide(trace.value),
            "labels": json_labels(self.profile.labels.get(trace.labels as usize).map_or(&[], |labels| labels)),
            "frames": frames.collect::<Vec<Value>>(),
        })
    }
}

/// A label set as JSON. Keys may occur several times.
pub(super) fn json_labels(labels: &[Label]) -> Value {
    let one = |Label { key, value }: &Label| match value {
        LabelValue::Text(text) => json!({"key": &**key, "value": &**text}),
        LabelValue::Number(number, unit) => json!({"key": &**key, "value": number, "unit": &**unit}),
    };
    labels.iter().map(one).collect()
}

//! `-traces`: the labels and the stack of every sample, leaf first.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::printer::ReportPrinter;
use crate::pprof::graph::mean;
use crate::pprof::profile::{Label, LabelValue};
use crate::pprof::units::label;

const SEPARATOR: &str = "-----------+-------------------------------------------------------";

impl ReportPrinter<'_> {
    pub(super) fn print_traces(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.profile_header().join("\n"))?;
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
        let mut failed = None;
        let mut text = String::new();
        profile.samples.for_each(|sample| {
            if sample.stack.is_empty() || failed.is_some() {
                return;
            }
            text.clear();
            text += SEPARATOR;
            text.push('\n');
            text += sets.get(sample.labels as usize).map_or("", String::as_str);
            let divisor = if self.options.mean { sample.values[0] } else { 0 };
            let mut value = self.format(mean(sample.values[self.value], divisor));
            for &location in sample.stack {
                let functions = nodes.at(location);
                for (depth, &node) in functions.iter().enumerate() {
                    let mark = if depth + 1 == functions.len() { "" } else { " (inline)" };
                    text += &format!("{value:>10}   {}{mark}\n", nodes.name(node));
                    value.clear();
                }
            }
            failed = out.write_all(text.as_bytes()).err();
        });
        failed.map_or(Ok(()), Err)?;
        writeln!(out, "{SEPARATOR}")
    }
}

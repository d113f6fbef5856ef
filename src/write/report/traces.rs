//! `-traces`: every sample with its labels and its stack, leaf first.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Print;
use crate::tally::saved::graph::mean;
use crate::tally::saved::{Label, LabelValue};
use crate::tally::units::label;

const SEPARATOR: &str = "-----------+-------------------------------------------------------";

impl Print<'_> {
    pub(super) fn traces(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.profile_labels().join("\n"))?;
        let (saved, nodes) = (&self.saved, self.untrimmed_nodes());
        let units = saved.number_units();
        let told = |labels: &[Label]| {
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
        let sets: Vec<String> = saved.labels.iter().map(|labels| told(labels)).collect();
        let mut failed = None;
        let mut text = String::new();
        saved.samples.each(|sample| {
            if sample.stack.is_empty() || failed.is_some() {
                return;
            }
            text.clear();
            text += SEPARATOR;
            text.push('\n');
            text += sets.get(sample.labels as usize).map_or("", String::as_str);
            let divisor = if self.options.mean { sample.values[0] } else { 0 };
            let mut value = self.shown(mean(sample.values[self.value], divisor));
            for &location in sample.stack {
                let places = nodes.at(location);
                for (place, &node) in places.iter().enumerate() {
                    let mark = if place + 1 == places.len() { "" } else { " (inline)" };
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

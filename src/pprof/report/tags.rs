//! `-tags` and `-comments`: the labels of all samples with their values, and the profile's
//! comments.
//!
//! ```text
//!  thread: Total 1.80s of 2s (90.00%)
//!             1s (50.00%): worker-0
//!          0.80s (40.00%): worker-1
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::printer::ReportPrinter;
use crate::pprof::json::members;
use crate::pprof::profile::LabelValue;
use crate::pprof::units::{percentage, scaled_label};

/// The values of a label key with their sums.
struct TagSums {
    key: String,
    total: i64,
    tags: Vec<(String, i64)>,
}

impl ReportPrinter<'_> {
    pub(super) fn print_comments(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.options.json {
            let head = self.json_head(None);
            return writeln!(out, "{}", json!({"schema": head["schema"], "comments": head["comments"]}));
        }
        self.profile.comments.iter().try_for_each(|comment| writeln!(out, "{comment}"))
    }

    pub(super) fn print_tags(&self, out: &mut dyn Write) -> io::Result<()> {
        let keys = self.build_keys();
        if self.options.json {
            return self.write_json(out, None, "keys", keys.iter().map(|key| self.json_key(key)).collect());
        }
        keys.iter().try_for_each(|key| self.print_key(out, key))
    }

    fn build_keys(&self) -> Vec<TagSums> {
        let mut keys: Vec<(String, HashMap<String, i64>)> = self.sum_tags().into_iter().collect();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        let build = |(key, values): (String, HashMap<String, i64>)| {
            let total = values.values().fold(0i64, |sum, &value| sum.wrapping_add(value));
            let mut tags: Vec<(String, i64)> = values.into_iter().collect();
            tags.sort_by(|a, b| Reverse(a.1.unsigned_abs()).cmp(&Reverse(b.1.unsigned_abs())).then(a.0.cmp(&b.0)));
            TagSums { key, total, tags }
        };
        keys.into_iter().map(build).collect()
    }

    fn json_key(&self, TagSums { key, total, tags }: &TagSums) -> Value {
        let mut object = members(json!({"key": key}));
        object.extend(self.json_value("value", *total, self.total));
        let tag = |(tag, value): &(String, i64)| {
            let mut object = members(json!({"tag": tag}));
            object.extend(self.json_value("value", *value, self.total));
            Value::from(object)
        };
        object.insert("tags".to_owned(), tags.iter().map(tag).collect());
        object.into()
    }

    /// The sum of samples for each value of each label key.
    fn sum_tags(&self) -> HashMap<String, HashMap<String, i64>> {
        let mut sums: HashMap<String, HashMap<String, i64>> = HashMap::new();
        self.profile.samples.for_each(|sample| {
            for label in self.profile.labels_of(&sample) {
                let text = match &label.value {
                    LabelValue::Text(text) => text.as_str().to_owned(),
                    LabelValue::Number(number, _) => {
                        let unit = self.label_units.get(&label.key).map_or("", |unit| unit.as_str());
                        scaled_label(*number, unit, &self.unit)
                    }
                };
                let sum = sums.entry(label.key.as_str().to_owned()).or_default().entry(text).or_default();
                *sum = sum.wrapping_add(sample.values[self.value]);
            }
        });
        sums
    }

    /// Prints one key. The columns are as wide as Go's `tabwriter` makes them.
    fn print_key(&self, out: &mut dyn Write, TagSums { key, total, tags }: &TagSums) -> io::Result<()> {
        let total = *total;
        let share = |value: i64| match self.total {
            1.. => format!(" ({})", percentage(value, self.total)),
            _ => String::new(),
        };
        let shares = tags.iter().map(|(_, value)| format!("{}{}:", self.format(*value), share(*value)));
        let shares: Vec<String> = shares.collect();
        let key_width = key.chars().count() + 2;
        let share_width = shares.iter().map(|share| share.chars().count()).max().unwrap_or(0) + 1;
        writeln!(
            out,
            "{:>key_width$} Total {} of {}{}",
            format!("{key}:"),
            self.format(total),
            self.format(self.total),
            share(total)
        )?;
        for ((tag, _), share) in tags.iter().zip(&shares) {
            writeln!(out, "{:>key_width$}{share:>share_width$} {tag}", "")?;
        }
        writeln!(out)
    }
}

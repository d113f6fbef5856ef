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

use super::printer::ReportPrinter;
use crate::pprof::profile::LabelValue;
use crate::pprof::units::{percentage, scaled_label};

impl ReportPrinter<'_> {
    pub(super) fn print_comments(&self, out: &mut dyn Write) -> io::Result<()> {
        self.profile.comments.iter().try_for_each(|comment| writeln!(out, "{comment}"))
    }

    pub(super) fn print_tags(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut keys: Vec<(String, HashMap<String, i64>)> = self.sum_tags().into_iter().collect();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, values) in keys {
            let total = values.values().fold(0i64, |sum, &value| sum.wrapping_add(value));
            let mut tags: Vec<(String, i64)> = values.into_iter().collect();
            tags.sort_by(|a, b| Reverse(a.1.unsigned_abs()).cmp(&Reverse(b.1.unsigned_abs())).then(a.0.cmp(&b.0)));
            self.print_key(out, &key, total, &tags)?;
        }
        Ok(())
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
    fn print_key(&self, out: &mut dyn Write, key: &str, total: i64, tags: &[(String, i64)]) -> io::Result<()> {
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

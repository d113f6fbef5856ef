//! What is said of samples by their labels, as a graph shows it beside its nodes.

use std::collections::HashMap;

use super::graph::mean;
use super::{Label, LabelValue, Saved};
use crate::tally::text::Text;
use crate::tally::units::scaled_label;

/// What is said of samples, as a graph shows it beside a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tag {
    /// As it is shown.
    pub name: String,
    /// Of a number.
    pub unit: String,
    /// Of a number.
    pub value: i64,
    /// Of samples that end in the node.
    pub flat: i64,
    /// Of samples that the node is in.
    pub cum: i64,
    /// What flat and cum are divided by for a mean; 0 for nothing.
    pub divisors: (i64, i64),
}

impl Tag {
    /// Flat and cum as they are shown.
    pub fn shown(&self) -> (i64, i64) {
        (mean(self.flat, self.divisors.0), mean(self.cum, self.divisors.1))
    }
}

/// Tags of one node: texts, and numbers by the text that they stand under.
#[derive(Clone, Debug, Default)]
pub struct NodeTags {
    /// By name.
    pub texts: HashMap<String, Tag>,
    /// By text, then by name.
    pub numbers: HashMap<String, HashMap<String, Tag>>,
}

/// What the label sets of a profile mean as tags.
pub(super) struct Tagging {
    /// By set: its texts, joined, and its numbers.
    sets: Vec<(String, Vec<Numbered>)>,
}

/// A number as a tag: its name, unit and value.
type Numbered = (String, String, i64);

impl Tagging {
    pub(super) fn of(saved: &Saved, unit: &str) -> Tagging {
        let units = saved.number_units();
        let set = |labels: &[Label]| {
            let texts = labels.iter().filter_map(|label| match &label.value {
                LabelValue::Text(text) => Some(format!("{}:{text}", label.key)),
                LabelValue::Number(..) => None,
            });
            let mut texts: Vec<String> = texts.collect();
            texts.sort();
            let numbers = labels.iter().filter(|label| label.key == "bytes").filter_map(|label| match &label.value {
                LabelValue::Number(number, _) => {
                    let own = units.get(&label.key).map_or("", Text::as_str);
                    Some((scaled_label(*number, own, unit), own.to_owned(), *number))
                }
                LabelValue::Text(_) => None,
            });
            (texts.join("\\n"), numbers.collect())
        };
        Tagging { sets: saved.labels.iter().map(|labels| set(labels)).collect() }
    }

    pub(super) fn add(&self, tags: &mut NodeTags, set: u32, (weight, divisor): (i64, i64), is_flat: bool) {
        let Some((text, numbers)) = self.sets.get(set as usize) else { return };
        let count = |tag: &mut Tag| {
            let (sum, divided_by) =
                if is_flat { (&mut tag.flat, &mut tag.divisors.0) } else { (&mut tag.cum, &mut tag.divisors.1) };
            *sum = sum.wrapping_add(weight);
            *divided_by = divided_by.wrapping_add(divisor);
        };
        if !text.is_empty() {
            let new = || Tag { name: text.clone(), ..Tag::default() };
            count(tags.texts.entry(text.clone()).or_insert_with(new));
        }
        for (name, unit, value) in numbers {
            let under = tags.numbers.entry(text.clone()).or_default();
            let new = || Tag { name: name.clone(), unit: unit.clone(), value: *value, ..Tag::default() };
            count(under.entry(name.clone()).or_insert_with(new));
        }
    }
}

//! The labels of samples as tags of graph nodes, which `-dot` draws beside the nodes.

use std::collections::HashMap;

use super::profile::{Label, LabelValue, SavedProfile};
use super::tag_filter::LabelUnits;
use super::units::scaled_label;
use crate::tally::text::Text;

/// Returns a sum divided by its divisor; a divisor of 0 leaves the sum unchanged.
pub fn mean(sum: i64, divisor: i64) -> i64 {
    if divisor == 0 { sum } else { sum.wrapping_div(divisor) }
}

/// The options for tags.
#[derive(Clone, Copy, Debug)]
pub struct TagOptions<'a> {
    /// The unit to show numbers in.
    pub unit: &'a str,
    /// The units of numeric labels in the unfiltered profile.
    pub label_units: &'a LabelUnits,
}

/// A label with the values of the node's samples that have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTag {
    /// The text to show.
    pub name: String,
    /// The unit of a numeric label.
    pub unit: String,
    /// The value of a numeric label.
    pub value: i64,
    /// The sum of samples whose leaf is the node.
    pub flat: i64,
    /// The sum of samples that contain the node.
    pub cum: i64,
    /// The divisors of flat and cum for a mean; 0 for a plain sum.
    pub divisors: (i64, i64),
}

impl NodeTag {
    /// Flat and cum, divided if a mean is shown.
    pub fn shown(&self) -> (i64, i64) {
        (mean(self.flat, self.divisors.0), mean(self.cum, self.divisors.1))
    }
}

/// The tags of one node.
#[derive(Clone, Debug, Default)]
pub struct NodeTags {
    /// Text labels, by their joined text.
    pub texts: HashMap<String, NodeTag>,
    /// Numeric labels, by the joined text labels of the same samples and by their own text.
    pub numbers: HashMap<String, HashMap<String, NodeTag>>,
}

/// The label sets of a profile, converted to tags.
pub(super) struct TagIndex {
    /// The joined text labels and the numeric labels of each set.
    sets: Vec<(String, Vec<NumericTag>)>,
}

/// Text, unit and value of a numeric label.
type NumericTag = (String, String, i64);

impl TagIndex {
    pub(super) fn build(profile: &SavedProfile, options: TagOptions<'_>) -> TagIndex {
        let TagOptions { unit, label_units: units } = options;
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
        TagIndex { sets: profile.labels.iter().map(|labels| set(labels)).collect() }
    }

    pub(super) fn add(&self, tags: &mut NodeTags, set: u32, (weight, divisor): (i64, i64), is_flat: bool) {
        let Some((text, numbers)) = self.sets.get(set as usize) else { return };
        let count = |tag: &mut NodeTag| {
            let (sum, divided_by) =
                if is_flat { (&mut tag.flat, &mut tag.divisors.0) } else { (&mut tag.cum, &mut tag.divisors.1) };
            *sum = sum.wrapping_add(weight);
            *divided_by = divided_by.wrapping_add(divisor);
        };
        if !text.is_empty() {
            let new = || NodeTag { name: text.clone(), ..NodeTag::default() };
            count(tags.texts.entry(text.clone()).or_insert_with(new));
        }
        for (name, unit, value) in numbers {
            let under = tags.numbers.entry(text.clone()).or_default();
            let new = || NodeTag { name: name.clone(), unit: unit.clone(), value: *value, ..NodeTag::default() };
            count(under.entry(name.clone()).or_insert_with(new));
        }
    }
}

//! Filters by label: tagfocus and tagignore, in pprof's language. `RE,RE` are texts that must all match some `key:value`;
//! `key=RE,RE` is one of several for that key; `1kb:4kb`, `:10ms`, `key=32mb:` are ranges of numbers.

use std::collections::BTreeMap;

use regex::Regex;

use super::{Label, LabelValue, Saved};
use crate::tally::query::Pattern;
use crate::tally::text::Text;
use crate::tally::units::scale;

/// A filter of samples by their labels.
#[derive(Clone, Debug)]
pub struct TagFilter {
    key: Option<String>,
    wanted: Wanted,
    text: String,
}

#[derive(Clone, Debug)]
enum Wanted {
    /// Numbers in `unit`, from and to, where there is a bound.
    Range {
        unit: String,
        least: Option<f64>,
        most: Option<f64>,
    },
    Texts(Vec<Pattern>),
}

impl TagFilter {
    /// From what was typed.
    ///
    /// # Errors
    /// What is wrong with a regular expression in it.
    pub fn new(text: &str) -> Result<TagFilter, String> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (Some(key.to_owned()).filter(|key| !key.is_empty()), value),
            None => (None, text),
        };
        let wanted = match range(value) {
            Some(range) => range,
            None => {
                let patterns: Result<Vec<Pattern>, regex::Error> = value.split(',').map(Pattern::new).collect();
                Wanted::Texts(patterns.map_err(|error| error.to_string())?)
            }
        };
        Ok(TagFilter { key, wanted, text: text.to_owned() })
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it was taken for a range of numbers.
    pub fn is_range(&self) -> bool {
        matches!(self.wanted, Wanted::Range { .. })
    }

    fn takes(&self, labels: &[Label], units: &BTreeMap<Text, Text>) -> bool {
        let of_key = |label: &&Label| self.key.as_ref().is_none_or(|key| label.key == *key);
        match &self.wanted {
            Wanted::Range { unit, least, most } => labels.iter().filter(of_key).any(|label| {
                let LabelValue::Number(number, _) = label.value else { return false };
                let own = units.get(&label.key).map_or("", Text::as_str);
                let (number, found) = scale(number, own, unit);
                found == *unit && least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
            }),
            Wanted::Texts(patterns) => {
                let texts = labels.iter().filter(of_key).filter_map(|label| match &label.value {
                    LabelValue::Text(text) if self.key.is_some() => Some(text.as_str().to_owned()),
                    LabelValue::Text(text) => Some(format!("{}:{text}", label.key)),
                    LabelValue::Number(..) => None,
                });
                let texts: Vec<String> = texts.collect();
                let met = |pattern: &Pattern| texts.iter().any(|text| pattern.matches(text));
                if self.key.is_some() { patterns.iter().any(met) } else { patterns.iter().all(met) }
            }
        }
    }
}

fn range(text: &str) -> Option<Wanted> {
    static BOUND: std::sync::LazyLock<Option<Regex>> =
        std::sync::LazyLock::new(|| Regex::new("([+-]?[0-9]+)([A-Za-z]+)?").ok());
    let bound = |found: &regex::Captures| -> Option<(i64, String)> {
        let number = found.get(1)?.as_str().parse().ok()?;
        Some((number, found.get(2).map_or("", |unit| unit.as_str()).to_owned()))
    };
    let all: Vec<regex::Captures> = BOUND.as_ref()?.captures_iter(text).take(2).collect();
    let first = all.first()?;
    let (number, unit) = bound(first)?;
    let (least, unit) = scale(number, &unit, &unit);
    let whole = first.get(0)?.as_str();
    if let Some(second) = all.get(1) {
        if text != format!("{whole}:{}", second.get(0)?.as_str()) {
            return None;
        }
        let (number, own) = bound(second)?;
        let (most, found) = scale(number, &own, &unit);
        return (found == unit).then_some(Wanted::Range { unit, least: Some(least), most: Some(most) });
    }
    let (least, most) = match text {
        _ if text == whole => (Some(least), Some(least)),
        _ if text == format!("{whole}:") => (Some(least), None),
        _ if text == format!(":{whole}") => (None, Some(least)),
        _ => return None,
    };
    Some(Wanted::Range { unit, least, most })
}

impl Saved {
    /// The unit of every numeric label: the first that is said, or what the key is known for.
    pub fn number_units(&self) -> BTreeMap<Text, Text> {
        let mut units: BTreeMap<Text, Text> = BTreeMap::new();
        let mut used = vec![false; self.labels.len()];
        self.samples.each_packed(|_, _, labels| {
            if let Some(used) = used.get_mut(labels as usize) {
                *used = true;
            }
        });
        let sets = self.labels.iter().zip(used).filter(|(_, used)| *used).map(|(set, _)| set);
        for label in sets.flat_map(|set| set.iter()) {
            if let LabelValue::Number(_, unit) = &label.value {
                let known = units.entry(label.key.clone()).or_default();
                if known.is_empty() {
                    *known = unit.clone();
                }
            }
        }
        for (key, unit) in &mut units {
            if unit.is_empty() {
                *unit = if matches!(key.as_str(), "alignment" | "request") { "bytes".into() } else { key.clone() };
            }
        }
        units
    }

    /// Leaves the samples with the labels that are wanted. Says which filters matched no sample.
    pub fn filter_by_tags(
        &mut self,
        focus: Option<&TagFilter>,
        ignore: Option<&TagFilter>,
    ) -> super::filter::Unmatched {
        if focus.is_none() && ignore.is_none() {
            return Vec::new();
        }
        let units = self.number_units();
        let none: Box<[Label]> = [].into();
        let sets = if self.labels.is_empty() { std::slice::from_ref(&none) } else { &self.labels };
        let verdict = |filter: Option<&TagFilter>, open: bool| -> Vec<bool> {
            sets.iter().map(|set| filter.map_or(open, |filter| filter.takes(set, &units))).collect()
        };
        let (focused, ignored) = (verdict(focus, true), verdict(ignore, false));
        let (mut any_focus, mut any_ignore) = (false, false);
        self.samples.retain(|_, _, labels| {
            let (focused, ignored) = (focused[*labels as usize], ignored[*labels as usize]);
            any_focus |= focused;
            any_ignore |= ignored;
            focused && !ignored
        });
        let missed = [(focus.is_some() && !any_focus, "TagFocus"), (ignore.is_some() && !any_ignore, "TagIgnore")];
        missed.into_iter().filter(|(missed, _)| *missed).map(|(_, name)| name).collect()
    }
}

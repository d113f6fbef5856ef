//! Filters by label: `tagfocus` and `tagignore` with pprof's syntax. `RE,RE` requires every regular
//! expression to match some `key:value`; `key=RE,RE` requires one of them to match a value of the
//! key; `1kb:4kb`, `:10ms` and `key=32mb:` are ranges of numbers.

use std::collections::BTreeMap;

use regex::Regex;

use super::filter::Unmatched;
use super::profile::{Label, LabelValue, SavedProfile};
use crate::pprof::units::scale;
use crate::tally::query::Pattern;
use crate::tally::text::Text;

/// The unit of each numeric label, by key.
pub type LabelUnits = BTreeMap<Text, Text>;

/// A filter of samples by their labels.
#[derive(Clone, Debug)]
pub struct TagFilter {
    key: Option<String>,
    matcher: TagMatcher,
    text: String,
}

#[derive(Clone, Debug)]
enum TagMatcher {
    /// Numbers in `unit` between two bounds, each optional and inclusive.
    Range {
        unit: String,
        min: Option<f64>,
        max: Option<f64>,
    },
    Text(Vec<Pattern>),
}

impl TagFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// If a regular expression in it is invalid.
    pub fn new(text: &str) -> Result<TagFilter, String> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (Some(key.to_owned()).filter(|key| !key.is_empty()), value),
            None => (None, text),
        };
        let matcher = match parse_range(value) {
            Some(range) => range,
            None => {
                let patterns: Result<Vec<Pattern>, regex::Error> = value.split(',').map(Pattern::new).collect();
                TagMatcher::Text(patterns.map_err(|error| error.to_string())?)
            }
        };
        Ok(TagFilter { key, matcher, text: text.to_owned() })
    }

    /// The filter as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the filter is a range of numbers.
    pub fn is_range(&self) -> bool {
        matches!(self.matcher, TagMatcher::Range { .. })
    }

    fn matches(&self, labels: &[Label], units: &LabelUnits) -> bool {
        let has_key = |label: &&Label| self.key.as_ref().is_none_or(|key| label.key == *key);
        match &self.matcher {
            TagMatcher::Range { unit, min, max } => labels.iter().filter(has_key).any(|label| {
                let LabelValue::Number(number, _) = label.value else { return false };
                let own = units.get(&label.key).map_or("", Text::as_str);
                let (number, scaled_unit) = scale(number, own, unit);
                scaled_unit == *unit && min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            }),
            TagMatcher::Text(patterns) => {
                let texts = labels.iter().filter(has_key).filter_map(|label| match &label.value {
                    LabelValue::Text(text) if self.key.is_some() => Some(text.as_str().to_owned()),
                    LabelValue::Text(text) => Some(format!("{}:{text}", label.key)),
                    LabelValue::Number(..) => None,
                });
                let texts: Vec<String> = texts.collect();
                let is_met = |pattern: &Pattern| texts.iter().any(|text| pattern.matches(text));
                if self.key.is_some() { patterns.iter().any(is_met) } else { patterns.iter().all(is_met) }
            }
        }
    }
}

fn parse_range(text: &str) -> Option<TagMatcher> {
    static BOUND: std::sync::LazyLock<Option<Regex>> =
        std::sync::LazyLock::new(|| Regex::new("([+-]?[0-9]+)([A-Za-z]+)?").ok());
    let bound = |found: &regex::Captures| -> Option<(i64, String)> {
        let number = found.get(1)?.as_str().parse().ok()?;
        Some((number, found.get(2).map_or("", |unit| unit.as_str()).to_owned()))
    };
    let all: Vec<regex::Captures> = BOUND.as_ref()?.captures_iter(text).take(2).collect();
    let first = all.first()?;
    let (number, unit) = bound(first)?;
    let (min, unit) = scale(number, &unit, &unit);
    let whole = first.get(0)?.as_str();
    if let Some(second) = all.get(1) {
        if text != format!("{whole}:{}", second.get(0)?.as_str()) {
            return None;
        }
        let (number, own) = bound(second)?;
        let (max, max_unit) = scale(number, &own, &unit);
        return (max_unit == unit).then_some(TagMatcher::Range { unit, min: Some(min), max: Some(max) });
    }
    let (min, max) = match text {
        _ if text == whole => (Some(min), Some(min)),
        _ if text == format!("{whole}:") => (Some(min), None),
        _ if text == format!(":{whole}") => (None, Some(min)),
        _ => return None,
    };
    Some(TagMatcher::Range { unit, min, max })
}

impl SavedProfile {
    /// The unit of every numeric label key: the first unit given, or the default of the key.
    pub fn numeric_label_units(&self) -> LabelUnits {
        let mut units = LabelUnits::new();
        let mut used = vec![false; self.labels.len()];
        self.samples.for_each_packed(|_, _, labels| {
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

    /// Removes the labels whose key `show` does not match and those whose key `hide` matches
    /// (`tagshow`, `taghide`). Returns the filters that matched no label.
    pub fn filter_labels(&mut self, show: Option<&Pattern>, hide: Option<&Pattern>) -> Unmatched {
        let (mut any_shown, mut any_hidden) = (false, false);
        if show.is_some() || hide.is_some() {
            for set in &mut self.labels {
                let is_kept = |label: &&Label| {
                    let is_shown = show.is_none_or(|show| show.matches(&label.key));
                    let is_hidden = hide.is_some_and(|hide| hide.matches(&label.key));
                    any_shown |= is_shown;
                    any_hidden |= is_hidden;
                    is_shown && !is_hidden
                };
                *set = set.iter().filter(is_kept).cloned().collect();
            }
        }
        let unmatched = [(show.is_some() && !any_shown, "TagShow"), (hide.is_some() && !any_hidden, "TagHide")];
        unmatched.into_iter().filter(|(is_unmatched, _)| *is_unmatched).map(|(_, name)| name).collect()
    }

    /// Removes the samples that the filters exclude. Returns the filters that matched no sample.
    pub fn filter_samples_by_tag(
        &mut self,
        focus: Option<&TagFilter>,
        ignore: Option<&TagFilter>,
        units: &LabelUnits,
    ) -> Unmatched {
        if focus.is_none() && ignore.is_none() {
            return Vec::new();
        }
        let none: Box<[Label]> = [].into();
        let sets = if self.labels.is_empty() { std::slice::from_ref(&none) } else { &self.labels };
        let verdict = |filter: Option<&TagFilter>, open: bool| -> Vec<bool> {
            sets.iter().map(|set| filter.map_or(open, |filter| filter.matches(set, units))).collect()
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

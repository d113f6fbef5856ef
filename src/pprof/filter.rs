//! The filters `focus`, `ignore`, `hide`, `show` and `show_from` for saved profiles (google/pprof:
//! `filter.go`). They select samples and frames by function, file and mapping, and mean the same as
//! in the live view.

use super::profile::{Line, Location, SavedProfile};
use crate::tally::query::{Filters, Pattern};

/// The names, in pprof's spelling, of filters that matched nothing.
pub type Unmatched = Vec<&'static str>;

fn any_matches(patterns: &[Pattern], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

/// The functions and mappings that a filter matches, evaluated once for each.
struct MatchCache {
    functions: Vec<bool>,
    mappings: Vec<bool>,
}

impl MatchCache {
    fn build(profile: &SavedProfile, patterns: &[Pattern]) -> Option<MatchCache> {
        (!patterns.is_empty()).then(|| MatchCache {
            functions: profile
                .functions
                .iter()
                .map(|of| any_matches(patterns, &of.name) || any_matches(patterns, &of.file))
                .collect(),
            mappings: profile.mappings.iter().map(|of| any_matches(patterns, &of.file)).collect(),
        })
    }

    fn matches_mapping(&self, location: &Location) -> bool {
        location.mapping.is_some_and(|mapping| self.mappings[mapping as usize])
    }

    fn matches_line(&self, line: &Line) -> bool {
        self.functions[line.function as usize]
    }

    fn matches(&self, location: &Location) -> bool {
        location.lines.iter().any(|line| self.matches_line(line)) || self.matches_mapping(location)
    }
}

/// The decision of focus and ignore on samples with a location.
#[derive(Clone, Copy, PartialEq)]
enum FocusVerdict {
    None,
    Focused,
    Ignored,
}

impl SavedProfile {
    /// Removes the samples and frames that the filters exclude. Returns the filters that matched no
    /// location.
    pub fn filter(&mut self, filters: &Filters) -> Unmatched {
        let mut unmatched = Vec::new();
        self.filter_by_name(filters, &mut unmatched);
        if let Some(show_from) = MatchCache::build(self, &filters.show_from)
            && !self.show_from(&show_from)
        {
            unmatched.push("ShowFrom");
        }
        unmatched
    }

    fn filter_by_name(&mut self, filters: &Filters, unmatched: &mut Unmatched) {
        let focus = MatchCache::build(self, &filters.focus);
        let ignore = MatchCache::build(self, &filters.ignore);
        let hide = MatchCache::build(self, &filters.hide);
        let show = MatchCache::build(self, &filters.show);
        if focus.is_none() && ignore.is_none() && hide.is_none() && show.is_none() {
            return;
        }
        let (mut any_focus, mut any_ignore, mut any_hide, mut any_show) = (false, false, false, false);
        let mut verdicts = vec![FocusVerdict::None; self.locations.len()];
        let mut hidden = vec![false; self.locations.len()];
        for ((location, verdict), hidden) in self.locations.iter_mut().zip(&mut verdicts).zip(&mut hidden) {
            if ignore.as_ref().is_some_and(|ignore| ignore.matches(location)) {
                (any_ignore, *verdict) = (true, FocusVerdict::Ignored);
            } else if focus.as_ref().is_none_or(|focus| focus.matches(location)) {
                (any_focus, *verdict) = (true, FocusVerdict::Focused);
            }
            if let Some(hide) = &hide
                && hide.matches(location)
            {
                any_hide = true;
                let hides_all = hide.matches_mapping(location);
                location.lines.retain(|line| !hides_all && !hide.matches_line(line));
                *hidden |= location.lines.is_empty();
            }
            if let Some(show) = &show {
                if !show.matches_mapping(location) {
                    location.lines.retain(|line| show.matches_line(line));
                }
                *hidden |= location.lines.is_empty();
                any_show |= !location.lines.is_empty();
            }
        }
        let any_hidden = hidden.contains(&true);
        self.samples.retain(|stack, _, _| {
            let mut focused = false;
            for &location in &*stack {
                match verdicts[location as usize] {
                    FocusVerdict::Ignored => return false,
                    FocusVerdict::Focused => focused = true,
                    FocusVerdict::None => {}
                }
            }
            if focused && any_hidden {
                stack.retain(|&location| !hidden[location as usize]);
                return !stack.is_empty();
            }
            focused
        });
        unmatched.extend((focus.is_some() && !any_focus).then_some("Focus"));
        unmatched.extend((ignore.is_some() && !any_ignore).then_some("Ignore"));
        unmatched.extend((hide.is_some() && !any_hide).then_some("Hide"));
        unmatched.extend((show.is_some() && !any_show).then_some("Show"));
    }

    /// Cuts every stack above the outermost match. Returns whether anything matched.
    fn show_from(&mut self, show_from: &MatchCache) -> bool {
        let mut starts = Vec::with_capacity(self.locations.len());
        for location in &mut self.locations {
            let mut start = show_from.matches_mapping(location);
            if !start && let Some(outermost) = location.lines.iter().rposition(|line| show_from.matches_line(line)) {
                location.lines.truncate(outermost + 1);
                start = true;
            }
            starts.push(start);
        }
        self.samples.retain(|stack, _, _| {
            let outermost = stack.iter().rposition(|&location| starts[location as usize]);
            outermost.map(|outermost| stack.truncate(outermost + 1)).is_some()
        });
        starts.contains(&true)
    }

    /// Attributes inlined code to the function that it was inlined into.
    pub fn remove_inlined_frames(&mut self) {
        self.mappings.iter_mut().for_each(|mapping| mapping.has_inline_frames = false);
        for location in &mut self.locations {
            if location.lines.len() > 1 {
                location.lines.drain(..location.lines.len() - 1);
            }
        }
    }

    /// Forgets the source columns of all lines.
    pub fn remove_columns(&mut self) {
        let lines = self.locations.iter_mut().flat_map(|location| &mut location.lines);
        lines.for_each(|line| line.column = 0);
    }

    /// Multiplies all values by a ratio, for `--divide-by`, and rounds them towards 0.
    pub fn multiply_values(&mut self, ratio: f64) {
        self.samples.retain_values(|values| {
            values.iter_mut().for_each(|value| *value = (*value as f64 * ratio) as i64);
            true
        });
    }
}

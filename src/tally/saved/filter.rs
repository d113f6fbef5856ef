//! focus, ignore, hide, show and show_from on a saved profile. They mean what they mean on the screen, and to pprof: which
//! samples count, and which of their frames.

use super::{Line, Location, Saved};
use crate::tally::query::{Filters, Pattern};

/// Filters that matched nothing, by pprof's names for its complaint.
pub type Unmatched = Vec<&'static str>;

fn any(patterns: &[Pattern], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

/// What one kind of filter says of functions and mappings, asked once for each.
struct Memo {
    functions: Vec<bool>,
    mappings: Vec<bool>,
}

impl Memo {
    fn of(saved: &Saved, patterns: &[Pattern]) -> Option<Memo> {
        (!patterns.is_empty()).then(|| Memo {
            functions: saved.functions.iter().map(|of| any(patterns, &of.name) || any(patterns, &of.file)).collect(),
            mappings: saved.mappings.iter().map(|of| any(patterns, &of.file)).collect(),
        })
    }

    fn mapping(&self, location: &Location) -> bool {
        location.mapping.is_some_and(|mapping| self.mappings[mapping as usize])
    }

    fn line(&self, line: &Line) -> bool {
        self.functions[line.function as usize]
    }

    fn matches(&self, location: &Location) -> bool {
        location.lines.iter().any(|line| self.line(line)) || self.mapping(location)
    }
}

/// What focus and ignore make of a location.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    None,
    Focused,
    Ignored,
}

impl Saved {
    /// Leaves the samples and frames that the filters leave. Says which filters matched no place at all.
    pub fn filter(&mut self, filters: &Filters) -> Unmatched {
        let mut unmatched = Vec::new();
        self.filter_by_name(filters, &mut unmatched);
        if let Some(show_from) = Memo::of(self, &filters.show_from)
            && !self.show_from(&show_from)
        {
            unmatched.push("ShowFrom");
        }
        unmatched
    }

    fn filter_by_name(&mut self, filters: &Filters, unmatched: &mut Unmatched) {
        let focus = Memo::of(self, &filters.focus);
        let ignore = Memo::of(self, &filters.ignore);
        let hide = Memo::of(self, &filters.hide);
        let show = Memo::of(self, &filters.show);
        if focus.is_none() && ignore.is_none() && hide.is_none() && show.is_none() {
            return;
        }
        let (mut any_focus, mut any_ignore, mut any_hide, mut any_show) = (false, false, false, false);
        let mut verdicts = vec![Verdict::None; self.locations.len()];
        let mut hidden = vec![false; self.locations.len()];
        for ((location, verdict), hidden) in self.locations.iter_mut().zip(&mut verdicts).zip(&mut hidden) {
            if ignore.as_ref().is_some_and(|ignore| ignore.matches(location)) {
                (any_ignore, *verdict) = (true, Verdict::Ignored);
            } else if focus.as_ref().is_none_or(|focus| focus.matches(location)) {
                (any_focus, *verdict) = (true, Verdict::Focused);
            }
            if let Some(hide) = &hide
                && hide.matches(location)
            {
                any_hide = true;
                let all = hide.mapping(location);
                location.lines.retain(|line| !all && !hide.line(line));
                *hidden |= location.lines.is_empty();
            }
            if let Some(show) = &show {
                if !show.mapping(location) {
                    location.lines.retain(|line| show.line(line));
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
                    Verdict::Ignored => return false,
                    Verdict::Focused => focused = true,
                    Verdict::None => {}
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

    fn show_from(&mut self, show_from: &Memo) -> bool {
        let mut starts = Vec::with_capacity(self.locations.len());
        for location in &mut self.locations {
            let mut start = show_from.mapping(location);
            if !start && let Some(outermost) = location.lines.iter().rposition(|line| show_from.line(line)) {
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

    /// Charges what was inlined to the function that it was inlined into.
    pub fn without_inlines(&mut self) {
        for location in &mut self.locations {
            if location.lines.len() > 1 {
                location.lines.drain(..location.lines.len() - 1);
            }
        }
    }
}

//! Filters in force, with undo and redo.

use super::action::Subject;
use crate::tally::query::tags::TagFilter;
use crate::tally::query::{Filters, Pattern};

/// Maximum number of changes that can be undone.
const HISTORY: usize = 100;

/// Filters with undo and redo.
#[derive(Clone, Debug, Default)]
pub struct FilterHistory {
    now: Filters,
    past: Vec<Filters>,
    future: Vec<Filters>,
}

impl FilterHistory {
    /// Starts with the `filters` of the command line.
    pub fn new(filters: Filters) -> FilterHistory {
        FilterHistory { now: filters, ..FilterHistory::default() }
    }

    /// The filters in force.
    pub fn now(&self) -> &Filters {
        &self.now
    }

    /// Applies `filters` and clears the redo history.
    pub fn set(&mut self, filters: Filters) {
        if filters == self.now {
            return;
        }
        if self.past.len() == HISTORY {
            self.past.remove(0);
        }
        self.past.push(std::mem::replace(&mut self.now, filters));
        self.future.clear();
    }

    /// Undoes the last change; returns whether there was one.
    pub fn undo(&mut self) -> bool {
        let Some(filters) = self.past.pop() else { return false };
        self.future.push(std::mem::replace(&mut self.now, filters));
        true
    }

    /// Redoes the last undone change; returns whether there was one.
    pub fn redo(&mut self) -> bool {
        let Some(filters) = self.future.pop() else { return false };
        self.past.push(std::mem::replace(&mut self.now, filters));
        true
    }
}

/// Returns `filters` with one more pattern of a kind.
pub fn with(filters: &Filters, subject: Subject, pattern: Pattern) -> Filters {
    let mut filters = filters.clone();
    if let Some(list) = list(&mut filters, subject)
        && !list.contains(&pattern)
    {
        list.push(pattern);
    }
    filters
}

/// Returns `filters` without one filter of a kind, given by its index.
pub fn without(filters: &Filters, subject: Subject, index: usize) -> Filters {
    fn remove<T>(list: &mut Vec<T>, index: usize) {
        if index < list.len() {
            list.remove(index);
        }
    }
    let mut filters = filters.clone();
    match subject {
        Subject::TagFocus => remove(&mut filters.tagfocus, index),
        Subject::TagIgnore => remove(&mut filters.tagignore, index),
        _ => list(&mut filters, subject).into_iter().for_each(|list| remove(list, index)),
    }
    filters
}

/// Returns `filters` with `tag` as the only tag to focus on, or with none if it was that already.
pub fn toggle_tag(filters: &Filters, tag: TagFilter) -> Filters {
    let tagfocus = if *filters.tagfocus == [tag.clone()] { Vec::new() } else { vec![tag] };
    Filters { tagfocus, ..filters.clone() }
}

/// Returns `filters` with one more tag to focus on or to ignore.
pub fn with_tag(filters: &Filters, subject: Subject, tag: TagFilter) -> Filters {
    let mut filters = filters.clone();
    let tags = if subject == Subject::TagIgnore { &mut filters.tagignore } else { &mut filters.tagfocus };
    if !tags.contains(&tag) {
        tags.push(tag);
    }
    filters
}

fn list(filters: &mut Filters, subject: Subject) -> Option<&mut Vec<Pattern>> {
    match subject {
        Subject::Focus => Some(&mut filters.focus),
        Subject::Ignore => Some(&mut filters.ignore),
        Subject::Hide => Some(&mut filters.hide),
        Subject::Show => Some(&mut filters.show),
        Subject::ShowFrom => Some(&mut filters.show_from),
        Subject::TagFocus | Subject::TagIgnore | Subject::Find => None,
    }
}

/// Returns all patterns with their kinds.
pub fn kept(filters: &Filters) -> impl Iterator<Item = (Subject, &Pattern)> {
    let kinds = [
        (Subject::Focus, &filters.focus),
        (Subject::Ignore, &filters.ignore),
        (Subject::Hide, &filters.hide),
        (Subject::Show, &filters.show),
        (Subject::ShowFrom, &filters.show_from),
    ];
    kinds.into_iter().flat_map(|(subject, patterns)| patterns.iter().map(move |pattern| (subject, pattern)))
}

/// Returns the text of all filters with their kinds.
pub fn texts(filters: &Filters) -> impl Iterator<Item = (Subject, &str)> {
    let tags = [(Subject::TagFocus, &filters.tagfocus), (Subject::TagIgnore, &filters.tagignore)];
    let tags = tags.into_iter().flat_map(|(subject, tags)| tags.iter().map(move |tag| (subject, tag.text())));
    kept(filters).map(|(subject, pattern)| (subject, pattern.text())).chain(tags)
}

/// Returns all filters in the form of `:` commands.
pub fn chips(filters: &Filters) -> impl Iterator<Item = String> {
    texts(filters).map(|(subject, text)| format!("{}={text}", subject.word()))
}

/// The reason why filters leave no sample of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// This filter removes the function by its name or module: pprof's option and the pattern.
    Certain(&'static str, String),
    /// One or more of these filters remove it.
    Among(String),
}

/// Finds the filter that removes a function, as far as its name and module show; `None` without
/// filters.
pub fn culprit(filters: &Filters, full: &str, module: Option<&str>) -> Option<Culprit> {
    let hits = |pattern: &Pattern| pattern.matches(full) || module.is_some_and(|module| pattern.matches(module));
    let certain = kept(filters).find(|(subject, pattern)| match subject {
        Subject::Ignore | Subject::Hide => hits(pattern),
        _ => false,
    });
    if let Some((subject, pattern)) = certain {
        return Some(Culprit::Certain(subject.word(), pattern.text().to_owned()));
    }
    let chips: Vec<String> = chips(filters).collect();
    (!chips.is_empty()).then(|| Culprit::Among(chips.join(" ")))
}

/// Returns a pattern that matches the module of this name in any directory, and no other.
pub fn module(name: &str) -> Option<Pattern> {
    if name.is_empty() {
        return None;
    }
    Pattern::new(&format!("(^|/){}$", regex::escape(name))).ok()
}

/// Returns a pattern that matches exactly this name.
pub fn exactly(name: &str) -> Option<Pattern> {
    Pattern::new(&format!("^{}$", regex::escape(name))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn focus(text: &str) -> Filters {
        with(&Filters::default(), Subject::Focus, Pattern::new(text).unwrap())
    }

    #[test]
    fn changes_can_be_undone_and_done_again() {
        let mut history = FilterHistory::default();
        assert!(!history.undo());
        history.set(focus("a"));
        history.set(focus("b"));
        history.set(focus("b"));
        assert!(history.undo());
        assert_eq!(history.now(), &focus("a"));
        assert!(history.redo());
        assert_eq!(history.now(), &focus("b"));
        assert!(!history.redo());
        history.undo();
        history.set(focus("c"));
        assert!(!history.redo());
        assert!(history.undo() && history.undo() && !history.undo());
        assert_eq!(history.now(), &Filters::default());
    }

    #[test]
    fn a_thread_is_turned_to_and_away_from() {
        let (one, other) = (TagFilter::for_thread(1), TagFilter::for_thread(2));
        let on_one = toggle_tag(&focus("a"), one.clone());
        assert_eq!(chips(&on_one).collect::<Vec<_>>(), ["focus=a", "tagfocus=tid=1"]);
        assert_eq!(toggle_tag(&on_one, other.clone()).tagfocus.first(), Some(&other));
        assert_eq!(toggle_tag(&on_one, one.clone()), focus("a"));
        let both = with_tag(&with_tag(&on_one, Subject::TagFocus, other.clone()), Subject::TagIgnore, one);
        assert_eq!(chips(&both).last().as_deref(), Some("tagignore=tid=1"));
        assert_eq!(without(&both, Subject::TagFocus, 0).tagfocus, [other]);
        assert!(without(&both, Subject::TagIgnore, 0).tagignore.is_empty());
    }

    #[test]
    fn a_name_matches_itself_alone() {
        let pattern = exactly("Vec<T>::push (a|b)").unwrap();
        assert!(pattern.matches("Vec<T>::push (a|b)"));
        assert!(!pattern.matches("Vec<T>::push (a|b)::{{closure}}"));
        assert!(exactly(&"x".repeat(4 << 20)).is_none(), "a pattern has a limit, and beyond it there is none");
    }

    #[test]
    fn the_same_filter_twice_is_one() {
        let twice = with(&focus("a"), Subject::Focus, Pattern::new("a").unwrap());
        assert_eq!(chips(&twice).collect::<Vec<_>>(), ["focus=a"]);
    }
}

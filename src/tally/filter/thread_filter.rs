//! Selects the threads whose samples the tag filters of a query keep. Each filter is evaluated once
//! for each thread, and again when a name changes.

use crate::profile::Profile;
use crate::profile::thread::{Thread, ThreadId};
use crate::tally::measure::count;
use crate::tally::query::Filters;
use crate::tally::query::tags::{TagFilter, ThreadTags};

/// The threads that tag filters keep.
#[derive(Default)]
pub(crate) struct ThreadFilter {
    focus: Vec<TagFilter>,
    ignore: Vec<TagFilter>,
    renames: u64,
    /// Whether each thread is kept; empty without filters.
    kept: Vec<bool>,
}

impl ThreadFilter {
    /// Evaluates the filters for new threads, or for all if filters or names have changed. Returns
    /// whether the result for an earlier thread has changed.
    pub(crate) fn update(&mut self, filters: &Filters, profile: &Profile) -> bool {
        let same = self.focus == filters.tagfocus && self.ignore == filters.tagignore;
        let known = if same && self.renames == profile.name_changes() { self.kept.len() } else { 0 };
        if !same {
            (self.focus, self.ignore) = (filters.tagfocus.clone(), filters.tagignore.clone());
        }
        self.renames = profile.name_changes();
        if self.focus.is_empty() && self.ignore.is_empty() {
            return !std::mem::take(&mut self.kept).is_empty() || !same;
        }
        let mut changed = !same;
        for (index, thread) in profile.threads().iter().enumerate().skip(known) {
            let keep = self.evaluate(profile, thread);
            match self.kept.get_mut(index) {
                Some(before) => changed |= std::mem::replace(before, keep) != keep,
                None => self.kept.push(keep),
            }
        }
        changed
    }

    fn evaluate(&self, profile: &Profile, thread: &Thread) -> bool {
        let tags = thread_tags(profile, thread);
        let any = |filters: &[TagFilter]| filters.iter().any(|filter| filter.matches(&tags));
        (self.focus.is_empty() || any(&self.focus)) && !any(&self.ignore)
    }

    /// Whether the samples of a thread count.
    pub(crate) fn keeps(&self, thread: ThreadId) -> bool {
        self.kept.get(thread.0 as usize).copied().unwrap_or(true)
    }
}

/// Describes each tag filter of a query, `tagfocus` first: by the name of the thread or process it
/// matches, or by the number of threads.
pub fn describe_tag_filters(filters: &Filters, profile: &Profile) -> Vec<String> {
    let describe = |filter: &TagFilter| {
        let matches = |thread: &&Thread| filter.matches(&thread_tags(profile, thread));
        let mut matching = profile.threads().iter().filter(matches);
        let Some(first) = matching.next() else { return "no thread".to_owned() };
        let others = matching.clone().count();
        let process = profile.process(first.process);
        let mut one_process = || matching.all(|thread| profile.process(thread.process).pid == process.pid);
        match others {
            0 => first.name.clone(),
            _ if filter.text().starts_with("pid=") && one_process() => process.name().to_owned(),
            _ => format!("{} threads", count(others as u64 + 1)),
        }
    };
    filters.tagfocus.iter().chain(&filters.tagignore).map(describe).collect()
}

/// The tags of a thread's samples.
pub fn thread_tags<'a>(profile: &'a Profile, thread: &'a Thread) -> ThreadTags<'a> {
    let process = profile.process(thread.process);
    ThreadTags { pid: process.pid, tid: thread.tid, process: process.name(), thread: &thread.name }
}

//! Selects the samples that the tag filters of a query keep. Each filter is evaluated once for each
//! thread and for each thing that threads wait for, and again when a name changes.

use crate::profile::Profile;
use crate::profile::stack::FrameId;
use crate::profile::thread::{Thread, ThreadId};
use crate::profile::totals::ThreadStack;
use crate::symbols::{ExplainedWait, Names};
use crate::tally::measure::count;
use crate::tally::query::Filters;
use crate::tally::query::tags::{TagFilter, ThreadTags};

/// The samples that tag filters keep: by their thread, and by what it waits for.
#[derive(Default)]
pub(crate) struct ThreadFilter {
    focus: Vec<TagFilter>,
    ignore: Vec<TagFilter>,
    renames: u64,
    names_version: u64,
    /// The matches of each thread; empty without filters.
    threads: Vec<TagMatches>,
    /// The matches of each frame, where filters are of waits.
    waits: Vec<TagMatches>,
}

/// Whether a thread or a wait matches any filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TagMatches {
    focus: bool,
    ignore: bool,
}

impl ThreadFilter {
    /// Evaluates the filters for new threads and waits, or for all if filters or names have
    /// changed. Returns whether the result for an earlier one has changed.
    pub(crate) fn update(&mut self, filters: &Filters, profile: &Profile, names: &Names) -> bool {
        let same = self.focus == filters.tagfocus && self.ignore == filters.tagignore;
        if !same {
            (self.focus, self.ignore) = (filters.tagfocus.clone(), filters.tagignore.clone());
        }
        let is_off = self.focus.is_empty() && self.ignore.is_empty();
        let known = if same && self.renames == profile.name_changes() { self.threads.len() } else { 0 };
        self.renames = profile.name_changes();
        let threads = if is_off { &[][..] } else { profile.threads() };
        let known = known.min(threads.len());
        let matches = threads[known..].iter().map(|thread| self.matches(&thread_tags(profile, thread), false));
        let matches = matches.collect();
        let changed = replace_from(known, matches, &mut self.threads);
        self.update_waits(profile, names, same) | changed | !same
    }

    /// Evaluates the filters of waits. Returns whether the result for an earlier one has changed.
    fn update_waits(&mut self, profile: &Profile, names: &Names, same: bool) -> bool {
        if !self.focus.iter().chain(&self.ignore).any(TagFilter::is_of_waits) {
            self.waits.clear();
            return false;
        }
        if same && self.names_version == names.version() {
            return false;
        }
        self.names_version = names.version();
        let frames = (0..profile.stacks.frames().len() as u32).map(FrameId);
        let matches = frames.map(|frame| match names.wait(profile, frame) {
            Some(wait) => self.matches(&wait_tags(&wait), true),
            None => TagMatches::default(),
        });
        let matches = matches.collect();
        replace_from(0, matches, &mut self.waits)
    }

    fn matches(&self, tags: &ThreadTags, of_waits: bool) -> TagMatches {
        let matches = |filter: &TagFilter| filter.is_of_waits() == of_waits && filter.matches(tags);
        TagMatches { focus: self.focus.iter().any(matches), ignore: self.ignore.iter().any(matches) }
    }

    /// Whether the samples of a thread count that have this stack.
    pub(crate) fn keeps(&self, profile: &Profile, (thread, stack): ThreadStack) -> bool {
        let Some(own) = self.threads.get(thread.0 as usize) else { return true };
        let wait = if self.waits.is_empty() { None } else { profile.stacks.wait(stack) };
        let wait = wait.and_then(|wait| self.waits.get(wait.0 as usize)).copied().unwrap_or_default();
        (self.focus.is_empty() || own.focus || wait.focus) && !own.ignore && !wait.ignore
    }

    /// Whether any sample of a thread may count.
    pub(crate) fn keeps_thread(&self, thread: ThreadId) -> bool {
        let Some(own) = self.threads.get(thread.0 as usize) else { return true };
        let may_wait = self.focus.iter().any(TagFilter::is_of_waits);
        (self.focus.is_empty() || own.focus || may_wait) && !own.ignore
    }
}

/// Replaces the results from `start` on by new ones. Returns whether an earlier one has changed.
fn replace_from(start: usize, new: Vec<TagMatches>, results: &mut Vec<TagMatches>) -> bool {
    let start = start.min(results.len());
    let changed = results[start..].iter().zip(&new).any(|(old, new)| old != new);
    let is_shorter = results.len() > start + new.len();
    results.truncate(start);
    results.extend(new);
    changed || is_shorter
}

/// Describes each tag filter of a query, `tagfocus` first: by the name of the thread or process it
/// matches, or by the number of threads.
pub fn describe_tag_filters(filters: &Filters, profile: &Profile) -> Vec<String> {
    let describe = |filter: &TagFilter| {
        if filter.is_of_waits() {
            return String::new();
        }
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
    let (process, tid) = (profile.process(thread.process), thread.tid);
    let source = profile.recording_name(process);
    let (name, thread) = (process.name(), &thread.name);
    ThreadTags { pid: process.pid, tid, process: name, thread, source, wait: None, holder: None }
}

/// The tags of what a thread waits for.
fn wait_tags<'a>(wait: &ExplainedWait<'a>) -> ThreadTags<'a> {
    let holder = Some(wait.holder).filter(|holder| !holder.is_empty());
    ThreadTags { pid: 0, tid: 0, process: "", thread: "", source: None, wait: Some(wait.reason.word()), holder }
}

//! Which threads' samples the filters let in: a condition is asked once for each thread, and again when a name changes.

use super::measure::count;
use super::query::Filters;
use super::tag::{Labels, Tag};
use crate::profile::Profile;
use crate::profile::thread::{Thread, ThreadId};

/// Threads as the filters leave them.
#[derive(Default)]
pub(super) struct Crowd {
    focus: Vec<Tag>,
    ignore: Vec<Tag>,
    renames: u64,
    /// By thread; empty where nothing is asked.
    inside: Vec<bool>,
}

impl Crowd {
    /// Takes in filters and names. Says whether a thread that was known is let in now and was not, or the other way round.
    pub(super) fn catch_up(&mut self, filters: &Filters, profile: &Profile) -> bool {
        let same = self.focus == filters.tagfocus && self.ignore == filters.tagignore;
        let fresh = if same && self.renames == profile.renames() { self.inside.len() } else { 0 };
        if !same {
            (self.focus, self.ignore) = (filters.tagfocus.clone(), filters.tagignore.clone());
        }
        self.renames = profile.renames();
        if self.focus.is_empty() && self.ignore.is_empty() {
            return !std::mem::take(&mut self.inside).is_empty() || !same;
        }
        let mut changed = !same;
        for (index, thread) in profile.threads().iter().enumerate().skip(fresh) {
            let inside = self.passes(profile, thread);
            match self.inside.get_mut(index) {
                Some(before) => changed |= std::mem::replace(before, inside) != inside,
                None => self.inside.push(inside),
            }
        }
        changed
    }

    fn passes(&self, profile: &Profile, thread: &Thread) -> bool {
        let labels = labels(profile, thread);
        let any = |tags: &[Tag]| tags.iter().any(|tag| tag.matches(&labels));
        (self.focus.is_empty() || any(&self.focus)) && !any(&self.ignore)
    }

    /// Whether a thread's samples count.
    pub(super) fn lets_in(&self, thread: ThreadId) -> bool {
        self.inside.get(thread.0 as usize).copied().unwrap_or(true)
    }
}

/// For each filter by thread, those to focus on first: the name of the thread or process that it means, or how many.
pub fn told(filters: &Filters, profile: &Profile) -> Vec<String> {
    let told = |tag: &Tag| {
        let matches = |thread: &&Thread| tag.matches(&labels(profile, thread));
        let mut found = profile.threads().iter().filter(matches);
        let Some(first) = found.next() else { return "no thread".to_owned() };
        let others = found.clone().count();
        let process = profile.process(first.process);
        let mut one_process = || found.all(|thread| profile.process(thread.process).pid == process.pid);
        match others {
            0 => first.name.clone(),
            _ if tag.text().starts_with("pid=") && one_process() => process.name().to_owned(),
            _ => format!("{} threads", count(others as u64 + 1)),
        }
    };
    filters.tagfocus.iter().chain(&filters.tagignore).map(told).collect()
}

/// What a thread's samples say about it.
pub fn labels<'a>(profile: &'a Profile, thread: &'a Thread) -> Labels<'a> {
    let process = profile.process(thread.process);
    Labels { pid: process.pid, tid: thread.tid, process: process.name(), thread: &thread.name }
}

//! Builds the rows of processes and threads.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use super::images::{ImageGroups, ProcessImages};
use super::loads::{LoadSum, sum_loads};
use super::table::{
    DeepestRow, FoldedRows, FrameRequest, ProcessRow, StackRow, ThreadRow, ThreadTable, ThreadsQuery, WaitRow,
    WaitShare,
};
use crate::profile::Profile;
use crate::profile::stack::{FrameId, StackId};
use crate::profile::thread::{Thread, ThreadId, ThreadState};
use crate::profile::totals::ThreadStack;
use crate::profile::waits::WaitReason;
use crate::symbols::{Names, is_library};
use crate::tally::filter::thread_filter::ThreadFilter;
use crate::tally::idle::IdleThreads;
use crate::tally::query::Query;
use crate::tally::rows::RowTable;
use crate::tally::stacks::SPAN;
use crate::tally::stacks::neighbors::StackIndex;
use crate::tally::stacks::owner_stacks::OwnerStacks;
use crate::tally::text::Text;

/// The sources of the rows.
#[derive(Clone, Copy)]
pub(crate) struct ThreadSources<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) names: &'a Names,
    pub(crate) query: &'a ThreadsQuery,
    pub(crate) filter: &'a ThreadFilter,
    pub(crate) rows: &'a RowTable,
    pub(crate) stacks: &'a OwnerStacks,
    pub(crate) index: StackIndex<'a>,
    pub(crate) idle: &'a IdleThreads,
}

impl ThreadSources<'_> {
    /// Builds the rows of the samples that `query` asks for, in no order.
    pub(crate) fn build(self, query: &Query) -> ThreadTable {
        let groups = ImageGroups::of(self.profile);
        let flat_row = |key| self.index.facts.flat_row(self.stacks.stack(key));
        let (threads, processes) = sum_loads(self.profile, query, self.rows, &groups, flat_row, |key| self.waits(key));
        let mut waits = self.wait_shares(query, |key| flat_row(key).is_some().then_some(key.0));
        let mut table = ThreadTable::default();
        for (group, sum) in groups.processes.iter().zip(processes) {
            if self.has_row(group) {
                table.processes.push(self.process_row(group, sum, &groups, &threads, &mut waits));
            } else {
                table.folded.count += 1;
                table.folded.weight += sum.weight;
            }
        }
        table
    }

    /// Returns whether a process has a row: the started process always, of its descendants only
    /// living ones by default.
    fn has_row(self, group: &ProcessImages) -> bool {
        self.profile.process(group.newest).connected || group.first.0 == 0 || self.query.ended_processes
    }

    fn process_row(
        self,
        group: &ProcessImages,
        sum: LoadSum,
        groups: &ImageGroups,
        threads: &[LoadSum],
        waits: &mut HashMap<ThreadId, Vec<WaitShare>>,
    ) -> ProcessRow {
        let newest = self.profile.process(group.newest);
        let mut process = ProcessRow {
            id: group.first,
            pid: newest.pid,
            parent: newest.parent,
            is_child: groups.has_pid(newest.parent),
            ancestor: groups.ancestor(self.profile, group, |process| self.has_row(process)),
            depth: 0,
            name: newest.name().to_owned(),
            command: command_line(
                if newest.title.is_empty() { &newest.argv } else { &newest.title },
                &newest.executable,
            ),
            since_ns: self.profile.process(group.first).since_ns,
            ended: !newest.connected,
            load: sum.load(self.rows),
            inside: group.threads.iter().any(|&thread| self.filter.keeps_thread(thread)),
            threads: Vec::new(),
            folded: FoldedRows::default(),
            idle: FoldedRows::default(),
        };
        let shows_ended = self.query.ended_threads_of.contains(&group.first);
        for &id in &group.threads {
            let (thread, sum) = (self.profile.thread(id), threads[id.0 as usize]);
            // Threads that lived until their process ended are shown with it.
            let has_ended = thread.ended || thread.process != group.newest;
            let folded = if has_ended && !shows_ended {
                &mut process.folded
            } else if !has_ended && !self.wants_row(id) && self.idle.sums(id)[SPAN] {
                &mut process.idle
            } else {
                let state = if has_ended || !newest.connected { ThreadState::Ended } else { thread.state };
                process.threads.push(self.thread_row(id, state, sum, waits.remove(&id).unwrap_or_default()));
                continue;
            };
            folded.count += 1;
            folded.weight += sum.weight;
        }
        process
    }

    fn waits(self, key: ThreadStack) -> bool {
        self.profile.stacks.wait(key.1).is_some() || self.idle.sums(key.0)[SPAN]
    }

    fn wants_row(self, thread: ThreadId) -> bool {
        self.query.idle_threads || self.wants_stack(thread)
    }

    fn wants_stack(self, thread: ThreadId) -> bool {
        self.query.stacks_of.contains(&thread) || self.query.chain.contains(&thread)
    }

    fn thread_row(self, id: ThreadId, state: ThreadState, sum: LoadSum, waits: Vec<WaitShare>) -> ThreadRow {
        let thread = self.profile.thread(id);
        let newest = sum.newest.map(|(_, _, key)| key);
        ThreadRow {
            id,
            tid: thread.tid,
            name: thread.name.clone(),
            state,
            load: sum.load(self.rows),
            inside: self.filter.keeps_thread(id),
            wait: newest.filter(|_| state != ThreadState::Ended).and_then(|key| self.wait_row(id, key)),
            waits,
            stack: newest.filter(|_| self.wants_stack(id)).map(|key| self.functions(key)).unwrap_or_default(),
            deepest: self.deepest_row(id, thread),
        }
    }

    /// Returns what a thread waits for on this stack.
    fn wait_row(self, id: ThreadId, key: ThreadStack) -> Option<WaitRow> {
        let wait = self.names.wait(self.profile, self.profile.stacks.wait(key.1)?)?;
        if wait.reason == WaitReason::Runnable {
            // It runs as far as it can.
            return None;
        }
        Some(WaitRow {
            name: Text::from(wait.words().as_str()),
            reason: wait.reason,
            since_ns: self.profile.waits_since(id),
            holder: wait.holder_id,
            within: self.waiting_function(key),
        })
    }

    /// Returns the function of a sample's stack that tells where its thread waits.
    fn waiting_function(self, key: ThreadStack) -> StackRow {
        let mut functions = self.functions(key);
        // The wait is a row, too, if rows are waits.
        functions.retain(|row| !row.full.starts_with("wait:"));
        let within = within(&functions);
        functions.drain(within..).next().unwrap_or_default()
    }

    /// Sums what threads wait for, the longest first. `group` returns the group that a sample
    /// belongs to, if it counts.
    pub(crate) fn wait_shares<G: Copy + Eq + Hash>(
        self,
        query: &Query,
        group: impl Fn(ThreadStack) -> Option<G>,
    ) -> HashMap<G, Vec<WaitShare>> {
        let mut stacks: HashMap<(G, ThreadStack), u64> = HashMap::new();
        self.profile.visit_generation(query.generation, query.clock, query.span, |key, weight| {
            if self.profile.stacks.wait(key.1).is_some()
                && let Some(group) = group(key)
            {
                let weight_ns = stacks.entry((group, key)).or_default();
                *weight_ns = weight_ns.saturating_add(weight.ns);
            }
        });
        let mut shares: HashMap<G, Vec<WaitShare>> = HashMap::new();
        for ((group, key), weight_ns) in stacks {
            let frame = self.profile.stacks.wait(key.1);
            let Some(wait) = frame.and_then(|frame| self.names.wait(self.profile, frame)) else { continue };
            let within = if wait.reason.is_lock() { self.waiting_function(key).short } else { Text::default() };
            let variable = Text::from(if wait.reason.is_lock() { wait.variable } else { "" });
            let new = WaitShare { reason: wait.reason, variable, holder: Text::from(wait.holder), within, weight_ns };
            let shares = shares.entry(group).or_default();
            let is_same = |known: &&mut WaitShare| WaitShare { weight_ns, ..(**known).clone() } == new;
            match shares.iter_mut().find(is_same) {
                Some(known) => known.weight_ns = known.weight_ns.saturating_add(weight_ns),
                None => shares.push(new),
            }
        }
        let key = |share: &WaitShare| {
            let names = (share.variable.clone(), share.holder.clone(), share.within.clone());
            (Reverse(share.weight_ns), share.reason.word(), names)
        };
        shares.values_mut().for_each(|shares| shares.sort_by_key(key));
        shares
    }

    /// Returns the functions of a sample's stack, the leaf first.
    fn functions(self, key: ThreadStack) -> Vec<StackRow> {
        let mut functions = Vec::new();
        let mut at = self.stacks.stack(key);
        while at != StackId::EMPTY {
            let node = self.index.nodes[at.index()];
            let (_, own) = self.index.facts.rows_at(at.index(), node, self.index.filter);
            functions.extend(own.iter().rev().map(|&row| {
                let label = self.rows.label(row);
                let (short, module) = (label.short.clone(), label.module.clone());
                StackRow { full: label.own_name(), short, module, is_own: label.is_own }
            }));
            at = node.parent;
        }
        functions
    }

    fn deepest_row(self, id: ThreadId, thread: &Thread) -> Option<DeepestRow> {
        let stack = thread.deepest.as_ref()?;
        let has_frames = match self.query.deepest_of {
            FrameRequest::None => false,
            FrameRequest::One(thread) => thread == id,
            FrameRequest::All => true,
        };
        let frames = stack.frames.iter().filter(|_| has_frames);
        let frames = frames.map(|&(frame, bytes)| (self.frame_row(frame), bytes)).collect();
        Some(DeepestRow { used: stack.used, size: stack.size, frames })
    }

    /// Returns the function of a frame: of inlined ones, that into which they are inlined.
    fn frame_row(self, frame: FrameId) -> StackRow {
        let Some(line) = self.names.lines(frame).last() else { return StackRow::default() };
        let function = self.names.function(line.function);
        let module = function.module.rsplit('/').next().unwrap_or_default();
        StackRow {
            full: (&*function.full).into(),
            short: (&*function.short).into(),
            module: module.into(),
            is_own: false,
        }
    }
}

/// The index of the innermost function that tells where a thread waits: own code, or at least of no
/// system library; the leaf if there is none.
fn within(functions: &[StackRow]) -> usize {
    let is_system = |row: &StackRow| row.module.is_empty() || is_library(&row.module, &row.full);
    let first = |is_wanted: &dyn Fn(&StackRow) -> bool| functions.iter().position(is_wanted);
    first(&|row| row.is_own && !row.module.is_empty()).or_else(|| first(&|row| !is_system(row))).unwrap_or(0)
}

/// The command of a process in one line: scripts among the arguments have several.
fn command_line(argv: &[String], executable: &str) -> String {
    let words: Vec<&str> = argv.iter().flat_map(|argument| argument.split_whitespace()).collect();
    if words.is_empty() { executable.to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_within_a_function_of_the_program() {
        let row = |short: &str, module: &str, is_own: bool| StackRow {
            full: short.into(),
            short: short.into(),
            module: module.into(),
            is_own,
        };
        let libc = || row("__futex_abstimed_wait_common64", "libc.so.6", false);
        assert_eq!(within(&[]), 0);
        assert_eq!(within(&[libc(), row("[lock]", "", true)]), 0);
        let wrapper = || row("__gthread_mutex_lock", "server", false);
        assert_eq!(within(&[libc(), wrapper(), row("Cache::insert", "server", true), row("main", "server", true)]), 2);
        assert_eq!(within(&[libc(), wrapper(), libc()]), 1, "at least it is of no system library");
    }

    #[test]
    fn a_script_among_the_arguments_is_on_the_line() {
        let argv = ["python3", "-c", "import time\n\tprint(1)\n"].map(str::to_owned);
        assert_eq!(command_line(&argv, "/usr/bin/python3.11"), "python3 -c import time print(1)");
        assert_eq!(command_line(&[], "/usr/bin/python3.11"), "/usr/bin/python3.11");
    }
}

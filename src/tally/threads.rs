//! Processes and their threads, each with its weight and the function that has most of it.
//!
//! Frame filters choose samples here as in every view. Thread filters do not: a thread that they
//! drop keeps its row, marked as dropped, so that the user can select it instead.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::change::Change;
use super::filter::thread_filter::ThreadFilter;
use super::measure;
use super::query::Query;
use super::rows::{RowId, RowTable};
use super::stacks::neighbors::StackIndex;
use super::text::Text;
use super::trend::PARTS;
use crate::profile::Profile;
use crate::profile::hash::IdMap;
use crate::profile::process::{Process, ProcessId};
use crate::profile::stack::{FrameId, StackId};
use crate::profile::thread::{ThreadId, ThreadState};
use crate::profile::totals::{BUCKET_NS, Span, ThreadStack, Weight};
use crate::symbols::Names;

/// The order of processes, and of threads in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSort {
    /// Sorts by id.
    Id,
    /// Sorts by name, then id.
    Name,
    /// Sorts by state, running ones first, then weight.
    State,
    /// Sorts by weight, then id.
    #[default]
    Weight,
    /// Sorts by samples, then id.
    Samples,
    /// Sorts by the function with most of the weight, then weight.
    Function,
}

/// The rows to show, and their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadsQuery {
    /// The order of rows.
    pub sort: ThreadSort,
    /// Processes whose ended threads are shown. Those of other processes are folded.
    pub ended_threads_of: Vec<ProcessId>,
    /// Whether ended processes are shown.
    pub ended_processes: bool,
    /// The threads whose newest stack is requested.
    pub stacks_of: Vec<ThreadId>,
    /// The threads whose newest stack is requested to be compared, each of which may wait for the
    /// next.
    pub chain: Vec<ThreadId>,
    /// The threads whose deepest stack is requested with its frames.
    pub deepest_of: FrameRequest,
}

/// Threads for which the frames of their deepest stack are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameRequest {
    /// None.
    #[default]
    None,
    /// One thread.
    One(ThreadId),
    /// All threads.
    All,
}

/// The kind of a difference between two loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadChange {
    /// The change of the weight.
    pub weight: Change,
    /// Whether there are fewer samples.
    pub fewer: bool,
}

/// The samples of a thread or process, summed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Their weight.
    pub weight: Weight,
    /// Their weight in each part of the window, oldest first, ns; 0 for a query of the session.
    pub parts_ns: [u64; PARTS],
    /// The short name of the function with the greatest flat; empty if there is none.
    pub top: Text,
    /// The full name of that function.
    pub top_full: Text,
    /// The module of that function.
    pub top_module: Text,
    /// The kind of the difference, if the weight is the size of a difference.
    pub change: Option<LoadChange>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    /// Its index in the profile.
    pub id: ThreadId,
    /// Its id in the target's namespace; 0 stands for the threads of a process beyond the limit of
    /// threads.
    pub tid: u32,
    /// Its latest name. It may contain any characters.
    pub name: String,
    /// Its scheduling state.
    pub state: ThreadState,
    /// Its samples.
    pub load: Load,
    /// Whether the thread filters keep it.
    pub inside: bool,
    /// The wait on its newest stack, if it waits there.
    pub wait: Option<WaitRow>,
    /// Its newest stack in the period, the leaf first, if it was requested.
    pub stack: Vec<StackRow>,
    /// Its deepest stack since the start, if it was measured.
    pub deepest: Option<DeepestRow>,
}

/// The deepest stack of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeepestRow {
    /// Its size in bytes.
    pub used: u64,
    /// The size to which it may grow, in bytes; 0 if that is not known.
    pub size: u64,
    /// Its functions and the sizes of their frames in bytes, leaf first, if they were requested.
    pub frames: Vec<(StackRow, u64)>,
}

/// The wait of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRow {
    /// The wait in a few words: `[lock] held by compactor`.
    pub name: Text,
    /// The time since which it has not run, on the viewer's clock, ns; `None` if that is not known.
    pub since_ns: Option<u64>,
    /// The thread that holds the lock for which it waits, if that is known.
    pub holder: Option<ThreadId>,
    /// The innermost function of the program itself that waits, or the leaf.
    pub within: StackRow,
}

/// One function of a thread's newest stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackRow {
    /// The full name.
    pub full: Text,
    /// The short name.
    pub short: Text,
    /// The last component of the module's path.
    pub module: Text,
}

/// Rows that are not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedRows {
    /// The number of rows.
    pub count: usize,
    /// Their total weight.
    pub weight: Weight,
    /// The kind of the difference, if the weight is the size of a difference.
    pub change: Option<LoadChange>,
}

/// A process: all its images, if it called exec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessRow {
    /// The index of its first image in the profile.
    pub id: ProcessId,
    /// Its id in the viewer's namespace.
    pub pid: u32,
    /// The id of its parent in the target's namespace.
    pub parent: u32,
    /// Whether its parent is among the processes too.
    pub is_child: bool,
    /// Its nearest ancestor that has a row.
    pub ancestor: Option<ProcessId>,
    /// The number of ancestors that have a row.
    pub depth: usize,
    /// The last component of its executable's path.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// The time of its first message on the viewer's clock, ns.
    pub since_ns: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// The samples of its threads.
    pub load: Load,
    /// Whether the thread filters keep any of its threads.
    pub inside: bool,
    /// Its threads, sorted.
    pub threads: Vec<ThreadRow>,
    /// Its ended threads that are not shown.
    pub folded: FoldedRows,
    /// Its idle threads, if the query folds them.
    pub idle: FoldedRows,
}

/// All processes and threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTable {
    /// The processes, sorted.
    pub processes: Vec<ProcessRow>,
    /// The ended processes that are not shown.
    pub folded: FoldedRows,
}

impl DeepestRow {
    /// Formats its size and the limit, if that is known: `48.0 KiB of 8.0 MiB`.
    pub fn size_words(&self) -> String {
        match self.size {
            0 => measure::bytes(self.used),
            size => format!("{} of {}", measure::bytes(self.used), measure::bytes(size)),
        }
    }
}

/// The sums of one thread or process.
#[derive(Clone, Copy, Default)]
struct LoadSum {
    weight: Weight,
    parts_ns: [u64; PARTS],
    top: Option<(RowId, u64)>,
    /// The newest entry: the number of buckets before the last one, its weight and its stack.
    newest: Option<(u64, u64, ThreadStack)>,
}

impl LoadSum {
    /// Considers a function for the top. Of equals the first by name wins.
    fn update_top(&mut self, row: RowId, ns: u64, rows: &RowTable) {
        let wins = |(top, most_ns): (RowId, u64)| ns > most_ns || ns == most_ns && rows.rank(row) < rows.rank(top);
        if row != RowId::NONE && self.top.is_none_or(wins) {
            self.top = Some((row, ns));
        }
    }

    /// Adds the weights of a thread to those of its process.
    fn add_weights(&mut self, thread: &LoadSum) {
        self.weight += thread.weight;
        let parts_ns = self.parts_ns.iter_mut().zip(thread.parts_ns);
        parts_ns.for_each(|(sum_ns, ns)| *sum_ns = sum_ns.saturating_add(ns));
    }

    fn load(self, rows: &RowTable) -> Load {
        let [top, top_full, top_module] = match self.top {
            Some((row, _)) => {
                let label = rows.label(row);
                [label.short.clone(), label.own_name(), label.module.clone()]
            }
            None => [const { None::<Text> }; 3].map(Option::unwrap_or_default),
        };
        Load { weight: self.weight, parts_ns: self.parts_ns, top, top_full, top_module, change: None }
    }
}

/// The flat of each function in each thread or process.
type Flats = IdMap<(u32, u32), u64>;

/// Returns the functions of a stack, the leaf first.
pub(super) fn build_stack(stack: StackId, index: StackIndex<'_>, rows: &RowTable) -> Vec<StackRow> {
    let mut functions = Vec::new();
    let mut at = stack;
    while at != StackId::EMPTY {
        let node = index.nodes[at.index()];
        let (_, own) = index.facts.rows_at(at.index(), node, index.filter);
        functions.extend(own.iter().rev().map(|&row| {
            let label = rows.label(row);
            StackRow { full: label.own_name(), short: label.short.clone(), module: label.module.clone() }
        }));
        at = node.parent;
    }
    functions
}

/// Returns the function of a frame: of inlined ones, that into which they are inlined.
pub(super) fn frame_row(names: &Names, frame: FrameId) -> StackRow {
    let Some(line) = names.lines(frame).last() else { return StackRow::default() };
    let function = names.function(line.function);
    let module = function.module.rsplit('/').next().unwrap_or_default();
    StackRow { full: (&*function.full).into(), short: (&*function.short).into(), module: module.into() }
}

/// Builds the rows. `flat_row` returns the row of an entry's flat, if the frame filters keep it,
/// `is_idle` whether a thread is folded, `stack_rows` the functions of an entry's stack,
/// `wait_name` what its thread waits for and who holds that, and `frame_row` the function of a frame.
pub(super) fn build(
    profile: &Profile,
    query: &Query,
    threads_query: &ThreadsQuery,
    filter: &ThreadFilter,
    rows: &RowTable,
    (flat_row, is_idle, stack_rows, wait_name, frame_row): (
        impl Fn(ThreadStack) -> Option<RowId>,
        impl Fn(ThreadId) -> bool,
        impl Fn(ThreadStack) -> Vec<StackRow>,
        impl Fn(ThreadStack) -> Option<(Text, Option<ThreadId>)>,
        impl Fn(FrameId) -> StackRow,
    ),
) -> ThreadTable {
    let groups = group_images(profile);
    let (mut sums, flats) = sum_threads(profile, query, flat_row);
    let has_row = |group: &ProcessImages| {
        // The started process is always shown. Of its descendants, only living ones are by default.
        profile.process(group.newest).connected || group.first.0 == 0 || threads_query.ended_processes
    };
    let mut process_flats = Flats::default();
    for ((thread, row), ns) in flats {
        sums[thread as usize].update_top(RowId(row), ns, rows);
        let process = groups.by_image[profile.threads()[thread as usize].process.0 as usize];
        let flat_ns = process_flats.entry((process, row)).or_default();
        *flat_ns = flat_ns.saturating_add(ns);
    }
    let mut process_sums = vec![LoadSum::default(); groups.processes.len()];
    for ((process, row), ns) in process_flats {
        process_sums[process as usize].update_top(RowId(row), ns, rows);
    }
    let mut threads = vec![Vec::new(); groups.processes.len()];
    for (index, thread) in profile.threads().iter().enumerate() {
        let process = groups.by_image[thread.process.0 as usize] as usize;
        threads[process].push(ThreadId(index as u32));
        process_sums[process].add_weights(&sums[index]);
    }
    let mut table = ThreadTable::default();
    for ((group, ids), sum) in groups.processes.iter().zip(threads).zip(process_sums) {
        let newest = profile.process(group.newest);
        if !has_row(group) {
            table.folded.count += 1;
            table.folded.weight += sum.weight;
            continue;
        }
        let mut process = ProcessRow {
            id: group.first,
            pid: newest.pid,
            parent: newest.parent,
            is_child: groups.pids.contains_key(&newest.parent),
            ancestor: groups.ancestor(profile, group, has_row),
            depth: 0,
            name: newest.name().to_owned(),
            command: command_line(newest),
            since_ns: profile.process(group.first).since_ns,
            ended: !newest.connected,
            load: sum.load(rows),
            inside: ids.iter().any(|&thread| filter.keeps_thread(thread)),
            threads: Vec::new(),
            folded: FoldedRows::default(),
            idle: FoldedRows::default(),
        };
        let shows_ended = threads_query.ended_threads_of.contains(&group.first);
        for id in ids {
            let (thread, sum) = (profile.thread(id), sums[id.0 as usize]);
            // Threads that lived until their process ended are shown with it.
            let folds = thread.ended || thread.process != group.newest;
            if folds && !shows_ended {
                process.folded.count += 1;
                process.folded.weight += sum.weight;
                continue;
            }
            let stack = if threads_query.stacks_of.contains(&id) || threads_query.chain.contains(&id) {
                sum.newest.map(|(_, _, key)| stack_rows(key)).unwrap_or_default()
            } else {
                if !folds && is_idle(id) {
                    process.idle.count += 1;
                    process.idle.weight += sum.weight;
                    continue;
                }
                Vec::new()
            };
            let state = if folds || !newest.connected { ThreadState::Ended } else { thread.state };
            let wait = sum.newest.filter(|_| state != ThreadState::Ended).and_then(|(_, _, key)| {
                let (name, holder) = wait_name(key)?;
                let mut functions = stack_rows(key);
                let is_own = |row: &StackRow| profile.process(thread.process).executable.ends_with(&*row.module);
                let own = functions.iter().position(|row| !row.module.is_empty() && is_own(row)).unwrap_or(0);
                Some(WaitRow {
                    name,
                    since_ns: profile.waits_since(id),
                    holder,
                    within: functions.drain(own..).next().unwrap_or_default(),
                })
            });
            let deepest = thread.deepest.as_ref().map(|stack| {
                let has_frames = match threads_query.deepest_of {
                    FrameRequest::None => false,
                    FrameRequest::One(thread) => thread == id,
                    FrameRequest::All => true,
                };
                let frames = stack.frames.iter().filter(|_| has_frames);
                let frames = frames.map(|&(frame, bytes)| (frame_row(frame), bytes)).collect();
                DeepestRow { used: stack.used, size: stack.size, frames }
            });
            let (tid, name, inside) = (thread.tid, thread.name.clone(), filter.keeps_thread(id));
            process.threads.push(ThreadRow {
                id,
                tid,
                name,
                state,
                load: sum.load(rows),
                inside,
                wait,
                stack,
                deepest,
            });
        }
        table.processes.push(process);
    }
    sort(&mut table, threads_query.sort);
    table
}

/// Sums the samples of each thread, and those of each function in each thread.
fn sum_threads(
    profile: &Profile,
    query: &Query,
    flat_row: impl Fn(ThreadStack) -> Option<RowId>,
) -> (Vec<LoadSum>, Flats) {
    let mut sums = vec![LoadSum::default(); profile.threads().len()];
    let mut flats = Flats::default();
    let window = match query.span {
        Span::Last { ns, .. } => ns.div_ceil(BUCKET_NS),
        Span::Total => 0,
    };
    profile.visit_with_age(query.generation, query.clock, query.span, |age, key, weight| {
        let (Some(row), (thread, _)) = (flat_row(key), key) else { return };
        let sum = &mut sums[thread.0 as usize];
        sum.weight += weight;
        if sum.newest.is_none_or(|(least, most_ns, _)| (age, u64::MAX - weight.ns) < (least, u64::MAX - most_ns)) {
            sum.newest = Some((age, weight.ns, key));
        }
        if window > 0 {
            let parts_back = u128::from(age) * PARTS as u128 / u128::from(window);
            let part = PARTS - 1 - parts_back.min(PARTS as u128 - 1) as usize;
            sum.parts_ns[part] = sum.parts_ns[part].saturating_add(weight.ns);
        }
        let flat_ns = flats.entry((thread.0, row.0)).or_default();
        *flat_ns = flat_ns.saturating_add(weight.ns);
    });
    (sums, flats)
}

/// Sorts processes, and the threads of each.
pub(super) fn sort(table: &mut ThreadTable, by: ThreadSort) {
    for process in &mut table.processes {
        process.threads.sort_by(|a, b| {
            let names = a.name.cmp(&b.name);
            compare(by, (a.tid, &a.load, a.state), (b.tid, &b.load, b.state), names).then(a.id.cmp(&b.id))
        });
    }
    table.processes.sort_by(|a, b| {
        let state = |process: &ProcessRow| if process.ended { ThreadState::Ended } else { ThreadState::Running };
        let (a_key, b_key) = ((a.pid, &a.load, state(a)), (b.pid, &b.load, state(b)));
        compare(by, a_key, b_key, a.name.cmp(&b.name)).then(a.id.cmp(&b.id))
    });
    arrange_tree(&mut table.processes);
}

/// Puts every process behind its nearest ancestor that has a row, and keeps the order of siblings.
fn arrange_tree(processes: &mut Vec<ProcessRow>) {
    if processes.iter().all(|process| process.ancestor.is_none()) {
        return;
    }
    let mut children: HashMap<Option<ProcessId>, Vec<usize>> = HashMap::new();
    for (index, process) in processes.iter().enumerate().rev() {
        children.entry(process.ancestor).or_default().push(index);
    }
    let mut rows: Vec<Option<ProcessRow>> = std::mem::take(processes).into_iter().map(Some).collect();
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    waiting.extend(children.remove(&None).unwrap_or_default().into_iter().map(|index| (index, 0)));
    while let Some((index, depth)) = waiting.pop() {
        let Some(mut process) = rows[index].take() else { continue };
        process.depth = depth;
        let own = children.remove(&Some(process.id)).unwrap_or_default();
        waiting.extend(own.into_iter().map(|index| (index, depth + 1)));
        processes.push(process);
    }
    processes.extend(rows.into_iter().flatten());
}

type SortKey<'a> = (u32, &'a Load, ThreadState);

fn compare(by: ThreadSort, (id, load, state): SortKey, (id2, load2, state2): SortKey, names: Ordering) -> Ordering {
    let weight = || load2.weight.ns.cmp(&load.weight.ns);
    let first = match by {
        ThreadSort::Id => Ordering::Equal,
        ThreadSort::Name => names,
        ThreadSort::State => state.cmp(&state2).then_with(weight),
        ThreadSort::Weight => weight(),
        ThreadSort::Samples => load2.weight.samples.cmp(&load.weight.samples),
        // Rows without a function come last.
        ThreadSort::Function => {
            load.top.is_empty().cmp(&load2.top.is_empty()).then_with(|| load.top.cmp(&load2.top)).then_with(weight)
        }
    };
    first.then(id.cmp(&id2))
}

/// The first and the newest image of one process.
struct ProcessImages {
    first: ProcessId,
    newest: ProcessId,
}

#[derive(Default)]
struct ImageGroups {
    /// The processes in the order of their first images.
    processes: Vec<ProcessImages>,
    /// The process of each image.
    by_image: Vec<u32>,
    /// The processes by their ids in their own namespaces.
    pids: HashMap<u32, u32>,
}

/// Maximum number of generations between a process and its nearest ancestor that has a row.
const MAX_GENERATIONS: usize = 64;

impl ImageGroups {
    /// The nearest ancestor of a process that has a row. Process ids may be reused, so an ancestor
    /// is only one that started before; it may have reported later.
    fn ancestor(
        &self,
        profile: &Profile,
        process: &ProcessImages,
        has_row: impl Fn(&ProcessImages) -> bool,
    ) -> Option<ProcessId> {
        let mut at = process;
        for _ in 0..MAX_GENERATIONS {
            let parent = self.pids.get(&profile.process(at.newest).parent)?;
            let started = |process: &ProcessImages| profile.process(process.newest).start_ticks;
            let is_older = |parent: &&ProcessImages| parent.first != at.first && started(parent) <= started(at);
            let parent = self.processes.get(*parent as usize).filter(is_older)?;
            if has_row(parent) {
                return Some(parent.first);
            }
            at = parent;
        }
        None
    }
}

fn group_images(profile: &Profile) -> ImageGroups {
    let mut groups = ImageGroups::default();
    let mut known: IdMap<(u32, u64), u32> = IdMap::default();
    for (index, process) in profile.processes().iter().enumerate() {
        let id = ProcessId(index as u32);
        let group = *known.entry((process.pid, process.start_ticks)).or_insert_with(|| {
            groups.processes.push(ProcessImages { first: id, newest: id });
            groups.processes.len() as u32 - 1
        });
        groups.processes[group as usize].newest = id;
        groups.by_image.push(group);
        groups.pids.insert(process.own_pid, group);
    }
    groups
}

fn command_line(process: &Process) -> String {
    if process.argv.is_empty() { process.executable.clone() } else { process.argv.join(" ") }
}

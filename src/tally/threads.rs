//! Who was sampled: processes and their threads, what each weighed, and where most of it went.
//!
//! Filters by function choose samples here as anywhere. Filters by thread do not: a thread that they leave out has its row, so
//! that another can be turned to, and says that it is left out.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::crowd::Crowd;
use super::diff::Change;
use super::query::Query;
use super::rows::{RowId, Rows};
use super::text::Text;
use super::trend::PARTS;
use crate::profile::Profile;
use crate::profile::hash::IdMap;
use crate::profile::process::{Process, ProcessId};
use crate::profile::thread::{State, ThreadId};
use crate::profile::window::{BUCKET_NS, Key, Span, Weight};

/// Order of processes, and of threads in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSort {
    /// By id.
    Id,
    /// By name, then id.
    Name,
    /// By state, running ones first, then weight.
    State,
    /// By weight, then id.
    #[default]
    Weight,
    /// By samples, then id.
    Samples,
    /// By the function that most of the weight is in, then weight.
    Function,
}

/// Which rows are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadsQuery {
    /// In which order.
    pub sort: ThreadSort,
    /// Processes whose ended threads are rows too; those of others are told as one number.
    pub ended_threads_of: Vec<ProcessId>,
    /// Whether ended processes are rows too.
    pub ended_processes: bool,
}

/// What kind of difference a weight and its samples are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadChange {
    /// Of the weight.
    pub weight: Change,
    /// Whether there are fewer samples.
    pub fewer: bool,
}

/// What samples came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// In all.
    pub weight: Weight,
    /// In each part of the window, oldest first, ns; all 0 for a total.
    pub parts_ns: [u64; PARTS],
    /// Short name of the function that has most of it as its flat; empty where there is none.
    pub top: Text,
    /// The same in full.
    pub top_full: Text,
    /// Its module.
    pub top_module: Text,
    /// Where the weight is the size of a difference: which.
    pub change: Option<LoadChange>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    /// Which.
    pub id: ThreadId,
    /// As the target sees it; 0 for those of a process that are too many to be known.
    pub tid: u32,
    /// Its latest name; may hold any characters.
    pub name: String,
    /// What it does.
    pub state: State,
    /// What it weighed.
    pub load: Load,
    /// Whether filters by thread let it in.
    pub inside: bool,
}

/// Rows that were not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// How many.
    pub count: usize,
    /// What they weighed together.
    pub weight: Weight,
    /// Where that is the size of a difference: which.
    pub change: Option<LoadChange>,
}

/// A process: all images from its first on, if it called exec.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRow {
    /// Its first image.
    pub id: ProcessId,
    /// As the viewer sees it.
    pub pid: u32,
    /// Its parent, as the target sees it.
    pub parent: u32,
    /// Whether its parent is one of these too.
    pub is_child: bool,
    /// Last part of its executable's path.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// When it was first heard of, on the viewer's clock, ns.
    pub since_ns: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// What its threads weighed.
    pub load: Load,
    /// Whether filters by thread let any of its threads in.
    pub inside: bool,
    /// In the order asked for.
    pub threads: Vec<ThreadRow>,
    /// Ended threads that are no rows.
    pub folded: Folded,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Threads {
    /// In the order asked for.
    pub processes: Vec<ProcessRow>,
    /// Ended processes that are no rows.
    pub folded: Folded,
}

/// Weights of one thread or process under way.
#[derive(Clone, Copy, Default)]
struct Sum {
    weight: Weight,
    parts_ns: [u64; PARTS],
    top: Option<(RowId, u64)>,
}

impl Sum {
    /// A function has so much of it. Of equals the first by name stands.
    fn see(&mut self, row: RowId, ns: u64, rows: &Rows) {
        let wins = |(top, most_ns): (RowId, u64)| ns > most_ns || ns == most_ns && rows.rank(row) < rows.rank(top);
        if row != RowId::NONE && self.top.is_none_or(wins) {
            self.top = Some((row, ns));
        }
    }

    fn load(self, rows: &Rows) -> Load {
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

/// Adds up. `row_of` is the row of an entry's flat, where filters by function let it in.
pub(super) fn threads(
    profile: &Profile,
    query: &Query,
    asked: &ThreadsQuery,
    crowd: &Crowd,
    rows: &Rows,
    row_of: impl Fn(Key) -> Option<RowId>,
) -> Threads {
    let groups = groups(profile);
    let mut sums = vec![Sum::default(); profile.threads().len()];
    let mut flats: IdMap<(u32, u32), u64> = IdMap::default();
    let window = match query.span {
        Span::Last { ns, .. } => ns.div_ceil(BUCKET_NS),
        Span::Total => 0,
    };
    profile.visit_aged(query.era, query.clock, query.span, |age, key, weight| {
        let (Some(row), (thread, _)) = (row_of(key), key) else { return };
        let sum = &mut sums[thread.0 as usize];
        sum.weight += weight;
        if window > 0 {
            let part =
                PARTS - 1 - (u128::from(age) * PARTS as u128 / u128::from(window)).min(PARTS as u128 - 1) as usize;
            sum.parts_ns[part] = sum.parts_ns[part].saturating_add(weight.ns);
        }
        let flat_ns = flats.entry((thread.0, row.0)).or_default();
        *flat_ns = flat_ns.saturating_add(weight.ns);
    });
    let mut of_processes: IdMap<(u32, u32), u64> = IdMap::default();
    for ((thread, row), ns) in flats {
        sums[thread as usize].see(RowId(row), ns, rows);
        let process = groups.of_image[profile.threads()[thread as usize].process.0 as usize];
        let flat_ns = of_processes.entry((process, row)).or_default();
        *flat_ns = flat_ns.saturating_add(ns);
    }
    let mut own = vec![Vec::new(); groups.processes.len()];
    for (index, thread) in profile.threads().iter().enumerate() {
        own[groups.of_image[thread.process.0 as usize] as usize].push(ThreadId(index as u32));
    }
    let mut process_sums = vec![Sum::default(); groups.processes.len()];
    of_processes.into_iter().for_each(|((process, row), ns)| process_sums[process as usize].see(RowId(row), ns, rows));
    let mut told = Threads::default();
    for ((group, own), mut sum) in groups.processes.iter().zip(own).zip(process_sums) {
        for &ThreadId(thread) in &own {
            let part = &sums[thread as usize];
            sum.weight += part.weight;
            sum.parts_ns.iter_mut().zip(part.parts_ns).for_each(|(sum_ns, ns)| *sum_ns = sum_ns.saturating_add(ns));
        }
        let newest = profile.process(group.newest);
        // What was started is always there; of the many that it starts, those that live.
        if !newest.connected && group.first.0 > 0 && !asked.ended_processes {
            told.folded.count += 1;
            told.folded.weight += sum.weight;
            continue;
        }
        let unfolded = asked.ended_threads_of.contains(&group.first);
        let mut process = ProcessRow {
            id: group.first,
            pid: newest.pid,
            parent: newest.parent,
            is_child: groups.pids.contains_key(&newest.parent),
            name: newest.name().to_owned(),
            command: command(newest),
            since_ns: profile.process(group.first).since_ns,
            ended: !newest.connected,
            load: sum.load(rows),
            inside: own.iter().any(|&thread| crowd.lets_in(thread)),
            threads: Vec::new(),
            folded: Folded::default(),
        };
        for id in own {
            let (thread, sum) = (profile.thread(id), sums[id.0 as usize]);
            // Threads that lived until their process ended are what is left of it.
            let folds = thread.ended || thread.process != group.newest;
            if folds && !unfolded {
                process.folded.count += 1;
                process.folded.weight += sum.weight;
                continue;
            }
            let state = if folds || !newest.connected { State::Ended } else { thread.state };
            let (name, inside) = (thread.name.clone(), crowd.lets_in(id));
            process.threads.push(ThreadRow { id, tid: thread.tid, name, state, load: sum.load(rows), inside });
        }
        told.processes.push(process);
    }
    sort(&mut told, asked.sort);
    told
}

/// Puts processes, and the threads of each, in order.
pub(super) fn sort(told: &mut Threads, by: ThreadSort) {
    for process in &mut told.processes {
        process.threads.sort_by(|a, b| {
            let names = a.name.cmp(&b.name);
            order(by, (a.tid, &a.load, a.state), (b.tid, &b.load, b.state), names).then(a.id.cmp(&b.id))
        });
    }
    told.processes.sort_by(|a, b| {
        let state = |process: &ProcessRow| if process.ended { State::Ended } else { State::Running };
        let (one, other) = ((a.pid, &a.load, state(a)), (b.pid, &b.load, state(b)));
        order(by, one, other, a.name.cmp(&b.name)).then(a.id.cmp(&b.id))
    });
}

type Sorted<'a> = (u32, &'a Load, State);

fn order(sort: ThreadSort, (id, load, state): Sorted, (id2, load2, state2): Sorted, names: Ordering) -> Ordering {
    let weight = || load2.weight.ns.cmp(&load.weight.ns);
    let first = match sort {
        ThreadSort::Id => Ordering::Equal,
        ThreadSort::Name => names,
        ThreadSort::State => state.cmp(&state2).then_with(weight),
        ThreadSort::Weight => weight(),
        ThreadSort::Samples => load2.weight.samples.cmp(&load.weight.samples),
        // What has no function stands last.
        ThreadSort::Function => {
            load.top.is_empty().cmp(&load2.top.is_empty()).then_with(|| load.top.cmp(&load2.top)).then_with(weight)
        }
    };
    first.then(id.cmp(&id2))
}

/// Images of one process.
struct Group {
    first: ProcessId,
    newest: ProcessId,
}

#[derive(Default)]
struct Groups {
    /// In order of their first images.
    processes: Vec<Group>,
    /// By image.
    of_image: Vec<u32>,
    /// Ids that processes have in their own eyes.
    pids: HashMap<u32, u32>,
}

fn groups(profile: &Profile) -> Groups {
    let mut groups = Groups::default();
    let mut known: IdMap<(u32, u64), u32> = IdMap::default();
    for (index, process) in profile.processes().iter().enumerate() {
        let id = ProcessId(index as u32);
        let group = *known.entry((process.pid, process.start_ticks)).or_insert_with(|| {
            groups.processes.push(Group { first: id, newest: id });
            groups.processes.len() as u32 - 1
        });
        groups.processes[group as usize].newest = id;
        groups.of_image.push(group);
        groups.pids.insert(process.own_pid, group);
    }
    groups
}

fn command(process: &Process) -> String {
    if process.argv.is_empty() { process.executable.clone() } else { process.argv.join(" ") }
}

//! The order of processes and threads, and the tree of processes.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::table::{Load, ProcessRow, ThreadSort, ThreadTable};
use crate::profile::process::ProcessId;
use crate::profile::thread::ThreadState;

/// Sorts processes, and the threads of each.
pub(crate) fn sort(table: &mut ThreadTable, by: ThreadSort) {
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
    let key = |load: &Load| (load.running_ns, load.weight.ns);
    let weight = || key(load2).cmp(&key(load));
    let first = match by {
        ThreadSort::Id => id.cmp(&id2),
        ThreadSort::Name => names,
        ThreadSort::State => state.cmp(&state2).then_with(weight),
        ThreadSort::Weight => weight(),
        ThreadSort::Samples => load2.weight.samples.cmp(&load.weight.samples),
        // Rows without a function come last.
        ThreadSort::Function => {
            load.top.is_empty().cmp(&load2.top.is_empty()).then_with(|| load.top.cmp(&load2.top)).then_with(weight)
        }
    };
    first.then(names).then(id.cmp(&id2))
}

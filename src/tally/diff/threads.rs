//! Processes and threads, as differences from what they were.

use std::collections::HashMap;

use super::{Bursts, Judge};
use crate::profile::window::Weight;
use crate::tally::threads::{Folded, Load, LoadChange, ProcessRow, ThreadRow, ThreadSort, Threads, sort};

/// What processes and threads weigh more or less than they did. Who there is, what they do, how their load goes and where most of it is,
/// is as it is now; before, each has its row.
pub fn threads(now: &Threads, before: &Threads, (judge, bursts): (&Judge, &Bursts), order: ThreadSort) -> Threads {
    let rows = now.processes.iter().map(|process| process.threads.len() + 1).sum();
    let judge = (&judge.among(rows), bursts);
    let nothing = Load::default();
    let mut gone: HashMap<_, _> = before.processes.iter().map(|process| (process.id, process)).collect();
    let mut process = |process: &ProcessRow| {
        let was = gone.remove(&process.id);
        let threads = was.map_or(&[][..], |was| &was.threads);
        let mut gone: HashMap<_, _> = threads.iter().map(|thread| (thread.id, &thread.load)).collect();
        let thread = |thread: &ThreadRow| ThreadRow {
            load: load(&thread.load, gone.remove(&thread.id).unwrap_or(&nothing), judge),
            ..thread.clone()
        };
        ProcessRow {
            load: load(&process.load, was.map_or(&nothing, |was| &was.load), judge),
            threads: process.threads.iter().map(thread).collect(),
            folded: folded(process.folded, gone.into_values(), judge),
            ..process.clone()
        }
    };
    let processes = now.processes.iter().map(&mut process).collect();
    let folded = folded(now.folded, gone.values().map(|process| &process.load), judge);
    let mut told = Threads { processes, folded };
    sort(&mut told, order);
    told
}

fn load(now: &Load, before: &Load, (judge, bursts): (&Judge, &Bursts)) -> Load {
    let judge = judge.of_bursts(bursts.load(&before.parts_ns, judge.sample_ns()));
    let (weight, change) = changed(now.weight, before.weight, &judge);
    let known = if now.top.is_empty() { before } else { now };
    Load { weight, parts_ns: now.parts_ns, change: Some(change), ..known.clone() }
}

fn folded<'a>(now: Folded, before: impl Iterator<Item = &'a Load>, (judge, _): (&Judge, &Bursts)) -> Folded {
    let before = before.fold(Weight::default(), |mut sum, load| {
        sum += load.weight;
        sum
    });
    let (weight, change) = changed(now.weight, before, judge);
    Folded { count: now.count, weight, change: Some(change) }
}

fn changed(now: Weight, before: Weight, judge: &Judge) -> (Weight, LoadChange) {
    let difference = judge.difference(now.ns, before.ns);
    let weight = Weight { ns: difference.ns, samples: now.samples.abs_diff(before.samples) };
    (weight, LoadChange { weight: difference.change, fewer: now.samples < before.samples })
}

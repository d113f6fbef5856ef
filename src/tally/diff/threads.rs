//! The difference of processes and threads.

use std::collections::HashMap;

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::profile::totals::Weight;
use crate::tally::threads::{FoldedRows, Load, LoadChange, ProcessRow, ThreadRow, ThreadSort, ThreadTable, sort};
use crate::tally::trend::PARTS;

/// Returns the current processes and threads with the differences of their weights. Everything else
/// is current too. `before` must have a row for every process and thread.
pub fn diff_threads(
    now: &ThreadTable,
    before: &ThreadTable,
    (test, bursts): (&SignificanceTest, &Burstiness),
    order: ThreadSort,
) -> ThreadTable {
    let mut totals_ns = [0u64; PARTS];
    for process in &before.processes {
        let parts = totals_ns.iter_mut().zip(process.load.parts_ns);
        parts.for_each(|(total_ns, ns)| *total_ns = total_ns.saturating_add(ns));
    }
    let test = (test, bursts, &totals_ns);
    let nothing = Load::default();
    let mut gone: HashMap<_, _> = before.processes.iter().map(|process| (process.id, process)).collect();
    let mut process = |process: &ProcessRow| {
        let was = gone.remove(&process.id);
        let threads = was.map_or(&[][..], |was| &was.threads);
        let mut gone: HashMap<_, _> = threads.iter().map(|thread| (thread.id, &thread.load)).collect();
        let thread = |thread: &ThreadRow| ThreadRow {
            load: diff_load(&thread.load, gone.remove(&thread.id).unwrap_or(&nothing), test),
            ..thread.clone()
        };
        ProcessRow {
            load: diff_load(&process.load, was.map_or(&nothing, |was| &was.load), test),
            threads: process.threads.iter().map(thread).collect(),
            folded: diff_folded(process.folded, gone.into_values(), test),
            ..process.clone()
        }
    };
    let processes = now.processes.iter().map(&mut process).collect();
    let folded = diff_folded(now.folded, gone.values().map(|process| &process.load), test);
    let mut table = ThreadTable { processes, folded };
    sort(&mut table, order);
    table
}

fn diff_load(
    now: &Load,
    before: &Load,
    (test, bursts, totals_ns): (&SignificanceTest, &Burstiness, &[u64; PARTS]),
) -> Load {
    let test = test.with_burstiness(bursts.thread(&before.parts_ns, totals_ns, test.sample_ns()));
    let (weight, change) = diff_weight(now.weight, before.weight, &test);
    let known = if now.top.is_empty() { before } else { now };
    Load { weight, running_ns: weight.ns, parts_ns: now.parts_ns, change: Some(change), ..known.clone() }
}

fn diff_folded<'a>(
    now: FoldedRows,
    before: impl Iterator<Item = &'a Load>,
    (test, ..): (&SignificanceTest, &Burstiness, &[u64; PARTS]),
) -> FoldedRows {
    let before = before.fold(Weight::default(), |mut sum, load| {
        sum += load.weight;
        sum
    });
    let (weight, change) = diff_weight(now.weight, before, test);
    FoldedRows { count: now.count, weight, change: Some(change) }
}

fn diff_weight(now: Weight, before: Weight, test: &SignificanceTest) -> (Weight, LoadChange) {
    let difference = test.difference(now.ns, before.ns);
    let latency_ns = now.latency_ns.abs_diff(before.latency_ns);
    let weight = Weight { latency_ns, ..Weight::new(difference.ns, now.samples.abs_diff(before.samples)) };
    (weight, LoadChange { weight: difference.change, fewer: now.samples < before.samples })
}

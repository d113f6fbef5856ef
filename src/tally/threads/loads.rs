//! Sums of the samples of each thread and process, and the function with most of each.

use super::images::ImageGroups;
use super::table::Load;
use crate::profile::Profile;
use crate::profile::hash::IdMap;
use crate::profile::totals::{BUCKET_NS, Span, ThreadStack, Weight};
use crate::tally::query::Query;
use crate::tally::rows::{RowId, RowTable};
use crate::tally::text::Text;
use crate::tally::trend::PARTS;

/// The sums of one thread or process.
#[derive(Clone, Copy, Default)]
pub(super) struct LoadSum {
    pub(super) weight: Weight,
    /// The weight of the samples that wait, ns.
    pub(super) waiting_ns: u64,
    parts_ns: [u64; PARTS],
    top: Option<(RowId, u64)>,
    /// The newest entry: the number of buckets before the last one, its weight and its stack.
    pub(super) newest: Option<(u64, u64, ThreadStack)>,
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
        self.waiting_ns = self.waiting_ns.saturating_add(thread.waiting_ns);
        let parts_ns = self.parts_ns.iter_mut().zip(thread.parts_ns);
        parts_ns.for_each(|(sum_ns, ns)| *sum_ns = sum_ns.saturating_add(ns));
    }

    pub(super) fn load(self, rows: &RowTable) -> Load {
        let [top, top_full, top_module] = match self.top {
            Some((row, _)) => {
                let label = rows.label(row);
                [label.short.clone(), label.own_name(), label.module.clone()]
            }
            None => [const { None::<Text> }; 3].map(Option::unwrap_or_default),
        };
        let running_ns = self.weight.ns.saturating_sub(self.waiting_ns);
        Load { weight: self.weight, running_ns, parts_ns: self.parts_ns, top, top_full, top_module, change: None }
    }
}

/// The flat of each function in each thread or process.
type Flats = IdMap<(u32, u32), u64>;

/// Sums the samples of each thread and of each process. `flat_row` returns the row of an entry's
/// flat, if the frame filters keep it, and `waits` says whether its thread waits.
pub(super) fn sum_loads(
    profile: &Profile,
    query: &Query,
    rows: &RowTable,
    groups: &ImageGroups,
    flat_row: impl Fn(ThreadStack) -> Option<RowId>,
    waits: impl Fn(ThreadStack) -> bool,
) -> (Vec<LoadSum>, Vec<LoadSum>) {
    let (mut threads, flats) = sum_threads(profile, query, flat_row, waits);
    let mut process_flats = Flats::default();
    for ((thread, row), ns) in flats {
        threads[thread as usize].update_top(RowId(row), ns, rows);
        let process = groups.process_of(profile.threads()[thread as usize].process);
        let flat_ns = process_flats.entry((process, row)).or_default();
        *flat_ns = flat_ns.saturating_add(ns);
    }
    let mut processes = vec![LoadSum::default(); groups.processes.len()];
    for ((process, row), ns) in process_flats {
        processes[process as usize].update_top(RowId(row), ns, rows);
    }
    for (sum, group) in processes.iter_mut().zip(&groups.processes) {
        group.threads.iter().for_each(|thread| sum.add_weights(&threads[thread.0 as usize]));
    }
    (threads, processes)
}

/// Sums the samples of each thread, and those of each function in each thread.
fn sum_threads(
    profile: &Profile,
    query: &Query,
    flat_row: impl Fn(ThreadStack) -> Option<RowId>,
    waits: impl Fn(ThreadStack) -> bool,
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
        if waits(key) {
            sum.waiting_ns = sum.waiting_ns.saturating_add(weight.ns);
        }
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

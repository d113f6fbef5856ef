//! The samples of one clock of one process: the total weight of every stack, and a history from
//! which the weights of any recent span can be summed exactly.

use super::hash::IdMap;
use super::history::History;
pub use super::history::{BUCKET_NS, BUCKETS};
use super::ids::ThreadId;
use super::running_time::{LatencyChange, RunningTime};
use super::stack::StackId;
pub use super::weight::Weight;

/// Maximum number of keys in one table of totals. The caller adds samples with further keys under a
/// substitute key, see [`Totals::has_room`].
const MAX_KEYS: usize = 1 << 20;

/// The samples that a query covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All samples since the start or the last reset.
    Total,
    /// The samples of a window that ends at `now_ns`, in whole buckets.
    Last {
        /// Length, ns.
        ns: u64,
        /// End, on the viewer's `CLOCK_MONOTONIC`, ns.
        now_ns: u64,
    },
}

impl Span {
    /// The numbers of the first and the last bucket (time divided by [`BUCKET_NS`]), or `None` for
    /// the total. If the span has no length, the first is one past the last.
    pub fn buckets(self) -> Option<(u64, u64)> {
        let Span::Last { ns, now_ns } = self else { return None };
        let last = now_ns / BUCKET_NS;
        Some(((last + 1).saturating_sub(ns.div_ceil(BUCKET_NS)), last))
    }
}

/// A thread and its stack: what samples are summed by.
pub type ThreadStack = (ThreadId, StackId);

/// Index of a key in [`Totals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TotalsIndex(u32);

/// The samples of one clock of one process.
#[derive(Debug, Default)]
pub struct Totals {
    /// Total weights in order of their first samples. That is roughly the order of the stacks, so
    /// summing them up goes through memory once.
    entries: Vec<(ThreadStack, Weight)>,
    /// Index of each key in `entries`. It is empty in a frozen copy, which gets no samples.
    indices: IdMap<ThreadStack, u32>,
    history: History,
    overflows: u64,
    /// The recent time in which threads ran; `None` if none did.
    running: Option<Box<RunningTime>>,
    /// The unknown part of the latency, and the latency, of the time before `running`, ns.
    resolution: (f64, f64),
}

impl Totals {
    /// Returns a read-only copy.
    pub fn freeze(&self) -> Totals {
        let Totals { entries, history, overflows, .. } = self;
        let (entries, history) = (entries.clone(), history.clone());
        Totals { entries, history, overflows: *overflows, ..Totals::default() }
    }

    /// Whether `key` has an index or can get one.
    pub fn has_room(&self, key: ThreadStack) -> bool {
        self.entries.len() < MAX_KEYS || self.indices.contains_key(&key)
    }

    /// Returns the index of a key and adds the key if it is new.
    pub fn index(&mut self, key: ThreadStack) -> TotalsIndex {
        TotalsIndex(*self.indices.entry(key).or_insert_with(|| {
            self.entries.push((key, Weight::default()));
            self.entries.len() as u32 - 1
        }))
    }

    /// Loads the memory that [`add`](Self::add) will write. The result only keeps the compiler from
    /// removing the load.
    pub(super) fn prefetch(&self, index: TotalsIndex) -> u64 {
        self.entries.get(index.0 as usize).map_or(0, |(_, weight)| weight.ns)
    }

    /// Adds a sample taken at `at_ns` on the viewer's clock.
    pub fn add(&mut self, at_ns: u64, index: TotalsIndex, weight: Weight) {
        self.entries[index.0 as usize].1 += weight;
        self.overflows += self.history.add(at_ns / BUCKET_NS, index.0, weight);
    }

    /// Says that the thread of a sample that was added at `at_ns` ran until `ran_ns`. Returns
    /// whether latencies are due to be [settled](Self::settle).
    pub(super) fn add_running(&mut self, (ran_ns, at_ns): (u64, u64), index: TotalsIndex, ns: u64) -> bool {
        let thread = self.entries[index.0 as usize].0.0;
        let running = self.running.get_or_insert_default();
        running.add(thread, (ran_ns, at_ns), index.0, ns);
        running.is_due()
    }

    /// Brings latencies up to date: `all`, or only those that no later sample changes. Calls `each`
    /// with bucket number, key and weight of every change.
    pub(super) fn settle(&mut self, all: bool, mut each: impl FnMut(u64, ThreadStack, Weight)) {
        let Some(running) = &mut self.running else { return };
        for LatencyChange { index, bucket, ns } in running.settle(all) {
            let (weight, entry) = (Weight::of_latency(ns), &mut self.entries[index as usize]);
            entry.1 += weight;
            self.overflows += self.history.add(bucket, index, weight);
            each(bucket, entry.0, weight);
        }
    }

    /// The part of the latency that is not known, since the start or lately, and the latency, ns.
    pub(super) fn resolution(&self, is_total: bool) -> (f64, f64) {
        let Some(running) = &self.running else { return self.resolution };
        let (unknown_ns, latency_ns) = running.resolution(is_total);
        match is_total {
            true => (self.resolution.0 + unknown_ns, self.resolution.1 + latency_ns),
            false => (unknown_ns, latency_ns),
        }
    }

    /// Drops the time in which threads ran, as no more samples come.
    pub(super) fn end_running(&mut self) {
        self.resolution = self.resolution(true);
        self.running = None;
    }

    /// Removes a sample that was added for `key` to the history bucket with this number.
    pub(super) fn remove(&mut self, bucket: u64, key: ThreadStack, weight: Weight) {
        if let Some(&index) = self.indices.get(&key) {
            self.entries[index as usize].1 -= weight;
            self.history.remove(bucket, index, weight);
        }
    }

    /// Calls `each` with every key and weight of a span. A key may occur more than once.
    pub fn visit(&self, span: Span, mut each: impl FnMut(ThreadStack, Weight)) {
        match span.buckets() {
            // Of what was freed, nothing is left.
            None => {
                let used = self.entries.iter().filter(|(_, weight)| *weight != Weight::default());
                used.for_each(|&(key, weight)| each(key, weight));
            }
            Some((first, last)) => self.visit_buckets(first, last, |_, key, weight| each(key, weight)),
        }
    }

    /// Calls `each` with the bucket number, key and weight of every entry of the buckets from
    /// `first` to `last`.
    pub fn visit_buckets(&self, first: u64, last: u64, mut each: impl FnMut(u64, ThreadStack, Weight)) {
        self.history.visit(first, last, |number, index, weight| each(number, self.entries[index as usize].0, weight));
    }

    /// The numbers of the oldest and the newest bucket in the history.
    pub fn history_range(&self) -> Option<(u64, u64)> {
        self.history.range()
    }

    /// Clears the history but not the totals, as when a clock is switched on again.
    pub fn clear_history(&mut self) {
        self.history = History::default();
        self.running = None;
    }

    /// Memory of keys and weights, in bytes.
    pub(super) fn key_bytes(&self) -> usize {
        // A hash table is between 7/16 and 7/8 full.
        let index_bytes = self.indices.capacity() * 8 / 7 * (size_of::<(ThreadStack, u32)>() + 1);
        self.entries.capacity() * size_of::<(ThreadStack, Weight)>() + index_bytes
    }

    /// Memory of the history, in bytes.
    pub(super) fn history_bytes(&self) -> usize {
        self.history.bytes() + self.running.as_ref().map_or(0, |running| running.bytes())
    }

    /// The numbers of the history's buckets, oldest first.
    pub(super) fn bucket_numbers(&self) -> impl Iterator<Item = u64> {
        self.history.numbers()
    }

    /// Drops the history before a bucket, and counts that as an overflow.
    pub(super) fn drop_history_before(&mut self, number: u64) {
        self.overflows += self.history.drop_before(number);
    }

    /// Replaces stacks. Keys that become the same are summed.
    pub(super) fn renumber(&mut self, mut stack: impl FnMut(StackId) -> StackId) {
        let is_frozen = self.indices.is_empty();
        let former = std::mem::take(&mut self.entries);
        let mut indices: IdMap<ThreadStack, u32> = IdMap::default();
        let mut entries: Vec<(ThreadStack, Weight)> = Vec::new();
        let renumbered = former.into_iter().map(|((thread, former), weight)| {
            let key = (thread, stack(former));
            let index = *indices.entry(key).or_insert_with(|| {
                entries.push((key, Weight::default()));
                entries.len() as u32 - 1
            });
            entries[index as usize].1 += weight;
            index
        });
        let renumbered: Vec<u32> = renumbered.collect();
        self.history.renumber(&renumbered);
        self.running.iter_mut().for_each(|running| running.renumber(&renumbered));
        self.entries = entries;
        self.indices = if is_frozen { IdMap::default() } else { indices };
    }

    /// Number of history entries that were dropped early because there were too many.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::property::property;
    use proptest::prelude::*;

    use super::*;

    const KEY: ThreadStack = (ThreadId(0), StackId::EMPTY);

    fn sum(totals: &Totals, span: Span) -> u64 {
        let mut ns = 0;
        totals.visit(span, |_, weight| ns += weight.ns);
        ns
    }

    fn add(totals: &mut Totals, at_ns: u64, key: ThreadStack, weight: Weight) {
        let index = totals.index(key);
        totals.add(at_ns, index, weight);
    }

    fn last(ns: u64, now_ns: u64) -> Span {
        Span::Last { ns, now_ns }
    }

    #[test]
    fn a_sample_leaves_a_window_when_its_bucket_is_older() {
        let mut totals = Totals::default();
        add(&mut totals, 5 * BUCKET_NS + 7, KEY, Weight::new(1, 1));
        let two = 2 * BUCKET_NS;
        for (now_ns, ns) in [
            (5 * BUCKET_NS - 1, 0),
            (5 * BUCKET_NS, 1),
            (6 * BUCKET_NS - 1, 1),
            (6 * BUCKET_NS, 1),
            (7 * BUCKET_NS - 1, 1),
            (7 * BUCKET_NS, 0),
        ] {
            assert_eq!(sum(&totals, last(two, now_ns)), ns, "{now_ns}");
        }
        assert_eq!(sum(&totals, last(0, 5 * BUCKET_NS)), 0);
        assert_eq!(sum(&totals, last(1, 5 * BUCKET_NS)), 1);
        assert_eq!(sum(&totals, last(u64::MAX, u64::MAX)), 1);
        assert_eq!(sum(&totals, Span::Total), 1);
    }

    #[test]
    fn a_late_sample_is_added_to_its_bucket_unless_that_is_too_old() {
        let mut totals = Totals::default();
        let newest = 7000 * BUCKET_NS;
        for (at_ns, ns) in
            [(newest, 1), (newest - 3 * BUCKET_NS, 10), (newest, 100), (newest - BUCKETS as u64 * BUCKET_NS, 1000)]
        {
            add(&mut totals, at_ns, KEY, Weight::new(ns, 1));
        }
        assert_eq!(sum(&totals, last(BUCKET_NS, newest)), 101);
        assert_eq!(sum(&totals, last(4 * BUCKET_NS, newest)), 111);
        assert_eq!(sum(&totals, last(BUCKET_NS, newest - 3 * BUCKET_NS)), 10);
        assert_eq!(sum(&totals, last(u64::MAX, newest)), 111);
        assert_eq!(sum(&totals, Span::Total), 1111);
    }

    #[test]
    fn full_totals_have_room_for_known_keys_only() {
        let mut totals = Totals::default();
        let one = Weight::new(1, 1);
        (0..MAX_KEYS).for_each(|index| add(&mut totals, 0, (ThreadId(index as u32), StackId::EMPTY), one));
        assert!(
            totals.has_room((ThreadId(7), StackId::EMPTY)) && !totals.has_room((ThreadId(u32::MAX), StackId::EMPTY))
        );
    }

    #[test]
    fn a_frozen_copy_does_not_change() {
        let mut totals = Totals::default();
        add(&mut totals, 0, KEY, Weight::new(5, 1));
        let frozen = totals.freeze();
        (0..30).for_each(|bucket| add(&mut totals, bucket * BUCKET_NS, KEY, Weight::new(1, 1)));
        assert_eq!((sum(&frozen, Span::Total), sum(&frozen, last(u64::MAX, u64::MAX))), (5, 5));
        assert_eq!((sum(&totals, Span::Total), sum(&totals, last(u64::MAX, u64::MAX))), (35, 35));
    }

    #[test]
    fn weights_saturate() {
        let mut totals = Totals::default();
        for _ in 0..2 {
            add(&mut totals, 0, KEY, Weight::new(u64::MAX, 1));
        }
        add(&mut totals, BUCKET_NS, KEY, Weight::new(1, 1));
        totals.visit(Span::Total, |_, weight| assert_eq!(weight, Weight::new(u64::MAX, 3)));
    }

    #[test]
    fn clearing_the_history_keeps_the_total() {
        let mut totals = Totals::default();
        add(&mut totals, 0, KEY, Weight::new(5, 1));
        totals.clear_history();
        assert_eq!((sum(&totals, last(u64::MAX, 0)), sum(&totals, Span::Total)), (0, 5));
        add(&mut totals, 0, KEY, Weight::new(1, 1));
        assert_eq!((sum(&totals, last(u64::MAX, 0)), sum(&totals, Span::Total)), (1, 6));
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn a_span_sums_exactly_its_samples(
            samples in prop::collection::vec((0..700_000u64, 0..4u32, 0..100u64), 0..200),
            spans in prop::collection::vec((0..700_000u64, 0..800_000u64), 1..8),
        ) {
            let mut totals = Totals::default();
            for &(at_ms, thread, ns) in &samples {
                add(&mut totals, at_ms * 1_000_000, (ThreadId(thread), StackId::EMPTY), Weight::new(ns, 1));
            }
            let newest = samples.iter().map(|sample| sample.0 / 100).max().unwrap_or(0);
            for (ms, now_ms) in spans {
                let mut expected = BTreeMap::new();
                for &(at_ms, thread, ns) in &samples {
                    let (bucket, end) = (at_ms / 100, now_ms / 100);
                    if bucket <= end && bucket + ms.div_ceil(100) > end && bucket + 6000 > newest {
                        let entry: &mut Weight = expected.entry(thread).or_default();
                        *entry += Weight::new(ns, 1);
                    }
                }
                let mut found = BTreeMap::new();
                totals.visit(last(ms * 1_000_000, now_ms * 1_000_000), |(thread, _), weight| {
                    let entry: &mut Weight = found.entry(thread.0).or_default();
                    *entry += weight;
                });
                prop_assert_eq!(found, expected);
            }
        }
    }
}

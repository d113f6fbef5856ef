//! The last ten minutes of one clock of one process, in buckets of [`BUCKET_NS`]: the weight of
//! each sampled stack. Nothing decays and nothing is cleared periodically: a sample leaves a window
//! when its bucket is older than the window.
//!
//! Closed buckets are packed. Entries are sorted by their index in the totals and stored as the
//! difference to the index before and the number of their weight, both as varints. Weights repeat
//! (most are the period), so a sample takes 2 to 5 bytes if all stacks differ, and none if its
//! stack is in the bucket already. A latency that is less than the time takes 4 more. The buckets
//! of the last second stay open, because samples arrive only roughly in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::hash::IdMap;
use super::weight::Weight;
use crate::wire::varint;

/// Length of a bucket in ns.
pub const BUCKET_NS: u64 = 100_000_000;
/// Maximum number of buckets: ten minutes.
pub const BUCKETS: usize = 6000;
/// Number of newest buckets that are not packed, because late samples may still arrive.
const OPEN_BUCKETS: usize = 10;
/// Maximum size of all packed buckets in bytes. Beyond it, the oldest bucket is dropped early. Ten
/// minutes of 8 000 samples per second, no two alike, take 16 MB, and twice that if several
/// threads ran all the time.
const MAX_BYTES: usize = 32 << 20;
/// Number of entries at which the equal ones of an open bucket are merged for the first time.
const MERGE_AT: usize = 4096;
/// Maximum number of numbered weights. Further weights are stored in full.
const MAX_WEIGHTS: usize = 4096;

/// The latency of a weight, packed with its number: it is the time, it is 0, or it follows.
const LATENCY_WHOLE: u64 = 0;
const LATENCY_NONE: u64 = 1;
const LATENCY_FOLLOWS: u64 = 2;
const LATENCIES: u64 = 3;

/// An index in the totals and its weight in the bucket.
type BucketEntry = (u32, Weight);

#[derive(Clone, Debug)]
struct Bucket {
    /// Time divided by [`BUCKET_NS`].
    number: u64,
    open: Vec<BucketEntry>,
    /// Number of open entries at which equal ones are merged next.
    merge_at: usize,
    /// Packed entries, shared with frozen copies of the history.
    packed: Arc<[u8]>,
    /// Number of entries in `packed`.
    packed_entries: u32,
}

impl Bucket {
    fn new(number: u64) -> Bucket {
        Bucket { number, open: Vec::new(), merge_at: MERGE_AT, packed: Arc::default(), packed_entries: 0 }
    }

    fn add(&mut self, index: u32, weight: Weight) {
        self.open.push((index, weight));
        if self.open.len() >= self.merge_at {
            self.merge();
        }
    }

    /// Sorts the open entries and sums those with the same index.
    fn merge(&mut self) {
        self.open.sort_unstable_by_key(|&(index, _)| index);
        self.open.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.merge_at = MERGE_AT.max(2 * self.open.len());
    }
}

/// The first [`MAX_WEIGHTS`] distinct weights, by number. Their latency is 0.
#[derive(Clone, Debug, Default)]
struct WeightTable {
    weights: Vec<Weight>,
    numbers: IdMap<(u64, u64), u32>,
}

impl WeightTable {
    /// Returns the number of a weight plus one, or 0 if the table is full.
    fn number(&mut self, weight: Weight) -> u64 {
        let key = (weight.ns, weight.samples);
        if let Some(&number) = self.numbers.get(&key) {
            return u64::from(number) + 1;
        }
        if self.weights.len() >= MAX_WEIGHTS {
            return 0;
        }
        self.numbers.insert(key, self.weights.len() as u32);
        self.weights.push(Weight::new(weight.ns, weight.samples));
        self.weights.len() as u64
    }
}

/// Buckets of recent samples.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Sorted by number, at most [`BUCKETS`].
    buckets: VecDeque<Bucket>,
    weights: WeightTable,
    /// Size of all packed entries in bytes.
    packed_bytes: usize,
    max_bytes: usize,
}

impl Default for History {
    fn default() -> History {
        History { buckets: VecDeque::new(), weights: WeightTable::default(), packed_bytes: 0, max_bytes: MAX_BYTES }
    }
}

impl History {
    /// Adds a sample to a bucket. Returns the number of entries that were dropped early to stay
    /// below the size limit.
    pub(super) fn add(&mut self, number: u64, index: u32, weight: Weight) -> u64 {
        // Nearly every sample belongs to the newest bucket.
        let newest = self.buckets.back_mut();
        if let Some(bucket) = newest.filter(|bucket| bucket.number == number && bucket.packed_entries == 0) {
            bucket.add(index, weight);
            return 0;
        }
        let newest = self.buckets.back().map_or(number, |bucket| bucket.number.max(number));
        while self.buckets.front().is_some_and(|bucket| bucket.number + BUCKETS as u64 <= newest) {
            self.drop_oldest();
        }
        if number + BUCKETS as u64 <= newest {
            return 0;
        }
        let at = self.buckets.partition_point(|bucket| bucket.number < number);
        if self.buckets.get(at).is_none_or(|bucket| bucket.number != number) {
            self.buckets.insert(at, Bucket::new(number));
            if at + 1 == self.buckets.len() {
                if at > 0 {
                    self.buckets[at - 1].merge();
                }
                self.pack_closed_buckets();
            }
        }
        let is_closed = self.buckets[at].packed_entries > 0 || at + OPEN_BUCKETS < self.buckets.len();
        if is_closed {
            self.unpack(at);
        }
        self.buckets[at].add(index, weight);
        if is_closed {
            self.pack(at);
        }
        let mut dropped = 0;
        while self.packed_bytes > self.max_bytes {
            dropped += self.drop_oldest();
        }
        dropped
    }

    /// Removes a sample from a bucket, if the history still has it.
    pub(super) fn remove(&mut self, number: u64, index: u32, weight: Weight) {
        let at = self.buckets.partition_point(|bucket| bucket.number < number);
        if self.buckets.get(at).is_none_or(|bucket| bucket.number != number) {
            return;
        }
        let is_packed = self.buckets[at].packed_entries > 0;
        if is_packed {
            self.unpack(at);
        }
        let bucket = &mut self.buckets[at];
        bucket.merge();
        if let Ok(found) = bucket.open.binary_search_by_key(&index, |&(index, _)| index) {
            bucket.open[found].1 -= weight;
            if bucket.open[found].1 == Weight::default() {
                bucket.open.remove(found);
            }
        }
        if is_packed {
            self.pack(at);
        }
    }

    fn pack_closed_buckets(&mut self) {
        for at in (0..self.buckets.len().saturating_sub(OPEN_BUCKETS)).rev() {
            if self.buckets[at].open.is_empty() {
                return;
            }
            self.pack(at);
        }
    }

    fn pack(&mut self, at: usize) {
        let bucket = &mut self.buckets[at];
        bucket.merge();
        let open = std::mem::take(&mut bucket.open);
        let (mut bytes, mut last) = (Vec::with_capacity(4 * open.len()), 0);
        for &(index, weight) in &open {
            varint::push(&mut bytes, u64::from(index - last));
            last = index;
            let number = self.weights.number(weight);
            let latency = match weight.latency_ns {
                latency_ns if latency_ns == weight.ns => LATENCY_WHOLE,
                0 => LATENCY_NONE,
                _ => LATENCY_FOLLOWS,
            };
            varint::push(&mut bytes, number * LATENCIES + latency);
            if number == 0 {
                varint::push(&mut bytes, weight.ns);
                varint::push(&mut bytes, weight.samples);
            }
            if latency == LATENCY_FOLLOWS {
                varint::push(&mut bytes, weight.latency_ns);
            }
        }
        (bucket.packed_entries, bucket.packed) = (open.len() as u32, bytes.into());
        self.packed_bytes += bucket.packed.len();
    }

    fn unpack(&mut self, at: usize) {
        let mut open = Vec::with_capacity(self.buckets[at].packed_entries as usize + 1);
        self.visit_bucket(&self.buckets[at], &mut |index, weight| open.push((index, weight)));
        let bucket = &mut self.buckets[at];
        self.packed_bytes -= bucket.packed.len();
        (bucket.open, bucket.packed, bucket.packed_entries) = (open, Arc::default(), 0);
    }

    /// Drops the oldest bucket. Returns the number of its entries.
    pub(super) fn drop_oldest(&mut self) -> u64 {
        let Some(bucket) = self.buckets.pop_front() else { return 0 };
        self.packed_bytes -= bucket.packed.len();
        u64::from(bucket.packed_entries) + bucket.open.len() as u64
    }

    /// Drops the buckets before a number. Returns the number of their entries.
    pub(super) fn drop_before(&mut self, number: u64) -> u64 {
        let mut dropped = 0;
        while self.buckets.front().is_some_and(|bucket| bucket.number < number) {
            dropped += self.drop_oldest();
        }
        dropped
    }

    /// Replaces the index of each entry by the one at its place in `indices`.
    pub(super) fn renumber(&mut self, indices: &[u32]) {
        for at in 0..self.buckets.len() {
            let is_packed = self.buckets[at].packed_entries > 0;
            if is_packed {
                self.unpack(at);
            }
            let bucket = &mut self.buckets[at];
            bucket.open.iter_mut().for_each(|(index, _)| *index = indices[*index as usize]);
            if is_packed {
                self.pack(at);
            }
        }
    }

    /// The numbers of the buckets, oldest first.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(|bucket| bucket.number)
    }

    /// Memory of the entries, in bytes. It is exact for packed buckets only.
    pub(super) fn bytes(&self) -> usize {
        let open = self.buckets.iter().rev().take(OPEN_BUCKETS + 1).map(|bucket| bucket.open.capacity());
        self.packed_bytes + open.sum::<usize>() * size_of::<BucketEntry>() + self.buckets.len() * size_of::<Bucket>()
    }

    /// Calls `each` with the bucket number, index and weight of every entry of the buckets from
    /// `first` to `last`. An index may occur more than once in a bucket.
    pub(super) fn visit(&self, first: u64, last: u64, mut each: impl FnMut(u64, u32, Weight)) {
        let start = self.buckets.partition_point(|bucket| bucket.number < first);
        for bucket in self.buckets.range(start..).take_while(|bucket| bucket.number <= last) {
            self.visit_bucket(bucket, &mut |index, weight| each(bucket.number, index, weight));
        }
    }

    fn visit_bucket(&self, bucket: &Bucket, each: &mut impl FnMut(u32, Weight)) {
        // The bytes are our own: they decode.
        let next = |bytes: &mut &[u8]| varint::decode(bytes).unwrap_or(0);
        let (mut bytes, mut index) = (&*bucket.packed, 0);
        for _ in 0..bucket.packed_entries {
            index += next(&mut bytes) as u32;
            let code = next(&mut bytes);
            let mut weight = match code / LATENCIES {
                0 => Weight::new(next(&mut bytes), next(&mut bytes)),
                number => self.weights.weights[number as usize - 1],
            };
            weight.latency_ns = match code % LATENCIES {
                LATENCY_WHOLE => weight.ns,
                LATENCY_NONE => 0,
                _ => next(&mut bytes),
            };
            each(index, weight);
        }
        bucket.open.iter().for_each(|&(index, weight)| each(index, weight));
    }

    /// The numbers of the oldest and the newest bucket that are kept.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        Some((self.buckets.front()?.number, self.buckets.back()?.number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::property::property;
    use proptest::prelude::*;

    use super::*;

    fn weight(ns: u64) -> Weight {
        Weight::new(ns, 1)
    }

    /// Sums the entries by bucket number and index.
    fn sums_by_entry(history: &History, first: u64, last: u64) -> BTreeMap<(u64, u32), Weight> {
        let mut sums: BTreeMap<(u64, u32), Weight> = BTreeMap::new();
        history.visit(first, last, |number, index, weight| *sums.entry((number, index)).or_default() += weight);
        sums
    }

    proptest! {
        #![proptest_config(property(256))]

        /// A visit yields every sample, whether or not it came late or its bucket was packed.
        #[test]
        fn packing_keeps_every_sample(
            entries in prop::collection::vec(
                (0..40u64, prop_oneof![0..5u32, any::<u32>()], 0..u64::MAX >> 20, 0..3u64),
                0..300,
            ),
            range in (0..45u64, 0..45u64),
        ) {
            let (mut history, mut expected) = (History::default(), BTreeMap::<(u64, u32), Weight>::new());
            for (at, &(number, index, ns, latency)) in entries.iter().enumerate() {
                // Mostly in order.
                let number = if at % 7 == 0 { number } else { at as u64 / 8 };
                let weight = Weight { latency_ns: ns * latency / 2, ..weight(ns) };
                history.add(number, index, weight);
                if (range.0..=range.1).contains(&number) {
                    *expected.entry((number, index)).or_default() += weight;
                }
            }
            prop_assert_eq!(sums_by_entry(&history, range.0, range.1), expected);
            let packed: usize = history.buckets.iter().map(|bucket| bucket.packed.len()).sum();
            prop_assert_eq!(history.packed_bytes, packed);
        }
    }

    #[test]
    fn a_large_bucket_is_merged_and_a_closed_one_is_packed() {
        let mut history = History::default();
        for index in 0..3 * MERGE_AT as u32 {
            history.add(0, index % 5, weight(1));
            assert!(history.buckets[0].open.len() <= MERGE_AT);
        }
        (1..=OPEN_BUCKETS as u64).for_each(|number| assert_eq!(history.add(number, 0, weight(1)), 0));
        assert_eq!((history.buckets[0].open.len(), history.buckets[0].packed_entries), (0, 5));
        assert!(history.buckets.iter().skip(1).all(|bucket| bucket.open.len() == 1));
        assert_eq!(sums_by_entry(&history, 0, 0).values().map(|sum| sum.ns).sum::<u64>(), 3 * MERGE_AT as u64);
    }

    #[test]
    fn a_sample_takes_a_few_bytes_and_the_size_limit_drops_the_oldest_buckets() {
        let (mut history, mut dropped, mut random) = (History { max_bytes: 1 << 20, ..History::default() }, 0, 1u32);
        let (buckets, in_each) = (1000, 800);
        for number in 0..buckets {
            for _ in 0..in_each {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                dropped += history.add(number, random >> 14, weight(10_101_010));
            }
            if number == 100 {
                let each = history.packed_bytes as f64 / (90 * in_each) as f64;
                assert!((2.0..4.0).contains(&each), "{each} bytes");
            }
        }
        assert!(dropped > 0 && history.packed_bytes <= 1 << 20);
        let (oldest, newest) = history.range().unwrap();
        assert!(oldest > 200 && newest == buckets - 1, "{oldest} to {newest}");
    }
}

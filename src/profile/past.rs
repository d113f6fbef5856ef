//! The recent past of one clock of one process, by tick of [`BUCKET_NS`]: who was seen where, and what it weighed. No decay, no periodic
//! clearing: a sample leaves a window when it is older.
//!
//! What is over is packed: entries in order of their place in the total, each as the distance to the one before and the number of its
//! weight, both as varints. Weights repeat (they are the period), so that a sample takes 2 to 5 bytes where stacks differ, and none
//! where they do not. The last second is open: samples arrive about in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::hash::IdMap;
use super::window::Weight;

/// Length of a bucket, ns.
pub const BUCKET_NS: u64 = 100_000_000;
/// How far back buckets are kept: ten minutes.
pub const BUCKETS: usize = 6000;
/// Buckets that are not packed: samples of theirs may still be under way.
const OPEN: usize = 10;
/// Bytes of packed buckets, at most: beyond, the oldest goes before its time. 8 000 samples a second, no two alike, make 16 MB in ten
/// minutes.
const MAX_BYTES: usize = 32 << 20;
/// Entries of an open bucket from which on equal places are looked for before it is over.
const CROWDED: usize = 4096;
/// Weights that have a number; others are written out.
const MAX_WEIGHTS: usize = 4096;

/// One entry: a place in the total, and its weight in the bucket.
type Entry = (u32, Weight);

#[derive(Clone, Debug)]
struct Bucket {
    /// Time ÷ [`BUCKET_NS`].
    tick: u64,
    open: Vec<Entry>,
    /// Length at which equal places are merged next.
    crowded: usize,
    /// Frozen pasts share it.
    packed: Arc<[u8]>,
    /// In `packed`.
    entries: u32,
}

impl Bucket {
    fn new(tick: u64) -> Bucket {
        Bucket { tick, open: Vec::new(), crowded: CROWDED, packed: Arc::default(), entries: 0 }
    }

    fn enter(&mut self, place: u32, weight: Weight) {
        self.open.push((place, weight));
        if self.open.len() >= self.crowded {
            self.merge();
        }
    }

    /// Makes one entry of those with the same place.
    fn merge(&mut self) {
        self.open.sort_unstable_by_key(|&(place, _)| place);
        self.open.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.crowded = CROWDED.max(2 * self.open.len());
    }
}

/// Weights by number, as far as there is room.
#[derive(Clone, Debug, Default)]
struct Weights {
    known: Vec<Weight>,
    numbers: IdMap<(u64, u64), u32>,
}

impl Weights {
    /// One past its number, or 0.
    fn number(&mut self, weight: Weight) -> u64 {
        let key = (weight.ns, weight.samples);
        if let Some(&number) = self.numbers.get(&key) {
            return u64::from(number) + 1;
        }
        if self.known.len() >= MAX_WEIGHTS {
            return 0;
        }
        self.numbers.insert(key, self.known.len() as u32);
        self.known.push(weight);
        self.known.len() as u64
    }
}

/// The buckets.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// In order of their ticks, at most [`BUCKETS`].
    buckets: VecDeque<Bucket>,
    weights: Weights,
    /// In all packed buckets, and at most.
    bytes: usize,
    max_bytes: usize,
}

impl Default for Past {
    fn default() -> Past {
        Past { buckets: VecDeque::new(), weights: Weights::default(), bytes: 0, max_bytes: MAX_BYTES }
    }
}

impl Past {
    /// Enters what was seen in a tick. Returns how many entries had to go before their time.
    pub(super) fn enter(&mut self, tick: u64, place: u32, weight: Weight) -> u64 {
        // Nearly all are of the newest.
        if let Some(bucket) = self.buckets.back_mut().filter(|bucket| bucket.tick == tick && bucket.entries == 0) {
            bucket.enter(place, weight);
            return 0;
        }
        let newest = self.buckets.back().map_or(tick, |bucket| bucket.tick.max(tick));
        while self.buckets.front().is_some_and(|bucket| bucket.tick + BUCKETS as u64 <= newest) {
            self.drop_oldest();
        }
        if tick + BUCKETS as u64 <= newest {
            return 0;
        }
        let at = self.buckets.partition_point(|bucket| bucket.tick < tick);
        if self.buckets.get(at).is_none_or(|bucket| bucket.tick != tick) {
            self.buckets.insert(at, Bucket::new(tick));
            if at + 1 == self.buckets.len() {
                if at > 0 {
                    self.buckets[at - 1].merge();
                }
                self.pack_what_is_over();
            }
        }
        let late = self.buckets[at].entries > 0 || at + OPEN < self.buckets.len();
        if late {
            self.unpack(at);
        }
        self.buckets[at].enter(place, weight);
        if late {
            self.pack(at);
        }
        let mut lost = 0;
        while self.bytes > self.max_bytes {
            lost += self.drop_oldest();
        }
        lost
    }

    fn pack_what_is_over(&mut self) {
        for at in (0..self.buckets.len().saturating_sub(OPEN)).rev() {
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
        for &(place, weight) in &open {
            put(&mut bytes, u64::from(place - last));
            last = place;
            let number = self.weights.number(weight);
            put(&mut bytes, number);
            if number == 0 {
                put(&mut bytes, weight.ns);
                put(&mut bytes, weight.samples);
            }
        }
        (bucket.entries, bucket.packed) = (open.len() as u32, bytes.into());
        self.bytes += bucket.packed.len();
    }

    fn unpack(&mut self, at: usize) {
        let mut open = Vec::with_capacity(self.buckets[at].entries as usize + 1);
        self.visit_bucket(&self.buckets[at], &mut |place, weight| open.push((place, weight)));
        let bucket = &mut self.buckets[at];
        self.bytes -= bucket.packed.len();
        (bucket.open, bucket.packed, bucket.entries) = (open, Arc::default(), 0);
    }

    fn drop_oldest(&mut self) -> u64 {
        let Some(bucket) = self.buckets.pop_front() else { return 0 };
        self.bytes -= bucket.packed.len();
        u64::from(bucket.entries) + bucket.open.len() as u64
    }

    /// Calls `each` with every entry of the ticks from `first` to `last`; a place may come more than once in a tick.
    pub(super) fn visit(&self, first: u64, last: u64, mut each: impl FnMut(u64, u32, Weight)) {
        let start = self.buckets.partition_point(|bucket| bucket.tick < first);
        for bucket in self.buckets.range(start..).take_while(|bucket| bucket.tick <= last) {
            self.visit_bucket(bucket, &mut |place, weight| each(bucket.tick, place, weight));
        }
    }

    fn visit_bucket(&self, bucket: &Bucket, each: &mut impl FnMut(u32, Weight)) {
        let (mut bytes, mut place) = (bucket.packed.iter(), 0);
        for _ in 0..bucket.entries {
            place += take(&mut bytes) as u32;
            let weight = match take(&mut bytes) {
                0 => Weight { ns: take(&mut bytes), samples: take(&mut bytes) },
                number => self.weights.known[number as usize - 1],
            };
            each(place, weight);
        }
        bucket.open.iter().for_each(|&(place, weight)| each(place, weight));
    }

    /// The oldest and the newest tick that has something.
    pub(super) fn ends(&self) -> Option<(u64, u64)> {
        Some((self.buckets.front()?.tick, self.buckets.back()?.tick))
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// What [`put`] wrote.
fn take(bytes: &mut std::slice::Iter<'_, u8>) -> u64 {
    let (mut number, mut shift) = (0, 0);
    for &byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    number
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn weight(ns: u64) -> Weight {
        Weight { ns, samples: 1 }
    }

    /// By tick and place.
    fn told(past: &Past, first: u64, last: u64) -> BTreeMap<(u64, u32), (u64, u64)> {
        let mut told: BTreeMap<(u64, u32), (u64, u64)> = BTreeMap::new();
        past.visit(first, last, |tick, place, weight| {
            let sum = told.entry((tick, place)).or_default();
            *sum = (sum.0 + weight.ns, sum.1 + weight.samples);
        });
        told
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Packed or not, late or not: what went in comes out.
        #[test]
        fn nothing_is_lost_by_packing(
            entries in prop::collection::vec((0..40u64, prop_oneof![0..5u32, any::<u32>()], 0..u64::MAX >> 20), 0..300),
            range in (0..45u64, 0..45u64),
        ) {
            let (mut past, mut expected) = (Past::default(), BTreeMap::<(u64, u32), (u64, u64)>::new());
            for (index, &(tick, place, ns)) in entries.iter().enumerate() {
                // Mostly in order.
                let tick = if index % 7 == 0 { tick } else { index as u64 / 8 };
                past.enter(tick, place, weight(ns));
                if (range.0..=range.1).contains(&tick) {
                    let sum = expected.entry((tick, place)).or_default();
                    *sum = (sum.0 + ns, sum.1 + 1);
                }
            }
            prop_assert_eq!(told(&past, range.0, range.1), expected);
            let packed: usize = past.buckets.iter().map(|bucket| bucket.packed.len()).sum();
            prop_assert_eq!(past.bytes, packed);
        }
    }

    #[test]
    fn a_crowded_bucket_is_merged_and_one_that_is_over_is_packed() {
        let mut past = Past::default();
        for index in 0..3 * CROWDED as u32 {
            past.enter(0, index % 5, weight(1));
            assert!(past.buckets[0].open.len() <= CROWDED);
        }
        (1..=OPEN as u64).for_each(|tick| assert_eq!(past.enter(tick, 0, weight(1)), 0));
        assert_eq!((past.buckets[0].open.len(), past.buckets[0].entries), (0, 5));
        assert!(past.buckets.iter().skip(1).all(|bucket| bucket.open.len() == 1));
        assert_eq!(told(&past, 0, 0).values().map(|sum| sum.0).sum::<u64>(), 3 * CROWDED as u64);
    }

    #[test]
    fn a_sample_takes_a_few_bytes_and_too_many_shorten_the_past() {
        let (mut past, mut lost, mut random) = (Past { max_bytes: 1 << 20, ..Past::default() }, 0, 1u32);
        let (ticks, in_each) = (1000, 800);
        for tick in 0..ticks {
            for _ in 0..in_each {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                lost += past.enter(tick, random >> 14, weight(10_101_010));
            }
            if tick == 100 {
                let each = past.bytes as f64 / (90 * in_each) as f64;
                assert!((2.0..4.0).contains(&each), "{each} bytes");
            }
        }
        assert!(lost > 0 && past.bytes <= 1 << 20);
        let (oldest, newest) = past.ends().unwrap();
        assert!(oldest > 200 && newest == ticks - 1, "{oldest} to {newest}");
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
        numbers.iter().for_each(|&number| put(&mut bytes, number));
        let mut rest = bytes.iter();
        assert_eq!(numbers.map(|_| take(&mut rest)), numbers);
    }
}

//! The books of one clock: every stack's weight in total, and by tick of [`BUCKET_NS`] for the recent past, so that any
//! span can be summed exactly. No decay, no periodic clearing: a sample leaves a window when it is older.

use std::collections::VecDeque;

use super::hash::IdMap;
use super::stack::StackId;
use super::thread::ThreadId;

/// Length of a bucket, ns.
pub const BUCKET_NS: u64 = 100_000_000;
/// How far back buckets are kept: the longest window, 60 s.
pub const BUCKETS: usize = 600;
/// Keys in one book's total, at most; new ones are entered under another ([`Book::takes`]).
const MAX_KEYS: usize = 1 << 20;
/// Entries in one book's buckets, at most, at 24 bytes each: beyond, the oldest bucket goes before its time. 8 000 samples
/// a second, no two alike, make 480 000 in 60 s.
const MAX_ENTRIES: usize = 1 << 21;
/// Entries of a bucket from which on equal keys are looked for before it is over.
const CROWDED: usize = 4096;

const _: () = assert!(MAX_ENTRIES > 4 * 480_000 && CROWDED * BUCKETS > MAX_ENTRIES);

/// What a stack weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Of its clock, ns.
    pub ns: u64,
    /// Samples it came in.
    pub samples: u64,
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.ns = self.ns.saturating_add(other.ns);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

/// Which samples of a book are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Since the start or the last reset.
    Total,
    /// The last so many ns before `now`, in whole buckets.
    Last {
        /// Length, ns.
        ns: u64,
        /// End, on the viewer's `CLOCK_MONOTONIC`, ns.
        now_ns: u64,
    },
}

/// Who was seen where.
pub type Key = (ThreadId, StackId);

#[derive(Clone, Debug)]
struct Bucket {
    /// Time ÷ [`BUCKET_NS`].
    tick: u64,
    entries: Vec<(Key, Weight)>,
    /// Length at which equal keys are merged next.
    crowded: usize,
}

impl Bucket {
    fn new(tick: u64) -> Bucket {
        Bucket { tick, entries: Vec::new(), crowded: CROWDED }
    }

    /// Makes one entry of those with the same key.
    fn merge(&mut self) {
        self.entries.sort_unstable_by_key(|&(key, _)| key);
        self.entries.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.crowded = CROWDED.max(2 * self.entries.len());
    }
}

/// One clock's samples of one process.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// In order of their first samples, which is about that of their stacks: who sums them up goes through memory once.
    total: Vec<(Key, Weight)>,
    /// Where a key is in `total`.
    places: IdMap<Key, u32>,
    /// In order of their ticks, at most [`BUCKETS`].
    recent: VecDeque<Bucket>,
    /// Entries in all buckets.
    held: usize,
    overflows: u64,
}

impl Book {
    /// Whether `key` is known or has room.
    pub fn takes(&self, key: Key) -> bool {
        self.total.len() < MAX_KEYS || self.places.contains_key(&key)
    }

    /// Enters a sample taken at `at_ns` (viewer's clock).
    pub fn enter(&mut self, at_ns: u64, key: Key, weight: Weight) {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.total.push((key, Weight::default()));
            self.total.len() as u32 - 1
        });
        self.total[place as usize].1 += weight;
        let tick = at_ns / BUCKET_NS;
        let newest = self.recent.back().map_or(tick, |bucket| bucket.tick.max(tick));
        while self.recent.front().is_some_and(|bucket| bucket.tick + BUCKETS as u64 <= newest) {
            self.drop_oldest();
        }
        if tick + BUCKETS as u64 <= newest {
            return;
        }
        let place = self.recent.partition_point(|bucket| bucket.tick < tick);
        if self.recent.get(place).is_none_or(|bucket| bucket.tick != tick) {
            if place > 0 && place == self.recent.len() {
                self.in_bucket(place - 1, Bucket::merge);
            }
            self.recent.insert(place, Bucket::new(tick));
        }
        self.in_bucket(place, |bucket| {
            bucket.entries.push((key, weight));
            if bucket.entries.len() >= bucket.crowded {
                bucket.merge();
            }
        });
        while self.held > MAX_ENTRIES && self.recent.len() > 1 {
            self.overflows += self.drop_oldest() as u64;
        }
    }

    fn in_bucket(&mut self, place: usize, change: impl FnOnce(&mut Bucket)) {
        let bucket = &mut self.recent[place];
        self.held -= bucket.entries.len();
        change(bucket);
        self.held += bucket.entries.len();
    }

    fn drop_oldest(&mut self) -> usize {
        let entries = self.recent.pop_front().map_or(0, |bucket| bucket.entries.len());
        self.held -= entries;
        entries
    }

    /// Calls `each` with every entry of a span; a key may come more than once.
    pub fn visit(&self, span: Span, mut each: impl FnMut(Key, Weight)) {
        self.visit_aged(span, |_, key, weight| each(key, weight));
    }

    /// Calls `each` with every entry of a span, and how many buckets before its last it was; 0 for what is in the total.
    pub fn visit_aged(&self, span: Span, mut each: impl FnMut(u64, Key, Weight)) {
        match span {
            Span::Total => self.total.iter().for_each(|&(key, weight)| each(0, key, weight)),
            Span::Last { ns, now_ns } => {
                let last = now_ns / BUCKET_NS;
                let first = (last + 1).saturating_sub(ns.div_ceil(BUCKET_NS));
                let start = self.recent.partition_point(|bucket| bucket.tick < first);
                let inside = self.recent.range(start..).take_while(|bucket| bucket.tick <= last);
                for bucket in inside {
                    bucket.entries.iter().for_each(|&(key, weight)| each(last - bucket.tick, key, weight));
                }
            }
        }
    }

    /// Empties the recent past, as when a clock comes back after another one was shown.
    pub fn clear_window(&mut self) {
        self.recent = VecDeque::new();
        self.held = 0;
    }

    /// Entries that left a window before their time, because there were too many.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const KEY: Key = (ThreadId(0), StackId::EMPTY);

    fn sum(book: &Book, span: Span) -> u64 {
        let mut ns = 0;
        book.visit(span, |_, weight| ns += weight.ns);
        ns
    }

    fn last(ns: u64, now_ns: u64) -> Span {
        Span::Last { ns, now_ns }
    }

    #[test]
    fn a_sample_leaves_a_window_when_its_bucket_is_older() {
        let mut book = Book::default();
        book.enter(5 * BUCKET_NS + 7, KEY, Weight { ns: 1, samples: 1 });
        let two = 2 * BUCKET_NS;
        for (now_ns, ns) in [
            (5 * BUCKET_NS - 1, 0),
            (5 * BUCKET_NS, 1),
            (6 * BUCKET_NS - 1, 1),
            (6 * BUCKET_NS, 1),
            (7 * BUCKET_NS - 1, 1),
            (7 * BUCKET_NS, 0),
        ] {
            assert_eq!(sum(&book, last(two, now_ns)), ns, "{now_ns}");
        }
        assert_eq!(sum(&book, last(0, 5 * BUCKET_NS)), 0);
        assert_eq!(sum(&book, last(1, 5 * BUCKET_NS)), 1);
        assert_eq!(sum(&book, last(u64::MAX, u64::MAX)), 1);
        assert_eq!(sum(&book, Span::Total), 1);
    }

    #[test]
    fn a_late_sample_goes_where_it_belongs_unless_that_is_gone() {
        let mut book = Book::default();
        let newest = 1000 * BUCKET_NS;
        for (at_ns, ns) in [(newest, 1), (newest - 3 * BUCKET_NS, 10), (newest, 100), (newest - 60_000_000_000, 1000)] {
            book.enter(at_ns, KEY, Weight { ns, samples: 1 });
        }
        assert_eq!(sum(&book, last(BUCKET_NS, newest)), 101);
        assert_eq!(sum(&book, last(4 * BUCKET_NS, newest)), 111);
        assert_eq!(sum(&book, last(BUCKET_NS, newest - 3 * BUCKET_NS)), 10);
        assert_eq!(sum(&book, last(u64::MAX, newest)), 111);
        assert_eq!(sum(&book, Span::Total), 1111);
    }

    #[test]
    fn a_bucket_is_merged_when_it_is_over_and_when_it_is_crowded() {
        let mut book = Book::default();
        let one = Weight { ns: 1, samples: 1 };
        for index in 0..3 * CROWDED {
            book.enter(0, (ThreadId(index as u32 % 5), StackId::EMPTY), one);
            assert!(book.held <= CROWDED);
        }
        book.enter(BUCKET_NS, KEY, one);
        assert_eq!((book.recent[0].entries.len(), book.held), (5, 6));
        assert_eq!(sum(&book, last(BUCKET_NS, 0)), 3 * CROWDED as u64);
    }

    #[test]
    fn too_many_entries_shorten_the_window_and_are_counted() {
        let mut book = Book::default();
        let buckets = 3;
        for index in 0..MAX_ENTRIES + MAX_ENTRIES / 4 {
            let bucket = (index * buckets / MAX_ENTRIES) as u64;
            book.enter(bucket * BUCKET_NS, (ThreadId(index as u32), StackId::EMPTY), Weight { ns: 1, samples: 1 });
        }
        assert!(book.held <= MAX_ENTRIES);
        assert_eq!(book.overflows(), (MAX_ENTRIES / buckets) as u64 + 1);
        assert_eq!(sum(&book, Span::Total), (MAX_ENTRIES + MAX_ENTRIES / 4) as u64);
        assert!(book.takes((ThreadId(7), StackId::EMPTY)) && !book.takes((ThreadId(u32::MAX), StackId::EMPTY)));
    }

    #[test]
    fn weights_never_wrap() {
        let mut book = Book::default();
        for _ in 0..2 {
            book.enter(0, KEY, Weight { ns: u64::MAX, samples: 1 });
        }
        book.enter(BUCKET_NS, KEY, Weight { ns: 1, samples: 1 });
        book.visit(Span::Total, |_, weight| assert_eq!(weight, Weight { ns: u64::MAX, samples: 3 }));
    }

    #[test]
    fn a_cleared_window_keeps_the_total() {
        let mut book = Book::default();
        book.enter(0, KEY, Weight { ns: 5, samples: 1 });
        book.clear_window();
        assert_eq!((sum(&book, last(u64::MAX, 0)), sum(&book, Span::Total)), (0, 5));
        book.enter(0, KEY, Weight { ns: 1, samples: 1 });
        assert_eq!((sum(&book, last(u64::MAX, 0)), sum(&book, Span::Total)), (1, 6));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_span_is_the_sum_of_its_samples(
            samples in prop::collection::vec((0..70_000u64, 0..4u32, 0..100u64), 0..200),
            spans in prop::collection::vec((0..70_000u64, 0..80_000u64), 1..8),
        ) {
            let mut book = Book::default();
            for &(at_ms, thread, ns) in &samples {
                book.enter(at_ms * 1_000_000, (ThreadId(thread), StackId::EMPTY), Weight { ns, samples: 1 });
            }
            let newest = samples.iter().map(|sample| sample.0 / 100).max().unwrap_or(0);
            for (ms, now_ms) in spans {
                let mut expected = BTreeMap::new();
                for &(at_ms, thread, ns) in &samples {
                    let (tick, end) = (at_ms / 100, now_ms / 100);
                    if tick <= end && tick + ms.div_ceil(100) > end && tick + 600 > newest {
                        let entry: &mut Weight = expected.entry(thread).or_default();
                        *entry += Weight { ns, samples: 1 };
                    }
                }
                let mut found = BTreeMap::new();
                book.visit(last(ms * 1_000_000, now_ms * 1_000_000), |(thread, _), weight| {
                    let entry: &mut Weight = found.entry(thread.0).or_default();
                    *entry += weight;
                });
                prop_assert_eq!(found, expected);
            }
        }
    }
}

//! The books of one clock of one process: every stack's weight in total, and the recent past, so that any span can be summed exactly.

use super::hash::IdMap;
use super::past::Past;
pub use super::past::{BUCKET_NS, BUCKETS};
use super::stack::StackId;
use super::thread::ThreadId;

/// Keys in one book's total, at most; new ones are entered under another ([`Book::takes`]).
const MAX_KEYS: usize = 1 << 20;

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

impl Span {
    /// First and last tick (time ÷ [`BUCKET_NS`]); `None` for the total. Where the span has no length, the first is one
    /// past the last.
    pub fn ticks(self) -> Option<(u64, u64)> {
        let Span::Last { ns, now_ns } = self else { return None };
        let last = now_ns / BUCKET_NS;
        Some(((last + 1).saturating_sub(ns.div_ceil(BUCKET_NS)), last))
    }
}

/// Who was seen where.
pub type Key = (ThreadId, StackId);

/// Where a key is in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// One clock's samples of one process.
#[derive(Debug, Default)]
pub struct Book {
    /// In order of their first samples, which is about that of their stacks: who sums them up goes through memory once.
    total: Vec<(Key, Weight)>,
    /// Where a key is in `total`. A frozen book has none: nothing is entered there.
    places: IdMap<Key, u32>,
    past: Past,
    overflows: u64,
}

impl Book {
    /// As it is now, to be read.
    pub fn frozen(&self) -> Book {
        let Book { total, past, overflows, .. } = self;
        Book { total: total.clone(), places: IdMap::default(), past: past.clone(), overflows: *overflows }
    }

    /// Whether `key` is known or has room.
    pub fn takes(&self, key: Key) -> bool {
        self.total.len() < MAX_KEYS || self.places.contains_key(&key)
    }

    /// The place of a key, new or known.
    pub fn place(&mut self, key: Key) -> Place {
        Place(*self.places.entry(key).or_insert_with(|| {
            self.total.push((key, Weight::default()));
            self.total.len() as u32 - 1
        }))
    }

    /// Reads what [`enter`](Self::enter) will ask for.
    pub(super) fn look_ahead(&self, place: Place) -> u64 {
        self.total.get(place.0 as usize).map_or(0, |(_, weight)| weight.ns)
    }

    /// Enters a sample taken at `at_ns` (viewer's clock).
    pub fn enter(&mut self, at_ns: u64, place: Place, weight: Weight) {
        self.total[place.0 as usize].1 += weight;
        self.overflows += self.past.enter(at_ns / BUCKET_NS, place.0, weight);
    }

    /// Calls `each` with every entry of a span; a key may come more than once.
    pub fn visit(&self, span: Span, mut each: impl FnMut(Key, Weight)) {
        match span.ticks() {
            None => self.total.iter().for_each(|&(key, weight)| each(key, weight)),
            Some((first, last)) => self.visit_ticks(first, last, |_, key, weight| each(key, weight)),
        }
    }

    /// Calls `each` with every entry of the ticks from `first` to `last`, and its tick.
    pub fn visit_ticks(&self, first: u64, last: u64, mut each: impl FnMut(u64, Key, Weight)) {
        self.past.visit(first, last, |tick, place, weight| each(tick, self.total[place as usize].0, weight));
    }

    /// The oldest and the newest tick that is kept and has something.
    pub fn ends(&self) -> Option<(u64, u64)> {
        self.past.ends()
    }

    /// Empties the recent past, as when a clock comes back after another one was shown.
    pub fn clear_window(&mut self) {
        self.past = Past::default();
    }

    /// Entries that left the past before their time, because there were too many.
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

    fn enter(book: &mut Book, at_ns: u64, key: Key, weight: Weight) {
        let place = book.place(key);
        book.enter(at_ns, place, weight);
    }

    fn last(ns: u64, now_ns: u64) -> Span {
        Span::Last { ns, now_ns }
    }

    #[test]
    fn a_sample_leaves_a_window_when_its_bucket_is_older() {
        let mut book = Book::default();
        enter(&mut book, 5 * BUCKET_NS + 7, KEY, Weight { ns: 1, samples: 1 });
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
        let newest = 7000 * BUCKET_NS;
        for (at_ns, ns) in
            [(newest, 1), (newest - 3 * BUCKET_NS, 10), (newest, 100), (newest - BUCKETS as u64 * BUCKET_NS, 1000)]
        {
            enter(&mut book, at_ns, KEY, Weight { ns, samples: 1 });
        }
        assert_eq!(sum(&book, last(BUCKET_NS, newest)), 101);
        assert_eq!(sum(&book, last(4 * BUCKET_NS, newest)), 111);
        assert_eq!(sum(&book, last(BUCKET_NS, newest - 3 * BUCKET_NS)), 10);
        assert_eq!(sum(&book, last(u64::MAX, newest)), 111);
        assert_eq!(sum(&book, Span::Total), 1111);
    }

    #[test]
    fn a_full_book_takes_known_keys_alone() {
        let mut book = Book::default();
        let one = Weight { ns: 1, samples: 1 };
        (0..MAX_KEYS).for_each(|index| enter(&mut book, 0, (ThreadId(index as u32), StackId::EMPTY), one));
        assert!(book.takes((ThreadId(7), StackId::EMPTY)) && !book.takes((ThreadId(u32::MAX), StackId::EMPTY)));
    }

    #[test]
    fn a_frozen_book_stays_as_it_was() {
        let mut book = Book::default();
        enter(&mut book, 0, KEY, Weight { ns: 5, samples: 1 });
        let frozen = book.frozen();
        (0..30).for_each(|tick| enter(&mut book, tick * BUCKET_NS, KEY, Weight { ns: 1, samples: 1 }));
        assert_eq!((sum(&frozen, Span::Total), sum(&frozen, last(u64::MAX, u64::MAX))), (5, 5));
        assert_eq!((sum(&book, Span::Total), sum(&book, last(u64::MAX, u64::MAX))), (35, 35));
    }

    #[test]
    fn weights_never_wrap() {
        let mut book = Book::default();
        for _ in 0..2 {
            enter(&mut book, 0, KEY, Weight { ns: u64::MAX, samples: 1 });
        }
        enter(&mut book, BUCKET_NS, KEY, Weight { ns: 1, samples: 1 });
        book.visit(Span::Total, |_, weight| assert_eq!(weight, Weight { ns: u64::MAX, samples: 3 }));
    }

    #[test]
    fn a_cleared_window_keeps_the_total() {
        let mut book = Book::default();
        enter(&mut book, 0, KEY, Weight { ns: 5, samples: 1 });
        book.clear_window();
        assert_eq!((sum(&book, last(u64::MAX, 0)), sum(&book, Span::Total)), (0, 5));
        enter(&mut book, 0, KEY, Weight { ns: 1, samples: 1 });
        assert_eq!((sum(&book, last(u64::MAX, 0)), sum(&book, Span::Total)), (1, 6));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_span_is_the_sum_of_its_samples(
            samples in prop::collection::vec((0..700_000u64, 0..4u32, 0..100u64), 0..200),
            spans in prop::collection::vec((0..700_000u64, 0..800_000u64), 1..8),
        ) {
            let mut book = Book::default();
            for &(at_ms, thread, ns) in &samples {
                enter(&mut book, at_ms * 1_000_000, (ThreadId(thread), StackId::EMPTY), Weight { ns, samples: 1 });
            }
            let newest = samples.iter().map(|sample| sample.0 / 100).max().unwrap_or(0);
            for (ms, now_ms) in spans {
                let mut expected = BTreeMap::new();
                for &(at_ms, thread, ns) in &samples {
                    let (tick, end) = (at_ms / 100, now_ms / 100);
                    if tick <= end && tick + ms.div_ceil(100) > end && tick + 6000 > newest {
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

//! Measures the duration of handlers for a bench, in an agent that is built with `--cfg
//! sigtop_timed`. It reads the time-stamp counter, which a sandbox may forbid, so no other agent
//! does.

use crate::agent::sampling::counters;
use crate::agent::unwind::walk::WalkCache;
use crate::arch::read_cycles;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::wire::ring::{BUCKETS, WARM_BUCKETS, bucket, word};

const _: () = assert!(BUCKETS > 150 && WARM_BUCKETS > 100);

/// Cycles that running handlers have spent on measuring.
static ASIDE: AtomicU64 = AtomicU64::new(0);

/// Returns the time-stamp counter.
pub(crate) fn now() -> u64 {
    read_cycles()
}

/// Counts a handler that started at this time.
pub(crate) fn count_since(begun: u64) {
    let cycles = now().saturating_sub(begun).saturating_sub(ASIDE.swap(0, Ordering::Relaxed));
    counters::count(word::CYCLES + bucket(cycles), 1);
}

/// Repeats a piece of work with warm caches and counts its duration, which is not part of the
/// handler's time.
pub(crate) fn time_again<T>(again: impl FnOnce() -> T) {
    let begun = now();
    black_box(again());
    let cycles = now().saturating_sub(begun);
    counters::count(word::WARM + bucket(cycles).min(WARM_BUCKETS - 1), 1);
    ASIDE.store(now().saturating_sub(begun), Ordering::Relaxed);
}

/// Counts the rule lookups of the walks since the last call, by where the rule was found.
pub(crate) fn count_lookups(cache: &mut WalkCache) {
    for (source, count) in core::mem::take(cache.lookups()).into_iter().enumerate() {
        counters::count(word::RULES + source, count);
    }
}

/// Counts the depth of a stack.
pub(crate) fn count_depth(depth: usize) {
    counters::count(word::DEPTHS + (depth / 4).min(63), 1);
}

//! How long handlers take: in an agent that was built to time itself (`--cfg sigtop_timed`), for a bench. It reads the time-stamp
//! counter, which no agent for use does: a sandbox may forbid it.

use core::arch::x86_64::_rdtsc;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use super::state;
use crate::link::wire::ring::{BUCKETS, WARM_BUCKETS, bucket, word};

const _: () = assert!(BUCKETS > 150 && WARM_BUCKETS > 100);

/// Cycles spent aside in the handler that runs now, or in one of those that do.
static ASIDE: AtomicU64 = AtomicU64::new(0);

/// The counter now.
pub(super) fn now() -> u64 {
    // SAFETY: the instruction exists on every x86-64.
    unsafe { _rdtsc() }
}

/// Counts a handler that began then.
pub(super) fn count_since(begun: u64) {
    let cycles = now().saturating_sub(begun).saturating_sub(ASIDE.swap(0, Ordering::Relaxed));
    state::count(word::CYCLES + bucket(cycles), 1);
}

/// Does once more what was done just now, with all that it needs at hand, and counts how long that takes. It is not part of the handler's
/// time.
pub(super) fn aside<T>(again: impl FnOnce() -> T) {
    let begun = now();
    black_box(again());
    let cycles = now().saturating_sub(begun);
    state::count(word::WARM + bucket(cycles).min(WARM_BUCKETS - 1), 1);
    ASIDE.store(now().saturating_sub(begun), Ordering::Relaxed);
}

/// Counts a stack.
pub(super) fn count_depth(depth: usize) {
    state::count(word::DEPTHS + (depth / 4).min(63), 1);
}

//! How long handlers take: in an agent that was built to time itself (`--cfg sigtop_timed`), for a bench. It reads the time-stamp
//! counter, which no agent for use does: a sandbox may forbid it.

use core::arch::x86_64::_rdtsc;

use super::state;
use crate::link::wire::ring::{BUCKETS, bucket, word};

const _: () = assert!(BUCKETS > 150);

/// The counter now.
pub(super) fn now() -> u64 {
    // SAFETY: the instruction exists on every x86-64.
    unsafe { _rdtsc() }
}

/// Counts a handler that began then.
pub(super) fn count_since(begun: u64) {
    let cycles = now().saturating_sub(begun);
    state::count(word::CYCLES + bucket(cycles), 1);
}

/// Counts a stack.
pub(super) fn count_depth(depth: usize) {
    state::count(word::DEPTHS + (depth / 4).min(63), 1);
}

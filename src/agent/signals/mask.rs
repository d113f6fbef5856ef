//! Translation of masks that block every signal, between the kernel and the target.
//!
//! A set means "all signals" if it has every signal that ticks may be sent by, and also SIGSTKFLT,
//! which nothing sends. The kernel gets it without the signals of ticks; SIGSTKFLT marks it.

use crate::agent::signals::tick_signal::{self, ALL};

pub(crate) const FULL_MARKER: u64 = tick_signal::bit(libc::SIGSTKFLT);

/// Returns whether a set means "all signals".
pub(crate) fn is_full(set: u64) -> bool {
    set & (ALL | FULL_MARKER) == ALL | FULL_MARKER
}

/// Translates a mask of the target's for the kernel.
pub(crate) fn to_kernel(set: u64) -> u64 {
    if is_full(set) { set & !tick_signal::hidden() } else { set & !FULL_MARKER }
}

/// Translates a mask of the kernel's for the target.
pub(crate) fn to_target(set: u64) -> u64 {
    if set & FULL_MARKER != 0 { set | ALL } else { set }
}

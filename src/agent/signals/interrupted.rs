//! System calls that the agent's signals have ended.
//!
//! No tick is sent to a thread that sleeps, but the kernel sends the tick of a thread that has just
//! been woken before it handles what woke it. If a signal of the program's did, to the process, the
//! tick is delivered first, because it was sent to the thread. A call that has changed the mask,
//! such as `sigsuspend`, then ends with EINTR although the signal that it waited for is blocked
//! again, and pending.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::arch::is_call_interrupted;

/// Number of signals of the agent's that may have ended a system call, in all threads. Written by
/// the handler.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Counts a signal of the agent's if it may have ended a system call. For the handler.
///
/// # Safety
/// `context` must be the kernel's ucontext.
#[inline(always)]
pub(crate) unsafe fn count(context: *const u64) {
    // SAFETY: the caller guarantees it.
    if unsafe { is_call_interrupted(context) } {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the number of such signals so far.
pub(crate) fn counted() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

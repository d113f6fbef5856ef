//! The clock of allocated bytes in a fork child of a process in which it is on. There is no agent
//! thread yet, and a first tick of CPU time may be seconds away: the first allocation that is to be
//! sampled stands for it. The bytes until the agent thread turns the clock on are counted as lost.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::agent::allocations::tables::Tables;
use crate::agent::os::syscall::{self, syscall};
use crate::agent::sampling::counters;
use crate::agent::signals::tick_signal::{self, SI_TIMER};
use crate::agent::state;
use crate::wire::LossCause;
use crate::wire::ring::word;

/// Whether the process waits for its agent thread to turn the clock on.
static WAITS: AtomicBool = AtomicBool::new(false);
/// The value of the signal that starts the agent thread; 0 once it was sent.
static FIRST_TICK: AtomicU64 = AtomicU64::new(0);
/// The bytes that were counted before the fork.
static COUNTED_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Lets the clock go on. `first_tick` is the value of the signal that starts the agent thread.
pub(super) fn begin(tables: &Tables, first_tick: u64) {
    COUNTED_BEFORE.store(tables.counted(), Ordering::Relaxed);
    FIRST_TICK.store(first_tick, Ordering::Relaxed);
    WAITS.store(true, Ordering::Relaxed);
}

/// Returns whether a sample cannot be recorded, because the process waits for its agent thread, and
/// starts that once. rt_tgsigqueueinfo(2)
pub(super) fn is_waiting() -> bool {
    let is_waiting = WAITS.load(Ordering::Relaxed);
    if is_waiting
        && !state::syscalls_forbidden()
        && state::in_own_process()
        && let value @ 1.. = FIRST_TICK.swap(0, Ordering::Relaxed)
    {
        let mut info = [0u64; 16];
        let signal = tick_signal::tick();
        (info[0], info[1], info[3]) = (signal as u64, u64::from(SI_TIMER as u32), value);
        // SAFETY: a siginfo; to this very thread it may carry any code.
        unsafe {
            syscall!(libc::SYS_rt_tgsigqueueinfo, syscall::getpid(), syscall::gettid(), signal, info.as_ptr());
        }
    }
    is_waiting
}

/// Counts the bytes since the fork as lost. The agent thread has come, and engages a clock.
pub(super) fn end(tables: &Tables, interval: u64) {
    if WAITS.swap(false, Ordering::Relaxed) {
        let bytes = tables.counted().wrapping_sub(COUNTED_BEFORE.load(Ordering::Relaxed));
        let samples = bytes / interval.max(1);
        counters::count_unhandled(samples);
        counters::count(word::LOST_TICKS + LossCause::NotReady as usize, samples);
        counters::count(word::LOST_BYTES + LossCause::NotReady as usize, bytes);
    }
}

//! The timer that waits for the first tick of a process. It is a timer of the first thread's CPU
//! clock, and its tick spawns the agent thread. Threads that start earlier arm such timers for
//! themselves (see `new_threads`).

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::agent::os::syscall;
use crate::agent::sampling::counters::{self, TimerConfig};
use crate::agent::signals::tick_signal;
use crate::agent::timers::timer::Timer;

/// Id of the timer, or -1. Written by the constructor and the fork hook, then by the agent thread.
static TIMER: AtomicI32 = AtomicI32::new(-1);
/// Epoch of the first tick. Written before [`TIMER`].
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// Arms the timer, with this configuration.
pub(crate) fn arm(epoch: u32, config: TimerConfig) {
    delete();
    counters::publish_config(epoch, config);
    if let Some(timer) = Timer::of_first_tick(syscall::getpid(), epoch, tick_signal::tick()) {
        EPOCH.store(epoch, Ordering::Relaxed);
        TIMER.store(timer.id() as i32, Ordering::Release);
        timer.arm_for_first_tick(config.time_ns());
    }
}

/// Returns the CPU time of the first thread until its tick, ns; 0 if no first tick is awaited.
pub(crate) fn left_ns() -> u64 {
    match TIMER.load(Ordering::Relaxed) {
        id @ 0.. => Timer::of_id(id).left_ns(),
        _ => 0,
    }
}

/// Returns the epoch of the first tick while it is awaited.
pub(crate) fn awaited_epoch() -> Option<u32> {
    (TIMER.load(Ordering::Acquire) >= 0).then(|| EPOCH.load(Ordering::Relaxed))
}

/// Deletes the first thread's timer.
pub(crate) fn delete() {
    let id = TIMER.swap(-1, Ordering::AcqRel);
    if id >= 0 {
        Timer::of_id(id).delete();
    }
}

/// Forgets the parent's timer in a fork child, which has none.
pub(crate) fn forget() {
    TIMER.store(-1, Ordering::Relaxed);
}

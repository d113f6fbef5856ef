//! The timer that waits for the first tick of a process. It is a timer of the first thread's CPU
//! clock, and its tick spawns the agent thread. Threads that start earlier arm such timers for
//! themselves (see `new_threads`).

use core::sync::atomic::{AtomicU32, Ordering};

use crate::agent::os::syscall;
use crate::agent::sampling::counters::{self, TimerConfig};
use crate::agent::signals::tick_signal;
use crate::agent::timers::timer::{TickKind, Timer};

/// Id of the timer plus 1, or 0. Written by the constructor and the fork hook, then by the agent
/// thread. Zero at first, so that a fork child finds it on the page that it writes anyway.
static TIMER: AtomicU32 = AtomicU32::new(0);
/// Epoch of the first tick. Written before [`TIMER`].
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// Arms the timer, with this configuration. Returns whether the kernel has made one: it may refuse
/// to (RLIMIT_SIGPENDING, seccomp).
pub(crate) fn arm(epoch: u32, config: TimerConfig) -> bool {
    delete();
    counters::publish_config(epoch, config);
    let Some(timer) = Timer::of_first_tick(syscall::getpid(), epoch, tick_signal::tick()) else { return false };
    EPOCH.store(epoch, Ordering::Relaxed);
    TIMER.store(timer.id() + 1, Ordering::Release);
    timer.arm_for_first_tick(config.time_ns());
    true
}

/// Arms the timer again while the tick is awaited, with the signal that is in use now. It keeps the
/// time that it has left.
pub(crate) fn rearm() {
    let Some(epoch) = awaited_epoch() else { return };
    let left_ns = left_ns();
    delete();
    if let Some(timer) = Timer::of_first_tick(syscall::getpid(), epoch, tick_signal::tick()) {
        TIMER.store(timer.id() + 1, Ordering::Release);
        timer.rearm_for_first_tick(left_ns, counters::config(epoch).time_ns());
    }
}

/// Returns the value of its signal in a process of one thread.
pub(crate) fn value(epoch: u32) -> u64 {
    TickKind::First.value(epoch, syscall::getpid())
}

/// Returns the CPU time of the first thread until its tick, ns; 0 if no first tick is awaited.
pub(crate) fn left_ns() -> u64 {
    match TIMER.load(Ordering::Relaxed) {
        0 => 0,
        next => Timer::of_id(next as i32 - 1).left_ns(),
    }
}

/// Returns the epoch of the first tick while it is awaited.
pub(crate) fn awaited_epoch() -> Option<u32> {
    (TIMER.load(Ordering::Acquire) != 0).then(|| EPOCH.load(Ordering::Relaxed))
}

/// Deletes the first thread's timer.
pub(crate) fn delete() {
    let next = TIMER.swap(0, Ordering::AcqRel);
    if next != 0 {
        Timer::of_id(next as i32 - 1).delete();
    }
}

/// Forgets the parent's timer in a fork child, which has none.
pub(crate) fn forget() {
    TIMER.store(0, Ordering::Relaxed);
}

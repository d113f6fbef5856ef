//! Timers that threads arm for themselves as they start. The agent thread finds a new thread some
//! milliseconds later; until then a thread that lives shorter would not be sampled at all. It
//! replaces these timers by its own, and deletes those of threads that have ended.
//!
//! The kernel looks at timers of CPU clocks when the scheduler ticks. A thread that lives shorter
//! than that would mostly end between a timer's expiry and the tick that finds it. So such a timer
//! expires at every tick of the scheduler that finds the thread running, and each stands for the
//! time between two of those.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::state::{self, Config};
use super::timer::Timer;
use super::{signals, sys, timer};
use crate::link::wire::Clock;

/// Threads that have started and are not found yet, at most; one beyond waits to be found.
const PLACES: usize = 512;
/// Places looked at for one thread.
const PROBES: usize = 8;

/// `timer id << 32 | thread id`, or 0. Written by the thread as it starts; taken by the agent
/// thread.
static STARTED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// Queued signals that a process may have (RLIMIT_SIGPENDING), at least.
const ENOUGH: u64 = 8192;

/// Whether threads arm such timers. Written by the agent thread.
static MAY_ARM: AtomicBool = AtomicBool::new(false);

fn places(tid: u32) -> impl Iterator<Item = &'static AtomicU64> {
    let start = (tid.wrapping_mul(0x9e37_79b1) >> 16) as usize;
    (0..PROBES).map(move |step| &STARTED[(start + step) % PLACES])
}

fn timer_of(entry: u64) -> Timer {
    Timer::of_id((entry >> 32) as i32)
}

/// Arms a timer for the calling thread, whose id is `tid` and which has just started, if ticks of
/// threads are in force. Two system calls: only where they are allowed.
pub(super) fn arm_own(tid: u32) {
    let (signal, epoch) = signals::in_force();
    let Config { clock, period_ns } = state::config(epoch);
    // By the wall clock a tick stands for what the agent thread has seen of a thread that it knows.
    if !MAY_ARM.load(Ordering::Relaxed)
        || signal == 0
        || period_ns == 0
        || clock != Clock::Prof
        || timer::classic_signal() != 0
    {
        return;
    }
    let Some(timer) = Timer::of_young_thread(tid, epoch, signal) else { return };
    let entry = u64::from(timer.id()) << 32 | u64::from(tid);
    let is_kept = |place: &AtomicU64| place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if places(tid).any(is_kept) {
        timer.arm(1, timer::tick_ns());
    } else {
        timer.delete();
    }
}

/// Learns whether the process may have so many timers: the kernel gives the place of a deleted one
/// back some milliseconds later. For the agent thread, like all that follows.
pub(super) fn prepare() {
    MAY_ARM.store(sys::limit(libc::RLIMIT_SIGPENDING as i32) >= ENOUGH, Ordering::Relaxed);
}

fn place_of(tid: u32) -> Option<&'static AtomicU64> {
    places(tid).find(|place| place.load(Ordering::Acquire) as u32 == tid)
}

/// Whether a thread has a timer that it has armed for itself.
pub(super) fn has_timer(tid: u32) -> bool {
    place_of(tid).is_some()
}

/// Deletes the timer that a thread has armed for itself; whether there was one.
pub(super) fn replace(tid: u32) -> bool {
    place_of(tid).map(|place| timer_of(place.swap(0, Ordering::AcqRel)).delete()).is_some()
}

/// Deletes the timers of threads that have ended.
pub(super) fn sweep() {
    for place in &STARTED {
        let entry = place.load(Ordering::Acquire);
        if entry != 0 && !sys::has_thread(entry as u32) {
            place.store(0, Ordering::Release);
            timer_of(entry).delete();
        }
    }
}

/// Deletes all.
pub(super) fn disarm() {
    for place in &STARTED {
        match place.swap(0, Ordering::AcqRel) {
            0 => {}
            entry => timer_of(entry).delete(),
        }
    }
}

/// A fork child has no timers.
pub(super) fn forget() {
    STARTED.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

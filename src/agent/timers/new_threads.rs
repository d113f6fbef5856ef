//! Timers that threads arm for themselves as they start. The agent thread finds a new thread some
//! milliseconds later, so without such a timer a thread that ends earlier would not be sampled at
//! all. The agent thread replaces these timers by its own, and deletes those of threads that have
//! ended. Before there is an agent thread, the first tick of any of them spawns it.
//!
//! The kernel checks CPU-clock timers at scheduler ticks. A thread with a shorter life would mostly
//! end between its timer's expiry and the tick that notices it. So such a timer expires at every
//! scheduler tick that finds the thread running, and each of its ticks stands for the time between
//! two of those.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::agent::os::memory::PageAligned;
use crate::agent::os::syscall;
use crate::agent::sampling::counters::{self, TimerConfig};
use crate::agent::signals::tick_signal;
use crate::agent::timers::timer::{self, Timer};
use crate::agent::timers::{first_tick, interval_timer};
use crate::wire::Clock;

/// Maximum number of threads with such a timer. Further ones wait until the agent thread finds
/// them.
const PLACES: usize = 512;
/// Number of table entries tried for one thread.
const PROBES: usize = 8;

/// `timer id << 32 | thread id`, or 0. Written by the thread as it starts, taken by the agent
/// thread.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static STARTED: PageAligned<[AtomicU64; PLACES]> = PageAligned([const { AtomicU64::new(0) }; PLACES]);
/// Minimum limit of queued signals (RLIMIT_SIGPENDING) for such timers.
const ENOUGH: u64 = 8192;

/// Whether threads arm such timers: 0 not checked yet, 1 yes, 2 no.
static PERMISSION: AtomicU32 = AtomicU32::new(0);

/// Returns whether the limit of queued signals allows such timers. The kernel releases the place of
/// a deleted timer only some milliseconds later. Asks the kernel once.
pub(crate) fn may_arm() -> bool {
    if PERMISSION.load(Ordering::Relaxed) == 0 {
        let is_enough = syscall::limit(libc::RLIMIT_SIGPENDING as i32) >= ENOUGH;
        PERMISSION.store(if is_enough { 1 } else { 2 }, Ordering::Relaxed);
    }
    PERMISSION.load(Ordering::Relaxed) == 1
}

fn places(tid: u32) -> impl Iterator<Item = &'static AtomicU64> {
    let start = (tid.wrapping_mul(0x9e37_79b1) >> 16) as usize;
    (0..PROBES).map(move |step| &STARTED[(start + step) % PLACES])
}

fn timer_of(entry: u64) -> Timer {
    Timer::of_id((entry >> 32) as i32)
}

/// Arms a timer for the calling thread, whose id is `tid` and which has just started, if ticks of
/// threads are in force or the first one is awaited. Two system calls: only where they are allowed.
pub(crate) fn arm_own(tid: u32) {
    if !may_arm() {
        return;
    }
    let (signal, epoch) = tick_signal::in_force();
    if signal != 0 {
        let TimerConfig { clock, period_ns } = counters::config(epoch);
        // By the wall clock a tick stands for the time for which the agent thread has seen a known
        // thread run.
        if period_ns != 0
            && clock == Clock::Prof
            && interval_timer::classic_signal() == 0
            && let Some(timer) = Timer::of_new_thread(tid, epoch, signal)
            && keep(timer, tid)
        {
            timer.arm(1, timer::tick_ns());
        }
    } else if let Some(epoch) = first_tick::awaited_epoch() {
        let signal = tick_signal::tick();
        if let Some(timer) = Timer::of_first_tick(tid, epoch, signal)
            && keep(timer, tid)
        {
            timer.arm_for_first_tick(counters::config(epoch).time_ns());
        }
        // A thread that stopped the wait, or moved the ticks, meanwhile may have missed this timer.
        if first_tick::awaited_epoch().is_none() {
            replace(tid);
        } else if tick_signal::tick() != signal {
            replace(tid);
            arm_own(tid);
        }
    }
}

/// Records the timer of a thread, or deletes it if there is no free entry. Returns whether it is
/// recorded.
fn keep(timer: Timer, tid: u32) -> bool {
    let entry = u64::from(timer.id()) << 32 | u64::from(tid);
    let is_kept = |place: &AtomicU64| place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let kept = places(tid).any(is_kept);
    if !kept {
        timer.delete();
    }
    kept
}

/// Stops waiting for a first tick, in every thread.
pub(crate) fn stop_awaiting_first_tick() {
    first_tick::delete();
    if tick_signal::in_force().0 == 0 {
        disarm();
    }
}

fn place_of(tid: u32) -> Option<&'static AtomicU64> {
    places(tid).find(|place| place.load(Ordering::Acquire) as u32 == tid)
}

/// Returns whether a thread has a timer that it has armed for itself.
pub(crate) fn has_timer(tid: u32) -> bool {
    place_of(tid).is_some()
}

/// Deletes the timer that a thread has armed for itself. Returns whether there was one.
pub(crate) fn replace(tid: u32) -> bool {
    place_of(tid).map(|place| timer_of(place.swap(0, Ordering::AcqRel)).delete()).is_some()
}

/// Deletes the timers of threads that have ended.
pub(crate) fn sweep() {
    for place in STARTED.iter() {
        let entry = place.load(Ordering::Acquire);
        if entry != 0 && !syscall::has_thread(entry as u32) {
            place.store(0, Ordering::Release);
            timer_of(entry).delete();
        }
    }
}

/// Deletes all timers.
pub(crate) fn disarm() {
    for place in STARTED.iter() {
        match place.swap(0, Ordering::AcqRel) {
            0 => {}
            entry => timer_of(entry).delete(),
        }
    }
}

/// Forgets the timers in a fork child, which has none. Where no thread has armed one, the table is
/// not touched.
pub(crate) fn forget() {
    if PERMISSION.load(Ordering::Relaxed) == 1 {
        STARTED.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }
}

/// Arms the timers that wait for the first tick again, with the signal that is in use now: that of
/// the first thread and those that other threads have armed for themselves. Each keeps the time
/// that it has left.
pub(crate) fn rearm_first_tick() {
    let Some(epoch) = first_tick::awaited_epoch() else { return };
    first_tick::rearm();
    for place in STARTED.iter() {
        let entry = place.swap(0, Ordering::AcqRel);
        if entry != 0 {
            let (tid, left_ns) = (entry as u32, timer_of(entry).left_ns());
            timer_of(entry).delete();
            if let Some(timer) = Timer::of_first_tick(tid, epoch, tick_signal::tick())
                && keep(timer, tid)
            {
                timer.rearm_for_first_tick(left_ns, counters::config(epoch).time_ns());
            }
        }
    }
}

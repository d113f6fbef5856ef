//! Timers that threads arm for themselves as they start. The agent thread finds a new thread some
//! milliseconds later; until then a thread that lives shorter would not be sampled at all. It adopts
//! these timers, and deletes those of threads that have ended.

use core::sync::atomic::{AtomicU64, Ordering};

use super::state::{self, Config};
use super::timer::Timer;
use super::{signals, sys, timer};
use crate::link::wire::Clock;

/// Threads that have started and are not adopted yet, at most; one beyond waits to be found.
const PLACES: usize = 512;
/// Places looked at for one thread.
const PROBES: usize = 8;

/// `timer id << 32 | thread id`, or 0. Written by the thread as it starts; taken by the agent thread.
static STARTED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// Grows by an odd number with every thread: its multiples are the random phases.
static SEED: AtomicU64 = AtomicU64::new(0);

fn places(tid: u32) -> impl Iterator<Item = &'static AtomicU64> {
    let start = (tid.wrapping_mul(0x9e37_79b1) >> 16) as usize;
    (0..PROBES).map(move |step| &STARTED[(start + step) % PLACES])
}

fn timer_of(entry: u64) -> Timer {
    Timer::of_id((entry >> 32) as i32)
}

/// A phase of a period, different for every call.
fn phase(period_ns: u64) -> u64 {
    let mut bits = SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31) % period_ns + 1
}

/// Arms a timer for the calling thread, whose id is `tid` and which has just started, if ticks of
/// threads are in force. Two system calls: only where they are allowed.
pub(super) fn arm_own(tid: u32) {
    let (signal, epoch) = signals::in_force();
    let Config { clock, period_ns } = state::config(epoch);
    // By the wall clock a tick stands for what the agent thread has seen of a thread that it knows.
    if signal == 0 || period_ns == 0 || clock != Clock::Prof || timer::classic_signal() != 0 {
        return;
    }
    let Some(timer) = Timer::of_thread(tid, tid, epoch, signal) else { return };
    let entry = u64::from(timer.id()) << 32 | u64::from(tid);
    let is_kept = |place: &AtomicU64| place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if places(tid).any(is_kept) {
        timer.arm(phase(period_ns), period_ns);
    } else {
        timer.delete();
    }
}

/// The timer that a thread has armed for itself. For the agent thread, like all that follows.
pub(super) fn adopt(tid: u32) -> Option<Timer> {
    let place = places(tid).find(|place| place.load(Ordering::Acquire) as u32 == tid)?;
    Some(timer_of(place.swap(0, Ordering::AcqRel)))
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

/// Deletes all that are not adopted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_fill_their_period() {
        let phases: Vec<u64> = (0..1_000).map(|_| phase(1_000)).collect();
        assert!(phases.iter().all(|phase| (1..=1_000).contains(phase)));
        let below = phases.iter().filter(|&&phase| phase <= 500).count();
        // Four standard deviations of 1 000 coins.
        assert!((437..=563).contains(&below), "{below} of 1000 in the first half");
    }
}

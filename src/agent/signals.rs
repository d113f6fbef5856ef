//! The signal that ticks come by, chosen for each process.
//!
//! It is SIGURG, which does nothing where its handler is gone, until the program uses SIGURG
//! itself: blocks it or waits for it by name, or sets a handler for it. From then on that signal is
//! the program's alone, and ticks come by a real-time signal that nobody uses. A program that uses
//! that one too makes them move on to the next.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::state::{self, BIRTH};
use super::{guard, start, sys};
use crate::link::wire::TICK_SIGNALS;

/// The signal in use. Written by a thread of the target that gives one up, or by the agent thread.
static TICK: AtomicI32 = AtomicI32::new(TICK_SIGNALS[0]);
/// Signals that the program uses itself, as a mask has them. Written like it.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// The signal of the timers that the agent thread has armed, 0 without any, and their epoch:
/// `epoch << 32 | signal`. Written by it.
static IN_FORCE: AtomicU64 = AtomicU64::new(0);

/// How long a thread that gives the signal up waits for the agent thread to move its timers, ns.
const PATIENCE_NS: u64 = 100_000_000;

/// A signal as a mask has it.
pub(super) const fn bit(signal: i32) -> u64 {
    1 << signal >> 1
}

/// All signals that ticks may come by.
pub(super) const ALL: u64 = {
    let (mut all, mut index) = (0, 0);
    while index < TICK_SIGNALS.len() {
        all |= bit(TICK_SIGNALS[index]);
        index += 1;
    }
    all
};

/// The signal that ticks come by.
pub(super) fn tick() -> i32 {
    TICK.load(Ordering::Acquire)
}

/// The signals that ticks come by, or may come by later: what the program does not use.
pub(super) fn hidden() -> u64 {
    ALL & !GIVEN_UP.load(Ordering::Relaxed)
}

/// Whether ticks may come by a signal.
pub(super) fn is_candidate(signal: i32) -> bool {
    TICK_SIGNALS.contains(&signal)
}

/// The program names these signals, as a mask has them: they are its own from now on. Returns when
/// no tick comes by them any more. For a thread of the target, with no lock of the agent's.
pub(super) fn give_up(named: u64) {
    let named = named & hidden();
    if named == 0 || state::must_not_call() || !state::is_at_home() {
        return;
    }
    GIVEN_UP.fetch_or(named, Ordering::Relaxed);
    let old = tick();
    if named & bit(old) == 0 {
        return;
    }
    // Without another one ticks stay where they are, and share the signal with the program.
    if !move_on(0) {
        GIVEN_UP.fetch_and(!bit(old), Ordering::Relaxed);
        return;
    }
    await_move(old);
    guard::release(old);
}

/// Takes the next signal that nobody uses and that is not `blocked` in some thread; false when
/// there is none.
pub(super) fn move_on(blocked: u64) -> bool {
    let free = hidden() & !blocked & !bit(tick());
    let mut candidates = TICK_SIGNALS.into_iter().filter(|&signal| free & bit(signal) != 0);
    let taken = candidates.find(|&signal| guard::take(signal));
    taken.inspect(|&signal| TICK.store(signal, Ordering::Release)).is_some()
}

/// Has the timers moved to the signal in use: those of an agent that is there by the agent thread,
/// else the one that waits for the first tick. Ticks of the old signal are taken meanwhile.
fn await_move(old: i32) {
    let deadline_ns = sys::monotonic_ns() + PATIENCE_NS;
    loop {
        match state::AGENT.load(Ordering::Acquire) {
            0 => return start::move_birth(),
            BIRTH => {}
            _ if in_force().0 != old => return,
            _ => state::wake(),
        }
        if sys::monotonic_ns() > deadline_ns {
            return;
        }
        sys::futex_wait(&AtomicU32::new(0), 0, 200_000);
    }
}

/// The agent thread has armed timers of an epoch with a signal, or has none armed (0).
pub(super) fn note_in_force(signal: i32, epoch: u32) {
    IN_FORCE.store(u64::from(epoch) << 32 | u64::from(signal as u32), Ordering::Release);
}

/// The signal of the timers that are armed, 0 without any, and their epoch.
pub(super) fn in_force() -> (i32, u32) {
    let word = IN_FORCE.load(Ordering::Acquire);
    (word as i32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_signals_whose_loss_is_no_harm_first() {
        assert_eq!(TICK_SIGNALS[0], libc::SIGURG);
        assert!(TICK_SIGNALS[1..].iter().all(|signal| (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(signal)));
        assert_eq!(ALL.count_ones() as usize, TICK_SIGNALS.len());
        assert_eq!(bit(1), 1);
    }
}

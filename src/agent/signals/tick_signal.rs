//! The signal that ticks are sent by, chosen for each process.
//!
//! It is SIGURG, which is harmless if its handler is gone, until the program uses SIGURG itself:
//! blocks it or waits for it by name, or sets a handler for it. From then on that signal is the
//! program's alone, and ticks are sent by a real-time signal that is not in use. If the program
//! uses that one too, they move to the next.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::agent::signals::actions;
use crate::wire::TICK_SIGNALS;

/// The code of a signal that a timer sends.
pub(crate) const SI_TIMER: i32 = -2;

/// The signal in use. Written by a thread of the target that gives one up, or by the agent thread.
static TICK: AtomicI32 = AtomicI32::new(TICK_SIGNALS[0]);
/// The signals that the program uses itself, as a mask. Written by the same threads.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// The signal of the timers that the agent thread has armed (0 if none) and their epoch, as
/// `epoch << 32 | signal`. Written by the agent thread.
static IN_FORCE: AtomicU64 = AtomicU64::new(0);

/// Returns the bit of a signal in a mask.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << signal >> 1
}

/// Excludes signals from those that ticks may be sent by. From now on they are the program's own.
pub(crate) fn exclude(signals: u64) {
    GIVEN_UP.fetch_or(signals, Ordering::Relaxed);
}

/// Undoes [`exclude`] for one signal.
pub(crate) fn include(signal: i32) {
    GIVEN_UP.fetch_and(!bit(signal), Ordering::Relaxed);
}

/// All signals that ticks may be sent by, as a mask.
pub(crate) const ALL: u64 = {
    let (mut all, mut index) = (0, 0);
    while index < TICK_SIGNALS.len() {
        all |= bit(TICK_SIGNALS[index]);
        index += 1;
    }
    all
};

/// Returns the signal that ticks are sent by.
pub(crate) fn tick() -> i32 {
    TICK.load(Ordering::Acquire)
}

/// Returns the signals that ticks are or may be sent by, which the program does not use.
pub(crate) fn hidden() -> u64 {
    ALL & !GIVEN_UP.load(Ordering::Relaxed)
}

/// Returns whether ticks may be sent by a signal.
pub(crate) fn is_candidate(signal: i32) -> bool {
    TICK_SIGNALS.contains(&signal)
}

/// Switches to the next signal that is not in use and not in the mask `blocked`. Returns false if
/// there is none.
pub(crate) fn move_on(blocked: u64) -> bool {
    let free = hidden() & !blocked & !bit(tick());
    let mut candidates = TICK_SIGNALS.into_iter().filter(|&signal| free & bit(signal) != 0);
    let taken = candidates.find(|&signal| actions::claim(signal));
    taken.inspect(|&signal| TICK.store(signal, Ordering::Release)).is_some()
}

/// Records that the agent thread has armed timers of an epoch with a signal, or has none armed (0).
pub(crate) fn note_in_force(signal: i32, epoch: u32) {
    IN_FORCE.store(u64::from(epoch) << 32 | u64::from(signal as u32), Ordering::Release);
}

/// Returns the signal of the armed timers (0 if none) and their epoch.
pub(crate) fn in_force() -> (i32, u32) {
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

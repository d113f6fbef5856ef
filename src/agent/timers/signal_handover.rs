//! Leaves a signal to a program that uses it itself, and moves the ticks to another signal.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::agent::os::syscall;
use crate::agent::signals::{actions, mask, tick_signal};
use crate::agent::state::{self, SPAWNING};
use crate::agent::timers::new_threads;

/// Maximum time that a thread that gives up the signal waits for the agent thread to move its
/// timers, ns.
const PATIENCE_NS: u64 = 100_000_000;

/// Gives up the signals of a mask, which the program uses itself from now on. Returns when no tick
/// is sent by them any more. For a thread of the target that holds no lock of the agent's.
pub(crate) fn give_up(named: u64) {
    let named = named & tick_signal::hidden();
    if named == 0 || state::syscalls_forbidden() || !state::in_own_process() {
        return;
    }
    tick_signal::exclude(named);
    let old = tick_signal::tick();
    if named & tick_signal::bit(old) == 0 {
        return;
    }
    // If there is no other signal, ticks keep this one and share it with the program.
    if !tick_signal::move_on(0) {
        tick_signal::include(old);
        return;
    }
    await_move(old);
    actions::release(old);
}

/// Gives up the signals in a set of the target's.
pub(crate) fn give_up_named(set: u64) {
    if !mask::is_full(set) {
        give_up(set);
    }
}

/// Waits until the timers use the signal in force. The agent thread moves them if there is one;
/// otherwise only the timer that waits for the first tick is moved, by this thread. Ticks of the
/// old signal are accepted meanwhile.
fn await_move(old: i32) {
    let deadline_ns = syscall::monotonic_ns() + PATIENCE_NS;
    loop {
        match state::AGENT.load(Ordering::Acquire) {
            0 => return new_threads::rearm_first_tick(),
            SPAWNING => {}
            _ if tick_signal::in_force().0 != old => return,
            _ => state::wake(),
        }
        if syscall::monotonic_ns() > deadline_ns {
            return;
        }
        syscall::futex_wait(&AtomicU32::new(0), 0, 200_000);
    }
}

//! Handling of the agent's own panics. The agent never aborts the target and never prints: a
//! handler drops its tick, the agent thread ends, and neither works again.

use crate::agent::os::syscall::{self, syscall};
use crate::agent::sampling::slot::{self, POOL};
use crate::agent::timers::{interval_timer, new_threads};
use crate::agent::{handler, state};
use core::sync::atomic::Ordering;

/// Ends a panic.
pub(super) fn give_up() -> ! {
    state::DISABLED.store(true, Ordering::Relaxed);
    let here = 0u8;
    let pool = POOL.load(Ordering::Relaxed);
    // SAFETY: the pool is never freed, and on a slot's stack `leave_slot_stack` is what returns
    // from it.
    unsafe {
        if !pool.is_null() && slot::is_on_slot_stack(&*pool, &raw const here as usize) {
            slot::leave_slot_stack();
        }
        if syscall::gettid() == state::AGENT.load(Ordering::Relaxed) {
            new_threads::stop_awaiting_first_tick();
            interval_timer::disarm_classic();
            syscall!(libc::SYS_exit, 0);
        }
    }
    handler::leave();
    // This is a thread of the target, in a constructor or an interposed call. It cannot continue.
    loop {
        core::hint::spin_loop();
    }
}

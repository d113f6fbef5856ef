//! What the agent does about a bug of its own: never an abort, never a word. A handler gives its tick up, the agent thread
//! ends, and neither works again.

use core::sync::atomic::Ordering;

use super::sys::{self, syscall};
use super::{handler, slot, state, timer};

/// The end of a panic.
pub(super) fn give_up() -> ! {
    state::DISABLED.store(true, Ordering::Relaxed);
    let here = 0u8;
    let pool = state::POOL.load(Ordering::Relaxed);
    // SAFETY: the pool is never freed; on a slot's stack `escape` is what returns from it.
    unsafe {
        if !pool.is_null() && slot::on_a_slot(&*pool, &raw const here as usize) {
            slot::escape();
        }
        if sys::gettid() == state::AGENT.load(Ordering::Relaxed) {
            timer::delete_birth_timers();
            timer::disarm_classic();
            syscall!(libc::SYS_exit, 0);
        }
    }
    handler::leave();
    // A thread of the target, in a constructor or a guarded call: nothing is left but to stand still.
    loop {
        core::hint::spin_loop();
    }
}

//! `sigprocmask(2)` and the other calls that take a set of signals. A thread that blocks all
//! signals is still sampled, and one that waits for all signals does not receive ticks.
//!
//! A set that contains every signal that ticks may use ([`TICK_SIGNALS`]) and SIGSTKFLT, which
//! nothing sends, means "all signals" ([`mask::is_full`](crate::agent::signals::mask::is_full)).
//! The kernel gets it without the tick signals that the program does not use. Conversely, a kernel
//! mask that contains SIGSTKFLT is shown to the target with all of them. So the state is in the
//! thread's own mask alone: fork, vfork, exec, longjmp and setcontext preserve it, and this module
//! has none. The program could notice one difference: a set of all signals except a tick signal
//! loses SIGSTKFLT. A set that names a tick signal gives the signal to the program
//! ([`give_up`](crate::agent::timers::signal_handover::give_up)) and is passed on as it is.
//!
//! [`TICK_SIGNALS`]: crate::wire::TICK_SIGNALS

use core::ffi::c_int;
use core::sync::atomic::AtomicUsize;

use crate::agent::os::{libc_functions, syscall, user_dispatch};
use crate::agent::signals::mask;
use crate::agent::signals::tick_signal::{self, ALL};
use crate::agent::start;
use crate::agent::timers::{interval_timer, signal_handover};

/// libc's set of signals. The kernel knows its first word.
type Set = [u64; 16];

/// Translates a set of signals to wait for.
fn to_awaited(set: u64) -> u64 {
    signal_handover::give_up_named(set);
    let classic = interval_timer::classic_signal();
    if mask::is_full(set) { set & !tick_signal::hidden() & !tick_signal::bit(classic) } else { set }
}

type Change = unsafe extern "C" fn(c_int, *const Set, *mut Set) -> c_int;
type SignalWait = unsafe extern "C" fn(*const Set, *mut (), *const ()) -> c_int;
type Open = unsafe extern "C" fn(c_int, *const Set, c_int) -> c_int;

unsafe fn change(real: &AtomicUsize, how: c_int, set: *const Set, old: *mut Set) -> c_int {
    let real = start::real(real);
    if real == 0 {
        return libc::ENOSYS;
    }
    // SAFETY: libc's own function of this type; the caller's sets are valid or null, as libc
    // demands.
    unsafe {
        let real = core::mem::transmute::<usize, Change>(real);
        let wanted = if set.is_null() { 0 } else { (*set)[0] };
        if how != libc::SIG_UNBLOCK {
            signal_handover::give_up_named(wanted);
        }
        let hidden = user_dispatch::hidden_signals();
        let seen = |mask: u64| mask::to_target(mask & !hidden);
        let is_plain = wanted & (ALL | mask::FULL_MARKER) == 0 && how != libc::SIG_SETMASK && !user_dispatch::is_here();
        let result = if set.is_null() || is_plain {
            real(how, set, old)
        } else {
            let may_ask = !user_dispatch::forbids_calls();
            let (how, mask) = match how {
                libc::SIG_BLOCK if may_ask => (libc::SIG_SETMASK, seen(syscall::mask()) | wanted),
                libc::SIG_UNBLOCK if may_ask => (libc::SIG_SETMASK, seen(syscall::mask()) & !wanted),
                how => (how, wanted),
            };
            let mut set = *set;
            set[0] = match how {
                libc::SIG_SETMASK => user_dispatch::with_hidden(mask::to_kernel(mask)),
                libc::SIG_UNBLOCK => user_dispatch::unblockable(mask),
                _ => mask,
            };
            real(how, &raw const set, old)
        };
        if result == 0 && !old.is_null() {
            (*old)[0] = seen((*old)[0]);
        }
        result
    }
}

/// `sigprocmask(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const Set, old: *mut Set) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { change(&libc_functions::SIGPROCMASK, how, set, old) }
}

/// `pthread_sigmask(3)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const Set, old: *mut Set) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { change(&libc_functions::PTHREAD_SIGMASK, how, set, old) }
}

unsafe fn wait(real: &AtomicUsize, set: *const Set, a: *mut (), b: *const ()) -> c_int {
    let real = start::real(real);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, or one that takes fewer arguments; the caller's set
    // is valid, as libc demands.
    unsafe {
        let real = core::mem::transmute::<usize, SignalWait>(real);
        if set.is_null() {
            return real(set, a, b);
        }
        let mut set = *set;
        set[0] = to_awaited(set[0]);
        real(&raw const set, a, b)
    }
}

/// `sigwait(3)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigwait(set: *const Set, signal: *mut ()) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { wait(&libc_functions::SIGWAIT, set, signal, core::ptr::null()) }
}

/// `sigwaitinfo(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigwaitinfo(set: *const Set, info: *mut ()) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { wait(&libc_functions::SIGWAITINFO, set, info, core::ptr::null()) }
}

/// `sigtimedwait(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigtimedwait(set: *const Set, info: *mut (), timeout: *const ()) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { wait(&libc_functions::SIGTIMEDWAIT, set, info, timeout) }
}

/// `signalfd(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn signalfd(file: c_int, set: *const Set, flags: c_int) -> c_int {
    let real = start::real(&libc_functions::SIGNALFD);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type; the caller's set is valid, as libc demands.
    unsafe {
        let real = core::mem::transmute::<usize, Open>(real);
        if set.is_null() {
            return real(file, set, flags);
        }
        let mut set = *set;
        set[0] = to_awaited(set[0]);
        real(file, &raw const set, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mask_is_shown_as_it_was_and_lets_ticks_through() {
        for set in [0, !0, ALL, !ALL & !mask::FULL_MARKER, 1, ALL | mask::FULL_MARKER, ALL | mask::FULL_MARKER | 5] {
            assert_eq!(mask::to_target(mask::to_kernel(set)), set, "{set:#x}");
            assert!(mask::to_kernel(set) & tick_signal::hidden() == 0 || set & mask::FULL_MARKER == 0, "{set:#x}");
        }
        assert_eq!(mask::to_target(mask::to_kernel(!ALL)), !ALL & !mask::FULL_MARKER);
    }

    #[test]
    fn a_set_that_names_a_signal_is_obeyed() {
        let urgent = tick_signal::bit(libc::SIGURG);
        assert_eq!((mask::to_kernel(urgent), mask::to_kernel(!urgent)), (urgent, !urgent & !mask::FULL_MARKER));
        assert_eq!(to_awaited(!0) & ALL, 0);
    }
}

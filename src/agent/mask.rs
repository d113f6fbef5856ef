//! The calls that take a set of signals, so that a thread that blocks everything is sampled all the same, and one that waits for
//! everything is not given a tick.
//!
//! A set that holds every signal that ticks may come by ([`TICK_SIGNALS`]), and also SIGSTKFLT,
//! which nothing sends, means "all signals" ([`is_full`]). To the kernel it goes without those that
//! the program does not use; and a mask of the kernel's that holds SIGSTKFLT is shown to the target
//! with all of them. So what a thread believes is kept in its own mask alone: fork, vfork, exec,
//! longjmp and setcontext carry it along, and nothing here has a state. (A set of all signals but
//! one of these is without SIGSTKFLT too: that much can be noticed.) A set that names one of them
//! gives it to the program ([`signals::give_up`]), and is obeyed.
//!
//! [`TICK_SIGNALS`]: crate::link::wire::TICK_SIGNALS

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::loader;
use super::signals::{self, ALL};
use super::start;
use super::sys::{self, syscall};
use super::timer;
use super::user_dispatch;

const MARK: u64 = signals::bit(libc::SIGSTKFLT);

/// libc's set, of which the kernel knows the first word.
type Set = [u64; 16];

/// Whether a set means all signals.
fn is_full(set: u64) -> bool {
    set & (ALL | MARK) == ALL | MARK
}

/// A mask as the kernel is to have it.
pub(super) fn veiled(set: u64) -> u64 {
    if is_full(set) { set & !signals::hidden() } else { set & !MARK }
}

/// A mask of the kernel's as the target is to see it.
pub(super) fn unveiled(set: u64) -> u64 {
    if set & MARK != 0 { set | ALL } else { set }
}

/// Gives up the signals that a set of the target's names.
fn note_names(set: u64) {
    if !is_full(set) {
        signals::give_up(set);
    }
}

/// A set of signals that are waited for as the kernel is to have it.
fn awaited(set: u64) -> u64 {
    note_names(set);
    let classic = timer::classic_signal();
    if is_full(set) { set & !signals::hidden() & !signals::bit(classic) } else { set }
}

static REAL_SIGPROCMASK: AtomicUsize = AtomicUsize::new(0);
static REAL_PTHREAD_SIGMASK: AtomicUsize = AtomicUsize::new(0);
static REAL_SIGWAIT: AtomicUsize = AtomicUsize::new(0);
static REAL_SIGWAITINFO: AtomicUsize = AtomicUsize::new(0);
static REAL_SIGTIMEDWAIT: AtomicUsize = AtomicUsize::new(0);
static REAL_SIGNALFD: AtomicUsize = AtomicUsize::new(0);

/// Looks up what is called behind. For the constructor.
pub(super) fn look_up(here: usize) {
    let calls = [
        (c"sigprocmask", &REAL_SIGPROCMASK),
        (c"pthread_sigmask", &REAL_PTHREAD_SIGMASK),
        (c"sigwait", &REAL_SIGWAIT),
        (c"sigwaitinfo", &REAL_SIGWAITINFO),
        (c"sigtimedwait", &REAL_SIGTIMEDWAIT),
        (c"signalfd", &REAL_SIGNALFD),
    ];
    for (name, real) in calls {
        real.store(loader::next(name, here), Ordering::Relaxed);
    }
}

/// Lets ticks through to the first thread if all it inherited is blocked. For the constructor.
pub(super) fn adopt_inherited() {
    let inherited = unveiled(present());
    if is_full(inherited) {
        sys::set_mask(veiled(inherited));
    } else {
        note_names(inherited);
    }
}

/// The mask of the calling thread. rt_sigprocmask(2)
fn present() -> u64 {
    let mut mask = 0u64;
    // SAFETY: one mask out.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, &raw mut mask, 8) };
    mask
}

type Change = unsafe extern "C" fn(c_int, *const Set, *mut Set) -> c_int;
type Wait = unsafe extern "C" fn(*const Set, *mut (), *const ()) -> c_int;
type Open = unsafe extern "C" fn(c_int, *const Set, c_int) -> c_int;

unsafe fn change(real: &AtomicUsize, how: c_int, set: *const Set, old: *mut Set) -> c_int {
    let real = start::real(real);
    if real == 0 {
        return libc::ENOSYS;
    }
    // SAFETY: libc's own function of this type; the caller's sets are valid or null, as libc demands.
    unsafe {
        let real = core::mem::transmute::<usize, Change>(real);
        let wanted = if set.is_null() { 0 } else { (*set)[0] };
        if how != libc::SIG_UNBLOCK {
            note_names(wanted);
        }
        let hidden = user_dispatch::hidden_signals();
        let seen = |mask: u64| unveiled(mask & !hidden);
        let is_plain = wanted & (ALL | MARK) == 0 && how != libc::SIG_SETMASK && !user_dispatch::is_here();
        let result = if set.is_null() || is_plain {
            real(how, set, old)
        } else {
            let may_ask = !user_dispatch::forbids_calls();
            let (how, mask) = match how {
                libc::SIG_BLOCK if may_ask => (libc::SIG_SETMASK, seen(present()) | wanted),
                libc::SIG_UNBLOCK if may_ask => (libc::SIG_SETMASK, seen(present()) & !wanted),
                how => (how, wanted),
            };
            let mut set = *set;
            set[0] = match how {
                libc::SIG_SETMASK => user_dispatch::with_hidden(veiled(mask)),
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
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const Set, old: *mut Set) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { change(&REAL_SIGPROCMASK, how, set, old) }
}

/// `pthread_sigmask(3)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const Set, old: *mut Set) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { change(&REAL_PTHREAD_SIGMASK, how, set, old) }
}

unsafe fn wait(real: &AtomicUsize, set: *const Set, a: *mut (), b: *const ()) -> c_int {
    let real = start::real(real);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, or one that takes fewer arguments; the caller's set is valid, as libc demands.
    unsafe {
        let real = core::mem::transmute::<usize, Wait>(real);
        if set.is_null() {
            return real(set, a, b);
        }
        let mut set = *set;
        set[0] = awaited(set[0]);
        real(&raw const set, a, b)
    }
}

/// `sigwait(3)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigwait(set: *const Set, signal: *mut ()) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { wait(&REAL_SIGWAIT, set, signal, core::ptr::null()) }
}

/// `sigwaitinfo(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigwaitinfo(set: *const Set, info: *mut ()) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { wait(&REAL_SIGWAITINFO, set, info, core::ptr::null()) }
}

/// `sigtimedwait(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigtimedwait(set: *const Set, info: *mut (), timeout: *const ()) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { wait(&REAL_SIGTIMEDWAIT, set, info, timeout) }
}

/// `signalfd(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn signalfd(file: c_int, set: *const Set, flags: c_int) -> c_int {
    let real = start::real(&REAL_SIGNALFD);
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
        set[0] = awaited(set[0]);
        real(file, &raw const set, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_mask_is_shown_as_it_was_and_lets_ticks_through() {
        for set in [0, !0, ALL, !ALL & !MARK, 1, ALL | MARK, ALL | MARK | 5] {
            assert_eq!(unveiled(veiled(set)), set, "{set:#x}");
            assert!(veiled(set) & signals::hidden() == 0 || set & MARK == 0, "{set:#x}");
        }
        assert_eq!(unveiled(veiled(!ALL)), !ALL & !MARK);
    }

    #[test]
    fn a_set_that_names_a_signal_is_obeyed() {
        let urgent = signals::bit(libc::SIGURG);
        assert_eq!((veiled(urgent), veiled(!urgent)), (urgent, !urgent & !MARK));
        assert_eq!(awaited(!0) & ALL, 0);
    }
}

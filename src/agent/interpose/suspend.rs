//! `sigsuspend(2)` and the other calls that wait with a signal mask of their own: `ppoll(2)`,
//! `pselect(2)`, `epoll_pwait(2)`.
//!
//! A tick may end such a call before the signal that woke the thread is delivered (see
//! [`interrupted`](crate::agent::signals::interrupted)). Then that signal is pending, and the
//! call is made again: it delivers the signal and ends, whatever its timeout is. It is not made
//! again where no signal is pending, since a handler of the program's may have run already.

use core::ffi::c_int;
use core::sync::atomic::AtomicUsize;

use crate::agent::os::{libc_functions, loader, syscall};
use crate::agent::signals::{interrupted, tick_signal};
use crate::agent::{start, state};

/// libc's set of signals. The kernel knows its first word.
type Set = [u64; 16];
type Suspend = unsafe extern "C" fn(*const Set) -> c_int;
type Poll = unsafe extern "C" fn(*mut (), u64, *const (), *const Set) -> c_int;
type PollChecked = unsafe extern "C" fn(*mut (), u64, *const (), *const Set, usize) -> c_int;
type Select = unsafe extern "C" fn(c_int, *mut (), *mut (), *mut (), *const (), *const Set) -> c_int;
type EpollWait = unsafe extern "C" fn(c_int, *mut (), c_int, c_int, *const Set) -> c_int;
type EpollWait2 = unsafe extern "C" fn(c_int, *mut (), c_int, *const (), *const Set) -> c_int;

/// Makes a call that waits with a mask, again while a tick ends it before a signal of the program's
/// that the mask lets through.
///
/// # Safety
/// `set` must be valid or null.
unsafe fn wait(real: &AtomicUsize, set: *const Set, call: impl Fn(usize) -> c_int) -> c_int {
    let real = start::real(real);
    if real == 0 {
        loader::set_errno(libc::ENOSYS);
        return -1;
    }
    loop {
        let before = interrupted::counted();
        let result = call(real);
        if result != -1 || interrupted::counted() == before || set.is_null() || state::syscalls_forbidden() {
            return result;
        }
        // SAFETY: the kernel has read the set.
        let awaited = !unsafe { (*set)[0] };
        if loader::errno() != libc::EINTR || syscall::pending_signals() & awaited & !tick_signal::hidden() == 0 {
            return result;
        }
    }
}

/// `sigsuspend(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigsuspend(set: *const Set) -> c_int {
    // SAFETY: libc's own function of this type, with the caller's arguments.
    unsafe { wait(&libc_functions::SIGSUSPEND, set, |real| core::mem::transmute::<usize, Suspend>(real)(set)) }
}

/// `ppoll(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn ppoll(files: *mut (), count: u64, timeout: *const (), set: *const Set) -> c_int {
    // SAFETY: libc's own function of this type, with the caller's arguments.
    unsafe {
        wait(&libc_functions::PPOLL, set, |real| core::mem::transmute::<usize, Poll>(real)(files, count, timeout, set))
    }
}

/// `ppoll(2)` for a target that checks the sizes of its buffers (`_FORTIFY_SOURCE`).
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn __ppoll_chk(
    files: *mut (),
    count: u64,
    timeout: *const (),
    set: *const Set,
    size: usize,
) -> c_int {
    // SAFETY: libc's own function of this type, with the caller's arguments.
    unsafe {
        wait(&libc_functions::PPOLL_CHK, set, |real| {
            core::mem::transmute::<usize, PollChecked>(real)(files, count, timeout, set, size)
        })
    }
}

/// `pselect(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut (),
    write: *mut (),
    except: *mut (),
    timeout: *const (),
    set: *const Set,
) -> c_int {
    // SAFETY: libc's own function of this type, with the caller's arguments.
    unsafe {
        wait(&libc_functions::PSELECT, set, |real| {
            core::mem::transmute::<usize, Select>(real)(count, read, write, except, timeout, set)
        })
    }
}

/// `epoll_pwait(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn epoll_pwait(
    poll: c_int,
    events: *mut (),
    count: c_int,
    timeout_ms: c_int,
    set: *const Set,
) -> c_int {
    // SAFETY: libc's own function of this type, with the caller's arguments.
    unsafe {
        wait(&libc_functions::EPOLL_PWAIT, set, |real| {
            core::mem::transmute::<usize, EpollWait>(real)(poll, events, count, timeout_ms, set)
        })
    }
}

/// `epoll_pwait2(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn epoll_pwait2(
    poll: c_int,
    events: *mut (),
    count: c_int,
    timeout: *const (),
    set: *const Set,
) -> c_int {
    // SAFETY: libc's own function of this type, with the caller's arguments.
    unsafe {
        wait(&libc_functions::EPOLL_PWAIT2, set, |real| {
            core::mem::transmute::<usize, EpollWait2>(real)(poll, events, count, timeout, set)
        })
    }
}

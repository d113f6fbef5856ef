//! `sigaction(2)`, `signal(2)` and their relatives, for the signals that the agent uses. The agent
//! keeps the target's action of such a signal in a shadow and its own in the kernel, so a program
//! that resets every handler is not killed by the next tick and reads back what it set. All other
//! calls go to libc, and so do those of a vfork child.

use crate::agent::interpose::hook::hooks;
use crate::agent::os::syscall::{self, KernelAction};
use crate::agent::os::{libc_functions, user_dispatch};
use crate::agent::signals::actions::{self, ShadowAction};
use crate::agent::signals::{frame, mask, tick_signal};
use crate::agent::timers::signal_handover;
use crate::agent::unwind::restorers;
use crate::agent::{start, state};
use crate::arch::weak_address;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The shadow of a signal whose action in the kernel is the agent's. `None` also in a vfork child,
/// which has its own actions.
fn claimed(signal: i32) -> Option<&'static ShadowAction> {
    let shadow = ShadowAction::find(signal)?;
    if user_dispatch::forbids_calls() {
        return (signal == libc::SIGURG).then_some(shadow);
    }
    let is_claimed = actions::is_ours(&syscall::signal_action(signal)) && state::in_own_process();
    is_claimed.then_some(shadow)
}

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, usize) -> usize;

/// `sigaction(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller's pointers are valid or null, as libc demands.
    unsafe {
        start::prepare();
        if !new.is_null() && (*new).sa_sigaction > libc::SIG_IGN {
            signal_handover::give_up(tick_signal::bit(signal));
        }
        let Some(shadow) = claimed(signal) else { return real_sigaction(signal, new, old) };
        let before = shadow.load();
        if !new.is_null() {
            if (*new).sa_flags & libc::SA_ONSTACK != 0 {
                frame::has_go();
            }
            let mask = *(&raw const (*new).sa_mask).cast::<u64>();
            shadow.store(&KernelAction {
                handler: (*new).sa_sigaction,
                flags: (*new).sa_flags as u64,
                restorer: 0,
                mask,
            });
        }
        if !old.is_null() {
            old.write_bytes(0, 1);
            (*old).sa_sigaction = before.handler;
            (*old).sa_flags = before.flags as c_int;
            *(&raw mut (*old).sa_mask).cast::<u64>() = before.mask;
        }
    }
    0
}

unsafe fn real_sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    let real = match (weak_address!("__sigaction"), libc_functions::SIGACTION.load(Ordering::Relaxed)) {
        (0, 0) => return -1,
        (0, next) => next,
        (alias, _) => alias,
    };
    // SAFETY: libc's own, with the caller's arguments, which are valid or null; what a handler
    // blocks is a mask like any other.
    unsafe {
        let word = |action: *const libc::sigaction| (&raw const (*action).sa_mask).cast::<u64>();
        let program = frame::program_handler(signal);
        let mut copy = core::mem::MaybeUninit::<libc::sigaction>::uninit();
        // `new` and `old` may be one object.
        let (changed, handler) = if new.is_null() {
            (new, None)
        } else {
            new.copy_to(copy.as_mut_ptr(), 1);
            word(copy.as_ptr()).cast_mut().write(mask::to_kernel(*word(new)));
            let handler = (*new).sa_sigaction;
            let installed = frame::to_kernel(signal, (*new).sa_flags, handler);
            (&raw mut (*copy.as_mut_ptr()).sa_sigaction).write(installed);
            (copy.as_ptr(), Some(handler))
        };
        let result = core::mem::transmute::<usize, Sigaction>(real)(signal, changed, old);
        if let Some(handler) = handler.filter(|_| result == 0) {
            note_handler(signal, handler);
        }
        if result == 0 && !old.is_null() {
            word(old).cast_mut().write(mask::to_target(*word(old)));
            (*old).sa_sigaction = frame::to_target((*old).sa_sigaction, program);
        }
        result
    }
}

/// Records the restorer of a handler that libc has just installed for the target.
fn note_handler(signal: i32, handler: usize) {
    if handler > libc::SIG_IGN && !user_dispatch::forbids_calls() {
        restorers::note_restorer(signal);
    }
}

/// `signal(2)` for the target with BSD's meaning: the handler stays, and system calls are
/// restarted.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn signal(signal: c_int, new: usize) -> usize {
    // SAFETY: plain values, or libc's own function.
    unsafe { plain_signal(signal, new, libc::SA_RESTART as u64, &libc_functions::SIGNAL) }
}

/// `signal(2)` with System V's meaning: the handler runs once, and system calls are not restarted.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn __sysv_signal(signal: c_int, new: usize) -> usize {
    // SAFETY: plain values, or libc's own function.
    unsafe { plain_signal(signal, new, (libc::SA_RESETHAND | libc::SA_NODEFER) as u64, &libc_functions::SYSV_SIGNAL) }
}

unsafe fn plain_signal(signal: c_int, new: usize, flags: u64, real: &AtomicUsize) -> usize {
    start::prepare();
    if new > libc::SIG_IGN {
        signal_handover::give_up(tick_signal::bit(signal));
    }
    match (claimed(signal), real.load(Ordering::Relaxed)) {
        (Some(shadow), _) => {
            let old = shadow.load().handler;
            shadow.store(&KernelAction { handler: new, flags, restorer: 0, mask: 0 });
            old
        }
        (None, 0) => libc::SIG_ERR,
        // SAFETY: libc's own function with the caller's arguments.
        (None, real) => unsafe {
            let program = frame::program_handler(signal);
            let old = core::mem::transmute::<usize, Signal>(real)(signal, new);
            if old != libc::SIG_ERR {
                note_handler(signal, new);
            }
            frame::to_target(old, program)
        },
    }
}

/// Runs before a System V call that names a signal, which gives the signal to the program.
extern "C" fn before_system_v(signal: c_int) {
    start::prepare();
    if (1..=64).contains(&signal) {
        signal_handover::give_up(tick_signal::bit(signal));
    }
}

hooks! { before_system_v:
    sigset, libc_functions::SIGSET;
    sighold, libc_functions::SIGHOLD;
    sigrelse, libc_functions::SIGRELSE;
    sigignore, libc_functions::SIGIGNORE;
    sigpause, libc_functions::SIGPAUSE;
}

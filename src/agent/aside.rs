//! Stepping aside: calls of the target that the agent's thread, or a handler's system call, would make fail, or that take code away.
//!
//! `unshare` and `setns` with a user namespace want a process of one thread: the agent thread leaves before and is born again by the next
//! tick. A seccomp filter kills what it does not allow: from before it is there handlers make no system call, and an agent that is not
//! born yet is born first, since no thread may be made afterwards. Raw system calls for the same are not seen; a filter is found at the
//! next look at the process, a second later at most.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::loader;
use super::state::{self, BIRTH};
use super::{start, sys, timer, user_dispatch};

/// The agent thread is asked to leave, and comes back. Written by the target's thread, taken by the agent's.
static WANTED: AtomicBool = AtomicBool::new(false);

/// How long the target waits for the agent thread to leave, ns; it takes a thousandth of that.
const PATIENCE_NS: u64 = 500_000_000;

static REAL_UNSHARE: AtomicUsize = AtomicUsize::new(0);
static REAL_SETNS: AtomicUsize = AtomicUsize::new(0);
static REAL_PRCTL: AtomicUsize = AtomicUsize::new(0);
static REAL_DLCLOSE: AtomicUsize = AtomicUsize::new(0);

/// Looks up what is called behind. For the constructor; `here` is an address inside of this library.
pub(super) fn look_up(here: usize) {
    let calls =
        [(c"unshare", &REAL_UNSHARE), (c"setns", &REAL_SETNS), (c"prctl", &REAL_PRCTL), (c"dlclose", &REAL_DLCLOSE)];
    for (name, real) in calls {
        real.store(loader::next(name, here), Ordering::Relaxed);
    }
}

/// Whether the agent thread is to leave. For the agent thread, which then does.
pub(super) fn is_wanted() -> bool {
    WANTED.swap(false, Ordering::AcqRel)
}

/// Makes a call that only a process of one thread may make.
fn alone(call: impl FnOnce() -> c_int) -> c_int {
    let watched = state::WATCHED.load(Ordering::Relaxed);
    if !watched || state::must_not_call() || !state::is_at_home() {
        return call();
    }
    // No tick may give birth meanwhile.
    timer::delete_process_timer();
    let deadline_ns = sys::monotonic_ns() + PATIENCE_NS;
    let mut last = 0;
    while sys::monotonic_ns() < deadline_ns {
        match state::AGENT.load(Ordering::Acquire) {
            0 if last == 0 || !sys::has_thread(last) => break,
            // It is on its way out.
            0 => sys::futex_wait(&state::AGENT, 0, 50_000),
            agent => {
                if agent != BIRTH {
                    last = agent;
                    WANTED.store(true, Ordering::Release);
                    state::wake_at_once();
                }
                // The kernel clears the word when the thread ends, and wakes who waits; the time is for one that is being born.
                sys::shared_futex_wait(&state::AGENT, agent, 10_000_000);
            }
        }
    }
    WANTED.store(false, Ordering::Release);
    let result = call();
    start::come_back();
    result
}

type Unshare = unsafe extern "C" fn(c_int) -> c_int;
type Setns = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Prctl = unsafe extern "C" fn(c_int, usize, usize, usize, usize) -> c_int;

/// `unshare(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    let real = start::real(&REAL_UNSHARE);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, with the caller's argument.
    let call = || unsafe { core::mem::transmute::<usize, Unshare>(real)(flags) };
    let single = libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;
    if flags & single != 0 { alone(call) } else { call() }
}

/// `setns(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn setns(file: c_int, kind: c_int) -> c_int {
    let real = start::real(&REAL_SETNS);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, with the caller's arguments.
    let call = || unsafe { core::mem::transmute::<usize, Setns>(real)(file, kind) };
    if kind == 0 || kind & libc::CLONE_NEWUSER != 0 { alone(call) } else { call() }
}

/// `dlclose(3)` for the target: what lies at the address next may be another library, of the same shape.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn dlclose(library: *mut ()) -> c_int {
    let real = start::real(&REAL_DLCLOSE);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, with the caller's argument.
    let result = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut ()) -> c_int>(real)(library) };
    if state::WATCHED.load(Ordering::Relaxed) && !state::must_not_call() {
        state::CURIOUS.store(true, Ordering::Relaxed);
        if !state::WANT_MODULES.swap(true, Ordering::SeqCst) && state::MAY_CALL.load(Ordering::Relaxed) {
            state::wake_at_once();
        }
    }
    result
}

/// `prctl(2)` for the target. It takes up to five arguments, all in registers.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if option == libc::PR_SET_SECCOMP && state::is_at_home() {
        start::be_born_before_a_filter();
    }
    match start::real(&REAL_PRCTL) {
        0 => -1,
        // SAFETY: libc's own function, with the caller's arguments.
        real => user_dispatch::around_prctl(option, [a, b, c, d], || unsafe {
            core::mem::transmute::<usize, Prctl>(real)(option, a, b, c, d)
        }),
    }
}

//! Stepping aside: calls of the target that the agent's thread, or a handler's system call, would make fail, or that take code away.
//!
//! `unshare` and `setns` with a user namespace want a process of one thread: the agent thread
//! leaves before and is born again by the next tick. So does a program that counts its threads in
//! `/proc/self/task` and insists on one, as the processes from which browsers fork do.
//!
//! A seccomp filter kills for what it does not allow: from before it is there handlers make no
//! system call, and an agent that is not born yet is born first, since no thread may be made
//! afterwards. A filter that binds every thread, or does not let handlers return, makes the agent
//! leave for good. What a program asks of `prctl`, `syscall` or `seccomp` is seen before it
//! happens. A filter installed by an inline system call is found when the agent thread looks, a
//! tenth of a second later at most; if that call comes before the first tick, the birth may break
//! it.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::filter::{self, Program};
use super::hook::{self, hooks, restore_arguments, save_arguments};
use super::state::{self, BIRTH};
use super::{guard, loader, start, sys, timer, user_dispatch};

/// The agent thread is asked to leave, and comes back. Written by the target's thread, taken by the agent's.
static WANTED: AtomicBool = AtomicBool::new(false);

/// What `unshare` does for a process of one thread alone.
const SINGLE: c_int = libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;

/// How long the target waits for the agent thread to leave, ns; it takes a thousandth of that.
const PATIENCE_NS: u64 = 500_000_000;

static REAL_UNSHARE: AtomicUsize = AtomicUsize::new(0);
static REAL_SETNS: AtomicUsize = AtomicUsize::new(0);
static REAL_PRCTL: AtomicUsize = AtomicUsize::new(0);
static REAL_DLCLOSE: AtomicUsize = AtomicUsize::new(0);

/// Looks up what is called behind. For the constructor; `here` is an address inside of this library.
pub(super) fn look_up(here: usize) {
    let calls = [
        (c"unshare", &REAL_UNSHARE),
        (c"setns", &REAL_SETNS),
        (c"prctl", &REAL_PRCTL),
        (c"dlclose", &REAL_DLCLOSE),
        (c"syscall", &REAL_SYSCALL),
    ];
    for (name, real) in calls {
        real.store(loader::next(name, here), Ordering::Relaxed);
    }
    for table in [OF_A_PATH, OF_A_DIRECTORY] {
        hook::look_up(table, here);
    }
}

/// Whether the agent thread is to leave. For the agent thread, which then does.
pub(super) fn is_wanted() -> bool {
    WANTED.swap(false, Ordering::AcqRel)
}

/// Makes a call that only a process of one thread may make.
fn alone(call: impl FnOnce() -> c_int) -> c_int {
    let leaves = leave();
    let result = call();
    if leaves {
        start::come_back();
    }
    result
}

/// Has the agent thread leave, and waits until it has; false where nothing is watched, or where no
/// system call may be made.
fn leave() -> bool {
    let watched = state::WATCHED.load(Ordering::Relaxed);
    if !watched || state::must_not_call() || !state::is_at_home() {
        return false;
    }
    // No tick may give birth meanwhile.
    timer::delete_birth_timers();
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
                    state::wake();
                }
                // The kernel clears the word when the thread ends, and wakes who waits; the time is for one that is being born.
                sys::shared_futex_wait(&state::AGENT, agent, 10_000_000);
            }
        }
    }
    WANTED.store(false, Ordering::Release);
    true
}

/// The program counts its threads: the agent thread is none of them, and is born again by a tick.
fn step_aside() {
    if !matches!(state::AGENT.load(Ordering::Acquire), 0 | BIRTH) && leave() {
        start::come_back();
    }
}

/// A filter is about to bind the calling thread, or every thread.
fn before_filter(binds_all: bool, lets_return: bool) {
    if !state::is_at_home() {
        return;
    }
    if binds_all || !lets_return {
        leave();
        start::stay_away();
    } else {
        start::be_born_before_a_filter();
    }
}

/// What `prctl` is about to do.
fn before_prctl(option: c_int, a: usize, b: usize) {
    match option {
        libc::PR_SET_SECCOMP => {
            let strict = a == libc::SECCOMP_MODE_STRICT as usize;
            // SAFETY: what the kernel is about to read.
            before_filter(false, strict || unsafe { filter::lets_handlers_return(b as *const Program) });
        }
        // Without privileges to gain a filter may follow, by a call that is not seen.
        libc::PR_SET_NO_NEW_PRIVS if state::is_at_home() => start::be_born_before_a_surprise(),
        _ => {}
    }
}

/// What `syscall` is about to do; whether it is [`prctl`], which is called instead.
extern "C" fn before_syscall(number: i64, a: usize, b: usize, c: usize) -> bool {
    start::prepare();
    const SET_MODE_STRICT: usize = 0;
    const SET_MODE_FILTER: usize = 1;
    const TSYNC: usize = 1;
    match number {
        libc::SYS_seccomp if a == SET_MODE_STRICT => before_filter(false, true),
        libc::SYS_seccomp if a == SET_MODE_FILTER => {
            // SAFETY: what the kernel is about to read.
            before_filter(b & TSYNC != 0, unsafe { filter::lets_handlers_return(c as *const Program) });
        }
        libc::SYS_prctl => return true,
        libc::SYS_execve | libc::SYS_execveat => guard::before_exec(),
        libc::SYS_unshare if a as c_int & SINGLE != 0 => step_aside(),
        libc::SYS_setns => step_aside(),
        _ => {}
    }
    false
}

static REAL_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// `syscall(2)` for the target: with every argument as it was, the seventh on the stack too.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        save_arguments!(),
        "call {before}",
        "test al, al",
        restore_arguments!(),
        "jnz {prctl}",
        "jmp [rip + {real}]",
        ".cfi_endproc",
        before = sym before_syscall,
        prctl = sym prctl_by_number,
        real = sym REAL_SYSCALL,
    )
}

/// `syscall(SYS_prctl, …)`.
unsafe extern "C" fn prctl_by_number(_: i64, option: c_int, a: usize, b: usize, c: usize, d: usize) -> i64 {
    // SAFETY: the caller's arguments.
    unsafe { prctl(option, a, b, c, d).into() }
}

/// The target asks for the status of a path.
///
/// # Safety
/// The path is a string or null.
unsafe extern "C" fn before_status(path: *const c_char) {
    start::prepare();
    // SAFETY: the caller vouches.
    if !path.is_null() && is_task_list(unsafe { CStr::from_ptr(path) }.to_bytes()) {
        step_aside();
    }
}

/// The same for a path from a directory on.
///
/// # Safety
/// The path is a string or null.
unsafe extern "C" fn before_status_at(_: c_int, path: *const c_char) {
    // SAFETY: the caller vouches.
    unsafe { before_status(path) };
}

/// Whether a path, perhaps from /proc on, is the list of the process's own threads.
fn is_task_list(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let Some(process) = path.strip_suffix(b"/task") else { return false };
    let process = process.strip_prefix(b"/proc/").unwrap_or(process);
    let number = || core::str::from_utf8(process).ok()?.parse::<u32>().ok();
    process == b"self" || number() == Some(state::OWNER.load(Ordering::Relaxed))
}

hooks! { OF_A_PATH, before_status:
    opendir, REAL_OPENDIR;
    stat, REAL_STAT;
    stat64, REAL_STAT64;
}

hooks! { OF_A_DIRECTORY, before_status_at:
    fstatat, REAL_FSTATAT;
    fstatat64, REAL_FSTATAT64;
    __xstat, REAL_XSTAT;
    __xstat64, REAL_XSTAT64;
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
    if flags & SINGLE != 0 { alone(call) } else { call() }
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
            state::wake();
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
    let real = start::real(&REAL_PRCTL);
    before_prctl(option, a, b);
    match real {
        0 => -1,
        // SAFETY: libc's own function, with the caller's arguments.
        real => user_dispatch::around_prctl(option, [a, b, c, d], || unsafe {
            core::mem::transmute::<usize, Prctl>(real)(option, a, b, c, d)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_own_threads_is_known_by_its_path() {
        let own = std::process::id();
        state::OWNER.store(own, Ordering::Relaxed);
        let paths = ["/proc/self/task", "/proc/self/task/", "self/task/", &format!("/proc/{own}/task")];
        assert!(paths.iter().all(|path| is_task_list(path.as_bytes())));
        let others = ["/proc/1/task", "/proc/self/task/1", "/proc/self", "task", "/home/self/task"];
        assert!(!others.iter().any(|path| is_task_list(path.as_bytes())));
    }
}

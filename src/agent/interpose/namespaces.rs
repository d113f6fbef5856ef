//! Calls of the target that would fail because of the agent thread or a handler's system calls, and
//! `dlclose`, which unmaps code.
//!
//! `unshare` and `setns` with a user namespace require a process with one thread. The agent thread
//! leaves before such a call, and the next tick spawns it again. The same happens before a program
//! counts its threads in `/proc/self/task`, as the processes from which browsers fork do; they
//! insist on one.
//!
//! A seccomp filter may kill the process for a system call that it does not allow. Before the
//! filter is installed, handlers stop making system calls, and an agent thread that does not exist
//! yet is spawned, because no thread can be created afterwards. If the filter applies to every
//! thread, or does not let handlers return, the agent leaves for good. `prctl`, `syscall` and
//! `seccomp` are interposed for this. A filter installed by an inline system call is noticed when
//! the agent thread next looks, at most 0.1 s later; if it is installed before the first tick,
//! spawning the agent thread may violate it.

use crate::agent::interpose::hook::hooks;
use crate::agent::interpose::seccomp::{self, BpfProgram};
use crate::agent::interpose::{exec, exit, prctl};
use crate::agent::os::{libc_functions, syscall};
use crate::agent::state::{self, SPAWNING};
use crate::agent::{requests, spawn, start};
use crate::arch::call_before_or;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;

/// Flags of `unshare` that require a process with one thread.
const SINGLE_THREAD_FLAGS: c_int = libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;

/// Makes a call that requires a process with one thread.
fn call_single_threaded(call: impl FnOnce() -> c_int) -> c_int {
    let has_left = requests::remove_agent_thread();
    let result = call();
    if has_left {
        spawn::prepare_respawn();
    }
    result
}

/// Removes the agent thread before the program counts its threads. A tick spawns it again.
fn hide_agent_thread() {
    if !matches!(state::AGENT.load(Ordering::Acquire), 0 | SPAWNING) && requests::remove_agent_thread() {
        spawn::prepare_respawn();
    }
}

/// Runs before a filter is installed for the calling thread or for every thread.
fn before_filter(for_all_threads: bool, lets_return: bool) {
    if !state::in_own_process() {
        return;
    }
    if for_all_threads || !lets_return {
        requests::remove_agent_thread();
        spawn::stay_out();
    } else {
        spawn::spawn_before_filter();
    }
}

/// Runs before `prctl`.
fn before_prctl(option: c_int, a: usize, b: usize) {
    match option {
        libc::PR_SET_SECCOMP => {
            let strict = a == libc::SECCOMP_MODE_STRICT as usize;
            // SAFETY: the kernel is about to read the same program.
            before_filter(false, strict || unsafe { seccomp::lets_handlers_return(b as *const BpfProgram) });
        }
        // Without privileges to gain a filter may follow, by a call that is not seen.
        libc::PR_SET_NO_NEW_PRIVS if state::in_own_process() => spawn::spawn_before_hidden_filter(),
        _ => {}
    }
}

/// Runs before `syscall`. Returns whether to call [`prctl`](fn@prctl) instead.
extern "C" fn before_syscall(number: i64, a: usize, b: usize, c: usize) -> bool {
    start::prepare();
    const SET_MODE_STRICT: usize = 0;
    const SET_MODE_FILTER: usize = 1;
    const TSYNC: usize = 1;
    match number {
        // Sandboxes ask what the kernel supports by calls that install nothing: without a filter,
        // or with flags where none are allowed.
        libc::SYS_seccomp if a == SET_MODE_STRICT && b == 0 && c == 0 => before_filter(false, true),
        libc::SYS_seccomp if a == SET_MODE_FILTER && c != 0 => {
            // SAFETY: the kernel is about to read the same program.
            before_filter(b & TSYNC != 0, unsafe { seccomp::lets_handlers_return(c as *const BpfProgram) });
        }
        libc::SYS_prctl => return true,
        libc::SYS_execve | libc::SYS_execveat => exec::before_exec(),
        libc::SYS_unshare if a as c_int & SINGLE_THREAD_FLAGS != 0 => hide_agent_thread(),
        libc::SYS_setns => hide_agent_thread(),
        libc::SYS_exit => exit::before_raw_exit(),
        _ => {}
    }
    false
}

/// `syscall(2)` for the target, with every argument unchanged, also the seventh on the stack.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    call_before_or!(before_syscall, then libc_functions::SYSCALL, or prctl_by_number)
}

/// `syscall(SYS_prctl, …)`.
unsafe extern "C" fn prctl_by_number(_: i64, option: c_int, a: usize, b: usize, c: usize, d: usize) -> i64 {
    // SAFETY: the caller's arguments.
    unsafe { prctl(option, a, b, c, d).into() }
}

/// Runs before the target looks up a path.
///
/// # Safety
/// `path` is a C string or null.
unsafe extern "C" fn before_path(path: *const c_char) {
    start::prepare();
    // SAFETY: the caller passes a C string or null.
    if !path.is_null() && is_task_list(unsafe { CStr::from_ptr(path) }.to_bytes()) {
        hide_agent_thread();
    }
}

/// Runs before the target looks up a path relative to a directory.
///
/// # Safety
/// `path` is a C string or null.
unsafe extern "C" fn before_path_at(_: c_int, path: *const c_char) {
    // SAFETY: the caller passes a C string or null.
    unsafe { before_path(path) };
}

/// Returns whether a path, absolute or relative to /proc, is the list of the process's own threads.
fn is_task_list(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let Some(process) = path.strip_suffix(b"/task") else { return false };
    let process = process.strip_prefix(b"/proc/").unwrap_or(process);
    let number = || core::str::from_utf8(process).ok()?.parse::<u32>().ok();
    process == b"self" || number() == Some(state::OWNER.load(Ordering::Relaxed))
}

hooks! { before_path:
    opendir, libc_functions::OPENDIR;
    stat, libc_functions::STAT;
    stat64, libc_functions::STAT64;
}

hooks! { before_path_at:
    fstatat, libc_functions::FSTATAT;
    fstatat64, libc_functions::FSTATAT64;
    __xstat, libc_functions::XSTAT;
    __xstat64, libc_functions::XSTAT64;
}

type Unshare = unsafe extern "C" fn(c_int) -> c_int;
type Setns = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Prctl = unsafe extern "C" fn(c_int, usize, usize, usize, usize) -> c_int;

/// `unshare(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    let real = start::real(&libc_functions::UNSHARE);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, with the caller's argument.
    let call = || unsafe { core::mem::transmute::<usize, Unshare>(real)(flags) };
    if flags & SINGLE_THREAD_FLAGS != 0 { call_single_threaded(call) } else { call() }
}

/// `setns(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn setns(file: c_int, kind: c_int) -> c_int {
    let real = start::real(&libc_functions::SETNS);
    if real == 0 {
        return -1;
    }
    // SAFETY: libc's own function of this type, with the caller's arguments.
    let call = || unsafe { core::mem::transmute::<usize, Setns>(real)(file, kind) };
    if kind == 0 || kind & libc::CLONE_NEWUSER != 0 { call_single_threaded(call) } else { call() }
}

/// Number of times that dlclose(3) lets other threads run while the agent thread changes offset
/// tables.
const UNLOAD_ATTEMPTS: u32 = 100_000;

/// `dlclose(3)` for the target. Another library with the same layout may be mapped at the same
/// address next, so the modules are read again.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn dlclose(library: *mut ()) -> c_int {
    let real = start::real(&libc_functions::DLCLOSE);
    if real == 0 {
        return -1;
    }
    state::UNLOADING.fetch_add(1, Ordering::SeqCst);
    // The agent thread takes a few milliseconds at most. One that was stopped must not hold this
    // one.
    for _ in 0..UNLOAD_ATTEMPTS {
        if !state::PATCHING.load(Ordering::SeqCst) {
            break;
        }
        if state::syscalls_forbidden() { core::hint::spin_loop() } else { syscall::yield_now() }
    }
    // SAFETY: libc's own function of this type, with the caller's argument.
    let result = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut ()) -> c_int>(real)(library) };
    // A child that a destructor has forked counts from 0.
    let _ = state::UNLOADING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    if state::WATCHED.load(Ordering::Relaxed) && !state::syscalls_forbidden() {
        state::REREAD_MAPS_ON_MISS.store(true, Ordering::Relaxed);
        if !state::WANT_MODULES.swap(true, Ordering::SeqCst) && state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
            state::wake();
        }
    }
    result
}

/// `prctl(2)` for the target. It has up to five arguments, all in registers.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    let real = start::real(&libc_functions::PRCTL);
    before_prctl(option, a, b);
    match real {
        0 => -1,
        // SAFETY: libc's own function, with the caller's arguments.
        real => prctl::around_prctl(option, [a, b, c, d], || unsafe {
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

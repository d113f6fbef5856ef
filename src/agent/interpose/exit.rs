//! Ends of the process and of threads: `_exit(2)`, `pthread_exit(3)`, `thrd_exit(3)` and
//! `syscall(SYS_exit)`.
//!
//! `_exit` ends the process without running destructors. Most fork children end this way, and short
//! ones end before the agent thread has sent their samples.
//!
//! A process lives on without its first thread until its last one ends, and since Linux 5.17 the
//! exit code of that one is the exit code of the process. The agent thread must not be the last,
//! and nothing tells it when other threads end. So it leaves before the first thread ends by
//! `syscall(SYS_exit)`. After `pthread_exit` in the first thread, libc ends the process by `exit`
//! when the last thread ends that libc knows, so the agent thread may stay until a thread ends by
//! `syscall(SYS_exit)`.

use crate::agent::cpuprofile::control;
use crate::agent::interpose::hook::hooks;
use crate::agent::os::{libc_functions, syscall};
use crate::agent::{requests, start, state};
use core::sync::atomic::Ordering;

hooks! { before_exit:
    _exit, libc_functions::EXIT;
    _Exit, libc_functions::ISO_EXIT;
}

/// Has the agent thread send what it holds, as at exit(3). A vfork child passes through, because
/// the agent does not belong to it.
extern "C" fn before_exit() {
    if start::prepare() {
        start::destructor();
    }
}

hooks! { before_pthread_exit:
    pthread_exit, libc_functions::PTHREAD_EXIT;
    thrd_exit, libc_functions::THRD_EXIT;
}

/// Notes that the first thread ends in the way that libc counts.
extern "C" fn before_pthread_exit() {
    if start::prepare() && is_first_thread() {
        state::FIRST_LEFT_BY_LIBC.store(true, Ordering::SeqCst);
    }
}

/// Runs before a thread ends by a call that libc does not count. If it is the first thread, or that
/// has ended, the agent thread leaves for good, unless it writes a profile into a file. Where no
/// system call may be made, the agent thread finds the end of the first thread by itself.
pub(super) fn before_raw_exit() {
    let has_first_left = state::FIRST_LEFT_BY_LIBC.load(Ordering::SeqCst) && state::in_own_process();
    if (has_first_left || is_first_thread()) && !state::syscalls_forbidden() && !control::needs_agent() {
        state::FIRST_ENDED.store(true, Ordering::SeqCst);
        requests::remove_agent_thread();
    }
}

/// Returns whether the calling thread is the first one of the agent's process; false where no
/// system call may be made.
fn is_first_thread() -> bool {
    let owner = state::OWNER.load(Ordering::Relaxed);
    !state::syscalls_forbidden() && syscall::gettid() == owner && syscall::getpid() == owner
}

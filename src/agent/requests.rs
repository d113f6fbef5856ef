//! Requests of the target's threads to the agent thread, with the waiting for it: to leave for the
//! duration of a call, and to adopt changed credentials.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::agent::os::status::Status;
use crate::agent::os::{credentials, syscall};
use crate::agent::state::{self, SPAWNING};
use crate::agent::timers::new_threads;

/// Set by a thread of the target to ask the agent thread to leave for a while. The agent thread
/// clears it.
static LEAVE_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Maximum time that the target waits for the agent thread to leave, ns. Usually it takes a
/// thousandth of that.
const LEAVE_TIMEOUT_NS: u64 = 500_000_000;

/// Maximum time that the target waits for the agent thread to adopt credentials, ns. Usually it
/// takes less than a thousandth of that, but on a busy machine the agent thread may wait for a CPU,
/// and it must not keep rights that the target has given away.
const FOLLOW_TIMEOUT_NS: u64 = 1_000_000_000;
/// Time between two attempts to wake an agent thread that was about to sleep, ns.
const AGAIN_NS: u64 = 1_000_000;

/// Number of requests to adopt credentials. Written by the target's threads.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// Number of the last request that was served; a futex. Written by the agent thread.
static SERVED: AtomicU32 = AtomicU32::new(0);
/// The thread that asked last. Written before the number of requests, by the same thread.
static LEADER: AtomicU32 = AtomicU32::new(0);

/// Returns whether the agent thread has to leave. For the agent thread.
pub(crate) fn is_to_leave() -> bool {
    LEAVE_REQUESTED.load(Ordering::Relaxed)
}

/// Returns whether the agent thread has to leave, and clears the request. For the agent thread.
pub(crate) fn take_leave_request() -> bool {
    LEAVE_REQUESTED.swap(false, Ordering::AcqRel)
}

/// Asks the agent thread to leave and waits until it has. Returns false if the process is not
/// sampled or no system call may be made.
pub(crate) fn remove_agent_thread() -> bool {
    let watched = state::WATCHED.load(Ordering::Relaxed);
    if !watched || state::syscalls_forbidden() || !state::in_own_process() {
        return false;
    }
    // No tick may spawn the thread again meanwhile.
    new_threads::stop_awaiting_first_tick();
    let deadline_ns = syscall::monotonic_ns() + LEAVE_TIMEOUT_NS;
    let mut last = 0;
    while syscall::monotonic_ns() < deadline_ns {
        match state::AGENT.load(Ordering::Acquire) {
            0 if last == 0 || !syscall::has_thread(last) => break,
            // The thread is ending.
            0 => syscall::futex_wait(&state::AGENT, 0, 50_000),
            agent => {
                if agent != SPAWNING {
                    last = agent;
                    LEAVE_REQUESTED.store(true, Ordering::Release);
                    state::wake();
                }
                // The kernel clears the word when the thread ends, and wakes the waiters. The
                // timeout is for a thread that is being spawned.
                syscall::shared_futex_wait(&state::AGENT, agent, 10_000_000);
            }
        }
    }
    LEAVE_REQUESTED.store(false, Ordering::Release);
    true
}

/// Waits until the agent thread has adopted the credentials of the process, which the calling
/// thread has changed, or has ended. An agent thread that is spawned afterwards has them from the
/// start.
pub(crate) fn await_following() {
    let is_there = || state::AGENT.load(Ordering::Acquire) != 0;
    if !is_there() || state::FILTERED.load(Ordering::Relaxed) || !state::in_own_process() {
        return;
    }
    LEADER.store(syscall::gettid(), Ordering::Relaxed);
    let request = REQUESTS.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    let deadline_ns = syscall::monotonic_ns() + FOLLOW_TIMEOUT_NS;
    while is_there() && syscall::monotonic_ns() < deadline_ns {
        let served = SERVED.load(Ordering::Acquire);
        if served.wrapping_sub(request) as i32 >= 0 {
            break;
        }
        state::wake();
        syscall::futex_wait(&SERVED, served, AGAIN_NS);
    }
}

/// Adopts credentials if a thread of the target waits for that, and stores the result in `own`.
/// Returns false if they could not be adopted: then the agent thread has to end. For the agent
/// thread.
pub(crate) fn keep_up(own: &mut Option<Status>) -> bool {
    let requests = REQUESTS.load(Ordering::Acquire);
    if SERVED.load(Ordering::Relaxed) == requests {
        return true;
    }
    let followed = credentials::follow(LEADER.load(Ordering::Relaxed));
    if followed.is_some() {
        *own = followed;
    }
    SERVED.store(requests, Ordering::Release);
    syscall::futex_wake(&SERVED);
    followed.is_some()
}

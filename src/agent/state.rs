//! The flags that handlers, interposed functions and the agent thread share. Each says who writes
//! it.
//!
//! Every value is valid when zero. [`forget`] resets them in a fork child.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::agent::os::{syscall, user_dispatch};
use crate::wire::Clock;

/// Value of [`AGENT`] while the agent thread is being spawned.
pub(super) const SPAWNING: u32 = u32::MAX;

/// Process that this state belongs to. Written by the constructor and the fork hook; a vfork child
/// sees its parent's.
pub(super) static OWNER: AtomicU32 = AtomicU32::new(0);
/// Thread id of the agent thread; 0 when there is none, [`SPAWNING`] while it is being spawned. The
/// kernel stores the id when the thread starts and 0 when it has ended and its stack is free again.
pub(super) static AGENT: AtomicU32 = AtomicU32::new(0);
/// Pid of the viewer whose wake signal (knock) came last. The agent thread swaps it for 0.
pub(super) static KNOCK: AtomicU32 = AtomicU32::new(0);
/// Whether a viewer is connected or about to be. Fork children of a watched process are watched
/// too. Written by the constructor and the agent thread.
pub(super) static WATCHED: AtomicBool = AtomicBool::new(false);
/// Whether handlers may make system calls: no thread is under seccomp. Written by the agent thread;
/// false before there is one.
pub(super) static SYSCALLS_ALLOWED: AtomicBool = AtomicBool::new(false);
/// Whether a seccomp filter is announced or was found: then neither handlers nor interposed
/// functions make system calls any more, and fork children inherit both. Written by a thread of the
/// target or the agent thread.
pub(super) static FILTERED: AtomicBool = AtomicBool::new(false);
/// Whether the program has given up gaining privileges: a seccomp filter may follow that is not
/// noticed. Written by a thread of the target.
pub(super) static CONFINED: AtomicBool = AtomicBool::new(false);
/// Time at which the program was loaded or forked to be sampled by wall-clock time, ns; 0 once the
/// first agent thread has read it.
static WATCHED_SINCE: AtomicU64 = AtomicU64::new(0);

/// Notes that this process is to be sampled from now on. By CPU time nothing is missed before the
/// first tick, even if the clock is changed before it.
pub(super) fn note_watched_since(clock: Clock) {
    let now_ns = if clock == Clock::Real { syscall::monotonic_ns() } else { 0 };
    WATCHED_SINCE.store(now_ns, Ordering::Relaxed);
}

/// Returns the time since which this process is to be sampled, in ns of CLOCK_MONOTONIC, to its
/// first agent thread; later 0.
pub(super) fn take_watched_since() -> u64 {
    WATCHED_SINCE.swap(0, Ordering::Relaxed)
}

/// The viewer that was called last, by its own pid. A fork child of a process that was attached to
/// calls the same one.
pub(super) static VIEWER: AtomicU32 = AtomicU32::new(0);

/// Returns the viewer that was called last.
pub(super) fn viewer() -> u32 {
    VIEWER.load(Ordering::Relaxed)
}

/// Whether the first thread of the process has ended, or is about to. No agent thread is spawned
/// any more: if it ended after the last thread of the program, its exit code would be that of the
/// process. Written by the first thread or the agent thread; false again in a fork child.
pub(super) static FIRST_ENDED: AtomicBool = AtomicBool::new(false);
/// Whether the first thread has ended by pthread_exit(3). The last thread that libc knows then
/// calls exit(3), which gives the exit code whatever other threads do. Written by the first thread;
/// false again in a fork child.
pub(super) static FIRST_LEFT_BY_LIBC: AtomicBool = AtomicBool::new(false);

/// Set for good when the agent has found a bug of its own. From then on it does nothing.
pub(super) static DISABLED: AtomicBool = AtomicBool::new(false);

/// Set when a handler met an address that no module covers, or a stack that no mapping covers.
pub(super) static WANT_MODULES: AtomicBool = AtomicBool::new(false);
/// Whether such a miss is worth a copy of the stack and a new reading of the maps. Set by the agent
/// thread, and cleared when a reading has found nothing new.
pub(super) static REREAD_MAPS_ON_MISS: AtomicBool = AtomicBool::new(false);
/// Set when a thread without a timer asks for one.
pub(super) static WANT_THREADS: AtomicBool = AtomicBool::new(false);
/// Set by a thread that has started since the agent thread searched for new ones. Cleared by the
/// agent thread.
pub(super) static NEW_THREAD: AtomicBool = AtomicBool::new(false);
/// 1 while the agent thread sleeps, else 0. The thread that swaps it to 0 wakes the agent thread.
pub(super) static SLEEP_STATE: AtomicU32 = AtomicU32::new(0);
/// Counts how often the agent thread left the ring empty since the process began to exit, which
/// waits for a change; a futex.
pub(super) static DRAINED: AtomicU32 = AtomicU32::new(0);

/// Whether the agent thread changes offset tables, which must stay mapped meanwhile.
pub(super) static PATCHING: AtomicBool = AtomicBool::new(false);
/// Number of threads that are in dlclose(3). Written by them; a futex with [`PATCHING`]'s changes.
pub(super) static UNLOADING: AtomicU32 = AtomicU32::new(0);
/// Whether functions of the allocator may be replaced. Written by the agent thread; a fork child
/// inherits it.
pub(super) static REPLACED: AtomicBool = AtomicBool::new(false);
/// Whether allocations are sampled, 0 or 1; a futex that the constructor waits for. Written by the
/// agent thread.
pub(super) static COUNTS_ALLOCATIONS: AtomicU32 = AtomicU32::new(0);

/// The process is about to exit: the agent thread sends everything and wakes it. Written by the
/// destructor.
pub(super) static EXITING: AtomicBool = AtomicBool::new(false);

/// Returns whether the agent may make no system call on this thread, in interposed functions and in
/// handlers of the target's signals.
pub(super) fn syscalls_forbidden() -> bool {
    FILTERED.load(Ordering::Relaxed) || user_dispatch::forbids_calls()
}

/// Returns whether this is the process that the agent lives in, and not a vfork child in its
/// memory. True where no system call may be made to find out.
pub(super) fn in_own_process() -> bool {
    syscalls_forbidden() || syscall::getpid() == OWNER.load(Ordering::Relaxed)
}

/// Wakes the agent thread if it sleeps. Makes a system call, so it is not for handlers of a thread
/// that may be under seccomp.
pub(super) fn wake() {
    if SLEEP_STATE.load(Ordering::Relaxed) != 0 && SLEEP_STATE.swap(0, Ordering::AcqRel) != 0 {
        syscall::send_wake(OWNER.load(Ordering::Relaxed), AGENT.load(Ordering::Relaxed));
    }
}

/// Has the agent thread search for the calling thread, which has just started.
pub(super) fn note_new_thread() {
    if !NEW_THREAD.swap(true, Ordering::AcqRel) {
        wake();
    }
}

/// Resets everything to the state before the first tick. For a fork child, in which no agent thread
/// exists and no handler runs. Memory that the parent's agent had mapped is left behind.
pub(super) fn forget() {
    AGENT.store(0, Ordering::Relaxed);
    KNOCK.store(0, Ordering::Relaxed);
    SYSCALLS_ALLOWED.store(false, Ordering::Relaxed);
    WANT_MODULES.store(false, Ordering::Relaxed);
    WANT_THREADS.store(false, Ordering::Relaxed);
    NEW_THREAD.store(false, Ordering::Relaxed);
    SLEEP_STATE.store(0, Ordering::Relaxed);
    PATCHING.store(false, Ordering::Relaxed);
    UNLOADING.store(0, Ordering::Relaxed);
    COUNTS_ALLOCATIONS.store(0, Ordering::Relaxed);
}

/// Returns whether the maps are to be read before their time.
pub(crate) fn is_reread_wanted() -> bool {
    WANT_MODULES.load(Ordering::SeqCst) && REREAD_MAPS_ON_MISS.load(Ordering::Relaxed)
}

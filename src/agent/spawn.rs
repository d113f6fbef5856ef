//! Spawns the agent thread: when, how, and which of the resources shared with the target it gives
//! up.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::agent::os::syscall::{self, syscall};
use crate::agent::os::{credentials, memory};
use crate::agent::sampling::counters::{self, TimerConfig};
use crate::agent::state::{self, SPAWNING};
use crate::agent::timers::{first_tick, new_threads};
use crate::agent::{launch, thread};
use crate::arch;

/// Size of the agent thread's stack, in bytes. It uses 48 KiB.
const STACK: usize = 128 * 1024;
/// Failed attempts to spawn after which the agent gives up (RLIMIT_NPROC).
const ATTEMPTS: u32 = 16;

static STACK_START: AtomicUsize = AtomicUsize::new(0);
static TLS_START: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicU32 = AtomicU32::new(0);
/// Whether the kernel, or a sandbox, refuses to unshare the agent thread's descriptor table after
/// it has started. Written by the agent thread, read at the next spawn.
static COPIES_DESCRIPTORS: AtomicBool = AtomicBool::new(false);
/// Futex: 1 as soon as the agent thread holds none of the target's files any more. Written by the
/// spawning thread and the agent thread.
static SETTLED: AtomicU32 = AtomicU32::new(0);
/// Maximum time that a spawning thread waits for that, ns. It takes some ten microseconds on an
/// idle processor.
const SETTLING_NS: u64 = 20_000_000;

/// Arms the timer of the first tick, which spawns the agent thread whatever clock is requested, so
/// that a process that ends earlier costs next to nothing. The viewer sends a wake signal to a
/// process that sleeps from the start. Where the kernel refuses the timer, the agent thread is
/// spawned to say so.
pub(crate) fn arm_first_tick(config: TimerConfig) {
    if !first_tick::arm(counters::current_epoch(), config) {
        spawn_agent_thread();
    }
}

/// Arranges for the next tick to spawn an agent thread that calls the viewer of its predecessor (or
/// of the parent process), with the configuration that was in force.
pub(crate) fn prepare_respawn() {
    if launch::link().is_none() {
        state::KNOCK.store(state::viewer(), Ordering::Relaxed);
    }
    let config = counters::config(counters::current_epoch());
    arm_first_tick(if config.period_ns == 0 { launch::NO_LINK.config } else { config });
}

/// Prepares for a seccomp filter of the calling thread: spawns the agent thread, which the filter
/// will not bind, and stops handlers from making system calls.
pub(crate) fn spawn_before_filter() {
    let mask = syscall::block_all();
    if state::WATCHED.load(Ordering::Relaxed) && !state::DISABLED.load(Ordering::Relaxed) {
        spawn_agent_thread();
    }
    new_threads::stop_awaiting_first_tick();
    state::FILTERED.store(true, Ordering::SeqCst);
    state::SYSCALLS_ALLOWED.store(false, Ordering::SeqCst);
    syscall::set_mask(mask);
}

/// Leaves this process and its children for good. The agent thread has ended, and no system call is
/// made any more.
pub(crate) fn stay_out() {
    state::WATCHED.store(false, Ordering::SeqCst);
    state::FILTERED.store(true, Ordering::SeqCst);
    state::SYSCALLS_ALLOWED.store(false, Ordering::SeqCst);
}

/// Prepares for a seccomp filter that may be installed unnoticed: spawns the agent thread, which
/// will find it, and makes the exit of the process not wait.
pub(crate) fn spawn_before_hidden_filter() {
    state::CONFINED.store(true, Ordering::SeqCst);
    if state::WATCHED.load(Ordering::Relaxed)
        && !state::DISABLED.load(Ordering::Relaxed)
        && !state::FILTERED.load(Ordering::Relaxed)
    {
        let mask = syscall::block_all();
        spawn_agent_thread();
        syscall::set_mask(mask);
    }
}

/// Spawns the agent thread, with every signal blocked. Simultaneous calls spawn one thread. There
/// is none in a process whose first thread has ended.
pub(crate) fn spawn_agent_thread() {
    if state::FIRST_ENDED.load(Ordering::SeqCst) {
        return;
    }
    if state::AGENT.compare_exchange(0, SPAWNING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let mask = syscall::block_all();
    let is_spawned = clone_agent();
    syscall::set_mask(mask);
    if !is_spawned {
        state::AGENT.store(0, Ordering::Release);
        if FAILED.fetch_add(1, Ordering::Relaxed) >= ATTEMPTS {
            state::DISABLED.store(true, Ordering::Relaxed);
            new_threads::stop_awaiting_first_tick();
        }
    }
}

fn clone_agent() -> bool {
    // The stack is kept for the next spawn: the kernel clears AGENT when the thread has left it for
    // good.
    let mut stack = STACK_START.load(Ordering::Acquire);
    if stack == 0 {
        stack = memory::map_pages(STACK) as usize;
        TLS_START.store(memory::map_pages(arch::page_size()) as usize, Ordering::Relaxed);
        STACK_START.store(stack, Ordering::Release);
    }
    let tls = TLS_START.load(Ordering::Relaxed);
    if stack == 0 || tls == 0 {
        STACK_START.store(0, Ordering::Release);
        return false;
    }
    // The thread gets a block of its own for thread-local storage, which it does not use: debuggers
    // look there, and the target's is not to be touched by accident.
    // SAFETY: fresh pages, or those of an agent that has ended.
    unsafe { arch::write_tls_block(tls) };
    // With a copied descriptor table the new thread would hold every open file until it runs and
    // closes them: locks would outlive their close(2), and pipes their last writer. A shared table
    // holds nothing.
    let table = if COPIES_DESCRIPTORS.load(Ordering::Relaxed) { 0 } else { libc::CLONE_FILES };
    let flags = table
        | libc::CLONE_VM
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    SETTLED.store(0, Ordering::Relaxed);
    // SAFETY: the child has a stack and a block of its own, and `agent_thread` never returns.
    let result = unsafe { arch::clone_thread(flags as usize, stack + STACK, state::AGENT.as_ptr(), tls, agent_thread) };
    if result > 0 {
        // While the new thread empties its table it may hold a file that this thread closes next.
        syscall::futex_wait(&SETTLED, 0, SETTLING_NS);
    }
    result > 0
}

extern "C" fn agent_thread() -> ! {
    // The thread gets a working directory of its own, because the target's would keep its file
    // system from being unmounted. The agent uses absolute paths only. pivot_root(2) moves threads
    // whose directory is the root. SAFETY: a string that ends with a NUL.
    unsafe { syscall!(libc::SYS_chdir, c"/".as_ptr()) };
    let is_alone = leave_descriptors();
    SETTLED.store(1, Ordering::Release);
    syscall::futex_wake(&SETTLED);
    if !is_alone {
        // The next tick spawns a thread with a copied table.
        let epoch = counters::current_epoch();
        let config = counters::config(epoch);
        first_tick::arm(epoch, if config.period_ns == 0 { launch::NO_LINK.config } else { config });
        exit(0);
    }
    credentials::reduce();
    // SAFETY: a string that ends with a NUL.
    unsafe { syscall!(libc::SYS_prctl, libc::PR_SET_NAME, c"sigtop".as_ptr()) };
    exit(thread::run(counters::current_epoch()))
}

fn exit(code: u32) -> ! {
    // SAFETY: ends this thread; nothing of it is needed afterwards.
    unsafe { syscall!(libc::SYS_exit, code) };
    unreachable!("exit does not return")
}

/// Gives the agent thread an empty descriptor table of its own. Returns false if it still shares
/// the target's: then it must end, and the next one is spawned with a copy. close_range(2)
fn leave_descriptors() -> bool {
    const CLOSE_RANGE_UNSHARE: u32 = 2;
    /// Number of descriptors that are closed one by one where the kernel has no close_range(2).
    const MOST: u64 = 1 << 16;
    // SAFETY: plain values. Since everything that is unshared is closed, the kernel copies no
    // descriptor in the first place, so this thread never holds a file of the target's. A copied
    // table is this thread's own and may be emptied.
    unsafe {
        if !COPIES_DESCRIPTORS.load(Ordering::Relaxed) {
            let is_alone = syscall!(libc::SYS_close_range, 0, u32::MAX, CLOSE_RANGE_UNSHARE) >= 0;
            COPIES_DESCRIPTORS.store(!is_alone, Ordering::Relaxed);
            return is_alone;
        }
        if syscall!(libc::SYS_close_range, 0, u32::MAX, 0) < 0 {
            (0..syscall::limit(libc::RLIMIT_NOFILE as i32).min(MOST)).for_each(|number| syscall::close(number as i32));
        }
    }
    true
}

/// Wakes the agent thread, or spawns it. For threads with every signal blocked.
pub(crate) fn call_agent() {
    match state::AGENT.load(Ordering::Acquire) {
        0 => spawn_agent_thread(),
        _ => state::wake(),
    }
}

/// Forgets the stack of the parent's agent thread. For a fork child.
pub(crate) fn forget_stack() {
    STACK_START.store(0, Ordering::Relaxed);
}

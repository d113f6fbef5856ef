//! Start and end of the agent in a process: the constructor, fork, exit.
//!
//! The constructor of an unwatched process installs a handler for SIGURG, whose default is to be
//! ignored, and looks up a few functions. In a process that a viewer has launched it also arms one
//! timer, whose first tick spawns the agent thread.

use crate::agent::allocations::record;
use crate::agent::cpuprofile::control::{self, Filter};
use crate::agent::cpuprofile::env::{self, EnvSettings};
use crate::agent::cpuprofile::other_library::{self, OtherProfiler};
#[cfg(sigtop_agent)]
use crate::agent::os::memory;
use crate::agent::os::{coarse_clock, libc_functions, loader, syscall, user_dispatch};
use crate::agent::sampling::counters;
use crate::agent::sampling::deferred::DEFERRED;
use crate::agent::sampling::ring::RING;
use crate::agent::sampling::slot::POOL;
use crate::agent::sampling::snapshots::SNAPSHOT;
use crate::agent::signals::{actions, mask, stacks, tick_signal};
use crate::agent::state::{self, SPAWNING};
use crate::agent::timers::{first_tick, interval_timer, new_threads, signal_handover};
use crate::agent::{handler, launch, spawn};
use crate::arch::{self, weak_address};
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::wire::Clock;
use crate::wire::ring::word;

/// Time that an exiting process waits for the agent thread at most, ns: usually, for each thread of
/// a crowd that is looked at once more, and for the file of a profile.
const PATIENCE_NS: u64 = 20_000_000;
const LAST_LOOK_NS: u64 = 20_000;
const FILE_PATIENCE_NS: u64 = 2_000_000_000;

/// Returns a value that the kernel has given to the program; 0 if it is unknown. getauxval(3)
fn auxiliary_value(kind: u64) -> u64 {
    let address = weak_address!("getauxval");
    if address == 0 {
        return 0;
    }
    // SAFETY: libc's function of this name and type.
    let getauxval = unsafe { core::mem::transmute::<usize, extern "C" fn(u64) -> u64>(address) };
    getauxval(kind)
}

/// State of [`prepare`]: 0 not started, 1 in progress, 2 ready, 3 the agent stays out of this
/// process.
static READY: AtomicU32 = AtomicU32::new(0);

/// Whether the environment has been read. The runtime of a sanitizer that is linked into the
/// program sets its handlers before libc knows the environment; then the constructor reads it.
/// Written while constructors run.
static ENVIRONMENT_READ: AtomicBool = AtomicBool::new(false);

/// Prepares the agent, once: called by the constructor, or by an interposed function that an
/// earlier constructor calls. Returns false if the agent stays out of this process.
pub(super) fn prepare() -> bool {
    if READY.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        libc_functions::look_up();
        coarse_clock::look_up();
        actions::set_handler(handler::address());
        arch::set_page_size(auxiliary_value(libc::AT_PAGESZ) as usize);
        stacks::set_frame_size(auxiliary_value(libc::AT_MINSIGSTKSZ) as usize);
        // The loader runs a program that has more rights than its user.
        let is_secure = auxiliary_value(libc::AT_SECURE) != 0;
        let out = is_secure || arch::is_under_valgrind();
        if !out {
            state::OWNER.store(syscall::getpid(), Ordering::Relaxed);
            adopt_inherited_mask();
            actions::claim(tick_signal::tick());
            register_fork_hook();
        }
        READY.store(if out { 3 } else { 2 }, Ordering::Release);
    }
    let is_ready = READY.load(Ordering::Acquire) == 2;
    if is_ready && !ENVIRONMENT_READ.load(Ordering::Relaxed) && env::is_loaded() {
        ENVIRONMENT_READ.store(true, Ordering::Relaxed);
        // SAFETY: constructors run.
        unsafe {
            launch::read_link();
            control::configure(EnvSettings::from_environment());
        }
    }
    is_ready
}

/// Lets ticks through to the first thread if it inherited a mask that blocks everything. For the
/// constructor.
fn adopt_inherited_mask() {
    let inherited = mask::to_target(syscall::mask());
    if mask::is_full(inherited) {
        syscall::set_mask(mask::to_kernel(inherited));
    } else {
        signal_handover::give_up_named(inherited);
    }
}

/// Returns the address of libc's function behind an interposed one, or 0 if there is none.
/// Constructors of the libraries that the program is linked with run before the agent's and may
/// call interposed functions; the first such call prepares the agent.
pub(super) fn real(function: &AtomicUsize) -> usize {
    if function.load(Ordering::Relaxed) == 0 {
        prepare();
    }
    function.load(Ordering::Relaxed)
}

/// Runs when the library is loaded.
pub(super) extern "C" fn constructor() {
    if !prepare() {
        return;
    }
    ENVIRONMENT_READ.store(true, Ordering::Relaxed);
    if let Some(link) = launch::link() {
        state::WATCHED.store(true, Ordering::Relaxed);
        state::note_watched_since(link.config.clock);
        spawn::arm_first_tick(link.config);
        if link.config.clock == Clock::Alloc {
            await_allocation_clock();
        }
    }
    // SAFETY: this is the constructor.
    if other_library::is_loaded_later() || unsafe { env::value(b"CPUPROFILE") }.is_some() {
        start_requested_profile();
    }
    if state::WATCHED.load(Ordering::Relaxed) {
        stacks::lend_to_own_thread();
    }
}

/// Starts a profile into a file if the environment asks for one, or if gperftools' own library has
/// started one. For the constructor. Its buffers would be a page of stack more in every process.
#[inline(never)]
fn start_requested_profile() {
    // SAFETY: the constructor runs.
    unsafe {
        let (other, running) = other_library::stop_other();
        if let Some(name) = running {
            restart_profile(&name);
        }
        if other != OtherProfiler::First
            && !control::is_active()
            && let Some((name, has_pid)) = control::apply_environment(other == OtherProfiler::Later)
            && let Err(errno @ 1..) = start_profile(name.as_bytes(), has_pid, false, None, core::ptr::null_mut())
        {
            control::warn_not_writable(name.as_bytes(), has_pid, errno);
        }
    }
}

/// Spawns the agent thread and waits until allocations are sampled: a program allocates much at its
/// start. It does not wait longer than the agent thread lives, which ends if the viewer is gone.
fn await_allocation_clock() {
    const LOOKS: u32 = 100;
    const LOOK_NS: u64 = 5_000_000;
    let mask = syscall::block_all();
    spawn::call_agent();
    syscall::set_mask(mask);
    let is_awaited = || {
        let lives = state::AGENT.load(Ordering::Acquire) != 0;
        lives && state::COUNTS_ALLOCATIONS.load(Ordering::Acquire) == 0
    };
    (0..LOOKS).take_while(|_| is_awaited()).for_each(|_| syscall::futex_wait(&state::COUNTS_ALLOCATIONS, 0, LOOK_NS));
}

/// Starts a profile into a file, and spawns or wakes the agent thread for it. The error is the
/// errno of a file that cannot be written, or 0 if a profile is being written already or none can
/// be.
pub(super) fn start_profile(
    path: &[u8],
    has_pid: bool,
    manual: bool,
    filter: Option<Filter>,
    argument: *mut (),
) -> Result<(), i32> {
    control::start(path, has_pid, manual, filter, argument)?;
    let mask = syscall::block_all();
    spawn::call_agent();
    syscall::set_mask(mask);
    if control::confirm() { Ok(()) } else { Err(0) }
}

/// Starts the profile again that gperftools' own library was writing.
fn restart_profile(name: &[c_char]) {
    let bytes: [u8; 1024] = core::array::from_fn(|at| name.get(at).map_or(0, |&byte| byte as _));
    let Ok(name) = CStr::from_bytes_until_nul(&bytes) else { return };
    match start_profile(name.to_bytes(), false, false, None, core::ptr::null_mut()) {
        Ok(()) => drop(control::await_start()),
        Err(errno) => loader::set_errno(errno),
    }
}

fn register_fork_hook() {
    type Hook = Option<extern "C" fn()>;
    let (glibc, posix) = (weak_address!("__register_atfork"), weak_address!("pthread_atfork"));
    // SAFETY: libc's functions of these names and types; the hook stays mapped (-z nodelete).
    unsafe {
        if glibc != 0 {
            let register: extern "C" fn(Hook, Hook, Hook, *const u8) -> i32 = core::mem::transmute(glibc);
            register(None, None, Some(in_fork_child), core::ptr::null());
        } else if posix != 0 {
            let register: extern "C" fn(Hook, Hook, Hook) -> i32 = core::mem::transmute(posix);
            register(None, None, Some(in_fork_child));
        }
    }
}

/// Runs in a fork child, which has one thread and no timer. A child of a watched process waits for
/// its own first tick.
extern "C" fn in_fork_child() {
    if state::FILTERED.load(Ordering::Relaxed) {
        record::inherit(None);
        // No system call may be made here. Without an owner, the agent does nothing in this
        // process.
        state::AGENT.store(SPAWNING, Ordering::Relaxed);
        state::SLEEP_STATE.store(0, Ordering::Relaxed);
        return;
    }
    stacks::forget_other_threads();
    user_dispatch::forget();
    new_threads::forget();
    if state::AGENT.load(Ordering::Relaxed) != 0 || !RING.load(Ordering::Relaxed).is_null() {
        state::forget();
        RING.store(core::ptr::null_mut(), Ordering::Relaxed);
        POOL.store(core::ptr::null_mut(), Ordering::Relaxed);
        SNAPSHOT.store(core::ptr::null_mut(), Ordering::Relaxed);
        DEFERRED.store(core::ptr::null_mut(), Ordering::Relaxed);
        counters::forget();
        interval_timer::forget_classic();
        spawn::forget_stack();
        #[cfg(sigtop_agent)]
        // SAFETY: no agent thread exists in this process, and the blocks of the parent's are not
        // used.
        unsafe {
            memory::ARENA.forget();
        }
    }
    control::inherit();
    first_tick::forget();
    let is_watched = state::WATCHED.load(Ordering::Relaxed);
    record::inherit(is_watched.then(|| first_tick::value(counters::current_epoch())));
    for ended in [&state::FIRST_ENDED, &state::FIRST_LEFT_BY_LIBC] {
        if ended.load(Ordering::Relaxed) {
            ended.store(false, Ordering::Relaxed);
        }
    }
    // This is last: a viewer that sees this process may send a wake signal at once, and an agent
    // thread spawned by it needs everything above.
    state::OWNER.store(syscall::getpid(), Ordering::Release);
    if is_watched {
        state::note_watched_since(counters::config(counters::current_epoch()).clock);
        spawn::prepare_respawn();
    }
}

/// Runs when the process exits by itself: waits until the agent thread has sent what the ring
/// holds, for a limited time. Returns immediately in a process that is not watched.
pub(super) extern "C" fn destructor() {
    // Where a filter forbids waiting, the viewer finds the remaining records in the ring.
    if matches!(state::AGENT.load(Ordering::Acquire), 0 | SPAWNING)
        || state::syscalls_forbidden()
        || state::CONFINED.load(Ordering::Relaxed)
        || syscall::getpid() != state::OWNER.load(Ordering::Relaxed)
    {
        return;
    }
    // A child that was made by a raw call returned above: it may not have the ring's memory.
    let last_looks = counters::counter(word::WALL_THREADS).load(Ordering::Relaxed);
    // The file of a profile has to be complete.
    let patience_ns = match control::is_active() {
        true => FILE_PATIENCE_NS,
        false => PATIENCE_NS + last_looks * LAST_LOOK_NS,
    };
    let before = state::DRAINED.load(Ordering::Acquire);
    state::EXITING.store(true, Ordering::SeqCst);
    state::wake();
    syscall::futex_wait(&state::DRAINED, before, patience_ns);
}

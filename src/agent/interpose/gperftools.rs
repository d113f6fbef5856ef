//! The C interface: gperftools' `profiler.h`, for programs that are linked with `-lprofiler`, and
//! the additions of `assets/sigtop.h`. Threads of the target call these functions, some of them in
//! signal handlers. They make requests to [`control`].
//!
//! These functions come before those of gperftools' own library, if that is loaded too. Its
//! constructor reads the same variables and starts its profiler through an exported method, which
//! is therefore exported here too and starts the agent's.

use crate::agent::cpuprofile::control::{self, CurrentProfile, Filter};
use crate::agent::cpuprofile::other_library::ProfilerState;
use crate::agent::os::{loader, syscall};
use crate::agent::sampling::sample;
use crate::agent::sampling::slot::POOL;
use crate::agent::sampling::snapshots::SNAPSHOT;
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::stack::LiveStack;
use crate::agent::unwind::walk::{self, WalkCache};
use crate::agent::{start, state};
use crate::arch::{REGISTERS, call_with_registers};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering;

use crate::wire::{FRAMES_LEFT_OUT, FrameAddress, MAX_FRAMES};

/// gperftools' `ProfilerOptions`.
#[repr(C)]
pub(crate) struct ProfilerOptions {
    filter: Option<Filter>,
    argument: *mut (),
}

/// Starts a profile. A constructor of the program may call it before the agent's constructor has
/// run.
unsafe fn start_profile(name: *const c_char, manual: bool, options: *const ProfilerOptions) -> c_int {
    if name.is_null() || !start::prepare() {
        return 0;
    }
    // SAFETY: the caller passes a C string, and options or null.
    let (name, options) = unsafe { (CStr::from_ptr(name), options.as_ref()) };
    let (filter, argument) = options.map_or((None, core::ptr::null_mut()), |given| (given.filter, given.argument));
    match start::start_profile(name.to_bytes(), false, manual, filter, argument) {
        Ok(()) => c_int::from(control::await_start()),
        Err(errno) => {
            loader::set_errno(errno);
            0
        }
    }
}

/// Starts a profile in a file. Returns 0 if one is running already or the file cannot be written.
///
/// # Safety
/// `name` is a C string.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerStart"))]
unsafe extern "C" fn profiler_start(name: *const c_char) -> c_int {
    // SAFETY: the caller upholds the contract above.
    unsafe { start_profile(name, false, core::ptr::null()) }
}

/// Starts a profile with options.
///
/// # Safety
/// `name` is a C string; `options` is null or valid.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerStartWithOptions"))]
unsafe extern "C" fn profiler_start_with_options(name: *const c_char, options: *const ProfilerOptions) -> c_int {
    // SAFETY: the caller upholds the contract above.
    unsafe { start_profile(name, false, options) }
}

/// Starts a profile of the samples that [`sigtop_sample`] takes, and no others.
///
/// # Safety
/// `name` is a C string.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigtop_start_by_hand(name: *const c_char) -> c_int {
    // SAFETY: the caller upholds the contract above.
    unsafe { start_profile(name, true, core::ptr::null()) }
}

/// Stops the profile. The file is complete when this returns.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerStop"))]
extern "C" fn profiler_stop() {
    control::stop();
}

/// Writes all samples to the file. They are there when this returns.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerFlush"))]
extern "C" fn profiler_flush() {
    control::flush();
}

/// Does nothing, as in gperftools.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerEnable"))]
extern "C" fn profiler_enable() {}

/// Does nothing, as in gperftools.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerDisable"))]
extern "C" fn profiler_disable() {}

/// Returns whether a profile is running.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilingIsEnabledForAllThreads"))]
extern "C" fn profiling_is_enabled_for_all_threads() -> c_int {
    c_int::from(control::is_running())
}

/// Asks the agent thread to look for new threads now. Threads do not have to register.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerRegisterThread"))]
extern "C" fn profiler_register_thread() {
    if control::is_running() && state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
        state::WANT_THREADS.store(true, Ordering::SeqCst);
        state::wake();
    }
}

/// Reports the running profile and its file.
///
/// # Safety
/// `state` points to a `ProfilerState`.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerGetCurrentState"))]
unsafe extern "C" fn profiler_get_current_state(state: *mut ProfilerState) {
    // SAFETY: the caller passes a valid pointer; all bytes zero are valid.
    let state = unsafe {
        state.write_bytes(0, 1);
        &mut *state
    };
    if let Some(CurrentProfile { started, samples, path }) = control::current() {
        (state.enabled, state.start_time) = (1, started as i64);
        state.samples_gathered = samples.min(c_int::MAX as u64) as c_int;
        let room = state.profile_name.len() - 1;
        for (to, &from) in state.profile_name[..room].iter_mut().zip(path.as_bytes()) {
            *to = from as c_char;
        }
    }
}

/// Returns the stack that a signal interrupted, for a handler of the program's. It needs the
/// handler's third argument.
///
/// # Safety
/// `result` has room for `room` addresses; `context` is null or the third argument of a signal
/// handler.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerGetStackTrace"))]
unsafe extern "C" fn profiler_get_stack_trace(
    result: *mut *mut c_void,
    room: c_int,
    skip: c_int,
    context: *const u64,
) -> c_int {
    let pool = POOL.load(Ordering::Acquire);
    if context.is_null() || pool.is_null() {
        return 0;
    }
    // SAFETY: the pool is never freed.
    let pool = unsafe { &*pool };
    // SAFETY: the caller upholds the contract above.
    let registers = unsafe { Registers::of(context) };
    let Some(mut claim) = pool.claim(registers.sp()) else { return 0 };
    let snapshot = SNAPSHOT.load(Ordering::SeqCst);
    if snapshot.is_null() {
        return 0;
    }
    // SAFETY: loaded after the slot was claimed, so the agent thread keeps it until the slot is
    // released.
    let snapshot = unsafe { &*snapshot };
    let (cache, frames): (&mut WalkCache, &mut [u64; MAX_FRAMES]) = claim.parts();
    let mut stack = LiveStack::new(snapshot, registers.sp(), state::SYSCALLS_ALLOWED.load(Ordering::Relaxed));
    let walk = walk::walk(snapshot, cache, registers, &mut stack, frames);
    // gperftools would skip three frames, its own and the signal's, which are not among these.
    let skip = (skip.max(0) as usize).saturating_sub(3);
    let mut count = 0;
    let frames = frames[..walk.depth].iter().filter(|&&frame| frame != FRAMES_LEFT_OUT);
    for &frame in frames.skip(skip).take(room.max(0) as usize) {
        let (FrameAddress::Instruction(address) | FrameAddress::Return(address)) = FrameAddress::unpack(frame);
        // SAFETY: the index is less than `room`.
        unsafe { *result.add(count) = core::ptr::without_provenance_mut(address as usize) };
        count += 1;
    }
    count as c_int
}

/// gperftools' `CpuProfiler::Start(char const*, ProfilerOptions const*)`, which its constructor
/// calls if `CPUPROFILE` is set.
///
/// # Safety
/// The caller keeps the contract of `ProfilerStartWithOptions`.
#[cfg_attr(sigtop_agent, unsafe(export_name = "_ZN11CpuProfiler5StartEPKcPK15ProfilerOptions"))]
unsafe extern "C" fn cpu_profiler_start(
    _profiler: *mut c_void,
    name: *const c_char,
    options: *const ProfilerOptions,
) -> bool {
    // SAFETY: the caller upholds the contract above.
    unsafe { start_profile(name, false, options) != 0 }
}

/// gperftools' `ProfileHandlerRegisterThread()`, through which its constructor claims SIGPROF.
#[cfg_attr(sigtop_agent, unsafe(export_name = "_Z28ProfileHandlerRegisterThreadv"))]
extern "C" fn profile_handler_register_thread() {}

/// Takes a sample of its caller. Returns 1 if it was taken and 0 if the process is not sampled. It
/// saves the callee-saved registers, in DWARF's order, and the caller's stack and instruction
/// pointer.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
#[unsafe(naked)]
extern "C" fn sigtop_sample() -> c_int {
    call_with_registers!(sample_by_hand)
}

extern "C" fn sample_by_hand(registers: &[u64; REGISTERS]) -> c_int {
    let may_call = state::SYSCALLS_ALLOWED.load(Ordering::Relaxed);
    let may_call = may_call && !state::syscalls_forbidden();
    let is_wanted = state::WATCHED.load(Ordering::Relaxed) && may_call && state::in_own_process();
    if !is_wanted {
        return 0;
    }
    // A tick in between would interrupt this thread on a stack of the agent's.
    let mask = syscall::block_all();
    let taken = sample::sample_by_hand(Registers::by_hand(*registers));
    syscall::set_mask(mask);
    c_int::from(taken)
}

/// The sizes of the structures in gperftools' header.
const _: () = assert!(size_of::<ProfilerState>() == 1048 && size_of::<ProfilerOptions>() == 16);

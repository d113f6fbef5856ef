//! The C interface: gperftools' `profiler.h`, for programs that are linked with `-lprofiler`, and what `assets/sigtop.h` adds. Threads of
//! the target call these, some in signal handlers; what they order is in [`order`](super::order).
//!
//! Where gperftools' own library is loaded as well, these come first. Its constructor reads the same variables and starts itself by a
//! method that is called like any exported function: that one is here too, and starts ours.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering;

use super::loader;
use super::order::{self, Filter};
use super::unwind::{self, Cache, LiveStack, Registers};
use super::{guard, handler, start, state, sys};
use crate::link::wire::{FRAMES_LEFT_OUT, FrameAddress, MAX_FRAMES};

/// gperftools' `ProfilerOptions`.
#[repr(C)]
pub(super) struct Options {
    filter: Option<Filter>,
    argument: *mut (),
}

/// gperftools' `ProfilerState`.
#[repr(C)]
struct ProfilerState {
    enabled: c_int,
    start_time: i64,
    profile_name: [c_char; 1024],
    samples_gathered: c_int,
}

/// Starts a profile; in a program's constructor this may be before ours.
unsafe fn begin(name: *const c_char, by_hand: bool, options: *const Options) -> c_int {
    if name.is_null() || !start::prepare() {
        return 0;
    }
    // SAFETY: the caller gives a string, and options or null.
    let (name, options) = unsafe { (CStr::from_ptr(name), options.as_ref()) };
    let (filter, argument) = options.map_or((None, core::ptr::null_mut()), |given| (given.filter, given.argument));
    match order::begin(name.to_bytes(), by_hand, filter, argument) {
        Ok(()) => c_int::from(order::await_begin()),
        Err(number) => {
            order::tell_errno(number);
            0
        }
    }
}

/// Starts a profile into a file; 0 when one is on, or the file cannot be written.
///
/// # Safety
/// The name is a string.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerStart"))]
unsafe extern "C" fn profiler_start(name: *const c_char) -> c_int {
    // SAFETY: the caller vouches.
    unsafe { begin(name, false, core::ptr::null()) }
}

/// The same, with a filter.
///
/// # Safety
/// The name is a string; the options are null or filled in.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerStartWithOptions"))]
unsafe extern "C" fn profiler_start_with_options(name: *const c_char, options: *const Options) -> c_int {
    // SAFETY: the caller vouches.
    unsafe { begin(name, false, options) }
}

/// A profile of what [`sigtop_sample`] takes, and nothing else.
///
/// # Safety
/// The name is a string.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigtop_start_by_hand(name: *const c_char) -> c_int {
    // SAFETY: the caller vouches.
    unsafe { begin(name, true, core::ptr::null()) }
}

/// Ends it; the file is whole when this returns.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerStop"))]
extern "C" fn profiler_stop() {
    order::end();
}

/// Writes what there is; it is in the file when this returns.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerFlush"))]
extern "C" fn profiler_flush() {
    order::flush();
}

/// Does nothing, as in gperftools.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerEnable"))]
extern "C" fn profiler_enable() {}

/// Does nothing, as in gperftools.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerDisable"))]
extern "C" fn profiler_disable() {}

/// Whether a profile is on.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilingIsEnabledForAllThreads"))]
extern "C" fn profiling_is_enabled_for_all_threads() -> c_int {
    c_int::from(order::is_on())
}

/// Threads are found by themselves; this one is looked for at once.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerRegisterThread"))]
extern "C" fn profiler_register_thread() {
    if order::is_on() && state::MAY_CALL.load(Ordering::Relaxed) {
        state::WANT_THREADS.store(true, Ordering::SeqCst);
        state::wake();
    }
}

/// What is being profiled, and into which file.
///
/// # Safety
/// `told` points to a `ProfilerState`.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerGetCurrentState"))]
unsafe extern "C" fn profiler_get_current_state(told: *mut ProfilerState) {
    // SAFETY: the caller vouches; zero is valid.
    let told = unsafe {
        told.write_bytes(0, 1);
        &mut *told
    };
    if let Some((started, samples, path)) = order::told() {
        (told.enabled, told.start_time) = (1, started as i64);
        told.samples_gathered = samples.min(c_int::MAX as u64) as c_int;
        let room = told.profile_name.len() - 1;
        for (to, &from) in told.profile_name[..room].iter_mut().zip(path.as_bytes()) {
            *to = from as c_char;
        }
    }
}

/// The stack that a signal interrupted, for a handler of the program's own; without its third argument nothing.
///
/// # Safety
/// `result` has room for `room` addresses; `context` is null or the third argument of a signal handler.
#[cfg_attr(sigtop_agent, unsafe(export_name = "ProfilerGetStackTrace"))]
unsafe extern "C" fn profiler_get_stack_trace(
    result: *mut *mut c_void,
    room: c_int,
    skip: c_int,
    context: *const u64,
) -> c_int {
    let pool = state::POOL.load(Ordering::Acquire);
    if context.is_null() || pool.is_null() {
        return 0;
    }
    // SAFETY: never freed.
    let pool = unsafe { &*pool };
    // SAFETY: the caller vouches.
    let registers = unsafe { Registers::of(context) };
    let Some(mut claim) = pool.claim(registers.sp()) else { return 0 };
    let snapshot = state::SNAPSHOT.load(Ordering::SeqCst);
    if snapshot.is_null() {
        return 0;
    }
    // SAFETY: loaded after the slot was claimed, so the agent thread keeps it until that is given back.
    let snapshot = unsafe { &*snapshot };
    let (cache, frames): (&mut Cache, &mut [u64; MAX_FRAMES]) = claim.parts();
    let mut stack = LiveStack::new(snapshot, registers.sp(), state::MAY_CALL.load(Ordering::Relaxed));
    let walk = unwind::walk(snapshot, cache, registers, &mut stack, frames);
    // The three that gperftools would leave out, its own and the signal's, are not among these.
    let skip = (skip.max(0) as usize).saturating_sub(3);
    let mut count = 0;
    let frames = frames[..walk.depth].iter().filter(|&&frame| frame != FRAMES_LEFT_OUT);
    for &frame in frames.skip(skip).take(room.max(0) as usize) {
        let (FrameAddress::Instruction(address) | FrameAddress::Return(address)) = FrameAddress::unpack(frame);
        // SAFETY: less than `room`.
        unsafe { *result.add(count) = core::ptr::without_provenance_mut(address as usize) };
        count += 1;
    }
    count as c_int
}

/// gperftools' own start, by which its constructor does what `CPUPROFILE` says: `CpuProfiler::Start(char const*, ProfilerOptions const*)`.
///
/// # Safety
/// As `ProfilerStartWithOptions`.
#[cfg_attr(sigtop_agent, unsafe(export_name = "_ZN11CpuProfiler5StartEPKcPK15ProfilerOptions"))]
unsafe extern "C" fn cpu_profiler_start(_profiler: *mut c_void, name: *const c_char, options: *const Options) -> bool {
    // SAFETY: the caller vouches.
    unsafe { begin(name, false, options) != 0 }
}

/// gperftools' `ProfileHandlerRegisterThread()`, by which its constructor takes SIGPROF.
#[cfg_attr(sigtop_agent, unsafe(export_name = "_Z28ProfileHandlerRegisterThreadv"))]
extern "C" fn profile_handler_register_thread() {}

/// Who else exports these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Another {
    /// Nobody.
    Nobody,
    /// gperftools' library, before ours: it is the one that works, and ours must not.
    First,
    /// gperftools' library, behind ours.
    Behind,
}

/// Looks for gperftools' own library. One that started itself all the same is stopped, and its file begun anew.
///
/// # Safety
/// For the constructor.
pub(super) unsafe fn settle_with_another() -> Another {
    let here = guard::own_dynamic();
    if loader::is_before(c"ProfilerStart", here) {
        return Another::First;
    }
    let real = |name: &CStr| loader::next(name, here);
    let (enabled, told, stop) =
        (real(c"ProfilingIsEnabledForAllThreads"), real(c"ProfilerGetCurrentState"), real(c"ProfilerStop"));
    if enabled == 0 || told == 0 || stop == 0 {
        return Another::Nobody;
    }
    // SAFETY: gperftools' functions of these names and types.
    unsafe {
        let enabled: extern "C" fn() -> c_int = core::mem::transmute(enabled);
        if enabled() != 0 {
            let told: extern "C" fn(*mut ProfilerState) = core::mem::transmute(told);
            let stop: extern "C" fn() = core::mem::transmute(stop);
            let mut state: ProfilerState = core::mem::zeroed();
            told(&raw mut state);
            stop();
            begin(state.profile_name.as_ptr(), false, core::ptr::null());
        }
    }
    Another::Behind
}

/// Takes a sample of its caller, by hand: 1 when it was taken, 0 when nobody wants one. It saves the registers that a caller keeps, by
/// DWARF's numbers, and the caller's stack and instruction pointer.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
#[unsafe(naked)]
extern "C" fn sigtop_sample() -> c_int {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 136",
        ".cfi_adjust_cfa_offset 136",
        "mov [rsp + 24], rbx",
        "mov [rsp + 48], rbp",
        "lea rax, [rsp + 144]",
        "mov [rsp + 56], rax",
        "mov [rsp + 96], r12",
        "mov [rsp + 104], r13",
        "mov [rsp + 112], r14",
        "mov [rsp + 120], r15",
        "mov rax, [rsp + 136]",
        "mov [rsp + 128], rax",
        "mov rdi, rsp",
        "call {sample}",
        "add rsp, 136",
        ".cfi_adjust_cfa_offset -136",
        "ret",
        ".cfi_endproc",
        sample = sym sample_by_hand,
    )
}

extern "C" fn sample_by_hand(registers: &[u64; 17]) -> c_int {
    let may_call = state::MAY_CALL.load(Ordering::Relaxed);
    let may_call = may_call && !state::must_not_call();
    let wanted = state::WATCHED.load(Ordering::Relaxed) && may_call && state::is_at_home();
    if !wanted {
        return 0;
    }
    // A tick that came between would find this thread on a stack of the agent's.
    let mask = sys::block_all();
    let taken = handler::sample_by_hand(Registers::by_hand(*registers));
    sys::set_mask(mask);
    c_int::from(taken)
}

/// The layouts of gperftools' header.
const _: () = assert!(size_of::<ProfilerState>() == 1048 && size_of::<Options>() == 16);

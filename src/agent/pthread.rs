//! `pthread_create(3)` and `thrd_create(3)`: a thread of a watched process starts with an alternate
//! signal stack of the agent's, so that its very first tick does not need room on its own, and with
//! a timer, so that it is sampled however short it lives.

use core::arch::naked_asm;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::sigstack_pool::{self, ProgramStack, SignalStack};
use super::{guard, loader, start, state, sys, user_dispatch, young};

static REAL_PTHREAD_CREATE: AtomicUsize = AtomicUsize::new(0);
static REAL_THRD_CREATE: AtomicUsize = AtomicUsize::new(0);

/// Looks up libc's functions. For the constructor; `here` is an address inside of this library.
pub(super) fn look_up(here: usize) {
    for (name, real) in [(c"pthread_create", &REAL_PTHREAD_CREATE), (c"thrd_create", &REAL_THRD_CREATE)] {
        real.store(loader::next(name, here), Ordering::Relaxed);
    }
}

/// libc's function; also where the library that has it was loaded late, as an older glibc's
/// libpthread may be.
fn real(function: &AtomicUsize, name: &CStr) -> usize {
    if start::real(function) == 0 {
        function.store(loader::next(name, guard::own_dynamic()), Ordering::Relaxed);
    }
    function.load(Ordering::Relaxed)
}

/// Start routine and argument of a thread; in registers, where a function returns two words.
#[repr(C)]
struct Start {
    routine: usize,
    argument: usize,
}

/// The start routine of threads that are given a stack: installs it and goes on to the program's.
#[unsafe(naked)]
extern "C" fn start_with_stack(_stack: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {install}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "mov rdi, rdx",
        "jmp rax",
        ".cfi_endproc",
        install = sym install,
    )
}

extern "C" fn install(stack: usize) -> Start {
    let Some(stack) = SignalStack::containing(stack) else { return Start { routine: 0, argument: 0 } };
    let [routine, argument] = stack.start_routine();
    let start = Start { routine: routine.load(Ordering::Relaxed), argument: argument.load(Ordering::Relaxed) };
    if state::FILTERED.load(Ordering::Relaxed) || state::CONFINED.load(Ordering::Relaxed) {
        stack.release();
    } else {
        let tid = sys::gettid();
        stack.set_owner(tid);
        stack.install();
        user_dispatch::unblock(stack.blocked_for_parent());
        young::arm_own(tid);
    }
    start
}

/// Creates a thread by `create`, which takes a start routine and its argument.
fn create_with_stack(routine: usize, argument: usize, create: impl FnOnce(usize, usize) -> c_int) -> c_int {
    let is_watched = state::WATCHED.load(Ordering::Relaxed) && !state::must_not_call();
    let stack = if is_watched && state::is_at_home() { sigstack_pool::claim_for_new_thread() } else { None };
    let Some(stack) = stack else { return create(routine, argument) };
    stack.set_program(ProgramStack::default());
    stack.set_blocked_for_parent(user_dispatch::hidden_signals());
    for (word, value) in stack.start_routine().iter().zip([routine, argument]) {
        word.store(value, Ordering::Relaxed);
    }
    let result = create(start_with_stack as *const () as usize, stack.start());
    if result != 0 {
        stack.release();
    }
    result
}

type PthreadCreate = unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize) -> c_int;
type ThrdCreate = unsafe extern "C" fn(*mut c_void, usize, usize) -> c_int;

/// `pthread_create(3)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    routine: usize,
    argument: usize,
) -> c_int {
    match real(&REAL_PTHREAD_CREATE, c"pthread_create") {
        0 => libc::EAGAIN,
        // SAFETY: libc's own function, with the caller's arguments, or a start routine that goes on
        // to the caller's.
        real => create_with_stack(routine, argument, |routine, argument| unsafe {
            core::mem::transmute::<usize, PthreadCreate>(real)(thread, attributes, routine, argument)
        }),
    }
}

/// `thrd_create(3)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn thrd_create(thread: *mut c_void, routine: usize, argument: usize) -> c_int {
    /// C's `thrd_error`, which glibc and musl number alike.
    const THRD_ERROR: c_int = 2;
    match real(&REAL_THRD_CREATE, c"thrd_create") {
        0 => THRD_ERROR,
        // SAFETY: likewise.
        real => create_with_stack(routine, argument, |routine, argument| unsafe {
            core::mem::transmute::<usize, ThrdCreate>(real)(thread, routine, argument)
        }),
    }
}

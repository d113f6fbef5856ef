//! `pthread_create(3)` and `thrd_create(3)`. A new thread of a watched process gets an alternate
//! signal stack of the agent's, so that its first tick needs no room on its own stack, and a timer,
//! so that even short-lived threads are sampled.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::os::{libc_functions, loader, syscall, user_dispatch};
use crate::agent::signals::stacks::{self, ProgramStack, SignalStack};
use crate::agent::timers::new_threads;
use crate::agent::{start, state};
use crate::arch::{Continuation, call_then_continue};

/// Returns the address of libc's function. Looks again if it was not there at the start: an older
/// glibc's libpthread may be loaded late.
fn real(function: &AtomicUsize, name: &CStr) -> usize {
    if start::real(function) == 0 {
        function.store(loader::next_definition(name, loader::own_dynamic()), Ordering::Relaxed);
    }
    function.load(Ordering::Relaxed)
}

/// The start routine of threads that get a stack: installs the stack and jumps to the program's
/// start routine.
#[unsafe(naked)]
extern "C" fn start_with_stack(_stack: *mut c_void) -> *mut c_void {
    call_then_continue!(install)
}

extern "C" fn install(stack: usize) -> Continuation {
    let Some(stack) = SignalStack::containing(stack) else { return Continuation { function: 0, argument: 0 } };
    let [routine, argument] = stack.start_routine();
    let start = Continuation { function: routine.load(Ordering::Relaxed), argument: argument.load(Ordering::Relaxed) };
    if state::FILTERED.load(Ordering::Relaxed) || state::CONFINED.load(Ordering::Relaxed) {
        stack.release();
    } else {
        let tid = syscall::gettid();
        stack.set_owner(tid);
        stack.install();
        user_dispatch::unblock(stack.blocked_for_parent());
        new_threads::arm_own(tid);
        state::note_new_thread();
    }
    start
}

/// Creates a thread with `create`, which takes a start routine and its argument.
fn create_with_stack(routine: usize, argument: usize, create: impl FnOnce(usize, usize) -> c_int) -> c_int {
    let is_watched = state::WATCHED.load(Ordering::Relaxed) && !state::syscalls_forbidden();
    let stack = if is_watched && state::in_own_process() { stacks::claim_for_new_thread() } else { None };
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
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    routine: usize,
    argument: usize,
) -> c_int {
    match real(&libc_functions::PTHREAD_CREATE, c"pthread_create") {
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
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn thrd_create(thread: *mut c_void, routine: usize, argument: usize) -> c_int {
    /// C's `thrd_error`, which has the same value in glibc and musl.
    const THRD_ERROR: c_int = 2;
    match real(&libc_functions::THRD_CREATE, c"thrd_create") {
        0 => THRD_ERROR,
        // SAFETY: likewise.
        real => create_with_stack(routine, argument, |routine, argument| unsafe {
            core::mem::transmute::<usize, ThrdCreate>(real)(thread, routine, argument)
        }),
    }
}

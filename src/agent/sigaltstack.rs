//! `sigaltstack(2)`: what the program sets is recorded, and the kernel has a stack of the agent's.
//!
//! A tick then never lands on a stack of the program's, however small it is and whatever the stack
//! pointer is used for. A thread gets its stack when it starts, if the process is watched by then
//! ([`pthread`](super::pthread)), else from its first tick. That needs no system call: the kernel
//! takes the alternate stack from the ucontext when a handler returns.
//!
//! Stacks that a program sets by a raw system call (as Go's runtime does), or with `SS_AUTODISARM`,
//! are the kernel's own affair as before.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::sigstack_pool::{self, ProgramStack, SignalStack};
use super::sys::{self, syscall};
use super::{loader, order, start, state, user_dispatch};

/// While nobody watches, only smaller stacks than this are replaced: those that have no room for
/// the frame of a tick besides the handler that it interrupts (bytes).
const SMALL: usize = 16 * 1024;
const SS_AUTODISARM: c_int = i32::MIN;

/// Words of a ucontext.
const UC_STACK_START: usize = 2;
const UC_STACK_FLAGS: usize = 3;
const UC_STACK_SIZE: usize = 4;

static REAL_SIGALTSTACK: AtomicUsize = AtomicUsize::new(0);

/// Looks up libc's function. For the constructor; `here` is an address inside of this library.
pub(super) fn look_up(here: usize) {
    REAL_SIGALTSTACK.store(loader::next(c"sigaltstack", here), Ordering::Relaxed);
}

/// Gives the thread that a tick interrupted an alternate stack, if it has none. Makes no system
/// call.
///
/// # Safety
/// The context is the kernel's, of a handler that is going to return.
#[inline(always)]
pub(super) unsafe fn lend(context: *mut u64, tid: u32) {
    // SAFETY: the caller vouches.
    unsafe {
        if *context.add(UC_STACK_SIZE) == 0 && tid != 0 {
            lend_to(context, tid);
        }
    }
}

#[cold]
unsafe fn lend_to(context: *mut u64, tid: u32) {
    let Some(stack) = sigstack_pool::claim(tid) else { return };
    stack.set_program(ProgramStack::default());
    // SAFETY: the caller vouches.
    unsafe {
        *context.add(UC_STACK_START) = stack.start() as u64;
        *context.add(UC_STACK_FLAGS) = 0;
        *context.add(UC_STACK_SIZE) = stack.size() as u64;
    }
}

/// Gives the calling thread a stack if it has none. For the constructor of a process that is
/// watched.
pub(super) fn lend_to_own_thread() {
    if kernel_stack().ss_size == 0
        && let Some(stack) = sigstack_pool::claim_or_grow(sys::gettid())
    {
        stack.set_program(ProgramStack::default());
        stack.install();
    }
}

/// In a fork child: the stacks of the parent's other threads are free.
pub(super) fn forget_other_threads() {
    if sigstack_pool::is_in_use() {
        sigstack_pool::keep_only(own_stack(&kernel_stack()), sys::gettid());
    }
}

const NONE: libc::stack_t = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

/// What the kernel has for the calling thread.
fn kernel_stack() -> libc::stack_t {
    let mut stack = NONE;
    // SAFETY: one structure out.
    unsafe { syscall!(libc::SYS_sigaltstack, 0usize, &raw mut stack) };
    stack
}

/// The agent's stack, if the kernel has one of those.
fn own_stack(stack: &libc::stack_t) -> Option<SignalStack> {
    if stack.ss_size == 0 { None } else { SignalStack::containing(stack.ss_sp.addr()) }
}

/// Answers with what the program set, if the kernel's answer is a stack of the agent's.
unsafe fn correct(answer: *mut libc::stack_t, sp: usize) {
    // SAFETY: null, or written by the kernel just now.
    let Some(answer) = (unsafe { answer.as_mut() }) else { return };
    let Some(own) = own_stack(answer) else { return };
    let program = own.program();
    *answer = match program.size {
        0 => NONE,
        size => libc::stack_t {
            ss_sp: core::ptr::with_exposed_provenance_mut(program.start),
            ss_flags: if program.holds(sp) { libc::SS_ONSTACK } else { 0 },
            ss_size: size,
        },
    };
}

/// The kernel has just accepted a stack of the program's, in the place of `before`. Puts one of the
/// agent's there, if it is one that ticks should not use.
fn replace(before: Option<SignalStack>) {
    let now = kernel_stack();
    let watched = state::WATCHED.load(Ordering::Relaxed);
    let is_wanted = before.is_some() || watched || now.ss_size != 0 && now.ss_size < SMALL;
    let stack = if now.ss_flags & SS_AUTODISARM != 0 || !is_wanted {
        None
    } else {
        before.or_else(|| sigstack_pool::claim_or_grow(sys::gettid()))
    };
    if let Some(stack) = stack {
        stack.set_program(ProgramStack { start: now.ss_sp.addr(), size: now.ss_size });
        if stack.install() {
            return;
        }
        // The thread runs on the stack that it has just set: it stays with that one.
        stack.release();
    } else if let Some(before) = before {
        before.release();
    }
}

/// Sets a stack under a filter of system calls, where the agent may make no call but this one: the
/// kernel keeps the agent's stack, if it has it, and what the program sets is only recorded. `None`
/// where the kernel is to answer.
unsafe fn record(new: *const libc::stack_t, old: *mut libc::stack_t, sp: usize) -> Option<c_int> {
    // SAFETY: the caller gives what libc demands.
    let new = unsafe { new.as_ref() }?;
    let kernel = kernel_stack();
    let own = own_stack(&kernel)?;
    let mode = new.ss_flags & !SS_AUTODISARM;
    if new.ss_flags & SS_AUTODISARM != 0 {
        return None;
    }
    let error = match mode {
        _ if own.program().holds(sp) => libc::EPERM,
        libc::SS_DISABLE => 0,
        0 | libc::SS_ONSTACK if new.ss_size < libc::MINSIGSTKSZ => libc::ENOMEM,
        0 | libc::SS_ONSTACK => 0,
        _ => libc::EINVAL,
    };
    if error != 0 {
        order::tell_errno(error);
        return Some(-1);
    }
    let size = if mode == libc::SS_DISABLE { 0 } else { new.ss_size };
    let program = ProgramStack { start: if size == 0 { 0 } else { new.ss_sp.addr() }, size };
    // SAFETY: likewise, or null.
    unsafe {
        if !old.is_null() {
            *old = kernel;
            correct(old, sp);
        }
    }
    own.set_program(program);
    Some(0)
}

type Sigaltstack = unsafe extern "C" fn(*const libc::stack_t, *mut libc::stack_t) -> c_int;

/// `sigaltstack(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    let real = start::real(&REAL_SIGALTSTACK);
    if real == 0 {
        return -1;
    }
    let mut here = MaybeUninit::<u8>::uninit();
    let sp = here.as_mut_ptr().addr();
    // SAFETY: libc's own function, with the caller's arguments; the kernel checks them.
    let real = || unsafe { core::mem::transmute::<usize, Sigaltstack>(real)(new, old) };
    if new.is_null() || state::must_not_call() || !state::is_at_home() {
        if state::FILTERED.load(Ordering::Relaxed) && !user_dispatch::forbids_calls() {
            // SAFETY: the caller's arguments.
            if let Some(result) = unsafe { record(new, old, sp) } {
                return result;
            }
        }
        let result = real();
        if result == 0 {
            // SAFETY: the kernel has just written it.
            unsafe { correct(old, sp) };
        }
        return result;
    }
    // A tick that came between would land on the stack that the kernel is about to check.
    let mask = sys::block_all();
    let before = own_stack(&kernel_stack());
    let result = if before.is_some_and(|stack| stack.program().holds(sp)) {
        order::tell_errno(libc::EPERM);
        -1
    } else {
        let result = real();
        if result == 0 {
            // SAFETY: likewise.
            unsafe { correct(old, sp) };
        }
        if own_stack(&kernel_stack()) != before || before.is_none() && result == 0 {
            replace(before);
        }
        result
    };
    sys::set_mask(mask);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a thread of its own, which ends with its stack.
    fn in_a_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().expect("no panic");
    }

    fn get() -> libc::stack_t {
        let mut old = NONE;
        // SAFETY: one structure out.
        assert_eq!(unsafe { sigaltstack(core::ptr::null(), &raw mut old) }, 0);
        old
    }

    fn set(start: *mut u8, size: usize, flags: c_int) -> c_int {
        let new = libc::stack_t { ss_sp: start.cast(), ss_flags: flags, ss_size: size };
        // SAFETY: no handler runs on it.
        unsafe { sigaltstack(&raw const new, core::ptr::null_mut()) }
    }

    #[test]
    fn a_program_reads_back_the_stack_that_it_set() {
        state::OWNER.store(sys::getpid(), Ordering::Relaxed);
        REAL_SIGALTSTACK.store(libc::sigaltstack as *const () as usize, Ordering::Relaxed);
        in_a_thread(|| {
            let mut bytes = vec![0u8; 8192];
            let start = bytes.as_mut_ptr();
            // The standard library has set one, behind this function.
            assert_eq!(set(core::ptr::null_mut(), 0, libc::SS_DISABLE), 0);
            assert_eq!((get().ss_size, get().ss_flags), (0, libc::SS_DISABLE));
            assert_eq!(set(start, 8192, 0), 0);
            let own = own_stack(&kernel_stack()).expect("the kernel has a stack of the agent's");
            assert_eq!((get().ss_sp, get().ss_size, get().ss_flags), (start.cast(), 8192, 0));
            assert_eq!(set(start, 100, 0), -1, "it is too small");
            assert_eq!((get().ss_sp, get().ss_size), (start.cast(), 8192));
            assert_eq!(set(core::ptr::null_mut(), 0, libc::SS_DISABLE), 0);
            assert_eq!((get().ss_size, get().ss_flags), (0, libc::SS_DISABLE));
            assert_eq!(own_stack(&kernel_stack()), Some(own), "it stays");
            assert_eq!(set(start, 8192, SS_AUTODISARM), 0);
            assert_eq!(own_stack(&kernel_stack()), None, "this one is the kernel's affair");
        });
    }
}

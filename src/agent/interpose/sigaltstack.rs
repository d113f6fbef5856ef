//! `sigaltstack(2)`: the program's alternate stack is recorded, and the kernel has one of the
//! agent's.
//!
//! So a tick never uses a stack of the program's, however small it is and whatever the stack
//! pointer is used for. A thread gets its stack when it starts, if the process is watched by then
//! ([`pthread`](crate::agent::interpose::pthread)), and otherwise in its first tick. The latter
//! needs no system call: the kernel sets the alternate stack from the ucontext when a handler
//! returns.
//!
//! Stacks that a program sets by a raw system call (as Go's runtime does) or with `SS_AUTODISARM`
//! are left to the kernel.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use crate::agent::os::{libc_functions, loader, syscall, user_dispatch};
use crate::agent::signals::stacks::{self, NONE, ProgramStack, SignalStack};
use crate::agent::{start, state};

const SS_AUTODISARM: c_int = i32::MIN;

/// Replaces a stack of the agent's in the kernel's answer by the one that the program set.
unsafe fn show_program_stack(answer: *mut libc::stack_t, sp: usize) {
    // SAFETY: null, or written by the kernel just now.
    let Some(answer) = (unsafe { answer.as_mut() }) else { return };
    let Some(own) = stacks::own_stack(answer) else { return };
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

/// Replaces a stack of the program's that the kernel has just accepted instead of `before` by one
/// of the agent's, unless ticks can use it. While the process is not watched, only stacks without
/// room for a tick are replaced.
fn replace(before: Option<SignalStack>) {
    let now = stacks::kernel_stack();
    let watched = state::WATCHED.load(Ordering::Relaxed);
    let is_wanted = before.is_some() || watched || now.ss_size != 0 && stacks::is_small(now.ss_size);
    let stack = if now.ss_flags & SS_AUTODISARM != 0 || !is_wanted {
        None
    } else {
        before.or_else(|| stacks::claim_or_grow(syscall::gettid()))
    };
    if let Some(stack) = stack {
        stack.set_program(ProgramStack { start: now.ss_sp.addr(), size: now.ss_size });
        if stack.install() {
            return;
        }
        // The thread runs on the stack that it has just set, so it keeps that one.
        stack.release();
    } else if let Some(before) = before {
        before.release();
    }
}

/// Sets a stack under a seccomp filter, where the agent may make no other call than sigaltstack. If
/// the kernel has a stack of the agent's, it keeps that, and the program's is only recorded.
/// Returns `None` if the kernel has to answer.
unsafe fn record_program_stack(new: *const libc::stack_t, old: *mut libc::stack_t, sp: usize) -> Option<c_int> {
    // SAFETY: the caller passes what libc requires. It is copied, as `old` may be the same object.
    let new = unsafe { *new.as_ref()? };
    let kernel = stacks::kernel_stack();
    let own = stacks::own_stack(&kernel)?;
    let mode = new.ss_flags & !SS_AUTODISARM;
    if new.ss_flags & SS_AUTODISARM != 0 {
        return None;
    }
    let error = match mode {
        _ if own.program().holds(sp) => libc::EPERM,
        libc::SS_DISABLE => 0,
        // The kernel compares with this constant, even where signal frames are larger.
        0 | libc::SS_ONSTACK if new.ss_size < libc::MINSIGSTKSZ => libc::ENOMEM,
        0 | libc::SS_ONSTACK => 0,
        _ => libc::EINVAL,
    };
    if error != 0 {
        loader::set_errno(error);
        return Some(-1);
    }
    let size = if mode == libc::SS_DISABLE { 0 } else { new.ss_size };
    let program = ProgramStack { start: if size == 0 { 0 } else { new.ss_sp.addr() }, size };
    // SAFETY: likewise, or null.
    unsafe {
        if !old.is_null() {
            *old = kernel;
            show_program_stack(old, sp);
        }
    }
    own.set_program(program);
    Some(0)
}

type Sigaltstack = unsafe extern "C" fn(*const libc::stack_t, *mut libc::stack_t) -> c_int;

/// `sigaltstack(2)` for the target.
///
/// # Safety
/// The caller keeps the contract of the function that this one replaces in libc.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    let real = start::real(&libc_functions::SIGALTSTACK);
    if real == 0 {
        return -1;
    }
    let mut here = MaybeUninit::<u8>::uninit();
    let sp = here.as_mut_ptr().addr();
    // SAFETY: libc's own function with the caller's arguments; the kernel checks them.
    let real = || unsafe { core::mem::transmute::<usize, Sigaltstack>(real)(new, old) };
    if new.is_null() || state::syscalls_forbidden() || !state::in_own_process() {
        if state::FILTERED.load(Ordering::Relaxed) && !user_dispatch::forbids_calls() {
            // SAFETY: the caller's arguments.
            if let Some(result) = unsafe { record_program_stack(new, old, sp) } {
                return result;
            }
        }
        let result = real();
        if result == 0 {
            // SAFETY: the kernel has just written it.
            unsafe { show_program_stack(old, sp) };
        }
        return result;
    }
    // A tick in between would use the stack that the kernel is about to check.
    let mask = syscall::block_all();
    let before = stacks::own_stack(&stacks::kernel_stack());
    let result = if before.is_some_and(|stack| stack.program().holds(sp)) {
        loader::set_errno(libc::EPERM);
        -1
    } else {
        let result = real();
        if result == 0 {
            // SAFETY: the kernel has just written it.
            unsafe { show_program_stack(old, sp) };
        }
        if stacks::own_stack(&stacks::kernel_stack()) != before || before.is_none() && result == 0 {
            replace(before);
        }
        result
    };
    syscall::set_mask(mask);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a new thread, which ends with its stack.
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
        state::OWNER.store(syscall::getpid(), Ordering::Relaxed);
        libc_functions::SIGALTSTACK.store(libc::sigaltstack as *const () as usize, Ordering::Relaxed);
        in_a_thread(|| {
            let mut bytes = vec![0u8; 8192];
            let start = bytes.as_mut_ptr();
            // The standard library has set one, without this function.
            assert_eq!(set(core::ptr::null_mut(), 0, libc::SS_DISABLE), 0);
            assert_eq!((get().ss_size, get().ss_flags), (0, libc::SS_DISABLE));
            assert_eq!(set(start, 8192, 0), 0);
            let own = stacks::own_stack(&stacks::kernel_stack()).expect("the kernel has a stack of the agent's");
            assert_eq!((get().ss_sp, get().ss_size, get().ss_flags), (start.cast(), 8192, 0));
            assert_eq!(set(start, 100, 0), -1, "it is too small");
            assert_eq!((get().ss_sp, get().ss_size), (start.cast(), 8192));
            assert_eq!(set(core::ptr::null_mut(), 0, libc::SS_DISABLE), 0);
            assert_eq!((get().ss_size, get().ss_flags), (0, libc::SS_DISABLE));
            assert_eq!(stacks::own_stack(&stacks::kernel_stack()), Some(own), "it stays");
            assert_eq!(set(start, 8192, SS_AUTODISARM), 0);
            assert_eq!(stacks::own_stack(&stacks::kernel_stack()), None, "this one is the kernel's affair");
        });
    }
}

//! Moves the frame of a signal from the agent's alternate stack to the place where the kernel would
//! have written it without the agent.
//!
//! The kernel's alternate stack of a thread is the agent's
//! ([`sigstack_pool`](crate::agent::signals::stacks)), so a handler of the program's with
//! `SA_ONSTACK` would run there. For such a handler, [`enter`] is installed instead. It copies the
//! frame to the stack that the program set, or below the stack pointer if it set none, and jumps to
//! the handler, which then runs, sees its surroundings and returns as without the agent. The
//! agent's stack is free for the next tick.
//!
//! A second signal may interrupt the copying. Its handler runs on the agent's stack below the
//! unfinished frame, which it does not touch. A tick returns within microseconds, and a handler of
//! the program's has as much room there as on any thread.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::agent::os::loader;
use crate::agent::os::syscall::{self, KernelAction, syscall};
use crate::agent::signals::stacks::{ProgramStack, SignalStack};
use crate::agent::state;
use crate::arch::{
    self, FRAME_SIGINFO, FRAME_SIZE, FRAME_STATE_ALIGNMENT, FRAME_UCONTEXT, HandlerEntry, RED_ZONE, SA_RESTORER,
    UC_SIGMASK, UC_SP, UC_STACK_FLAGS, UC_STACK_SIZE, UC_STACK_START, signal_redirect,
};

/// Number of signals.
const SIGNALS: usize = 64;

/// A flag that makes the kernel ignore the alternate stack in a ucontext when the handler returns.
/// No valid mode has it, and rt_sigreturn(2) does not fail because of it. So the program sees its
/// own stack there, and the kernel keeps the agent's.
const IGNORED_MODE: usize = 4;
const SI_KERNEL: i32 = 0x80;

/// The program's handler of each signal for which [`enter`] was installed. Written by the thread
/// that installs it.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Whether Go's runtime is in the process. It installs its handlers through libc, but reads and
/// sets its alternate stacks by raw system calls, and uses an existing one as its own. Its handlers
/// run where the kernel starts them.
static HAS_GO: AtomicBool = AtomicBool::new(false);

/// Looks for Go's runtime. For functions that install a handler on an alternate stack.
pub(crate) fn has_go() -> bool {
    if !HAS_GO.load(Ordering::Relaxed) && loader::is_defined(c"crosscall2") {
        HAS_GO.store(true, Ordering::Relaxed);
    }
    HAS_GO.load(Ordering::Relaxed)
}

fn handler_of(signal: i32) -> Option<&'static AtomicUsize> {
    HANDLERS.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// Translates a handler that the program installs with these flags for the kernel.
pub(crate) fn to_kernel(signal: i32, flags: i32, handler: usize) -> usize {
    match handler_of(signal) {
        Some(program)
            if flags & libc::SA_ONSTACK != 0 && handler > libc::SIG_IGN && state::in_own_process() && !has_go() =>
        {
            program.store(handler, Ordering::Relaxed);
            enter as *const () as usize
        }
        _ => handler,
    }
}

/// Returns the program's handler of a signal whose frames are moved; 0 before there was one.
pub(crate) fn program_handler(signal: i32) -> usize {
    handler_of(signal).map_or(0, |program| program.load(Ordering::Relaxed))
}

/// Translates a handler of the kernel's for the program, whose own was `program`.
pub(crate) fn to_target(handler: usize, program: usize) -> usize {
    if handler == enter as *const () as usize { program } else { handler }
}

/// Translates an action of the kernel's, whose handler may be [`enter`], for the program.
pub(crate) fn action_to_target(signal: i32, action: &KernelAction) -> KernelAction {
    let handler = to_target(action.handler, program_handler(signal));
    let flags = if handler == action.handler { action.flags } else { action.flags & !SA_RESTORER };
    KernelAction { handler, flags, ..*action }
}

/// The stack on which a handler of the program's runs without the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerStack {
    /// The interrupted stack.
    Interrupted,
    /// The stack that the program set with `sigaltstack(2)`; the interrupted stack if it set none.
    ProgramStack,
    /// The kernel's alternate stack, which is what a program with raw system calls sees.
    KernelStack,
}

impl HandlerStack {
    /// Derives the stack from the flags of an action. Those of the kernel say that there is a
    /// restorer; those that a program passes to libc do not.
    pub(crate) fn from_flags(flags: u64) -> HandlerStack {
        match (flags & libc::SA_ONSTACK as u64 != 0, flags & SA_RESTORER != 0) {
            (false, _) => HandlerStack::Interrupted,
            (true, false) if !HAS_GO.load(Ordering::Relaxed) => HandlerStack::ProgramStack,
            (true, _) => HandlerStack::KernelStack,
        }
    }
}

// The handler of signals whose frames are moved.
signal_redirect!(enter asks find_entry);

extern "C" fn find_entry(signal: i32, info: usize, context: usize, frame: usize) -> HandlerEntry {
    let handler = program_handler(signal);
    // SAFETY: the kernel has just written this frame.
    match unsafe { move_frame(frame, signal, info, context, HandlerStack::ProgramStack) } {
        Some(frame) => HandlerEntry { handler, frame },
        None => HandlerEntry { handler: 0, frame },
    }
}

/// Calls a handler of the program's with the arguments of the calling handler, on the stack on
/// which it would run without the agent. Returns only if that is the current stack, or there is
/// none.
///
/// # Safety
/// `signal`, `info` and `context` are the arguments of a signal handler. Nothing on the current
/// stack may be needed afterwards.
pub(crate) unsafe fn call(handler: usize, signal: i32, info: usize, context: usize, target: HandlerStack) {
    let frame = context - FRAME_UCONTEXT;
    // SAFETY: the caller passes a signal handler's arguments; the program's handler takes them, or
    // the first of them.
    unsafe {
        match move_frame(frame, signal, info, context, target) {
            Some(moved) if moved != frame => arch::enter_handler(handler, signal, moved),
            Some(_) => {
                let handler: extern "C" fn(i32, usize, usize) = core::mem::transmute(handler);
                handler(signal, info, context);
            }
            None => {}
        }
    }
}

/// Copies a frame to its place unless it is there already, and returns its address. Returns `None`
/// if there is no room for it, after sending SIGSEGV as the kernel would have done.
unsafe fn move_frame(frame: usize, signal: i32, info: usize, context: usize, target: HandlerStack) -> Option<usize> {
    if target == HandlerStack::KernelStack {
        return Some(frame);
    }
    let Some(stack) = SignalStack::containing(frame) else { return Some(frame) };
    let words = context as *mut usize;
    // SAFETY: the caller passes the kernel's frame.
    let sp = unsafe { *words.add(UC_SP) };
    if SignalStack::containing(sp) == Some(stack) {
        // The signal has interrupted this function. A fault means that the place of the frame is
        // not writable.
        if stack.moving().load(Ordering::Relaxed) && matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
            // SAFETY: this faults repeatedly until the kernel finds no room for another frame and
            // kills the process by SIGSEGV.
            unsafe { core::ptr::null_mut::<u8>().with_addr(8).write_volatile(0) };
        }
        return Some(frame);
    }
    // SAFETY: the kernel's ucontext.
    let (state, length) = unsafe { arch::frame_state(context) };
    let is_as_expected = context == frame + FRAME_UCONTEXT
        && info == frame + FRAME_SIGINFO
        && (state == 0 || state >= frame + FRAME_SIZE && state + length <= stack.top());
    if !is_as_expected || arch::has_shadow_stack() {
        return Some(frame);
    }
    let program = stack.program();
    let Some(to) = destination(program, sp, length, target) else {
        // SAFETY: the kernel's ucontext.
        raise_sigsegv(signal, unsafe { *words.add(UC_SIGMASK) } as u64);
        return None;
    };
    let [frame_to, state_to] = to;
    let is_known = stack.last_frame().load(Ordering::Relaxed) == frame_to;
    if !is_known && !state::syscalls_forbidden() && !is_writable(frame_to, state_to + length) {
        // SAFETY: the kernel's ucontext.
        raise_sigsegv(signal, unsafe { *words.add(UC_SIGMASK) } as u64);
        return None;
    }
    stack.moving().store(true, Ordering::Relaxed);
    // SAFETY: the frame and its state are complete, and the kernel would have written to the same
    // place.
    unsafe {
        core::ptr::copy_nonoverlapping(frame as *const u8, frame_to as *mut u8, FRAME_SIZE);
        let words = (frame_to + FRAME_UCONTEXT) as *mut usize;
        if state != 0 {
            core::ptr::copy_nonoverlapping(state as *const u8, state_to as *mut u8, length);
            arch::set_frame_state(frame_to + FRAME_UCONTEXT, state, state_to);
        }
        let mode = if program.size == 0 { libc::SS_DISABLE as usize } else { 0 };
        *words.add(UC_STACK_START) = program.start;
        *words.add(UC_STACK_FLAGS) = mode | IGNORED_MODE;
        *words.add(UC_STACK_SIZE) = program.size;
    }
    stack.moving().store(false, Ordering::Relaxed);
    stack.last_frame().store(frame_to, Ordering::Relaxed);
    Some(frame_to)
}

/// Computes where the kernel writes the frame, and the state above it, of a signal
/// that interrupts a thread with this stack pointer and alternate stack; `None` if there is no
/// room.
fn destination(program: ProgramStack, sp: usize, length: usize, target: HandlerStack) -> Option<[usize; 2]> {
    let below = sp.wrapping_sub(RED_ZONE as usize);
    let enters = target == HandlerStack::ProgramStack && program.size != 0 && !program.holds(below);
    let from = if enters { program.start + program.size } else { below };
    let state = from.checked_sub(length)? & !(FRAME_STATE_ALIGNMENT - 1);
    let frame = arch::frame_below(state)?;
    let is_bound = enters || program.holds(sp);
    (!is_bound || program.holds(frame)).then_some([frame, state])
}

/// Returns whether the kernel can write to these addresses of a stack, where nothing may be in use.
/// This makes a stack grow, as writing a frame does. rt_sigprocmask(2)
fn is_writable(from: usize, to: usize) -> bool {
    let mut at = from;
    while at + 8 <= to {
        // SAFETY: this changes no mask. The kernel writes 8 bytes and checks the address.
        if unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, at, 8) } != 0 {
            return false;
        }
        at = (at | (arch::page_size() - 1)) + 1;
    }
    true
}

/// Does what the kernel does if there is no room for a signal's frame, in a thread with this mask:
/// sends SIGSEGV, or kills the process if that is not possible.
fn raise_sigsegv(signal: i32, mask: u64) {
    const SEGV: u64 = 1 << (libc::SIGSEGV - 1);
    if state::syscalls_forbidden() {
        // SAFETY: this faults as in `move_frame`: there is no room for the following frames either.
        unsafe { core::ptr::null_mut::<u8>().with_addr(8).write_volatile(0) };
        return;
    }
    let is_ignored = syscall::signal_action(libc::SIGSEGV).handler == libc::SIG_IGN;
    let mut info = [0u32; 32];
    (info[0], info[2]) = (libc::SIGSEGV as u32, SI_KERNEL as u32);
    // SAFETY: plain values, and a siginfo.
    unsafe {
        if signal == libc::SIGSEGV || mask & SEGV != 0 || is_ignored {
            syscall::set_signal_action(libc::SIGSEGV, &KernelAction::default());
            syscall::set_mask(mask & !SEGV);
        }
        syscall!(libc::SYS_rt_tgsigqueueinfo, syscall::getpid(), syscall::gettid(), libc::SIGSEGV, info.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::PUSHED_BY_CALL;

    #[test]
    fn frames_are_moved_to_where_the_kernel_writes_them() {
        let none = ProgramStack::default();
        let large = ProgramStack { start: 0x10_0000, size: 0x1_0000 };
        let small = ProgramStack { start: 0x10_0000, size: 0x800 };
        let [frame, state] =
            destination(none, 0x7fff_1234, 2696, HandlerStack::ProgramStack).expect("the stack is unlimited");
        assert!(state + 2696 <= 0x7fff_1234 - RED_ZONE as usize && state.is_multiple_of(FRAME_STATE_ALIGNMENT));
        assert!(frame + FRAME_SIZE <= state && frame % 16 == PUSHED_BY_CALL as usize);
        let [frame, _] =
            destination(large, 0x7fff_1234, 2696, HandlerStack::ProgramStack).expect("the stack is large enough");
        assert!(large.holds(frame));
        let [frame, _] = destination(large, 0x7fff_1234, 2696, HandlerStack::Interrupted)
            .expect("the handler runs on the interrupted stack");
        assert!(!large.holds(frame));
        let [nested, _] = destination(large, 0x10_8000, 2696, HandlerStack::ProgramStack)
            .expect("the stack has room for a second frame");
        assert!(nested < 0x10_8000 - 2696);
        assert_eq!(destination(large, 0x10_0900, 2696, HandlerStack::Interrupted), None, "the stack ends there");
        assert_eq!(destination(small, 0x7fff_1234, 2696, HandlerStack::ProgramStack), None);
    }

    #[test]
    fn invalid_signals_are_ignored() {
        state::OWNER.store(syscall::getpid(), Ordering::Relaxed);
        for signal in [-1, 0, 65, i32::MAX] {
            assert_eq!((to_kernel(signal, libc::SA_ONSTACK, 4711), program_handler(signal)), (4711, 0));
        }
        assert_eq!(to_kernel(libc::SIGXFSZ, 0, 4711), 4711);
        assert_eq!(to_kernel(libc::SIGXFSZ, libc::SA_ONSTACK, libc::SIG_IGN), libc::SIG_IGN);
        let kernel = to_kernel(libc::SIGXFSZ, libc::SA_ONSTACK, 4711);
        assert_eq!((kernel, to_target(kernel, program_handler(libc::SIGXFSZ))), (enter as *const () as usize, 4711));
    }

    #[test]
    fn read_only_and_unmapped_pages_are_not_writable() {
        let mut bytes = [0u8; 64];
        let start = bytes.as_mut_ptr() as usize;
        assert!(is_writable(start, start + bytes.len()));
        assert!(!is_writable(8, 64));
        assert!(!is_writable(find_entry as *const () as usize & !7, (find_entry as *const () as usize & !7) + 8));
    }
}

//! Moves the frame of a signal from the agent's alternate stack to where the kernel would have
//! written it without the agent.
//!
//! The kernel's alternate stack of a thread is the agent's
//! ([`sigstack_pool`](super::sigstack_pool)), so a handler of the program's with `SA_ONSTACK` would
//! run there. Such a handler is installed as [`enter`] instead. That copies the frame to the stack
//! that the program set, or below the stack pointer if it set none, and jumps to the handler: what
//! runs, what it finds around it and what it returns through are as without the agent. From then on
//! the agent's stack is free again for the next tick.
//!
//! A second signal may interrupt the copying. Its handler then stays on the agent's stack, where
//! the unfinished frame is safe from it: a tick returns in microseconds, and a handler of the
//! program's finds as much room there as it has on any thread.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::sigstack_pool::{ProgramStack, SignalStack};
use super::{loader, state};

use super::sys::{self, KernelAction, syscall};

/// Signals, as a mask has them.
const SIGNALS: usize = 64;

/// Words of a ucontext: the alternate stack, the interrupted stack pointer, the address of the
/// floating-point state, the mask.
const UC_STACK: usize = 2;
const UC_SP: usize = 20;
const UC_FP_STATE: usize = 28;
const UC_SIGMASK: usize = 37;

/// The kernel's frame: return address, ucontext, siginfo.
const CONTEXT_AT: usize = 8;
const INFO_AT: usize = 312;
const FRAME: usize = 440;
/// Bytes below the stack pointer that belong to the interrupted function.
const RED_ZONE: usize = 128;
/// Bytes of floating-point state without extensions, and where the kernel says how large it is with
/// them.
const LEGACY_STATE: usize = 512;
const STATE_MAGIC_AT: usize = 464;
const STATE_MAGIC: u32 = 0x4650_5853;
/// A flag that makes the kernel ignore the stack in a ucontext when the handler returns: no valid
/// mode has it, and rt_sigreturn(2) does not mind. So the program sees its own stack there, and the
/// kernel keeps the agent's.
const IGNORED_MODE: usize = 4;
const SI_KERNEL: i32 = 0x80;
const SA_RESTORER: u64 = 0x0400_0000;

/// The program's handler of each signal that [`enter`] was installed for. Written by whoever
/// installs it.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Whether Go's runtime is in the process. It installs its handlers by libc, but asks and sets its
/// alternate stacks by raw system calls, and takes one that is there for its own. Its handlers run
/// where the kernel starts them.
static HAS_GO: AtomicBool = AtomicBool::new(false);

/// Looks for Go's runtime. For functions that install a handler on an alternate stack.
pub(super) fn has_go() -> bool {
    if !HAS_GO.load(Ordering::Relaxed) && loader::is_defined(c"crosscall2") {
        HAS_GO.store(true, Ordering::Relaxed);
    }
    HAS_GO.load(Ordering::Relaxed)
}

fn handler_of(signal: i32) -> Option<&'static AtomicUsize> {
    HANDLERS.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// The handler that the kernel is to have when the program installs `handler` with these flags.
pub(super) fn installed(signal: i32, flags: i32, handler: usize) -> usize {
    match handler_of(signal) {
        Some(place) if flags & libc::SA_ONSTACK != 0 && handler > libc::SIG_IGN && state::is_at_home() && !has_go() => {
            place.store(handler, Ordering::Relaxed);
            enter as *const () as usize
        }
        _ => handler,
    }
}

/// The program's handler of a signal whose frames are moved; 0 before there was one.
pub(super) fn program_handler(signal: i32) -> usize {
    handler_of(signal).map_or(0, |place| place.load(Ordering::Relaxed))
}

/// What the program is to see for a handler that the kernel has, where its own was `program`.
pub(super) fn shown(handler: usize, program: usize) -> usize {
    if handler == enter as *const () as usize { program } else { handler }
}

/// The program's own action, for one of the kernel's that may have [`enter`] as its handler.
pub(super) fn shown_action(signal: i32, action: &KernelAction) -> KernelAction {
    let handler = shown(action.handler, program_handler(signal));
    let flags = if handler == action.handler { action.flags } else { action.flags & !SA_RESTORER };
    KernelAction { handler, flags, ..*action }
}

/// Where a handler of the program's runs without the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// On the stack that was interrupted.
    Interrupted,
    /// On the stack that the program set by `sigaltstack(2)`, if it did.
    ProgramStack,
    /// On the kernel's alternate stack, which is what a program sees that makes raw system calls.
    KernelStack,
}

impl Target {
    /// By the flags of an action. The kernel's own say where the restorer is; those that a program
    /// gives to libc do not.
    pub(super) fn of(flags: u64) -> Target {
        match (flags & libc::SA_ONSTACK as u64 != 0, flags & SA_RESTORER != 0) {
            (false, _) => Target::Interrupted,
            (true, false) if !HAS_GO.load(Ordering::Relaxed) => Target::ProgramStack,
            (true, _) => Target::KernelStack,
        }
    }
}

/// Where a handler is to be entered; address 0 when it cannot be.
#[repr(C)]
struct FrameEntry {
    handler: usize,
    frame: usize,
}

/// The handler of signals whose frames are moved.
#[unsafe(naked)]
extern "C" fn enter(_signal: i32, _info: usize, _context: usize) {
    naked_asm!(
        ".cfi_startproc",
        "mov rcx, rsp",
        "push rdx",
        "push rsi",
        "push rdi",
        ".cfi_adjust_cfa_offset 24",
        "call {find_entry}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jz 2f",
        ".cfi_remember_state",
        "mov rsp, rdx",
        ".cfi_def_cfa_offset 8",
        "lea rsi, [rdx + {info}]",
        "add rdx, {context}",
        "mov r11, rax",
        "xor eax, eax",
        "jmp r11",
        ".cfi_restore_state",
        "2:",
        "add rsp, 16",
        ".cfi_adjust_cfa_offset -16",
        "ret",
        ".cfi_endproc",
        find_entry = sym find_entry,
        info = const INFO_AT,
        context = const CONTEXT_AT,
    )
}

extern "C" fn find_entry(signal: i32, info: usize, context: usize, frame: usize) -> FrameEntry {
    let handler = program_handler(signal);
    // SAFETY: the kernel has just written this frame.
    match unsafe { moved(frame, signal, info, context, Target::ProgramStack) } {
        Some(frame) => FrameEntry { handler, frame },
        None => FrameEntry { handler: 0, frame },
    }
}

/// Calls a handler of the program's with the arguments of the handler that calls this, on the stack
/// that it would run on without the agent. Returns only if that is the present one, or there is
/// none.
///
/// # Safety
/// The last three are the arguments of a signal handler. Nothing on the present stack may be
/// needed.
pub(super) unsafe fn call(handler: usize, signal: i32, info: usize, context: usize, target: Target) {
    let frame = context - CONTEXT_AT;
    // SAFETY: the caller vouches; the program's handler takes these arguments, or the first of
    // them.
    unsafe {
        match moved(frame, signal, info, context, target) {
            Some(moved) if moved != frame => asm!(
                "mov rsp, r10", "jmp r11",
                in("r10") moved, in("r11") handler, in("eax") 0, in("edi") signal, in("rsi") moved + INFO_AT,
                in("rdx") moved + CONTEXT_AT, options(noreturn)
            ),
            Some(_) => {
                let handler: extern "C" fn(i32, usize, usize) = core::mem::transmute(handler);
                handler(signal, info, context);
            }
            None => {}
        }
    }
}

/// Copies a frame to where it belongs, unless it is there, and returns its address. `None` when
/// there is no room for it: then a SIGSEGV is on its way, as the kernel would have sent it.
unsafe fn moved(frame: usize, signal: i32, info: usize, context: usize, target: Target) -> Option<usize> {
    if target == Target::KernelStack {
        return Some(frame);
    }
    let Some(stack) = SignalStack::containing(frame) else { return Some(frame) };
    let words = context as *mut usize;
    // SAFETY: the caller gives the kernel's frame.
    let (sp, state) = unsafe { (*words.add(UC_SP), *words.add(UC_FP_STATE)) };
    if SignalStack::containing(sp) == Some(stack) {
        // It has interrupted this very function. A fault means that it cannot write where the
        // frame belongs.
        if stack.moving().load(Ordering::Relaxed) && matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
            // SAFETY: faults, again and again, until the kernel finds no room for another frame and
            // ends the process by SIGSEGV.
            unsafe { core::ptr::null_mut::<u8>().with_addr(8).write_volatile(0) };
        }
        return Some(frame);
    }
    // SAFETY: the state is part of the frame, or absent.
    let length = unsafe { state_length(state) };
    let is_as_expected = context == frame + CONTEXT_AT
        && info == frame + INFO_AT
        && (state == 0 || state >= frame + FRAME && state + length <= stack.top());
    if !is_as_expected || has_shadow_stack() {
        return Some(frame);
    }
    let program = stack.program();
    let Some(to) = destination(program, sp, length, target) else {
        // SAFETY: the kernel's ucontext.
        refuse(signal, unsafe { *words.add(UC_SIGMASK) } as u64);
        return None;
    };
    let [frame_to, state_to] = to;
    let is_known = stack.last_frame().load(Ordering::Relaxed) == frame_to;
    if !is_known && !state::must_not_call() && !is_writable(frame_to, state_to + length) {
        // SAFETY: likewise.
        refuse(signal, unsafe { *words.add(UC_SIGMASK) } as u64);
        return None;
    }
    stack.moving().store(true, Ordering::Relaxed);
    // SAFETY: the frame and its state are whole, and where they go the kernel would have written.
    unsafe {
        core::ptr::copy_nonoverlapping(frame as *const u8, frame_to as *mut u8, FRAME);
        let words = (frame_to + CONTEXT_AT) as *mut usize;
        if state != 0 {
            core::ptr::copy_nonoverlapping(state as *const u8, state_to as *mut u8, length);
            *words.add(UC_FP_STATE) = state_to;
        }
        let mode = if program.size == 0 { libc::SS_DISABLE as usize } else { 0 };
        *words.add(UC_STACK) = program.start;
        *words.add(UC_STACK + 1) = mode | IGNORED_MODE;
        *words.add(UC_STACK + 2) = program.size;
    }
    stack.moving().store(false, Ordering::Relaxed);
    stack.last_frame().store(frame_to, Ordering::Relaxed);
    Some(frame_to)
}

/// Bytes of floating-point state at this address, which may be 0.
unsafe fn state_length(state: usize) -> usize {
    if state == 0 {
        return 0;
    }
    // SAFETY: the caller gives the address of a state, of 512 bytes at least.
    unsafe {
        match *((state + STATE_MAGIC_AT) as *const [u32; 2]) {
            [STATE_MAGIC, length] => length as usize,
            _ => LEGACY_STATE,
        }
    }
}

/// Where the kernel writes the frame, and the floating-point state above it, of a signal that
/// interrupts a thread with this stack pointer and alternate stack; `None` where it finds no room.
fn destination(program: ProgramStack, sp: usize, length: usize, target: Target) -> Option<[usize; 2]> {
    let below = sp.wrapping_sub(RED_ZONE);
    let enters = target == Target::ProgramStack && program.size != 0 && !program.holds(below);
    let from = if enters { program.start + program.size } else { below };
    let state = from.checked_sub(length)? & !63;
    let frame = (state.checked_sub(FRAME)? & !15).checked_sub(8)?;
    let is_bound = enters || program.holds(sp);
    (!is_bound || program.holds(frame)).then_some([frame, state])
}

/// Whether the kernel can write to these addresses, on a stack of which nothing below is in use.
/// Like the kernel's own writing of a frame this makes a stack grow. rt_sigprocmask(2)
fn is_writable(from: usize, to: usize) -> bool {
    const PAGE: usize = 4096;
    let mut at = from;
    while at + 8 <= to {
        // SAFETY: changes no mask; the kernel writes 8 bytes, and checks them.
        if unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, at, 8) } != 0 {
            return false;
        }
        at = (at | (PAGE - 1)) + 1;
    }
    true
}

/// Whether return addresses are checked, so that a handler can only be entered by the kernel.
fn has_shadow_stack() -> bool {
    let mut pointer = 0usize;
    // SAFETY: reads a register; does nothing where there are no shadow stacks.
    unsafe { asm!("rdsspq {}", inout(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer != 0
}

/// Does what the kernel does with a signal that finds no room on its stack, in a thread with this
/// mask: sends SIGSEGV, or ends the process if that is not possible.
fn refuse(signal: i32, mask: u64) {
    const SEGV: u64 = 1 << (libc::SIGSEGV - 1);
    if state::must_not_call() {
        // SAFETY: faults, as above: the frames that follow are refused too.
        unsafe { core::ptr::null_mut::<u8>().with_addr(8).write_volatile(0) };
        return;
    }
    let is_ignored = sys::action_of(libc::SIGSEGV).handler == libc::SIG_IGN;
    let mut info = [0u32; 32];
    (info[0], info[2]) = (libc::SIGSEGV as u32, SI_KERNEL as u32);
    // SAFETY: plain values, and a siginfo.
    unsafe {
        if signal == libc::SIGSEGV || mask & SEGV != 0 || is_ignored {
            sys::set_action(libc::SIGSEGV, &KernelAction::default());
            sys::set_mask(mask & !SEGV);
        }
        syscall!(libc::SYS_rt_tgsigqueueinfo, sys::getpid(), sys::gettid(), libc::SIGSEGV, info.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_where_the_kernel_writes_them() {
        let none = ProgramStack::default();
        let large = ProgramStack { start: 0x10_0000, size: 0x1_0000 };
        let small = ProgramStack { start: 0x10_0000, size: 0x800 };
        let [frame, state] = destination(none, 0x7fff_1234, 2696, Target::ProgramStack).expect("there is no end to it");
        assert!(state + 2696 <= 0x7fff_1234 - RED_ZONE && state.is_multiple_of(64));
        assert!(frame + FRAME <= state && frame % 16 == 8);
        let [frame, _] = destination(large, 0x7fff_1234, 2696, Target::ProgramStack).expect("it is large enough");
        assert!(large.holds(frame));
        let [frame, _] =
            destination(large, 0x7fff_1234, 2696, Target::Interrupted).expect("it is not for this handler");
        assert!(!large.holds(frame));
        let [nested, _] =
            destination(large, 0x10_8000, 2696, Target::ProgramStack).expect("it has room for a second one");
        assert!(nested < 0x10_8000 - 2696);
        assert_eq!(destination(large, 0x10_0900, 2696, Target::Interrupted), None, "it does not go on below");
        assert_eq!(destination(small, 0x7fff_1234, 2696, Target::ProgramStack), None);
    }

    #[test]
    fn what_is_no_signal_is_left_alone() {
        state::OWNER.store(sys::getpid(), Ordering::Relaxed);
        for signal in [-1, 0, 65, i32::MAX] {
            assert_eq!((installed(signal, libc::SA_ONSTACK, 4711), program_handler(signal)), (4711, 0));
        }
        assert_eq!(installed(libc::SIGXFSZ, 0, 4711), 4711);
        assert_eq!(installed(libc::SIGXFSZ, libc::SA_ONSTACK, libc::SIG_IGN), libc::SIG_IGN);
        let kernel = installed(libc::SIGXFSZ, libc::SA_ONSTACK, 4711);
        assert_eq!((kernel, shown(kernel, program_handler(libc::SIGXFSZ))), (enter as *const () as usize, 4711));
    }

    #[test]
    fn pages_are_writable_or_not() {
        let mut bytes = [0u8; 64];
        let start = bytes.as_mut_ptr() as usize;
        assert!(is_writable(start, start + bytes.len()));
        assert!(!is_writable(8, 64));
        assert!(!is_writable(find_entry as *const () as usize & !7, (find_entry as *const () as usize & !7) + 8));
    }
}

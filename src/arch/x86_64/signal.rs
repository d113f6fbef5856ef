//! Signal handlers: how the kernel enters one, how it returns, and how the agent jumps out of its
//! own handler or into one of the program's.

use core::arch::asm;

use super::context::{FRAME_SIGINFO, FRAME_UCONTEXT};

core::arch::global_asm!(
    // Returns from a handler. Unwinders recognize it by these very bytes, and by the instruction
    // before it.
    ".balign 16",
    "nop",
    ".globl sigtop_restorer",
    ".hidden sigtop_restorer",
    ".type sigtop_restorer, @function",
    "sigtop_restorer:",
    "mov rax, 15",
    "syscall",
    ".size sigtop_restorer, . - sigtop_restorer",
);

unsafe extern "C" {
    fn sigtop_restorer();
}

/// Address of the function that the kernel returns to from a handler of the agent's; it calls
/// rt_sigreturn(2).
pub(crate) fn restorer() -> usize {
    sigtop_restorer as *const () as usize
}

/// The instruction pointer that a seccomp filter sees when a handler of the agent's returns: the
/// address behind the restorer's system call.
pub(crate) fn sigreturn_address() -> u64 {
    /// Bytes of the restorer.
    const LENGTH: u64 = 9;
    sigtop_restorer as *const () as u64 + LENGTH
}

/// Defines a signal handler `$name` that calls `$body` with its arguments. While `$body` runs, a
/// mark lies below the handler's return address (see `HANDLER_MARK`).
macro_rules! signal_handler {
    ($name:ident calls $body:ident) => {
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "lea rax, [rsp - 8]",
                "movabs rcx, {mark}",
                "xor rax, rcx",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                "call {body}",
                "mov qword ptr [rsp], 0",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                mark = const $crate::arch::HANDLER_MARK,
                body = sym $body,
            )
        }
    };
}
pub(crate) use signal_handler;

/// Returns from the handler whose mark lies at this address. No frame in between is unwound.
///
/// # Safety
/// The mark must be one of the calling thread's own stack, found by `is_handler_frame`.
#[inline(always)]
pub(crate) unsafe fn return_from_handler(mark: usize) -> ! {
    // SAFETY: the caller guarantees it. The mark is erased, as the handler's own end does.
    unsafe {
        (mark as *mut u64).write_volatile(0);
        asm!("mov rsp, {}", "ret", in(reg) mark + 8, options(noreturn));
    }
}

/// Defines a signal handler `$name` that asks `$find_entry(signal, siginfo, ucontext, frame)` for a
/// `HandlerEntry` and jumps there, with the stack pointer at the entry's frame.
macro_rules! signal_redirect {
    ($name:ident asks $find_entry:ident) => {
        #[unsafe(naked)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
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
                find_entry = sym $find_entry,
                info = const $crate::arch::FRAME_SIGINFO,
                context = const $crate::arch::FRAME_UCONTEXT,
            )
        }
    };
}
pub(crate) use signal_redirect;

/// Jumps to a handler as the kernel would enter it with this signal frame.
///
/// # Safety
/// The frame must be a complete signal frame, and the handler a function that takes a handler's
/// arguments. Nothing on the present stack may be needed any more.
pub(crate) unsafe fn enter_handler(handler: usize, signal: i32, frame: usize) -> ! {
    // SAFETY: the caller guarantees it.
    unsafe {
        asm!(
            "mov rsp, r10", "jmp r11",
            in("r10") frame, in("r11") handler, in("eax") 0, in("edi") signal, in("rsi") frame + FRAME_SIGINFO,
            in("rdx") frame + FRAME_UCONTEXT, options(noreturn)
        )
    }
}

//! Signal handlers: how the kernel enters one, how it returns, and how the agent jumps out of its
//! own handler or into one of the program's.

use core::arch::asm;

use super::context::{FRAME_SIGINFO, FRAME_UCONTEXT, frame_state};

core::arch::global_asm!(
    // Returns from a handler. Unwinders recognize it by these very bytes, and by the instruction
    // before it.
    ".balign 16",
    "nop",
    ".globl sigtop_restorer",
    ".hidden sigtop_restorer",
    ".type sigtop_restorer, @function",
    "sigtop_restorer:",
    "mov x8, #139",
    "svc #0",
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

/// The program counter that a seccomp filter sees when a handler of the agent's returns: the
/// address behind the restorer's system call.
pub(crate) fn sigreturn_address() -> u64 {
    /// Bytes of the restorer.
    const LENGTH: u64 = 8;
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
                "sub x9, sp, #16",
                "mov x10, #{mark_0}",
                "movk x10, #{mark_1}, lsl #16",
                "movk x10, #{mark_2}, lsl #32",
                "movk x10, #{mark_3}, lsl #48",
                "eor x9, x9, x10",
                "stp x9, x30, [sp, #-16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset x30, -8",
                "bl {body}",
                "ldr x30, [sp, #8]",
                "str xzr, [sp], #16",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                mark_0 = const $crate::arch::HANDLER_MARK & 0xffff,
                mark_1 = const $crate::arch::HANDLER_MARK >> 16 & 0xffff,
                mark_2 = const $crate::arch::HANDLER_MARK >> 32 & 0xffff,
                mark_3 = const $crate::arch::HANDLER_MARK >> 48,
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
        asm!("ldr x30, [x9, #8]", "add sp, x9, #16", "ret", in("x9") mark, options(noreturn));
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
                // The kernel passes addresses to handlers with SA_SIGINFO alone.
                "add x1, sp, #{info}",
                "add x2, sp, #{context}",
                "mov x3, sp",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "str x0, [sp, #16]",
                "bl {find_entry}",
                "mov x16, x0",
                "ldr x0, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "cbz x16, 2f",
                // The record to which the frame pointer leads has moved by as much as the frame.
                "mov x9, sp",
                "sub x9, x1, x9",
                "add x29, x29, x9",
                "mov sp, x1",
                "add x2, x1, #{context}",
                "add x1, x1, #{info}",
                "br x16",
                "2: ret",
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
    /// Bytes from the record of the interrupted frame pointer to the end of what it is in.
    const RECORD: usize = 16;
    // SAFETY: the caller guarantees it.
    unsafe {
        let (state, length) = frame_state(frame + FRAME_UCONTEXT);
        asm!(
            "mov sp, x9", "mov x29, x10", "br x16",
            in("x9") frame, in("x10") state + length - RECORD, in("x16") handler, in("x30") restorer(),
            in("x0") signal, in("x1") frame + FRAME_SIGINFO, in("x2") frame + FRAME_UCONTEXT, options(noreturn)
        )
    }
}

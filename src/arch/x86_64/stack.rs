//! Switching to another stack and back.

use core::arch::naked_asm;

/// Calls `body(argument)` on the stack below `top` and returns 0. Returns 1 if `body` left through
/// [`leave_stack`].
///
/// The callee-saved registers stay on the caller's stack; the caller's stack pointer is kept in the
/// top word of the new stack.
///
/// # Safety
/// `top` must be the end of an unused stack, aligned to 16 bytes. `argument` must be what `body`
/// expects.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_on_stack(top: usize, body: extern "C" fn(*mut ()), argument: *mut ()) -> usize {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi - 8], rsp",
        "lea rsp, [rdi - 16]",
        "mov rdi, rdx",
        "xor ebp, ebp",
        "call rsi",
        "xor eax, eax",
        "mov rsp, [rsp + 8]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Returns from the [`call_on_stack`] that the caller runs in, as if its body had returned. No
/// frame in between is unwound.
///
/// # Safety
/// The caller must run on a stack that [`call_on_stack`] switched to, whose size is `SIZE`, a power
/// of two, and whose end is a multiple of `SIZE`. Nothing on that stack may need to be dropped.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave_stack<const SIZE: usize>() -> ! {
    naked_asm!(
        "lea rdi, [rsp - 1]",
        "or rdi, {mask}",
        "mov rsp, [rdi - 7]",
        "mov eax, 1",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        mask = const SIZE - 1,
    )
}

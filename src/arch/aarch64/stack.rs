//! Switching to another stack and back.

use core::arch::naked_asm;

/// Assembly that restores the callee-saved registers from the stack, and returns.
macro_rules! restore_and_return {
    () => {
        concat!(
            "ldp x19, x20, [sp, #16]\n",
            "ldp x21, x22, [sp, #32]\n",
            "ldp x23, x24, [sp, #48]\n",
            "ldp x25, x26, [sp, #64]\n",
            "ldp x27, x28, [sp, #80]\n",
            "ldp d8, d9, [sp, #96]\n",
            "ldp d10, d11, [sp, #112]\n",
            "ldp d12, d13, [sp, #128]\n",
            "ldp d14, d15, [sp, #144]\n",
            "ldp x29, x30, [sp], #160\n",
            "ret",
        )
    };
}

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
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0, #-8]",
        "sub sp, x0, #16",
        "mov x0, x2",
        "mov x29, xzr",
        "blr x1",
        "mov x0, #0",
        "ldr x9, [sp, #8]",
        "mov sp, x9",
        restore_and_return!(),
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
        "sub x9, sp, #1",
        "orr x9, x9, #{mask}",
        "ldur x9, [x9, #-7]",
        "mov sp, x9",
        "mov x0, #1",
        restore_and_return!(),
        mask = const SIZE - 1,
    )
}

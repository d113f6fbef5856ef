//! Naked functions that pass the caller's arguments on as they are.

/// Assembly that saves the registers in which a call may pass arguments, with the unwind tables
/// for it.
macro_rules! save_arguments {
    () => {
        concat!(
            "stp x29, x30, [sp, #-96]!\n.cfi_def_cfa_offset 96\n.cfi_offset x29, -96\n.cfi_offset x30, -88\n",
            "stp x0, x1, [sp, #16]\n",
            "stp x2, x3, [sp, #32]\n",
            "stp x4, x5, [sp, #48]\n",
            "stp x6, x7, [sp, #64]\n",
            "str x8, [sp, #80]\n",
        )
    };
}
pub(crate) use save_arguments;

/// Assembly that restores what [`save_arguments!`] saved.
macro_rules! restore_arguments {
    () => {
        concat!(
            "ldp x0, x1, [sp, #16]\n",
            "ldp x2, x3, [sp, #32]\n",
            "ldp x4, x5, [sp, #48]\n",
            "ldp x6, x7, [sp, #64]\n",
            "ldr x8, [sp, #80]\n",
            "ldp x29, x30, [sp], #96\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n",
        )
    };
}
pub(crate) use restore_arguments;

/// Assembly that jumps to the function whose address is in the static `{real}`.
macro_rules! jump_to_real {
    () => {
        "adrp x16, {real}\nldr x16, [x16, :lo12:{real}]\nbr x16"
    };
}
pub(crate) use jump_to_real;

/// The body of a naked function that calls `$before` with the first six arguments, and then jumps
/// to the function whose address is in the static `$real`. All arguments, those on the stack too,
/// are passed on.
macro_rules! call_before {
    ($before:ident, then $real:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::arch::save_arguments!(),
            "bl {before}",
            $crate::arch::restore_arguments!(),
            $crate::arch::jump_to_real!(),
            ".cfi_endproc",
            before = sym $before,
            real = sym $real,
        )
    };
}
pub(crate) use call_before;

/// The same, for a `$before` that returns a `bool`: where it is true, the function jumps to
/// `$instead`.
macro_rules! call_before_or {
    ($before:ident, then $real:path, or $instead:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::arch::save_arguments!(),
            "bl {before}",
            "mov w17, w0",
            $crate::arch::restore_arguments!(),
            "tbz w17, #0, 2f",
            "b {instead}",
            "2:",
            $crate::arch::jump_to_real!(),
            ".cfi_endproc",
            before = sym $before,
            instead = sym $instead,
            real = sym $real,
        )
    };
}
pub(crate) use call_before_or;

/// The body of a naked function of one argument that calls `$before` with it and jumps to the
/// `Continuation` that `$before` returns.
macro_rules! call_then_continue {
    ($before:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "bl {before}",
            "ldp x29, x30, [sp], #16",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "mov x16, x0",
            "mov x0, x1",
            "br x16",
            ".cfi_endproc",
            before = sym $before,
        )
    };
}
pub(crate) use call_then_continue;

/// The body of a naked function that calls `$body` with a pointer to the caller's registers, by
/// DWARF number: the callee-saved ones, the stack pointer, and the address that it returns to.
/// The others hold no meaningful value.
macro_rules! call_with_registers {
    ($body:ident) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "sub sp, sp, #272",
            ".cfi_def_cfa_offset 272",
            "stp x19, x20, [sp, #152]",
            "stp x21, x22, [sp, #168]",
            "stp x23, x24, [sp, #184]",
            "stp x25, x26, [sp, #200]",
            "stp x27, x28, [sp, #216]",
            "stp x29, x30, [sp, #232]",
            ".cfi_offset x29, -40",
            ".cfi_offset x30, -32",
            "add x9, sp, #272",
            "stp x9, x30, [sp, #248]",
            "mov x0, sp",
            "bl {body}",
            "ldp x29, x30, [sp, #232]",
            "add sp, sp, #272",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ret",
            ".cfi_endproc",
            body = sym $body,
        )
    };
}
pub(crate) use call_with_registers;

//! Naked functions that pass the caller's arguments on as they are.

/// Assembly that saves the registers in which a call may pass arguments, with the unwind tables
/// for it.
macro_rules! save_arguments {
    () => {
        concat!(
            "push rdi\n.cfi_adjust_cfa_offset 8\n",
            "push rsi\n.cfi_adjust_cfa_offset 8\n",
            "push rdx\n.cfi_adjust_cfa_offset 8\n",
            "push rcx\n.cfi_adjust_cfa_offset 8\n",
            "push r8\n.cfi_adjust_cfa_offset 8\n",
            "push r9\n.cfi_adjust_cfa_offset 8\n",
            "push rax\n.cfi_adjust_cfa_offset 8\n",
        )
    };
}
pub(crate) use save_arguments;

/// Assembly that restores what [`save_arguments!`] saved. The flags keep their values.
macro_rules! restore_arguments {
    () => {
        concat!(
            "pop rax\n.cfi_adjust_cfa_offset -8\n",
            "pop r9\n.cfi_adjust_cfa_offset -8\n",
            "pop r8\n.cfi_adjust_cfa_offset -8\n",
            "pop rcx\n.cfi_adjust_cfa_offset -8\n",
            "pop rdx\n.cfi_adjust_cfa_offset -8\n",
            "pop rsi\n.cfi_adjust_cfa_offset -8\n",
            "pop rdi\n.cfi_adjust_cfa_offset -8\n",
        )
    };
}
pub(crate) use restore_arguments;

/// The body of a naked function that calls `$before` with the first six arguments, and then jumps
/// to the function whose address is in the static `$real`. All arguments, those on the stack too,
/// are passed on.
macro_rules! call_before {
    ($before:ident, then $real:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::arch::save_arguments!(),
            "call {before}",
            $crate::arch::restore_arguments!(),
            "jmp [rip + {real}]",
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
            "call {before}",
            "test al, al",
            $crate::arch::restore_arguments!(),
            "jnz {instead}",
            "jmp [rip + {real}]",
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
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call {before}",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "mov rdi, rdx",
            "jmp rax",
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
            "sub rsp, 136",
            ".cfi_adjust_cfa_offset 136",
            "mov [rsp + 24], rbx",
            "mov [rsp + 48], rbp",
            "lea rax, [rsp + 144]",
            "mov [rsp + 56], rax",
            "mov [rsp + 96], r12",
            "mov [rsp + 104], r13",
            "mov [rsp + 112], r14",
            "mov [rsp + 120], r15",
            "mov rax, [rsp + 136]",
            "mov [rsp + 128], rax",
            "mov rdi, rsp",
            "call {body}",
            "add rsp, 136",
            ".cfi_adjust_cfa_offset -136",
            "ret",
            ".cfi_endproc",
            body = sym $body,
        )
    };
}
pub(crate) use call_with_registers;

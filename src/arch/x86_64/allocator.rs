//! Naked functions that stand in for those of an allocator: a few instructions, then a jump to the
//! real function with every argument unchanged.

const _: () = assert!(size_of::<crate::arch::SlowCall>() == 216);

/// The body of a naked function that subtracts the size of a call from the thread's countdown and
/// jumps to the function whose address is in the static `$real`. The first word says in which
/// arguments the size is; `Moved` asks the filter first (see [`freeing_function!`]), `Mapped` and
/// `Remapped` subtract nothing. The countdowns are at the start of
/// the table that `$tables` points to: 1024 of 64 bytes, each the thread pointer of its owner and
/// the bytes that are left.
///
/// If the countdown is another thread's, or has come to its end, the function calls
/// `$before(arguments, code)`, the real function, and `$after(SlowCall)`. The unwind tables let an
/// exception pass through.
macro_rules! allocating_function {
    (Size $($rest:tt)*) => { $crate::arch::allocating_function!(@ "", "rdi" $($rest)*) };
    (Product $($rest:tt)*) => {
        $crate::arch::allocating_function!(@ "mov r9, rdi\nimul r9, rsi", "r9" $($rest)*)
    };
    (Aligned $($rest:tt)*) => { $crate::arch::allocating_function!(@ "", "rsi" $($rest)*) };
    (Stored $($rest:tt)*) => { $crate::arch::allocating_function!(@ "", "rdx" $($rest)*) };
    (Moved $($rest:tt)*) => {
        $crate::arch::allocating_function!(@ concat!(
            "mov r10, [rip + {tables}]\n", "imul r11, rdi, {multiplier}\n", "shr r11, 32\n", "and r11d, 0x3fff\n",
            "cmp byte ptr [r10 + r11 + 0x10000], 0\n", "jne 3f",
        ), "rsi" $($rest)*)
    };
    (MovedProduct $($rest:tt)*) => {
        $crate::arch::allocating_function!(@ concat!(
            "mov r10, [rip + {tables}]\n", "imul r11, rdi, {multiplier}\n", "shr r11, 32\n", "and r11d, 0x3fff\n",
            "cmp byte ptr [r10 + r11 + 0x10000], 0\n", "jne 3f\n", "mov r9, rsi\n", "imul r9, rdx",
        ), "r9" $($rest)*)
    };
    // What does not count must not be subtracted, and the kernel takes longer than the decision.
    (Mapped $($rest:tt)*) => { $crate::arch::allocating_function!(@ "jmp 3f", "rsi" $($rest)*) };
    (Remapped $($rest:tt)*) => { $crate::arch::allocating_function!(Mapped $($rest)*) };
    (@ $first:expr, $size:literal, $code:expr, $tables:path, $before:path, $real:path, $after:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $first,
            "mov r10, [rip + {tables}]",
            "mov rax, fs:[0]",
            "imul r11, rax, {multiplier}",
            "shr r11, 26",
            "and r11d, 0xffc0",
            "add r10, r11",
            "cmp [r10], rax",
            "jne 3f",
            concat!("sub [r10 + 8], ", $size),
            "jc 2f",
            "js 2f",
            "jmp [rip + {real}]",
            "2: mov eax, {code}",
            "jmp 4f",
            "3: mov eax, {code} + {not_counted}",
            "4: sub rsp, 216",
            ".cfi_adjust_cfa_offset 216",
            "mov [rsp + 24], rbx",
            "mov [rsp + 48], rbp",
            "lea r10, [rsp + 224]",
            "mov [rsp + 56], r10",
            "mov [rsp + 96], r12",
            "mov [rsp + 104], r13",
            "mov [rsp + 112], r14",
            "mov [rsp + 120], r15",
            "mov r10, [rsp + 216]",
            "mov [rsp + 128], r10",
            "mov [rsp + 136], rdi",
            "mov [rsp + 144], rsi",
            "mov [rsp + 152], rdx",
            "mov [rsp + 160], rcx",
            "mov [rsp + 168], r8",
            "mov [rsp + 176], r9",
            "mov [rsp + 184], rax",
            "lea rdi, [rsp + 136]",
            "mov rsi, rax",
            "call {before}",
            "mov [rsp + 192], rax",
            "mov rdi, [rsp + 136]",
            "mov rsi, [rsp + 144]",
            "mov rdx, [rsp + 152]",
            "mov rcx, [rsp + 160]",
            "mov r8, [rsp + 168]",
            "mov r9, [rsp + 176]",
            "mov rax, [rip + {real}]",
            "mov [rsp + 208], rax",
            "call rax",
            "mov [rsp + 200], rax",
            "mov rdi, rsp",
            "call {after}",
            "mov rax, [rsp + 200]",
            "add rsp, 216",
            ".cfi_adjust_cfa_offset -216",
            "ret",
            ".cfi_endproc",
            tables = sym $tables,
            before = sym $before,
            real = sym $real,
            after = sym $after,
            code = const $code,
            not_counted = const $crate::arch::NOT_COUNTED,
            multiplier = const $crate::arch::HASH_MULTIPLIER,
        )
    };
}
pub(crate) use allocating_function;

/// The body of a naked function that jumps to the function whose address is in the static `$real`.
/// If the byte of the filter for the first argument is not 0, it calls `$before` with that argument
/// first. The filter are 16384 bytes, behind the countdowns in the table of `$tables`.
macro_rules! freeing_function {
    ($tables:path, $before:path, $real:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "mov r10, [rip + {tables}]",
            "imul r11, rdi, {multiplier}",
            "shr r11, 32",
            "and r11d, 0x3fff",
            "cmp byte ptr [r10 + r11 + 0x10000], 0",
            "jne 2f",
            "jmp [rip + {real}]",
            "2: push rdi",
            "push rsi",
            "push rdx",
            ".cfi_adjust_cfa_offset 24",
            "call {before}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            ".cfi_adjust_cfa_offset -24",
            "jmp [rip + {real}]",
            ".cfi_endproc",
            tables = sym $tables,
            before = sym $before,
            real = sym $real,
            multiplier = const $crate::arch::HASH_MULTIPLIER,
        )
    };
}
pub(crate) use freeing_function;

/// The body of a naked function that calls `$before` with its first two arguments and then jumps to
/// the function whose address is in the static `$real`.
macro_rules! unmapping_function {
    ($before:path, $real:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "push rdi",
            "push rsi",
            "push rdx",
            ".cfi_adjust_cfa_offset 24",
            "call {before}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            ".cfi_adjust_cfa_offset -24",
            "jmp [rip + {real}]",
            ".cfi_endproc",
            before = sym $before,
            real = sym $real,
        )
    };
}
pub(crate) use unmapping_function;

/// Whether a relocation of this type fills a word of an offset table with the address of a function
/// (`R_X86_64_GLOB_DAT`, `R_X86_64_JUMP_SLOT`).
pub(crate) fn is_slot_relocation(kind: u32) -> bool {
    matches!(kind, 6 | 7)
}

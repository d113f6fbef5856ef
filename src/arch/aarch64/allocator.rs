//! Naked functions that stand in for those of an allocator: a few instructions, then a jump to the
//! real function with every argument unchanged.

const _: () = assert!(size_of::<crate::arch::SlowCall>() == 344);

/// Assembly that loads the multiplier of hashes into `$register`.
macro_rules! load_multiplier {
    ($register:literal) => {
        concat!("mov ", $register, ", #{multiplier_low}\n", "movk ", $register, ", #{multiplier_high}, lsl #16\n",)
    };
}
pub(crate) use load_multiplier;

/// Assembly that goes to `$target` if the filter's byte for the address in x0 is not 0. The filter
/// are 16384 bytes, behind the countdowns in the table of `{tables}`.
macro_rules! branch_if_filtered {
    ($target:literal) => {
        concat!(
            "adrp x10, {tables}\n",
            "ldr x10, [x10, :lo12:{tables}]\n",
            $crate::arch::load_multiplier!("x11"),
            "mul x11, x0, x11\n",
            "ubfx x11, x11, #32, #14\n",
            "add x10, x10, #16, lsl #12\n",
            "ldrb w11, [x10, x11]\n",
            "cbnz w11, ",
            $target,
            "\n",
        )
    };
}
pub(crate) use branch_if_filtered;

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
    (Size $($rest:tt)*) => { $crate::arch::allocating_function!(@ "", "x0" $($rest)*) };
    (Product $($rest:tt)*) => { $crate::arch::allocating_function!(@ "mul x9, x0, x1", "x9" $($rest)*) };
    (Aligned $($rest:tt)*) => { $crate::arch::allocating_function!(@ "", "x1" $($rest)*) };
    (Stored $($rest:tt)*) => { $crate::arch::allocating_function!(@ "", "x2" $($rest)*) };
    (Moved $($rest:tt)*) => {
        $crate::arch::allocating_function!(@ $crate::arch::branch_if_filtered!("3f"), "x1" $($rest)*)
    };
    (MovedProduct $($rest:tt)*) => {
        $crate::arch::allocating_function!(
            @ concat!($crate::arch::branch_if_filtered!("3f"), "mul x9, x1, x2"), "x9" $($rest)*
        )
    };
    // What does not count must not be subtracted, and the kernel takes longer than the decision.
    (Mapped $($rest:tt)*) => { $crate::arch::allocating_function!(@ "b 3f", "x1" $($rest)*) };
    (Remapped $($rest:tt)*) => { $crate::arch::allocating_function!(Mapped $($rest)*) };
    (@ $first:expr, $size:literal, $code:expr, $tables:path, $before:path, $real:path, $after:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $first,
            "adrp x10, {tables}",
            "ldr x10, [x10, :lo12:{tables}]",
            "mrs x11, tpidr_el0",
            $crate::arch::load_multiplier!("x12"),
            "mul x12, x11, x12",
            "lsr x12, x12, #26",
            "and x12, x12, #0xffc0",
            "add x10, x10, x12",
            "ldr x12, [x10]",
            "cmp x12, x11",
            "b.ne 3f",
            "ldr x12, [x10, #8]",
            concat!("subs x12, x12, ", $size),
            "str x12, [x10, #8]",
            "b.lo 2f",
            "b.mi 2f",
            $crate::arch::jump_to_real!(),
            "2: mov x12, #{code}",
            "b 4f",
            "3: mov x12, #{code}",
            "orr x12, x12, #{not_counted}",
            "4: sub sp, sp, #352",
            ".cfi_def_cfa_offset 352",
            "stp x19, x20, [sp, #152]",
            "stp x21, x22, [sp, #168]",
            "stp x23, x24, [sp, #184]",
            "stp x25, x26, [sp, #200]",
            "stp x27, x28, [sp, #216]",
            "stp x29, x30, [sp, #232]",
            ".cfi_offset x29, -120",
            ".cfi_offset x30, -112",
            "add x9, sp, #352",
            "stp x9, x30, [sp, #248]",
            "stp x0, x1, [sp, #264]",
            "stp x2, x3, [sp, #280]",
            "stp x4, x5, [sp, #296]",
            "str x12, [sp, #312]",
            "add x0, sp, #264",
            "mov x1, x12",
            "bl {before}",
            "str x0, [sp, #320]",
            "ldp x0, x1, [sp, #264]",
            "ldp x2, x3, [sp, #280]",
            "ldp x4, x5, [sp, #296]",
            "adrp x16, {real}",
            "ldr x16, [x16, :lo12:{real}]",
            "str x16, [sp, #336]",
            "blr x16",
            "str x0, [sp, #328]",
            "mov x0, sp",
            "bl {after}",
            "ldr x0, [sp, #328]",
            "ldp x29, x30, [sp, #232]",
            "add sp, sp, #352",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ret",
            ".cfi_endproc",
            tables = sym $tables,
            before = sym $before,
            real = sym $real,
            after = sym $after,
            code = const $code,
            not_counted = const $crate::arch::NOT_COUNTED,
            multiplier_low = const $crate::arch::HASH_MULTIPLIER & 0xffff,
            multiplier_high = const $crate::arch::HASH_MULTIPLIER >> 16,
        )
    };
}
pub(crate) use allocating_function;

/// The body of a naked function that jumps to the function whose address is in the static `$real`.
/// If the byte of the filter for the first argument is not 0, it calls `$before` with that argument
/// first.
macro_rules! freeing_function {
    ($tables:path, $before:path, $real:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::arch::branch_if_filtered!("2f"),
            $crate::arch::jump_to_real!(),
            "2:",
            $crate::arch::save_arguments!(),
            "bl {before}",
            $crate::arch::restore_arguments!(),
            $crate::arch::jump_to_real!(),
            ".cfi_endproc",
            tables = sym $tables,
            before = sym $before,
            real = sym $real,
            multiplier_low = const $crate::arch::HASH_MULTIPLIER & 0xffff,
            multiplier_high = const $crate::arch::HASH_MULTIPLIER >> 16,
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
pub(crate) use unmapping_function;

/// Whether a relocation of this type fills a word of an offset table with the address of a function
/// (`R_AARCH64_GLOB_DAT`, `R_AARCH64_JUMP_SLOT`).
pub(crate) fn is_slot_relocation(kind: u32) -> bool {
    matches!(kind, 1025 | 1026)
}

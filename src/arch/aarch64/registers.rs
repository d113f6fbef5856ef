//! DWARF register numbers, and where the kernel saves the registers of interrupted code.

/// The machine in an ELF header (EM_AARCH64).
pub(crate) const ELF_MACHINE: u32 = 183;

/// The name of the processor.
#[cfg(feature = "viewer")]
pub(crate) const MACHINE: &str = "aarch64";

/// Number of bits of a program's addresses, unless it asks for more.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// Number of registers that unwinders know: x0 to x30, the stack pointer and the program counter.
/// Arrays of registers are indexed by their DWARF numbers.
pub(crate) const REGISTERS: usize = 33;
/// DWARF number of the frame pointer, x29.
pub(crate) const FRAME_POINTER: usize = 29;
/// DWARF number of the stack pointer.
pub(crate) const STACK_POINTER: usize = 31;
/// DWARF number of the program counter.
pub(crate) const PROGRAM_COUNTER: usize = 32;
/// Column of the return address in unwind tables, x30.
#[cfg(feature = "agent")]
pub(crate) const RETURN_ADDRESS: usize = 30;
/// DWARF number of the register in which a call leaves its return address, x30.
pub(crate) const LINK_REGISTER: Option<usize> = Some(LINK);
pub(super) const LINK: usize = 30;
/// DWARF numbers of the registers that a function must restore before it returns, besides the stack
/// pointer. The frame pointer is the first.
pub(crate) const CALLEE_SAVED: [usize; 11] = [FRAME_POINTER, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];

/// DWARF numbers of the registers in which a landing pad receives its exception, x0 and x1. Only
/// functions with `__builtin_eh_return` save them.
pub(crate) const EH_RETURN_DATA: [usize; 2] = [0, 1];
/// Number of registers in libgcc's `struct _Unwind_Context` (`DWARF_FRAME_REGISTERS`).
#[cfg(feature = "agent")]
pub(crate) const CONTEXT_REGISTERS: u64 = 97;

/// Whether the caller's stack pointer follows from a frame pointer: nothing lies above the frame's
/// record, which is the caller's frame pointer and the return address.
pub(crate) const RECORD_ENDS_FRAME: bool = false;

/// Bytes below the stack pointer that a leaf function may use without moving it.
pub(crate) const RED_ZONE: u64 = 0;
/// Bytes that a call pushes.
pub(crate) const PUSHED_BY_CALL: u64 = 0;

/// Words of a `ucontext` that hold the registers, by DWARF number. The kernel's order is the same,
/// starting at word 23, behind the mask of signals and the address of a fault.
pub(crate) const CONTEXT_WORDS: [u64; REGISTERS] = {
    let mut words = [0; REGISTERS];
    let mut number = 0;
    while number < REGISTERS {
        words[number] = 23 + number as u64;
        number += 1;
    }
    words
};

/// Bytes from the stack pointer, when a signal handler has returned, to the `ucontext`: it lies
/// behind the `siginfo`.
pub(crate) const CONTEXT_AT_RETURN: u64 = 128;

/// Returns an address without the signature that a function may have put into its upper bits
/// (pointer authentication).
#[inline(always)]
pub(crate) fn strip_signature(address: u64) -> u64 {
    let stripped;
    // SAFETY: the instruction (xpaclri) changes x30 alone, and does nothing on processors without
    // signatures.
    unsafe {
        core::arch::asm!("hint #7", inlateout("x30") address => stripped, options(pure, nomem, nostack, preserves_flags))
    };
    stripped
}

//! DWARF register numbers, and where the kernel saves the registers of interrupted code.

/// The machine in an ELF header (EM_X86_64).
pub(crate) const ELF_MACHINE: u32 = 62;

/// The name of the processor.
#[cfg(feature = "viewer")]
pub(crate) const MACHINE: &str = "x86-64";

/// Number of bits of a program's addresses, unless it asks for more.
pub(crate) const ADDRESS_BITS: u32 = 47;

/// Number of registers that unwinders know: the 16 general ones and the instruction pointer. Arrays
/// of registers are indexed by their DWARF numbers.
pub(crate) const REGISTERS: usize = 17;
/// DWARF number of the frame pointer, rbp.
pub(crate) const FRAME_POINTER: usize = 6;
/// DWARF number of the stack pointer, rsp.
pub(crate) const STACK_POINTER: usize = 7;
/// DWARF number of the instruction pointer.
pub(crate) const PROGRAM_COUNTER: usize = 16;
/// Column of the return address in unwind tables.
#[cfg(feature = "agent")]
pub(crate) const RETURN_ADDRESS: usize = PROGRAM_COUNTER;
/// DWARF number of the register in which a call leaves its return address: it pushes it instead.
pub(crate) const LINK_REGISTER: Option<usize> = None;
/// DWARF numbers of the registers that a function must restore before it returns, besides the stack
/// pointer. The frame pointer is the first.
pub(crate) const CALLEE_SAVED: [usize; 6] = [FRAME_POINTER, 3, 12, 13, 14, 15];

/// DWARF numbers of the registers in which a landing pad receives its exception, rax and rdx. Only
/// functions with `__builtin_eh_return` save them.
pub(crate) const EH_RETURN_DATA: [usize; 2] = [0, 1];

/// Number of registers in libgcc's `struct _Unwind_Context` (`DWARF_FRAME_REGISTERS`).
#[cfg(feature = "agent")]
pub(crate) const CONTEXT_REGISTERS: u64 = 17;

/// Whether the caller's stack pointer follows from a frame pointer: nothing lies above the frame's
/// record, which is the caller's frame pointer and the return address.
pub(crate) const RECORD_ENDS_FRAME: bool = true;

/// Bytes below the stack pointer that a leaf function may use without moving it.
pub(crate) const RED_ZONE: u64 = 128;
/// Bytes that a call pushes: the return address.
pub(crate) const PUSHED_BY_CALL: u64 = 8;

/// Words of a `ucontext` that hold the registers, by DWARF number (rax, rdx, rcx, rbx, rsi, rdi,
/// rbp, rsp, r8 …). The kernel's order is r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
/// starting at word 5.
pub(crate) const CONTEXT_WORDS: [u64; REGISTERS] = [18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12, 21];

/// Bytes from the stack pointer, when a signal handler has returned, to the `ucontext`.
pub(crate) const CONTEXT_AT_RETURN: u64 = 0;

/// Returns an address without a signature: functions do not sign their return addresses.
#[inline(always)]
pub(crate) fn strip_signature(address: u64) -> u64 {
    address
}

//! DWARF register numbers, and where the kernel saves the registers of interrupted code.

/// The machine in an ELF header (EM_X86_64).
pub(crate) const ELF_MACHINE: u32 = 62;

/// Number of registers that unwinders know: the 16 general ones and the instruction pointer. Arrays
/// of registers are indexed by their DWARF numbers.
pub(crate) const REGISTERS: usize = 17;
/// DWARF number of the frame pointer, rbp.
pub(crate) const FRAME_POINTER: usize = 6;
/// DWARF number of the stack pointer, rsp.
pub(crate) const STACK_POINTER: usize = 7;
/// DWARF number of the instruction pointer, which is also the column of the return address.
pub(crate) const PROGRAM_COUNTER: usize = 16;
/// DWARF numbers of the registers that a function must restore before it returns, besides the stack
/// pointer.
pub(crate) const CALLEE_SAVED: [usize; 6] = [3, FRAME_POINTER, 12, 13, 14, 15];

/// DWARF numbers of the registers in which a landing pad receives its exception, rax and rdx. Only
/// functions with `__builtin_eh_return` save them.
pub(crate) const EH_RETURN_DATA: [usize; 2] = [0, 1];

/// Bytes below the stack pointer that a leaf function may use without moving it.
pub(crate) const RED_ZONE: u64 = 128;

/// Words of a `ucontext` that hold the registers, by DWARF number (rax, rdx, rcx, rbx, rsi, rdi,
/// rbp, rsp, r8 …). The kernel's order is r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
/// starting at word 5.
pub(crate) const CONTEXT_WORDS: [u64; REGISTERS] = [18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12, 21];

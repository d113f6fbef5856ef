//! The effect of an instruction of compiled code on the stack, on the registers that functions
//! restore, and on the flow of control. The decoders of all processors return it.

/// The effect of an instruction. Registers have their DWARF numbers. Offsets of targets count from
/// the start of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "viewer"), allow(dead_code, reason = "some decoders of prologues know only a part"))]
pub(crate) enum Operation {
    /// A register becomes another one plus a constant.
    Add { to: usize, from: usize, constant: i64 },
    /// Registers are loaded from memory.
    Load(Transfer),
    /// Registers are stored. The stack pointer stands for a value that is not known.
    Store(Transfer),
    /// The stack pointer is decreased to a multiple of a power of two, in terms of a register.
    Align { from: usize, mask: i64 },
    /// Registers are changed otherwise, if any is that functions restore.
    Change([Option<usize>; 2]),
    /// Control goes to a function and back.
    Call,
    /// Control goes to an address.
    Jump(i64),
    /// Control goes to an address or to the next instruction.
    Branch(i64),
    /// Control goes to the caller, with so many bytes removed from the stack besides the return
    /// address.
    Return(i32),
    /// Control goes to an address that is not known.
    Elsewhere,
    /// The program ends.
    End,
}

/// A load or store of one or two whole general registers at `base + offset`, 8 bytes each; `None`
/// stands for other registers. Then `to` becomes the old base plus `added`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "viewer"), allow(dead_code, reason = "prologues need only a part of it"))]
pub(crate) struct Transfer {
    /// The registers, the one at the lower address first.
    pub(crate) registers: [Option<usize>; 2],
    /// The register that holds the address.
    pub(crate) base: usize,
    /// Bytes from the base to the first register.
    pub(crate) offset: i64,
    /// The register that changes, mostly the base.
    pub(crate) to: usize,
    /// Bytes that it is further than the base.
    pub(crate) added: i64,
}

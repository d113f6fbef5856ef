//! The layouts and marks that naked functions share with the code around them.

/// The flag of an action that names its restorer (`SA_RESTORER`).
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;

/// The word below a handler's return address is its own address, changed by this value. So
/// [`is_handler_frame`] can find a running handler on the stack.
pub(crate) const HANDLER_MARK: u64 = 0x7369_6774_6f70_5e7f;

/// Returns whether the word at this address is the mark of a running `signal_handler!`.
///
/// # Safety
/// The word must be readable.
#[inline(always)]
pub(crate) unsafe fn is_handler_frame(address: usize) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { (address as *const u64).read_volatile() == address as u64 ^ HANDLER_MARK }
}

/// A signal handler to enter. A `handler` of 0 means that none is entered.
#[repr(C)]
pub(crate) struct HandlerEntry {
    /// Address of the handler.
    pub(crate) handler: usize,
    /// Address of its signal frame.
    pub(crate) frame: usize,
}

/// A function and its argument, in the two registers in which a function returns two words.
#[repr(C)]
pub(crate) struct Continuation {
    /// Address of the function.
    pub(crate) function: usize,
    /// Its only argument.
    pub(crate) argument: usize,
}

/// Multiplier of the hash of thread pointers and of addresses: its product's bits from 32 on are
/// used.
pub(crate) const HASH_MULTIPLIER: u64 = 0x61c8_8647;
/// Bit of a [`SlowCall::code`]: the bytes of the call were not subtracted yet.
pub(crate) const NOT_COUNTED: usize = 1 << 16;

/// A call that is not passed on by a jump, as `allocating_function!` keeps it on the stack.
#[repr(C)]
pub(crate) struct SlowCall {
    /// The caller's registers by DWARF number: the callee-saved ones, the stack pointer, and the
    /// address that the call returns to.
    pub(crate) registers: [u64; super::REGISTERS],
    /// The arguments of the call.
    pub(crate) arguments: [usize; 6],
    /// The code of the function, and [`NOT_COUNTED`].
    pub(crate) code: usize,
    /// The result of `before`.
    pub(crate) token: usize,
    /// The result of the real function.
    pub(crate) result: usize,
    /// Address of the real function.
    pub(crate) real: usize,
}

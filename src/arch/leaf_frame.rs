//! The frame of a function that has its return address in a register. Where calls push return
//! addresses, there is none.

/// The stack of a thread that sleeps in such a function, and the code around it.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "calls push return addresses"))]
pub(crate) trait LeafFrame {
    /// Returns the word of the stack at an address.
    fn word(&mut self, address: u64) -> Option<u64>;

    /// Copies code.
    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()>;

    /// Returns a word of a file's data.
    fn pointer(&mut self, address: u64) -> Option<u64>;

    /// Returns the first address of the function around an address; `None` if no table describes
    /// it.
    fn function_start(&mut self, address: u64) -> Option<u64>;

    /// Returns the return address of the caller, if its call is the one before the address `call`.
    fn return_address(&mut self, call: u64) -> Option<u64>;
}

/// The caller of a function that has its return address in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "calls push return addresses"))]
pub(crate) struct LeafCaller {
    /// Its first address.
    pub(crate) function: u64,
    /// The address behind its call; behind the first if there are several.
    pub(crate) return_address: u64,
    /// Whether there is no other call.
    pub(crate) is_only: bool,
}

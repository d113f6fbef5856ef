//! The processor architecture: what instructions do to the stack, and to the registers that
//! functions restore. The other modules use the names below and nothing else.

#[cfg(target_arch = "aarch64")]
mod aarch64_code;
#[cfg(target_arch = "aarch64")]
pub(super) use aarch64_code::*;
#[cfg(target_arch = "x86_64")]
mod x86_64_code;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64_code::*;

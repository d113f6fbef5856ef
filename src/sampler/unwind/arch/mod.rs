//! The processor architecture: everything in this folder that names a register, an instruction or
//! a layout that the kernel's ABI defines differently for each architecture. The other modules use
//! the names below and nothing else.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
mod x86_64_code;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64_code::*;

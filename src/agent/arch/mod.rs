//! The processor architecture: everything in the agent that names a register, an instruction or
//! a layout that the kernel's ABI defines differently for each architecture.
//!
//! The other rooms use the names below and nothing else. To add an architecture, write a module
//! that defines the same items as [`x86_64`], and select it here.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

//! The processor architecture: the instructions of code that no table covers. The other modules use
//! the names below and nothing else.

#[cfg(target_arch = "x86_64")]
mod x86_64_code;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64_code::*;

//! The kernel's and the loader's interface, without libc.

pub(crate) mod coarse_clock;
pub(crate) mod credentials;
pub(crate) mod libc_functions;
pub(crate) mod loader;
pub(crate) mod maps;
pub(crate) mod memory;
pub(crate) mod process_memory;
pub(crate) mod socket;
pub(crate) mod status;
pub(crate) mod syscall;
pub(crate) mod text;
pub(crate) mod user_dispatch;

//! Numbers of system calls.

/// Returns the number by which messages and recordings name a system call that blocks: its own.
pub(crate) fn recorded_call(number: u32) -> u32 {
    number
}

/// System calls that younger processors do not have.
#[cfg(feature = "viewer")]
pub(crate) mod old_calls {
    pub(crate) use libc::{SYS_access as ACCESS, SYS_epoll_wait as EPOLL_WAIT, SYS_lstat as LSTAT};
    pub(crate) use libc::{SYS_open as OPEN, SYS_readlink as READLINK, SYS_stat as STAT};
}

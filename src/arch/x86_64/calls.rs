//! Numbers of system calls.

/// Returns the number by which messages and recordings name a system call that blocks: its own.
pub(crate) fn recorded_call(number: u32) -> u32 {
    number
}

/// System calls that younger processors do not have.
#[cfg(feature = "viewer")]
pub(crate) mod old_calls {
    pub(crate) const OPEN: i64 = libc::SYS_open;
    pub(crate) const STAT: i64 = libc::SYS_stat;
    pub(crate) const LSTAT: i64 = libc::SYS_lstat;
    pub(crate) const ACCESS: i64 = libc::SYS_access;
    pub(crate) const READLINK: i64 = libc::SYS_readlink;
    pub(crate) const EPOLL_WAIT: i64 = libc::SYS_epoll_wait;
}

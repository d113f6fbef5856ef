//! `CLOCK_MONOTONIC` as of the kernel's last tick. The kernel's own function in the vdso reads it
//! from a page of memory: no system call, and not the time-stamp counter, which a process may
//! forbid itself. Timers of CPU time expire at ticks, so it is exact enough for them.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::os::loader;
use crate::arch::VDSO_CLOCK_GETTIME;

/// Address of the kernel's function; 0 before [`look_up`], and where there is none.
static CLOCK_GETTIME: AtomicUsize = AtomicUsize::new(0);

/// Looks the function up. For the constructor.
pub(crate) fn look_up() {
    CLOCK_GETTIME.store(loader::first_definition(VDSO_CLOCK_GETTIME), Ordering::Relaxed);
}

/// Returns the time, ns; 0 if it is not known.
pub(crate) fn now_ns() -> u64 {
    let address = CLOCK_GETTIME.load(Ordering::Relaxed);
    if address == 0 {
        return 0;
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel's function, which has this signature, may be called from handlers, and
    // writes the time.
    let failed = unsafe {
        let clock_gettime: extern "C" fn(c_int, *mut libc::timespec) -> c_int = core::mem::transmute(address);
        clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now)
    };
    if failed == 0 { now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::os::syscall;

    #[test]
    fn it_is_at_most_a_tick_behind() {
        look_up();
        let (before, now) = (syscall::monotonic_ns(), now_ns());
        // A tick is 10 ms at most, and a virtual machine may miss some.
        assert!(now > before.saturating_sub(1_000_000_000) && now <= syscall::monotonic_ns(), "{now} at {before}");
        CLOCK_GETTIME.store(0, Ordering::Relaxed);
        assert_eq!(now_ns(), 0);
        look_up();
    }
}

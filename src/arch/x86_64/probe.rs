//! Questions to the processor and to what emulates it.

use core::arch::asm;
use core::ffi::CStr;

/// The name of `clock_gettime` in the vdso. vdso(7)
pub(crate) const VDSO_CLOCK_GETTIME: &CStr = c"__vdso_clock_gettime";
/// The vdso's function to which handlers return if their action names no restorer: there is none.
pub(crate) const VDSO_SIGRETURN: Option<&CStr> = None;

/// Whether Valgrind runs the program, asked by its own client request (`RUNNING_ON_VALGRIND`).
pub(crate) fn is_under_valgrind() -> bool {
    let request: [u64; 6] = [0x1001, 0, 0, 0, 0, 0];
    let mut answer = 0u64;
    // SAFETY: without Valgrind these instructions change nothing.
    unsafe {
        asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inlateout("rdx") answer, in("rax") request.as_ptr(), options(nostack));
    }
    answer != 0
}

/// Whether the calling thread has a shadow stack, which checks return addresses: then only the
/// kernel can enter a signal handler.
pub(crate) fn has_shadow_stack() -> bool {
    let mut pointer = 0usize;
    // SAFETY: reads a register; does nothing where there are no shadow stacks.
    unsafe { asm!("rdsspq {}", inout(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer != 0
}

/// The time-stamp counter, in cycles.
#[cfg(sigtop_timed)]
pub(crate) fn read_cycles() -> u64 {
    // SAFETY: the instruction exists on every x86-64.
    unsafe { core::arch::x86_64::_rdtsc() }
}

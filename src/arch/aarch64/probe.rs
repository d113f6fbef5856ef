//! Questions to the processor and to what emulates it.

use core::arch::asm;
use core::ffi::CStr;

/// The name of `clock_gettime` in the vdso. vdso(7)
pub(crate) const VDSO_CLOCK_GETTIME: &CStr = c"__kernel_clock_gettime";
/// The vdso's function to which handlers return if their action names no restorer.
pub(crate) const VDSO_SIGRETURN: Option<&CStr> = Some(c"__kernel_rt_sigreturn");

/// Whether Valgrind runs the program, asked by its own client request (`RUNNING_ON_VALGRIND`).
pub(crate) fn is_under_valgrind() -> bool {
    let request: [u64; 6] = [0x1001, 0, 0, 0, 0, 0];
    let mut answer = 0u64;
    // SAFETY: without Valgrind these instructions change nothing but x12, which is given away.
    unsafe {
        asm!("ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61", "orr x10, x10, x10",
            inlateout("x3") answer, in("x4") request.as_ptr(), out("x12") _, options(nostack));
    }
    answer != 0
}

/// Whether the calling thread has a shadow stack, which checks return addresses (guarded control
/// stack): then only the kernel can enter a signal handler.
pub(crate) fn has_shadow_stack() -> bool {
    let mut feature = 1u64;
    // SAFETY: the instruction (chkfeat) clears the bits of features that are on, and does nothing
    // on processors without it.
    unsafe { asm!("hint #40", inout("x16") feature, options(nomem, nostack, preserves_flags)) };
    feature == 0
}

/// The counter of the system's ticks.
#[cfg(sigtop_timed)]
pub(crate) fn read_cycles() -> u64 {
    let count;
    // SAFETY: reads a register that the kernel lets programs read.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

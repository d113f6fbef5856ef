//! Raw system calls, `clone(2)` with a new stack, and the thread pointer.

use core::arch::asm;

/// The value of `arch` in the data of a seccomp filter (`AUDIT_ARCH_AARCH64`).
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Makes one system call. Returns what the kernel returns: a negative number is an error.
///
/// # Safety
/// The arguments must be valid for that call, as its manual page says.
#[inline(always)]
pub(crate) unsafe fn raw_syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel preserves everything but x0; the caller guarantees that the arguments are
    // valid.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack));
    }
    result
}

/// Makes a thread that runs `main` on its own stack. Returns what clone(2) returns to the parent.
///
/// # Safety
/// The stack below `stack_top` and the block at `tls` must be the new thread's alone, `tid` must
/// be valid for as long as the thread lives, and `main` must not return.
pub(crate) unsafe fn clone_thread(
    flags: usize,
    stack_top: usize,
    tid: *mut u32,
    tls: usize,
    main: extern "C" fn() -> !,
) -> isize {
    let result: isize;
    // SAFETY: the child has a stack and a block of its own, runs `main` and never returns; the
    // parent continues. The kernel preserves x9 in both.
    unsafe {
        asm!(
            "svc #0", "cbnz x0, 2f", "mov x29, xzr", "mov x30, xzr", "blr x9", "brk #1", "2:",
            in("x8") libc::SYS_clone, inlateout("x0") flags => result, in("x1") stack_top, in("x2") tid, in("x3") tls,
            in("x4") tid, in("x9") main as usize,
        );
    }
    result
}

/// Initializes a block for thread-local storage that holds no variables: it is empty.
///
/// # Safety
/// Three words at `block` must be writable and unused.
pub(crate) unsafe fn write_tls_block(_block: usize) {}

/// The calling thread's pointer.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    pointer
}

/// The address of a weak symbol, or 0 if no loaded object defines it. The address is read from the
/// global offset table, because `extern_weak` linkage is not stable in Rust.
macro_rules! weak_address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: loads a word of this library's own, filled in by the loader.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name), concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"), out(reg) address,
                options(nostack, pure, readonly, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use weak_address;

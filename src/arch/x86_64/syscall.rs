//! Raw system calls, `clone(2)` with a new stack, and the thread pointer.

use core::arch::asm;

/// The value of `arch` in the data of a seccomp filter (`AUDIT_ARCH_X86_64`).
pub(crate) const AUDIT_ARCH: u32 = 0xc000_003e;

/// Makes one system call. Returns what the kernel returns: a negative number is an error.
///
/// # Safety
/// The arguments must be valid for that call, as its manual page says.
#[inline(always)]
pub(crate) unsafe fn raw_syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel preserves everything but rax, rcx and r11; the caller guarantees that the
    // arguments are valid.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
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
    // parent continues. The kernel preserves r9 in both.
    unsafe {
        asm!(
            "syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "call r9", "ud2", "2:",
            inlateout("rax") libc::SYS_clone as isize => result, in("rdi") flags, in("rsi") stack_top,
            in("rdx") tid, in("r10") tid, in("r8") tls, in("r9") main as usize,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Initializes a block for thread-local storage that holds no variables. Its first and third word
/// point to the block itself, as the ABI demands.
///
/// # Safety
/// Three words at `block` must be writable and unused.
pub(crate) unsafe fn write_tls_block(block: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        *(block as *mut usize) = block;
        *((block + 16) as *mut usize) = block;
    }
}

/// The calling thread's pointer: the first word of its control block, which points to itself.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a word that the ABI for thread-local storage demands.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
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
                concat!(".weak ", $name), concat!("mov {}, [rip + ", $name, "@GOTPCREL]"), out(reg) address,
                options(nostack, pure, readonly, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use weak_address;

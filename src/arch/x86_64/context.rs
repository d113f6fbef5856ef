//! The layouts in which the kernel saves an interrupted context.

use super::registers::{CONTEXT_WORDS, STACK_POINTER};

/// Word of a `ucontext` that holds the start of the alternate stack.
pub(crate) const UC_STACK_START: usize = 2;
/// Word of a `ucontext` that holds the flags of the alternate stack.
pub(crate) const UC_STACK_FLAGS: usize = 3;
/// Word of a `ucontext` that holds the size of the alternate stack.
pub(crate) const UC_STACK_SIZE: usize = 4;
/// Word of a `ucontext` that holds the interrupted stack pointer.
pub(crate) const UC_SP: usize = CONTEXT_WORDS[STACK_POINTER] as usize;
/// Word of a `ucontext` that holds the address of the floating-point state, or 0.
const UC_FP_STATE: usize = 28;
/// Word of a `ucontext` that holds the signal mask of the interrupted code.
pub(crate) const UC_SIGMASK: usize = 37;

/// Returns whether the interrupted code seems to have made a system call that a signal has ended:
/// whether the register of results holds -EINTR.
///
/// # Safety
/// `context` must be the kernel's ucontext.
#[inline(always)]
pub(crate) unsafe fn is_call_interrupted(context: *const u64) -> bool {
    const RESULT: usize = CONTEXT_WORDS[0] as usize;
    // SAFETY: the caller guarantees it.
    unsafe { *context.add(RESULT) as i64 == -i64::from(libc::EINTR) }
}

/// Offset of the `ucontext` in the kernel's signal frame, behind the return address.
pub(crate) const FRAME_UCONTEXT: usize = 8;
/// Offset of the `siginfo` in the kernel's signal frame.
pub(crate) const FRAME_SIGINFO: usize = 312;
/// Size of the kernel's signal frame without the floating-point state, in bytes.
pub(crate) const FRAME_SIZE: usize = 440;
/// Alignment of the floating-point state, in bytes.
pub(crate) const FRAME_STATE_ALIGNMENT: usize = 64;

/// Returns the address and the size in bytes of the floating-point state of a signal frame, which
/// lies above it. Both are 0 if there is none.
///
/// # Safety
/// `context` must be the address of the kernel's ucontext.
pub(crate) unsafe fn frame_state(context: usize) -> (usize, usize) {
    /// Bytes of the state without extensions.
    const LEGACY_SIZE: usize = 512;
    /// Offset of `FP_XSTATE_MAGIC1` and of the size with extensions (`struct _fpx_sw_bytes`).
    const MAGIC_OFFSET: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    // SAFETY: the caller guarantees it, and a state has at least 512 bytes.
    unsafe {
        let state = *(context as *const usize).add(UC_FP_STATE);
        if state == 0 {
            return (0, 0);
        }
        match *((state + MAGIC_OFFSET) as *const [u32; 2]) {
            [MAGIC, size] => (state, size as usize),
            _ => (state, LEGACY_SIZE),
        }
    }
}

/// Notes in a copied `ucontext` where its floating-point state was copied to.
///
/// # Safety
/// `context` must be the address of a whole copy of a ucontext, which is not the kernel's any more.
pub(crate) unsafe fn set_frame_state(context: usize, _from: usize, to: usize) {
    // SAFETY: the caller guarantees it.
    unsafe { *(context as *mut usize).add(UC_FP_STATE) = to };
}

/// The address where the kernel puts a signal frame below `top`: so that the stack pointer is
/// misaligned by the return address, as after a call. `None` if the address would be negative.
pub(crate) fn frame_below(top: usize) -> Option<usize> {
    (top.checked_sub(FRAME_SIZE)? & !15).checked_sub(8)
}

/// Instruction, stack and frame pointer of the caller.
#[cfg(test)]
#[inline(always)]
pub(crate) fn current_registers() -> (u64, u64, u64) {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads registers only.
    unsafe { core::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp) };
    (pc, sp, fp)
}

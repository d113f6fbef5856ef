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
pub(crate) const UC_FP_STATE: usize = 28;
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
pub(crate) const FP_STATE_ALIGNMENT: usize = 64;

/// The size in bytes of the floating-point state at this address; 0 if the address is 0.
///
/// # Safety
/// `state` must be 0 or the address of a floating-point state, which has at least 512 bytes.
pub(crate) unsafe fn fp_state_size(state: usize) -> usize {
    /// Bytes of the state without extensions.
    const LEGACY_SIZE: usize = 512;
    /// Offset of `FP_XSTATE_MAGIC1` and of the size with extensions (`struct _fpx_sw_bytes`).
    const MAGIC_OFFSET: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    if state == 0 {
        return 0;
    }
    // SAFETY: the caller gives the address of a state of at least 512 bytes.
    unsafe {
        match *((state + MAGIC_OFFSET) as *const [u32; 2]) {
            [MAGIC, size] => size as usize,
            _ => LEGACY_SIZE,
        }
    }
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

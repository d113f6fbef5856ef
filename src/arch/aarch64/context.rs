//! The layouts in which the kernel saves an interrupted context.
//!
//! A signal frame is one piece: the `siginfo`, the `ucontext`, space for the registers that do not
//! fit there (SVE), and above it a record of the interrupted frame pointer and return address, to
//! which the handler's frame pointer leads.

use super::registers::{CONTEXT_WORDS, STACK_POINTER};

/// Word of a `ucontext` that holds the start of the alternate stack.
pub(crate) const UC_STACK_START: usize = 2;
/// Word of a `ucontext` that holds the flags of the alternate stack.
pub(crate) const UC_STACK_FLAGS: usize = 3;
/// Word of a `ucontext` that holds the size of the alternate stack.
pub(crate) const UC_STACK_SIZE: usize = 4;
/// Word of a `ucontext` that holds the interrupted stack pointer.
pub(crate) const UC_SP: usize = CONTEXT_WORDS[STACK_POINTER] as usize;
/// Word of a `ucontext` that holds the signal mask of the interrupted code.
pub(crate) const UC_SIGMASK: usize = 5;

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

/// Offset of the `ucontext` in the kernel's signal frame.
pub(crate) const FRAME_UCONTEXT: usize = 128;
/// Offset of the `siginfo` in the kernel's signal frame.
pub(crate) const FRAME_SIGINFO: usize = 0;
/// Size of the kernel's signal frame without what lies above it, in bytes.
pub(crate) const FRAME_SIZE: usize = FRAME_UCONTEXT + RECORDS + RECORDS_SIZE;
/// Alignment of what lies above it, in bytes.
pub(crate) const FRAME_STATE_ALIGNMENT: usize = 16;
/// Offset in the `ucontext` of the records of further registers, and their size in bytes.
const RECORDS: usize = 464;
const RECORDS_SIZE: usize = 4096;
/// Size of the record of the interrupted frame pointer and return address.
const FRAME_RECORD: usize = 16;

const _: () = assert!(FRAME_SIZE == 4688);

/// A record that says where further registers are (`struct extra_context`).
#[repr(C)]
struct ExtraContext {
    magic: u32,
    size: u32,
    data: usize,
    data_size: u32,
}

/// Returns the record of further registers of a `ucontext`, if it has one.
unsafe fn extra_context(context: usize) -> Option<*mut ExtraContext> {
    const MAGIC: u32 = 0x4558_5401;
    let mut at = 0;
    while at + size_of::<ExtraContext>() <= RECORDS_SIZE {
        let record = (context + RECORDS + at) as *mut ExtraContext;
        // SAFETY: within the records of a ucontext of the kernel's.
        match unsafe { ((*record).magic, (*record).size) } {
            (MAGIC, _) => return Some(record),
            (0, _) | (_, 0) => return None,
            (_, size) => at += size as usize,
        }
    }
    None
}

/// Returns the address and the size in bytes of what lies above a signal frame.
///
/// # Safety
/// `context` must be the address of the kernel's ucontext.
pub(crate) unsafe fn frame_state(context: usize) -> (usize, usize) {
    let start = context - FRAME_UCONTEXT + FRAME_SIZE;
    // SAFETY: the caller guarantees it.
    let end =
        unsafe { extra_context(context).map_or(start, |extra| start.max((*extra).data + (*extra).data_size as usize)) };
    (start, end.next_multiple_of(16) + FRAME_RECORD - start)
}

/// Notes in a copied `ucontext` where what lies above its frame was copied to.
///
/// # Safety
/// `context` must be the address of a whole copy of a ucontext, which is not the kernel's any more.
pub(crate) unsafe fn set_frame_state(context: usize, from: usize, to: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        if let Some(extra) = extra_context(context) {
            (*extra).data = (*extra).data.wrapping_add(to).wrapping_sub(from);
        }
    }
}

/// The address where the kernel puts a signal frame below what lies above it. `None` if the address
/// would be negative.
pub(crate) fn frame_below(top: usize) -> Option<usize> {
    Some(top.checked_sub(FRAME_SIZE)? & !15)
}

/// Program counter, stack and frame pointer of the caller.
#[cfg(test)]
#[inline(always)]
pub(crate) fn current_registers() -> (u64, u64, u64) {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads registers only.
    unsafe { core::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", out(reg) pc, out(reg) sp, out(reg) fp) };
    (pc, sp, fp)
}

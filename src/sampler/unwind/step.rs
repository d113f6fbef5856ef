//! The result of a step from a frame to its caller, and the step by the frame pointer.

use crate::arch::{FRAME_POINTER, PUSHED_BY_CALL, RECORD_ENDS_FRAME, STACK_POINTER, strip_signature};
use crate::process::unwind::ThreadRegisters;
use crate::sampler::stack_copy::StackCopy;

/// The reason why a value of the caller cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoValue {
    /// A register is needed that is not known.
    UnknownRegister,
    /// This word of the stack is needed, which was not copied.
    NoStack(u64),
    /// The rule cannot be followed.
    Lost,
}

/// Result of applying a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "most are of the largest kind, and registers are many on some processors")]
pub(super) enum Stepped {
    /// The registers of the caller. Registers that a function need not restore are unknown.
    Caller(ThreadRegisters),
    /// The frame is the thread's outermost one.
    Root,
    /// The caller cannot be found.
    Failed(NoValue),
}

/// Returns whether a caller's stack pointer is above that of its callee. A leaf, which calls
/// nothing, may have put nothing on the stack where calls do not do so.
pub(super) fn is_above(caller: &ThreadRegisters, callee: &ThreadRegisters, is_leaf: bool) -> bool {
    let (above, below) = (caller.get(STACK_POINTER), callee.get(STACK_POINTER));
    above > below || PUSHED_BY_CALL == 0 && is_leaf && above == below
}

/// Steps to the caller by the frame pointer: it leads to the caller's, above which is the return
/// address.
pub(super) fn by_frame_pointer(registers: &ThreadRegisters, stack: &StackCopy) -> Stepped {
    let Some(pointer) = registers.get(FRAME_POINTER) else { return Stepped::Failed(NoValue::UnknownRegister) };
    if pointer == 0 {
        return Stepped::Root;
    }
    if registers.get(STACK_POINTER).is_none_or(|sp| pointer < sp) {
        return Stepped::Failed(NoValue::Lost);
    }
    let return_at = pointer.wrapping_add(8);
    let (Some(next), Some(ip)) = (stack.word(pointer), stack.word(return_at)) else {
        return Stepped::Failed(NoValue::NoStack(return_at));
    };
    if ip == 0 {
        return Stepped::Root;
    }
    let mut caller = ThreadRegisters::new(strip_signature(ip));
    caller.set(STACK_POINTER, pointer.wrapping_add(16));
    caller.is_stack_bound = !RECORD_ENDS_FRAME;
    caller.set(FRAME_POINTER, next);
    Stepped::Caller(caller)
}

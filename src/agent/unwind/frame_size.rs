//! Steps from a frame whose rule needs the base pointer of a thread that sleeps.
//!
//! The kernel tells a sleeping thread's stack pointer and no other register. A function that is
//! compiled with a base pointer has rules that begin with it, and whoever it has called may have
//! left it alone: then it is nowhere on the stack. How far it lies above the stack pointer is what
//! the function's first instructions have pushed, or, where they align the stack, one of several
//! numbers. The step is taken if it leads behind a call. Where the number depends on data, the step
//! leads behind the next call of this very function.

use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, WalkFrame, by_rule};
use crate::arch::{CallBefore, FrameSize, LONGEST_CALL, call_before, caller_of, direct_caller_of};
use crate::arch::{FRAME_POINTER, PROLOGUE, frame_size};
use crate::process::unwind::{CallerValue, PackedRule};

/// Steps to the caller by a rule that needs a base pointer which is not known.
pub(crate) fn by_frame_size(
    snapshot: &Snapshot,
    rule: PackedRule,
    frame: &WalkFrame<'_>,
    stack: &mut impl Stack,
) -> Option<Step> {
    let (CallerValue::Register(needed, _)
    | CallerValue::AtRegister(needed, _)
    | CallerValue::AtPlus { register: needed, .. }) = rule.cfa
    else {
        return None;
    };
    if usize::from(needed) != FRAME_POINTER || frame.bp().is_some() {
        return None;
    }
    let pc = frame.address().lookup();
    let CodeLocation::Module(index) = snapshot.locate(pc) else { return None };
    let (tables, address) = snapshot.lookup(index, pc)?;
    let executed = address - tables.function_start(address)?;
    let mut code = [0; PROLOGUE];
    let code = &mut code[..executed.min(PROLOGUE as u64) as usize];
    let function = pc - executed;
    stack.read_code(function, code)?;
    let size = frame_size(code);
    let mut caller_at = |base| {
        let with_base = WalkFrame::Calling(Caller::new(pc, frame.sp(), Some(base)));
        let Some(step @ Step::Caller(caller, _)) = by_rule(rule, &with_base, stack) else { return None };
        if !matches!(snapshot.locate(caller.ip.wrapping_sub(1)), CodeLocation::Module(_) | CodeLocation::Code) {
            return None;
        }
        let mut before = [0; LONGEST_CALL];
        stack.read_code(caller.ip.wrapping_sub(LONGEST_CALL as u64), &mut before)?;
        let is_handler = snapshot.is_restorer(caller.ip);
        let call = call_before(&before, caller.ip).or(is_handler.then_some(CallBefore::Indirect))?;
        Some((step, call))
    };
    size.and_then(|size| caller_of(function, size.places(frame.sp()).filter_map(&mut caller_at)))
        .or_else(|| direct_caller_of(function, FrameSize::VARIABLE.places(frame.sp()).filter_map(&mut caller_at)))
}

//! Steps from a frame whose rule needs the base pointer of a thread that sleeps.
//!
//! The kernel tells a sleeping thread's stack pointer and no other register. A function that is
//! compiled with a base pointer has rules that begin with it, and whoever it has called may have
//! left it alone: then it is nowhere on the stack. How far it lies above the stack pointer is what
//! the function's first instructions have pushed. The step is taken if it leads behind a call.

use crate::agent::arch::{FRAME_POINTER, LONGEST_CALL, PROLOGUE, ends_with_call, frame_size};
use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::rules::{Cfa, Rule};
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, WalkFrame, by_rule};

/// Steps to the caller by a rule that needs a base pointer which is not known.
pub(crate) fn by_frame_size(
    snapshot: &Snapshot,
    rule: Rule,
    frame: &WalkFrame<'_>,
    stack: &mut impl Stack,
) -> Option<Step> {
    let needs_base = matches!(rule.cfa, Cfa::Register(number, _) if usize::from(number) == FRAME_POINTER);
    if !needs_base || frame.bp().is_some() {
        return None;
    }
    let pc = frame.address().lookup();
    let CodeLocation::Module(index) = snapshot.locate(pc) else { return None };
    let (tables, address) = snapshot.lookup(index, pc)?;
    let executed = address - tables.function_start(address)?;
    let mut code = [0; PROLOGUE];
    let code = &mut code[..executed.min(PROLOGUE as u64) as usize];
    stack.read_code(pc - executed, code)?;
    let with_base = Caller::new(pc, frame.sp(), Some(frame.sp().checked_add(frame_size(code)?)?));
    let step = by_rule(rule, &WalkFrame::Calling(with_base), stack)?;
    let Step::Caller(caller, _) = step else { return None };
    let mut before = [0; LONGEST_CALL];
    stack.read_code(caller.ip.checked_sub(LONGEST_CALL as u64)?, &mut before)?;
    (ends_with_call(&before) || snapshot.is_restorer(caller.ip)).then_some(step)
}

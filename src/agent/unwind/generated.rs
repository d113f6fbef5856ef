//! Steps from code that was made at run time to the function that has called it.
//!
//! Such code has no tables, and the base pointer is all that leads on. Compilers of code for
//! browsers keep one; LLVM's do not, and every function begins before it has set one. Then the base
//! pointer is that of the caller, or of a caller's caller, and leads past those in between.
//!
//! They are found by the tables: a word below the base pointer is the return address of the call if
//! the tables lead from it to the very frame that the base pointer stands for.

use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::rule_cache::RuleCache;
use crate::agent::unwind::rules::RuleLookup;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, StepReads, Walk, WalkFrame, by_rule, rule_of};
use crate::arch::{CallBefore, LONGEST_CALL, call_before};
use crate::arch::{FRAME_POINTER, PROLOGUE, frame_size};
use crate::process::unwind::{CallerValue, PackedRule};

/// Words above the stack pointer among which the return address is looked for.
const MAX_WORDS: u64 = 256;
/// Frames between generated code and the frame of its base pointer.
const MAX_FRAMES_BETWEEN: usize = 4;

/// Steps from generated code whose base pointer is not its own. Returns `None` if it may be its
/// own, and [`Step::Lost`] if the caller is unknown.
pub(crate) fn step_to_caller(
    snapshot: &Snapshot,
    cache: &mut RuleCache,
    frame: &WalkFrame<'_>,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> Option<Step> {
    if matches!(snapshot.locate(frame.address().lookup()), CodeLocation::Module(_)) {
        return None;
    }
    let base = frame.bp().filter(|&base| base > frame.sp())?;
    let above = stack.read(base.checked_add(8)?).filter(|&ip| is_in_module(snapshot, ip))?;
    let words = (base - frame.sp()).div_ceil(8).min(MAX_WORDS);
    for at in (0..words).map(|word| frame.sp() + 8 * word) {
        let word = stack.read(at)?;
        let CodeLocation::Module(module) = snapshot.locate(word.wrapping_sub(1)) else { continue };
        // A pointer to a function is no return address.
        let Some((tables, address)) = snapshot.lookup(module, word) else { continue };
        if tables.starts_function(address) {
            continue;
        }
        let caller = Caller::new(word, at + 8, Some(base));
        let Some(owner) = owner_of_base(snapshot, cache, caller, stack, walk) else { continue };
        match has_called(snapshot, caller, (owner, above), stack) {
            Some(true) => return Some(Step::Caller(caller, StepReads::Other)),
            Some(false) => {}
            None => return Some(Step::Lost),
        }
    }
    None
}

fn is_in_module(snapshot: &Snapshot, address: u64) -> bool {
    matches!(snapshot.locate(address), CodeLocation::Module(_))
}

/// Follows the tables from a frame to the one that its base pointer stands for. Returns that, and
/// its rule.
fn owner_of_base(
    snapshot: &Snapshot,
    cache: &mut RuleCache,
    mut caller: Caller,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> Option<(Caller, PackedRule)> {
    let base = caller.bp;
    for _ in 0..MAX_FRAMES_BETWEEN {
        let frame = WalkFrame::Calling(caller);
        if !is_in_module(snapshot, frame.address().lookup()) {
            return None;
        }
        let Some(RuleLookup::Rule(rule)) = rule_of(snapshot, cache, &frame, stack, walk) else { return None };
        let Some(Step::Caller(next, _)) = by_rule(rule, &frame, stack) else { return None };
        if next.sp == base.wrapping_add(16) && rule.saved == [CallerValue::AtCfa(-16)] {
            return Some((caller, rule));
        }
        if next.sp <= caller.sp || next.sp > base || !next.knows_bp || next.bp != base {
            return None;
        }
        caller = next;
    }
    None
}

/// Returns whether the word before the stack pointer of `caller` is the return address of a call
/// that goes on, and no leftover of an earlier call. `owner` has the frame of the base pointer,
/// and returns to `above`. Returns `None` if their code cannot be read.
fn has_called(
    snapshot: &Snapshot,
    caller: Caller,
    ((owner, rule), above): ((Caller, PackedRule), u64),
    stack: &mut impl Stack,
) -> Option<bool> {
    let mut call_behind = |ip: u64| {
        let mut before = [0; LONGEST_CALL];
        stack.read_code(ip.wrapping_sub(LONGEST_CALL as u64), &mut before)?;
        Some(call_before(&before, ip))
    };
    // Compiled code cannot name the address of generated code.
    if call_behind(caller.ip)? != Some(CallBefore::Indirect) {
        return Some(false);
    }
    let pc = owner.ip.wrapping_sub(1);
    let CodeLocation::Module(module) = snapshot.locate(pc) else { return Some(false) };
    let Some((tables, address)) = snapshot.lookup(module, pc) else { return Some(false) };
    let Some(executed) = tables.function_start(address).map(|start| address - start) else { return Some(false) };
    let function = pc.wrapping_sub(executed);
    match call_behind(above)? {
        None => return Some(false),
        Some(CallBefore::Direct(called)) if called == function => return Some(true),
        // It has called another function, which may have jumped to the generated code.
        Some(CallBefore::Direct(called)) if is_function(snapshot, called) => return Some(false),
        Some(_) => {}
    }
    let CallerValue::Register(register, _) = rule.cfa else { return Some(true) };
    if usize::from(register) != FRAME_POINTER {
        return Some(true);
    }
    // The rule does not say how far the stack pointer is from the base pointer; the code does.
    let mut code = [0; PROLOGUE];
    let code = &mut code[..executed.min(PROLOGUE as u64) as usize];
    stack.read_code(function, code)?;
    Some(frame_size(code).is_none_or(|size| size.places(owner.sp).any(|base| base == owner.bp)))
}

fn is_function(snapshot: &Snapshot, address: u64) -> bool {
    let CodeLocation::Module(module) = snapshot.locate(address) else { return false };
    snapshot.lookup(module, address).is_some_and(|(tables, address)| tables.starts_function(address))
}

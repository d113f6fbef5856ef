//! First frames of stacks that the unwind tables do not describe.

use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::rule_cache::RuleCache;
use crate::agent::unwind::rules::RuleLookup;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, StepReads, Walk, WalkFrame, by_rule, rule_of};

/// Words above the stack pointer of a `main` without tables among which its return address is
/// looked for.
const MAX_WORDS: u64 = 4;
/// Frames between such a `main` and the root: those of libc, and `_start`.
const MAX_START_FRAMES: usize = 4;
/// Bytes of code of such a `main` before its call.
const MAX_MAIN: u64 = 64;
/// Words above the stack pointer of a frame among which a return address is looked for.
const MAX_ABOVE: u64 = 128;
/// Maximum number of arguments of a program that are looked at.
const MAX_ARGUMENTS: u64 = 4096;

/// Whether a stack was made by hand (as `makecontext` makes one) and begins with a function that
/// nothing has called: a caller's frame of an address whose last byte no table covers, and that is
/// itself the first address of a function.
pub(crate) fn is_handmade(snapshot: &Snapshot, caller: Caller) -> bool {
    let CodeLocation::Module(module) = snapshot.locate(caller.ip) else { return false };
    snapshot.lookup(module, caller.ip).is_some_and(|(lookup, address)| lookup.starts_function(address))
}

/// Steps from a function without tables to libc's code that calls `main`. The C `main` that rustc
/// makes has no tables where panics abort.
///
/// The step is taken only if it is certain: among the next words on the stack the first that can be
/// a return address lies in another module, and the tables lead from there to the root of the
/// stack, in the module of the function.
pub(crate) fn called_from_start(
    snapshot: &Snapshot,
    cache: &mut RuleCache,
    frame: &WalkFrame<'_>,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> Option<Step> {
    let pc = frame.address().lookup();
    let CodeLocation::Module(home) = snapshot.locate(pc) else { return None };
    snapshot.lookup(home, pc)?;
    for at in (0..MAX_WORDS).map(|word| frame.sp().wrapping_add(8 * word)) {
        let word = stack.read(at)?;
        let CodeLocation::Module(module) = snapshot.locate(word) else { continue };
        let (lookup, address) = snapshot.lookup(module, word)?;
        // A pointer to a function is no return address; neither is one to `main` itself, which its
        // caller had in a register.
        if lookup.starts_function(address) || pc.checked_sub(word).is_some_and(|bytes| bytes < MAX_MAIN) {
            continue;
        }
        // The caller of this function may have no tables either.
        if module == home {
            return None;
        }
        let caller = Caller::new(word, at.wrapping_add(8), frame.bp());
        let is_certain = leads_to_start(snapshot, cache, caller, home, stack, walk);
        return is_certain.then_some(Step::Caller(caller, StepReads::Other));
    }
    None
}

/// Returns whether a frame without tables whose base pointer is zero is the first one of its stack:
/// it is that of a program's start, or nothing above it is the address of code behind the start of
/// a function. Code that keeps no frame pointer may have a zero in that register at any time. Code
/// that was made at run time is never the first.
pub(crate) fn is_first(snapshot: &Snapshot, frame: &WalkFrame<'_>, stack: &mut impl Stack) -> bool {
    let mut above = |word: u64| stack.read(frame.sp().wrapping_add(8 * word));
    // The number of arguments, their addresses, and a zero.
    if let Some(count @ 1..=MAX_ARGUMENTS) = above(0)
        && above(1).is_some_and(|argument| argument > frame.sp())
        && above(1 + count) == Some(0)
    {
        return true;
    }
    let is_inside = |word: u64| match snapshot.locate(word) {
        CodeLocation::Module(module) => {
            snapshot.lookup(module, word).is_none_or(|(lookup, address)| !lookup.starts_function(address))
        }
        CodeLocation::Code => true,
        CodeLocation::Unknown => false,
    };
    if !matches!(snapshot.locate(frame.address().lookup()), CodeLocation::Module(_)) {
        return false;
    }
    !(0..MAX_ABOVE).map_while(above).any(is_inside)
}

/// Whether the tables lead from a frame to the root of the stack, in this module, in a few steps.
fn leads_to_start(
    snapshot: &Snapshot,
    cache: &mut RuleCache,
    mut caller: Caller,
    home: usize,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> bool {
    for _ in 0..MAX_START_FRAMES {
        let frame = WalkFrame::Calling(caller);
        let Some(RuleLookup::Rule(rule)) = rule_of(snapshot, cache, &frame, stack, walk) else { return false };
        match by_rule(rule, &frame, stack) {
            Some(Step::Root(_)) => return snapshot.locate(frame.address().lookup()) == CodeLocation::Module(home),
            Some(Step::Caller(next, _)) if next.sp > caller.sp => caller = next,
            _ => return false,
        }
    }
    false
}

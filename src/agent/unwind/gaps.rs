//! Steps from code of a file that its unwind tables leave out: assembly without annotations.
//!
//! Such code may use the base pointer as it likes, and how much it has pushed is not known. But a
//! call that names it leaves a return address behind, which nothing else does.

use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, StepReads, WalkFrame, place_of_return};
use crate::arch::{CallBefore, LINK_REGISTER, LONGEST_CALL, ReturnPlace, STUB, call_before, linkage_stub};

/// Words above the stack pointer among which the return address is looked for.
const MAX_WORDS: u64 = 64;
/// Maximum number of words whose code is looked at.
const MAX_CANDIDATES: usize = 8;

/// Steps to the function that has called this code by its address: the target of the call lies in
/// the same gap of the tables.
pub(crate) fn step_to_caller(snapshot: &Snapshot, frame: &WalkFrame<'_>, stack: &mut impl Stack) -> Option<Step> {
    let pc = frame.address().lookup();
    let CodeLocation::Module(home) = snapshot.locate(pc) else { return None };
    let (tables, address) = snapshot.lookup(home, pc)?;
    let names_this = |word: u64, stack: &mut _| {
        let called = called_before(word, stack)?;
        let target = address.wrapping_sub(pc).wrapping_add(called);
        let is_named = called != 0 && called <= pc && tables.are_in_one_gap(target, address);
        Some(is_named && !(pc - called >= STUB as u64 && leads_elsewhere(called, stack)?))
    };
    if LINK_REGISTER.is_some()
        && let Some(word) = frame.return_address(stack)
        && snapshot.locate(word.wrapping_sub(1)) == CodeLocation::Module(home)
    {
        let frame_size = match place_of_return(frame, stack) {
            Some(ReturnPlace::Register { frame }) => Some(frame),
            Some(ReturnPlace::Stack) => None,
            None => names_this(word, stack).filter(|&is_called| is_called).map(|_| 0),
        };
        if let Some(bytes) = frame_size {
            return Some(Step::Caller(Caller::new(word, frame.sp().wrapping_add(bytes), frame.bp()), StepReads::Other));
        }
    }
    // Where calls leave the return address in a register, a function's record is all that it saves
    // first, and a frame pointer leads to it or to one above. Beyond are other frames.
    let record = frame.bp().filter(|&base| LINK_REGISTER.is_some() && base >= frame.sp());
    let mut candidates = 0;
    for at in (0..MAX_WORDS).map(|word| frame.sp().wrapping_add(8 * word)) {
        if record.is_some_and(|record| at > record.wrapping_add(8)) {
            return None;
        }
        let word = stack.read(at)?;
        let CodeLocation::Module(module) = snapshot.locate(word.wrapping_sub(1)) else { continue };
        // A call of another file goes through a stub, whose address it has.
        if module != home {
            continue;
        }
        candidates += 1;
        if candidates > MAX_CANDIDATES {
            return None;
        }
        if names_this(word, stack)? {
            // Code that has pushed registers may use the base pointer for other values, unless it
            // leads to this very record.
            let is_record = record.is_some_and(|record| at == record.wrapping_add(8));
            let base = if is_record { stack.read(at - 8) } else { frame.bp().filter(|_| at == frame.sp()) };
            return Some(Step::Caller(Caller::above_record(word, at.wrapping_add(8), base), StepReads::Other));
        }
    }
    None
}

/// Returns whether a called function is a stub of a linkage table; `None` if its code cannot be
/// read. Tables tell of stubs where calls leave the return address on the stack.
fn leads_elsewhere(called: u64, stack: &mut impl Stack) -> Option<bool> {
    if LINK_REGISTER.is_none() {
        return Some(false);
    }
    let mut code = [0; STUB];
    stack.read_code(called, &mut code)?;
    Some(linkage_stub(&code, called).is_some())
}

/// Returns the function that a call before this address has named, 0 for none; `None` if the code
/// cannot be read.
fn called_before(word: u64, stack: &mut impl Stack) -> Option<u64> {
    let mut before = [0; LONGEST_CALL];
    stack.read_code(word.wrapping_sub(LONGEST_CALL as u64), &mut before)?;
    Some(match call_before(&before, word) {
        Some(CallBefore::Direct(called)) => called,
        _ => 0,
    })
}

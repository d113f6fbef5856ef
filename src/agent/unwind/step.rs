//! One step of a walk: from a frame to its caller.

use crate::agent::unwind::eh_return;
use crate::agent::unwind::last_walk::CachedFrame;
use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::{Caller, Registers};
use crate::agent::unwind::rule_cache::RuleCache;
use crate::agent::unwind::rules::RuleLookup;
use crate::agent::unwind::stack::Stack;
use crate::arch::{
    FRAME_POINTER, LINK_PATH, LINK_REGISTER, PUSHED_BY_CALL, ReturnPlace, STACK_POINTER, return_place, strip_signature,
};
use crate::process::unwind::{CallerValue, FrameSource, PackedRule, StepByRule, plus};
use crate::wire::{FrameAddress, flag};

/// Result of a walk.
pub(crate) struct Walk {
    /// Number of frames written.
    pub(crate) depth: usize,
    /// Bits of [`flag`](crate::wire::flag).
    pub(crate) flags: u32,
    /// Whether an address was in no module of the snapshot, which may be outdated.
    pub(crate) uncovered: bool,
    /// Number of frames between the leaf side and the root side that were left out.
    pub(crate) left_out: usize,
}

impl Walk {
    /// Returns whether it has every frame of the stack.
    pub(crate) fn is_whole(&self) -> bool {
        self.flags & flag::TRUNCATED == 0 && self.left_out == 0
    }
}

/// A frame during a walk.
pub(crate) enum WalkFrame<'a> {
    /// Interrupted or sleeping: its address is that of an instruction.
    Interrupted(&'a Registers),
    /// Waiting for a call to return: its address is the return address.
    Calling(Caller),
}

impl WalkFrame<'_> {
    pub(crate) fn address(&self) -> FrameAddress {
        match self {
            WalkFrame::Interrupted(registers) => FrameAddress::Instruction(registers.ip()),
            WalkFrame::Calling(caller) => FrameAddress::Return(caller.ip),
        }
    }

    pub(crate) fn sp(&self) -> u64 {
        match self {
            WalkFrame::Interrupted(registers) => registers.sp(),
            WalkFrame::Calling(caller) => caller.sp,
        }
    }

    /// Whether the stack pointer may be higher than it says.
    pub(crate) fn is_stack_bound(&self) -> bool {
        matches!(self, WalkFrame::Calling(caller) if caller.is_stack_bound)
    }

    /// Returns the return address of a function that has saved nothing: in its register, or on top
    /// of the stack.
    pub(crate) fn return_address(&self, stack: &mut impl Stack) -> Option<u64> {
        match LINK_REGISTER {
            Some(link) => self.get(link as u8),
            None => stack.read(self.sp()),
        }
        .map(strip_signature)
    }

    pub(crate) fn bp(&self) -> Option<u64> {
        self.get(FRAME_POINTER as u8)
    }

    /// Returns a register by DWARF number, if its value is known.
    #[inline]
    pub(crate) fn get(&self, number: u8) -> Option<u64> {
        let number = usize::from(number);
        match self {
            _ if number == STACK_POINTER => Some(self.sp()),
            WalkFrame::Calling(caller) if number == FRAME_POINTER && caller.knows_bp => Some(caller.bp),
            WalkFrame::Interrupted(registers) if registers.whole => registers.values.get(number).copied(),
            _ => None,
        }
    }
}

/// Result of the step from a frame.
pub(crate) enum Step {
    Caller(Caller, StepReads),
    Root(StepReads),
    Lost,
}

/// The words that a step has read.
#[derive(Clone, Copy)]
pub(crate) enum StepReads {
    /// Others than these two, so the step cannot be replayed.
    Other,
    /// The return address and the base pointer, each if it was read.
    Words { return_at: Option<u64>, base_at: Option<u64> },
}

impl StepReads {
    pub(crate) fn mark(self, frame: Caller) -> CachedFrame {
        match self {
            StepReads::Other => CachedFrame::unknown(frame),
            StepReads::Words { return_at, base_at } => CachedFrame::leads(frame, return_at, base_at),
        }
    }

    pub(crate) fn mark_root(self, frame: Caller) -> CachedFrame {
        match self {
            StepReads::Other => CachedFrame::unknown(frame),
            StepReads::Words { return_at, .. } => CachedFrame::root(frame, return_at),
        }
    }
}

/// Looks up the rule of a frame. Returns `None` for a caller whose address is not code.
#[inline]
pub(crate) fn rule_of(
    snapshot: &Snapshot,
    cache: &mut RuleCache,
    frame: &WalkFrame<'_>,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> Option<RuleLookup> {
    let pc = frame.address().lookup();
    // A cached rule belongs to a module with tables.
    if let Some(found @ (RuleLookup::Rule(_) | RuleLookup::Inexpressible)) = cache.known(pc) {
        #[cfg(sigtop_timed)]
        cache.note_hit();
        return Some(found);
    }
    let place = snapshot.locate(pc);
    if place == CodeLocation::Unknown {
        walk.uncovered = true;
        if matches!(frame, WalkFrame::Calling(_)) {
            return None;
        }
    }
    let lookup = match place {
        CodeLocation::Module(index) => snapshot.lookup(index, pc),
        CodeLocation::Code | CodeLocation::Unknown => {
            stack.moved(frame.sp(), false);
            None
        }
    };
    Some(cache.rule(pc, snapshot.rule_table(), lookup))
}

/// A frame on a stack that a walk reads.
struct FrameOnStack<'a, S> {
    frame: &'a WalkFrame<'a>,
    stack: &'a mut S,
}

impl<S: Stack> FrameSource for FrameOnStack<'_, S> {
    type NoValue = ();
    const LOST: () = ();

    #[inline(always)]
    fn register(&self, number: u8) -> Result<u64, ()> {
        self.frame.get(number).ok_or(())
    }

    #[inline(always)]
    fn word(&mut self, address: u64) -> Result<u64, ()> {
        self.stack.read(address).ok_or(())
    }

    /// No rule of the agent has a number of an expression.
    fn evaluate(&mut self, _expression: u32, _cfa: u64) -> Result<u64, ()> {
        Err(())
    }
}

/// Steps to the caller by a rule.
#[inline]
pub(crate) fn by_rule(rule: PackedRule, frame: &WalkFrame<'_>, stack: &mut impl Stack) -> Option<Step> {
    let rule = if frame.is_stack_bound() { rule.with_cfa_by_record()? } else { rule };
    let mut frame = FrameOnStack { frame, stack };
    if let CallerValue::ReplacedAtCfa(return_offset) = rule.return_address
        && let Some(caller) = landing_pad(rule, return_offset, &mut frame)
    {
        return Some(Step::Caller(caller, StepReads::Other));
    }
    let is_cfa_unread = matches!(rule.cfa, CallerValue::Register(..));
    Some(match rule.step(&mut frame).ok()? {
        StepByRule::Root { return_at: None } if rule.return_address == CallerValue::Undefined => {
            Step::Root(StepReads::Words { return_at: None, base_at: None })
        }
        StepByRule::Root { return_at: return_at @ Some(_) } if is_cfa_unread => {
            Step::Root(StepReads::Words { return_at, base_at: None })
        }
        StepByRule::Root { .. } => Step::Root(StepReads::Other),
        StepByRule::Caller { ip, cfa, return_at, saved: [base] } => {
            let is_read = return_at.is_some() && (base.value.is_some() || base.at.is_none());
            let reads = if is_cfa_unread && is_read {
                StepReads::Words { return_at, base_at: base.at }
            } else {
                StepReads::Other
            };
            Step::Caller(Caller::new(ip, cfa, base.value), reads)
        }
    })
}

/// Returns the landing pad's frame, if the function has begun to install it.
#[cold]
#[inline(never)]
fn landing_pad<S: Stack>(rule: PackedRule, return_offset: i32, frame: &mut FrameOnStack<'_, S>) -> Option<Caller> {
    let cfa = rule.cfa(frame).ok()?;
    let registers = (frame.frame.sp(), frame.frame.bp());
    eh_return::landing_pad(rule, registers, cfa, plus(cfa, return_offset), &mut |at| frame.stack.read(at))
}

/// Interrupted code of a file that the file's tables leave out is a stub more often than not (of
/// the procedure linkage table): it has just been called and has pushed nothing, if what is where a
/// call leaves the return address is an address of code.
pub(crate) fn just_called(snapshot: &Snapshot, frame: &WalkFrame<'_>, stack: &mut impl Stack) -> Option<Step> {
    let WalkFrame::Interrupted(registers) = frame else { return None };
    let is_code = |address| matches!(snapshot.locate(address), CodeLocation::Module(_));
    if !is_code(registers.ip()) {
        return None;
    }
    let ip = frame.return_address(stack).filter(|&ip| is_code(ip.wrapping_sub(1)))?;
    let bytes = match place_of_return(frame, stack) {
        Some(ReturnPlace::Stack) => return None,
        Some(ReturnPlace::Register { frame }) => frame,
        None => PUSHED_BY_CALL,
    };
    Some(Step::Caller(Caller::new(ip, registers.sp().wrapping_add(bytes), frame.bp()), StepReads::Other))
}

/// Returns the place of the return address of interrupted code, where calls leave it in a register
/// and the code tells.
pub(crate) fn place_of_return(frame: &WalkFrame<'_>, stack: &mut impl Stack) -> Option<ReturnPlace> {
    let WalkFrame::Interrupted(registers) = frame else { return None };
    if LINK_REGISTER.is_none() || !registers.whole {
        return None;
    }
    let mut code = [0; LINK_PATH];
    stack.read_code(registers.ip(), &mut code)?;
    return_place(&code)
}

/// The base pointer leads to the caller's, above which is the return address. Whether the caller
/// keeps to that too is not known: what it leads to is looked at when it is used.
pub(crate) fn by_frame_pointer(frame: &WalkFrame<'_>, stack: &mut impl Stack) -> Option<Step> {
    let bp = frame.bp()?;
    if bp == 0 {
        return Some(Step::Root(StepReads::Other));
    }
    let sp = bp.checked_add(16).filter(|&sp| sp > frame.sp())?;
    let caller_bp = stack.read(bp)?;
    match stack.read(bp + 8)? {
        0 => Some(Step::Root(StepReads::Other)),
        ip => Some(Step::Caller(Caller::above_record(strip_signature(ip), sp, Some(caller_bp)), StepReads::Other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::stack::CopiedStack;
    use crate::arch::REGISTERS;

    #[test]
    fn a_base_pointer_that_is_the_callers_again_is_kept() {
        let words = [0x9_0000u64, 0x5555, 0, 0];
        let bytes = words.map(u64::to_ne_bytes).concat();
        let mut stack = CopiedStack { low: 0x7000, bytes: &bytes };
        let rule = PackedRule {
            cfa: CallerValue::Register(10, 0),
            return_address: CallerValue::AtCfa(-8),
            saved: [CallerValue::AtRegister(FRAME_POINTER as u8, 0)],
        };
        let mut caller_of = |bp: u64| {
            let mut registers = Registers::by_hand([0; REGISTERS]);
            (registers.values[STACK_POINTER], registers.values[FRAME_POINTER], registers.values[10]) =
                (0x7000, bp, 0x7010);
            match by_rule(rule, &WalkFrame::Interrupted(&registers), &mut stack) {
                Some(Step::Caller(caller, _)) => (caller.ip, caller.knows_bp.then_some(caller.bp)),
                _ => panic!("it has a caller"),
            }
        };
        assert_eq!(
            caller_of(0x7000),
            (0x5555, Some(0x9_0000)),
            "it is in the frame: the caller's lies where it points to"
        );
        assert_eq!(caller_of(0x9_0000), (0x5555, Some(0x9_0000)));
        assert_eq!(caller_of(3), (0x5555, Some(3)), "a caller's that is no pointer");
    }
}

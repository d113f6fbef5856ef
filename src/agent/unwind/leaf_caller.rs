//! Steps from a function that sleeps with its return address in a register, which the kernel does
//! not tell.

use crate::agent::unwind::frame_size::by_frame_size;
use crate::agent::unwind::modules::{CodeLocation, Snapshot};
use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::rule_cache::RuleCache;
use crate::agent::unwind::rules::RuleLookup;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, StepReads, Walk, WalkFrame, by_rule, rule_of};
use crate::arch::{LINK_REGISTER, LeafFrame, leaf_caller};
use crate::process::unwind::{CallerValue, PackedRule, plus};
use crate::wire::FrameAddress;

/// The stack of a thread that sleeps in a leaf function.
struct LeafOnStack<'a, S> {
    snapshot: &'a Snapshot,
    cache: &'a mut RuleCache,
    stack: &'a mut S,
    walk: &'a mut Walk,
    /// The caller's stack pointer.
    sp: u64,
}

impl<S: Stack> LeafFrame for LeafOnStack<'_, S> {
    fn word(&mut self, address: u64) -> Option<u64> {
        self.stack.read(address)
    }

    fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()> {
        let CodeLocation::Module(_) = self.snapshot.locate(address) else { return None };
        self.stack.read_code(address, code)
    }

    fn pointer(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.stack.read_code(address, &mut word).map(|()| u64::from_ne_bytes(word))
    }

    fn function_start(&mut self, address: u64) -> Option<u64> {
        let CodeLocation::Module(module) = self.snapshot.locate(address) else { return None };
        let (tables, in_file) = self.snapshot.lookup(module, address)?;
        Some(tables.function_start(in_file)?.wrapping_add(address).wrapping_sub(in_file))
    }

    fn return_address(&mut self, call: u64) -> Option<u64> {
        let frame = WalkFrame::Calling(Caller::new(call, self.sp, None));
        let found = rule_of(self.snapshot, self.cache, &frame, self.stack, self.walk)?;
        let RuleLookup::Rule(rule) = found else { return None };
        let step =
            by_rule(rule, &frame, self.stack).or_else(|| by_frame_size(self.snapshot, rule, &frame, self.stack))?;
        if let Step::Caller(caller, _) = step { Some(caller.ip) } else { None }
    }
}

/// Steps to the caller of a function if it has its return address in a register that is not known:
/// by its rule, or because it has none. Returns the address to show, too.
#[inline]
pub(crate) fn step_to_caller(
    snapshot: &Snapshot,
    cache: &mut RuleCache,
    found: RuleLookup,
    frame: &WalkFrame<'_>,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> Option<(Step, FrameAddress)> {
    let WalkFrame::Interrupted(registers) = frame else { return None };
    if LINK_REGISTER.is_none() || registers.whole {
        return None;
    }
    let sp = match found {
        RuleLookup::Rule(PackedRule {
            cfa: CallerValue::Register(register, offset),
            return_address: CallerValue::AFTER_CALL,
            ..
        }) => plus(frame.get(register)?, offset),
        RuleLookup::Missing => frame.sp(),
        RuleLookup::Rule(_) | RuleLookup::Inexpressible => return None,
    };
    let found = leaf_caller(&mut LeafOnStack { snapshot, cache, stack, walk, sp }, registers.ip(), sp)?;
    let caller = Caller::new(found.return_address, sp, None);
    Some((Step::Caller(caller, StepReads::Other), found.address()))
}

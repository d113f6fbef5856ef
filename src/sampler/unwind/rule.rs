//! The step from a frame to its caller by a rule, on a copy of the stack.

use super::expressions::Expressions;
use super::step::{NoValue, Stepped};
use crate::arch::{CALLEE_SAVED, FrameSize, STACK_POINTER};
use crate::process::unwind::{CallerValue, FrameRule, FrameSource, StepByRule, ThreadRegisters};
use crate::sampler::stack_copy::StackCopy;

impl FrameRule {
    /// Computes the caller's registers.
    pub(super) fn apply(&self, registers: &ThreadRegisters, stack: &StackCopy, expressions: &Expressions) -> Stepped {
        match self.step(&mut FrameInCopy { registers, stack, expressions }) {
            Ok(StepByRule::Root { .. }) => Stepped::Root,
            Ok(StepByRule::Caller { ip, cfa, saved, .. }) => {
                let mut caller = ThreadRegisters::new(ip);
                caller.set(STACK_POINTER, cfa);
                for (&register, value) in CALLEE_SAVED.iter().zip(saved) {
                    value.value.into_iter().for_each(|value| caller.set(register, value));
                }
                Stepped::Caller(caller)
            }
            Err(why) => Stepped::Failed(why),
        }
    }

    /// Returns the rule with its canonical frame address at a distance from the stack pointer.
    pub(super) fn with_cfa_at(self, offset: i32) -> FrameRule {
        FrameRule { cfa: CallerValue::Register(STACK_POINTER as u8, offset), ..self }
    }
}

/// Returns a rule for each place where the canonical frame address of a frame of this size may be.
pub(super) fn frame_rules(rule: FrameRule, size: FrameSize, sp: u64) -> impl Iterator<Item = FrameRule> {
    size.places(sp).filter_map(move |cfa| Some(rule.with_cfa_at(i32::try_from(cfa - sp).ok()?)))
}

/// A frame in the copy of a stack.
struct FrameInCopy<'a> {
    registers: &'a ThreadRegisters,
    stack: &'a StackCopy,
    expressions: &'a Expressions,
}

impl FrameSource for FrameInCopy<'_> {
    type NoValue = NoValue;
    const LOST: NoValue = NoValue::Lost;

    fn register(&self, number: u8) -> Result<u64, NoValue> {
        self.registers.get(number.into()).ok_or(NoValue::UnknownRegister)
    }

    fn word(&mut self, address: u64) -> Result<u64, NoValue> {
        self.stack.word(address).ok_or(NoValue::NoStack(address))
    }

    fn evaluate(&mut self, expression: u32, cfa: u64) -> Result<u64, NoValue> {
        self.expressions.evaluate(expression, cfa, self.registers, self.stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{FRAME_POINTER, LINK_REGISTER, PUSHED_BY_CALL, RED_ZONE};

    /// Regression test: at the `ret` of a function that had saved the frame pointer, a copy that
    /// begins at the stack pointer does not have it, and a caller that needs it was not found.
    #[test]
    fn what_was_popped_is_in_its_register_again() {
        const SP: u64 = 0x7f00_1000;
        let words = [0x40_1234_u64, 0x77];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut stack = StackCopy::default();
        assert!(stack.add(SP, bytes.len(), |copy| {
            copy.copy_from_slice(&bytes);
            copy.len()
        }));
        let mut registers = ThreadRegisters::new(0x40_5678);
        registers.set(STACK_POINTER, SP);
        registers.set(FRAME_POINTER, 0x7f00_2000);
        if let Some(link) = LINK_REGISTER {
            registers.set(link, words[0]);
        }
        let saved_at = |offset| {
            let mut rule = FrameRule::JUST_CALLED;
            rule.saved[0] = CallerValue::AtCfa(offset);
            let Stepped::Caller(caller) = rule.apply(&registers, &stack, &Expressions::default()) else { panic!() };
            assert_eq!(caller.ip, 0x40_1234);
            caller.get(FRAME_POINTER)
        };
        assert_eq!(saved_at(-24), Some(0x7f00_2000).filter(|_| RED_ZONE > 24), "where leaves use what lies below");
        assert_eq!(saved_at(8 - PUSHED_BY_CALL as i32), Some(0x77), "what lies above is read");
        assert_eq!(saved_at(-1024), None, "nothing is known of what lies far below");
        assert_eq!(saved_at(4096), None);
    }
}

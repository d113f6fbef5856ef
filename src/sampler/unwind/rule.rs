//! The step from a frame to its caller by a rule, on a copy of the stack.

use super::expressions::Expressions;
use super::step::{NoValue, Stepped};
use crate::arch::{CALLEE_SAVED, FRAME_POINTER, PUSHED_BY_CALL, RED_ZONE, STACK_POINTER, strip_signature};
use crate::process::unwind::ThreadRegisters;
use crate::process::unwind::{CallerValue, FrameRule, cfa_by_record, is_frame_pointer_restored, plus};
use crate::sampler::stack_copy::StackCopy;

impl FrameRule {
    /// The rule of a function that has pushed nothing: its return address is where the call has
    /// left it.
    pub(super) const JUST_CALLED: FrameRule = FrameRule {
        cfa: CallerValue::Register(STACK_POINTER as u8, PUSHED_BY_CALL as i32),
        return_address: CallerValue::AFTER_CALL,
        saved: [CallerValue::Same; CALLEE_SAVED.len()],
    };

    /// Computes the caller's registers.
    pub(super) fn apply(&self, registers: &ThreadRegisters, stack: &StackCopy, expressions: &Expressions) -> Stepped {
        if self.return_address == CallerValue::Undefined {
            return Stepped::Root;
        }
        let frame = FrameValues { registers, stack, expressions };
        let cfa = match frame.value(self.cfa, None, 0) {
            Ok(cfa) => cfa,
            Err(why) => return Stepped::Failed(why),
        };
        let return_address = match frame.value(self.return_address, None, cfa) {
            Ok(0) => return Stepped::Root,
            Ok(address) => strip_signature(address),
            Err(why) => return Stepped::Failed(why),
        };
        let mut caller = ThreadRegisters::new(return_address);
        caller.set(STACK_POINTER, cfa);
        for (&register, &value) in CALLEE_SAVED.iter().zip(&self.saved) {
            let is_restored = register == FRAME_POINTER
                && is_frame_pointer_restored(value, registers.get(FRAME_POINTER), frame.sp(), cfa);
            let value = if is_restored { CallerValue::Same } else { value };
            let value = match frame.value(value, Some(register), cfa) {
                // The kernel's copies begin at the stack pointer. What a function has popped lies
                // below it, and the register has that value again.
                Err(NoValue::NoStack(address)) if frame.is_below(address) => {
                    frame.value(CallerValue::Same, Some(register), cfa)
                }
                value => value,
            };
            // A value that cannot be read matters only to a caller that needs it.
            if let Ok(value) = value {
                caller.set(register, value);
            }
        }
        Stepped::Caller(caller)
    }

    /// Returns the rule for a frame whose frame pointer is known and whose stack pointer is not.
    pub(super) fn with_cfa_by_record(self) -> Option<FrameRule> {
        let place = CALLEE_SAVED.iter().position(|&register| register == FRAME_POINTER)?;
        let cfa = cfa_by_record(self.cfa, self.saved[place], self.return_address)?;
        Some(FrameRule { cfa, ..self })
    }

    /// Returns the rule with its canonical frame address at a distance from the stack pointer.
    pub(super) fn with_cfa_at(self, offset: i32) -> FrameRule {
        FrameRule { cfa: CallerValue::Register(STACK_POINTER as u8, offset), ..self }
    }
}

/// The frame from which values are computed.
struct FrameValues<'a> {
    registers: &'a ThreadRegisters,
    stack: &'a StackCopy,
    expressions: &'a Expressions,
}

impl FrameValues<'_> {
    fn sp(&self) -> u64 {
        self.registers.get(STACK_POINTER).unwrap_or(0)
    }

    /// Returns whether an address lies below the stack pointer, within the red zone.
    fn is_below(&self, address: u64) -> bool {
        (self.sp().saturating_sub(RED_ZONE)..self.sp()).contains(&address)
    }

    fn value(&self, value: CallerValue, same: Option<usize>, cfa: u64) -> Result<u64, NoValue> {
        let register = |number: usize| self.registers.get(number).ok_or(NoValue::UnknownRegister);
        let word = |address: u64| self.stack.word(address).ok_or(NoValue::NoStack(address));
        match value {
            CallerValue::Same => register(same.ok_or(NoValue::Lost)?),
            CallerValue::Undefined => Err(NoValue::Lost),
            CallerValue::CfaPlus(offset) => Ok(plus(cfa, offset)),
            CallerValue::Register(number, offset) => Ok(plus(register(number.into())?, offset)),
            CallerValue::Expression(id) => self.expressions.evaluate(id, cfa, self.registers, self.stack),
            CallerValue::AtExpression(id) => word(self.expressions.evaluate(id, cfa, self.registers, self.stack)?),
            at => {
                let address = at.address(cfa, |number| self.registers.get(number.into()));
                Ok(word(address.ok_or(NoValue::UnknownRegister)?)?.wrapping_add(at.constant()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let place = CALLEE_SAVED.iter().position(|&register| register == FRAME_POINTER).expect("it is saved");
        let saved_at = |offset| {
            let mut rule = FrameRule::JUST_CALLED;
            rule.saved[place] = CallerValue::AtCfa(offset);
            let Stepped::Caller(caller) = rule.apply(&registers, &stack, &Expressions::default()) else { panic!() };
            assert_eq!(caller.ip, 0x40_1234);
            caller.get(FRAME_POINTER)
        };
        assert_eq!(saved_at(-24), Some(0x7f00_2000));
        assert_eq!(saved_at(0), Some(0x77), "what lies above is read");
        assert_eq!(saved_at(-1024), None, "nothing is known of what lies far below");
        assert_eq!(saved_at(4096), None);
    }
}

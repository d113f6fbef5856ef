//! The step from a frame to its caller, in a form that is quick to apply and may be cached.

use super::arch::{CALLEE_SAVED, FRAME_POINTER, STACK_POINTER};
use super::expressions::Expressions;
use super::step::{NoValue, Stepped};
use crate::sampler::arch::RED_ZONE;
use crate::sampler::registers::ThreadRegisters;
use crate::sampler::stack_copy::StackCopy;

/// The computation of a value of the caller from the registers and the stack of a frame. CFA is the
/// canonical frame address, which is the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerValue {
    /// It is the value of the same register.
    Same,
    /// It cannot be known. For a return address this means the end of the stack.
    Undefined,
    /// CFA + offset.
    CfaPlus(i32),
    /// The word at CFA + offset.
    AtCfa(i32),
    /// Register (by DWARF number) + offset.
    Register(u8, i32),
    /// The word at register + offset.
    AtRegister(u8, i32),
    /// The result of a DWARF expression.
    Expression(u32),
    /// The word at the result of a DWARF expression.
    AtExpression(u32),
}

/// The rules of one code address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRule {
    /// The canonical frame address.
    pub(super) cfa: CallerValue,
    /// The return address.
    pub(super) return_address: CallerValue,
    /// The registers of [`CALLEE_SAVED`].
    pub(super) saved: [CallerValue; CALLEE_SAVED.len()],
}

impl FrameRule {
    /// The rule of a function that has pushed nothing: its return address is on top of the stack.
    pub(super) const JUST_CALLED: FrameRule = FrameRule {
        cfa: CallerValue::Register(STACK_POINTER as u8, 8),
        return_address: CallerValue::AtCfa(-8),
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
            Ok(address) => address,
            Err(why) => return Stepped::Failed(why),
        };
        let mut caller = ThreadRegisters::new(return_address);
        caller.set(STACK_POINTER, cfa);
        for (&register, &value) in CALLEE_SAVED.iter().zip(&self.saved) {
            // A function that aligns its stack keeps its frame pointer within its frame until the
            // last two instructions. The tables omit that the caller's is restored by then.
            let value = match value {
                CallerValue::AtRegister(base, _) if is_frame_pointer(register, base) && !frame.points_into(cfa) => {
                    CallerValue::Same
                }
                value => value,
            };
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

    /// Returns the rule with its canonical frame address at a distance from the stack pointer.
    pub(super) fn with_cfa_at(self, offset: i32) -> FrameRule {
        FrameRule { cfa: CallerValue::Register(STACK_POINTER as u8, offset), ..self }
    }
}

fn is_frame_pointer(register: usize, base: u8) -> bool {
    register == FRAME_POINTER && usize::from(base) == FRAME_POINTER
}

/// The frame from which values are computed.
struct FrameValues<'a> {
    registers: &'a ThreadRegisters,
    stack: &'a StackCopy,
    expressions: &'a Expressions,
}

impl FrameValues<'_> {
    /// Returns whether the frame pointer points into this frame, which ends at `cfa`.
    fn points_into(&self, cfa: u64) -> bool {
        let sp = self.registers.get(STACK_POINTER).unwrap_or(0);
        self.registers.get(FRAME_POINTER).is_some_and(|pointer| (sp..cfa).contains(&pointer))
    }

    /// Returns whether an address lies below the stack pointer, within the red zone.
    fn is_below(&self, address: u64) -> bool {
        let sp = self.registers.get(STACK_POINTER).unwrap_or(0);
        (sp.saturating_sub(RED_ZONE)..sp).contains(&address)
    }

    fn value(&self, value: CallerValue, same: Option<usize>, cfa: u64) -> Result<u64, NoValue> {
        let register = |number: usize| self.registers.get(number).ok_or(NoValue::UnknownRegister);
        let word = |address: u64| self.stack.word(address).ok_or(NoValue::NoStack(address));
        let plus = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
        match value {
            CallerValue::Same => register(same.ok_or(NoValue::Lost)?),
            CallerValue::Undefined => Err(NoValue::Lost),
            CallerValue::CfaPlus(offset) => Ok(plus(cfa, offset)),
            CallerValue::AtCfa(offset) => word(plus(cfa, offset)),
            CallerValue::Register(number, offset) => Ok(plus(register(number.into())?, offset)),
            CallerValue::AtRegister(number, offset) => word(plus(register(number.into())?, offset)),
            CallerValue::Expression(id) => self.expressions.evaluate(id, cfa, self.registers, self.stack),
            CallerValue::AtExpression(id) => word(self.expressions.evaluate(id, cfa, self.registers, self.stack)?),
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

//! The step from a frame to its caller by a rule, for the handlers of the agent and for the sampler
//! alike. They differ in the registers that they know and in the memory that they can read.

use super::frame_rule::{CallerValue, FrameRule, plus};
use crate::arch::{CALLEE_SAVED, FRAME_POINTER, RED_ZONE, STACK_POINTER, strip_signature};

/// A frame: its registers, and the memory that a rule reads.
pub(crate) trait FrameSource {
    /// The reason why a value is not known.
    type NoValue;
    /// The reason for a value that nothing tells.
    const LOST: Self::NoValue;

    /// Returns a register by DWARF number.
    fn register(&self, number: u8) -> Result<u64, Self::NoValue>;

    /// Reads a word of the stack.
    fn word(&mut self, address: u64) -> Result<u64, Self::NoValue>;

    /// Evaluates a DWARF expression by its number.
    fn evaluate(&mut self, expression: u32, cfa: u64) -> Result<u64, Self::NoValue>;
}

/// The place of a value of the caller.
enum ValueLocation {
    Known(u64),
    /// It is in the word at this address.
    Word(u64),
}

/// A register of the caller, as far as the frame tells it.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the agent alone remembers where words were"))]
pub(crate) struct SavedRegister {
    pub(crate) value: Option<u64>,
    /// The address of the word that tells it. If the word cannot be read, that matters only to a
    /// caller that needs the value.
    pub(crate) at: Option<u64>,
}

/// Result of a step by a rule of `SAVED` registers.
#[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the agent alone remembers where words were"))]
pub(crate) enum StepByRule<const SAVED: usize> {
    Caller {
        /// The return address, without a signature.
        ip: u64,
        /// The stack pointer.
        cfa: u64,
        /// The address of the word that the return address was read from.
        return_at: Option<u64>,
        /// The first registers of [`CALLEE_SAVED`].
        saved: [SavedRegister; SAVED],
    },
    /// The frame is the thread's outermost one: its rule says so, or its return address is zero.
    Root {
        /// The address of the word that the return address was read from.
        return_at: Option<u64>,
    },
}

impl<const SAVED: usize> FrameRule<SAVED> {
    /// Steps to the caller.
    #[inline(always)]
    pub(crate) fn step<F: FrameSource>(&self, frame: &mut F) -> Result<StepByRule<SAVED>, F::NoValue> {
        if self.return_address == CallerValue::Undefined {
            return Ok(StepByRule::Root { return_at: None });
        }
        let cfa = self.cfa(frame)?;
        let (address, return_at) = match locate(frame, self.return_address, None, cfa)? {
            ValueLocation::Known(address) => (address, None),
            ValueLocation::Word(at) => (frame.word(at)?, Some(at)),
        };
        let ip = strip_signature(address);
        if ip == 0 {
            return Ok(StepByRule::Root { return_at });
        }
        let mut saved = [SavedRegister { value: None, at: None }; SAVED];
        for ((register, &number), &value) in saved.iter_mut().zip(&CALLEE_SAVED).zip(&self.saved) {
            *register = saved_register(frame, number as u8, value, cfa);
        }
        Ok(StepByRule::Caller { ip, cfa, return_at, saved })
    }

    /// Computes the canonical frame address.
    #[inline(always)]
    pub(crate) fn cfa<F: FrameSource>(&self, frame: &mut F) -> Result<u64, F::NoValue> {
        match locate(frame, self.cfa, None, 0)? {
            ValueLocation::Known(cfa) => Ok(cfa),
            ValueLocation::Word(at) => Ok(frame.word(at)?.wrapping_add(self.cfa.constant())),
        }
    }
}

#[inline(always)]
fn saved_register<F: FrameSource>(frame: &mut F, number: u8, value: CallerValue, cfa: u64) -> SavedRegister {
    let sp = frame.register(STACK_POINTER as u8).unwrap_or(0);
    let is_restored =
        usize::from(number) == FRAME_POINTER && is_frame_pointer_restored(value, frame.register(number).ok(), sp, cfa);
    match locate(frame, if is_restored { CallerValue::Same } else { value }, Some(number), cfa) {
        Ok(ValueLocation::Known(value)) => SavedRegister { value: Some(value), at: None },
        Ok(ValueLocation::Word(at)) => match frame.word(at) {
            Ok(word) => SavedRegister { value: Some(word), at: Some(at) },
            // The kernel's copies begin at the stack pointer. What a function has popped lies below
            // it, and the register has that value again.
            Err(_) if (sp.saturating_sub(RED_ZONE)..sp).contains(&at) => {
                SavedRegister { value: frame.register(number).ok(), at: None }
            }
            Err(_) => SavedRegister { value: None, at: Some(at) },
        },
        Err(_) => SavedRegister { value: None, at: None },
    }
}

/// Finds a value of the caller, which is in register `same` if it is the same.
#[inline(always)]
fn locate<F: FrameSource>(
    frame: &mut F,
    value: CallerValue,
    same: Option<u8>,
    cfa: u64,
) -> Result<ValueLocation, F::NoValue> {
    // Nearly all values are so. Comparing with the first of them first makes warm walks a tenth
    // shorter.
    match value {
        CallerValue::AtCfa(offset) => Ok(ValueLocation::Word(plus(cfa, offset))),
        CallerValue::Same => Ok(ValueLocation::Known(frame.register(same.ok_or(F::LOST)?)?)),
        CallerValue::Register(number, offset) => Ok(ValueLocation::Known(plus(frame.register(number)?, offset))),
        value => locate_rare(frame, value, cfa),
    }
}

/// Finds a value of another kind. It is a function of its own to keep handlers small.
#[inline(never)]
fn locate_rare<F: FrameSource>(frame: &mut F, value: CallerValue, cfa: u64) -> Result<ValueLocation, F::NoValue> {
    Ok(match value {
        CallerValue::CfaPlus(offset) => ValueLocation::Known(plus(cfa, offset)),
        CallerValue::ReplacedAtCfa(offset) => ValueLocation::Word(plus(cfa, offset)),
        CallerValue::AtRegister(base, offset) | CallerValue::AtPlus { register: base, offset, .. } => {
            ValueLocation::Word(plus(frame.register(base)?, offset))
        }
        CallerValue::AtIndexed { register: base, index, offset, .. } => {
            let index = frame.register(index)?.wrapping_mul(8);
            ValueLocation::Word(plus(frame.register(base)?.wrapping_add(index), offset))
        }
        CallerValue::Expression(id) => ValueLocation::Known(frame.evaluate(id, cfa)?),
        CallerValue::AtExpression(id) => ValueLocation::Word(frame.evaluate(id, cfa)?),
        CallerValue::AtCfa(_) | CallerValue::Same | CallerValue::Register(..) | CallerValue::Undefined => {
            return Err(F::LOST);
        }
    })
}

/// Returns whether a frame from `sp` to `cfa` has its caller's frame pointer again, although it is
/// `saved` in the frame. A function that aligns its stack keeps its frame pointer within its frame
/// until the last two instructions. The tables omit that the caller's is restored by then.
#[inline(always)]
fn is_frame_pointer_restored(saved: CallerValue, frame_pointer: Option<u64>, sp: u64, cfa: u64) -> bool {
    matches!(saved, CallerValue::AtRegister(base, _) if usize::from(base) == FRAME_POINTER)
        && !frame_pointer.is_some_and(|pointer| (sp..cfa).contains(&pointer))
}

//! The rule of a frame: where its caller's values are.

use crate::arch::{CALLEE_SAVED, FRAME_POINTER, LINK_REGISTER, PUSHED_BY_CALL};

/// The computation of a value of the caller from the registers and the stack of a frame. CFA is the
/// canonical frame address, which is the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerValue {
    /// It is the value of the same register.
    Same,
    /// It cannot be known. For a return address this means the end of the stack.
    Undefined,
    /// CFA + offset.
    CfaPlus(i32),
    /// The word at CFA + offset.
    AtCfa(i32),
    /// The same in a function that replaces the word on its way to a landing pad. Only return
    /// addresses are so.
    ReplacedAtCfa(i32),
    /// Register (by DWARF number) + offset.
    Register(u8, i32),
    /// The word at register + offset.
    AtRegister(u8, i32),
    /// The word at register + offset, plus a constant.
    AtPlus { register: u8, plus: u8, offset: i32 },
    /// The word at register + 8 × index register + offset, plus a constant.
    AtIndexed { register: u8, index: u8, plus: u8, offset: i32 },
    /// The result of a DWARF expression, by its number.
    Expression(u32),
    /// The word at the result of a DWARF expression.
    AtExpression(u32),
}

const _: () = assert!(size_of::<CallerValue>() == 8);

impl CallerValue {
    /// The return address of a function that has saved nothing.
    pub(crate) const AFTER_CALL: CallerValue = match LINK_REGISTER {
        None => CallerValue::AtCfa(-(PUSHED_BY_CALL as i32)),
        Some(register) => CallerValue::Register(register as u8, 0),
    };

    /// Returns the address of the word that the value is read from, if it is one and the registers
    /// that lead there are known.
    #[inline(always)]
    pub(crate) fn address(self, cfa: u64, register: impl Fn(u8) -> Option<u64>) -> Option<u64> {
        // Nearly all values are so. Comparing with this first makes warm walks a tenth shorter.
        if let CallerValue::AtCfa(offset) = self {
            return Some(plus(cfa, offset));
        }
        Some(match self {
            CallerValue::ReplacedAtCfa(offset) => plus(cfa, offset),
            CallerValue::AtRegister(base, offset) | CallerValue::AtPlus { register: base, offset, .. } => {
                plus(register(base)?, offset)
            }
            CallerValue::AtIndexed { register: base, index, offset, .. } => {
                plus(register(base)?.wrapping_add(register(index)?.wrapping_mul(8)), offset)
            }
            _ => return None,
        })
    }

    /// Returns what is added to that word.
    #[inline(always)]
    pub(crate) fn constant(self) -> u64 {
        match self {
            CallerValue::AtPlus { plus, .. } | CallerValue::AtIndexed { plus, .. } => plus.into(),
            _ => 0,
        }
    }
}

/// Adds an offset to an address.
#[inline(always)]
pub(crate) fn plus(base: u64, offset: i32) -> u64 {
    base.wrapping_add_signed(offset.into())
}

/// The rules of one code address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRule {
    /// The canonical frame address.
    pub(crate) cfa: CallerValue,
    /// The return address.
    pub(crate) return_address: CallerValue,
    /// The registers of [`CALLEE_SAVED`].
    pub(crate) saved: [CallerValue; CALLEE_SAVED.len()],
}

/// Returns the canonical frame address of a frame in terms of its frame pointer, if the pointer
/// leads to its record: the caller's frame pointer and the return address. For a frame whose stack
/// pointer is not known.
pub(crate) fn cfa_by_record(
    cfa: CallerValue,
    frame_pointer: CallerValue,
    return_address: CallerValue,
) -> Option<CallerValue> {
    match (cfa, frame_pointer, return_address) {
        (CallerValue::Register(base, _), ..) if usize::from(base) == FRAME_POINTER => Some(cfa),
        (CallerValue::Register(..), CallerValue::AtCfa(record), CallerValue::AtCfa(at)) if at - record == 8 => {
            Some(CallerValue::Register(FRAME_POINTER as u8, -record))
        }
        _ => None,
    }
}

/// Returns whether a frame from `sp` to `cfa` has its caller's frame pointer again, although it is
/// `saved` in the frame. A function that aligns its stack keeps its frame pointer within its frame
/// until the last two instructions. The tables omit that the caller's is restored by then.
#[inline(always)]
pub(crate) fn is_frame_pointer_restored(saved: CallerValue, frame_pointer: Option<u64>, sp: u64, cfa: u64) -> bool {
    matches!(saved, CallerValue::AtRegister(base, _) if usize::from(base) == FRAME_POINTER)
        && !frame_pointer.is_some_and(|pointer| (sp..cfa).contains(&pointer))
}

//! The rule of a frame: where its caller's values are.

#[cfg(feature = "viewer")]
use crate::arch::STACK_POINTER;
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

    /// Returns what is added to the word that the value is read from.
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

/// The rules of one code address, for the first `SAVED` registers of [`CALLEE_SAVED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRule<const SAVED: usize = { CALLEE_SAVED.len() }> {
    /// The canonical frame address.
    pub(crate) cfa: CallerValue,
    /// The return address.
    pub(crate) return_address: CallerValue,
    /// The registers; the first is the frame pointer.
    pub(crate) saved: [CallerValue; SAVED],
}

/// The part of a rule that handlers follow, and that their caches hold.
#[cfg(feature = "agent")]
pub(crate) type PackedRule = FrameRule<1>;

const _: () = assert!(size_of::<FrameRule<1>>() == 24 && CALLEE_SAVED[0] == FRAME_POINTER);

impl<const SAVED: usize> FrameRule<SAVED> {
    /// Returns the rule for a frame whose frame pointer is known and whose stack pointer is not, if
    /// the frame pointer leads to the frame's record: the caller's frame pointer and the return
    /// address.
    pub(crate) fn with_cfa_by_record(self) -> Option<FrameRule<SAVED>> {
        let cfa = match (self.cfa, self.saved[0], self.return_address) {
            (CallerValue::Register(base, _), ..) if usize::from(base) == FRAME_POINTER => self.cfa,
            (CallerValue::Register(..), CallerValue::AtCfa(record), CallerValue::AtCfa(at))
                if at.wrapping_sub(record) == 8 =>
            {
                CallerValue::Register(FRAME_POINTER as u8, record.wrapping_neg())
            }
            _ => return None,
        };
        Some(FrameRule { cfa, ..self })
    }
}

#[cfg(feature = "viewer")]
impl FrameRule {
    /// The rule of a function that has pushed nothing: its return address is where the call has
    /// left it.
    pub(crate) const JUST_CALLED: FrameRule = FrameRule {
        cfa: CallerValue::Register(STACK_POINTER as u8, PUSHED_BY_CALL as i32),
        return_address: CallerValue::AFTER_CALL,
        saved: [CallerValue::Same; CALLEE_SAVED.len()],
    };
}

#[cfg(feature = "agent")]
impl FrameRule {
    /// Returns the part that handlers follow.
    pub(crate) fn pack(&self) -> PackedRule {
        FrameRule { cfa: self.cfa, return_address: self.return_address, saved: [self.saved[0]] }
    }
}

//! The translation of a row of the unwind tables to a rule. It does not allocate.

use gimli::{
    CfaRule, Encoding, EndianSlice, Expression, Format, LittleEndian, Operation, Register, RegisterRule,
    UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, Vendor,
};

use super::frame_rule::{CallerValue, FrameRule};
use crate::arch::{CALLEE_SAVED, EH_RETURN_DATA, LINK_REGISTER, PROGRAM_COUNTER};

/// DWARF number of the instruction pointer, in the type that [`DwarfOp`] uses.
const PROGRAM_COUNTER_NUMBER: u8 = PROGRAM_COUNTER as u8;
/// The vendor whose instructions the tables may have besides the common ones.
pub(crate) const VENDOR: Vendor = if LINK_REGISTER.is_some() { Vendor::AArch64 } else { Vendor::Default };
/// The way in which expressions of unwind tables encode addresses.
pub(crate) const ENCODING: Encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };

/// Translates the row of an address of the file. `keep` takes an expression that no other value
/// expresses, and returns its number. Returns `None` for a row that cannot be followed.
pub(crate) fn frame_rule<'a, S, T>(
    row: &UnwindTableRow<usize, T>,
    section: &S,
    return_register: Register,
    address: u64,
    keep: &mut impl FnMut(&'a [u8]) -> Option<u32>,
) -> Option<FrameRule>
where
    S: UnwindSection<EndianSlice<'a, LittleEndian>>,
    T: UnwindContextStorage<usize>,
{
    let bytes_of = |expression: &UnwindExpression<usize>| expression.get(section).ok().map(|found| found.0.slice());
    let mut value = |rule: RegisterRule<usize>| match rule {
        RegisterRule::Undefined => Some(CallerValue::Undefined),
        RegisterRule::SameValue => Some(CallerValue::Same),
        RegisterRule::Offset(offset) => Some(CallerValue::AtCfa(i32::try_from(offset).ok()?)),
        RegisterRule::ValOffset(offset) => Some(CallerValue::CfaPlus(i32::try_from(offset).ok()?)),
        RegisterRule::Register(register) => Some(CallerValue::Register(number(register)?, 0)),
        RegisterRule::Expression(expression) => {
            let bytes = bytes_of(&expression)?;
            match operations(bytes).as_ref().map(DwarfOps::as_slice) {
                Some(&[DwarfOp::Register(register, offset)]) => Some(CallerValue::AtRegister(register, offset)),
                _ => keep(bytes).map(CallerValue::AtExpression),
            }
        }
        RegisterRule::ValExpression(expression) => keep(bytes_of(&expression)?).map(CallerValue::Expression),
        _ => None,
    };
    let mut return_address = match (row.register(return_register), LINK_REGISTER) {
        (None, None) => CallerValue::Undefined,
        // Where calls leave it, it is as long as nothing else is said.
        (None | Some(RegisterRule::SameValue), Some(_)) => CallerValue::AFTER_CALL,
        (Some(rule), _) => value(rule)?,
    };
    let mut saved = [CallerValue::Same; CALLEE_SAVED.len()];
    if return_address == CallerValue::Undefined {
        return Some(FrameRule { cfa: CallerValue::Undefined, return_address, saved });
    }
    for (place, &register) in saved.iter_mut().zip(&CALLEE_SAVED) {
        if let Some(rule) = row.register(Register(register as u16)) {
            // A register that cannot be recovered ends the walk only where it is needed.
            *place = value(rule).unwrap_or(CallerValue::Undefined);
        }
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            CallerValue::Register(number(*register)?, i32::try_from(*offset).ok()?)
        }
        CfaRule::Expression(expression) => {
            let bytes = bytes_of(expression)?;
            cfa_of(bytes, address).or_else(|| keep(bytes).map(CallerValue::Expression))?
        }
    };
    let is_saved = |register| matches!(row.register(Register(register as u16)), Some(RegisterRule::Offset(_)));
    if let CallerValue::AtCfa(offset) = return_address
        && EH_RETURN_DATA.into_iter().all(is_saved)
    {
        return_address = CallerValue::ReplacedAtCfa(offset);
    }
    Some(FrameRule { cfa, return_address, saved })
}

/// Recognizes the canonical frame addresses that compilers, linkers and people write.
fn cfa_of(expression: &[u8], address: u64) -> Option<CallerValue> {
    match *operations(expression)?.as_slice() {
        // A function that aligns its stack keeps the address in its frame.
        [DwarfOp::Register(register, offset), DwarfOp::Deref] => Some(CallerValue::AtRegister(register, offset)),
        // Hand-written assembly that aligns its stack keeps the old stack pointer there.
        [DwarfOp::Register(register, offset), DwarfOp::Deref, DwarfOp::PlusConstant(plus)] => {
            Some(CallerValue::AtPlus { register, plus: u8::try_from(plus).ok()?, offset })
        }
        // The same above an array whose length is in a register.
        [
            DwarfOp::Register(register, offset),
            DwarfOp::Register(index, 0),
            DwarfOp::Literal(8),
            DwarfOp::Mul,
            DwarfOp::Plus,
            DwarfOp::Deref,
            DwarfOp::PlusConstant(plus),
        ] => Some(CallerValue::AtIndexed { register, index, plus: u8::try_from(plus).ok()?, offset }),
        [DwarfOp::Register(register, offset)] => Some(CallerValue::Register(register, offset)),
        // A lazy stub of a linkage table: behind its push instruction it has pushed a word.
        [
            DwarfOp::Register(register, offset),
            DwarfOp::Register(PROGRAM_COUNTER_NUMBER, 0),
            DwarfOp::Literal(mask),
            DwarfOp::And,
            DwarfOp::Literal(at),
            DwarfOp::Ge,
            DwarfOp::Literal(3),
            DwarfOp::Shl,
            DwarfOp::Plus,
        ] => Some(CallerValue::Register(register, offset.checked_add(i32::from(address & mask >= at) << 3)?)),
        _ => None,
    }
}

fn operations(expression: &[u8]) -> Option<DwarfOps> {
    let mut operations = Expression(EndianSlice::new(expression, LittleEndian)).operations(ENCODING);
    let mut steps = DwarfOps { steps: [DwarfOp::Plus; MAX_STEPS], count: 0 };
    while let Some(operation) = operations.next().ok()? {
        let step = match operation {
            Operation::RegisterOffset { register, offset, .. } => {
                DwarfOp::Register(number(register)?, i32::try_from(offset).ok()?)
            }
            Operation::Deref { space: false, size: 8, .. } => DwarfOp::Deref,
            Operation::UnsignedConstant { value } => DwarfOp::Literal(value),
            Operation::And => DwarfOp::And,
            Operation::Ge => DwarfOp::Ge,
            Operation::Shl => DwarfOp::Shl,
            Operation::Plus => DwarfOp::Plus,
            Operation::Mul => DwarfOp::Mul,
            Operation::PlusConstant { value } => DwarfOp::PlusConstant(value),
            _ => return None,
        };
        *steps.steps.get_mut(steps.count)? = step;
        steps.count += 1;
    }
    Some(steps)
}

/// Number of operations of the longest expression that is recognized.
const MAX_STEPS: usize = 9;

struct DwarfOps {
    steps: [DwarfOp; MAX_STEPS],
    count: usize,
}

impl DwarfOps {
    fn as_slice(&self) -> &[DwarfOp] {
        &self.steps[..self.count]
    }
}

#[derive(Clone, Copy)]
enum DwarfOp {
    Register(u8, i32),
    Literal(u64),
    Deref,
    And,
    Ge,
    Shl,
    Plus,
    Mul,
    PlusConstant(u64),
}

/// Returns the DWARF number of a general register or the instruction pointer.
fn number(register: Register) -> Option<u8> {
    (register.0 <= PROGRAM_COUNTER as u16).then_some(register.0 as u8)
}

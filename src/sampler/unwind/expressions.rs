//! The DWARF expressions of unwind tables, and their evaluation on a frame.

use gimli::{EndianSlice, Evaluation, EvaluationResult, LittleEndian, Location, Value};

use super::step::NoValue;
use crate::arch::PROGRAM_COUNTER;
use crate::process::unwind::ThreadRegisters;
use crate::process::unwind::table_row::ENCODING;
use crate::sampler::stack_copy::StackCopy;

/// Maximum number of different expressions of a process. Linkers and compilers write a few.
const MAX_EXPRESSIONS: usize = 4096;
/// Maximum length of an expression in bytes.
const MAX_LENGTH: usize = 256;
/// Maximum number of operations of one evaluation.
const MAX_OPERATIONS: u32 = 256;

/// The different expressions of a process, by number.
#[derive(Default)]
pub(super) struct Expressions {
    bytes: Vec<Box<[u8]>>,
}

impl Expressions {
    /// Returns the number of an expression; `None` if there are too many or it is too long.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Option<u32> {
        let known = self.bytes.iter().position(|known| **known == *bytes);
        if known.is_none() && (self.bytes.len() == MAX_EXPRESSIONS || bytes.len() > MAX_LENGTH) {
            return None;
        }
        let id = known.unwrap_or_else(|| {
            self.bytes.push(bytes.into());
            self.bytes.len() - 1
        });
        Some(id as u32)
    }

    /// Evaluates an expression on a frame. The canonical frame address lies on the stack of the
    /// evaluation at its start.
    pub(super) fn evaluate(
        &self,
        id: u32,
        cfa: u64,
        registers: &ThreadRegisters,
        stack: &StackCopy,
    ) -> Result<u64, NoValue> {
        let bytes = self.bytes.get(id as usize).ok_or(NoValue::Lost)?;
        let mut evaluation = Evaluation::new(EndianSlice::new(bytes, LittleEndian), ENCODING);
        evaluation.set_initial_value(cfa);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        let mut result = evaluation.evaluate();
        // The limit of operations holds across resumptions.
        loop {
            result = match result.map_err(|_| NoValue::Lost)? {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = if usize::from(register.0) == PROGRAM_COUNTER {
                        registers.ip
                    } else {
                        registers.get(register.0.into()).ok_or(NoValue::UnknownRegister)?
                    };
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                    let word = stack.word(address).ok_or(NoValue::NoStack(address))?;
                    evaluation.resume_with_memory(Value::Generic(word))
                }
                _ => return Err(NoValue::Lost),
            };
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Ok(address),
                _ => Err(NoValue::Lost),
            },
            _ => Err(NoValue::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{FRAME_POINTER, PROGRAM_COUNTER, STACK_POINTER};

    #[test]
    fn expressions_read_registers_and_stack() {
        let mut expressions = Expressions::default();
        let mut registers = ThreadRegisters::new(0x40_000c);
        registers.set(STACK_POINTER, 0x1000);
        let mut stack = StackCopy::default();
        stack.add(0x1000, 32, |bytes| {
            bytes[24..].copy_from_slice(&0x7777u64.to_le_bytes());
            32
        });
        let mut value = |bytes: &[u8]| {
            let id = expressions.add(bytes).unwrap();
            expressions.evaluate(id, 5, &registers, &stack)
        };
        // Registers by DW_OP_bregx.
        let [sp, pc, base] = [STACK_POINTER, PROGRAM_COUNTER, FRAME_POINTER].map(|number| number as u8);
        // *(sp + 24) + 8.
        assert_eq!(value(&[0x92, sp, 24, 0x06, 0x23, 8]), Ok(0x777f));
        // sp + 8 + ((pc & 15) >= 11) * 8: the lazy stub of a linkage table.
        assert_eq!(value(&[0x92, sp, 8, 0x92, pc, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]), Ok(0x1010));
        assert_eq!(value(&[0x92, base, 0]), Err(NoValue::UnknownRegister));
        assert_eq!(value(&[0x92, sp, 0x80, 2, 0x06]), Err(NoValue::NoStack(0x1100)));
        assert_eq!(value(&[0x23, 3]), Ok(8), "the canonical frame address is on the stack");
        // A jump to itself ends, and so does an empty stack.
        assert_eq!(value(&[0x2f, 0xfd, 0xff]), Err(NoValue::Lost));
        assert_eq!(value(&[0x13, 0x13]), Err(NoValue::Lost));
        assert_eq!(expressions.add(&[0; 300]), None);
    }
}

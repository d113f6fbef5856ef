//! The effect of aarch64 instructions on a path.

use super::super::code_path::{Flow, PathState, SymbolicValue};
use crate::arch::{INSTRUCTION, Operation, STACK_POINTER, Transfer, alignment_of, decode};

/// Length of every instruction in bytes.
pub(in super::super) const MAX_INSTRUCTION: usize = INSTRUCTION;

/// An instruction.
pub(in super::super) struct Instruction {
    address: u64,
    operation: Operation,
}

impl Instruction {
    /// Decodes the instruction at an address that some code begins with.
    pub(in super::super) fn decode(code: &[u8], address: u64) -> Option<Instruction> {
        let operation = decode(u32::from_le_bytes(*code.first_chunk()?));
        Some(Instruction { address, operation })
    }

    /// Returns the address of the next instruction.
    pub(in super::super) fn next_address(&self) -> u64 {
        self.address.wrapping_add(INSTRUCTION as u64)
    }

    /// Returns where control goes.
    pub(in super::super) fn flow(&self) -> Flow {
        match self.operation {
            Operation::Call => Flow::Call,
            Operation::Jump(offset) => Flow::Jump(self.address.wrapping_add_signed(offset)),
            Operation::Branch(offset) => Flow::Branch(self.address.wrapping_add_signed(offset)),
            Operation::Return => Flow::Return(0),
            Operation::Elsewhere => Flow::Elsewhere,
            Operation::End => Flow::End,
            _ => Flow::Next,
        }
    }

    /// Applies an instruction that does not change the flow of control.
    pub(in super::super) fn apply(&self, state: &mut PathState) {
        match self.operation {
            Operation::Add { to, from, constant } => state.registers[to] = state.registers[from].plus(constant),
            Operation::Load(transfer) => {
                for (register, address) in words(state, transfer) {
                    state.registers[register] = state.load(address);
                }
                change_base(state, transfer);
            }
            Operation::Store(transfer) => {
                for (register, address) in words(state, transfer) {
                    // The register that stands for the stack pointer in addresses is zero here.
                    let is_zero = register == STACK_POINTER;
                    let value = if is_zero { SymbolicValue::Unknown } else { state.registers[register] };
                    state.store(address, value);
                }
                change_base(state, transfer);
            }
            Operation::Align { from, mask } => match alignment_of(mask) {
                Some(alignment) if state.alignment == 1 => {
                    state.registers[STACK_POINTER] = state.registers[from];
                    state.alignment = alignment;
                }
                _ => state.registers[STACK_POINTER] = SymbolicValue::Unknown,
            },
            Operation::Change(registers) => {
                registers.into_iter().flatten().for_each(|register| state.registers[register] = SymbolicValue::Unknown);
            }
            _ => {}
        }
    }
}

/// Returns the registers of a transfer and their addresses. Loads into the register zero count as
/// none.
fn words(state: &PathState, transfer: Transfer) -> impl Iterator<Item = (usize, SymbolicValue)> + use<> {
    let base = state.registers[transfer.base];
    let registers = transfer.registers.into_iter().zip([0, 8]);
    registers.filter_map(move |(register, more)| Some((register?, base.plus(transfer.offset + more))))
}

fn change_base(state: &mut PathState, transfer: Transfer) {
    if transfer.added != 0 {
        state.registers[transfer.base] = state.registers[transfer.base].plus(transfer.added);
    }
}

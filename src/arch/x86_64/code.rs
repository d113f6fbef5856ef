//! The decoder of x86-64 instructions. It knows all of them and makes its tables when it is first
//! used, which handlers of signals cannot do.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::registers::{FRAME_POINTER, STACK_POINTER};
use crate::arch::operation::{Operation, Transfer};

/// Maximum length of an instruction in bytes.
pub(crate) const MAX_INSTRUCTION: usize = 15;

/// Bytes of a word on the stack.
const WORD: i64 = 8;
/// DWARF number of rbx.
const RBX: usize = 3;

/// Decodes the instruction that some code begins with. Returns its length, too; `None` if there is
/// no instruction.
pub(crate) fn decode(code: &[u8]) -> Option<(Operation, usize)> {
    // Its address is 0, so that targets are offsets.
    let decoded = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode();
    (!decoded.is_invalid()).then(|| (operation(&decoded), decoded.len()))
}

fn operation(instruction: &Instruction) -> Operation {
    let target =
        (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target().cast_signed());
    match (instruction.mnemonic(), target) {
        (Mnemonic::Jmp, Some(target)) => Operation::Jump(target),
        (Mnemonic::Jmp | Mnemonic::Iretq | Mnemonic::Retf | Mnemonic::Sysretq, _) => Operation::Elsewhere,
        (Mnemonic::Ret, _) if instruction.op_count() > 0 => Operation::Return(instruction.immediate(0) as i32),
        (Mnemonic::Ret, _) => Operation::Return(0),
        (Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::Hlt, _) => Operation::End,
        (Mnemonic::Call, _) => Operation::Call,
        (_, Some(target)) => Operation::Branch(target),
        _ => change(instruction),
    }
}

/// Returns the effect of an instruction that does not change the flow of control.
fn change(instruction: &Instruction) -> Operation {
    let register = |kind, register| (kind == OpKind::Register).then(|| dwarf_number(register)).flatten();
    let target = match instruction.op_count() {
        0 => None,
        _ => register(instruction.op0_kind(), instruction.op0_register()),
    };
    let is_whole = target.is_some() && is_whole_register(instruction.op0_register());
    match (instruction.mnemonic(), target) {
        (Mnemonic::Push, _) => push(target.unwrap_or(STACK_POINTER)),
        (Mnemonic::Pushfq, _) => push(STACK_POINTER),
        (Mnemonic::Pop, Some(target)) if target != STACK_POINTER => Operation::Load(Transfer {
            registers: [Some(target), None],
            base: STACK_POINTER,
            offset: 0,
            to: STACK_POINTER,
            added: WORD,
        }),
        (Mnemonic::Pop, None) | (Mnemonic::Popfq, _) => {
            Operation::Add { to: STACK_POINTER, from: STACK_POINTER, constant: WORD }
        }
        (Mnemonic::Leave, _) => Operation::Load(Transfer {
            registers: [Some(FRAME_POINTER), None],
            base: FRAME_POINTER,
            offset: 0,
            to: STACK_POINTER,
            added: WORD,
        }),
        (Mnemonic::Mov, Some(target)) if is_whole => match address(instruction) {
            _ if instruction.op1_kind() == OpKind::Register && is_whole_register(instruction.op1_register()) => {
                let from = dwarf_number(instruction.op1_register());
                from.map_or(Operation::Change([Some(target), None]), |from| Operation::Add {
                    to: target,
                    from,
                    constant: 0,
                })
            }
            Some((base, offset)) if instruction.op1_kind() == OpKind::Memory => {
                Operation::Load(Transfer { registers: [Some(target), None], base, offset, to: base, added: 0 })
            }
            _ => Operation::Change([Some(target), None]),
        },
        (Mnemonic::Mov, None) if instruction.op0_kind() == OpKind::Memory => match address(instruction) {
            Some((base, offset)) => {
                let is_whole = is_whole_register(instruction.op1_register());
                let stored = register(instruction.op1_kind(), instruction.op1_register()).filter(|_| is_whole);
                let registers = [Some(stored.unwrap_or(STACK_POINTER)), None];
                Operation::Store(Transfer { registers, base, offset, to: base, added: 0 })
            }
            None => Operation::Change([None; 2]),
        },
        (Mnemonic::Lea, Some(target)) => match address(instruction).filter(|_| is_whole) {
            Some((from, constant)) => Operation::Add { to: target, from, constant },
            None => Operation::Change([Some(target), None]),
        },
        (mnemonic @ (Mnemonic::Add | Mnemonic::Sub), Some(target)) if is_immediate(instruction.op1_kind()) => {
            let amount = instruction.immediate(1).cast_signed();
            let constant = if mnemonic == Mnemonic::Add { amount } else { amount.wrapping_neg() };
            match is_whole && i32::try_from(constant).is_ok() {
                true => Operation::Add { to: target, from: target, constant },
                false => Operation::Change([Some(target), None]),
            }
        }
        (Mnemonic::And, Some(STACK_POINTER)) if is_immediate(instruction.op1_kind()) => {
            Operation::Align { from: STACK_POINTER, mask: instruction.immediate(1).cast_signed() }
        }
        (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt | Mnemonic::Nop, _) => Operation::Change([None; 2]),
        (Mnemonic::Xchg | Mnemonic::Xadd, _) => {
            Operation::Change([target, register(instruction.op1_kind(), instruction.op1_register())])
        }
        // These write registers that they do not name.
        (Mnemonic::Cpuid, _) => Operation::Change([Some(RBX), None]),
        (Mnemonic::Enter, _) => Operation::Change([Some(FRAME_POINTER), Some(STACK_POINTER)]),
        _ => Operation::Change([target, None]),
    }
}

fn push(register: usize) -> Operation {
    Operation::Store(Transfer {
        registers: [Some(register), None],
        base: STACK_POINTER,
        offset: -WORD,
        to: STACK_POINTER,
        added: -WORD,
    })
}

/// Returns the address of the memory operand, if it is a register with an offset.
fn address(instruction: &Instruction) -> Option<(usize, i64)> {
    let is_plain = instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None
        && is_whole_register(instruction.memory_base());
    let base = dwarf_number(instruction.memory_base()).filter(|_| is_plain)?;
    Some((base, instruction.memory_displacement64().cast_signed()))
}

/// Returns the DWARF number of a general register of any size.
fn dwarf_number(register: Register) -> Option<usize> {
    /// DWARF numbers in the order of the processor.
    const NUMBERS: [usize; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    /// The first and the last register of a size, and the number of the first one. AH to BH stand
    /// between BL and SPL.
    const RANGES: [(Register, Register, usize); 6] = [
        (Register::RAX, Register::R15, 0),
        (Register::EAX, Register::R15D, 0),
        (Register::AX, Register::R15W, 0),
        (Register::AL, Register::BL, 0),
        (Register::AH, Register::BH, 0),
        (Register::SPL, Register::R15L, 4),
    ];
    let &(first, _, number) = RANGES.iter().find(|(first, last, _)| (*first..=*last).contains(&register))?;
    NUMBERS.get(register as usize - first as usize + number).copied()
}

fn is_whole_register(register: Register) -> bool {
    (Register::RAX..=Register::R15).contains(&register)
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

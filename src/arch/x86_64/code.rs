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

#[cfg(test)]
mod tests {
    use crate::arch::{CALLEE_SAVED, FrameSize, STACK_POINTER};
    use crate::process::unwind::code_path::{CodePath, MAX_INSTRUCTIONS, frame_size_from_start, rule_from_return};
    use crate::process::unwind::{CallerValue, FrameRule};

    const START: u64 = 0x40_0000;

    fn reader(code: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize + '_ {
        |address, buffer| {
            let rest = address.checked_sub(START).and_then(|at| code.get(at as usize..)).unwrap_or(&[]);
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            length
        }
    }

    fn path(code: &[u8], from: u64) -> CodePath {
        rule_from_return(&mut reader(code), START + from, MAX_INSTRUCTIONS, &mut |_| true)
    }

    fn rule(cfa: i32, saved: &[(usize, CallerValue)]) -> CodePath {
        let mut rule = FrameRule::JUST_CALLED;
        rule.cfa = CallerValue::Register(STACK_POINTER as u8, cfa);
        rule.return_address = CallerValue::AtRegister(STACK_POINTER as u8, cfa - 8);
        for &(register, value) in saved {
            rule.saved[CALLEE_SAVED.iter().position(|&saved| saved == register).unwrap()] = value;
        }
        CodePath::Returns(rule)
    }

    /// push rbx; sub rsp, 16; test edi, edi; je +5; call; add rsp, 16; pop rbx; ret.
    const FUNCTION: [u8; 21] = [
        0x53, 0x48, 0x83, 0xec, 0x10, 0x85, 0xff, 0x74, 0x05, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3,
        0xcc,
    ];

    #[test]
    fn rule_holds_the_depth_and_the_popped_registers() {
        let saved = [(3, CallerValue::AtRegister(7, 16))];
        assert_eq!(path(&FUNCTION, 14), rule(32, &saved), "behind the call");
        assert_eq!(path(&FUNCTION, 5), rule(32, &saved), "before the branch");
        assert_eq!(path(&FUNCTION, 0), rule(8, &[]), "the function stores and restores the register itself");
        assert_eq!(path(&FUNCTION, 19), rule(8, &[]));
        let frame_size = |at| frame_size_from_start(&mut reader(&FUNCTION), START, START + at);
        let expected = [8, 32, 32, 8].map(|bytes| Some(FrameSize { bytes, alignment: 1 }));
        assert_eq!([0, 5, 14, 19].map(frame_size), expected);
        assert_eq!(frame_size(20), None, "no path leads there");
    }

    #[test]
    fn frame_pointer_leads_out_of_a_frame_of_unknown_size() {
        // push rbp; mov rbp, rsp; sub rsp, rax; leave; ret.
        let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0xc9, 0xc3];
        let CodePath::Returns(rule) = path(&code, 7) else { panic!("it returns") };
        assert_eq!((rule.cfa, rule.saved[0]), (CallerValue::Register(6, 16), CallerValue::AtRegister(6, 0)));
        assert_eq!(frame_size_from_start(&mut reader(&code), START, START + 7), None);
    }

    #[test]
    fn an_aligned_frame_has_an_alignment() {
        // push rbp; mov rbp, rsp; push rbx; and rsp, -64; sub rsp, 0x40; nop; leave; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x83, 0xec, 0x40, 0x90, 0xc9, 0xc3];
        let size = frame_size_from_start(&mut reader(&code), START, START + 13);
        assert_eq!(size, Some(FrameSize { bytes: 0x58, alignment: 64 }));
        let CodePath::Returns(rule) = path(&code, 4) else { panic!("it returns") };
        assert_eq!(rule.cfa, CallerValue::Register(6, 16), "the frame pointer leads out of it");
        // and rsp, -64; ret
        assert_eq!(path(&[0x48, 0x83, 0xe4, 0xc0, 0xc3], 0), CodePath::Unknown);
    }

    #[test]
    fn code_that_ends_the_thread_is_told_from_code_that_tells_nothing() {
        // mov eax, 60; syscall; jmp back.
        assert_eq!(path(&[0xb8, 60, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7], 0), CodePath::Ends);
        assert_eq!(path(&[0xff, 0xe0], 0), CodePath::Unknown, "jmp rax");
        assert_eq!(path(&[0xe8, 0, 0, 0, 0, 0x0f, 0x0b], 0), CodePath::Unknown, "call; ud2");
        assert_eq!(path(&[0x48, 0x83], 0), CodePath::Unknown, "half an instruction");
        assert_eq!(path(&[0x48, 0x83, 0xe4, 0xf0, 0xc3], 0), CodePath::Unknown, "and rsp, -16; ret");
    }

    #[test]
    fn every_code_ends() {
        let mut random = 88_172_645_463_325_252u64;
        for _ in 0..2000 {
            let code: Vec<u8> = (0..300)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random as u8
                })
                .collect();
            path(&code, random % 300);
            frame_size_from_start(&mut reader(&code), START, START + random % 300);
        }
    }
}

//! The effect of x86-64 instructions on a path.

use iced_x86::{Decoder, DecoderOptions, Instruction as Decoded, Mnemonic, OpKind, Register};

use super::super::code_path::{Flow, PathState, SymbolicValue};
use crate::arch::{CALLEE_SAVED, FRAME_POINTER, STACK_POINTER, alignment_of};

/// Maximum length of an instruction in bytes.
pub(in super::super) const MAX_INSTRUCTION: usize = 15;

/// An instruction.
pub(in super::super) struct Instruction(Decoded);

impl Instruction {
    /// Decodes the instruction at an address that some code begins with.
    pub(in super::super) fn decode(code: &[u8], address: u64) -> Option<Instruction> {
        let decoded = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        (!decoded.is_invalid()).then_some(Instruction(decoded))
    }

    /// Returns the address of the next instruction.
    pub(in super::super) fn next_address(&self) -> u64 {
        self.0.next_ip()
    }

    /// Returns where control goes.
    pub(in super::super) fn flow(&self) -> Flow {
        let instruction = &self.0;
        let target = (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target());
        match (instruction.mnemonic(), target) {
            (Mnemonic::Jmp, Some(target)) => Flow::Jump(target),
            (Mnemonic::Jmp | Mnemonic::Iretq | Mnemonic::Retf | Mnemonic::Sysretq, _) => Flow::Elsewhere,
            (Mnemonic::Ret, _) if instruction.op_count() > 0 => Flow::Return(instruction.immediate(0) as i32),
            (Mnemonic::Ret, _) => Flow::Return(0),
            (Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::Hlt, _) => Flow::End,
            (Mnemonic::Call, _) => Flow::Call,
            (_, Some(target)) => Flow::Branch(target),
            _ => Flow::Next,
        }
    }

    /// Applies an instruction that does not change the flow of control.
    pub(in super::super) fn apply(&self, state: &mut PathState) {
        let instruction = &self.0;
        let target = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register)
            .then(|| dwarf_number(instruction.op0_register()))
            .flatten();
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = target.map_or(SymbolicValue::Unknown, |number| state.registers[number]);
                push(state, value);
            }
            Mnemonic::Pushfq => push(state, SymbolicValue::Unknown),
            Mnemonic::Pop => {
                let value = pop(state);
                if let Some(number) = target {
                    state.registers[number] = value;
                }
            }
            Mnemonic::Popfq => drop(pop(state)),
            Mnemonic::Leave => {
                state.registers[STACK_POINTER] = state.registers[FRAME_POINTER];
                state.registers[FRAME_POINTER] = pop(state);
            }
            Mnemonic::Mov => apply_move(state, instruction, target),
            Mnemonic::Lea => {
                if let Some(number) = target {
                    state.registers[number] = address(state, instruction);
                }
            }
            Mnemonic::Add | Mnemonic::Sub if target.is_some() && is_immediate(instruction.op1_kind()) => {
                let number = target.unwrap_or_default();
                let amount = instruction.immediate(1) as i64;
                let amount = if instruction.mnemonic() == Mnemonic::Add { amount } else { amount.wrapping_neg() };
                let is_whole = is_whole_register(instruction.op0_register()) && i32::try_from(amount).is_ok();
                state.registers[number] =
                    if is_whole { state.registers[number].plus(amount) } else { SymbolicValue::Unknown };
            }
            Mnemonic::And if target == Some(STACK_POINTER) && is_immediate(instruction.op1_kind()) => {
                match alignment_of(instruction.immediate(1) as i64) {
                    Some(alignment) if state.alignment == 1 => state.alignment = alignment,
                    _ => state.registers[STACK_POINTER] = SymbolicValue::Unknown,
                }
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt | Mnemonic::Nop => {}
            mnemonic => {
                if let Some(number) = target {
                    state.registers[number] = SymbolicValue::Unknown;
                }
                if matches!(mnemonic, Mnemonic::Xchg | Mnemonic::Xadd) && instruction.op1_kind() == OpKind::Register {
                    dwarf_number(instruction.op1_register())
                        .into_iter()
                        .for_each(|number| state.registers[number] = SymbolicValue::Unknown);
                }
                // These write registers that they do not name.
                if matches!(mnemonic, Mnemonic::Cpuid | Mnemonic::Enter) {
                    state.registers[CALLEE_SAVED[1]] = SymbolicValue::Unknown;
                    if mnemonic == Mnemonic::Enter {
                        state.registers[STACK_POINTER] = SymbolicValue::Unknown;
                    }
                }
            }
        }
    }
}

fn apply_move(state: &mut PathState, instruction: &Decoded, target: Option<usize>) {
    let source = (instruction.op1_kind() == OpKind::Register).then(|| instruction.op1_register());
    let value = match source {
        Some(register) if is_whole_register(register) => {
            dwarf_number(register).map_or(SymbolicValue::Unknown, |number| state.registers[number])
        }
        None if instruction.op1_kind() == OpKind::Memory => state.load(address(state, instruction)),
        _ => SymbolicValue::Unknown,
    };
    match target {
        Some(number) if is_whole_register(instruction.op0_register()) => state.registers[number] = value,
        Some(number) => state.registers[number] = SymbolicValue::Unknown,
        None if instruction.op0_kind() == OpKind::Memory => state.store(address(state, instruction), value),
        None => {}
    }
}

/// Returns the address of the memory operand, if it is a known register with an offset.
fn address(state: &PathState, instruction: &Decoded) -> SymbolicValue {
    if instruction.memory_index() != Register::None
        || instruction.segment_prefix() != Register::None
        || !is_whole_register(instruction.memory_base())
    {
        return SymbolicValue::Unknown;
    }
    dwarf_number(instruction.memory_base()).map_or(SymbolicValue::Unknown, |number| {
        state.registers[number].plus(instruction.memory_displacement64() as i64)
    })
}

fn push(state: &mut PathState, value: SymbolicValue) {
    state.registers[STACK_POINTER] = state.sp().plus(-8);
    state.store(state.sp(), value);
}

fn pop(state: &mut PathState) -> SymbolicValue {
    let value = state.load(state.sp());
    state.registers[STACK_POINTER] = state.sp().plus(8);
    value
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
    use super::super::super::code_path::{CodePath, MAX_INSTRUCTIONS, frame_size_from_start, rule_from_return};
    use crate::arch::{CALLEE_SAVED, FrameSize, STACK_POINTER};
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

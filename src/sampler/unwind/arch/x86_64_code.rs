//! Rules of x86-64 code that no unwind table covers, found by following its instructions.
//!
//! Compiled code has one stack depth at each instruction, whatever path leads there. So the path
//! from an instruction to any `ret` tells where the return address lies and which registers are
//! popped again, and a path from the start of a function tells how far the stack pointer has moved.
//! The instructions are followed with symbols in place of values. A path ends where a symbol would
//! have to be guessed.

use std::collections::{HashSet, VecDeque};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::arch::{CALLEE_SAVED, FRAME_POINTER, FrameSize, STACK_POINTER, alignment_of};
use crate::process::unwind::{CallerValue, FrameRule};

/// Maximum number of instructions followed for a rule that is kept, and for one that is not.
pub(in super::super) const MAX_INSTRUCTIONS: usize = 2000;
pub(in super::super) const MAX_INSTRUCTIONS_ONCE: usize = 200;
/// Maximum number of branches that wait to be followed.
const MAX_BRANCHES: usize = 64;
/// Maximum number of words that a path is known to have stored.
const MAX_STORED: usize = 64;
/// Maximum length of an instruction in bytes.
const MAX_INSTRUCTION: usize = 15;
/// Bytes of code that are read together, and the maximum number of them that is kept.
const PAGE: u64 = 4096;
const MAX_PAGES: usize = 8;

/// A value, in terms of the registers at the instruction where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SymbolicValue {
    /// Register (by DWARF number) + offset.
    Initial(u8, i32),
    /// The word at register + offset, as it was in the beginning.
    Word(u8, i32),
    Unknown,
}

impl SymbolicValue {
    fn plus(self, offset: i64) -> SymbolicValue {
        match self {
            SymbolicValue::Initial(register, base) => i32::try_from(i64::from(base) + offset)
                .map_or(SymbolicValue::Unknown, |sum| SymbolicValue::Initial(register, sum)),
            _ => SymbolicValue::Unknown,
        }
    }
}

/// The state of a path before an instruction.
#[derive(Clone)]
struct PathState {
    ip: u64,
    /// The registers, by DWARF number.
    registers: [SymbolicValue; 16],
    /// The words that the path has stored: address and value.
    stored: Vec<(SymbolicValue, SymbolicValue)>,
    /// The power of two to a multiple of which the path has decreased the stack pointer, which is
    /// then lower than `registers` say by less than that; 1 for none.
    alignment: u64,
}

impl PathState {
    fn new(ip: u64) -> PathState {
        PathState {
            ip,
            registers: std::array::from_fn(|number| SymbolicValue::Initial(number as u8, 0)),
            stored: Vec::new(),
            alignment: 1,
        }
    }

    fn sp(&self) -> SymbolicValue {
        self.registers[STACK_POINTER]
    }

    fn load(&self, address: SymbolicValue) -> SymbolicValue {
        let stored = self.stored.iter().rev().find(|(at, _)| *at == address);
        match (stored, address) {
            (Some(&(_, value)), _) => value,
            // Below the first stack pointer nothing has been stored.
            (None, SymbolicValue::Initial(register, offset))
                if usize::from(register) != STACK_POINTER || offset >= 0 =>
            {
                SymbolicValue::Word(register, offset)
            }
            _ => SymbolicValue::Unknown,
        }
    }

    fn store(&mut self, address: SymbolicValue, value: SymbolicValue) {
        if address != SymbolicValue::Unknown && self.stored.len() < MAX_STORED {
            self.stored.push((address, value));
        }
    }

    fn push(&mut self, value: SymbolicValue) {
        self.registers[STACK_POINTER] = self.sp().plus(-8);
        self.store(self.sp(), value);
    }

    fn pop(&mut self) -> SymbolicValue {
        let value = self.load(self.sp());
        self.registers[STACK_POINTER] = self.sp().plus(8);
        value
    }

    /// Returns the rule of the frame, if the path is at a `ret` that removes `extra` bytes.
    fn rule_at_return(&self, extra: i32) -> Option<FrameRule> {
        let SymbolicValue::Initial(base, offset) = self.sp() else { return None };
        if usize::from(base) == STACK_POINTER && self.alignment != 1 {
            return None;
        }
        let saved = CALLEE_SAVED.map(|register| match self.registers[register] {
            SymbolicValue::Initial(of, 0) if usize::from(of) == register => CallerValue::Same,
            SymbolicValue::Initial(of, offset) => CallerValue::Register(of, offset),
            SymbolicValue::Word(of, offset) => CallerValue::AtRegister(of, offset),
            SymbolicValue::Unknown => CallerValue::Undefined,
        });
        let cfa = offset.checked_add(8)?.checked_add(extra)?;
        Some(FrameRule {
            cfa: CallerValue::Register(base, cfa),
            return_address: CallerValue::AtRegister(base, offset),
            saved,
        })
    }

    /// Applies an instruction that does not change the flow of control.
    fn apply(&mut self, instruction: &Instruction) {
        let target = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register)
            .then(|| dwarf_number(instruction.op0_register()))
            .flatten();
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = target.map_or(SymbolicValue::Unknown, |number| self.registers[number]);
                self.push(value);
            }
            Mnemonic::Pushfq => self.push(SymbolicValue::Unknown),
            Mnemonic::Pop => {
                let value = self.pop();
                if let Some(number) = target {
                    self.registers[number] = value;
                }
            }
            Mnemonic::Popfq => drop(self.pop()),
            Mnemonic::Leave => {
                self.registers[STACK_POINTER] = self.registers[FRAME_POINTER];
                self.registers[FRAME_POINTER] = self.pop();
            }
            Mnemonic::Mov => self.apply_move(instruction, target),
            Mnemonic::Lea => {
                if let Some(number) = target {
                    self.registers[number] = self.address(instruction);
                }
            }
            Mnemonic::Add | Mnemonic::Sub if target.is_some() && is_immediate(instruction.op1_kind()) => {
                let number = target.unwrap_or_default();
                let amount = instruction.immediate(1) as i64;
                let amount = if instruction.mnemonic() == Mnemonic::Add { amount } else { amount.wrapping_neg() };
                let is_whole = is_whole_register(instruction.op0_register()) && i32::try_from(amount).is_ok();
                self.registers[number] =
                    if is_whole { self.registers[number].plus(amount) } else { SymbolicValue::Unknown };
            }
            Mnemonic::And if target == Some(STACK_POINTER) && is_immediate(instruction.op1_kind()) => {
                match alignment_of(instruction.immediate(1) as i64) {
                    Some(alignment) if self.alignment == 1 => self.alignment = alignment,
                    _ => self.registers[STACK_POINTER] = SymbolicValue::Unknown,
                }
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt | Mnemonic::Nop => {}
            mnemonic => {
                if let Some(number) = target {
                    self.registers[number] = SymbolicValue::Unknown;
                }
                if matches!(mnemonic, Mnemonic::Xchg | Mnemonic::Xadd) && instruction.op1_kind() == OpKind::Register {
                    dwarf_number(instruction.op1_register())
                        .into_iter()
                        .for_each(|number| self.registers[number] = SymbolicValue::Unknown);
                }
                // These write registers that they do not name.
                if matches!(mnemonic, Mnemonic::Cpuid | Mnemonic::Enter) {
                    self.registers[CALLEE_SAVED[0]] = SymbolicValue::Unknown;
                    if mnemonic == Mnemonic::Enter {
                        self.registers[STACK_POINTER] = SymbolicValue::Unknown;
                    }
                }
            }
        }
        // The caller's values of these are of no interest, and too many instructions change them.
        for (number, register) in self.registers.iter_mut().enumerate() {
            if number != STACK_POINTER && !CALLEE_SAVED.contains(&number) {
                *register = SymbolicValue::Unknown;
            }
        }
    }

    fn apply_move(&mut self, instruction: &Instruction, target: Option<usize>) {
        let source = (instruction.op1_kind() == OpKind::Register).then(|| instruction.op1_register());
        let value = match source {
            Some(register) if is_whole_register(register) => {
                dwarf_number(register).map_or(SymbolicValue::Unknown, |number| self.registers[number])
            }
            None if instruction.op1_kind() == OpKind::Memory => self.load(self.address(instruction)),
            _ => SymbolicValue::Unknown,
        };
        match target {
            Some(number) if is_whole_register(instruction.op0_register()) => self.registers[number] = value,
            Some(number) => self.registers[number] = SymbolicValue::Unknown,
            None if instruction.op0_kind() == OpKind::Memory => self.store(self.address(instruction), value),
            None => {}
        }
    }

    /// Returns the address of the memory operand, if it is a known register with an offset.
    fn address(&self, instruction: &Instruction) -> SymbolicValue {
        if instruction.memory_index() != Register::None
            || instruction.segment_prefix() != Register::None
            || !is_whole_register(instruction.memory_base())
        {
            return SymbolicValue::Unknown;
        }
        dwarf_number(instruction.memory_base()).map_or(SymbolicValue::Unknown, |number| {
            self.registers[number].plus(instruction.memory_displacement64() as i64)
        })
    }
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

/// The code that was read, by pages: reading another process is dearer than decoding.
struct CodePages<'a> {
    read: &'a mut dyn FnMut(u64, &mut [u8]) -> usize,
    /// The last pages: address and bytes.
    pages: Vec<(u64, Vec<u8>)>,
}

impl CodePages<'_> {
    /// Decodes the instruction at an address; `None` if there is no code or no instruction.
    fn decode(&mut self, address: u64) -> Option<Instruction> {
        let mut code = [0; MAX_INSTRUCTION];
        let mut length = self.copy(address, &mut code);
        let next_page = (address | (PAGE - 1)).checked_add(1)?;
        if length < MAX_INSTRUCTION && address.saturating_add(length as u64) == next_page {
            length += self.copy(next_page, &mut code[length..]);
        }
        let mut decoder = Decoder::with_ip(64, &code[..length], address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Copies bytes of one page. Returns how many there are.
    fn copy(&mut self, address: u64, buffer: &mut [u8]) -> usize {
        let start = address & !(PAGE - 1);
        let place = self.pages.iter().position(|&(page, _)| page == start).unwrap_or_else(|| {
            if self.pages.len() == MAX_PAGES {
                self.pages.remove(0);
            }
            let mut bytes = vec![0; PAGE as usize];
            let length = (self.read)(start, &mut bytes).min(bytes.len());
            bytes.truncate(length);
            self.pages.push((start, bytes));
            self.pages.len() - 1
        });
        let bytes = self.pages[place].1.get((address - start) as usize..).unwrap_or(&[]);
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        length
    }
}

/// Follows all paths from an address on, those without taken branches first. `visit` sees every
/// state before its instruction, and returns true to end the search. Returns whether all paths were
/// followed to their ends.
fn follow(
    read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    start: u64,
    limit: usize,
    visit: &mut dyn FnMut(&PathState, &Instruction) -> bool,
) -> bool {
    let mut code = CodePages { read, pages: Vec::new() };
    let mut seen = HashSet::new();
    let mut paths = VecDeque::from([PathState::new(start)]);
    let mut is_complete = true;
    while let Some(mut state) = paths.pop_front() {
        while seen.insert(state.ip) {
            let decoded = code.decode(state.ip).filter(|_| seen.len() <= limit);
            let Some(instruction) = decoded else {
                is_complete = false;
                break;
            };
            if visit(&state, &instruction) {
                return false;
            }
            let target = (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target());
            match (instruction.mnemonic(), target) {
                (Mnemonic::Jmp, Some(target)) => {
                    state.ip = target;
                    continue;
                }
                (Mnemonic::Jmp | Mnemonic::Iretq | Mnemonic::Retf | Mnemonic::Sysretq, _) => {
                    is_complete = false;
                    break;
                }
                (Mnemonic::Ret | Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::Hlt, _) => break,
                // A function leaves the stack and the registers of its caller as they were.
                (Mnemonic::Call, _) => {}
                (_, Some(_)) if paths.len() == MAX_BRANCHES => is_complete = false,
                (_, Some(target)) => paths.push_back(PathState { ip: target, ..state.clone() }),
                _ => state.apply(&instruction),
            }
            state.ip = instruction.next_ip();
        }
    }
    is_complete
}

/// The information that the code from an address on gives about its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CodePath {
    /// The rule, from the way to a `ret`.
    Returns(FrameRule),
    /// The code makes no call and has no `ret`.
    Ends,
    /// The code tells nothing that is certain.
    Unknown,
}

/// Finds the rule at an address from the way to a `ret` of the same function. `read` copies code.
/// `accept` says whether a rule leads to a caller: code behind a call that never returns belongs to
/// another function, whose rule is wrong here. At most `limit` instructions are followed.
pub(in super::super) fn rule_from_return(
    read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    address: u64,
    limit: usize,
    accept: &mut dyn FnMut(&FrameRule) -> bool,
) -> CodePath {
    let mut found = None;
    let mut leaves = false;
    let is_complete = follow(read, address, limit, &mut |state, instruction| {
        leaves |= matches!(instruction.mnemonic(), Mnemonic::Ret | Mnemonic::Call);
        if instruction.mnemonic() == Mnemonic::Ret {
            let extra = if instruction.op_count() > 0 { instruction.immediate(0) as i32 } else { 0 };
            found = state.rule_at_return(extra).filter(&mut *accept);
        }
        found.is_some()
    });
    match found {
        Some(rule) => CodePath::Returns(rule),
        None if is_complete && !leaves => CodePath::Ends,
        None => CodePath::Unknown,
    }
}

/// Finds the size of a frame up to its canonical frame address, from the way from the start of its
/// function to an address.
pub(in super::super) fn frame_size_from_start(
    read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    function: u64,
    address: u64,
) -> Option<FrameSize> {
    let mut found = None;
    follow(read, function, MAX_INSTRUCTIONS, &mut |state, _| {
        let is_there = state.ip == address;
        if let (true, SymbolicValue::Initial(register, offset)) = (is_there, state.sp())
            && usize::from(register) == STACK_POINTER
        {
            let bytes = u64::try_from(8 - i64::from(offset)).ok();
            found = bytes.map(|bytes| FrameSize { bytes, alignment: state.alignment });
        }
        is_there
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((rule.cfa, rule.saved[1]), (CallerValue::Register(6, 16), CallerValue::AtRegister(6, 0)));
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

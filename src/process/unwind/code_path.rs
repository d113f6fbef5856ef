//! Rules of code that no unwind table covers, found by following its instructions.
//!
//! Compiled code has one stack depth at each instruction, whatever path leads there. So the path
//! from an instruction to any return tells where the return address lies and which registers are
//! restored again, and a path from the start of a function tells how far the stack pointer has
//! moved. The instructions are followed with symbols in place of values. A path ends where a symbol
//! would have to be guessed.

use std::collections::{HashSet, VecDeque};

use super::frame_rule::{CallerValue, FrameRule};
use crate::arch::{
    CALLEE_SAVED, FrameSize, LINK_REGISTER, MAX_INSTRUCTION, Operation, PROGRAM_COUNTER, PUSHED_BY_CALL, STACK_POINTER,
    Transfer, alignment_of, decode,
};

/// Maximum number of instructions followed for a rule that is kept, and for one that is not.
pub(crate) const MAX_INSTRUCTIONS: usize = 2000;
pub(crate) const MAX_INSTRUCTIONS_ONCE: usize = 200;
/// Maximum number of branches that wait to be followed.
const MAX_BRANCHES: usize = 64;
/// Maximum number of words that a path is known to have stored.
const MAX_STORED: usize = 64;
/// Bytes of code that are read together, and the maximum number of them that is kept.
const BLOCK: u64 = 4096;
const MAX_BLOCKS: usize = 8;

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
    registers: [SymbolicValue; PROGRAM_COUNTER],
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

    /// Returns the value of a register, if a function restores it.
    fn restored(&self, register: usize) -> CallerValue {
        match self.registers[register] {
            SymbolicValue::Initial(of, 0) if usize::from(of) == register => CallerValue::Same,
            SymbolicValue::Initial(of, offset) => CallerValue::Register(of, offset),
            SymbolicValue::Word(of, offset) => CallerValue::AtRegister(of, offset),
            SymbolicValue::Unknown => CallerValue::Undefined,
        }
    }

    /// Returns the rule of the frame, if the path is at a return that removes `extra` bytes.
    fn rule_at_return(&self, extra: i32) -> Option<FrameRule> {
        let SymbolicValue::Initial(base, offset) = self.sp() else { return None };
        if usize::from(base) == STACK_POINTER && self.alignment != 1 {
            return None;
        }
        let return_address = match LINK_REGISTER {
            None => CallerValue::AtRegister(base, offset),
            Some(link) => match self.restored(link) {
                CallerValue::Undefined => return None,
                CallerValue::Same => CallerValue::Register(link as u8, 0),
                value => value,
            },
        };
        let cfa = offset.checked_add(PUSHED_BY_CALL as i32)?.checked_add(extra)?;
        let saved = CALLEE_SAVED.map(|register| self.restored(register));
        Some(FrameRule { cfa: CallerValue::Register(base, cfa), return_address, saved })
    }

    /// Applies an instruction that does not change the flow of control.
    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Add { to, from, constant } => self.registers[to] = self.registers[from].plus(constant),
            Operation::Load(transfer) => {
                let base = self.registers[transfer.base];
                for (register, address) in words(base, transfer).filter(|&(register, _)| register != STACK_POINTER) {
                    self.registers[register] = self.load(address);
                }
                self.change_base(base, transfer);
            }
            Operation::Store(transfer) => {
                let base = self.registers[transfer.base];
                for (register, address) in words(base, transfer) {
                    let is_known = register != STACK_POINTER;
                    self.store(address, if is_known { self.registers[register] } else { SymbolicValue::Unknown });
                }
                self.change_base(base, transfer);
            }
            Operation::Align { from, mask } => match alignment_of(mask) {
                Some(alignment) if self.alignment == 1 => {
                    self.registers[STACK_POINTER] = self.registers[from];
                    self.alignment = alignment;
                }
                _ => self.registers[STACK_POINTER] = SymbolicValue::Unknown,
            },
            Operation::Change(registers) => {
                registers.into_iter().flatten().for_each(|register| self.registers[register] = SymbolicValue::Unknown);
            }
            _ => {}
        }
    }

    fn change_base(&mut self, base: SymbolicValue, transfer: Transfer) {
        if transfer.to != transfer.base || transfer.added != 0 {
            self.registers[transfer.to] = base.plus(transfer.added);
        }
    }

    /// Forgets the registers whose values a caller does not miss: too many instructions change
    /// them.
    fn forget_scratch(&mut self) {
        for (number, register) in self.registers.iter_mut().enumerate() {
            if number != STACK_POINTER && LINK_REGISTER != Some(number) && !CALLEE_SAVED.contains(&number) {
                *register = SymbolicValue::Unknown;
            }
        }
    }
}

/// Returns the registers of a transfer and their addresses.
fn words(base: SymbolicValue, transfer: Transfer) -> impl Iterator<Item = (usize, SymbolicValue)> {
    let registers = transfer.registers.into_iter().zip([0, 8]);
    registers.filter_map(move |(register, more)| Some((register?, base.plus(transfer.offset + more))))
}

/// The code that was read, by blocks: reading another process is dearer than decoding.
struct CodeBlocks<'a> {
    read: &'a mut dyn FnMut(u64, &mut [u8]) -> usize,
    /// The last blocks: address and bytes.
    blocks: Vec<(u64, Vec<u8>)>,
}

impl CodeBlocks<'_> {
    /// Decodes the instruction at an address. Returns its length, too; `None` if there is no code or
    /// no instruction.
    fn decode(&mut self, address: u64) -> Option<(Operation, usize)> {
        let mut code = [0; MAX_INSTRUCTION];
        let mut length = self.copy(address, &mut code);
        let next_block = (address | (BLOCK - 1)).checked_add(1)?;
        if length < MAX_INSTRUCTION && address.saturating_add(length as u64) == next_block {
            length += self.copy(next_block, &mut code[length..]);
        }
        decode(&code[..length])
    }

    /// Copies bytes of one block. Returns how many there are.
    fn copy(&mut self, address: u64, buffer: &mut [u8]) -> usize {
        let start = address & !(BLOCK - 1);
        let place = self.blocks.iter().position(|&(block, _)| block == start).unwrap_or_else(|| {
            if self.blocks.len() == MAX_BLOCKS {
                self.blocks.remove(0);
            }
            let mut bytes = vec![0; BLOCK as usize];
            let length = (self.read)(start, &mut bytes).min(bytes.len());
            bytes.truncate(length);
            self.blocks.push((start, bytes));
            self.blocks.len() - 1
        });
        let bytes = self.blocks[place].1.get((address - start) as usize..).unwrap_or(&[]);
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
    visit: &mut dyn FnMut(&PathState, Operation) -> bool,
) -> bool {
    let mut code = CodeBlocks { read, blocks: Vec::new() };
    let mut seen = HashSet::new();
    let mut paths = VecDeque::from([PathState::new(start)]);
    let mut is_complete = true;
    while let Some(mut state) = paths.pop_front() {
        while seen.insert(state.ip) {
            let decoded = code.decode(state.ip).filter(|_| seen.len() <= limit);
            let Some((operation, length)) = decoded else {
                is_complete = false;
                break;
            };
            if visit(&state, operation) {
                return false;
            }
            match operation {
                Operation::Jump(offset) => {
                    state.ip = state.ip.wrapping_add_signed(offset);
                    continue;
                }
                Operation::Elsewhere => {
                    is_complete = false;
                    break;
                }
                Operation::Return(_) | Operation::End => break,
                // A function leaves the stack and the registers of its caller as they were.
                Operation::Call => {
                    if let Some(link) = LINK_REGISTER {
                        state.registers[link] = SymbolicValue::Unknown;
                    }
                }
                Operation::Branch(_) if paths.len() == MAX_BRANCHES => is_complete = false,
                Operation::Branch(offset) => {
                    paths.push_back(PathState { ip: state.ip.wrapping_add_signed(offset), ..state.clone() });
                }
                change => {
                    state.apply(change);
                    state.forget_scratch();
                }
            }
            state.ip = state.ip.wrapping_add(length as u64);
        }
    }
    is_complete
}

/// The information that the code from an address on gives about its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodePath {
    /// The rule, from the way to a return.
    Returns(FrameRule),
    /// The code makes no call and does not return.
    Ends,
    /// The code tells nothing that is certain.
    Unknown,
}

/// Finds the rule at an address from the way to a return of the same function. `read` copies code.
/// `accept` says whether a rule leads to a caller: code behind a call that never returns belongs to
/// another function, whose rule is wrong here. At most `limit` instructions are followed.
pub(crate) fn rule_from_return(
    read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    address: u64,
    limit: usize,
    accept: &mut dyn FnMut(&FrameRule) -> bool,
) -> CodePath {
    let mut found = None;
    let mut leaves = false;
    let is_complete = follow(read, address, limit, &mut |state, operation| {
        leaves |= matches!(operation, Operation::Return(_) | Operation::Call);
        if let Operation::Return(extra) = operation {
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
pub(crate) fn frame_size_from_start(
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
            let bytes = u64::try_from(PUSHED_BY_CALL as i64 - i64::from(offset)).ok();
            found = bytes.map(|bytes| FrameSize { bytes, alignment: state.alignment });
        }
        is_there
    });
    found
}

#[cfg(all(test, target_arch = "x86_64"))]
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

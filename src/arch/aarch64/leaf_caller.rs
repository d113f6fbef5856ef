//! The caller of a function that sleeps and has saved nothing.
//!
//! Such a function has its return address in the link register alone, and of a thread that sleeps
//! the kernel tells no register but the program counter and the stack pointer. The frame of the
//! caller lies above, and with it the return address of the caller. The call before that address
//! names the caller. It has called the sleeping function if its code has such a call, and if the
//! rules of the code behind that lead to this very return address.

use super::code::decode;
use super::machine_code::{INSTRUCTION, call_before};
use super::registers::{LINK, STACK_POINTER, strip_signature};
use crate::arch::operation::Operation;
use crate::arch::{CallBefore, LeafCaller, LeafFrame, STUB, linkage_stub};

/// Words above the stack pointer among which the caller's return address is looked for.
const MAX_WORDS: u64 = 64;
/// Maximum length of a caller's code in bytes, and the bytes of it that are read together.
const MAX_CODE: u64 = 16 * 1024;
const BLOCK: usize = 256;
/// Maximum length in bytes of a function that sleeps and that no table describes.
const MAX_LEAF: u64 = 256;
/// Maximum number of instructions that a function executes before it jumps to another one.
const MAX_BEFORE_JUMP: usize = 16;

/// Finds the caller of the function that sleeps at `pc`. `sp` is the caller's stack pointer.
pub(crate) fn leaf_caller(frame: &mut impl LeafFrame, pc: u64, sp: u64) -> Option<LeafCaller> {
    for at in (0..MAX_WORDS).map(|word| sp.wrapping_add(8 * word)) {
        let return_address = strip_signature(frame.word(at)?);
        let mut before = [0; INSTRUCTION];
        if frame.read_code(return_address.wrapping_sub(INSTRUCTION as u64), &mut before).is_none() {
            continue;
        }
        let Some(CallBefore::Direct(caller)) = call_before(&before, return_address) else { continue };
        if frame.function_start(caller).is_none_or(|start| start == caller)
            && let Some(found) = call_in(frame, caller, pc, return_address)
        {
            return Some(found);
        }
    }
    None
}

/// Finds the call of the sleeping function in the code of its caller.
fn call_in(frame: &mut impl LeafFrame, caller: u64, pc: u64, return_address: u64) -> Option<LeafCaller> {
    let function = frame.function_start(caller);
    let mut found = None::<LeafCaller>;
    let mut block = [0; BLOCK];
    for start in (caller..caller.checked_add(MAX_CODE)?).step_by(BLOCK) {
        if frame.read_code(start, &mut block).is_none() {
            break;
        }
        for (index, code) in block.chunks_exact(INSTRUCTION).enumerate() {
            let after = start + ((index + 1) * INSTRUCTION) as u64;
            let Some(CallBefore::Direct(called)) = call_before(code, after) else { continue };
            if frame.function_start(after - 1) != function {
                return found;
            }
            if leads_to(frame, called, pc) && frame.return_address(after) == Some(return_address) {
                let first = found.map_or(after, |first| first.return_address);
                found = Some(LeafCaller { function: caller, return_address: first, is_only: found.is_none() });
            }
        }
    }
    found
}

/// Returns whether a function sleeps at `pc`, or jumps to one that does so, with the stack and the
/// link register as they were when it was called.
fn leads_to(frame: &mut impl LeafFrame, from: u64, pc: u64) -> bool {
    let mut from = behind_stub(frame, from);
    for _ in 0..MAX_BEFORE_JUMP {
        if is_start(frame, from, pc) {
            return true;
        }
        let mut code = [0; INSTRUCTION];
        let Some((operation, _)) = frame.read_code(from, &mut code).and_then(|()| decode(&code)) else { return false };
        let moves = |register: usize| [STACK_POINTER, LINK].contains(&register);
        let is_moved = match operation {
            Operation::Jump(offset) => {
                from = behind_stub(frame, from.wrapping_add_signed(offset));
                continue;
            }
            Operation::Add { to, .. } => moves(to),
            Operation::Change(registers) => registers.into_iter().flatten().any(moves),
            Operation::Load(transfer) => transfer.registers.into_iter().flatten().any(moves) || moves(transfer.to),
            Operation::Store(transfer) => transfer.added != 0,
            Operation::Branch(_) => false,
            _ => true,
        };
        if is_moved {
            return false;
        }
        from = from.wrapping_add(INSTRUCTION as u64);
    }
    false
}

/// Returns the function to which a stub of a linkage table jumps, of other code its own address.
fn behind_stub(frame: &mut impl LeafFrame, address: u64) -> u64 {
    let mut code = [0; STUB];
    let stub = frame.read_code(address, &mut code).and_then(|()| linkage_stub(&code, address));
    stub.and_then(|stub| frame.pointer(stub.slot)).unwrap_or(address)
}

/// Returns whether an address is the first one of the function around `pc`.
fn is_start(frame: &mut impl LeafFrame, address: u64, pc: u64) -> bool {
    match frame.function_start(pc) {
        Some(start) => start == address,
        None => {
            let is_near = pc.checked_sub(address).is_some_and(|bytes| bytes < MAX_LEAF);
            is_near && (address..pc).step_by(INSTRUCTION).all(|at| frame.function_start(at).is_none())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const START: u64 = 0x40_0000;
    /// The instructions and their codes are those of GNU as.
    const CODE: [u32; 17] = [
        0xd280_0ca8, // doze: mov x8, #101
        0xd400_0001, // svc #0
        0xd65f_03c0, // ret
        0xaa1f_03e2, // nod: mov x2, xzr
        0x17ff_fffc, // b doze
        0xa9bf_7bfd, // once: stp x29, x30, [sp, #-16]!
        0x97ff_fffa, // bl doze
        0xa8c1_7bfd, // ldp x29, x30, [sp], #16
        0xd65f_03c0, // ret
        0xa9bf_7bfd, // twice: stp x29, x30, [sp, #-16]!
        0x97ff_fff9, // bl nod
        0x97ff_fff5, // bl doze
        0xd65f_03c0, // ret
        0xa9be_7bfd, // outer: stp x29, x30, [sp, #-32]!
        0x97ff_fff7, // bl once
        0x97ff_fffa, // bl twice
        0xd503_201f, // nop
    ];
    const FUNCTIONS: [u64; 5] = [0, 3, 5, 9, 13];

    /// A stack of which each frame has its return address in the second word.
    struct Frame(Vec<u64>);

    impl LeafFrame for Frame {
        fn word(&mut self, address: u64) -> Option<u64> {
            self.0.get((address / 8) as usize).copied()
        }

        fn read_code(&mut self, address: u64, code: &mut [u8]) -> Option<()> {
            let at = usize::try_from(address.checked_sub(START)?).ok()?;
            let bytes: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).chain([0; BLOCK]).collect();
            code.copy_from_slice(bytes.get(at..at + code.len())?);
            Some(())
        }

        fn pointer(&mut self, _address: u64) -> Option<u64> {
            None
        }

        fn function_start(&mut self, address: u64) -> Option<u64> {
            let index = address.checked_sub(START)? / 4;
            let start = FUNCTIONS.into_iter().rfind(|&start| start <= index)?;
            (index < CODE.len() as u64).then_some(START + 4 * start)
        }

        fn return_address(&mut self, _call: u64) -> Option<u64> {
            self.word(8)
        }
    }

    #[test]
    fn a_caller_is_named_by_its_own_return_address() {
        let caller = |words: &[u64]| leaf_caller(&mut Frame(words.to_vec()), START + 8, 0);
        let address = |index: u64| START + 4 * index;
        let found = |function, call, is_only| {
            Some(LeafCaller { function: address(function), return_address: address(call), is_only })
        };
        assert_eq!(caller(&[0, address(15), 0]), found(5, 7, true));
        assert_eq!(caller(&[0, address(16), 0]), found(9, 11, false), "by a jump, and directly");
        assert_eq!(caller(&[0, 7, address(15), 0]), None, "that is not the caller's return address");
        assert_eq!(caller(&[0, address(14), 0]), None, "no call precedes the address");
        assert_eq!(caller(&[]), None);
    }
}

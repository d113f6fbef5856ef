//! Machine code around return addresses: calls.

use crate::arch::CallBefore;

/// Alignment of the stack pointer, and so of frame pointers.
pub(crate) const STACK_ALIGNMENT: u64 = 16;
/// Length of every instruction in bytes.
pub(crate) const INSTRUCTION: usize = 4;
/// Maximum length of a call instruction in bytes.
pub(crate) const LONGEST_CALL: usize = INSTRUCTION;

/// Returns the call instruction that some code before a return address ends with.
pub(crate) fn call_before(code: &[u8], return_address: u64) -> Option<CallBefore> {
    let instruction = u32::from_le_bytes(*code.last_chunk()?);
    if instruction >> 26 == 0b10_0101 {
        let address = return_address.wrapping_sub(INSTRUCTION as u64);
        return Some(CallBefore::Direct(address.wrapping_add_signed(branch_offset(instruction))));
    }
    is_indirect_call(instruction).then_some(CallBefore::Indirect)
}

/// Whether an instruction is `blr`, or one of its forms that check a signature: `blraa`, `blrab`,
/// `blraaz`, `blrabz`.
pub(super) fn is_indirect_call(instruction: u32) -> bool {
    instruction & 0xffff_fc1f == 0xd63f_0000
        || instruction & 0xffff_f800 == 0xd63f_0800
        || instruction & 0xffff_f800 == 0xd73f_0800
}

/// Returns the bytes from a `b` or `bl` instruction to its target.
pub(crate) fn branch_offset(instruction: u32) -> i64 {
    i64::from((instruction << 6) as i32 >> 6) * INSTRUCTION as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognized() {
        let call = |instruction: u32| call_before(&instruction.to_le_bytes(), 0x1004);
        assert_eq!(call(0x9400_0002), Some(CallBefore::Direct(0x1008)), "bl forwards");
        assert_eq!(call(0x97ff_ffff), Some(CallBefore::Direct(0xffc)), "bl backwards");
        for indirect in [0xd63f_0020u32, 0xd63f_081f, 0xd63f_0c1f, 0xd73f_0822, 0xd73f_0c22] {
            assert_eq!(call(indirect), Some(CallBefore::Indirect), "{indirect:x}");
        }
        for other in [0x1400_0002, 0xd61f_0020, 0xd65f_03c0, 0xd503_201f, 0] {
            assert_eq!(call(other), None, "{other:x}");
        }
        assert_eq!(call_before(&[0x94, 0, 0], 0x1004), None);
    }
}

//! Machine code around return addresses: calls, lengths of operands.

use crate::arch::{CallBefore, LeafCaller, LeafFrame};

/// Alignment of the stack pointer before a call, and so of frame pointers.
pub(crate) const STACK_ALIGNMENT: u64 = 16;
/// Maximum length of a call instruction in bytes.
pub(crate) const LONGEST_CALL: usize = 7;

/// Returns the call instruction that some code before a return address ends with.
pub(crate) fn call_before(code: &[u8], return_address: u64) -> Option<CallBefore> {
    if let [.., 0xe8, a, b, c, d] = *code {
        let distance = i32::from_le_bytes([a, b, c, d]);
        return Some(CallBefore::Direct(return_address.wrapping_add_signed(distance.into())));
    }
    let is_indirect = |length: usize| {
        let last = code.len().checked_sub(length).and_then(|at| code.get(at..));
        let Some([0xff, operands @ ..]) = last else { return false };
        operands.first().is_some_and(|first| first >> 3 & 7 == 2) && operands_length(operands) == Some(length - 1)
    };
    [2, 3, 4, 6, 7].into_iter().any(is_indirect).then_some(CallBefore::Indirect)
}

/// Finds the caller of a function that has its return address in a register. There is none: calls
/// push it.
#[inline(always)]
pub(crate) fn leaf_caller(_frame: &mut impl LeafFrame, _pc: u64, _sp: u64) -> Option<LeafCaller> {
    None
}

/// Returns the length of an instruction's operands: the byte that names them, an index, and an
/// offset.
pub(crate) fn operands_length(operands: &[u8]) -> Option<usize> {
    let first = *operands.first()?;
    let (mode, register) = (first >> 6, first & 7);
    let has_index = mode != 3 && register == 4;
    let base = if has_index { *operands.get(1)? & 7 } else { register };
    let offset = match mode {
        0 if base == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(1 + usize::from(has_index) + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognized_by_their_end() {
        let calls: [&[u8]; 7] = [
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x50, 8],
            &[0xff, 0x54, 0x24, 8],
            &[0xff, 0x94, 0x24, 1, 2, 3, 4],
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4],
        ];
        for call in calls {
            assert_eq!(call_before(call, 0x1000), Some(CallBefore::Indirect), "{call:x?}");
            assert_eq!(call_before(&[&[0x90; 4], call].concat(), 0x1000), Some(CallBefore::Indirect), "{call:x?}");
        }
        assert_eq!(call_before(&[0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff], 0x1006), Some(CallBefore::Direct(0x1001)));
        for other in [&[0x90; 7][..], &[0xff, 0xe0], &[0xff, 0x25, 1, 2, 3, 4], &[0xe9, 1, 2, 3, 4], &[0xff], &[]] {
            assert_eq!(call_before(other, 0x1000), None, "{other:x?}");
        }
    }

    proptest::proptest! {
        #![proptest_config(crate::property::property(256))]
        #[test]
        fn no_bytes_do_harm(code in proptest::collection::vec(proptest::num::u8::ANY, 0..12)) {
            proptest::prop_assert!(operands_length(&code).is_none_or(|length| (1..=6).contains(&length)));
            let _ = call_before(&code, u64::MAX);
        }
    }
}

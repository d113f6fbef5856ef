//! Reads the size of a frame from the first instructions of its function.
//!
//! A prologue moves the stack pointer down, stores the frame pointer and the return address, and
//! makes the frame pointer lead there. The instructions after that tell how far the stack pointer
//! lies below it. They are followed up to the first branch.

use crate::arch::{FRAME_POINTER, FrameSize, INSTRUCTION, Operation, SP, Transfer, decode};

/// Number of bytes of a function that are looked at. Prologues are shorter.
pub(crate) const PROLOGUE: usize = 128;

/// Returns the size of a frame up to its frame pointer, behind the prologue that some code begins
/// with. Returns `None` if it sets no frame pointer, or moves the stack pointer by something else
/// than a constant.
pub(crate) fn frame_size(code: &[u8]) -> Option<FrameSize> {
    let mut bytes: Option<i64> = None;
    for instruction in code.as_chunks::<INSTRUCTION>().0 {
        match (decode(u32::from_le_bytes(*instruction)), &mut bytes) {
            (Operation::Add { to: FRAME_POINTER, from: SP, constant }, None) => bytes = Some(constant),
            (Operation::Add { to: SP, from: SP, constant }, Some(bytes)) => *bytes -= constant,
            (
                Operation::Load(Transfer { base: SP, added, .. }) | Operation::Store(Transfer { base: SP, added, .. }),
                Some(bytes),
            ) => {
                *bytes -= added;
            }
            (Operation::Add { to: SP, .. } | Operation::Align { .. } | Operation::Change([Some(SP), _]), Some(_)) => {
                return None;
            }
            (Operation::Add { to: FRAME_POINTER, .. } | Operation::Change([Some(FRAME_POINTER), _]), _) => return None,
            (Operation::Branch(_), Some(_)) => break,
            (Operation::Call | Operation::Jump(_) | Operation::Return | Operation::Elsewhere | Operation::End, _) => {
                break;
            }
            _ => {}
        }
    }
    Some(FrameSize { bytes: u64::try_from(bytes?).ok()?, alignment: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_frame_is_what_its_prologue_takes() {
        let size = |code: &[u32]| {
            let bytes: std::vec::Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            frame_size(&bytes).map(|size| size.bytes)
        };
        // stp x29, x30, [sp, #-32]!; mov x29, sp; sub sp, sp, #48; ret
        assert_eq!(size(&[0xa9be_7bfd, 0x9100_03fd, 0xd100_c3ff, 0xd65f_03c0]), Some(48));
        // sub sp, sp, #48; stp x29, x30, [sp, #16]; add x29, sp, #16
        assert_eq!(size(&[0xd100_c3ff, 0xa901_7bfd, 0x9100_43fd]), Some(16));
        // stp x29, x30, [sp, #-32]!; ret
        assert_eq!(size(&[0xa9be_7bfd, 0xd65f_03c0]), None, "no frame pointer");
        // mov x29, sp; sub sp, sp, x16
        assert_eq!(size(&[0x9100_03fd, 0xcb30_63ff]), None, "a size that is not constant");
        assert_eq!(size(&[]), None);
    }
}

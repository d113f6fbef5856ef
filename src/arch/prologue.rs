//! Reads the size of a frame from the first instructions of its function.
//!
//! A prologue stores the caller's frame pointer, moves the stack pointer down and makes the frame
//! pointer lead to what it has stored. The instructions after that tell how far the stack pointer
//! lies below it. They are followed up to the first branch. Nothing is allocated.

use super::operation::Operation;
use super::{FRAME_POINTER, FrameSize, STACK_POINTER, alignment_of, decode_prologue};

/// Number of bytes of a function that are looked at. Prologues are shorter.
pub(crate) const PROLOGUE: usize = 128;

/// Returns the size of a frame up to its frame pointer, behind the prologue that some code begins
/// with. Returns `None` if it sets no frame pointer, moves the stack pointer by something else than
/// a constant, or is not understood.
pub(crate) fn frame_size(mut code: &[u8]) -> Option<FrameSize> {
    let (mut is_saved, mut bytes, mut alignment) = (false, None::<i64>, 1);
    while !code.is_empty() {
        let (operation, length) = decode_prologue(code)?;
        match (operation, &mut bytes) {
            (Operation::Add { to: FRAME_POINTER, from: STACK_POINTER, constant }, None) if is_saved => {
                bytes = Some(constant);
            }
            (Operation::Add { to: STACK_POINTER, from: STACK_POINTER, constant }, Some(bytes)) => *bytes -= constant,
            (Operation::Load(transfer) | Operation::Store(transfer), bytes) if transfer.base == STACK_POINTER => {
                is_saved |= transfer.registers.contains(&Some(FRAME_POINTER));
                bytes.iter_mut().for_each(|bytes| *bytes -= transfer.added);
            }
            (Operation::Align { from: STACK_POINTER, mask }, Some(_)) if alignment == 1 => {
                alignment = alignment_of(mask)?;
            }
            (Operation::Branch(_), Some(_))
            | (
                Operation::Call | Operation::Jump(_) | Operation::Return(_) | Operation::Elsewhere | Operation::End,
                _,
            ) => break,
            (Operation::Add { to: FRAME_POINTER, .. } | Operation::Change([Some(FRAME_POINTER), _]), _)
            | (
                Operation::Add { to: STACK_POINTER, .. }
                | Operation::Align { .. }
                | Operation::Change([Some(STACK_POINTER), _]),
                Some(_),
            ) => return None,
            _ => {}
        }
        code = code.get(length..)?;
    }
    Some(FrameSize { bytes: u64::try_from(bytes?).ok()?, alignment })
}

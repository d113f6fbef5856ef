//! Reads from code whether the link register still has the return address. Nothing is allocated.
//!
//! Compiled code has its return address in the same place at an instruction, whatever path leads
//! there. So the instructions up to the return of the function tell, without taken branches: a
//! function that loads the link register or makes a call has saved the return address before,
//! unless it is about to store it.

use super::operation::Operation;
use super::{LINK_REGISTER, STACK_POINTER, decode_prologue};

/// Number of bytes of code that are looked at.
pub(crate) const LINK_PATH: usize = 256;

/// The place of the return address of interrupted code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnPlace {
    /// It is in the link register, and the caller's stack pointer is so many bytes higher.
    Register { frame: u64 },
    /// It is on the stack.
    Stack,
}

/// Returns the place of the return address at the instruction that some code begins with; `None` if
/// the code does not tell.
pub(crate) fn return_place(code: &[u8]) -> Option<ReturnPlace> {
    let link = LINK_REGISTER?;
    // The bytes by which the stack pointer has grown, as long as that is known.
    let (mut at, mut removed, mut is_kept) = (0, Some(0i64), false);
    loop {
        let (operation, length) = decode_prologue(code.get(at..)?)?;
        match operation {
            Operation::Store(transfer) if transfer.registers.contains(&Some(link)) => is_kept = true,
            Operation::Load(transfer) if transfer.registers.contains(&Some(link)) && !is_kept => {
                return Some(ReturnPlace::Stack);
            }
            Operation::Call if !is_kept => return Some(ReturnPlace::Stack),
            Operation::Return(_) => return Some(ReturnPlace::Register { frame: u64::try_from(removed?).ok()? }),
            Operation::Jump(offset) => {
                at = at.checked_add(usize::try_from(offset).ok().filter(|&offset| offset > 0)?)?;
                continue;
            }
            Operation::Elsewhere | Operation::End => return None,
            Operation::Change(registers) if registers.contains(&Some(link)) => return None,
            Operation::Add { to, .. } if to == link => return None,
            _ => {}
        }
        removed = match operation {
            Operation::Add { to: STACK_POINTER, from: STACK_POINTER, constant } => removed.map(|sum| sum + constant),
            Operation::Load(transfer) | Operation::Store(transfer) if transfer.to == STACK_POINTER => {
                removed.map(|sum| sum + transfer.added)
            }
            Operation::Add { to: STACK_POINTER, .. } | Operation::Align { .. } => None,
            Operation::Change(registers) if registers.contains(&Some(STACK_POINTER)) => None,
            _ => removed,
        };
        at += length;
    }
}

//! Whether stacks have the functions of the kernel.

use crate::keyword::{Keyword, Word};
use crate::wire::{FrameAddress, KERNEL_START, is_kernel_address};

/// The choice whether stacks have the functions of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFrames {
    /// They have them.
    On,
    /// The function that made the system call is the leaf.
    Off,
}

impl Keyword for KernelFrames {
    const ALL: &'static [KernelFrames] = &[KernelFrames::On, KernelFrames::Off];

    fn word(self) -> Word {
        match self {
            KernelFrames::On => Word::new("on", "functions of the kernel below the function that called it"),
            KernelFrames::Off => Word::new("off", "the time in the kernel belongs to the function that called it"),
        }
    }
}

/// The stack of a sample of which no more is known than that it was in the kernel.
const IN_KERNEL: [u64; 1] = [FrameAddress::Instruction(KERNEL_START).pack()];

/// Leaves out the functions of the kernel of a stack of packed frames, leaf first. A stack of which
/// nothing is left is somewhere in the kernel.
pub(super) fn leave_out_kernel(frames: &[u64]) -> &[u64] {
    let is_kernel = |frame: &u64| is_kernel_address(FrameAddress::unpack(*frame).lookup());
    let rest = frames.iter().position(|frame| !is_kernel(frame));
    match rest {
        Some(first) => &frames[first..],
        None if frames.is_empty() => frames,
        None => &IN_KERNEL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_stack_begins_with_the_caller() {
        let kernel = |address: u64| FrameAddress::Return(KERNEL_START + address).pack();
        let user = |address: u64| FrameAddress::Return(address).pack();
        assert_eq!(leave_out_kernel(&[kernel(8), kernel(16), user(4), user(5)]), [user(4), user(5)]);
        assert_eq!(leave_out_kernel(&[user(4)]), [user(4)]);
        assert_eq!(leave_out_kernel(&[kernel(8), kernel(16)]), IN_KERNEL);
        assert!(leave_out_kernel(&[]).is_empty());
    }
}

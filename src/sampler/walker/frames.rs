//! Changes of the frames of a walk before they are sent: frames of the agent and of system calls
//! are left out, those of the kernel are added.

use std::ops::Range;

use crate::wire::{FRAMES_LEFT_OUT, FrameAddress, MAX_FRAMES, shorten_kernel_address};

/// Leaves out the agent's functions: what they do counts with their callers. Nothing is left of the
/// agent thread's stack.
pub(super) fn leave_out_agent(frames: &mut Vec<u64>, agent: &Range<u64>) {
    frames.retain(|frame| !agent.contains(&FrameAddress::unpack(*frame).lookup()));
}

/// Puts the kernel's functions before those of the process. A stack that is too deep loses frames
/// in its middle.
pub(super) fn add_kernel_frames(frames: &mut Vec<u64>, kernel: &[u64]) {
    if kernel.is_empty() {
        return;
    }
    let packed = kernel.iter().enumerate().map(|(index, &address)| {
        let address = shorten_kernel_address(address);
        if index == 0 { FrameAddress::Instruction(address) } else { FrameAddress::Return(address) }.pack()
    });
    frames.splice(0..0, packed);
    if let Some(excess @ 1..) = frames.len().checked_sub(MAX_FRAMES) {
        let middle = frames.iter().position(|&frame| frame == FRAMES_LEFT_OUT).unwrap_or(frames.len() / 2);
        let end = (middle + excess + 1).min(frames.len());
        frames.splice(end - excess - 1..end, [FRAMES_LEFT_OUT]);
    }
}

/// Leaves out the function of a system call, so that the one that called it has the sample.
pub(super) fn leave_out_call(frames: &mut Vec<u64>) {
    if frames.len() > 1 && frames[1] != FRAMES_LEFT_OUT {
        frames.remove(0);
        // The others are return addresses, but the first is an address in the code that ran.
        frames[0] -= 1;
    }
}

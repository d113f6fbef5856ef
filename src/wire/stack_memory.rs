//! The last stacks of a connection. Both ends keep them, so that a stack is sent as the difference
//! from an earlier one.

use alloc::boxed::Box;

use super::protocol::{MAX_FRAMES, STACK_SLOTS};

/// A remembered stack of packed frames, leaf first. All bytes zero is a valid, empty stack.
#[derive(Clone)]
#[repr(C)]
pub struct StoredStack {
    pub(super) depth: usize,
    pub(super) frames: [u64; MAX_FRAMES],
}

impl StoredStack {
    /// A stack without frames.
    pub const EMPTY: StoredStack = StoredStack { depth: 0, frames: [0; MAX_FRAMES] };

    /// The packed frames, leaf first.
    pub fn frames(&self) -> &[u64] {
        &self.frames[..self.depth.min(MAX_FRAMES)]
    }
}

/// The last stacks of a connection, equal on both ends. There are [`STACK_SLOTS`] of them.
pub type StackMemory = [StoredStack];

/// Allocates an empty memory (256 KiB).
pub fn stack_memory() -> Box<StackMemory> {
    alloc::vec![StoredStack::EMPTY; STACK_SLOTS].into_boxed_slice()
}

//! The last stacks of a connection, which both ends keep, so that a stack is sent as its difference to an earlier one.

use alloc::boxed::Box;

use super::{MAX_FRAMES, STACK_SLOTS};

/// One remembered stack, packed frames, leaf first. All bytes zero is a valid, empty one.
#[derive(Clone)]
#[repr(C)]
pub struct StoredStack {
    pub(super) depth: usize,
    pub(super) frames: [u64; MAX_FRAMES],
}

impl StoredStack {
    /// Of depth 0.
    pub const EMPTY: StoredStack = StoredStack { depth: 0, frames: [0; MAX_FRAMES] };

    /// The packed frames, leaf first.
    pub fn frames(&self) -> &[u64] {
        &self.frames[..self.depth.min(MAX_FRAMES)]
    }
}

/// The last stacks of a connection, the same on both ends: [`STACK_SLOTS`] of them.
pub type StackMemory = [StoredStack];

/// A new memory on the heap (a quarter of a MiB).
pub fn stack_memory() -> Box<StackMemory> {
    alloc::vec![StoredStack::EMPTY; STACK_SLOTS].into_boxed_slice()
}

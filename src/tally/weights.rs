//! What the stacks of a question weigh, carried from the leaves to the root of the prefix tree.

use crate::profile::stack::{Node, StackId};

/// By stack: first its own weight, then that of all stacks which begin with it.
#[derive(Default)]
pub(super) struct Weights {
    /// All 0 between answers.
    ns: Vec<u64>,
    /// One past the last stack that has a weight.
    end: usize,
}

impl Weights {
    /// Makes room for so many stacks.
    pub(super) fn catch_up(&mut self, stacks: usize) {
        self.ns.resize(stacks, 0);
    }

    /// Adds to a stack's own weight.
    pub(super) fn add(&mut self, stack: StackId, weight_ns: u64) {
        let ns = &mut self.ns[stack.index()];
        *ns = ns.saturating_add(weight_ns);
        self.end = self.end.max(stack.index() + 1);
    }

    /// The stacks that have a weight of their own, by index, before it is carried to the root.
    pub(super) fn own(&self) -> impl Iterator<Item = (usize, u64)> {
        self.ns[..self.end].iter().copied().enumerate().filter(|&(_, weight_ns)| weight_ns != 0)
    }

    /// Carries weights to the root (a node's index is above its parent's), and calls `each` with every node that has one.
    pub(super) fn climb(&mut self, nodes: &[Node], mut each: impl FnMut(usize, u64)) {
        for node in (1..self.end).rev() {
            let weight_ns = self.ns[node];
            if weight_ns != 0 {
                let above_ns = &mut self.ns[nodes[node].parent.index()];
                *above_ns = above_ns.saturating_add(weight_ns);
                each(node, weight_ns);
            }
        }
    }

    /// Of a stack, by its index.
    pub(super) fn of(&self, node: usize) -> u64 {
        self.ns[node]
    }

    /// Makes all 0.
    pub(super) fn clear(&mut self) {
        self.ns[..self.end].fill(0);
        self.end = 0;
    }
}

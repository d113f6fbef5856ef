//! What is found on stacks, each thing once a stack: a tie has the weight of the subtrees of the nodes where it is found for
//! the first time on the way from the root.

use std::collections::HashMap;
use std::hash::Hash;

use super::weights::Weights;
use crate::profile::stack::StackId;

/// At this node a tie appears for the first time on the way from the root.
struct Fresh {
    node: u32,
    /// Index in the ties.
    tie: u32,
    /// One past the index of what became fresh before, on the same way; 0 for nothing.
    before: u32,
}

/// Ties, and where they are on every stack.
pub(super) struct Ties<T> {
    ties: Vec<T>,
    ids: HashMap<T, u32>,
    fresh: Vec<Fresh>,
    /// By node: one past the index of what became fresh last, at it or above.
    last: Vec<u32>,
}

impl<T> Default for Ties<T> {
    fn default() -> Ties<T> {
        Ties { ties: Vec::new(), ids: HashMap::new(), fresh: Vec::new(), last: Vec::new() }
    }
}

impl<T: Copy + Eq + Hash> Ties<T> {
    /// Gives up what was concluded about nodes from this one on.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.last.truncate(kept);
        self.fresh.truncate(self.fresh.partition_point(|fresh| (fresh.node as usize) < kept));
    }

    /// The node to look at next. The first is the empty stack, on which nothing is.
    pub(super) fn next_node(&mut self) -> usize {
        if self.last.is_empty() {
            self.last.push(0);
        }
        self.last.len()
    }

    /// Looks at the next node, which is built on `parent`: it has these ties.
    pub(super) fn look(&mut self, parent: StackId, ties: impl Iterator<Item = T>) {
        let node = self.last.len() as u32;
        let mut last = self.last[parent.index()];
        for tie in ties {
            let id = *self.ids.entry(tie).or_insert_with(|| {
                self.ties.push(tie);
                self.ties.len() as u32 - 1
            });
            if !self.is_above(id, last) {
                self.fresh.push(Fresh { node, tie: id, before: last });
                last = self.fresh.len() as u32;
            }
        }
        self.last.push(last);
    }

    fn is_above(&self, id: u32, mut at: u32) -> bool {
        while at > 0 {
            let fresh = &self.fresh[at as usize - 1];
            if fresh.tie == id {
                return true;
            }
            at = fresh.before;
        }
        false
    }

    /// The ties that have a weight, ns, with it.
    pub(super) fn sums(&self, weights: &Weights) -> impl Iterator<Item = (T, u64)> {
        let mut sums = vec![0u64; self.ties.len()];
        for fresh in &self.fresh {
            let sum_ns = &mut sums[fresh.tie as usize];
            *sum_ns = sum_ns.saturating_add(weights.of(fresh.node as usize));
        }
        self.ties.iter().copied().zip(sums).filter(|&(_, weight_ns)| weight_ns > 0)
    }
}

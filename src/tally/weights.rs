//! What the stacks of a question weigh, and what changed of it: changes are carried from the leaves to the root of the prefix tree, and
//! nothing else is touched.

use super::running::SIDES;
use crate::profile::stack::StackId;

/// By stack: its own weight, and that of all stacks which begin with it.
#[derive(Default)]
pub(super) struct Weights {
    own_ns: Vec<u64>,
    sums_ns: Vec<u64>,
}

impl Weights {
    /// Makes room for so many stacks.
    pub(super) fn catch_up(&mut self, stacks: usize) {
        self.own_ns.resize(stacks, 0);
        self.sums_ns.resize(stacks, 0);
    }

    /// Makes all 0.
    pub(super) fn clear(&mut self) {
        self.own_ns.fill(0);
        self.sums_ns.fill(0);
    }

    /// The stacks that have a weight of their own, by index.
    pub(super) fn own(&self) -> impl Iterator<Item = (usize, u64)> {
        self.own_ns.iter().copied().enumerate().filter(|&(_, weight_ns)| weight_ns != 0)
    }

    /// Of a stack and all that begin with it, by its index.
    pub(super) fn of(&self, node: usize) -> u64 {
        self.sums_ns[node]
    }

    /// A change of a stack's own weight.
    pub(super) fn change_own(&mut self, stack: StackId, by_ns: u64) {
        let ns = &mut self.own_ns[stack.index()];
        *ns = ns.wrapping_add(by_ns);
    }

    /// A change of a sum, by the stack's index.
    pub(super) fn change_sum(&mut self, node: usize, by_ns: u64) {
        self.sums_ns[node] = self.sums_ns[node].wrapping_add(by_ns);
    }
}

/// Changes of the nodes of the tree, of either side. A change down is the complement: sums wrap around, so that what is taken away again
/// leaves nothing.
#[derive(Default)]
pub(super) struct Changes {
    /// By node; all 0 between climbs.
    by_ns: Vec<[u64; SIDES]>,
    /// By 64 nodes, a bit for each that has (or had) a change; all 0 between climbs.
    changed: Vec<u64>,
}

impl Changes {
    /// Makes room for so many nodes.
    pub(super) fn catch_up(&mut self, nodes: usize) {
        self.by_ns.resize(nodes, [0; SIDES]);
        self.changed.resize(nodes.div_ceil(64), 0);
    }

    /// Adds to a node's change.
    pub(super) fn add(&mut self, node: usize, side: usize, by_ns: u64) {
        let by = &mut self.by_ns[node][side];
        *by = by.wrapping_add(by_ns);
        self.changed[node / 64] |= 1 << (node % 64);
    }

    /// Carries all changes to the root, a node's number being above its parent's, and calls `each` with every node but the root that
    /// has one. All is 0 again.
    pub(super) fn climb(&mut self, parent: impl Fn(usize) -> usize, mut each: impl FnMut(usize, [u64; SIDES])) {
        for word in (0..self.changed.len()).rev() {
            // A parent may be in the same word, so it is read again.
            while self.changed[word] != 0 {
                let bit = 63 - self.changed[word].leading_zeros();
                self.changed[word] &= !(1 << bit);
                let node = 64 * word + bit as usize;
                let by_ns = std::mem::take(&mut self.by_ns[node]);
                if by_ns != [0; SIDES] && node != 0 {
                    each(node, by_ns);
                    let parent = parent(node);
                    let sums = &mut self.by_ns[parent];
                    *sums = std::array::from_fn(|side| sums[side].wrapping_add(by_ns[side]));
                    self.changed[parent / 64] |= 1 << (parent % 64);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_carried_to_the_root_and_leave_nothing_where_they_cancel() {
        // 0 ← 1 ← 2 ← 70, 1 ← 71, 0 ← 72
        let parents = |node| match node {
            2 | 71 => 1,
            70 => 2,
            _ => 0,
        };
        let mut changes = Changes::default();
        changes.catch_up(80);
        let mut climb = |of: &[(usize, usize, i64)]| {
            let mut seen = Vec::new();
            of.iter().for_each(|&(node, side, by_ns)| changes.add(node, side, by_ns as u64));
            changes.climb(parents, |node, by_ns| seen.push((node, by_ns.map(|by_ns| by_ns as i64))));
            seen
        };
        let all = [(72, [1, 0]), (71, [2, 1]), (70, [5, 0]), (2, [5, 0]), (1, [7, 1])];
        assert_eq!(climb(&[(70, 0, 5), (72, 0, 1), (71, 0, 2), (71, 1, 1)]), all);
        assert_eq!(climb(&[(70, 0, -5), (71, 0, 5)]), [(71, [5, 0]), (70, [-5, 0]), (2, [-5, 0])]);
        assert_eq!(climb(&[]), []);
    }
}

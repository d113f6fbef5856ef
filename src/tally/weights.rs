//! What the stacks of a question weigh, and what changed of it: changes are carried from the leaves to the root of the prefix tree, run by
//! run, and nothing else is touched.

use super::running::SIDES;
use super::runs::{Cut, Runs};
use crate::profile::stack::{Node, StackId};

/// A piece of the tree on which no stack ends but in its last node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its first node and its last.
    pub(super) ends: (usize, usize),
    /// The node that the first is a child of.
    pub(super) parent: usize,
}

/// Weights of one side by stack, and changes of all sides that are under way. Sums wrap around, so that what is taken away again leaves
/// nothing.
#[derive(Default)]
pub(super) struct Weights {
    runs: Runs,
    /// By run: what ends in its last node, and with that all that begins with it.
    own_ns: Vec<u64>,
    sums_ns: Vec<u64>,
    /// By run: its change; all 0 between climbs.
    by_ns: Vec<[u64; SIDES]>,
    /// By 64 nodes, a bit for each last node whose run has (or had) a change; all 0 between climbs.
    changed: Vec<u64>,
}

impl Weights {
    /// Takes in the nodes that are new.
    pub(super) fn catch_up(&mut self, nodes: &[Node]) {
        for node in &nodes[self.runs.places()..] {
            let cut = self.runs.push(node.parent.index());
            self.divide(cut);
        }
        self.changed.resize(nodes.len().div_ceil(64), 0);
        self.make_room();
    }

    /// Makes all 0.
    pub(super) fn clear(&mut self) {
        self.own_ns.fill(0);
        self.sums_ns.fill(0);
    }

    /// The stacks that have a weight of their own, by index.
    pub(super) fn own(&self) -> impl Iterator<Item = (usize, u64)> {
        let own = self.own_ns.iter().enumerate().filter(|&(_, &weight_ns)| weight_ns != 0);
        own.map(|(run, &weight_ns)| (self.runs.ends(run).1, weight_ns))
    }

    /// Of a stack and all that begin with it, by its index.
    pub(super) fn of(&self, node: usize) -> u64 {
        self.sums_ns[self.runs.of(node)]
    }

    /// All pieces but the root that weigh something.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (Piece, u64)> {
        let sums = self.sums_ns.iter().copied().enumerate().skip(1).filter(|&(_, sum_ns)| sum_ns != 0);
        sums.map(|(run, sum_ns)| (piece(&self.runs, run), sum_ns))
    }

    /// A change of what ends in a stack. `own` is that of the side whose weights are kept.
    pub(super) fn add(&mut self, stack: StackId, side: usize, own: bool, by_ns: u64) {
        let node = stack.index();
        let cut = self.runs.cut(node);
        self.divide(cut);
        let run = self.runs.of(node);
        change(&mut self.by_ns[run][side], by_ns);
        self.changed[node / 64] |= 1 << (node % 64);
        if own {
            change(&mut self.own_ns[run], by_ns);
        }
    }

    /// Carries all changes to the root, and calls `each` with every piece but the root that has one. Sums are those of side `kept` then,
    /// and changes all 0 again.
    pub(super) fn climb(&mut self, kept: usize, mut each: impl FnMut(Piece, [u64; SIDES])) {
        for word in (0..self.changed.len()).rev() {
            // A parent may be in the same word, so it is read again.
            while self.changed[word] != 0 {
                let bit = 63 - self.changed[word].leading_zeros();
                self.changed[word] &= !(1 << bit);
                let run = self.runs.of(64 * word + bit as usize);
                let by_ns = std::mem::take(&mut self.by_ns[run]);
                if by_ns == [0; SIDES] {
                    continue;
                }
                change(&mut self.sums_ns[run], by_ns[kept]);
                if run != 0 {
                    let piece = piece(&self.runs, run);
                    each(piece, by_ns);
                    let above = &mut self.by_ns[self.runs.above(run)];
                    above.iter_mut().zip(by_ns).for_each(|(sum, by_ns)| change(sum, by_ns));
                    self.changed[piece.parent / 64] |= 1 << (piece.parent % 64);
                }
            }
        }
    }

    /// What lies on either part of what was cut is what lay on the whole.
    fn divide(&mut self, cut: Option<Cut>) {
        if let Some(Cut { upper, lower }) = cut {
            self.make_room();
            self.sums_ns[upper] = self.sums_ns[lower];
        }
    }

    fn make_room(&mut self) {
        self.own_ns.resize(self.runs.len(), 0);
        self.sums_ns.resize(self.runs.len(), 0);
        self.by_ns.resize(self.runs.len(), [0; SIDES]);
    }
}

fn piece(runs: &Runs, run: usize) -> Piece {
    Piece { ends: runs.ends(run), parent: runs.ends(runs.above(run)).1 }
}

fn change(sum: &mut u64, by: u64) {
    *sum = sum.wrapping_add(by);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stack::FrameId;

    #[test]
    fn changes_are_carried_to_the_root_and_leave_nothing_where_they_cancel() {
        // 0 ← 1 ← 2 ← 3 … 70, 1 ← 71, 0 ← 72
        let parent = |node: usize| match node {
            71 => 1,
            72 => 0,
            _ => node.saturating_sub(1),
        };
        let node = |node| Node { parent: StackId::of(parent(node)), frame: FrameId(0) };
        let nodes: Vec<Node> = (0..80).take(73).map(node).collect();
        let mut weights = Weights::default();
        weights.catch_up(&nodes);
        let mut climb = |of: &[(usize, usize, i64)]| {
            let mut seen = Vec::new();
            of.iter().for_each(|&(node, side, by_ns)| weights.add(StackId::of(node), side, side == 0, by_ns as u64));
            weights.climb(0, |piece, by_ns| seen.push((piece.ends, piece.parent, by_ns.map(|by_ns| by_ns as i64))));
            (seen, [0, 1, 40, 71, 72].map(|node| weights.of(node)))
        };
        let root = ((72, 72), 0, [1, 0]);
        let all = vec![root, ((71, 71), 1, [2, 1]), ((2, 70), 1, [5, 0]), ((1, 1), 0, [7, 1])];
        assert_eq!(climb(&[(70, 0, 5), (72, 0, 1), (71, 0, 2), (71, 1, 1)]), (all, [8, 7, 5, 2, 1]));
        let moved = vec![((71, 71), 1, [5, 0]), ((2, 70), 1, [-5, 0])];
        assert_eq!(climb(&[(70, 0, -5), (71, 0, 5)]), (moved, [8, 7, 0, 7, 1]));
        assert_eq!(climb(&[]), (vec![], [8, 7, 0, 7, 1]));
        // What ends within a piece cuts it, and both parts go on from what the whole was.
        let within = vec![((2, 40), 1, [3, 0]), ((1, 1), 0, [3, 0])];
        assert_eq!(climb(&[(40, 0, 3)]), (within, [11, 10, 3, 7, 1]));
        assert_eq!(weights.own().collect::<Vec<_>>(), [(71, 7), (72, 1), (40, 3)]);
        assert!(weights.pieces().any(|(piece, sum_ns)| (piece.ends, sum_ns) == ((2, 40), 3)));
    }
}

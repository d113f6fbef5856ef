//! What the stacks of a question weigh, and what changed of it: changes are carried from the leaves to the root of the prefix tree, run by
//! run, and nothing else is touched.

use super::running::SIDES;
use super::runs::{Load, Runs};
use crate::profile::stack::{Node, StackId};

/// Changes that are looked at before they are worked on: what is read of them fits into a near cache.
pub(super) const AHEAD: usize = 256;

/// A piece of the tree on which no stack ends but in its last node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its number; that of the same last node is always the same.
    pub(super) run: usize,
    /// Its first node and its last.
    pub(super) ends: (usize, usize),
    /// Number of the piece whose last node is the parent of the first.
    pub(super) above: usize,
    /// That node.
    pub(super) parent: usize,
}

/// A step of what carries changes to the root.
pub(super) enum Climb<'a> {
    /// Changes of about these pieces come next.
    Ahead(&'a [Piece]),
    /// The change of a piece and all that begins with it, of each side.
    Changed(Piece, [u64; SIDES]),
}

/// What a run weighs, and its change that is under way.
#[derive(Clone, Default)]
struct Sum {
    /// What ends in its last node, and with that all that begins with it.
    own_ns: u64,
    sum_ns: u64,
    /// All 0 between climbs.
    by_ns: [u64; SIDES],
}

impl Load for Sum {
    fn above(&self) -> Sum {
        Sum { sum_ns: self.sum_ns, ..Sum::default() }
    }
}

/// Weights of one side by stack, and changes of all sides that are under way. Sums wrap around, so that what is taken away again leaves
/// nothing.
#[derive(Default)]
pub(super) struct Weights {
    runs: Runs<Sum>,
    /// Last nodes and pieces that are looked at before they are worked on; empty between climbs.
    ahead: (Vec<u32>, Vec<Piece>),
    /// By 64 nodes, a bit for each last node whose run has (or had) a change; all 0 between climbs.
    changed: Vec<u64>,
}

impl Weights {
    /// Takes in the nodes that are new.
    pub(super) fn catch_up(&mut self, nodes: &[Node]) {
        nodes[self.runs.places()..].iter().for_each(|node| self.runs.push(node.parent.index()));
        self.changed.resize(nodes.len().div_ceil(64), 0);
    }

    /// Makes all 0.
    pub(super) fn clear(&mut self) {
        self.runs.loads_mut().for_each(|sum| *sum = Sum::default());
    }

    /// The stacks that have a weight of their own, by index.
    pub(super) fn own(&self) -> impl Iterator<Item = (usize, u64)> {
        let own = (0..self.runs.len()).map(|run| (run, self.runs.load(run).own_ns));
        own.filter(|&(_, own_ns)| own_ns != 0).map(|(run, own_ns)| (self.runs.ends(run).1, own_ns))
    }

    /// Of what ends in a stack, by its index.
    pub(super) fn own_of(&self, node: usize) -> u64 {
        let run = self.runs.of(node);
        if self.runs.ends(run).1 == node { self.runs.load(run).own_ns } else { 0 }
    }

    /// The stacks that are one frame longer, by index.
    pub(super) fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.runs.children(node)
    }

    /// Of a stack and all that begin with it, by its index.
    pub(super) fn of(&self, node: usize) -> u64 {
        self.runs.load(self.runs.of(node)).sum_ns
    }

    /// All pieces but the root that weigh something.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (Piece, u64)> {
        let sums = (1..self.runs.len()).map(|run| (run, self.runs.load(run).sum_ns));
        sums.filter(|&(_, sum_ns)| sum_ns != 0).map(|(run, sum_ns)| (piece(&self.runs, run), sum_ns))
    }

    /// A change of what ends in a stack, of each side; `kept` is the one whose weights are kept.
    pub(super) fn add(&mut self, stack: StackId, by_ns: [u64; SIDES], kept: usize) {
        let node = stack.index();
        let run = self.runs.cut(node);
        let sum = self.runs.load_mut(run);
        sum.by_ns.iter_mut().zip(by_ns).for_each(|(sum, by_ns)| change(sum, by_ns));
        change(&mut sum.own_ns, by_ns[kept]);
        self.changed[node / 64] |= 1 << (node % 64);
    }

    /// Reads what [`add`](Self::add) will ask for.
    pub(super) fn look_ahead(&self, stacks: impl Iterator<Item = StackId>) {
        self.runs.look_ahead(stacks.map(StackId::index));
    }

    /// Carries all changes to the root, and tells of every piece but the root that has one. Sums are those of side `kept` then, and changes
    /// all 0 again.
    pub(super) fn climb(&mut self, kept: usize, mut tell: impl FnMut(Climb<'_>)) {
        let (mut nodes, mut pieces) = std::mem::take(&mut self.ahead);
        let mut end = self.changed.len();
        while end > 0 {
            let mut start = end;
            while start > 0 && nodes.len() < AHEAD {
                start -= 1;
                let mut bits = self.changed[start];
                while bits != 0 {
                    nodes.push(64 * start as u32 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
            self.runs.look_ahead(nodes.iter().map(|&node| node as usize));
            let runs = nodes.drain(..).map(|node| self.runs.of(node as usize)).filter(|&run| run != 0);
            pieces.extend(runs.map(|run| piece(&self.runs, run)));
            tell(Climb::Ahead(&pieces));
            pieces.clear();
            self.climb_words((start, end), kept, &mut tell);
            end = start;
        }
        self.ahead = (nodes, pieces);
    }

    fn climb_words(&mut self, (start, end): (usize, usize), kept: usize, tell: &mut impl FnMut(Climb<'_>)) {
        for word in (start..end).rev() {
            // A parent may be in the same word, so it is read again.
            while self.changed[word] != 0 {
                let bit = 63 - self.changed[word].leading_zeros();
                self.changed[word] &= !(1 << bit);
                let run = self.runs.of(64 * word + bit as usize);
                let sum = self.runs.load_mut(run);
                let by_ns = std::mem::take(&mut sum.by_ns);
                if by_ns == [0; SIDES] {
                    continue;
                }
                change(&mut sum.sum_ns, by_ns[kept]);
                if run != 0 {
                    let piece = piece(&self.runs, run);
                    tell(Climb::Changed(piece, by_ns));
                    let above = &mut self.runs.load_mut(piece.above).by_ns;
                    above.iter_mut().zip(by_ns).for_each(|(sum, by_ns)| change(sum, by_ns));
                    self.changed[piece.parent / 64] |= 1 << (piece.parent % 64);
                }
            }
        }
    }
}

fn piece(runs: &Runs<Sum>, run: usize) -> Piece {
    let above = runs.above(run);
    Piece { run, ends: runs.ends(run), above, parent: runs.ends(above).1 }
}

fn change(sum: &mut u64, by: u64) {
    *sum = sum.wrapping_add(by);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stack::FrameId;

    /// Of more changes than are looked at ahead, none is the root's, which has no frame.
    #[test]
    fn the_root_is_told_of_nowhere() {
        let count = 3 * AHEAD;
        let node = |_| Node { parent: StackId::EMPTY, frame: FrameId(0) };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let mut weights = Weights::default();
        weights.catch_up(&nodes);
        (0..count).for_each(|node| weights.add(StackId::of(node), [1, 0], 0));
        let (mut ahead, mut changed) = (Vec::new(), Vec::new());
        weights.climb(0, |step| match step {
            Climb::Ahead(pieces) => ahead.extend(pieces.iter().map(|piece| piece.ends.0)),
            Climb::Changed(piece, _) => changed.push(piece.ends.0),
        });
        ahead.sort_unstable();
        ahead.dedup();
        changed.sort_unstable();
        let all: Vec<usize> = (1..count).collect();
        assert_eq!((ahead, changed), (all.clone(), all));
        assert_eq!(weights.of(0), count as u64);
    }

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
            for &(node, side, ns) in of {
                let mut by_ns = [0; SIDES];
                by_ns[side] = ns as u64;
                weights.add(StackId::of(node), by_ns, 0);
            }
            weights.climb(0, |step| {
                if let Climb::Changed(piece, by_ns) = step {
                    seen.push((piece.ends, piece.parent, by_ns.map(|by_ns| by_ns as i64)));
                }
            });
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

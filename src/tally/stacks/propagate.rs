//! The weight of every stack and of every subtree. Changes are collected at the nodes where stacks
//! end, and propagated from the leaves to the root of the prefix tree, chain by chain. Chains
//! without a change are not visited.

use super::chains::Chains;
use super::{PREFETCH, SPAN, SUMS};
use crate::profile::stack::{Node, StackId};

/// The first and the last node of a chain: no stack ends on it except in its last node.
pub(crate) type ChainEnds = (usize, usize);

/// A step of [`StackWeights::propagate`].
pub(crate) enum PropagationStep<'a> {
    /// These chains come next. The caller may prefetch the data that it will read for them.
    Upcoming(&'a [ChainEnds]),
    /// The change of a chain's subtree, for each sum.
    Changed(ChainEnds, [u64; SUMS]),
}

/// The weights of one sum by stack, and the changes of all sums in progress. Sums wrap around, so
/// that subtracting what was added leaves 0.
#[derive(Default)]
pub(crate) struct StackWeights {
    /// The tag of a chain is one past the index of its change in `changes_ns`; 0 for none. Few
    /// chains have one at a time.
    chains: Chains,
    /// Last nodes and chains that are prefetched next; empty between propagations.
    upcoming: (Vec<u32>, Vec<ChainEnds>),
    /// A bit for each last node whose chain has (or had) a change, 64 nodes a word; 0 between
    /// propagations.
    changed: Vec<u64>,
    /// Changes of subtrees, for each sum; empty between propagations.
    changes_ns: Vec<[u64; SUMS]>,
    /// The indices of changes that are propagated and may be used again.
    free: Vec<u32>,
}

/// The capacity of `changes_ns` and `free` that is kept between propagations.
const KEPT_CHANGES: usize = 1 << 16;

impl StackWeights {
    /// Adds new nodes.
    pub(crate) fn update(&mut self, nodes: &[Node]) {
        nodes[self.chains.node_count()..].iter().for_each(|node| self.chains.push(node.parent.index()));
        self.changed.resize(nodes.len().div_ceil(64), 0);
    }

    /// Resets all weights to 0.
    pub(crate) fn clear(&mut self) {
        self.chains.clear();
        self.changes_ns.clear();
        self.free.clear();
    }

    /// The stacks that have weight of their own, by index, with that weight.
    pub(crate) fn own_weights(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut own_ns: Vec<u64> = (0..self.chains.len()).map(|chain| self.chains.subtree_ns(chain)).collect();
        for chain in 1..self.chains.len() {
            let parent_ns = &mut own_ns[self.chains.parent_chain(chain)];
            *parent_ns = parent_ns.wrapping_sub(self.chains.subtree_ns(chain));
        }
        let own = own_ns.into_iter().enumerate().filter(|&(_, own_ns)| own_ns != 0);
        own.map(|(chain, own_ns)| (self.chains.ends(chain).1, own_ns))
    }

    /// The weight of the stack that ends in a node.
    pub(crate) fn own_ns(&self, node: usize) -> u64 {
        self.children(node).fold(self.subtree_ns(node), |own_ns, child| own_ns.wrapping_sub(self.subtree_ns(child)))
    }

    /// The children of a node.
    pub(crate) fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.chains.children(node)
    }

    /// The weight of a node's subtree.
    pub(crate) fn subtree_ns(&self, node: usize) -> u64 {
        self.chains.subtree_ns(self.chains.chain_of(node))
    }

    /// Records a change of the weight of one stack, for each sum.
    pub(crate) fn add(&mut self, stack: StackId, change_ns: [u64; SUMS]) {
        let chain = self.chains.end_chain_at(stack.index());
        self.add_change(chain, stack.index(), change_ns);
    }

    /// Adds to the change of the chain that ends in a node.
    fn add_change(&mut self, chain: usize, node: usize, change_ns: [u64; SUMS]) {
        let (_, change) = self.chains.weight_and_tag(chain);
        if *change > 0 {
            let sums = &mut self.changes_ns[*change as usize - 1];
            sums.iter_mut().zip(change_ns).for_each(|(sum, by)| add(sum, by));
        } else if let Some(free) = self.free.pop() {
            self.changes_ns[free as usize] = change_ns;
            *change = free + 1;
        } else {
            self.changes_ns.push(change_ns);
            *change = self.changes_ns.len() as u32;
        }
        self.changed[node / 64] |= 1 << (node % 64);
    }

    /// Prefetches what [`add`](Self::add) reads.
    pub(crate) fn prefetch(&self, stacks: impl Iterator<Item = StackId>) {
        self.chains.prefetch_nodes(stacks.map(StackId::index));
    }

    /// Propagates all changes to the root, and reports every chain but the root that has one.
    /// Afterwards the weights are those of the query's span.
    pub(crate) fn propagate(&mut self, mut report: impl FnMut(PropagationStep<'_>)) {
        let (mut nodes, mut chains) = std::mem::take(&mut self.upcoming);
        let mut end = self.changed.len();
        while end > 0 {
            let mut start = end;
            while start > 0 && nodes.len() < PREFETCH {
                start -= 1;
                let mut bits = self.changed[start];
                while bits != 0 {
                    nodes.push(64 * start as u32 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
            self.chains.prefetch_nodes(nodes.iter().map(|&node| node as usize));
            let numbers = nodes.drain(..).map(|node| self.chains.chain_of(node as usize));
            chains.extend(numbers.filter(|&chain| chain != 0).map(|chain| self.chains.ends(chain)));
            report(PropagationStep::Upcoming(&chains));
            chains.clear();
            self.propagate_words((start, end), &mut report);
            end = start;
        }
        self.upcoming = (nodes, chains);
        self.changes_ns.clear();
        self.changes_ns.shrink_to(KEPT_CHANGES);
        self.free.clear();
        self.free.shrink_to(KEPT_CHANGES);
    }

    /// Propagates the changes of the nodes in some words of `changed`, from the last to the first:
    /// parents have smaller numbers.
    fn propagate_words(&mut self, (start, end): (usize, usize), report: &mut impl FnMut(PropagationStep<'_>)) {
        for word in (start..end).rev() {
            // The word is read again each time, because a parent may be in it.
            while self.changed[word] != 0 {
                let bit = 63 - self.changed[word].leading_zeros();
                self.changed[word] &= !(1 << bit);
                let chain = self.chains.chain_of(64 * word + bit as usize);
                let (subtree_ns, change) = self.chains.weight_and_tag(chain);
                let Some(change) = std::mem::take(change).checked_sub(1) else { continue };
                let change_ns = self.changes_ns[change as usize];
                self.free.push(change);
                if change_ns == [0; SUMS] {
                    continue;
                }
                add(subtree_ns, change_ns[SPAN]);
                if chain != 0 {
                    report(PropagationStep::Changed(self.chains.ends(chain), change_ns));
                    let parent = self.chains.parent_chain(chain);
                    self.add_change(parent, self.chains.ends(parent).1, change_ns);
                }
            }
        }
    }
}

fn add(sum: &mut u64, by: u64) {
    *sum = sum.wrapping_add(by);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stack::FrameId;

    /// The root has no frame. There are more changes than are prefetched together.
    #[test]
    fn the_root_is_not_reported() {
        let count = 3 * PREFETCH;
        let node = |_| Node { parent: StackId::EMPTY, frame: FrameId(0) };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let mut weights = StackWeights::default();
        weights.update(&nodes);
        (0..count).for_each(|node| weights.add(StackId::from_index(node), [1, 0, 0, 0]));
        let (mut upcoming, mut changed) = (Vec::new(), Vec::new());
        weights.propagate(|step| match step {
            PropagationStep::Upcoming(chains) => upcoming.extend(chains.iter().map(|ends| ends.0)),
            PropagationStep::Changed(ends, _) => changed.push(ends.0),
        });
        upcoming.sort_unstable();
        upcoming.dedup();
        changed.sort_unstable();
        let all: Vec<usize> = (1..count).collect();
        assert_eq!((upcoming, changed), (all.clone(), all));
        assert_eq!(weights.subtree_ns(0), count as u64);
    }

    #[test]
    fn changes_reach_the_root_and_cancel_out() {
        // 0 ← 1 ← 2 ← 3 … 70, 1 ← 71, 0 ← 72
        let parent = |node: usize| match node {
            71 => 1,
            72 => 0,
            _ => node.saturating_sub(1),
        };
        let node = |node| Node { parent: StackId::from_index(parent(node)), frame: FrameId(0) };
        let nodes: Vec<Node> = (0..80).take(73).map(node).collect();
        let mut weights = StackWeights::default();
        weights.update(&nodes);
        let mut propagate = |changes: &[(usize, usize, i64)]| {
            let mut reported = Vec::new();
            for &(node, sum, ns) in changes {
                let mut change_ns = [0; SUMS];
                change_ns[sum] = ns as u64;
                weights.add(StackId::from_index(node), change_ns);
            }
            weights.propagate(|step| {
                if let PropagationStep::Changed(ends, change_ns) = step {
                    reported.push((ends, change_ns.map(|ns| ns as i64)));
                }
            });
            (reported, [0, 1, 40, 71, 72].map(|node| weights.subtree_ns(node)))
        };
        let root = ((72, 72), [1, 0, 0, 0]);
        let all = vec![root, ((71, 71), [2, 1, 0, 0]), ((2, 70), [5, 0, 0, 0]), ((1, 1), [7, 1, 0, 0])];
        assert_eq!(propagate(&[(70, 0, 5), (72, 0, 1), (71, 0, 2), (71, 1, 1)]), (all, [8, 7, 5, 2, 1]));
        let moved = vec![((71, 71), [5, 0, 0, 0]), ((2, 70), [-5, 0, 0, 0])];
        assert_eq!(propagate(&[(70, 0, -5), (71, 0, 5)]), (moved, [8, 7, 0, 7, 1]));
        assert_eq!(propagate(&[]), (vec![], [8, 7, 0, 7, 1]));
        // A stack that ends within a chain splits it; both parts continue from the former weight.
        let within = vec![((2, 40), [3, 0, 0, 0]), ((1, 1), [3, 0, 0, 0])];
        assert_eq!(propagate(&[(40, 0, 3)]), (within, [11, 10, 3, 7, 1]));
        assert_eq!(weights.own_weights().collect::<Vec<_>>(), [(71, 7), (72, 1), (40, 3)]);
        assert_eq!([1, 2, 40, 41, 70, 71, 72].map(|node| weights.own_ns(node)), [0, 0, 3, 0, 0, 7, 1]);
        assert_eq!([2, 40, 41].map(|node| weights.subtree_ns(node)), [3, 3, 0]);
    }
}

//! A tree with path compression. Most nodes of a stack tree have one child and no weight of their
//! own. Such nodes form a *chain*: consecutive numbers, of which only the last node has weight or
//! several children. Whatever the last node weighs all of them weigh, so weights are stored by
//! chain, not by node. A chain is split where another child appears or a stack ends.

use std::hint::black_box;

#[derive(Clone)]
struct Chain {
    first: u32,
    last: u32,
    /// The chain whose last node is the parent of `first`.
    parent: u32,
    /// The first nodes of the children's chains form a linked list. `children` is its head, `next`
    /// the sibling of this chain; 0 ends the list. `children` is [`OPEN`] as long as the next child
    /// of the last node continues this chain.
    children: u32,
    next: u32,
    /// A number that the caller gives to the chain; 0 at first.
    tag: u32,
    /// The weight of the last node's subtree.
    subtree_ns: u64,
}

const OPEN: u32 = u32::MAX;
const ROOT: Chain = Chain { first: 0, last: 0, parent: 0, children: 0, next: 0, tag: 0, subtree_ns: 0 };

/// The chains of a tree whose nodes have greater numbers than their parents. Node 0 is the root,
/// and chain 0 holds it alone. The chain of a last node keeps its number once
/// [`end_chain_at`](Chains::end_chain_at) was called for the node, or the node has two children.
pub(crate) struct Chains {
    /// The chain of each node.
    by_node: Vec<u32>,
    chains: Vec<Chain>,
}

impl Default for Chains {
    fn default() -> Self {
        Chains { by_node: vec![0], chains: vec![ROOT] }
    }
}

impl Chains {
    /// The number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.by_node.len()
    }

    /// The number of chains.
    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    /// The chain of a node.
    pub(crate) fn chain_of(&self, node: usize) -> usize {
        self.by_node[node] as usize
    }

    /// The first and the last node of a chain.
    pub(crate) fn ends(&self, chain: usize) -> (usize, usize) {
        (self.chains[chain].first as usize, self.chains[chain].last as usize)
    }

    /// The chain that holds the parent of a chain's first node. The root's is its own.
    pub(crate) fn parent_chain(&self, chain: usize) -> usize {
        self.chains[chain].parent as usize
    }

    /// The weight of the subtree of a chain's last node.
    pub(crate) fn subtree_ns(&self, chain: usize) -> u64 {
        self.chains[chain].subtree_ns
    }

    /// The weight of the subtree, and the tag of the chain.
    pub(crate) fn weight_and_tag(&mut self, chain: usize) -> (&mut u64, &mut u32) {
        let Chain { subtree_ns, tag, .. } = &mut self.chains[chain];
        (subtree_ns, tag)
    }

    /// Resets all weights and tags to 0.
    pub(crate) fn clear(&mut self) {
        self.chains.iter_mut().for_each(|chain| (chain.subtree_ns, chain.tag) = (0, 0));
    }

    /// Prefetches the chains of these nodes. The reads do not depend on each other, so their cache
    /// misses overlap.
    pub(crate) fn prefetch_nodes(&self, nodes: impl Iterator<Item = usize>) {
        black_box(nodes.fold(0, |seen, node| seen ^ self.chains[self.by_node[node] as usize].last));
    }

    /// The children of a node, the latest first.
    pub(crate) fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let chain = &self.chains[self.chain_of(node)];
        let mut next = if chain.last as usize > node { node as u32 + 1 } else { chain.children };
        std::iter::from_fn(move || {
            let child = Some(next as usize).filter(|_| next != 0 && next != OPEN)?;
            let chain = &self.chains[self.chain_of(child)];
            next = if chain.first as usize == child { chain.next } else { 0 };
            Some(child)
        })
    }

    /// Adds the next node, a child of `parent`.
    pub(crate) fn push(&mut self, parent: usize) {
        let (node, parent_chain) = (self.by_node.len(), self.chain_of(parent));
        let chain = &mut self.chains[parent_chain];
        if chain.children == OPEN && chain.last as usize == parent && parent + 1 == node {
            chain.last = node as u32;
            self.by_node.push(parent_chain as u32);
            return;
        }
        let (parent_chain, node, chain) = (self.end_chain_at(parent), node as u32, self.chains.len() as u32);
        let next = std::mem::replace(&mut self.chains[parent_chain].children, node);
        let parent = parent_chain as u32;
        self.chains.push(Chain { first: node, last: node, parent, children: OPEN, next, ..ROOT });
        self.by_node.push(chain);
    }

    /// Makes a node the last of its chain for good, and returns that chain. If the node was in the
    /// middle, the chain is split: the nodes after it keep the number, and the part that ends with
    /// it gets the next new number and the same weight.
    pub(crate) fn end_chain_at(&mut self, node: usize) -> usize {
        let (lower, upper, end) = (self.chain_of(node), self.chains.len() as u32, node as u32);
        let chain = &mut self.chains[lower];
        if chain.last == end {
            chain.children = if chain.children == OPEN { 0 } else { chain.children };
            return lower;
        }
        let split = Chain { last: end, children: end + 1, tag: 0, ..chain.clone() };
        (chain.first, chain.parent, chain.next) = (end + 1, upper, 0);
        let first = split.first as usize;
        self.chains.push(split);
        self.by_node[first..=node].fill(upper);
        upper as usize
    }
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(property(256))]

        /// Parents and children are those that were given; the nodes of a chain follow each other;
        /// a node at which a chain was ended is the last of its chain.
        #[test]
        fn chains_represent_the_tree(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let (mut chains, mut parents, mut ended) = (Chains::default(), vec![0], vec![(0, 0)]);
            for (continues, parent, ends) in steps {
                let parent = if continues { parents.len() - 1 } else { parent.index(parents.len()) };
                chains.push(parent);
                parents.push(parent);
                if ends {
                    let node = parent.min(parents.len() / 2);
                    let chain = chains.end_chain_at(node);
                    prop_assert_eq!((chains.chain_of(node), chains.ends(chain).1), (chain, node));
                    ended.push((node, chain));
                }
            }
            prop_assert_eq!(chains.node_count(), parents.len());
            for node in 0..parents.len() {
                let children: Vec<usize> =
                    (node + 1..parents.len()).rev().filter(|&child| parents[child] == node).collect();
                prop_assert_eq!(chains.children(node).collect::<Vec<_>>(), children);
                let (first, last) = chains.ends(chains.chain_of(node));
                prop_assert!((first..=last).contains(&node));
                prop_assert!((first + 1..=last).all(|node| parents[node] == node - 1));
            }
            for (node, chain) in ended {
                prop_assert_eq!((chains.chain_of(node), chains.ends(chain).1), (chain, node), "numbers stay");
            }
            for chain in 1..chains.len() {
                prop_assert_eq!(chains.ends(chains.parent_chain(chain)).1, parents[chains.ends(chain).0]);
            }
        }
    }

    #[test]
    fn a_path_is_one_chain_until_it_branches() {
        let mut chains = Chains::default();
        (0..10).for_each(|parent| chains.push(parent));
        assert_eq!((chains.len(), chains.ends(1)), (2, (1, 10)));
        chains.push(4);
        assert_eq!([2, 1, 3].map(|chain| chains.ends(chain)), [(1, 4), (5, 10), (11, 11)]);
        assert_eq!([2, 1, 3].map(|chain| chains.parent_chain(chain)), [0, 2, 2]);
        assert_eq!((chains.end_chain_at(4), chains.len()), (2, 4), "it is the last of its chain already");
        *chains.weight_and_tag(1).0 = 7;
        *chains.weight_and_tag(1).1 = 8;
        let upper = chains.end_chain_at(6);
        let weights_and_tags =
            [upper, 1].map(|chain| (*chains.weight_and_tag(chain).0, *chains.weight_and_tag(chain).1));
        assert_eq!((chains.ends(upper), weights_and_tags), ((5, 6), [(7, 0), (7, 8)]));
    }
}

//! A tree with path compression. Most nodes of a stack tree have one child and no weight of their
//! own. Such nodes form a *chain*: consecutive numbers, of which only the last node has weight or
//! several children. Whatever the last node weighs all of them weigh, so data is stored by chain,
//! not by node. A chain is split where another child appears or a stack ends.

use std::hint::black_box;

/// The data of a chain.
pub(crate) trait ChainData: Clone + Default {
    /// The data of the part towards the root when a chain is split and the other part keeps this
    /// data.
    fn split_upper(&self) -> Self;
}

#[derive(Clone)]
struct Chain<D> {
    first: u32,
    last: u32,
    /// The chain whose last node is the parent of `first`.
    parent: u32,
    /// The first nodes of the children's chains form a linked list. `children` is its head, `next`
    /// the sibling of this chain; 0 ends the list.
    children: u32,
    next: u32,
    /// Whether the next child of the last node begins a chain of its own.
    closed: bool,
    data: D,
}

/// The chains of a tree whose nodes have greater numbers than their parents. Node 0 is the root,
/// and chain 0 holds it alone. The chain of a last node keeps its number once
/// [`end_chain_at`](Chains::end_chain_at) was called for the node, or the node has two children.
pub(crate) struct Chains<D> {
    /// The chain of each node.
    by_node: Vec<u32>,
    chains: Vec<Chain<D>>,
}

impl<D: ChainData> Default for Chains<D> {
    fn default() -> Self {
        let root = Chain { first: 0, last: 0, parent: 0, children: 0, next: 0, closed: true, data: D::default() };
        Chains { by_node: vec![0], chains: vec![root] }
    }
}

impl<D: ChainData> Chains<D> {
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

    pub(crate) fn data(&self, chain: usize) -> &D {
        &self.chains[chain].data
    }

    pub(crate) fn data_mut(&mut self, chain: usize) -> &mut D {
        &mut self.chains[chain].data
    }

    /// The data of all chains.
    pub(crate) fn all_data_mut(&mut self) -> impl Iterator<Item = &mut D> {
        self.chains.iter_mut().map(|chain| &mut chain.data)
    }

    /// Prefetches the chains of these nodes. The reads do not depend on each other, so their cache
    /// misses overlap.
    pub(crate) fn prefetch_nodes(&self, nodes: impl Iterator<Item = usize>) {
        black_box(nodes.fold(0, |seen, node| seen ^ self.chains[self.by_node[node] as usize].last));
    }

    /// Prefetches these chains.
    pub(crate) fn prefetch_chains(&self, chains: impl Iterator<Item = usize>) {
        black_box(chains.fold(0, |seen, chain| seen ^ self.chains[chain].last));
    }

    /// The parent of a node. The root's is itself.
    pub(crate) fn parent(&self, node: usize) -> usize {
        let chain = &self.chains[self.chain_of(node)];
        match (chain.first as usize) < node {
            true => node - 1,
            false => self.chains[chain.parent as usize].last as usize,
        }
    }

    /// The children of a node, the latest first.
    pub(crate) fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let chain = &self.chains[self.chain_of(node)];
        let mut next = if chain.last as usize > node { node as u32 + 1 } else { chain.children };
        std::iter::from_fn(move || {
            let child = Some(next as usize).filter(|&child| child != 0)?;
            let chain = &self.chains[self.chain_of(child)];
            next = if chain.first as usize == child { chain.next } else { 0 };
            Some(child)
        })
    }

    /// Adds the next node, a child of `parent`.
    pub(crate) fn push(&mut self, parent: usize) {
        let (node, parent_chain) = (self.by_node.len(), self.chain_of(parent));
        let chain = &mut self.chains[parent_chain];
        if !chain.closed && chain.last as usize == parent && parent + 1 == node {
            chain.last = node as u32;
            self.by_node.push(parent_chain as u32);
            return;
        }
        let (parent_chain, node, chain) = (self.end_chain_at(parent), node as u32, self.chains.len() as u32);
        let next = std::mem::replace(&mut self.chains[parent_chain].children, node);
        let (parent, data) = (parent_chain as u32, D::default());
        self.chains.push(Chain { first: node, last: node, parent, children: 0, next, closed: false, data });
        self.by_node.push(chain);
    }

    /// Makes a node the last of its chain for good, and returns that chain. If the node was in the
    /// middle, the chain is split: the nodes after it keep the number, and the part that ends with
    /// it gets the next new number.
    pub(crate) fn end_chain_at(&mut self, node: usize) -> usize {
        let (lower, upper, end) = (self.chain_of(node), self.chains.len() as u32, node as u32);
        let chain = &mut self.chains[lower];
        if chain.last == end {
            chain.closed = true;
            return lower;
        }
        let (first, parent, next, data) = (chain.first, chain.parent, chain.next, chain.data.split_upper());
        (chain.first, chain.parent, chain.next) = (end + 1, upper, 0);
        self.chains.push(Chain { first, last: end, parent, children: end + 1, next, closed: true, data });
        self.by_node[first as usize..=node].fill(upper);
        upper as usize
    }
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;

    impl ChainData for () {
        fn split_upper(&self) {}
    }

    proptest! {
        #![proptest_config(property(256))]

        /// Parents and children are those that were given; the nodes of a chain follow each other;
        /// a node at which a chain was ended is the last of its chain.
        #[test]
        fn chains_represent_the_tree(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let (mut chains, mut parents, mut ended) = (Chains::<()>::default(), vec![0], vec![(0, 0)]);
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
                prop_assert_eq!(chains.parent(node), parents[node]);
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
        let mut chains = Chains::<()>::default();
        (0..10).for_each(|parent| chains.push(parent));
        assert_eq!((chains.len(), chains.ends(1)), (2, (1, 10)));
        chains.push(4);
        assert_eq!([2, 1, 3].map(|chain| chains.ends(chain)), [(1, 4), (5, 10), (11, 11)]);
        assert_eq!([2, 1, 3].map(|chain| chains.parent_chain(chain)), [0, 2, 2]);
        assert_eq!((chains.end_chain_at(4), chains.len()), (2, 4), "it is the last of its chain already");
    }
}

//! What is found around one row on stacks, each thing once a stack: a tie has the weight of the subtrees of the nodes where it is found
//! for the first time on the way from the root.
//!
//! Only nodes near the row are looked at: of a large tree, few have to do with any one function.

use std::collections::HashMap;
use std::hash::Hash;
use std::hint::black_box;

use super::paths::Paths;
use super::rows::RowId;
use super::sieve::Sieve;
use super::weights::{AHEAD, Weights};
use crate::profile::hash::IdMap;
use crate::profile::stack::{FrameId, Node, StackId};

/// All stacks, and what is known of them.
#[derive(Clone, Copy)]
pub(super) struct Forest<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) paths: &'a Paths,
    pub(super) sieve: &'a Sieve,
    pub(super) weights: &'a Weights,
}

impl Forest<'_> {
    /// Reads what will be asked for of these nodes: reads that do not wait for each other wait together.
    pub(super) fn look_ahead(&self, nodes: &[u32]) {
        let nodes = nodes.iter().map(|&node| node as usize);
        self.paths.look_ahead(nodes.clone().map(|node| self.nodes[node].parent));
        self.paths.look_ahead_between(nodes.map(|node| (node, node)));
    }

    /// Reads what is asked for on the way from these nodes to their children.
    fn look_ahead_below(&self, nodes: &[usize]) {
        black_box(nodes.iter().fold(0, |seen, &node| seen ^ self.nodes[node].frame.0));
        self.weights.look_ahead(nodes.iter().map(|&node| StackId::of(node)));
    }

    /// Whether the filters leave nothing of a node's frame.
    fn is_bare(&self, node: usize) -> bool {
        self.paths.step(node, self.nodes[node], self.sieve).1.is_empty()
    }
}

/// At this node a tie appears for the first time on the way from the root.
struct Fresh {
    node: u32,
    /// Index in the ties.
    tie: u32,
    inlined: bool,
    /// One past the index of what became fresh before, on the same way; 0 for nothing.
    before: u32,
}

/// Ties, and where they are on every stack.
pub(super) struct Ties<T> {
    ties: Vec<T>,
    ids: HashMap<T, u32>,
    fresh: Vec<Fresh>,
    /// The nodes around the row, in order: it is in their frame, or in that of the next one above of which something is left.
    around: Vec<u32>,
    /// By these nodes: one past the index of what became fresh last, at it or above.
    last: IdMap<u32, u32>,
    /// All nodes before this one were considered.
    considered: usize,
}

impl<T> Default for Ties<T> {
    fn default() -> Ties<T> {
        Ties {
            ties: Vec::new(),
            ids: HashMap::new(),
            fresh: Vec::new(),
            around: Vec::new(),
            last: IdMap::default(),
            considered: 0,
        }
    }
}

impl<T: Copy + Eq + Hash> Ties<T> {
    /// Gives up what was concluded about nodes from this one on.
    pub(super) fn truncate(&mut self, kept: usize) {
        let known = self.around.partition_point(|&node| (node as usize) < kept);
        for node in self.around.drain(known..) {
            self.last.remove(&node);
        }
        self.fresh.truncate(self.fresh.partition_point(|fresh| (fresh.node as usize) < kept));
        self.considered = self.considered.min(kept);
    }

    /// The nodes around the row that were not looked at yet, in order: each is to be looked at next.
    pub(super) fn unseen(&mut self, row: RowId, forest: Forest<'_>) -> Vec<u32> {
        if self.considered == forest.nodes.len() {
            return Vec::new();
        }
        let known = self.around.len();
        let having = forest.sieve.having(row);
        let has = |node: usize| having[forest.nodes[node].frame.0 as usize];
        if self.considered == 0 {
            let frames = (0..having.len()).filter(|&frame| having[frame]).map(|frame| FrameId(frame as u32));
            // Each chain is read step by step; the next steps of all of them wait together.
            let (mut level, mut chains) =
                (Vec::new(), frames.map(|frame| forest.paths.nodes_of(frame)).collect::<Vec<_>>());
            while !chains.is_empty() {
                chains.retain_mut(|chain| chain.next().map(|node| level.push(node)).is_some());
            }
            while !level.is_empty() {
                let mut next = Vec::new();
                for nodes in level.chunks(AHEAD) {
                    forest.look_ahead_below(nodes);
                    for &node in nodes {
                        self.around.push(node as u32);
                        if has(node) || forest.is_bare(node) {
                            next.extend(forest.weights.children(node).filter(|&child| !has(child)));
                        }
                    }
                }
                level = next;
            }
            self.around.sort_unstable();
            self.last.extend(self.around.iter().map(|&node| (node, 0)));
        } else {
            for node in self.considered..forest.nodes.len() {
                let parent = forest.nodes[node].parent.index();
                let is_below = || self.last.contains_key(&(parent as u32)) && (has(parent) || forest.is_bare(parent));
                if has(node) || is_below() {
                    self.around.push(node as u32);
                    self.last.insert(node as u32, 0);
                }
            }
        }
        self.considered = forest.nodes.len();
        self.around[known..].to_vec()
    }

    /// Looks at one of these nodes: it has these ties, each inlined there or not.
    pub(super) fn look(&mut self, row: RowId, node: u32, forest: Forest<'_>, ties: impl Iterator<Item = (T, bool)>) {
        let index = node as usize;
        // Where the row is for the first time nothing of it is above.
        let is_first = forest.paths.rows((index, index)).contains(&row);
        let mut last = if is_first { 0 } else { self.last_above(index, forest.nodes) };
        for (tie, inlined) in ties {
            let id = *self.ids.entry(tie).or_insert_with(|| {
                self.ties.push(tie);
                self.ties.len() as u32 - 1
            });
            if !self.is_above(id, last) {
                self.fresh.push(Fresh { node, tie: id, inlined, before: last });
                last = self.fresh.len() as u32;
            }
        }
        self.last.insert(node, last);
    }

    /// What became fresh last above a node.
    fn last_above(&self, node: usize, nodes: &[Node]) -> u32 {
        let mut at = nodes[node].parent;
        while at != StackId::EMPTY {
            if let Some(&last) = self.last.get(&(at.index() as u32)) {
                return last;
            }
            at = nodes[at.index()].parent;
        }
        0
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

    /// The nodes around the row, by index.
    pub(super) fn around(&self) -> impl Iterator<Item = usize> {
        self.around.iter().map(|&node| node as usize)
    }

    /// The ties that have a weight, with it in ns, and whether they are inlined wherever they have one.
    pub(super) fn sums(&self, weights: &Weights) -> impl Iterator<Item = (T, u64, bool)> {
        let mut sums = vec![(0u64, true); self.ties.len()];
        for all in self.fresh.chunks(AHEAD) {
            weights.look_ahead(all.iter().map(|fresh| StackId::of(fresh.node as usize)));
            for fresh in all {
                let weight_ns = weights.of(fresh.node as usize);
                if weight_ns != 0 {
                    let (sum_ns, inlined) = &mut sums[fresh.tie as usize];
                    *sum_ns = sum_ns.saturating_add(weight_ns);
                    *inlined &= fresh.inlined;
                }
            }
        }
        let sums = self.ties.iter().copied().zip(sums).map(|(tie, (weight_ns, inlined))| (tie, weight_ns, inlined));
        sums.filter(|&(_, weight_ns, _)| weight_ns > 0)
    }
}

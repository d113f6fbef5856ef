//! Neighbors of one row on stacks: callers, callees, or source lines. Each neighbor is counted once
//! per stack: its weight is that of the subtrees of the nodes where it appears for the first time
//! on the way from the root.
//!
//! Only nodes near the row are visited: of a large tree, few concern any one function.

use std::collections::HashMap;
use std::hash::Hash;
use std::hint::black_box;

use super::PREFETCH;
use super::propagate::StackWeights;
use super::stack_facts::{Fresh, StackFacts};
use crate::profile::hash::IdMap;
use crate::profile::stack::{FrameId, Node, StackId};
use crate::tally::filter::frame_filter::FrameFilter;
use crate::tally::rows::RowId;

/// All stacks, with the facts about them and their weights.
#[derive(Clone, Copy)]
pub(crate) struct StackIndex<'a> {
    pub(crate) nodes: &'a [Node],
    pub(crate) facts: &'a StackFacts,
    pub(crate) filter: &'a FrameFilter,
    pub(crate) weights: &'a StackWeights,
}

impl<'a> StackIndex<'a> {
    /// Prefetches what visiting these nodes reads. The reads do not depend on each other, so their
    /// cache misses overlap.
    pub(crate) fn prefetch(&self, nodes: &[u32]) {
        let nodes = nodes.iter().map(|&node| node as usize);
        self.facts.prefetch(nodes.clone().map(|node| self.nodes[node].parent));
        self.facts.prefetch_fresh(nodes.map(|node| (node, node)));
    }

    /// Prefetches what is read on the way from these nodes to their children.
    fn prefetch_children(&self, nodes: &[usize]) {
        black_box(nodes.iter().fold(0, |seen, &node| seen ^ self.nodes[node].frame.0));
        self.weights.prefetch(nodes.iter().map(|&node| StackId::from_index(node)));
    }

    /// Whether the filters leave no row of a node's frame.
    fn is_bare(&self, node: usize) -> bool {
        self.rows_of(node).is_empty()
    }

    /// The rows that the filters leave of a node's frame, outermost first. The node is not the
    /// root.
    pub(crate) fn rows_of(&self, node: usize) -> &'a [RowId] {
        self.facts.rows_of(node, self.nodes[node], self.filter)
    }
}

/// The first appearance of a neighbor on the way from the root.
struct FirstAppearance {
    node: u32,
    /// The index of the neighbor.
    neighbor: u32,
    inlined: bool,
    /// One past the index of the previous first appearance on the same way; 0 for none.
    previous: u32,
}

/// The neighbors of one row, and where they are on every stack.
pub(crate) struct Neighbors<T> {
    neighbors: Vec<T>,
    ids: HashMap<T, u32>,
    first: Vec<FirstAppearance>,
    /// The nodes near the row, in order: those with the row in their frame, or in the next frame
    /// above of which a row remains.
    near: Vec<u32>,
    /// Maps each of these nodes to one past the index of the last first appearance at the node or
    /// above it.
    last: IdMap<u32, u32>,
    /// The number of leading nodes that were considered.
    considered: usize,
}

impl<T> Default for Neighbors<T> {
    fn default() -> Neighbors<T> {
        Neighbors {
            neighbors: Vec::new(),
            ids: HashMap::new(),
            first: Vec::new(),
            near: Vec::new(),
            last: IdMap::default(),
            considered: 0,
        }
    }
}

impl<T: Copy + Eq + Hash> Neighbors<T> {
    /// Drops what was derived from all nodes but the first `kept`.
    pub(crate) fn truncate(&mut self, kept: usize) {
        let known = self.near.partition_point(|&node| (node as usize) < kept);
        for node in self.near.drain(known..) {
            self.last.remove(&node);
        }
        self.first.truncate(self.first.partition_point(|first| (first.node as usize) < kept));
        self.considered = self.considered.min(kept);
    }

    /// Finds the nodes near the row that are new, and returns them in order. The caller must
    /// [`visit`](Self::visit) each.
    pub(crate) fn find_new_nodes(&mut self, row: RowId, stacks: StackIndex<'_>) -> Vec<u32> {
        if self.considered == stacks.nodes.len() {
            return Vec::new();
        }
        let known = self.near.len();
        let frames_with = stacks.filter.frames_with(row);
        let has = |node: usize| frames_with[stacks.nodes[node].frame.0 as usize];
        if self.considered == 0 {
            let frames = (0..frames_with.len()).filter(|&frame| frames_with[frame]);
            // Each list is read step by step; the next steps of all lists overlap.
            let lists = frames.map(|frame| stacks.facts.nodes_of(FrameId(frame as u32)));
            let (mut level, mut lists) = (Vec::new(), lists.collect::<Vec<_>>());
            while !lists.is_empty() {
                lists.retain_mut(|list| list.next().map(|node| level.push(node)).is_some());
            }
            while !level.is_empty() {
                let mut next = Vec::new();
                for nodes in level.chunks(PREFETCH) {
                    stacks.prefetch_children(nodes);
                    for &node in nodes {
                        self.near.push(node as u32);
                        if has(node) || stacks.is_bare(node) {
                            next.extend(stacks.weights.children(node).filter(|&child| !has(child)));
                        }
                    }
                }
                level = next;
            }
            self.near.sort_unstable();
            self.last.extend(self.near.iter().map(|&node| (node, 0)));
        } else {
            for node in self.considered..stacks.nodes.len() {
                let parent = stacks.nodes[node].parent.index();
                let is_below = || self.last.contains_key(&(parent as u32)) && (has(parent) || stacks.is_bare(parent));
                if has(node) || is_below() {
                    self.near.push(node as u32);
                    self.last.insert(node as u32, 0);
                }
            }
        }
        self.considered = stacks.nodes.len();
        self.near[known..].to_vec()
    }

    /// Records the neighbors at one of these nodes, each with whether it is inlined there.
    pub(crate) fn visit(
        &mut self,
        row: RowId,
        node: u32,
        stacks: StackIndex<'_>,
        neighbors: impl Iterator<Item = (T, bool)>,
    ) {
        let index = node as usize;
        // No neighbor is above the first appearance of the row.
        let is_first = stacks.facts.fresh((index, index)).any(|fresh| fresh == Fresh::Row(row));
        let mut last = if is_first { 0 } else { self.last_above(index, stacks.nodes) };
        for (neighbor, inlined) in neighbors {
            let id = *self.ids.entry(neighbor).or_insert_with(|| {
                self.neighbors.push(neighbor);
                self.neighbors.len() as u32 - 1
            });
            if !self.appears_above(id, last) {
                self.first.push(FirstAppearance { node, neighbor: id, inlined, previous: last });
                last = self.first.len() as u32;
            }
        }
        self.last.insert(node, last);
    }

    /// One past the index of the last first appearance above a node.
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

    fn appears_above(&self, id: u32, mut at: u32) -> bool {
        while at > 0 {
            let first = &self.first[at as usize - 1];
            if first.neighbor == id {
                return true;
            }
            at = first.previous;
        }
        false
    }

    /// The nodes near the row, by index.
    pub(crate) fn near(&self) -> impl Iterator<Item = usize> {
        self.near.iter().map(|&node| node as usize)
    }

    /// The neighbors that have weight, with that weight in ns, and whether they are inlined
    /// everywhere.
    pub(crate) fn sums(&self, weights: &StackWeights) -> impl Iterator<Item = (T, u64, bool)> {
        let mut sums = vec![(0u64, true); self.neighbors.len()];
        for chunk in self.first.chunks(PREFETCH) {
            weights.prefetch(chunk.iter().map(|first| StackId::from_index(first.node as usize)));
            for first in chunk {
                let weight_ns = weights.subtree_ns(first.node as usize);
                if weight_ns != 0 {
                    let (sum_ns, inlined) = &mut sums[first.neighbor as usize];
                    *sum_ns = sum_ns.saturating_add(weight_ns);
                    *inlined &= first.inlined;
                }
            }
        }
        let sums = self.neighbors.iter().copied().zip(sums);
        sums.map(|(neighbor, (weight_ns, inlined))| (neighbor, weight_ns, inlined))
            .filter(|&(_, weight_ns, _)| weight_ns > 0)
    }
}

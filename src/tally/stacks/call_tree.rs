//! All stacks as one tree of rows. The stack tree has a node for each address; the call tree has
//! one for each row as called by its parent's row. It grows with the stacks, and its weights follow
//! theirs.

use std::collections::HashSet;

use super::chains::{ChainData, Chains};
use super::propagate::{StackChain, StackWeights};
use super::stack_facts::{LibraryTime, StackFacts};
use crate::profile::hash::IdMap;
use crate::profile::stack::{Node, StackId};
use crate::tally::filter::frame_filter::FrameFilter;
use crate::tally::rows::{RowId, RowTable};

/// Maximum number of nodes. Beyond it, a stack ends in the last of its rows that has a node.
const MAX_NODES: usize = 1 << 23;

/// The key of a node among its siblings: the row, and whether it is inlined there. Inlined and real
/// calls have separate nodes, which the answer merges: only its samples decide which of the two
/// occur.
type CallStep = (RowId, bool);

/// A position in the tree, or in its mirror image that begins with the leaves.
#[derive(Clone, Copy)]
pub(crate) struct CallCursor {
    /// The node (bottom-up: the next one on the way to the root).
    node: u32,
    /// Bottom-up: the node where the way began.
    leaf: u32,
    weight_ns: u64,
}

impl CallCursor {
    /// The node.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// The node where the way began.
    pub(crate) fn leaf(&self) -> u32 {
        self.leaf
    }
}

/// The positions that one box of a flame graph stands for: paths with the same rows.
pub(crate) struct CallGroup {
    /// The last row of these paths.
    pub(crate) row: RowId,
    /// Whether it is inlined in all of them.
    pub(crate) inlined: bool,
    /// Their total weight.
    pub(crate) weight_ns: u64,
    pub(crate) cursors: Vec<CallCursor>,
}

impl CallGroup {
    fn new((row, inlined): CallStep, cursors: Vec<CallCursor>) -> CallGroup {
        let weight_ns = cursors.iter().fold(0u64, |sum_ns, cursor| sum_ns.saturating_add(cursor.weight_ns));
        CallGroup { row, inlined, weight_ns, cursors }
    }

    /// Sums the weight of the positions anew.
    pub(crate) fn update_weight(&mut self) {
        self.weight_ns = self.cursors.iter().fold(0u64, |sum_ns, cursor| sum_ns.saturating_add(cursor.weight_ns));
    }
}

/// The call tree. Node 0 is its root, and a node has a greater number than its parent.
#[derive(Default)]
pub(crate) struct CallTree {
    chains: Chains<CallWeight>,
    steps: Vec<PackedStep>,
    /// The nodes whose number does not follow their parent's.
    distant: IdMap<(u32, PackedStep), u32>,
    /// The node of each stack.
    by_stack: Vec<u32>,
    /// The nodes of stacks that are reduced to their leaf: children of the stack's node, which have
    /// its own weight.
    reduced: IdMap<u32, u32>,
    /// The chain of this tree that ends at the same last stack as a [`StackChain`], indexed by the
    /// number of the latter; [`UNKNOWN`] if it was not needed yet.
    by_stack_chain: Vec<u32>,
    /// The number of the update that the weights belong to; 0 for none.
    update_number: u64,
}

const UNKNOWN: u32 = u32::MAX;

/// Number of nodes that are searched for a row at once.
const STEP_BLOCK: usize = 64;

/// The weight of a chain.
#[derive(Clone, Default)]
struct CallWeight {
    /// The weight of stacks that end in its last node.
    own_ns: u64,
    /// The weight of its subtree.
    subtree_ns: u64,
}

impl ChainData for CallWeight {
    fn split_upper(&self) -> CallWeight {
        CallWeight { own_ns: 0, subtree_ns: self.subtree_ns }
    }
}

/// A [`CallStep`] in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PackedStep(u32);

impl PackedStep {
    const INLINED: u32 = 1 << 31;

    fn pack((row, inlined): CallStep) -> PackedStep {
        PackedStep(row.0 & !PackedStep::INLINED | if inlined { PackedStep::INLINED } else { 0 })
    }

    fn unpack(self) -> CallStep {
        (RowId(self.0 & !PackedStep::INLINED), self.0 & PackedStep::INLINED != 0)
    }
}

impl CallTree {
    /// Drops what was derived from all stacks but the first `kept`.
    pub(crate) fn truncate(&mut self, kept: usize) {
        if kept >= self.by_stack.len() {
            return;
        }
        self.by_stack.truncate(kept);
        self.reduced.retain(|&stack, _| (stack as usize) < kept);
        // Nodes are created in the order of stacks, and a stack ends in the last node it creates.
        let length = self.by_stack.iter().chain(self.reduced.values()).max().map_or(0, |&last| last as usize + 1);
        let chains = std::mem::take(&mut self.chains);
        for node in 1..length {
            self.chains.push(chains.parent(node));
        }
        self.steps.truncate(length);
        self.distant.retain(|_, &mut node| (node as usize) < length);
        self.by_stack_chain.clear();
        self.update_number = 0;
    }

    /// Adds the nodes of new stacks.
    pub(crate) fn update(&mut self, stacks: &[Node], facts: &StackFacts, filter: &FrameFilter) {
        if self.by_stack.is_empty() {
            self.steps = vec![PackedStep::pack((RowId::NONE, false))];
            self.by_stack.push(0);
        }
        for (index, &stack) in stacks.iter().enumerate().skip(self.by_stack.len()) {
            let mut node = self.by_stack[stack.parent.index()];
            for (position, &row) in facts.rows_at(index, stack, filter).1.iter().enumerate() {
                node = self.intern_child(node, PackedStep::pack((row, position > 0)));
            }
            self.by_stack.push(node);
            if let LibraryTime::Whole(leaf) = facts.library_time(StackId::from_index(index)) {
                let leaf = self.intern_child(node, PackedStep::pack((leaf, false)));
                self.reduced.insert(index as u32, leaf);
            }
        }
    }

    fn intern_child(&mut self, parent: u32, step: PackedStep) -> u32 {
        let next = parent as usize + 1;
        if self.steps.get(next) == Some(&step) && self.chains.parent(next) == parent as usize {
            return next as u32;
        }
        if let Some(&known) = self.distant.get(&(parent, step)) {
            return known;
        }
        let node = self.steps.len();
        if node >= MAX_NODES {
            return parent;
        }
        self.chains.push(parent as usize);
        self.steps.push(step);
        if node != next {
            self.distant.insert((parent, step), node as u32);
        }
        node as u32
    }

    /// Whether the weights are those of this update.
    pub(crate) fn is_current(&self, update_number: u64) -> bool {
        self.update_number == update_number
    }

    /// Begins the next update, from the weights of the last one or from 0.
    pub(crate) fn begin_update(&mut self, update_number: u64, reset: bool) {
        if reset {
            self.chains.all_data_mut().for_each(|weight| *weight = CallWeight::default());
        }
        self.update_number = update_number;
    }

    /// Prefetches what [`add_own`](Self::add_own) reads.
    pub(crate) fn prefetch(&self, stacks: impl Iterator<Item = usize>) {
        self.chains.prefetch_nodes(stacks.map(|stack| self.by_stack[stack] as usize));
    }

    /// Prefetches what [`add_subtree`](Self::add_subtree) reads.
    pub(crate) fn prefetch_subtrees(&self, stack_chains: &[StackChain]) {
        let numbers = stack_chains.iter().flat_map(|chain| [chain.number, chain.parent_chain]);
        let known = numbers.filter_map(|number| self.by_stack_chain.get(number)).filter(|&&chain| chain != UNKNOWN);
        self.chains.prefetch_chains(known.map(|&chain| chain as usize));
    }

    /// Adds a change of the own weight of a stack.
    pub(crate) fn add_own(&mut self, stack: usize, change_ns: u64) {
        let mut chain = self.chains.end_chain_at(self.by_stack[stack] as usize);
        if let Some(&leaf) = self.reduced.get(&(stack as u32))
            && leaf != self.by_stack[stack]
        {
            chain = self.chains.end_chain_at(leaf as usize);
            let subtree_ns = &mut self.chains.data_mut(chain).subtree_ns;
            *subtree_ns = subtree_ns.wrapping_add(change_ns);
        }
        let own_ns = &mut self.chains.data_mut(chain).own_ns;
        *own_ns = own_ns.wrapping_add(change_ns);
        let total_ns = &mut self.chains.data_mut(0).subtree_ns;
        *total_ns = total_ns.wrapping_add(change_ns);
    }

    /// Adds a change of the subtree weight of a chain of stacks.
    pub(crate) fn add_subtree(&mut self, chain: StackChain, change_ns: u64) {
        let mut at = self.chain_ending_at(chain.number, chain.ends.1);
        let end = self.chain_ending_at(chain.parent_chain, chain.parent);
        while at != end {
            let subtree_ns = &mut self.chains.data_mut(at).subtree_ns;
            *subtree_ns = subtree_ns.wrapping_add(change_ns);
            at = self.chains.parent_chain(at);
        }
    }

    /// The chain that ends where the last stack of a chain of stacks does.
    fn chain_ending_at(&mut self, stack_chain: usize, stack: usize) -> usize {
        if self.by_stack_chain.len() <= stack_chain {
            self.by_stack_chain.resize(stack_chain + 1, UNKNOWN);
        }
        if self.by_stack_chain[stack_chain] == UNKNOWN {
            self.by_stack_chain[stack_chain] = self.chains.end_chain_at(self.by_stack[stack] as usize) as u32;
        }
        self.by_stack_chain[stack_chain] as usize
    }

    /// Replaces all weights by those of stacks.
    pub(crate) fn set_weights(&mut self, weights: &StackWeights) {
        self.begin_update(self.update_number, true);
        weights.own_weights().for_each(|(stack, own_ns)| self.add_own(stack, own_ns));
        weights.weighted_chains().for_each(|(chain, sum_ns)| self.add_subtree(chain, sum_ns));
    }

    fn own_ns(&self, node: u32) -> u64 {
        let chain = self.chains.chain_of(node as usize);
        if self.chains.ends(chain).1 == node as usize { self.chains.data(chain).own_ns } else { 0 }
    }

    fn root_group(&self, bottom_up: bool) -> CallGroup {
        let cursors = if bottom_up {
            let cursor = |chain| {
                let node = self.chains.ends(chain).1 as u32;
                CallCursor { node, leaf: node, weight_ns: self.chains.data(chain).own_ns }
            };
            (0..self.chains.len()).map(cursor).filter(|cursor| cursor.weight_ns != 0).collect()
        } else {
            vec![CallCursor { node: 0, leaf: 0, weight_ns: self.chains.data(0).subtree_ns }]
        };
        CallGroup::new((RowId::NONE, false), cursors)
    }

    /// The nodes of a row that have weight, as ways that begin there.
    pub(crate) fn cursors_of(&self, row: RowId) -> Vec<CallCursor> {
        let has_row = |step: &PackedStep| step.unpack().0 == row;
        // Few blocks have the row, and the compiler compares a block in a few instructions.
        let blocks = self.steps.chunks(STEP_BLOCK).enumerate();
        let blocks = blocks.filter(|(_, steps)| steps.iter().fold(false, |any, step| any | has_row(step)));
        let nodes = blocks.flat_map(|(block, steps)| (block * STEP_BLOCK..).zip(steps));
        let nodes = nodes.filter(|&(node, step)| node > 0 && has_row(step)).map(|(node, _)| node);
        let cursor = |node: usize| {
            let weight_ns = self.chains.data(self.chains.chain_of(node)).subtree_ns;
            CallCursor { node: node as u32, leaf: node as u32, weight_ns }
        };
        nodes.map(cursor).filter(|cursor| cursor.weight_ns != 0).collect()
    }

    /// The same way, one step further towards the root.
    pub(crate) fn above(&self, cursor: CallCursor) -> CallCursor {
        CallCursor { node: self.chains.parent(cursor.node as usize) as u32, ..cursor }
    }

    /// Whether any of these nodes is above a node.
    pub(crate) fn is_below(&self, node: u32, nodes: &HashSet<u32>) -> bool {
        let mut at = node;
        while at != 0 {
            at = self.chains.parent(at as usize) as u32;
            if nodes.contains(&at) {
                return true;
            }
        }
        false
    }

    /// The children of a group, in the order of their names.
    pub(crate) fn children(&self, group: &[CallCursor], bottom_up: bool, rows: &RowTable) -> Vec<CallGroup> {
        let mut moved: Vec<(CallStep, CallCursor)> = Vec::new();
        for &cursor in group {
            if bottom_up {
                if cursor.node != 0 {
                    let node = self.chains.parent(cursor.node as usize) as u32;
                    moved.push((self.steps[cursor.node as usize].unpack(), CallCursor { node, ..cursor }));
                }
                continue;
            }
            for child in self.chains.children(cursor.node as usize) {
                let weight_ns = self.chains.data(self.chains.chain_of(child)).subtree_ns;
                if weight_ns != 0 {
                    let (step, node) = (self.steps[child].unpack(), child as u32);
                    moved.push((step, CallCursor { node, leaf: node, weight_ns }));
                }
            }
        }
        moved.sort_unstable_by_key(|&((row, _), cursor)| (rows.rank(row), cursor.leaf));
        let same_row = |a: &(CallStep, CallCursor), b: &(CallStep, CallCursor)| a.0.0 == b.0.0;
        let merge = |moved: &[(CallStep, CallCursor)]| {
            let inlined = moved.iter().all(|((_, inlined), _)| *inlined);
            CallGroup::new((moved[0].0.0, inlined), moved.iter().map(|&(_, cursor)| cursor).collect())
        };
        moved.chunk_by(same_row).map(merge).collect()
    }

    /// The weight of the stacks that end with a group (bottom-up: that begin there).
    pub(crate) fn self_ns(&self, group: &[CallCursor], bottom_up: bool) -> u64 {
        let weight = |cursor: &CallCursor| match bottom_up {
            true if cursor.node == 0 => cursor.weight_ns,
            true => 0,
            false => self.own_ns(cursor.node),
        };
        group.iter().map(weight).fold(0, u64::saturating_add)
    }

    /// The group at the end of a path of full names, after one group for each step that leads
    /// there. Each has the weight of the last. Returns `None` if no stack has this path.
    pub(crate) fn zoom(&self, path: &[String], bottom_up: bool, rows: &RowTable) -> Option<Vec<CallGroup>> {
        let mut last = self.root_group(bottom_up);
        let mut path_rows = Vec::new();
        for full in path {
            let row = rows.find(full)?;
            last = self.children(&last.cursors, bottom_up, rows).into_iter().find(|group| group.row == row)?;
            path_rows.push(row);
        }
        if last.weight_ns == 0 {
            return None;
        }
        let mut inlined = vec![true; path_rows.len()];
        for cursor in &last.cursors {
            let mut node = if bottom_up { cursor.leaf } else { cursor.node };
            for position in 0..path_rows.len() {
                let position = if bottom_up { position } else { path_rows.len() - 1 - position };
                inlined[position] &= self.steps[node as usize].unpack().1;
                node = self.chains.parent(node as usize) as u32;
            }
        }
        let weight_ns = last.weight_ns;
        let group = |(row, inlined)| CallGroup { row, inlined, weight_ns, cursors: Vec::new() };
        let steps = [(RowId::NONE, false)].into_iter().chain(path_rows.into_iter().zip(inlined));
        let mut groups: Vec<CallGroup> = steps.map(group).collect();
        if let Some(group) = groups.last_mut() {
            group.cursors = last.cursors;
        }
        Some(groups)
    }
}

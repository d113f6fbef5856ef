//! Facts about every stack, computed once for each node of the prefix tree: whether the filters
//! keep it, which row has its flat, and which rows and edges its last frame adds.
//!
//! A sample counts once for a row, however often the row is on its stack. A row is *fresh* at the
//! nodes where it appears for the first time on the way from the root; its cum is the weight of the
//! subtrees of these nodes. The same holds for edges from caller to callee. Edges only serve
//! pprof's inline mark, so they are kept only for callees that are inlined somewhere.
//!
//! Where foreign frames are folded, the flat of a stack is that of its innermost own row, and the
//! stack remembers the library call below it. A stack without an own row is reduced to the row of
//! its leaf, which has the flat and counts the stack alone in its cum.
//!
//! Nodes are visited in the order of their creation. Most of them continue the previous one, so one
//! path from the root is kept, with flags for the rows and edges on it, and moved from node to
//! node.

use std::collections::HashMap;
use std::hint::black_box;

use crate::profile::stack::{FrameId, Node, StackId};
use crate::tally::filter::frame_filter::{FOCUSED, FrameFilter, IGNORED, Invalidation, OWN, PRESENT, STARTED};
use crate::tally::rows::{RowId, RowTable};
use crate::tally::stacks::propagate::ChainEnds;

/// The innermost frame that the filters left has no name yet.
const UNNAMED: u8 = 16;

/// The index of an edge between two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeId(u32);

impl EdgeId {
    /// The index, for tables by edge.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The facts about one stack.
struct StackFact {
    /// The innermost row on the stack.
    innermost: RowId,
    /// The number of its frames. It is at most that of a sample and a few for owners.
    depth: u16,
    bits: u8,
}

/// A row or an edge that is fresh at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    Row(RowId),
    /// An edge, and whether the callee is inlined there.
    Edge {
        edge: EdgeId,
        inlined: bool,
    },
}

/// A [`Fresh`] in one word.
#[derive(Clone, Copy)]
struct PackedFresh(u32);

impl PackedFresh {
    const EDGE: u32 = 1 << 31;
    const INLINED: u32 = 1 << 30;

    fn pack(fresh: Fresh) -> PackedFresh {
        PackedFresh(match fresh {
            Fresh::Row(row) => row.0 & !PackedFresh::EDGE,
            Fresh::Edge { edge, inlined } => {
                edge.0 | PackedFresh::EDGE | if inlined { PackedFresh::INLINED } else { 0 }
            }
        })
    }

    fn unpack(self) -> Fresh {
        let PackedFresh(word) = self;
        match word & PackedFresh::EDGE {
            0 => Fresh::Row(RowId(word)),
            _ => Fresh::Edge {
                edge: EdgeId(word & !(PackedFresh::EDGE | PackedFresh::INLINED)),
                inlined: word & PackedFresh::INLINED != 0,
            },
        }
    }
}

/// The folded library code in which a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LibraryTime {
    /// The stack ends in own code, or nothing is folded.
    None,
    /// The innermost own row has called this row.
    Call(RowId),
    /// No own row is on the stack. Its leaf is this row.
    Whole(RowId),
}

/// The facts about all stacks.
#[derive(Default)]
pub(crate) struct StackFacts {
    facts: Vec<StackFact>,
    /// The folded row that stands for the frames below the innermost row: the first of them or, on
    /// a stack without own rows, the last. It is [`RowId::NONE`] if there is none. The list is
    /// empty unless frames are folded.
    folded: Vec<RowId>,
    /// The fresh rows and edges of all nodes, and the end of each node's. They begin where those of
    /// the previous node end.
    fresh: Vec<PackedFresh>,
    fresh_ends: Vec<u32>,
    edge_ids: HashMap<(RowId, RowId), EdgeId>,
    /// The callee of every edge.
    callees: Vec<RowId>,
    /// The first and the last node whose leaf is a frame, both indexed by frame.
    first_nodes: Vec<usize>,
    last_nodes: Vec<u32>,
    /// The previous node with the same frame, indexed by node; 0, the empty stack, if there is
    /// none.
    previous: Vec<u32>,
    path: Vec<StackId>,
    row_on_path: Vec<bool>,
    edge_on_path: Vec<bool>,
    pending: Vec<StackId>,
}

impl StackFacts {
    /// Drops invalid facts and computes those of new nodes. Returns the number of leading nodes
    /// whose facts have not changed.
    pub(crate) fn update(
        &mut self,
        nodes: &[Node],
        invalid: Invalidation,
        filter: &FrameFilter,
        rows: &RowTable,
    ) -> usize {
        match invalid {
            Invalidation::None => {}
            Invalidation::From(frame) => {
                let later = self.first_nodes.get(frame.0 as usize..).unwrap_or_default();
                if let Some(&first) = later.iter().min() {
                    self.truncate(nodes, first);
                }
            }
            Invalidation::All => *self = StackFacts::default(),
        }
        let kept = self.facts.len();
        self.row_on_path.resize(rows.len(), false);
        if self.facts.is_empty() {
            self.push(StackFact { innermost: RowId::NONE, depth: 0, bits: filter.empty_stack_bits() });
            self.folded.extend(filter.folds().then_some(RowId::NONE));
            self.previous.push(0);
        }
        for index in self.facts.len()..nodes.len() {
            self.move_path_to(nodes, nodes[index].parent);
            self.add(index, nodes[index], filter);
            self.path.push(StackId::from_index(index));
        }
        kept
    }

    fn truncate(&mut self, nodes: &[Node], length: usize) {
        self.move_path_to(nodes, StackId::EMPTY);
        if length < self.facts.len() {
            for index in (length..self.facts.len()).rev() {
                self.last_nodes[nodes[index].frame.0 as usize] = self.previous[index];
            }
            self.previous.truncate(length);
            self.facts.truncate(length);
            self.folded.truncate(length);
            self.fresh_ends.truncate(length);
            self.fresh.truncate(self.fresh_ends[length - 1] as usize);
        }
        let kept = self.first_nodes.iter().position(|&first| first >= length).unwrap_or(self.first_nodes.len());
        self.first_nodes.truncate(kept);
    }

    fn move_path_to(&mut self, nodes: &[Node], target: StackId) {
        let mut at = target;
        self.pending.clear();
        loop {
            let depth = self.facts[at.index()].depth as usize;
            if depth == 0 || self.path.get(depth - 1) == Some(&at) {
                while self.path.len() > depth {
                    let left = self.path[self.path.len() - 1];
                    self.flag_fresh(left, false);
                    self.path.pop();
                }
                break;
            }
            self.pending.push(at);
            at = nodes[at.index()].parent;
        }
        while let Some(next) = self.pending.pop() {
            self.flag_fresh(next, true);
            self.path.push(next);
        }
    }

    /// Flags the fresh rows and edges of a node as on the path or not.
    fn flag_fresh(&mut self, stack: StackId, on: bool) {
        let range = self.fresh_range((stack.index(), stack.index()));
        for fresh in &self.fresh[range] {
            match fresh.unpack() {
                Fresh::Row(row) => self.row_on_path[row.index()] = on,
                Fresh::Edge { edge, .. } => self.edge_on_path[edge.index()] = on,
            }
        }
    }

    fn add(&mut self, index: usize, node: Node, filter: &FrameFilter) {
        let frame = node.frame.0 as usize;
        if self.first_nodes.len() <= frame {
            self.first_nodes.resize(frame + 1, index);
        }
        if self.last_nodes.len() <= frame {
            self.last_nodes.resize(frame + 1, 0);
        }
        self.previous.push(std::mem::replace(&mut self.last_nodes[frame], index as u32));
        let caller = &self.facts[node.parent.index()];
        let (mut bits, mut innermost, depth) = (caller.bits, caller.innermost, caller.depth + 1);
        let mut folded = self.folded_row(node.parent);
        let ((frame, rows), of_frame) = (filter.frame(node.frame), filter.folded(node.frame));
        bits |= frame & (FOCUSED | IGNORED);
        // Nothing remains above the rootmost match of show_from.
        if bits & STARTED != 0 || frame & STARTED != 0 {
            bits |= STARTED;
            if frame & PRESENT != 0 {
                let is_unnamed = rows.is_empty() && of_frame.outer == RowId::NONE;
                bits = (bits | PRESENT) & !UNNAMED | if is_unnamed { UNNAMED } else { 0 };
            }
            bits |= frame & OWN;
            folded = match (rows.is_empty(), bits & OWN != 0) {
                (false, _) => of_frame.outer,
                (true, true) if folded != RowId::NONE => folded,
                (true, true) => of_frame.outer,
                (true, false) if of_frame.inner == RowId::NONE => folded,
                (true, false) => of_frame.inner,
            };
            for (position, &row) in rows.iter().enumerate() {
                if !std::mem::replace(&mut self.row_on_path[row.index()], true) {
                    self.fresh.push(PackedFresh::pack(Fresh::Row(row)));
                }
                if innermost != RowId::NONE && innermost != row && filter.is_inlined(row) {
                    self.add_edge(innermost, row, position > 0);
                }
                innermost = row;
            }
        }
        self.push(StackFact { innermost, depth, bits });
        self.folded.extend(filter.folds().then_some(folded));
    }

    fn add_edge(&mut self, caller: RowId, callee: RowId, inlined: bool) {
        let edge = *self.edge_ids.entry((caller, callee)).or_insert_with(|| {
            self.callees.push(callee);
            self.edge_on_path.push(false);
            EdgeId(self.callees.len() as u32 - 1)
        });
        if !std::mem::replace(&mut self.edge_on_path[edge.index()], true) {
            self.fresh.push(PackedFresh::pack(Fresh::Edge { edge, inlined }));
        }
    }

    fn push(&mut self, fact: StackFact) {
        self.fresh_ends.push(self.fresh.len() as u32);
        self.facts.push(fact);
    }

    /// The innermost row above a node, and the rows that its frame adds, outermost first, whether
    /// fresh or not.
    pub(crate) fn rows_at<'a>(&self, index: usize, node: Node, filter: &'a FrameFilter) -> (RowId, &'a [RowId]) {
        (self.facts[node.parent.index()].innermost, self.rows_of(index, node, filter))
    }

    /// The rows that the frame of a node adds, outermost first, whether fresh or not.
    pub(crate) fn rows_of<'a>(&self, index: usize, node: Node, filter: &'a FrameFilter) -> &'a [RowId] {
        if self.facts[index].bits & STARTED != 0 { filter.frame(node.frame).1 } else { &[] }
    }

    /// The nodes whose leaf is a frame, the last first.
    pub(crate) fn nodes_of(&self, frame: FrameId) -> impl Iterator<Item = usize> + '_ {
        let last = self.last_nodes.get(frame.0 as usize).copied().unwrap_or(0);
        std::iter::successors(Some(last), |&node| Some(self.previous[node as usize]))
            .take_while(|&node| node != 0)
            .map(|node| node as usize)
    }

    /// The row that has the flat of a stack, if the filters keep the stack. It is
    /// [`RowId::NONE`] if the innermost frame has no name yet.
    pub(crate) fn flat_row(&self, stack: StackId) -> Option<RowId> {
        const ALL: u8 = FOCUSED | STARTED | PRESENT;
        let StackFact { bits, innermost, .. } = self.facts[stack.index()];
        let row = match (bits & UNNAMED == 0, self.library_time(stack)) {
            (true, LibraryTime::Whole(leaf)) => leaf,
            (true, _) => innermost,
            (false, _) => RowId::NONE,
        };
        (bits & (ALL | IGNORED) == ALL).then_some(row)
    }

    /// The library code in which a stack ends, if it was folded.
    pub(crate) fn library_time(&self, stack: StackId) -> LibraryTime {
        match self.folded_row(stack) {
            RowId::NONE => LibraryTime::None,
            row if self.facts[stack.index()].bits & OWN == 0 => LibraryTime::Whole(row),
            row => LibraryTime::Call(row),
        }
    }

    fn folded_row(&self, stack: StackId) -> RowId {
        self.folded.get(stack.index()).copied().unwrap_or(RowId::NONE)
    }

    /// Prefetches what [`flat_row`](Self::flat_row) reads.
    pub(crate) fn prefetch(&self, stacks: impl Iterator<Item = StackId>) {
        black_box(stacks.fold(0, |seen, stack| seen ^ self.facts[stack.index()].bits));
    }

    /// Prefetches what [`fresh`](Self::fresh) reads.
    pub(crate) fn prefetch_fresh(&self, chains: impl Iterator<Item = ChainEnds> + Clone) {
        let ranges = chains.map(|ends| self.fresh_range(ends));
        black_box(ranges.clone().fold(0, |seen, range| seen ^ range.start ^ range.end));
        let first = ranges.filter_map(|range| self.fresh.get(range.start));
        black_box(first.fold(0, |seen, fresh| seen ^ fresh.0));
    }

    /// The rows and edges that are fresh at the nodes of a chain.
    pub(crate) fn fresh(&self, ends: ChainEnds) -> impl Iterator<Item = Fresh> {
        self.fresh[self.fresh_range(ends)].iter().map(|fresh| fresh.unpack())
    }

    fn fresh_range(&self, (first, last): ChainEnds) -> std::ops::Range<usize> {
        self.fresh_ends[first - 1] as usize..self.fresh_ends[last] as usize
    }

    /// The callee of every edge.
    pub(crate) fn callees(&self) -> &[RowId] {
        &self.callees
    }
}

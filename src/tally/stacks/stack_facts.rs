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

/// The innermost frame that the filters left has no name yet.
const UNNAMED: u8 = 16;

/// The index of an edge between two rows.
#[derive(Clone, Copy)]
pub(crate) struct EdgeId(u32);

impl EdgeId {
    /// The index, for tables by edge.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The facts about one stack.
struct StackFact {
    bits: u8,
    /// The number of its frames. It is at most that of a sample and a few for owners.
    depth: u16,
    /// The innermost row on the stack.
    innermost: RowId,
    /// The folded row that stands for the frames below the innermost row: the first of them or, on
    /// a stack without own rows, the last. It is [`RowId::NONE`] if there is none.
    folded: RowId,
}

/// The ends of a node's fresh rows and edges. They begin where those of the previous node end.
#[derive(Clone, Copy)]
struct FreshEnds {
    rows: u32,
    edges: u32,
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
    ends: Vec<FreshEnds>,
    rows: Vec<RowId>,
    /// Fresh edges, and whether the callee is inlined there.
    edges: Vec<(EdgeId, bool)>,
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
            self.push(StackFact {
                bits: filter.empty_stack_bits(),
                depth: 0,
                innermost: RowId::NONE,
                folded: RowId::NONE,
            });
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
            self.ends.truncate(length);
            self.rows.truncate(self.ends[length - 1].rows as usize);
            self.edges.truncate(self.ends[length - 1].edges as usize);
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
        let (last, ends) = (self.ends[stack.index() - 1], self.ends[stack.index()]);
        for row in &self.rows[last.rows as usize..ends.rows as usize] {
            self.row_on_path[row.index()] = on;
        }
        for (edge, _) in &self.edges[last.edges as usize..ends.edges as usize] {
            self.edge_on_path[edge.index()] = on;
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
        let mut folded = caller.folded;
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
                    self.rows.push(row);
                }
                if innermost != RowId::NONE && innermost != row && filter.is_inlined(row) {
                    self.add_edge(innermost, row, position > 0);
                }
                innermost = row;
            }
        }
        self.push(StackFact { bits, depth, innermost, folded });
    }

    fn add_edge(&mut self, caller: RowId, callee: RowId, inlined: bool) {
        let edge = *self.edge_ids.entry((caller, callee)).or_insert_with(|| {
            self.callees.push(callee);
            self.edge_on_path.push(false);
            EdgeId(self.callees.len() as u32 - 1)
        });
        if !std::mem::replace(&mut self.edge_on_path[edge.index()], true) {
            self.edges.push((edge, inlined));
        }
    }

    fn push(&mut self, fact: StackFact) {
        self.ends.push(FreshEnds { rows: self.rows.len() as u32, edges: self.edges.len() as u32 });
        self.facts.push(fact);
    }

    /// The innermost row above a node, and the rows that its frame adds, outermost first, whether
    /// fresh or not.
    pub(crate) fn rows_at<'a>(&self, index: usize, node: Node, filter: &'a FrameFilter) -> (RowId, &'a [RowId]) {
        let started = self.facts[index].bits & STARTED != 0;
        let rows = if started { filter.frame(node.frame).1 } else { &[] };
        (self.facts[node.parent.index()].innermost, rows)
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
        let StackFact { bits, innermost, folded, .. } = self.facts[stack.index()];
        let row = match bits & UNNAMED == 0 {
            true if bits & OWN == 0 && folded != RowId::NONE => folded,
            true => innermost,
            false => RowId::NONE,
        };
        (bits & (ALL | IGNORED) == ALL).then_some(row)
    }

    /// The library code in which a stack ends, if it was folded.
    pub(crate) fn library_time(&self, stack: StackId) -> LibraryTime {
        let StackFact { bits, folded, .. } = self.facts[stack.index()];
        match folded {
            RowId::NONE => LibraryTime::None,
            row if bits & OWN == 0 => LibraryTime::Whole(row),
            row => LibraryTime::Call(row),
        }
    }

    /// Prefetches what [`flat_row`](Self::flat_row) reads.
    pub(crate) fn prefetch(&self, stacks: impl Iterator<Item = StackId>) {
        black_box(stacks.fold(0, |seen, stack| seen ^ self.facts[stack.index()].bits));
    }

    /// Prefetches what [`fresh_rows`](Self::fresh_rows) and [`fresh_edges`](Self::fresh_edges)
    /// read.
    pub(crate) fn prefetch_fresh(&self, chains: impl Iterator<Item = (usize, usize)> + Clone) {
        let ranges = chains.map(|(first, last)| (self.ends[first - 1].rows, self.ends[last].rows));
        black_box(ranges.clone().fold(0, |seen, (start, end)| seen ^ start ^ end));
        let first = ranges.filter_map(|(start, _)| self.rows.get(start as usize));
        black_box(first.fold(0, |seen, row| seen ^ row.0));
    }

    /// The rows that are fresh at the nodes from `first` to `last`, by index.
    pub(crate) fn fresh_rows(&self, (first, last): (usize, usize)) -> &[RowId] {
        &self.rows[self.ends[first - 1].rows as usize..self.ends[last].rows as usize]
    }

    /// The edges that are fresh at these nodes, and whether the callee is inlined there.
    pub(crate) fn fresh_edges(&self, (first, last): (usize, usize)) -> &[(EdgeId, bool)] {
        &self.edges[self.ends[first - 1].edges as usize..self.ends[last].edges as usize]
    }

    /// The callee of every edge.
    pub(crate) fn callees(&self) -> &[RowId] {
        &self.callees
    }
}

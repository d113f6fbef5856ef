//! What a stack counts for, worked out once for each node of the prefix tree: whether the filters let it in, the row of
//! its flat, and what its last frame adds to the rows above it.
//!
//! A sample counts once for a row, however often the row is on its stack. So each node knows the rows that appear at it
//! for the first time on the way from the root (its *fresh* rows): cum of a row is the weight of the subtrees of the
//! nodes where it is fresh. The same holds for edges from caller to callee, of which only those matter (for pprof's
//! inline mark) that lead to a function which is inlined somewhere.
//!
//! Nodes are looked at in the order they were made. Most continue the one before, so one path from the root is kept, and
//! moved, with marks on what is on it.

use std::collections::HashMap;
use std::hint::black_box;

use super::rows::{RowId, Rows};
use super::sieve::{FOCUSED, IGNORED, PRESENT, STARTED, Sieve, Void};
use crate::profile::stack::{FrameId, Node, StackId};

/// The innermost frame that the filters left has no name yet.
const UNNAMED: u8 = 16;

/// Index of an edge between two rows.
#[derive(Clone, Copy)]
pub(super) struct EdgeId(u32);

impl EdgeId {
    /// Position, for side tables.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a node stands, for those that are built on it.
struct Place {
    bits: u8,
    /// Stacks are no deeper than a sample's frames, and a mark.
    depth: u16,
    /// Innermost row on the stack.
    innermost: RowId,
}

/// End of a node's fresh rows and edges; they begin where the last node's end.
#[derive(Clone, Copy)]
struct Ends {
    rows: u32,
    edges: u32,
}

/// Conclusions about every stack.
#[derive(Default)]
pub(super) struct Paths {
    places: Vec<Place>,
    ends: Vec<Ends>,
    rows: Vec<RowId>,
    /// With whether the callee is inlined there.
    edges: Vec<(EdgeId, bool)>,
    edge_ids: HashMap<(RowId, RowId), EdgeId>,
    /// Callee of every edge.
    callees: Vec<RowId>,
    /// By frame: the first node that it is the leaf of, and the last.
    first_nodes: Vec<usize>,
    last_nodes: Vec<u32>,
    /// By node: the one before it with the same frame; the empty stack, at 0, for none.
    alike: Vec<u32>,
    path: Vec<StackId>,
    row_on_path: Vec<bool>,
    edge_on_path: Vec<bool>,
    pending: Vec<StackId>,
}

impl Paths {
    /// Gives up what is void, and concludes about the nodes that are new. Returns how many nodes, from the first on, are
    /// as they were.
    pub(super) fn catch_up(&mut self, nodes: &[Node], void: Void, sieve: &Sieve, rows: &Rows) -> usize {
        match void {
            Void::Nothing => {}
            Void::From(frame) => {
                let later = self.first_nodes.get(frame.0 as usize..).unwrap_or_default();
                if let Some(&first) = later.iter().min() {
                    self.truncate(nodes, first);
                }
            }
            Void::All => *self = Paths::default(),
        }
        let kept = self.places.len();
        self.row_on_path.resize(rows.len(), false);
        if self.places.is_empty() {
            let place = Place { bits: sieve.empty_stack(), depth: 0, innermost: RowId::NONE };
            self.push(place);
            self.alike.push(0);
        }
        for index in self.places.len()..nodes.len() {
            self.move_to(nodes, nodes[index].parent);
            self.add(index, nodes[index], sieve);
            self.path.push(StackId::of(index));
        }
        kept
    }

    fn truncate(&mut self, nodes: &[Node], length: usize) {
        self.move_to(nodes, StackId::EMPTY);
        if length < self.places.len() {
            for index in (length..self.places.len()).rev() {
                self.last_nodes[nodes[index].frame.0 as usize] = self.alike[index];
            }
            self.alike.truncate(length);
            self.places.truncate(length);
            self.ends.truncate(length);
            self.rows.truncate(self.ends[length - 1].rows as usize);
            self.edges.truncate(self.ends[length - 1].edges as usize);
        }
        let kept = self.first_nodes.iter().position(|&first| first >= length).unwrap_or(self.first_nodes.len());
        self.first_nodes.truncate(kept);
    }

    /// Moves the path, so that it ends in `target`.
    fn move_to(&mut self, nodes: &[Node], target: StackId) {
        let mut at = target;
        self.pending.clear();
        loop {
            let depth = self.places[at.index()].depth as usize;
            if depth == 0 || self.path.get(depth - 1) == Some(&at) {
                while self.path.len() > depth {
                    let left = self.path[self.path.len() - 1];
                    self.mark(left, false);
                    self.path.pop();
                }
                break;
            }
            self.pending.push(at);
            at = nodes[at.index()].parent;
        }
        while let Some(next) = self.pending.pop() {
            self.mark(next, true);
            self.path.push(next);
        }
    }

    fn mark(&mut self, stack: StackId, on: bool) {
        let (last, ends) = (self.ends[stack.index() - 1], self.ends[stack.index()]);
        for row in &self.rows[last.rows as usize..ends.rows as usize] {
            self.row_on_path[row.index()] = on;
        }
        for (edge, _) in &self.edges[last.edges as usize..ends.edges as usize] {
            self.edge_on_path[edge.index()] = on;
        }
    }

    fn add(&mut self, index: usize, node: Node, sieve: &Sieve) {
        let frame = node.frame.0 as usize;
        if self.first_nodes.len() <= frame {
            self.first_nodes.resize(frame + 1, index);
        }
        if self.last_nodes.len() <= frame {
            self.last_nodes.resize(frame + 1, 0);
        }
        self.alike.push(std::mem::replace(&mut self.last_nodes[frame], index as u32));
        let caller = &self.places[node.parent.index()];
        let (mut bits, mut innermost, depth) = (caller.bits, caller.innermost, caller.depth + 1);
        let (frame, rows) = sieve.frame(node.frame);
        bits |= frame & (FOCUSED | IGNORED);
        // Above the rootmost match of show_from nothing is left, whatever it is.
        if bits & STARTED != 0 || frame & STARTED != 0 {
            bits |= STARTED;
            if frame & PRESENT != 0 {
                bits = (bits | PRESENT) & !UNNAMED | if rows.is_empty() { UNNAMED } else { 0 };
            }
            for (place, &row) in rows.iter().enumerate() {
                if !std::mem::replace(&mut self.row_on_path[row.index()], true) {
                    self.rows.push(row);
                }
                if innermost != RowId::NONE && innermost != row && sieve.is_inlined(row) {
                    self.add_edge(innermost, row, place > 0);
                }
                innermost = row;
            }
        }
        self.push(Place { bits, depth, innermost });
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

    fn push(&mut self, place: Place) {
        self.ends.push(Ends { rows: self.rows.len() as u32, edges: self.edges.len() as u32 });
        self.places.push(place);
    }

    /// The innermost row above a node, and the rows that its frame adds, outermost first: fresh ones and others.
    pub(super) fn step<'a>(&self, node: usize, step: Node, sieve: &'a Sieve) -> (RowId, &'a [RowId]) {
        let started = self.places[node].bits & STARTED != 0;
        let rows = if started { sieve.frame(step.frame).1 } else { &[] };
        (self.places[step.parent.index()].innermost, rows)
    }

    /// The nodes that a frame is the leaf of, the last first.
    pub(super) fn nodes_of(&self, frame: FrameId) -> impl Iterator<Item = usize> + '_ {
        let last = self.last_nodes.get(frame.0 as usize).copied().unwrap_or(0);
        std::iter::successors(Some(last), |&node| Some(self.alike[node as usize]))
            .take_while(|&node| node != 0)
            .map(|node| node as usize)
    }

    /// The row that has the flat of a stack, if the filters let it in. It is none where the innermost frame has no name yet.
    pub(super) fn lets_in(&self, stack: StackId) -> Option<RowId> {
        const ALL: u8 = FOCUSED | STARTED | PRESENT;
        let Place { bits, innermost, .. } = self.places[stack.index()];
        let own = if bits & UNNAMED == 0 { innermost } else { RowId::NONE };
        (bits & (ALL | IGNORED) == ALL).then_some(own)
    }

    /// Reads what [`lets_in`](Self::lets_in) will ask for.
    pub(super) fn look_ahead(&self, stacks: impl Iterator<Item = StackId>) {
        black_box(stacks.fold(0, |seen, stack| seen ^ self.places[stack.index()].bits));
    }

    /// Reads what [`rows`](Self::rows) and [`edges`](Self::edges) will ask for.
    pub(super) fn look_ahead_between(&self, pieces: impl Iterator<Item = (usize, usize)> + Clone) {
        let between = pieces.map(|(first, last)| (self.ends[first - 1].rows, self.ends[last].rows));
        black_box(between.clone().fold(0, |seen, (start, end)| seen ^ start ^ end));
        let first = between.filter_map(|(start, _)| self.rows.get(start as usize));
        black_box(first.fold(0, |seen, row| seen ^ row.0));
    }

    /// The rows that are fresh at nodes that follow each other, by the first's index and the last's.
    pub(super) fn rows(&self, (first, last): (usize, usize)) -> &[RowId] {
        &self.rows[self.ends[first - 1].rows as usize..self.ends[last].rows as usize]
    }

    /// The edges that are fresh at such nodes, and whether the callee is inlined there.
    pub(super) fn edges(&self, (first, last): (usize, usize)) -> &[(EdgeId, bool)] {
        &self.edges[self.ends[first - 1].edges as usize..self.ends[last].edges as usize]
    }

    /// The callee of every edge.
    pub(super) fn callees(&self) -> &[RowId] {
        &self.callees
    }
}

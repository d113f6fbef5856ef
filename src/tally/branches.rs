//! All stacks as one tree of rows: where the tree of the profile has a node for each address, this has one for each row as
//! called by its parent's. It is kept and grows with the stacks; weights are put on it for each answer.

use super::paths::Paths;
use super::rows::{RowId, Rows};
use super::runs::{Load, Runs};
use super::sieve::Sieve;
use super::weights::{Piece, Weights};
use crate::profile::hash::IdMap;
use crate::profile::stack::Node;

/// Branches, at most. Beyond, a stack ends in the last of its rows that has one.
const MAX_BRANCHES: usize = 1 << 23;

/// What a branch is of its parent: its row, and whether it is inlined there. Both kinds of call are kept apart, and put
/// together in the answer: it depends on its samples which there are.
type Step = (RowId, bool);

/// A place in the tree, or in its mirror image that has the leaves below.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The branch (bottom-up: the one that comes next).
    at: u32,
    /// Bottom-up: where it comes from.
    from: u32,
    weight_ns: u64,
}

/// Paths that differ only in what no box shows.
pub(super) struct Part {
    /// Its last row.
    pub(super) row: RowId,
    /// Whether that is inlined in all of them.
    pub(super) inlined: bool,
    /// Of all.
    pub(super) weight_ns: u64,
    /// Each.
    pub(super) group: Vec<Cursor>,
}

impl Part {
    fn new((row, inlined): Step, group: Vec<Cursor>) -> Part {
        let weight_ns = group.iter().fold(0u64, |sum_ns, cursor| sum_ns.saturating_add(cursor.weight_ns));
        Part { row, inlined, weight_ns, group }
    }
}

/// The tree. Number 0 is its root; a branch's number is above its parent's.
#[derive(Default)]
pub(super) struct Branches {
    runs: Runs<Sum>,
    steps: Vec<Packed>,
    /// Those that do not come right behind their parents.
    apart: IdMap<(u32, Packed), u32>,
    /// By node of the profile's tree.
    of_node: Vec<u32>,
    /// By number of a [`Piece`]: the run that ends where its last node does; [`UNKNOWN`] where that was not asked for yet.
    of_piece: Vec<u32>,
    /// Number of the answer that the sums are of; 0 for none.
    weighed: u64,
}

const UNKNOWN: u32 = u32::MAX;

/// What ends in the last branch of a run, and with what lies on it. Both are the last answer's.
#[derive(Clone, Default)]
struct Sum {
    own_ns: u64,
    sum_ns: u64,
}

impl Load for Sum {
    fn above(&self) -> Sum {
        Sum { own_ns: 0, sum_ns: self.sum_ns }
    }
}

/// A step in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Packed(u32);

impl Packed {
    const INLINED: u32 = 1 << 31;

    fn of((row, inlined): Step) -> Packed {
        Packed(row.0 & !Packed::INLINED | if inlined { Packed::INLINED } else { 0 })
    }

    fn step(self) -> Step {
        (RowId(self.0 & !Packed::INLINED), self.0 & Packed::INLINED != 0)
    }
}

impl Branches {
    /// Gives up what was concluded about nodes from this one on.
    pub(super) fn truncate(&mut self, kept: usize) {
        if kept >= self.of_node.len() {
            return;
        }
        self.of_node.truncate(kept);
        // Branches are made in the order of nodes, and the last one that a node makes is where it ends.
        let length = self.of_node.iter().max().map_or(0, |&last| last as usize + 1);
        let runs = std::mem::take(&mut self.runs);
        for branch in 1..length {
            self.runs.push(runs.parent(branch));
        }
        self.steps.truncate(length);
        self.apart.retain(|_, &mut branch| (branch as usize) < length);
        self.of_piece.clear();
        self.weighed = 0;
    }

    /// Looks at the nodes that are new.
    pub(super) fn catch_up(&mut self, nodes: &[Node], paths: &Paths, sieve: &Sieve) {
        if self.of_node.is_empty() {
            self.steps = vec![Packed::of((RowId::NONE, false))];
            self.of_node.push(0);
        }
        for (index, &node) in nodes.iter().enumerate().skip(self.of_node.len()) {
            let mut at = self.of_node[node.parent.index()];
            for (place, &row) in paths.step(index, node, sieve).1.iter().enumerate() {
                at = self.child(at, Packed::of((row, place > 0)));
            }
            self.of_node.push(at);
        }
    }

    fn child(&mut self, parent: u32, step: Packed) -> u32 {
        let next = parent as usize + 1;
        if self.steps.get(next) == Some(&step) && self.runs.parent(next) == parent as usize {
            return next as u32;
        }
        if let Some(&known) = self.apart.get(&(parent, step)) {
            return known;
        }
        let branch = self.steps.len();
        if branch >= MAX_BRANCHES {
            return parent;
        }
        self.runs.push(parent as usize);
        self.steps.push(step);
        if branch != next {
            self.apart.insert((parent, step), branch as u32);
        }
        branch as u32
    }

    /// Whether the sums are those of the answer of this number.
    pub(super) fn is_weighed(&self, number: u64) -> bool {
        self.weighed == number
    }

    /// Begins with the sums of the next answer: from those of the one before, or from nothing.
    pub(super) fn begin(&mut self, number: u64, anew: bool) {
        if anew {
            self.runs.loads_mut().for_each(|sum| *sum = Sum::default());
        }
        self.weighed = number;
    }

    /// Reads what [`change_own`](Self::change_own) will ask for.
    pub(super) fn look_ahead(&self, nodes: impl Iterator<Item = usize>) {
        self.runs.look_ahead(nodes.map(|node| self.of_node[node] as usize));
    }

    /// Reads what [`change_sum`](Self::change_sum) will ask for.
    pub(super) fn look_ahead_of(&self, pieces: &[Piece]) {
        let known = pieces.iter().flat_map(|piece| [piece.run, piece.above]);
        let known = known.filter_map(|piece| self.of_piece.get(piece)).filter(|&&run| run != UNKNOWN);
        self.runs.look_ahead_at(known.map(|&run| run as usize));
    }

    /// A change of what ends in a node of the profile's tree.
    pub(super) fn change_own(&mut self, node: usize, by_ns: u64) {
        let run = self.runs.cut(self.of_node[node] as usize);
        let own_ns = &mut self.runs.load_mut(run).own_ns;
        *own_ns = own_ns.wrapping_add(by_ns);
        let whole_ns = &mut self.runs.load_mut(0).sum_ns;
        *whole_ns = whole_ns.wrapping_add(by_ns);
    }

    /// A change of what a piece of the profile's tree weighs with all that begins with it.
    pub(super) fn change_sum(&mut self, piece: Piece, by_ns: u64) {
        let (mut run, end) = (self.run_to(piece.run, piece.ends.1), self.run_to(piece.above, piece.parent));
        while run != end {
            let sum_ns = &mut self.runs.load_mut(run).sum_ns;
            *sum_ns = sum_ns.wrapping_add(by_ns);
            run = self.runs.above(run);
        }
    }

    /// The run that ends where the last node of a piece does.
    fn run_to(&mut self, piece: usize, node: usize) -> usize {
        if self.of_piece.len() <= piece {
            self.of_piece.resize(piece + 1, UNKNOWN);
        }
        if self.of_piece[piece] == UNKNOWN {
            self.of_piece[piece] = self.runs.cut(self.of_node[node] as usize) as u32;
        }
        self.of_piece[piece] as usize
    }

    /// What ends in a branch.
    fn own_ns(&self, branch: u32) -> u64 {
        let run = self.runs.of(branch as usize);
        if self.runs.ends(run).1 == branch as usize { self.runs.load(run).own_ns } else { 0 }
    }

    /// Takes over what stacks weigh.
    pub(super) fn weigh(&mut self, weights: &Weights) {
        self.begin(self.weighed, true);
        weights.own().for_each(|(node, own_ns)| self.change_own(node, own_ns));
        weights.pieces().for_each(|(piece, sum_ns)| self.change_sum(piece, sum_ns));
    }

    fn whole(&self, bottom_up: bool) -> Part {
        let group = if bottom_up {
            let cursor = |run| {
                let at = self.runs.ends(run).1 as u32;
                Cursor { at, from: at, weight_ns: self.runs.load(run).own_ns }
            };
            (0..self.runs.len()).map(cursor).filter(|cursor| cursor.weight_ns != 0).collect()
        } else {
            vec![Cursor { at: 0, from: 0, weight_ns: self.runs.load(0).sum_ns }]
        };
        Part::new((RowId::NONE, false), group)
    }

    /// The children of a group, in order of their names.
    pub(super) fn parts(&self, group: &[Cursor], bottom_up: bool, rows: &Rows) -> Vec<Part> {
        let mut moved: Vec<(Step, Cursor)> = Vec::new();
        for &cursor in group {
            if bottom_up {
                if cursor.at != 0 {
                    let at = self.runs.parent(cursor.at as usize) as u32;
                    moved.push((self.steps[cursor.at as usize].step(), Cursor { at, ..cursor }));
                }
                continue;
            }
            for child in self.runs.children(cursor.at as usize) {
                let weight_ns = self.runs.load(self.runs.of(child)).sum_ns;
                if weight_ns != 0 {
                    moved.push((self.steps[child].step(), Cursor { at: child as u32, from: child as u32, weight_ns }));
                }
            }
        }
        moved.sort_unstable_by_key(|&((row, _), cursor)| (rows.rank(row), cursor.from));
        let same = |a: &(Step, Cursor), b: &(Step, Cursor)| a.0.0 == b.0.0;
        let part = |run: &[(Step, Cursor)]| {
            let inlined = run.iter().all(|((_, inlined), _)| *inlined);
            Part::new((run[0].0.0, inlined), run.iter().map(|&(_, cursor)| cursor).collect())
        };
        moved.chunk_by(same).map(part).collect()
    }

    /// What of a group ends with it.
    pub(super) fn ending(&self, group: &[Cursor], bottom_up: bool) -> u64 {
        let ends = |cursor: &Cursor| match bottom_up {
            true if cursor.at == 0 => cursor.weight_ns,
            true => 0,
            false => self.own_ns(cursor.at),
        };
        group.iter().map(ends).fold(0, u64::saturating_add)
    }

    /// What lies under a path of full names: the whole of it, as it is at each step of the path, itself last. `None` where
    /// nothing does.
    pub(super) fn zoom(&self, path: &[String], bottom_up: bool, rows: &Rows) -> Option<Vec<Part>> {
        let mut last = self.whole(bottom_up);
        let mut named = Vec::new();
        for full in path {
            let row = rows.named(full)?;
            last = self.parts(&last.group, bottom_up, rows).into_iter().find(|part| part.row == row)?;
            named.push(row);
        }
        if last.weight_ns == 0 {
            return None;
        }
        let mut inlined = vec![true; named.len()];
        for cursor in &last.group {
            let mut at = if bottom_up { cursor.from } else { cursor.at };
            for place in 0..named.len() {
                let place = if bottom_up { place } else { named.len() - 1 - place };
                inlined[place] &= self.steps[at as usize].step().1;
                at = self.runs.parent(at as usize) as u32;
            }
        }
        let weight_ns = last.weight_ns;
        let step = |(row, inlined)| Part { row, inlined, weight_ns, group: Vec::new() };
        let mut steps: Vec<Part> =
            [(RowId::NONE, false)].into_iter().chain(named.into_iter().zip(inlined)).map(step).collect();
        if let Some(own) = steps.last_mut() {
            own.group = last.group;
        }
        Some(steps)
    }
}

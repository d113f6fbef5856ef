//! All stacks as one tree of rows: where the tree of the profile has a node for each address, this has one for each row as
//! called by its parent's. It is kept and grows with the stacks; weights are put on it for each answer.

use super::paths::Paths;
use super::rows::{RowId, Rows};
use super::runs::{Cut, Runs};
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
    runs: Runs,
    steps: Vec<Packed>,
    /// Those that do not come right behind their parents.
    apart: IdMap<(u32, Packed), u32>,
    /// By node of the profile's tree.
    of_node: Vec<u32>,
    /// By run: what ends in its last branch, and with what lies on it. Both are the last answer's.
    own_ns: Vec<u64>,
    sums_ns: Vec<u64>,
    /// Number of the answer that the sums are of; 0 for none.
    weighed: u64,
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
        let cut = self.runs.push(parent as usize);
        self.divide(cut);
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
            self.own_ns.clear();
            self.sums_ns.clear();
        }
        self.make_room();
        self.weighed = number;
    }

    /// A change of what ends in a node of the profile's tree.
    pub(super) fn change_own(&mut self, node: usize, by_ns: u64) {
        let run = self.run_to(self.of_node[node]);
        self.own_ns[run] = self.own_ns[run].wrapping_add(by_ns);
        self.sums_ns[0] = self.sums_ns[0].wrapping_add(by_ns);
    }

    /// A change of what a piece of the profile's tree weighs with all that begins with it.
    pub(super) fn change_sum(&mut self, piece: Piece, by_ns: u64) {
        // A cut leaves the lower part its number.
        let (mut run, end) = (self.run_to(self.of_node[piece.ends.1]), self.run_to(self.of_node[piece.parent]));
        while run != end {
            self.sums_ns[run] = self.sums_ns[run].wrapping_add(by_ns);
            run = self.runs.above(run);
        }
    }

    /// The run that ends with this branch.
    fn run_to(&mut self, branch: u32) -> usize {
        let cut = self.runs.cut(branch as usize);
        self.divide(cut);
        self.runs.of(branch as usize)
    }

    /// What lies on either part of what was cut is what lay on the whole.
    fn divide(&mut self, cut: Option<Cut>) {
        if let Some(Cut { upper, lower }) = cut {
            self.make_room();
            self.sums_ns[upper] = self.sums_ns[lower];
        }
    }

    fn make_room(&mut self) {
        self.own_ns.resize(self.runs.len(), 0);
        self.sums_ns.resize(self.runs.len(), 0);
    }

    /// What ends in a branch.
    fn own_ns(&self, branch: u32) -> u64 {
        let run = self.runs.of(branch as usize);
        if self.runs.ends(run).1 == branch as usize { self.own_ns[run] } else { 0 }
    }

    /// Takes over what stacks weigh.
    pub(super) fn weigh(&mut self, weights: &Weights) {
        self.begin(self.weighed, true);
        weights.own().for_each(|(node, own_ns)| self.change_own(node, own_ns));
        weights.pieces().for_each(|(piece, sum_ns)| self.change_sum(piece, sum_ns));
    }

    fn whole(&self, bottom_up: bool) -> Part {
        let group = if bottom_up {
            let ending = self.own_ns.iter().enumerate().filter(|&(_, &own_ns)| own_ns != 0);
            let cursor = |(run, &weight_ns)| {
                let at = self.runs.ends(run).1 as u32;
                Cursor { at, from: at, weight_ns }
            };
            ending.map(cursor).collect()
        } else {
            vec![Cursor { at: 0, from: 0, weight_ns: self.sums_ns.first().copied().unwrap_or(0) }]
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
                let weight_ns = self.sums_ns[self.runs.of(child)];
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

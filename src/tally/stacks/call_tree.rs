//! All stacks as one tree of rows, from the root or, bottom-up, from the leaves. It is a view of
//! the stack tree, without memory of its own. A frame has as many rows as the filters leave of it:
//! none if it is hidden, several if functions are inlined there. Positions that are reached by the
//! same rows form a group, whichever their addresses.

use std::collections::HashSet;

use super::neighbors::StackIndex;
use super::stack_facts::LibraryTime;
use crate::profile::stack::{FrameId, StackId};
use crate::tally::rows::{RowId, RowTable};

/// A row, and whether it is inlined there.
type CallStep = (RowId, bool);

/// A row on a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RowOnStack {
    /// The node of the stack tree whose frame has the row. The root has no frame.
    node: u32,
    /// The index of the row among those of the frame, or [`REDUCED`].
    index: u32,
}

/// The index of the row that stands for a whole stack, behind its own rows; see
/// [`LibraryTime::Whole`]. It is the last of its stack.
const REDUCED: u32 = u32::MAX;
/// The position before the first row of every stack.
const ROOT: RowOnStack = RowOnStack { node: 0, index: 0 };

/// A position in the tree, or in its mirror image that begins with the leaves.
#[derive(Clone, Copy)]
pub(crate) struct CallCursor {
    /// The row (bottom-up: the next one on the way to the root).
    at: RowOnStack,
    /// Bottom-up: the row where the way began.
    leaf: RowOnStack,
    weight_ns: u64,
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
        let weight_ns = sum_ns(&cursors);
        CallGroup { row, inlined, weight_ns, cursors }
    }
}

fn sum_ns(cursors: &[CallCursor]) -> u64 {
    cursors.iter().fold(0, |sum_ns, cursor| sum_ns.saturating_add(cursor.weight_ns))
}

/// The call tree.
#[derive(Clone, Copy)]
pub(crate) struct CallTree<'a> {
    pub(crate) stacks: StackIndex<'a>,
    pub(crate) rows: &'a RowTable,
}

impl<'a> CallTree<'a> {
    /// The rows of a node's frame, outermost first. All but the first are inlined.
    fn rows_of(self, node: u32) -> &'a [RowId] {
        if node == ROOT.node { &[] } else { self.stacks.rows_of(node as usize) }
    }

    fn parent(self, node: u32) -> u32 {
        self.stacks.nodes[node as usize].parent.index() as u32
    }

    /// The row that a stack is reduced to, if it is.
    fn reduced_row(self, stack: u32) -> Option<RowId> {
        match self.stacks.facts.library_time(StackId::from_index(stack as usize)) {
            LibraryTime::Whole(row) => Some(row),
            LibraryTime::None | LibraryTime::Call(_) => None,
        }
    }

    fn step(self, at: RowOnStack) -> CallStep {
        match at.index {
            REDUCED => (self.reduced_row(at.node).unwrap_or(RowId::NONE), false),
            index => (self.rows_of(at.node)[index as usize], index > 0),
        }
    }

    /// The innermost row of a stack.
    fn innermost(self, stack: u32) -> RowOnStack {
        let mut node = stack;
        while node != ROOT.node {
            if let Some(last) = self.rows_of(node).len().checked_sub(1) {
                return RowOnStack { node, index: last as u32 };
            }
            node = self.parent(node);
        }
        ROOT
    }

    /// The next row on the way to the root.
    fn caller(self, at: RowOnStack) -> RowOnStack {
        match at.index {
            REDUCED => self.innermost(at.node),
            0 => self.innermost(self.parent(at.node)),
            index => RowOnStack { index: index - 1, ..at },
        }
    }

    /// The next rows on the way to the leaves that have weight, each with that weight.
    fn callees(self, CallCursor { at, weight_ns, .. }: CallCursor) -> Vec<(RowOnStack, u64)> {
        let Some(index) = at.index.checked_add(1) else { return Vec::new() };
        if (index as usize) < self.rows_of(at.node).len() {
            return vec![(RowOnStack { index, ..at }, weight_ns)];
        }
        let weights = self.stacks.weights;
        let (mut callees, mut bare) = (Vec::new(), vec![at.node]);
        while let Some(node) = bare.pop() {
            if self.reduced_row(node).is_some() {
                callees.push((RowOnStack { node, index: REDUCED }, weights.own_ns(node as usize)));
            }
            for child in weights.children(node as usize) {
                match self.rows_of(child as u32) {
                    [] => bare.push(child as u32),
                    _ => callees.push((RowOnStack { node: child as u32, index: 0 }, weights.subtree_ns(child))),
                }
            }
        }
        callees.retain(|&(_, weight_ns)| weight_ns != 0);
        callees
    }

    fn root_group(self, bottom_up: bool) -> CallGroup {
        let weights = self.stacks.weights;
        let leaf = |stack: u32| match self.reduced_row(stack) {
            Some(_) => RowOnStack { node: stack, index: REDUCED },
            None => self.innermost(stack),
        };
        let cursors = match bottom_up {
            true => weights.own_weights().map(|(stack, ns)| cursor_at(leaf(stack as u32), ns)).collect(),
            false => vec![cursor_at(ROOT, weights.subtree_ns(0))],
        };
        CallGroup::new((RowId::NONE, false), cursors)
    }

    /// The positions of a row that have weight, as ways that begin there.
    pub(crate) fn cursors_of(self, row: RowId) -> Vec<CallCursor> {
        let StackIndex { facts, filter, weights, .. } = self.stacks;
        let mut cursors = Vec::new();
        let frames = (0..).zip(filter.frames_with(row)).filter(|&(_, has_row)| has_row);
        for node in frames.flat_map(|(frame, _)| facts.nodes_of(FrameId(frame))) {
            let rows = (0..).zip(self.rows_of(node as u32)).filter(|&(_, &at)| at == row);
            let weight_ns = weights.subtree_ns(node);
            cursors.extend(rows.map(|(index, _)| cursor_at(RowOnStack { node: node as u32, index }, weight_ns)));
        }
        if filter.folds() {
            let reduced = weights.own_weights().filter(|&(stack, _)| self.reduced_row(stack as u32) == Some(row));
            cursors.extend(reduced.map(|(stack, ns)| cursor_at(RowOnStack { node: stack as u32, index: REDUCED }, ns)));
        }
        cursors.retain(|cursor| cursor.weight_ns != 0);
        cursors
    }

    /// The same way, one step further towards the root.
    pub(crate) fn above(self, cursor: CallCursor) -> CallCursor {
        CallCursor { at: self.caller(cursor.at), ..cursor }
    }

    /// Whether one of these positions is below another.
    pub(crate) fn are_nested(self, cursors: &[CallCursor]) -> bool {
        let rows = cursors.iter().map(|cursor| cursor.at).collect();
        cursors.iter().any(|cursor| self.is_below(cursor.at, &rows))
    }

    /// Drops the positions of a group whose stacks another position of it has too.
    pub(crate) fn drop_nested(self, group: &mut CallGroup, bottom_up: bool) {
        let begin = |cursor: &CallCursor| if bottom_up { cursor.leaf } else { cursor.at };
        let rows = group.cursors.iter().map(begin).collect();
        group.cursors.retain(|cursor| !self.is_below(begin(cursor), &rows));
        group.weight_ns = sum_ns(&group.cursors);
    }

    fn is_below(self, at: RowOnStack, rows: &HashSet<RowOnStack>) -> bool {
        let above = |&at: &RowOnStack| Some(self.caller(at)).filter(|&caller| caller != ROOT);
        std::iter::successors(above(&at), above).any(|at| rows.contains(&at))
    }

    /// The children of a group, in the order of their names.
    pub(crate) fn children(self, group: &[CallCursor], bottom_up: bool) -> Vec<CallGroup> {
        let mut moved: Vec<(CallStep, CallCursor)> = Vec::new();
        for &cursor in group {
            if !bottom_up {
                let callees = self.callees(cursor).into_iter();
                moved.extend(callees.map(|(at, weight_ns)| (self.step(at), cursor_at(at, weight_ns))));
            } else if cursor.at != ROOT {
                moved.push((self.step(cursor.at), self.above(cursor)));
            }
        }
        moved.sort_unstable_by_key(|&((row, _), cursor)| (self.rows.rank(row), cursor.leaf));
        let same_row = |a: &(CallStep, CallCursor), b: &(CallStep, CallCursor)| a.0.0 == b.0.0;
        let merge = |moved: &[(CallStep, CallCursor)]| {
            let inlined = moved.iter().all(|((_, inlined), _)| *inlined);
            CallGroup::new((moved[0].0.0, inlined), moved.iter().map(|&(_, cursor)| cursor).collect())
        };
        moved.chunk_by(same_row).map(merge).collect()
    }

    /// The group at the end of a path of full names, after one group for each step that leads
    /// there. Each has the weight of the last. Returns `None` if no stack has this path.
    pub(crate) fn zoom(self, path: &[String], bottom_up: bool) -> Option<Vec<CallGroup>> {
        let mut last = self.root_group(bottom_up);
        let mut path_rows = Vec::new();
        for full in path {
            let row = self.rows.find(full)?;
            last = self.children(&last.cursors, bottom_up).into_iter().find(|group| group.row == row)?;
            path_rows.push(row);
        }
        if last.weight_ns == 0 {
            return None;
        }
        let mut inlined = vec![true; path_rows.len()];
        for cursor in &last.cursors {
            let mut at = if bottom_up { cursor.leaf } else { cursor.at };
            for position in 0..path_rows.len() {
                let position = if bottom_up { position } else { path_rows.len() - 1 - position };
                inlined[position] &= self.step(at).1;
                at = self.caller(at);
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

/// The way that begins at a position.
fn cursor_at(at: RowOnStack, weight_ns: u64) -> CallCursor {
    CallCursor { at, leaf: at, weight_ns }
}

//! Callers of callers, and callees of callees: the branches of the call tree that lead to the
//! center of a [`Callers`] answer, and away from it. They are computed only for rows that the user
//! has unfolded. As everywhere, a sample counts once, however often a path is on its stack.

use std::cmp::Reverse;

use super::callers::{CallEdge, Callers};
use super::stacks::call_tree::{CallCursor, CallGroup, CallTree};
use super::text::Text;

/// Maximum number of unfolded rows that are answered, and of callers on the heaviest way.
const MAX_UNFOLDED: usize = 256;

/// A row of the tree of callers or callees: the way to it from the center.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallPath {
    /// Whether it leads to callees.
    pub is_callee: bool,
    /// The full names on the way, those next to the center first.
    pub names: Vec<Text>,
}

/// Adds the callers or callees of these rows to `callers`. Rows that are not on any stack are
/// ignored.
pub(super) fn unfold(callers: &mut Callers, unfolded: &[CallPath], tree: CallTree<'_>) {
    let Some(center) = tree.rows.find(&callers.full) else { return };
    let nodes = tree.cursors_of(center);
    let is_recursive = tree.are_nested(&nodes);
    let mut paths: Vec<&CallPath> = unfolded.iter().filter(|path| !path.names.is_empty()).collect();
    // A row is unfolded before those behind it.
    paths.sort_by_key(|path| path.names.len());
    for path in paths.into_iter().take(MAX_UNFOLDED) {
        let branch = Branch { tree, is_recursive, is_callee: path.is_callee };
        let Some(children) = branch.edges_behind(&nodes, &path.names) else { continue };
        let side = if path.is_callee { &mut callers.callees } else { &mut callers.callers };
        if let Some(edge) = find_edge(side, &path.names) {
            edge.children = children;
        }
    }
}

/// Adds to the heaviest caller of the center its callers, to the heaviest of them theirs, and so on
/// to the root.
pub(super) fn unfold_heaviest_callers(callers: &mut Callers, tree: CallTree<'_>) {
    let Some(center) = tree.rows.find(&callers.full) else { return };
    let nodes = tree.cursors_of(center);
    let branch = Branch { tree, is_recursive: tree.are_nested(&nodes), is_callee: false };
    let mut cursors: Vec<CallCursor> = nodes.iter().map(|&cursor| tree.above(cursor)).collect();
    let mut next = callers.callers.first_mut();
    for _ in 0..MAX_UNFOLDED {
        let Some(edge) = next else { return };
        let Some(row) = tree.rows.find(&edge.full) else { return };
        let Some(group) = branch.groups(&cursors).into_iter().find(|group| group.row == row) else { return };
        cursors = group.cursors;
        if edge.children.is_empty() {
            edge.children = branch.edges(&cursors);
        }
        next = edge.children.first_mut();
    }
}

/// The edge at the end of a path.
fn find_edge<'a>(edges: &'a mut [CallEdge], names: &[Text]) -> Option<&'a mut CallEdge> {
    let (first, rest) = names.split_first()?;
    let edge = edges.iter_mut().find(|edge| edge.full == *first)?;
    if rest.is_empty() { Some(edge) } else { find_edge(&mut edge.children, rest) }
}

/// One side of the center in the call tree.
struct Branch<'a> {
    tree: CallTree<'a>,
    /// Whether the center may be above itself on a stack.
    is_recursive: bool,
    is_callee: bool,
}

impl Branch<'_> {
    /// The edges behind the end of a path, by weight, then name; `None` if no stack has the path.
    fn edges_behind(&self, nodes: &[CallCursor], names: &[Text]) -> Option<Vec<CallEdge>> {
        let mut cursors: Vec<CallCursor> = match self.is_callee {
            true => nodes.to_vec(),
            false => nodes.iter().map(|&cursor| self.tree.above(cursor)).collect(),
        };
        for name in names {
            let row = self.tree.rows.find(name)?;
            cursors = self.groups(&cursors).into_iter().find(|group| group.row == row)?.cursors;
        }
        Some(self.edges(&cursors))
    }

    /// The next rows as edges, by weight, then name.
    fn edges(&self, cursors: &[CallCursor]) -> Vec<CallEdge> {
        let mut groups = self.groups(cursors);
        if self.is_recursive {
            // Only here: two ways with the same rows so far may go on differently.
            groups.iter_mut().for_each(|group| self.tree.drop_nested(group, !self.is_callee));
        }
        groups.sort_by_key(|group| (Reverse(group.weight_ns), self.tree.rows.rank(group.row)));
        groups.iter().map(|group| self.edge(group)).collect()
    }

    /// The next rows. A stack may be in several positions of a group.
    fn groups(&self, cursors: &[CallCursor]) -> Vec<CallGroup> {
        self.tree.children(cursors, !self.is_callee)
    }

    fn edge(&self, group: &CallGroup) -> CallEdge {
        let label = self.tree.rows.label(group.row);
        CallEdge {
            full: label.full.clone(),
            short: label.short.clone(),
            module: label.module.clone(),
            is_own: label.is_own,
            inlined: group.inlined && label.shows_inline,
            weight_ns: group.weight_ns,
            change: None,
            before_ns: 0,
            children: Vec::new(),
        }
    }
}

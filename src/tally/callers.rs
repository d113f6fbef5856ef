//! Callers and callees of one row, counted as pprof's `-peek` does: each pair once per sample.
//! Recursion is not an edge.

use std::cmp::Reverse;

use super::change::{Change, Changes};
use super::rows::{RowId, RowTable};
use super::stacks::PREFETCH;
use super::stacks::neighbors::{Neighbors, StackIndex};
use super::stacks::propagate::StackWeights;
use super::text::Text;

/// A caller or a callee of the center.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallEdge {
    /// The full name; rows are merged by it.
    pub full: Text,
    /// The short name.
    pub short: Text,
    /// The last component of the module's path.
    pub module: Text,
    /// Whether it is own code.
    pub is_own: bool,
    /// Whether every such call is inlined.
    pub inlined: bool,
    /// The weight of the samples in which it calls the center, or is called by it, ns.
    pub weight_ns: u64,
    /// The kind of the difference, if the weight is the size of a difference.
    pub change: Option<Change>,
    /// The weight in the baseline, ns, if the weight is the size of a difference; else 0.
    pub before_ns: u64,
    /// Its own callers, or callees, on this way to the center, if they were requested.
    pub children: Vec<CallEdge>,
}

/// A row, the center, between its callers and callees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// The full name of the center, as the query has it.
    pub full: String,
    /// Its short name; empty if no sample that the filters keep contains it.
    pub short: Text,
    /// The last component of its module's path.
    pub module: Text,
    /// The weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// The weight of samples that contain it, ns.
    pub cum_ns: u64,
    /// The weight that shares of callers and callees refer to, ns: its cum or, in differences, the
    /// sum of both cums.
    pub whole_ns: u64,
    /// The kind of the differences, if the weights are sizes of differences.
    pub changes: Option<Changes>,
    /// Its callers, by weight, then name.
    pub callers: Vec<CallEdge>,
    /// Its callees, by weight, then name.
    pub callees: Vec<CallEdge>,
}

/// The relation of a row to the center.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Relation {
    Center,
    Caller,
    Callee,
}

/// Finds the relations to the center that a node adds, each with whether the call is inlined.
fn find_relations(center: RowId, node: usize, stacks: StackIndex<'_>, found: &mut Vec<((Relation, RowId), bool)>) {
    let (mut innermost, rows) = stacks.facts.rows_at(node, stacks.nodes[node], stacks.filter);
    for (position, &row) in rows.iter().enumerate() {
        let caller = std::mem::replace(&mut innermost, row);
        if caller == center && row != center {
            found.push(((Relation::Callee, row), position > 0));
        } else if row == center {
            found.push(((Relation::Center, row), position > 0));
            if caller != center && caller != RowId::NONE {
                found.push(((Relation::Caller, caller), position > 0));
            }
        }
    }
}

/// The center and its callers and callees on every stack.
#[derive(Default)]
pub(super) struct CallerIndex {
    center: Option<RowId>,
    neighbors: Neighbors<(Relation, RowId)>,
}

impl CallerIndex {
    /// Drops what was derived from all nodes but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.neighbors.truncate(kept);
    }

    /// Visits new nodes, or all nodes near the center if it is another one.
    pub(super) fn update(&mut self, full: &str, stacks: StackIndex<'_>, rows: &RowTable) {
        let center = rows.find(full);
        if center != self.center {
            *self = CallerIndex { center, ..CallerIndex::default() };
        }
        let Some(center) = center else { return };
        let mut found = Vec::new();
        for nodes in self.neighbors.find_new_nodes(center, stacks).chunks(PREFETCH) {
            stacks.prefetch(nodes);
            for &node in nodes {
                find_relations(center, node as usize, stacks, &mut found);
                self.neighbors.visit(center, node, stacks, found.drain(..));
            }
        }
    }

    /// Builds the answer from the current weights, and from flat and cum of the center.
    pub(super) fn build(
        &self,
        full: &str,
        (flat_ns, cum_ns): (u64, u64),
        weights: &StackWeights,
        rows: &RowTable,
    ) -> Callers {
        let mut callers = Callers { full: full.to_owned(), flat_ns, cum_ns, whole_ns: cum_ns, ..Callers::default() };
        if let Some(label) = self.center.map(|row| rows.label(row)).filter(|_| cum_ns > 0) {
            (callers.short, callers.module) = (label.short.clone(), label.module.clone());
        }
        let mut sums: Vec<_> = self.neighbors.sums(weights).collect();
        sums.sort_unstable_by_key(|&((_, row), weight_ns, _)| (Reverse(weight_ns), rows.rank(row)));
        for ((relation, row), weight_ns, inlined) in sums {
            let label = rows.label(row);
            let (short, module) = (label.short.clone(), label.module.clone());
            let edges = match relation {
                // Its cum includes stacks that are reduced to it.
                Relation::Center => continue,
                Relation::Caller => &mut callers.callers,
                Relation::Callee => &mut callers.callees,
            };
            edges.push(CallEdge {
                full: label.full.clone(),
                short,
                module,
                is_own: label.is_own,
                inlined: inlined && label.shows_inline,
                weight_ns,
                change: None,
                before_ns: 0,
                children: Vec::new(),
            });
        }
        callers
    }
}

//! Callers and callees of one function, as pprof's `-peek` counts them: each pair once a sample, recursion no edge of its own.

use std::cmp::Reverse;

use super::diff::{Change, Changes};
use super::query::Query;
use super::rows::{RowId, Rows};
use super::tallier::Tallier;
use super::text::Text;
use super::ties::{Forest, Ties};
use super::weights::{AHEAD, Weights};
use crate::profile::Profile;
use crate::symbols::Names;

/// A caller or a callee of the centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Full name: rows are merged by it.
    pub full: Text,
    /// Short name.
    pub short: Text,
    /// Last part of the module's path.
    pub module: Text,
    /// Whether every such call was inlined.
    pub inlined: bool,
    /// Weight of the samples in which it calls the centre, or is called by it, ns.
    pub weight_ns: u64,
    /// Where the weight is the size of a difference: which.
    pub change: Option<Change>,
}

/// The answer: the centre between its callers and callees, both by weight, then name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Full name of the centre, as asked.
    pub full: String,
    /// Its short name; empty when no sample that the filters left has it.
    pub short: Text,
    /// Last part of its module's path.
    pub module: Text,
    /// Weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// Weight of samples it is in, ns.
    pub cum_ns: u64,
    /// What callers' and callees' parts are shown of, ns: its cum, or, in differences, its cum in both together.
    pub whole_ns: u64,
    /// Where the weights are sizes of differences: which.
    pub changes: Option<Changes>,
    /// Who calls it.
    pub callers: Vec<Edge>,
    /// Whom it calls.
    pub callees: Vec<Edge>,
}

/// Answers `query` for the function with this full name. Who asks again and again keeps a [`Tallier`].
pub fn callers(profile: &Profile, names: &Names, query: &Query, full: &str) -> Callers {
    Tallier::default().callers(profile, names, query, full)
}

/// What a row is to the centre.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Tie {
    Itself,
    Caller,
    Callee,
}

/// What a node has to do with the centre, and whether it is inlined there.
fn ties_at(centre: RowId, node: usize, forest: Forest<'_>, found: &mut Vec<((Tie, RowId), bool)>) {
    let (mut innermost, rows) = forest.paths.step(node, forest.nodes[node], forest.sieve);
    for (place, &row) in rows.iter().enumerate() {
        let caller = std::mem::replace(&mut innermost, row);
        if caller == centre && row != centre {
            found.push(((Tie::Callee, row), place > 0));
        } else if row == centre {
            found.push(((Tie::Itself, row), place > 0));
            if caller != centre && caller != RowId::NONE {
                found.push(((Tie::Caller, caller), place > 0));
            }
        }
    }
}

/// Where the centre and its callers and callees are on every stack.
#[derive(Default)]
pub(super) struct Calls {
    centre: Option<RowId>,
    ties: Ties<(Tie, RowId)>,
}

impl Calls {
    /// Gives up what was concluded about nodes from this one on.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.ties.truncate(kept);
    }

    /// Looks at the nodes that are new, or at all around another centre.
    pub(super) fn turn_to(&mut self, full: &str, forest: Forest<'_>, rows: &Rows) {
        let centre = rows.named(full);
        if centre != self.centre {
            *self = Calls { centre, ..Calls::default() };
        }
        let Some(centre) = centre else { return };
        let mut found = Vec::new();
        for all in self.ties.unseen(centre, forest).chunks(AHEAD) {
            forest.look_ahead(all);
            for &node in all {
                ties_at(centre, node as usize, forest, &mut found);
                self.ties.look(centre, node, forest, found.drain(..));
            }
        }
    }

    /// Adds up.
    pub(super) fn told(&self, full: &str, flat_ns: u64, weights: &Weights, rows: &Rows) -> Callers {
        let mut callers = Callers { full: full.to_owned(), flat_ns, ..Callers::default() };
        let mut seen: Vec<_> = self.ties.sums(weights).collect();
        seen.sort_unstable_by_key(|&((_, row), weight_ns, _)| (Reverse(weight_ns), rows.rank(row)));
        for ((tie, row), weight_ns, inlined) in seen {
            let label = rows.label(row);
            let (short, module) = (label.short.clone(), label.module.clone());
            let side = match tie {
                Tie::Itself => {
                    (callers.short, callers.module) = (short, module);
                    (callers.cum_ns, callers.whole_ns) = (weight_ns, weight_ns);
                    continue;
                }
                Tie::Caller => &mut callers.callers,
                Tie::Callee => &mut callers.callees,
            };
            side.push(Edge {
                full: label.full.clone(),
                short,
                module,
                inlined: inlined && label.takes_mark,
                weight_ns,
                change: None,
            });
        }
        callers
    }
}

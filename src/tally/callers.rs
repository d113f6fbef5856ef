//! Callers and callees of one function, as pprof's `-peek` counts them: each pair once a sample, recursion no edge of its own.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::diff::{Change, Changes};
use super::paths::Paths;
use super::query::Query;
use super::rows::{RowId, Rows};
use super::sieve::Sieve;
use super::tallier::Tallier;
use super::text::Text;
use super::weights::Weights;
use crate::profile::Profile;
use crate::profile::stack::Node;
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

/// At this node a tie appears for the first time on the way from the root: there it has the weight of the subtree.
struct Fresh {
    node: u32,
    /// Index in the ties.
    tie: u32,
    inlined: bool,
    /// One past the index of what became fresh before, on the same way; 0 for nothing.
    before: u32,
}

/// Where the centre and its callers and callees are on every stack.
#[derive(Default)]
pub(super) struct Calls {
    centre: Option<RowId>,
    ties: Vec<(Tie, RowId)>,
    tie_ids: HashMap<(Tie, RowId), u32>,
    fresh: Vec<Fresh>,
    /// By node: one past the index of what became fresh last, at it or above.
    last: Vec<u32>,
}

impl Calls {
    /// Gives up what was concluded about nodes from this one on.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.last.truncate(kept);
        self.fresh.truncate(self.fresh.partition_point(|fresh| (fresh.node as usize) < kept));
    }

    /// Looks at the nodes that are new, or at all for another centre.
    pub(super) fn turn_to(&mut self, full: &str, nodes: &[Node], paths: &Paths, sieve: &Sieve, rows: &Rows) {
        let centre = rows.named(full);
        if centre != self.centre {
            (self.centre, self.ties, self.tie_ids) = (centre, Vec::new(), HashMap::new());
            self.truncate(0);
        }
        let Some(centre) = centre else { return };
        if self.last.is_empty() {
            self.last.push(0);
        }
        if self.last.len() == nodes.len() {
            return;
        }
        let having = sieve.having(centre);
        for (index, &node) in nodes.iter().enumerate().skip(self.last.len()) {
            let mut last = self.last[node.parent.index()];
            if having[node.frame.0 as usize] || paths.innermost(node.parent) == centre {
                let (mut innermost, rows) = paths.step(index, node, sieve);
                for (place, &row) in rows.iter().enumerate() {
                    let caller = std::mem::replace(&mut innermost, row);
                    if caller == centre && row != centre {
                        last = self.see((Tie::Callee, row), index, place > 0, last);
                    } else if row == centre {
                        last = self.see((Tie::Itself, row), index, place > 0, last);
                        if caller != centre && caller != RowId::NONE {
                            last = self.see((Tie::Caller, caller), index, place > 0, last);
                        }
                    }
                }
            }
            self.last.push(last);
        }
    }

    fn see(&mut self, tie: (Tie, RowId), node: usize, inlined: bool, last: u32) -> u32 {
        let id = *self.tie_ids.entry(tie).or_insert_with(|| {
            self.ties.push(tie);
            self.ties.len() as u32 - 1
        });
        let mut at = last;
        while at > 0 {
            let fresh = &self.fresh[at as usize - 1];
            if fresh.tie == id {
                return last;
            }
            at = fresh.before;
        }
        self.fresh.push(Fresh { node: node as u32, tie: id, inlined, before: last });
        self.fresh.len() as u32
    }

    /// Adds up.
    pub(super) fn told(&self, full: &str, flat_ns: u64, weights: &Weights, rows: &Rows) -> Callers {
        let mut callers = Callers { full: full.to_owned(), flat_ns, ..Callers::default() };
        let mut sums = vec![(0u64, true); self.ties.len()];
        for fresh in &self.fresh {
            let weight_ns = weights.of(fresh.node as usize);
            if weight_ns != 0 {
                let (sum_ns, inlined) = &mut sums[fresh.tie as usize];
                *sum_ns = sum_ns.saturating_add(weight_ns);
                *inlined &= fresh.inlined;
            }
        }
        let mut seen: Vec<_> = self.ties.iter().zip(sums).filter(|(_, (weight_ns, _))| *weight_ns > 0).collect();
        seen.sort_unstable_by_key(|&(&(_, row), (weight_ns, _))| (Reverse(weight_ns), rows.rank(row)));
        for (&(tie, row), (weight_ns, inlined)) in seen {
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

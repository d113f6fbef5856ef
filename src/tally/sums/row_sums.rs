//! Flat and cum of every row.

use std::cmp::Reverse;

use crate::profile::hash::IdMap;
use crate::tally::query::Sort;
use crate::tally::rows::{RowId, RowLabel, RowTable};
use crate::tally::stacks::stack_facts::{Fresh, LibraryTime, StackFacts};
use crate::tally::stacks::{LATENCY, SUMS};
use crate::tally::text::Text;
use crate::tally::top::{InlineState, TopRow};

#[derive(Clone, Copy, Default)]
struct RowSum {
    flat_ns: u64,
    cum_ns: u64,
    /// The part of flat that was folded.
    library_ns: u64,
}

/// Flags of the weighted edges that lead to a row.
const INLINED: u8 = 1;
const CALLED: u8 = 2;

/// The sums of all rows. They wrap around, so that subtracting what was added leaves 0.
#[derive(Default)]
pub(crate) struct RowSums {
    rows: Vec<[RowSum; SUMS]>,
    /// The weights of each edge: where the callee is inlined, and where it is called.
    edges: Vec<[[u64; SUMS]; 2]>,
    /// The folded weights of each own row and the library row that it calls.
    library_calls: IdMap<(RowId, RowId), [u64; LATENCY]>,
}

impl RowSums {
    /// Makes room for new rows and edges.
    pub(crate) fn resize(&mut self, rows: usize, facts: &StackFacts) {
        self.rows.resize(rows, <[RowSum; SUMS]>::default());
        self.edges.resize(facts.callees().len(), [[0; SUMS]; 2]);
    }

    /// Adds a change of the weight of stacks that `row` has the flat of.
    pub(crate) fn add_flat(&mut self, row: RowId, library: LibraryTime, change_ns: [u64; SUMS]) {
        for (sum, by_ns) in self.rows[row.index()].iter_mut().zip(change_ns) {
            sum.flat_ns = sum.flat_ns.wrapping_add(by_ns);
            if library != LibraryTime::None {
                sum.library_ns = sum.library_ns.wrapping_add(by_ns);
            }
            // It is on no stack otherwise.
            if let LibraryTime::Whole(_) = library {
                sum.cum_ns = sum.cum_ns.wrapping_add(by_ns);
            }
        }
        if let LibraryTime::Call(callee) = library {
            let call = self.library_calls.entry((row, callee)).or_default();
            for (ns, by_ns) in call.iter_mut().zip(change_ns) {
                *ns = ns.wrapping_add(by_ns);
            }
        }
    }

    /// Adds a change of the weight of a chain's subtree, to the rows and edges that are fresh
    /// there.
    pub(crate) fn add_cum(&mut self, facts: &StackFacts, ends: (usize, usize), change_ns: [u64; SUMS]) {
        for fresh in facts.fresh(ends) {
            match fresh {
                Fresh::Row(row) => {
                    for (sum, by_ns) in self.rows[row.index()].iter_mut().zip(change_ns) {
                        sum.cum_ns = sum.cum_ns.wrapping_add(by_ns);
                    }
                }
                Fresh::Edge { edge, inlined } => {
                    for (ns, by_ns) in self.edges[edge.index()][usize::from(!inlined)].iter_mut().zip(change_ns) {
                        *ns = ns.wrapping_add(by_ns);
                    }
                }
            }
        }
    }

    /// The rows that have weight in sum `sum`, sorted.
    pub(crate) fn top_rows(&self, sum: usize, rows: &RowTable, facts: &StackFacts, sort: Sort) -> Vec<(RowId, TopRow)> {
        let mut calls = vec![0; self.rows.len()];
        for ([inlined, called], callee) in self.edges.iter().zip(facts.callees()) {
            // An edge is inlined if it is in every sample.
            calls[callee.index()] |= match (inlined[sum], called[sum]) {
                (0, 0) => 0,
                (_, 0) => INLINED,
                _ => CALLED,
            };
        }
        let latency_ns = |row: RowId| self.rows[row.index()][LATENCY + sum].cum_ns;
        let weighted = self.rows.iter().map(|sums| sums[sum]).enumerate().filter(|(_, sum)| sum.cum_ns != 0);
        let weighted = weighted.map(|(index, sum)| (RowId(index as u32), sum));
        // Where rows name their owner, the owner itself is a row only if the filters left nothing
        // else of a stack.
        let is_row =
            |&(row, sum): &(RowId, RowSum)| !rows.has_owners() || !rows.label(row).is_owner || sum.flat_ns != 0;
        let mut sums: Vec<(RowId, RowSum)> = weighted.filter(is_row).collect();
        match sort {
            Sort::Flat => sums.sort_unstable_by_key(|&(row, sum)| (Reverse(sum.flat_ns), rows.rank(row))),
            Sort::Cum => sums.sort_unstable_by_key(|&(row, sum)| (Reverse(sum.cum_ns), rows.rank(row))),
            Sort::Latency => {
                sums.sort_unstable_by_key(|&(row, sum)| (Reverse((latency_ns(row), sum.cum_ns)), rows.rank(row)));
            }
            Sort::Name => sums.sort_unstable_by_key(|&(row, _)| rows.rank(row)),
        }
        let library_calls = self.heaviest_library_calls(sum, rows);
        let build = |(row, sum)| {
            let library_call = library_calls.get(&row).map_or(RowId::NONE, |&(_, callee)| callee);
            let library_call = Some(library_call).filter(|&callee| callee != RowId::NONE);
            let library_call = library_call.map_or_else(Text::default, |callee| rows.label(callee).short.clone());
            let top_row = build_row(rows.label(row), (sum, latency_ns(row)), calls[row.index()]);
            (row, TopRow { library_call, ..top_row })
        };
        sums.into_iter().map(build).collect()
    }

    /// The heaviest library call of each own row, with its weight; of equal ones the first by name.
    fn heaviest_library_calls(&self, sum: usize, rows: &RowTable) -> IdMap<RowId, (u64, RowId)> {
        let mut heaviest: IdMap<RowId, (u64, RowId)> = IdMap::default();
        for (&(caller, callee), weights_ns) in &self.library_calls {
            let (ns, best) = (weights_ns[sum], heaviest.entry(caller).or_insert((0, RowId::NONE)));
            let is_first = |best: RowId| best == RowId::NONE || rows.rank(callee) < rows.rank(best);
            if ns > best.0 || ns == best.0 && ns > 0 && is_first(best.1) {
                *best = (ns, callee);
            }
        }
        heaviest
    }

    /// Flat and cum of a row.
    pub(crate) fn flat_and_cum_ns(&self, row: RowId, sum: usize) -> (u64, u64) {
        self.rows.get(row.index()).map_or((0, 0), |sums| (sums[sum].flat_ns, sums[sum].cum_ns))
    }
}

fn build_row(label: &RowLabel, (sum, latency_ns): (RowSum, u64), calls: u8) -> TopRow {
    TopRow {
        function: label.function,
        full: label.full.clone(),
        short: label.short.clone(),
        module: label.module.clone(),
        owner: label.owner.clone(),
        inline: match calls {
            _ if !label.shows_inline => InlineState::No,
            INLINED => InlineState::Yes,
            0 | CALLED => InlineState::No,
            _ => InlineState::Partial,
        },
        flat_ns: sum.flat_ns,
        cum_ns: sum.cum_ns,
        latency_ns,
        library_ns: sum.library_ns,
        library_call: Text::default(),
        is_own: label.is_own,
        changes: None,
    }
}

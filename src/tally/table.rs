//! The top list: flat and cum of every function.

use std::sync::Arc;

use super::diff::Changes;
use super::paths::Paths;
use super::query::{Query, Sort};
use super::rows::{Label, RowId, Rows};
use super::running::SIDES;
pub use super::tallier::Tallier;
use super::text::Text;
use crate::profile::Profile;
use crate::symbols::{FunctionId, Names};

/// Whether a row's function was inlined where it was seen: pprof's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline {
    /// Never.
    No,
    /// At some calls.
    Partial,
    /// At every call.
    Yes,
}

/// One function, or whatever else the query's group makes one row of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first function of this name; rows are merged by name, over modules and processes. Of a row that is no function,
    /// one that is in it; its module likewise.
    pub function: FunctionId,
    /// Full name.
    pub full: Text,
    /// Short name.
    pub short: Text,
    /// Last part of the module's path.
    pub module: Text,
    /// The thread or process that it is of, where rows are one's alone: `worker-0 41280`; else empty.
    pub owner: Text,
    /// pprof's mark.
    pub inline: Inline,
    /// Weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// Weight of samples it is in, each counted once, ns.
    pub cum_ns: u64,
    /// Where the weights are sizes of differences: which.
    pub changes: Option<Changes>,
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// In the order asked for.
    pub rows: Vec<Row>,
    /// Weight of all samples of the span, before filters, ns: the base of percentages.
    pub total_ns: u64,
    /// Weight of the samples that the filters left, ns.
    pub kept_ns: u64,
    /// All samples of the span.
    pub samples: u64,
    /// Samples that the filters left.
    pub kept_samples: u64,
}

impl Table {
    /// Its numbers without its rows.
    pub(super) fn clone_head(&self) -> Table {
        let Table { total_ns, kept_ns, samples, kept_samples, .. } = *self;
        Table { rows: Vec::new(), total_ns, kept_ns, samples, kept_samples }
    }
}

/// Answers `query`. Who asks again and again keeps a [`Tallier`]; the answers are the same.
pub fn table(profile: &Profile, names: &Names, query: &Query) -> Table {
    let told = Tallier::default().table(profile, names, query);
    Arc::unwrap_or_clone(told)
}

#[derive(Clone, Copy, Default)]
struct Sum {
    flat_ns: u64,
    cum_ns: u64,
}

/// Bits of the edges that lead to a row.
const INLINED: u8 = 1;
const CALLED: u8 = 2;

/// What a table is made of. Sums wrap around, so that what is taken away again leaves nothing.
#[derive(Default)]
pub(super) struct Sums {
    /// By row, of either side.
    rows: Vec<[Sum; SIDES]>,
    /// By edge: what it weighs where it is inlined, and elsewhere; of either side.
    calls: Vec<[[u64; SIDES]; 2]>,
}

impl Sums {
    /// Makes room for what has come since.
    pub(super) fn catch_up(&mut self, rows: usize, paths: &Paths) {
        self.rows.resize(rows, <[Sum; SIDES]>::default());
        self.calls.resize(paths.callees().len(), [[0; SIDES]; 2]);
    }

    /// A change of what ends in `row`.
    pub(super) fn change_flat(&mut self, row: RowId, by_ns: [u64; SIDES]) {
        for (sum, by_ns) in self.rows[row.index()].iter_mut().zip(by_ns) {
            sum.flat_ns = sum.flat_ns.wrapping_add(by_ns);
        }
    }

    /// A change of what goes through nodes that follow each other: of the rows and edges that are fresh there.
    pub(super) fn change_piece(&mut self, paths: &Paths, ends: (usize, usize), by_ns: [u64; SIDES]) {
        for &row in paths.rows(ends) {
            for (sum, by_ns) in self.rows[row.index()].iter_mut().zip(by_ns) {
                sum.cum_ns = sum.cum_ns.wrapping_add(by_ns);
            }
        }
        for &(edge, inlined) in paths.edges(ends) {
            for (ns, by_ns) in self.calls[edge.index()][usize::from(!inlined)].iter_mut().zip(by_ns) {
                *ns = ns.wrapping_add(by_ns);
            }
        }
    }

    /// The rows of a side that weigh something, sorted.
    pub(super) fn rows(&self, side: usize, rows: &Rows, paths: &Paths, sort: Sort) -> Vec<(RowId, Row)> {
        let mut calls = vec![0; self.rows.len()];
        for ([inlined, called], callee) in self.calls.iter().zip(paths.callees()) {
            // An edge is inlined where it is so in every sample.
            calls[callee.index()] |= match (inlined[side], called[side]) {
                (0, 0) => 0,
                (_, 0) => INLINED,
                _ => CALLED,
            };
        }
        let down = std::cmp::Reverse;
        let shown = self.rows.iter().map(|sums| sums[side]).enumerate().filter(|(_, sum)| sum.cum_ns != 0);
        let shown = shown.map(|(index, sum)| (RowId(index as u32), sum));
        // Where rows say whose they are, an owner is no row of its own unless it is all that filters left.
        let is_row = |&(row, sum): &(RowId, Sum)| !rows.has_owners() || !rows.label(row).is_owner || sum.flat_ns != 0;
        let mut shown: Vec<(RowId, Sum)> = shown.filter(is_row).collect();
        match sort {
            Sort::Flat => shown.sort_unstable_by_key(|&(row, sum)| (down(sum.flat_ns), rows.rank(row))),
            Sort::Cum => shown.sort_unstable_by_key(|&(row, sum)| (down(sum.cum_ns), rows.rank(row))),
            Sort::Name => shown.sort_unstable_by_key(|&(row, _)| rows.rank(row)),
        }
        shown.into_iter().map(|(row, sum)| (row, told(rows.label(row), sum, calls[row.index()]))).collect()
    }

    /// What ends in a row.
    pub(super) fn flat_ns(&self, row: RowId, side: usize) -> u64 {
        self.rows.get(row.index()).map_or(0, |sums| sums[side].flat_ns)
    }
}

fn told(label: &Label, sum: Sum, calls: u8) -> Row {
    Row {
        function: label.function,
        full: label.full.clone(),
        short: label.short.clone(),
        module: label.module.clone(),
        owner: label.owner.clone(),
        inline: match calls {
            _ if !label.takes_mark => Inline::No,
            INLINED => Inline::Yes,
            0 | CALLED => Inline::No,
            _ => Inline::Partial,
        },
        flat_ns: sum.flat_ns,
        cum_ns: sum.cum_ns,
        changes: None,
    }
}

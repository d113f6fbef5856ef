//! The top list: flat and cum of every function.

use super::paths::{EdgeId, Paths};
use super::query::{Query, Sort};
use super::rows::{Label, RowId, Rows};
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
    /// pprof's mark.
    pub inline: Inline,
    /// Weight of samples whose leaf it is, ns.
    pub flat_ns: u64,
    /// Weight of samples it is in, each counted once, ns.
    pub cum_ns: u64,
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

/// Answers `query`. Who asks again and again keeps a [`Tallier`]; the answers are the same.
pub fn table(profile: &Profile, names: &Names, query: &Query) -> Table {
    Tallier::default().table(profile, names, query)
}

#[derive(Clone, Copy, Default)]
struct Sum {
    flat_ns: u64,
    cum_ns: u64,
    /// Bits of the edges that lead to it.
    calls: u8,
}

const INLINED: u8 = 1;
const CALLED: u8 = 2;

/// Where a table is added up.
#[derive(Default)]
pub(super) struct Sums {
    /// By row; all 0 between answers.
    rows: Vec<Sum>,
    /// By edge; all 0 between answers.
    calls: Vec<u8>,
    /// Rows and edges that are not 0.
    summed: Vec<RowId>,
    called: Vec<EdgeId>,
}

impl Sums {
    /// Makes room for what has come since.
    pub(super) fn catch_up(&mut self, rows: &Rows, paths: &Paths) {
        self.rows.resize(rows.len(), Sum::default());
        self.calls.resize(paths.callees().len(), 0);
    }

    /// Adds what ends in `row`.
    pub(super) fn add_flat(&mut self, row: RowId, weight_ns: u64) {
        let flat_ns = &mut self.rows[row.index()].flat_ns;
        *flat_ns = flat_ns.saturating_add(weight_ns);
    }

    /// Adds what goes through a node, to the rows and edges that are fresh there.
    pub(super) fn add_node(&mut self, paths: &Paths, node: usize, weight_ns: u64) {
        for &row in paths.rows(node) {
            let cum_ns = &mut self.rows[row.index()].cum_ns;
            if *cum_ns == 0 {
                self.summed.push(row);
            }
            *cum_ns = cum_ns.saturating_add(weight_ns);
        }
        for &(edge, inlined) in paths.edges(node) {
            let calls = &mut self.calls[edge.index()];
            if *calls == 0 {
                self.called.push(edge);
            }
            *calls |= if inlined { INLINED } else { CALLED };
        }
    }

    /// The rows, sorted; all is 0 again.
    pub(super) fn take_rows(&mut self, rows: &Rows, paths: &Paths, sort: Sort) -> Vec<(RowId, Row)> {
        for edge in self.called.drain(..) {
            // An edge is inlined where it is so in every sample.
            let inlined = std::mem::take(&mut self.calls[edge.index()]) == INLINED;
            let callee = paths.callees()[edge.index()];
            self.rows[callee.index()].calls |= if inlined { INLINED } else { CALLED };
        }
        let (sums, down) = (&mut self.rows, std::cmp::Reverse);
        let mut shown: Vec<(RowId, Sum)> =
            self.summed.drain(..).map(|row| (row, std::mem::take(&mut sums[row.index()]))).collect();
        match sort {
            Sort::Flat => shown.sort_unstable_by_key(|&(row, sum)| (down(sum.flat_ns), rows.rank(row))),
            Sort::Cum => shown.sort_unstable_by_key(|&(row, sum)| (down(sum.cum_ns), rows.rank(row))),
            Sort::Name => shown.sort_unstable_by_key(|&(row, _)| rows.rank(row)),
        }
        shown.into_iter().map(|(row, sum)| (row, told(rows.label(row), sum))).collect()
    }
}

fn told(label: &Label, sum: Sum) -> Row {
    Row {
        function: label.function,
        full: label.full.clone(),
        short: label.short.clone(),
        module: label.module.clone(),
        inline: match sum.calls {
            _ if !label.takes_mark => Inline::No,
            INLINED => Inline::Yes,
            0 | CALLED => Inline::No,
            _ => Inline::Partial,
        },
        flat_ns: sum.flat_ns,
        cum_ns: sum.cum_ns,
    }
}

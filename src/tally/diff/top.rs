//! The difference of two top lists.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::tally::query::Sort;
use crate::tally::text::Text;
use crate::tally::top::{TopRow, TopTable};

/// Returns the rows of both tables with their differences, sorted by the size of the difference of
/// their shares. Shares are those of the samples that filters keep if `of_kept`, else of all.
pub fn diff_tables(
    now: &TopTable,
    before: &TopTable,
    (test, bursts): (&SignificanceTest, &Burstiness),
    (sort, of_kept): (Sort, bool),
) -> TopTable {
    let base: HashMap<&Text, &TopRow> = before.rows.iter().map(|row| (&row.full, row)).collect();
    let known: HashSet<&Text> = now.rows.iter().map(|row| &row.full).collect();
    let gone = before.rows.iter().filter(|row| !known.contains(&row.full));
    let pairs = now.rows.iter().map(|row| (row, Some(row), base.get(&row.full).copied()));
    let pairs = pairs.chain(gone.map(|row| (row, None, Some(row))));
    let mut rows: Vec<TopRow> = pairs.map(|(row, now, before)| diff_row(row, now, before, (test, bursts))).collect();
    match sort {
        Sort::Name => rows.sort_by(|a, b| a.full.cmp(&b.full)),
        _ => {
            let base = |table: &TopTable| u128::from(if of_kept { table.kept_ns } else { table.total_ns }).max(1);
            let bases = (base(before), base(now));
            // Both shares over their common denominator.
            let size = |row: &TopRow| {
                let (before_ns, now_ns) = before_and_now(row, sort);
                (u128::from(now_ns) * bases.0).abs_diff(u128::from(before_ns) * bases.1)
            };
            rows.sort_by_cached_key(|row| (Reverse(size(row)), row.full.clone()));
        }
    }
    TopTable {
        rows,
        total_ns: now.total_ns.saturating_add(before.total_ns),
        kept_ns: now.kept_ns.saturating_add(before.kept_ns),
        before_ns: before.total_ns,
        before_kept_ns: before.kept_ns,
        ..now.without_rows()
    }
}

/// The weights of a row before and now, of the measure that rows are sorted by.
fn before_and_now(row: &TopRow, sort: Sort) -> (u64, u64) {
    let changes = row.changes.unwrap_or_default();
    let (ns, before_ns, change) = match sort.is_by_cum() {
        true => (row.cum_ns, changes.before_ns.1, changes.cum),
        false => (row.flat_ns, changes.before_ns.0, changes.flat),
    };
    (before_ns, if change.negative { before_ns.saturating_sub(ns) } else { before_ns.saturating_add(ns) })
}

fn diff_row(
    row: &TopRow,
    now: Option<&TopRow>,
    before: Option<&TopRow>,
    (test, bursts): (&SignificanceTest, &Burstiness),
) -> TopRow {
    let weights = |row: Option<&TopRow>| row.map_or((0, 0), |row| (row.flat_ns, row.cum_ns));
    let (flat_ns, cum_ns, changes) = test.flat_and_cum(weights(now), weights(before), Some(bursts.row(&row.full)));
    TopRow { flat_ns, cum_ns, changes: Some(changes), ..row.clone() }
}

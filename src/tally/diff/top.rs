//! The difference of two top lists.

use std::collections::{HashMap, HashSet};

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::tally::query::Sort;
use crate::tally::text::Text;
use crate::tally::top::{TopRow, TopTable};

/// Returns the rows of both tables with their differences.
pub fn diff_tables(
    now: &TopTable,
    before: &TopTable,
    (test, bursts): (&SignificanceTest, &Burstiness),
    sort: Sort,
) -> TopTable {
    let base: HashMap<&Text, &TopRow> = before.rows.iter().map(|row| (&row.full, row)).collect();
    let known: HashSet<&Text> = now.rows.iter().map(|row| &row.full).collect();
    let gone = before.rows.iter().filter(|row| !known.contains(&row.full));
    let pairs = now.rows.iter().map(|row| (row, Some(row), base.get(&row.full).copied()));
    let pairs = pairs.chain(gone.map(|row| (row, None, Some(row))));
    let mut rows: Vec<TopRow> = pairs.map(|(row, now, before)| diff_row(row, now, before, (test, bursts))).collect();
    match sort {
        Sort::Name => rows.sort_by(|a, b| a.full.cmp(&b.full)),
        _ if sort.is_by_cum() => rows.sort_by(|a, b| b.cum_ns.cmp(&a.cum_ns).then_with(|| a.full.cmp(&b.full))),
        _ => rows.sort_by(|a, b| b.flat_ns.cmp(&a.flat_ns).then_with(|| a.full.cmp(&b.full))),
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

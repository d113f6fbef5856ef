//! The trunk: functions that nearly all stacks contain and that use no time themselves, such as
//! `_start`, `main` and `run`. Sorted by cum they would be the first rows and tell nothing, so they
//! come last, as the flame graph folds them into one row.
//!
//! A row belongs to the trunk from a share of [`ENTER_PERCENT`] on and remains in it down to
//! [`LEAVE_PERCENT`], so that no row jumps to and fro.

use std::collections::HashSet;

use crate::session::Answer;
use crate::tally::query::Sort;
use crate::tally::text::Text;

/// Share of the kept samples at which a row enters the trunk, in percent.
const ENTER_PERCENT: u128 = 98;
/// Share below which a row leaves the trunk, in percent.
const LEAVE_PERCENT: u128 = 95;
/// Maximum share of a row's own time, in percent.
const FLAT_PERCENT: u128 = 2;
/// Minimum rows of a trunk. One or two rows hide nothing.
const LEAST_ROWS: usize = 3;

/// The rows of the trunk.
#[derive(Debug, Default)]
pub(super) struct Trunk {
    /// Their full names.
    names: HashSet<Text>,
}

impl Trunk {
    /// Moves the rows of the trunk behind all others, if rows are sorted by cum. `order` has the
    /// indices of the window's rows.
    pub(super) fn sink(&mut self, answer: &Answer, order: &mut [usize]) {
        let before = std::mem::take(&mut self.names);
        if answer.question.sort != Sort::Cum || answer.baseline_ns.is_some() {
            return;
        }
        let (rows, kept_ns) = (&answer.window.rows, u128::from(answer.window.kept_ns));
        let mut names = HashSet::new();
        for row in rows {
            let percent = if before.contains(&row.full) { LEAVE_PERCENT } else { ENTER_PERCENT };
            let is_wide = u128::from(row.cum_ns) * 100 >= kept_ns * percent;
            if is_wide && u128::from(row.flat_ns) * 100 < kept_ns * FLAT_PERCENT {
                names.insert(row.full.clone());
            }
        }
        // A trunk that has nothing above it is no trunk.
        if names.len() >= LEAST_ROWS && names.len() < rows.len() {
            order.sort_by_key(|&index| names.contains(&rows[index].full));
            self.names = names;
        }
    }

    /// The number of rows of the trunk.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

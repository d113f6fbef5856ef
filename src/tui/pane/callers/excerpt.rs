//! Chooses the rows of a listing that fit into a few rows of the screen: the hottest ones, and what
//! is around them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The share of the hottest row below which a row is not hot, as its reciprocal.
const HOT: u64 = 20;
/// The rows around a hot one that may be shown.
const CONTEXT: usize = 12;

/// The rows that are chosen from a listing, in their order. A gap between two of them takes a row
/// of the screen, too.
#[derive(Default)]
struct Excerpt {
    rows: BTreeSet<usize>,
}

impl Excerpt {
    /// Adds a row if the result fits into `room` rows of the screen.
    fn add(&mut self, row: usize, room: usize) {
        if self.rows.insert(row) && self.height() > room {
            self.rows.remove(&row);
        }
    }

    fn height(&self) -> usize {
        let next = self.rows.iter().skip(1);
        self.rows.len() + self.rows.iter().zip(next).filter(|(row, next)| *row + 1 < **next).count()
    }
}

/// Returns the rows to show in `room` rows of the screen, given the weights of some rows; `None` is
/// a gap. Rows without weight are taken from `within` only.
pub(super) fn choose(weights: &[(usize, u64)], within: RangeInclusive<usize>, room: usize) -> Vec<Option<usize>> {
    let mut hottest = weights.to_vec();
    hottest.sort_unstable_by_key(|&(row, weight)| (Reverse(weight), row));
    let most = hottest.first().map_or(0, |&(_, weight)| weight);
    hottest.retain(|&(_, weight)| weight > most / HOT);
    let mut excerpt = Excerpt::default();
    hottest.iter().for_each(|&(row, _)| excerpt.add(row, room));
    let hot: Vec<usize> = hottest.iter().map(|&(row, _)| row).filter(|row| excerpt.rows.contains(row)).collect();
    for distance in 1..=CONTEXT {
        for &row in &hot {
            let around = [row.checked_sub(distance), row.checked_add(distance)].into_iter().flatten();
            around.filter(|row| within.contains(row)).for_each(|row| excerpt.add(row, room));
        }
    }
    let mut shown = Vec::with_capacity(room);
    for &row in &excerpt.rows {
        if shown.last().is_some_and(|last: &Option<usize>| last.is_some_and(|last| last + 1 < row)) {
            shown.push(None);
        }
        shown.push(Some(row));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    fn chosen(weights: &[(usize, u64)], room: usize) -> String {
        let rows = choose(weights, 2..=30, room).into_iter();
        rows.map(|row| row.map_or("-".to_owned(), |row| row.to_string())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_hottest_rows_come_first_and_context_fills_the_room() {
        let weights = [(3, 10), (9, 90), (20, 50), (25, 1)];
        assert_eq!(chosen(&weights, 0), "");
        assert_eq!(chosen(&weights, 1), "9");
        assert_eq!(chosen(&weights, 2), "8 9", "a gap takes a row");
        assert_eq!(chosen(&weights, 3), "9 - 20");
        assert_eq!(chosen(&weights, 5), "3 - 9 - 20");
        assert_eq!(chosen(&weights, 8), "3 - 8 9 10 - 19 20");
        assert_eq!(chosen(&[(3, 10)], 4), "2 3 4 5", "row 1 is outside");
        assert_eq!(chosen(&[], 4), "");
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn what_is_chosen_fits(weights in prop::collection::vec((0usize..60, 1u64..99), 0..20), room in 0usize..20) {
            let shown = choose(&weights, 0..=59, room);
            prop_assert!(shown.len() <= room);
            let rows: Vec<usize> = shown.iter().flatten().copied().collect();
            prop_assert!(rows.is_sorted_by(|one, other| one < other));
            for pair in shown.windows(2) {
                prop_assert!(matches!(pair, [Some(one), Some(other)] if one + 1 == *other) || pair.contains(&None));
            }
            prop_assert!(weights.is_empty() || room == 0 || !rows.is_empty());
        }
    }
}

//! The order of rows on the screen. Rows that chance ranks would swap all the time: a row overtakes
//! another only if it is heavier by more than half the margin of its share, which is one standard
//! error, and at most once a second. With the whole margin, rows look unsorted.

use std::collections::HashMap;

use crate::session::Answer;
use crate::tally::measure::margin;
use crate::tally::text::Text;

/// Minimum time between two changes of the order, ns.
const CALM_NS: u64 = 1_000_000_000;
/// Rows whose order is calmed. Those below are not on the screen, or weigh little.
const CALM_ROWS: usize = 256;

/// The answer whose rows are ordered.
#[derive(Clone, Copy, Debug)]
pub struct OrderBasis {
    /// The weight of all samples, ns.
    pub base_ns: u64,
    /// The number of samples.
    pub samples: u64,
    /// The time of the answer, ns.
    pub now_ns: u64,
    /// Whether rows are to be in the order of their weights.
    pub is_exact: bool,
}

impl OrderBasis {
    /// The basis for the rows of an answer.
    pub fn new(answer: &Answer, is_exact: bool) -> OrderBasis {
        let (base_ns, samples) = (answer.window.total_ns, order_samples(answer));
        OrderBasis { base_ns, samples, now_ns: answer.now_ns, is_exact }
    }
}

/// The number of samples or, of memory, that of intervals.
fn order_samples(answer: &Answer) -> u64 {
    answer.window.total_ns.checked_div(answer.window.interval).unwrap_or(answer.window.samples)
}

/// A row to be ordered.
#[derive(Clone, Copy, Debug)]
pub struct OrderedRow<'a> {
    /// Its full name.
    pub full: &'a Text,
    /// The weight by which rows are sorted, ns.
    pub weight_ns: u64,
}

/// The order of the last answer.
#[derive(Clone, Debug, Default)]
pub struct RowOrder {
    names: Vec<Text>,
    changed_ns: u64,
}

impl RowOrder {
    /// Orders rows, which are sorted by weight; returns their indices. Rows keep the order of the
    /// last call, unless it is to be exact.
    pub fn arrange(&mut self, rows: &[OrderedRow<'_>], basis: OrderBasis) -> Vec<usize> {
        let OrderBasis { base_ns, samples, now_ns, is_exact } = basis;
        let is_due = now_ns.saturating_sub(self.changed_ns) >= CALM_NS || now_ns < self.changed_ns;
        let order = if is_exact {
            (0..rows.len()).collect()
        } else {
            let mut order = self.keep(rows);
            if is_due {
                overtake(&mut order, rows, (base_ns, samples));
            }
            order
        };
        if is_due || is_exact {
            self.changed_ns = now_ns;
        }
        self.names.clear();
        self.names.extend(order.iter().take(CALM_ROWS).map(|&index| rows[index].full.clone()));
        order
    }

    /// The known rows in their order, followed by the others.
    fn keep(&self, rows: &[OrderedRow<'_>]) -> Vec<usize> {
        let ranks: HashMap<&Text, usize> = self.names.iter().enumerate().map(|(rank, name)| (name, rank)).collect();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        // The sort is stable: rows without a rank keep the order of their weights.
        order.sort_by_key(|&index| ranks.get(rows[index].full).copied().unwrap_or(usize::MAX));
        order
    }
}

/// Moves each row up, above the highest row that it exceeds by more than its margin.
fn overtake(order: &mut Vec<usize>, rows: &[OrderedRow<'_>], (base_ns, samples): (u64, u64)) {
    let is_above = |one: &OrderedRow<'_>, other: &OrderedRow<'_>| {
        let half_margin_ns = margin(one.weight_ns, base_ns, samples).unwrap_or(0.0) * base_ns as f64 / 2.0;
        // A row without weight is below all others, however few samples there are.
        one.weight_ns > other.weight_ns
            && (other.weight_ns == 0 || (one.weight_ns - other.weight_ns) as f64 > half_margin_ns)
    };
    let mut calm: Vec<usize> = Vec::with_capacity(CALM_ROWS + 1);
    let mut rest = std::mem::take(order).into_iter();
    for index in rest.by_ref().take(2 * CALM_ROWS) {
        let position = calm.iter().position(|&above| is_above(&rows[index], &rows[above]));
        calm.insert(position.unwrap_or(calm.len()), index);
    }
    calm.extend(rest);
    *order = calm;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::random::SplitMix64;

    /// The names of the rows after an answer, in their order. Rows are given with their samples.
    fn arrange(order: &mut RowOrder, rows: &[(&str, u64)], now_ms: u64, is_exact: bool) -> String {
        let mut rows: Vec<(Text, u64)> = rows.iter().map(|(name, count)| (Text::from(*name), *count)).collect();
        rows.sort_by(|a, b| (std::cmp::Reverse(a.1), &a.0).cmp(&(std::cmp::Reverse(b.1), &b.0)));
        let total: u64 = rows.iter().map(|(_, count)| count).sum();
        let ordered: Vec<_> = rows.iter().map(|(full, count)| OrderedRow { full, weight_ns: *count }).collect();
        let order = order
            .arrange(&ordered, OrderBasis { base_ns: total, samples: total, now_ns: now_ms * 1_000_000, is_exact });
        order.iter().map(|&index| rows[index].0.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn order_changes_past_the_margin_and_once_a_second() {
        let mut order = RowOrder::default();
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 90), ("c", 10)], 5_000, false), "a b c");
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 105), ("c", 10)], 7_000, false), "a b c", "by chance");
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 300), ("c", 10)], 7_500, false), "a b c", "too soon");
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 300), ("c", 10)], 8_000, false), "b a c");
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 101), ("c", 102)], 8_100, true), "c b a", "exactly");
    }

    #[test]
    fn new_rows_find_their_place_and_empty_ones_sink() {
        let mut order = RowOrder::default();
        arrange(&mut order, &[("a", 100), ("b", 50)], 1_000, true);
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 50), ("x", 75)], 1_500, false), "a b x");
        assert_eq!(arrange(&mut order, &[("a", 100), ("b", 50), ("x", 75)], 2_000, false), "a x b");
        assert_eq!(arrange(&mut order, &[("a", 0), ("b", 1), ("x", 0)], 3_000, false), "b a x");
        assert_eq!(arrange(&mut order, &[("b", 1)], 4_000, false), "b", "rows may leave");
    }

    #[test]
    fn a_row_passes_all_that_it_exceeds() {
        let mut order = RowOrder::default();
        let many = [("a", 100), ("b", 99), ("c", 98), ("d", 97), ("e", 40)];
        assert_eq!(arrange(&mut order, &many, 1_000, false), "a b c d e");
        let risen = [("a", 100), ("b", 99), ("c", 98), ("d", 190), ("e", 185)];
        assert_eq!(arrange(&mut order, &risen, 2_000, false), "d e a b c");
    }

    /// The changes of the first ten rows in 100 answers of a load with equal rows.
    fn changes(is_exact: bool) -> usize {
        let names: Vec<String> = (0..20).map(|index| format!("f{index:02}")).collect();
        let (mut random, mut order, mut last, mut changes) = (SplitMix64(7), RowOrder::default(), String::new(), 0);
        for answer in 0..100 {
            let count = |random: &mut SplitMix64| (0..1000).filter(|_| random.next() < 0.05).count() as u64;
            let rows: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), count(&mut random))).collect();
            let now = arrange(&mut order, &rows, 1_000 + answer * 250, is_exact);
            let top = now.split(' ').take(10).collect::<Vec<_>>().join(" ");
            changes += usize::from(!last.is_empty() && top != last);
            last = top;
        }
        changes
    }

    #[test]
    fn chance_rarely_changes_the_order() {
        let (calm, exact) = (changes(false), changes(true));
        assert!(calm <= 25, "{calm} changes in 25 s");
        assert!(exact > 90, "{exact} changes without hysteresis");
    }
}

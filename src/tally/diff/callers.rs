//! The difference of the callers and callees of one row.

use std::cmp::Reverse;

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::tally::callers::{CallEdge, Callers};
use crate::tally::change::Difference;
use crate::tally::text::Text;

/// Returns the callers and callees of both with their differences. Both have the same center.
/// `bases_ns` are the weights that shares refer to, before and now: those whose share has changed
/// most come first.
pub fn diff_callers(
    now: &Callers,
    before: &Callers,
    bases_ns: (u64, u64),
    (test, bursts): (&SignificanceTest, &Burstiness),
) -> Callers {
    let known = if now.short.is_empty() { before } else { now };
    let burstiness = bursts.row(&Text::from(now.full.as_str()));
    let (flat_ns, cum_ns, changes) =
        test.flat_and_cum((now.flat_ns, now.cum_ns), (before.flat_ns, before.cum_ns), Some(burstiness));
    Callers {
        flat_ns,
        cum_ns,
        whole_ns: now.cum_ns.saturating_add(before.cum_ns),
        changes: Some(changes),
        callers: diff_edges(&now.callers, &before.callers, bases_ns, (test, bursts)),
        callees: diff_edges(&now.callees, &before.callees, bases_ns, (test, bursts)),
        ..known.clone()
    }
}

fn diff_edges(
    now: &[CallEdge],
    before: &[CallEdge],
    bases_ns: (u64, u64),
    (test, bursts): (&SignificanceTest, &Burstiness),
) -> Vec<CallEdge> {
    fn find<'a>(edges: &'a [CallEdge], full: &Text) -> Option<&'a CallEdge> {
        edges.iter().find(|edge| edge.full == *full)
    }
    let weight = |edges: &[CallEdge], full: &Text| find(edges, full).map_or(0, |edge| edge.weight_ns);
    let gone = before.iter().filter(|edge| !now.iter().any(|other| other.full == edge.full));
    let diff = |edge: &CallEdge| {
        let children = |edges| find(edges, &edge.full).map_or(&[][..], |edge| &edge.children);
        let children = diff_edges(children(now), children(before), bases_ns, (test, bursts));
        let test = test.with_burstiness(bursts.row(&edge.full).1);
        let before_ns = weight(before, &edge.full);
        let Difference { ns, change } = test.difference(weight(now, &edge.full), before_ns);
        CallEdge { weight_ns: ns, change: Some(change), before_ns, children, ..edge.clone() }
    };
    let mut edges: Vec<CallEdge> = now.iter().chain(gone).map(diff).collect();
    // Both shares over their common denominator.
    let size = |edge: &CallEdge| {
        let now_ns = weight(now, &edge.full);
        let share = |ns: u64, base_ns: u64| u128::from(ns) * u128::from(base_ns.max(1));
        share(now_ns, bases_ns.0).abs_diff(share(edge.before_ns, bases_ns.1))
    };
    edges.sort_by_cached_key(|edge| (Reverse(size(edge)), edge.full.clone()));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_whose_share_has_changed_most_is_first() {
        let callers = |weights: &[(&str, u64)]| Callers {
            callers: weights
                .iter()
                .map(|&(name, weight_ns)| CallEdge { full: name.into(), weight_ns, ..CallEdge::default() })
                .collect(),
            ..Callers::default()
        };
        // As many nanoseconds of half as many are twice the share.
        let (before, now) = (callers(&[("more", 100), ("less", 300)]), callers(&[("less", 140), ("more", 100)]));
        let judge = (&SignificanceTest::accept_all(), &Burstiness::default());
        let diff = diff_callers(&now, &before, (1000, 500), judge);
        let rows: Vec<_> =
            diff.callers.iter().map(|edge| (edge.full.as_str(), edge.before_ns, edge.weight_ns)).collect();
        assert_eq!(rows, [("more", 100, 0), ("less", 300, 160)]);
    }
}

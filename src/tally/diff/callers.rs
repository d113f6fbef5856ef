//! The difference of the callers and callees of one row.

use std::cmp::Reverse;

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::tally::callers::{CallEdge, Callers};
use crate::tally::change::Difference;
use crate::tally::text::Text;

/// Returns the callers and callees of both with their differences. Both have the same center.
pub fn diff_callers(now: &Callers, before: &Callers, (test, bursts): (&SignificanceTest, &Burstiness)) -> Callers {
    let known = if now.short.is_empty() { before } else { now };
    let burstiness = bursts.row(&Text::from(now.full.as_str()));
    let (flat_ns, cum_ns, changes) =
        test.flat_and_cum((now.flat_ns, now.cum_ns), (before.flat_ns, before.cum_ns), Some(burstiness));
    Callers {
        flat_ns,
        cum_ns,
        whole_ns: now.cum_ns.saturating_add(before.cum_ns),
        changes: Some(changes),
        callers: diff_edges(&now.callers, &before.callers, (test, bursts)),
        callees: diff_edges(&now.callees, &before.callees, (test, bursts)),
        ..known.clone()
    }
}

fn diff_edges(
    now: &[CallEdge],
    before: &[CallEdge],
    (test, bursts): (&SignificanceTest, &Burstiness),
) -> Vec<CallEdge> {
    fn find<'a>(edges: &'a [CallEdge], full: &Text) -> Option<&'a CallEdge> {
        edges.iter().find(|edge| edge.full == *full)
    }
    let weight = |edges: &[CallEdge], full: &Text| find(edges, full).map_or(0, |edge| edge.weight_ns);
    let gone = before.iter().filter(|edge| !now.iter().any(|other| other.full == edge.full));
    let diff = |edge: &CallEdge| {
        let children = |edges| find(edges, &edge.full).map_or(&[][..], |edge| &edge.children);
        let children = diff_edges(children(now), children(before), (test, bursts));
        let test = test.with_burstiness(bursts.row(&edge.full).1);
        let Difference { ns, change } = test.difference(weight(now, &edge.full), weight(before, &edge.full));
        CallEdge { weight_ns: ns, change: Some(change), children, ..edge.clone() }
    };
    let mut edges: Vec<CallEdge> = now.iter().chain(gone).map(diff).collect();
    edges.sort_by(|a, b| (Reverse(a.weight_ns), &a.full).cmp(&(Reverse(b.weight_ns), &b.full)));
    edges
}

//! The difference of two flame graphs.

use std::cmp::Ordering;
use std::ops::Range;

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::tally::flame::{Flame, FlameBox};

/// Merges two flame graphs. As pprof draws differences, a box is as wide as it is in both together.
/// Boxes narrower than `least_share` of the whole are left out.
pub fn diff_flames(
    now: &Flame,
    before: &Flame,
    (test, bursts): (&SignificanceTest, &Burstiness),
    least_share: f64,
) -> Flame {
    let mut merged = Flame { boxes: Vec::new(), hidden: now.hidden.max(before.hidden) };
    let root = |flame: &Flame| (!flame.boxes.is_empty()).then_some(0);
    let mut pairs = vec![BoxPair { parent: 0, now: root(now), before: root(before) }];
    if pairs[0].now.is_none() && pairs[0].before.is_none() {
        return merged;
    }
    let mut least_ns = 0;
    while let Some(&BoxPair { parent, now: one, before: other }) = pairs.get(merged.boxes.len()) {
        let ones = [one.map(|index| &now.boxes[index]), other.map(|index| &before.boxes[index])];
        let sum =
            |of: fn(&FlameBox) -> u64| ones.iter().flatten().fold(0, |sum: u64, known| sum.saturating_add(of(known)));
        let weight = |known: Option<&FlameBox>| known.map_or(0, |known| known.weight_ns);
        let Some(known) = ones[0].or(ones[1]) else { break };
        let weight_ns = sum(|known| known.weight_ns);
        let (index, start) = (merged.boxes.len(), pairs.len());
        if index == 0 {
            least_ns = (weight_ns as f64 * least_share).ceil() as u64;
        }
        let children = |known: Option<&FlameBox>| known.map_or(0..0, |known| known.children.clone());
        for pair in pair_by_name(now, before, children(ones[0]), children(ones[1])) {
            let [one, other] = [pair.0.map(|at| &now.boxes[at]), pair.1.map(|at| &before.boxes[at])];
            if weight(one).saturating_add(weight(other)) < least_ns {
                merged.hidden += 1;
            } else {
                pairs.push(BoxPair { parent: index, now: pair.0, before: pair.1 });
            }
        }
        let test = test.with_burstiness(bursts.row(&known.full).1);
        merged.boxes.push(FlameBox {
            parent,
            children: start..pairs.len(),
            inlined: ones.iter().flatten().all(|known| known.inlined),
            weight_ns,
            self_ns: sum(|known| known.self_ns),
            difference: Some(test.difference(weight(ones[0]), weight(ones[1]))),
            ..known.clone()
        });
    }
    merged
}

/// The boxes of both graphs with the same path.
#[derive(Clone, Copy)]
struct BoxPair {
    parent: usize,
    now: Option<usize>,
    before: Option<usize>,
}

/// Pairs the boxes of both graphs by name. Both are sorted by name.
fn pair_by_name(
    now: &Flame,
    before: &Flame,
    mut one: Range<usize>,
    mut other: Range<usize>,
) -> Vec<(Option<usize>, Option<usize>)> {
    let mut pairs = Vec::with_capacity(one.len().max(other.len()));
    loop {
        let order = match (one.is_empty(), other.is_empty()) {
            (true, true) => return pairs,
            (false, true) => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, false) => now.boxes[one.start].full.cmp(&before.boxes[other.start].full),
        };
        pairs.push(match order {
            Ordering::Less => (one.next(), None),
            Ordering::Equal => (one.next(), other.next()),
            Ordering::Greater => (None, other.next()),
        });
    }
}

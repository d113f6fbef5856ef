//! Shares of a window's parts, and what its marks see.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sigtop::profile::window::{BUCKET_NS, Span};
use sigtop::symbols::scenario::scenario;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Besides, Tallier};
use sigtop::tally::trend::{Direction, PARTS};

use crate::stacks::{Sample, played, query, samples};

const TRENDS: Besides = Besides { trends: true, centre: None, lines: None, flame: None, total: false };

/// By row that has a flat: its share in each part.
fn oracle(samples: &[Sample], query: &Query) -> BTreeMap<String, Vec<f64>> {
    let Span::Last { ns, now_ns } = query.span else { return BTreeMap::new() };
    let (mut all, mut own) = ([0u64; PARTS], BTreeMap::<String, [u64; PARTS]>::new());
    for sample in samples.iter().filter(|sample| sample.is_in(query.span)) {
        let age = now_ns / BUCKET_NS - sample.at_ms * 1_000_000 / BUCKET_NS;
        let part = PARTS - 1 - (age * PARTS as u64 / ns.div_ceil(BUCKET_NS)) as usize;
        all[part] += sample.weight_ms;
        if let Some(stack) = sample.filtered(query) {
            own.entry(sample.steps(&stack, query.group).pop().unwrap().0).or_default()[part] += sample.weight_ms;
        }
    }
    let shares = |own: [u64; PARTS]| (0..PARTS).map(|part| own[part] as f64 / all[part].max(1) as f64).collect();
    own.into_iter().map(|(name, own)| (name, shares(own))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shares_are_the_oracles(samples in samples(), queries in prop::collection::vec(query(), 1..3)) {
        let played = played(&samples);
        let mut tallier = Tallier::default();
        for query in &queries {
            let answer = tallier.answer(&played.profile, &played.names, query, TRENDS);
            let plain = tallier.table(&played.profile, &played.names, query);
            prop_assert_eq!(&plain, &answer.table, "trends change no number");
            let rows = if query.span == Span::Total { 0 } else { plain.rows.len() };
            prop_assert_eq!(answer.trends.rows.len(), rows);
            let oracle = oracle(&samples, query);
            for (row, trend) in plain.rows.iter().zip(&answer.trends.rows) {
                let expected = oracle.get(row.full.as_str()).cloned().unwrap_or(vec![0.0; PARTS]);
                let off = expected.iter().zip(trend.shares).map(|(share, told)| (share - f64::from(told)).abs());
                prop_assert!(off.fold(0.0, f64::max) < 1e-6, "{}: {:?} is not {expected:?}", row.full, trend.shares);
            }
        }
    }
}

#[test]
fn what_changes_is_marked_and_what_ran_before_the_window_is_no_row() {
    let text = "process 7 ./a\n\
        at 0s..10s prof 10ms main;f x 300\nat 0s..10s prof 10ms main;gone x 100\nat 0s..20s prof 10ms main;same x 800\n\
        at 10s..20s prof 10ms main;g x 300\nat 10s..20s prof 10ms main;f x 100\nnow 19.95s";
    let played = scenario(text).unwrap();
    let span = Span::Last { ns: 10_000_000_000, now_ns: played.now_ns };
    let query = Query { span, ..Query::default() };
    let answer = Tallier::default().answer(&played.profile, &played.names, &query, TRENDS);
    let told =
        answer.table.rows.iter().zip(&answer.trends.rows).map(|(row, trend)| (row.full.as_str(), trend.direction));
    let expected =
        [("same", Direction::Steady), ("g", Direction::Rising), ("f", Direction::Falling), ("main", Direction::Steady)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

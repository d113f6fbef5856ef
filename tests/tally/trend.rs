//! Compares the trends of a window with an oracle, and tests the marks derived from them.

use std::collections::BTreeMap;

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::profile::totals::{BUCKET_NS, Span};
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Extras, Tallier, Tallies};
use sigtop::tally::trend::{Direction, PARTS};

use crate::stacks::{Sample, played, query, samples, text};

const TRENDS: Extras = Extras {
    trends: true,
    center: None,
    unfolded: &[],
    details: false,
    lines: None,
    flame: None,
    total: false,
    reuse_samples: false,
};

/// Returns the share in each part, by row that has a flat.
fn oracle(samples: &[Sample], query: &Query) -> BTreeMap<String, Vec<f64>> {
    let Span::Last { ns, now_ns } = query.span else { return BTreeMap::new() };
    let (mut all, mut own) = ([0u64; PARTS], BTreeMap::<String, [u64; PARTS]>::new());
    // A part is a ninth of the window. The newest part combines the ninth under way and the one
    // before.
    let slice = |at_ns: u64| at_ns / BUCKET_NS * (PARTS as u64 + 1) / ns.div_ceil(BUCKET_NS);
    for sample in samples.iter().filter(|sample| sample.is_in(query.span)) {
        let age = (slice(now_ns) - slice(sample.at_ms * 1_000_000)) as usize;
        let Some(part) = PARTS.checked_sub(age) else { continue };
        let part = part.min(PARTS - 1);
        all[part] += sample.weight_ms;
        if let Some(stack) = sample.filtered(query) {
            own.entry(sample.steps(&stack, query.group).pop().unwrap().0).or_default()[part] += sample.weight_ms;
        }
    }
    let shares = |own: [u64; PARTS]| (0..PARTS).map(|part| own[part] as f64 / all[part].max(1) as f64).collect();
    own.into_iter().map(|(name, own)| (name, shares(own))).collect()
}

proptest! {
    #![proptest_config(property(300))]

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
                let off = expected.iter().zip(trend.shares).map(|(share, figures)| (share - f64::from(figures)).abs());
                prop_assert!(off.fold(0.0, f64::max) < 1e-6, "{}: {:?} is not {expected:?}", row.full, trend.shares);
            }
        }
    }

    /// Samples arrive in pieces, and the window moves forward or back.
    #[test]
    fn kept_trends_are_those_of_a_new_tallier(
        samples in samples(),
        query in query(),
        nows_ms in prop::collection::vec(0..6_000u64, 1..6),
        goes_back in prop::bool::weighted(0.2),
        window_ms in 1..4_500u64,
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
        let mut nows_ms = nows_ms;
        if !goes_back {
            nows_ms.sort_unstable();
        }
        let mut pieces = script.arrivals.chunks(script.arrivals.len().div_ceil(nows_ms.len()));
        for now_ms in nows_ms {
            pieces.next().unwrap_or_default().iter().for_each(|arrival| profile.apply(arrival.clone()));
            profile.add_owner_frames();
            for request in names.catch_up(&profile) {
                names.absorb(script.reply(&request));
            }
            let span = Span::Last { ns: window_ms * 1_000_000, now_ns: now_ms * 1_000_000 };
            let query = Query { span, ..query.clone() };
            let kept = tallier.answer(&profile, &names, &query, TRENDS);
            let fresh = Tallier::default().answer(&profile, &names, &query, TRENDS);
            let shares = |answer: &Tallies| answer.trends.rows.iter().map(|trend| trend.shares).collect::<Vec<_>>();
            prop_assert_eq!(shares(&kept), shares(&fresh));
        }
    }
}

#[test]
fn what_changes_is_marked_and_what_ran_before_the_window_is_no_row() {
    let text = "process 7 ./a\n\
        at 0s..7.5s prof 10ms main;f x 225\nat 0s..7.5s prof 10ms main;gone x 75\nat 0s..20s prof 10ms main;same x 800\n\
        at 7.5s..20s prof 10ms main;g x 375\nat 7.5s..20s prof 10ms main;f x 125\nnow 19.95s";
    let played = scenario(text).unwrap();
    let span = Span::Last { ns: 10_000_000_000, now_ns: played.now_ns };
    let query = Query { span, ..Query::default() };
    let answer = Tallier::default().answer(&played.profile, &played.names, &query, TRENDS);
    let figures =
        answer.table.rows.iter().zip(&answer.trends.rows).map(|(row, trend)| (row.full.as_str(), trend.direction));
    let expected =
        [("same", Direction::Steady), ("g", Direction::Rising), ("f", Direction::Falling), ("main", Direction::Steady)];
    assert_eq!(figures.collect::<Vec<_>>(), expected);
}

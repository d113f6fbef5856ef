//! The details of one row: the heaviest way to it, when it ran, and in which threads.

use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::profile::totals::Span;
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::activity::RowActivity;
use sigtop::tally::call_paths::CallPath;
use sigtop::tally::callers::{CallEdge, Callers};
use sigtop::tally::query::{Query, Sort};
use sigtop::tally::tallier::{Extras, Tallier};

use crate::callers::{branch_oracle, one_of, oracle};
use crate::property::property;
use crate::stacks::{everything, played, query, samples, text};

fn details(
    tallier: &mut Tallier,
    (profile, names): (&Profile, &Names),
    query: &Query,
    center: &str,
) -> (Callers, RowActivity) {
    let extras = Extras { center: Some(center), details: true, ..Extras::default() };
    let answer = tallier.answer(profile, names, query, extras);
    (answer.callers.unwrap(), answer.activity.unwrap_or_default())
}

/// The heaviest way from the center to the root. Of functions of one name in several modules, any
/// names its module.
fn way(callers: &Callers) -> Vec<(&str, u64)> {
    let edges = std::iter::successors(callers.callers.first(), |edge| edge.children.first());
    edges.map(|edge| (edge.full.as_str(), edge.weight_ns)).collect()
}

proptest! {
    #![proptest_config(property(500))]

    #[test]
    fn the_heaviest_way_is_the_oracles(samples in samples(), query in query(), centre in any::<prop::sample::Index>()) {
        let centre = one_of(&samples, &query, centre);
        let played = played(&samples);
        let (callers, _) = details(&mut Tallier::default(), (&played.profile, &played.names), &query, &centre);
        let mut path = CallPath { is_callee: false, names: Vec::new() };
        let mut edges: &[CallEdge] = &callers.callers;
        while let Some(edge) = edges.first() {
            path.names.push(edge.full.clone());
            let found: Vec<(String, u64)> =
                edge.children.iter().map(|edge| (edge.full.to_string(), edge.weight_ns)).collect();
            prop_assert_eq!(found, branch_oracle(&samples, &query, &centre, &path), "{:?}", path);
            edges = &edge.children;
        }
    }

    /// The weights of a row in all threads add up to its cum.
    #[test]
    fn threads_add_up_to_cum(samples in samples(), query in query(), centre in any::<prop::sample::Index>()) {
        let centre = one_of(&samples, &query, centre);
        let played = played(&samples);
        let (_, activity) = details(&mut Tallier::default(), (&played.profile, &played.names), &query, &centre);
        let (_, cum_ns, ..) = oracle(&samples, &query, &centre);
        prop_assert_eq!(activity.threads.iter().map(|part| part.weight_ns).sum::<u64>(), cum_ns);
        prop_assert!(activity.threads.is_sorted_by_key(|part| std::cmp::Reverse(part.weight_ns)));
        prop_assert!(activity.shares.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", activity);
    }

    #[test]
    fn a_kept_tallier_answers_as_a_new_one(
        samples in samples(),
        questions in prop::collection::vec((query(), any::<prop::sample::Index>()), 1..5),
        pieces in 1..6usize,
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
        let mut asked = Vec::new();
        for piece in script.arrivals.chunks(script.arrivals.len().div_ceil(pieces)) {
            piece.iter().for_each(|arrival| profile.apply(arrival.clone()));
            profile.add_owner_frames();
            let late = std::mem::replace(&mut asked, names.catch_up(&profile));
            for (query, centre) in &questions {
                let centre = &one_of(&samples, query, *centre);
                let fresh = details(&mut Tallier::default(), (&profile, &names), query, centre);
                let kept = details(&mut tallier, (&profile, &names), query, centre);
                prop_assert_eq!(way(&kept.0), way(&fresh.0));
                prop_assert_eq!(kept.1, fresh.1);
            }
            late.iter().for_each(|request| names.absorb(script.reply(request)));
        }
    }
}

#[test]
fn the_last_minute_has_the_share_of_all_time() {
    let text = "process 7 ./a\nat 1s prof 90ms main;f\nat 59s prof 10ms main;f;g\nat 59s prof 30ms main\n\
        at 61s prof 10ms main;h\nat 63s prof 20ms main;f\nat 63s prof 60ms main;h";
    let played = scenario(text).unwrap();
    let shares = |center: &str, span| {
        let query = Query { span, ..everything(Sort::Flat) };
        let (_, activity) = details(&mut Tallier::default(), (&played.profile, &played.names), &query, center);
        let parts = activity.shares.iter().rev().map(|share| (share * 100.0).round() as u32);
        parts.enumerate().filter(|(_, percent)| *percent > 0).collect::<Vec<_>>()
    };
    let last = |now_ns| Span::Last { ns: 10_000_000_000, now_ns };
    assert_eq!(shares("f", last(63_500_000_000)), [(0, 25), (2, 25)], "the first second is over a minute ago");
    assert_eq!(shares("f", Span::Total), [(0, 25), (2, 25)]);
    assert_eq!(shares("h", Span::Total), [(0, 75), (1, 100)]);
    assert_eq!(shares("f", last(59_500_000_000)), [(0, 25), (29, 100)]);
}

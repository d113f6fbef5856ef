//! Spans of the past and differences from a baseline, against oracles that add up all samples.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sigtop::link::wire::Clock;
use sigtop::profile::window::{BUCKET_NS, Span};
use sigtop::symbols::scenario::Script;
use sigtop::tally::query::{Query, Sort};
use sigtop::track::desk::Desk;
use sigtop::track::{Facts, Past, Question};

use crate::stacks::{Sample, counted, is_listed, query, samples, text};

/// By name: flat and cum.
type Sums = BTreeMap<String, (i128, i128)>;

fn sums(samples: &[Sample], query: &Query) -> Sums {
    let mut sums = Sums::new();
    for (steps, weight) in counted(samples, query) {
        let weight = i128::from(weight);
        sums.entry(steps.last().unwrap().0.clone()).or_default().0 += weight;
        for name in steps.into_iter().map(|step| step.0).collect::<BTreeSet<_>>() {
            sums.entry(name).or_default().1 += weight;
        }
    }
    sums.retain(|name, (flat, _)| is_listed(query, name, *flat as u64));
    sums
}

/// What the first has more than the second.
fn less(now: &Sums, before: &Sums) -> Sums {
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let of = |sums: &Sums, name: &String| sums.get(name).copied().unwrap_or_default();
    let one = |name: &String| {
        let (now, before) = (of(now, name), of(before, name));
        (name.clone(), (now.0 - before.0, now.1 - before.1))
    };
    names.into_iter().map(one).collect()
}

fn told(table: &sigtop::tally::table::Table) -> Sums {
    let signed = |ns: u64, negative: bool| if negative { -i128::from(ns) } else { ns.into() };
    let row = |row: &sigtop::tally::table::Row| {
        let (flat, cum) = row.changes.map_or((false, false), |changes| (changes.flat.negative, changes.cum.negative));
        (row.full.to_string(), (signed(row.flat_ns, flat), signed(row.cum_ns, cum)))
    };
    table.rows.iter().map(row).collect()
}

fn facts() -> Facts {
    Facts::unknown(Clock::Prof)
}

/// A desk with these samples, all of which were taken before `until_ms`, and named.
fn desk(script: &Script, question: Question, until_ms: u64) -> Desk {
    let mut desk = Desk::new(Clock::Prof, question);
    arrive(&mut desk, script, 0, until_ms);
    desk
}

fn arrive(desk: &mut Desk, script: &Script, from_ms: u64, until_ms: u64) {
    let time = from_ms * 1_000_000..until_ms * 1_000_000;
    for (index, arrival) in script.arrivals.iter().enumerate() {
        let is_sample =
            matches!(&arrival.event, sigtop::link::wire::Event::Said(sigtop::link::wire::Message::Sample(..)));
        if is_sample && time.contains(&arrival.at_ns) || !is_sample && from_ms == 0 && index < script.arrivals.len() {
            desk.profile.apply(arrival.clone());
        }
    }
    for request in desk.names.catch_up(&desk.profile) {
        desk.names.absorb(script.reply(&request));
    }
}

fn question(query: &Query, ms: u64) -> Question {
    let Query { filters, sort, group, roots, .. } = query.clone();
    Question { window_ns: Some(ms * 1_000_000), filters, sort, group, roots, ..Question::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_span_of_the_past_is_the_sum_of_its_samples(
        samples in samples(),
        query in query(),
        now_ms in 0..5_000u64,
        walks in prop::collection::vec((0..60u64, 1..60u64), 1..6),
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let mut desk = desk(&script, question(&query, 1000), 10_000);
        desk.freeze(now_ms * 1_000_000);
        for (back, ticks) in walks {
            desk.ask(Question { past: Some(Past { back, ticks }), timeline: true, ..question(&query, 1000) });
            let answer = desk.answer(9_999_000_000, facts());
            let now_ns = (now_ms * 1_000_000).saturating_sub(back * BUCKET_NS);
            let span = Span::Last { ns: ticks * BUCKET_NS, now_ns };
            prop_assert_eq!(told(&answer.window), sums(&samples, &Query { span, ..query.clone() }));
            let heat = answer.timeline.unwrap().sum(back + ticks - 1, back);
            if let Some(heat) = heat.filter(|_| now_ms / 100 >= back) {
                prop_assert_eq!(heat, answer.window.kept_ns);
            }
        }
    }

    #[test]
    fn differences_are_those_of_the_sums(
        samples in samples(),
        query in query(),
        (mark_ms, then_ms) in (0..5_000u64, 0..5_000u64),
        ms in 1..4_500u64,
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let early: Vec<Sample> = samples.iter().filter(|sample| sample.at_ms < mark_ms).cloned().collect();
        let mut desk = desk(&script, question(&query, ms), mark_ms);
        desk.compare(true, mark_ms * 1_000_000);
        arrive(&mut desk, &script, mark_ms, 10_000);
        let answer = desk.answer(then_ms * 1_000_000, facts());
        let of = |samples: &[Sample], span: Span| sums(samples, &Query { span, ..query.clone() });
        let last = |now_ms: u64| Span::Last { ns: ms * 1_000_000, now_ns: now_ms * 1_000_000 };
        prop_assert_eq!(told(&answer.window), less(&of(&samples, last(then_ms)), &of(&early, last(mark_ms))));
        prop_assert_eq!(told(&answer.total), less(&of(&samples, Span::Total), &of(&early, Span::Total)));
        let sizes: Vec<u64> = answer.window.rows.iter().map(|row| match query.sort {
            Sort::Flat => row.flat_ns,
            Sort::Cum => row.cum_ns,
            Sort::Name => 0,
        }).collect();
        prop_assert!(sizes.is_sorted_by(|a, b| a >= b));
        desk.compare(false, 0);
        let plain = desk.answer(then_ms * 1_000_000, facts());
        prop_assert_eq!(told(&plain.window), of(&samples, last(then_ms)));
        prop_assert!(plain.window.rows.iter().all(|row| row.changes.is_none()));
    }
}

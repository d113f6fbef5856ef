//! Compares incremental sums with sums computed from scratch, after random sequences of events.

use std::sync::Arc;

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::profile::totals::Span;
use sigtop::symbols::scenario::Script;
use sigtop::symbols::{FunctionId, Names};
use sigtop::tally::callers::CallEdge;
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::{Query, Sort};
use sigtop::tally::tallier::{Extras, Tallier, Tallies};
use sigtop::tally::text::Text;
use sigtop::wire::{Arrival, Clock, ConnectionEvent, Message};

use crate::stacks::{query, samples, text};

/// An event between two answers.
#[derive(Clone, Debug)]
enum Happening {
    /// This many samples arrive.
    Samples(usize),
    /// The window ends at this time (ms) and has this length (ms).
    Turn(u64, u64),
    /// Time advances by this many ms.
    Pass(u64),
    Freeze,
    Thaw,
    ClearWindow,
    Reset,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (1..6usize).prop_map(Happening::Samples),
        2 => (0..5_000u64, 0..4_500u64).prop_map(|(now_ms, ms)| Happening::Turn(now_ms, ms)),
        6 => (0..700u64).prop_map(Happening::Pass),
        1 => Just(Happening::Freeze),
        1 => Just(Happening::Thaw),
        1 => Just(Happening::ClearWindow),
        1 => Just(Happening::Reset),
    ]
}

/// Clears the fields that depend on which of several functions of the same name was sampled first,
/// because stacks with owners are created when they are first sampled.
fn certain(mut answer: Tallies, question: &Query) -> Tallies {
    if question.owners().is_empty() {
        return answer;
    }
    let tables = [Some(&mut answer.table), answer.total.as_mut()];
    for row in tables.into_iter().flatten().flat_map(|table| &mut Arc::make_mut(table).rows) {
        (row.function, row.module, row.is_own) = (FunctionId(0), Text::default(), true);
    }
    if let Some(callers) = &mut answer.callers {
        callers.module = Text::default();
        clear_edges(&mut callers.callers);
        clear_edges(&mut callers.callees);
    }
    answer.lines.iter_mut().for_each(|lines| lines.module = Text::default());
    answer
        .flame
        .iter_mut()
        .flat_map(|flame| &mut Arc::make_mut(flame).boxes)
        .for_each(|shown| (shown.module, shown.is_own) = (Text::default(), true));
    answer
}

fn clear_edges(edges: &mut [CallEdge]) {
    for edge in edges {
        (edge.module, edge.is_own) = (Text::default(), true);
        clear_edges(&mut edge.children);
    }
}

fn same(kept: &Tallies, fresh: &Tallies) -> Result<(), TestCaseError> {
    prop_assert_eq!(&kept.table, &fresh.table);
    prop_assert_eq!(&kept.total, &fresh.total);
    prop_assert_eq!(&kept.callers, &fresh.callers);
    prop_assert_eq!(&kept.activity, &fresh.activity);
    prop_assert_eq!(&kept.lines, &fresh.lines);
    prop_assert_eq!(&kept.flame, &fresh.flame);
    prop_assert_eq!(&kept.trends, &fresh.trends);
    Ok(())
}

proptest! {
    #![proptest_config(property(400))]

    /// All stacks and names are known from the start, so only the samples change.
    #[test]
    fn kept_sums_are_those_of_a_new_tallier(
        samples in samples(),
        question in query(),
        events in prop::collection::vec((happening(), any::<bool>(), any::<bool>(), any::<bool>()), 1..24),
        bottom_up in any::<bool>(),
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names) = (Profile::default(), Names::default());
        script.arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
        profile.add_owner_frames();
        names.catch_up(&profile).iter().for_each(|request| names.absorb(script.reply(request)));
        profile.reset(Clock::Prof);
        let mut coming = script.arrivals.iter().skip(1).cycle();
        let is_sample = |arrival: &&Arrival| matches!(arrival.event, ConnectionEvent::Received(Message::Sample(..)));
        let mut since = script.arrivals.iter().filter(is_sample).cycle();
        let mut tallier = Tallier::default();
        let form = FlameQuery { bottom_up, ..FlameQuery::default() };
        let (mut now_ms, mut ms) = (500, 1_500);
        for (event, with_flame, with_centre, again) in events {
            match event {
                Happening::Samples(count) => coming.by_ref().take(count).for_each(|arrival| profile.apply(arrival.clone())),
                Happening::Turn(to_ms, length_ms) => (now_ms, ms) = (to_ms, length_ms),
                Happening::Pass(by_ms) => now_ms += by_ms,
                Happening::Freeze => profile.freeze(),
                Happening::Thaw => profile.thaw(),
                Happening::ClearWindow => profile.clear_history(Clock::Prof),
                Happening::Reset => profile.reset(Clock::Prof),
            }
            let span = match question.span {
                Span::Total => Span::Total,
                Span::Last { .. } => Span::Last { ns: ms * 1_000_000, now_ns: now_ms * 1_000_000 },
            };
            let query = Query { span, ..question.clone() };
            let besides = Extras {
                center: with_centre.then_some("a"),
                unfolded: &[],
                details: true,
                lines: with_centre.then_some("b"),
                flame: with_flame.then_some(&form),
                total: true,
                trends: true,
                reuse_samples: false,
            };
            let kept = tallier.answer(&profile, &names, &query, besides);
            let fresh = Tallier::default().answer(&profile, &names, &query, besides);
            let kept_samples = kept.total.as_ref().map_or(0, |total| total.samples);
            same(&certain(kept, &query), &certain(fresh, &query))?;
            // Before the first sample there is no earlier answer to reuse.
            if again && kept_samples > 0 {
                // More results are requested for the same samples. Later samples are not included.
                // The activity is of all samples.
                let more = Extras {
                    center: Some("a"),
                    details: false,
                    lines: Some("b"),
                    flame: Some(&form),
                    trends: false,
                    ..besides
                };
                let anew = |profile: &Profile| {
                    certain(Tallier::default().answer(profile, &names, &query, more), &query)
                };
                let before = anew(&profile);
                since.by_ref().take(3).for_each(|arrival| profile.apply(arrival.clone()));
                let (now, stands) = (anew(&profile), Extras { reuse_samples: true, ..more });
                let stood = certain(tallier.answer(&profile, &names, &query, stands), &query);
                // If facts about stacks have changed since, all sums are computed again.
                let is_news = (&stood.table, &stood.total) == (&now.table, &now.total);
                same(&stood, if is_news { &now } else { &before })?;
            }
        }
    }
}

#[test]
fn another_view_of_the_same_leaves_out_what_came_since() {
    let script = Script::read(include_str!("../scenarios/brief.txt")).expect("a scenario");
    let (mut profile, mut names) = (Profile::default(), Names::default());
    script.arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
    names.catch_up(&profile).iter().for_each(|request| names.absorb(script.reply(request)));
    let query = Query { span: Span::Last { ns: 2_000_000_000, now_ns: 1_000_000_000 }, ..Query::default() };
    let mut tallier = Tallier::default();
    let samples = |tallier: &mut Tallier, profile: &Profile, besides| {
        let answer = tallier.answer(profile, &names, &query, Extras { total: true, ..besides });
        (answer.table.samples, answer.total.map(|total| total.samples), answer.callers.map(|callers| callers.cum_ns))
    };
    let (first, ..) = samples(&mut tallier, &profile, Extras::default());
    let sample =
        script.arrivals.iter().rfind(|arrival| matches!(arrival.event, ConnectionEvent::Received(Message::Sample(..))));
    profile.apply(sample.expect("it has some").clone());
    let centre = Extras { center: Some("main"), ..Extras::default() };
    let stood = samples(&mut tallier, &profile, Extras { reuse_samples: true, ..centre });
    assert_eq!((stood.0, stood.1), (first, Some(first)));
    assert!(stood.2.is_some_and(|cum_ns| cum_ns > 0));
    assert_eq!(samples(&mut tallier, &profile, centre).1, Some(first + 1));
}

#[test]
fn what_is_as_it_was_is_told_again_and_nothing_else() {
    let script = Script::read(include_str!("../scenarios/brief.txt")).expect("a scenario");
    let (mut profile, mut names) = (Profile::default(), Names::default());
    script.arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
    let requests = names.catch_up(&profile);
    let query = Query { span: Span::Last { ns: 2_000_000_000, now_ns: 1_000_000_000 }, ..Query::default() };
    let (mut tallier, form) = (Tallier::default(), FlameQuery::default());
    let besides = Extras { total: true, trends: true, flame: Some(&form), ..Extras::default() };
    let shared = |one: &Tallies, other: &Tallies| {
        let flames = one.flame.iter().zip(&other.flame).all(|(one, other)| Arc::ptr_eq(one, other));
        [Arc::ptr_eq(&one.table, &other.table), Arc::ptr_eq(&one.trends, &other.trends), flames]
    };
    let before = tallier.answer(&profile, &names, &query, besides);
    let centre = Extras { center: Some("main"), ..besides };
    assert_eq!(shared(&before, &tallier.answer(&profile, &names, &query, centre)), [true; 3]);
    // Another flame graph of the same samples.
    let turned = FlameQuery { bottom_up: true, ..FlameQuery::default() };
    let flame = Extras { flame: Some(&turned), ..besides };
    assert_eq!(shared(&before, &tallier.answer(&profile, &names, &query, flame)), [true, true, false]);
    // Names arrive.
    requests.iter().for_each(|request| names.absorb(script.reply(request)));
    let named = tallier.answer(&profile, &names, &query, besides);
    assert_eq!(shared(&before, &named), [false; 3]);
    assert_ne!(before.table, named.table);
    // Another order, another time, and back.
    let sorted = Query { sort: Sort::Name, ..query.clone() };
    let by_name = tallier.answer(&profile, &names, &sorted, besides);
    assert!(!shared(&named, &by_name)[0]);
    let later = Query { span: Span::Last { ns: 2_000_000_000, now_ns: 1_200_000_000 }, ..query.clone() };
    assert_eq!(shared(&by_name, &tallier.answer(&profile, &names, &later, besides)), [false; 3]);
    assert_eq!(tallier.answer(&profile, &names, &query, besides).table, named.table);
    // A sample arrives.
    let known = tallier.answer(&profile, &names, &query, besides);
    let sample =
        script.arrivals.iter().rfind(|arrival| matches!(arrival.event, ConnectionEvent::Received(Message::Sample(..))));
    profile.apply(sample.expect("it has some").clone());
    let newer = tallier.answer(&profile, &names, &query, besides);
    assert_eq!(
        (shared(&known, &newer), newer.total.map(|total| total.samples)),
        ([false; 3], Some(known.table.samples + 1))
    );
}

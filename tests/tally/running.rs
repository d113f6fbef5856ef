//! Sums that are kept from one answer to the next, against those that are added up anew: whatever comes in between.

use proptest::prelude::*;
use sigtop::link::wire::Clock;
use sigtop::profile::Profile;
use sigtop::profile::window::Span;
use sigtop::symbols::scenario::Script;
use sigtop::symbols::{FunctionId, Names};
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::Query;
use sigtop::tally::tallier::{Besides, Tallier, Tallies};
use sigtop::tally::text::Text;

use crate::stacks::{query, samples, text};

/// What comes in between.
#[derive(Clone, Debug)]
enum Event {
    /// So many samples.
    Samples(usize),
    /// The window ends at another time (ms), and is so long.
    Turn(u64, u64),
    /// Time goes on by so many ms.
    Pass(u64),
    Freeze,
    Thaw,
    ClearWindow,
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..6usize).prop_map(Event::Samples),
        2 => (0..5_000u64, 0..4_500u64).prop_map(|(now_ms, ms)| Event::Turn(now_ms, ms)),
        6 => (0..700u64).prop_map(Event::Pass),
        1 => Just(Event::Freeze),
        1 => Just(Event::Thaw),
        1 => Just(Event::ClearWindow),
        1 => Just(Event::Reset),
    ]
}

/// Without what depends on which function of several of one name was seen first: stacks by their owners are made when they are seen.
fn certain(mut told: Tallies, question: &Query) -> Tallies {
    if question.owners().is_empty() {
        return told;
    }
    for row in told.table.rows.iter_mut().chain(told.total.iter_mut().flat_map(|table| &mut table.rows)) {
        (row.function, row.module) = (FunctionId(0), Text::default());
    }
    if let Some(callers) = &mut told.callers {
        callers.module = Text::default();
        callers.callers.iter_mut().chain(&mut callers.callees).for_each(|edge| edge.module = Text::default());
    }
    told.lines.iter_mut().for_each(|lines| lines.module = Text::default());
    told.flame.iter_mut().flat_map(|flame| &mut flame.boxes).for_each(|shown| shown.module = Text::default());
    told
}

fn same(kept: &Tallies, fresh: &Tallies) -> Result<(), TestCaseError> {
    prop_assert_eq!(&kept.table, &fresh.table);
    prop_assert_eq!(&kept.total, &fresh.total);
    prop_assert_eq!(&kept.callers, &fresh.callers);
    prop_assert_eq!(&kept.lines, &fresh.lines);
    prop_assert_eq!(&kept.flame, &fresh.flame);
    prop_assert_eq!(&kept.trends, &fresh.trends);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// All stacks and names are known from the start, so that nothing but the samples changes.
    #[test]
    fn kept_sums_are_those_of_a_new_tallier(
        samples in samples(),
        question in query(),
        events in prop::collection::vec((event(), any::<bool>(), any::<bool>()), 1..24),
        bottom_up in any::<bool>(),
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names) = (Profile::default(), Names::default());
        script.arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
        profile.label();
        names.catch_up(&profile).iter().for_each(|request| names.absorb(script.reply(request)));
        profile.reset(Clock::Prof);
        let mut coming = script.arrivals.iter().skip(1).cycle();
        let mut tallier = Tallier::default();
        let form = FlameQuery { bottom_up, ..FlameQuery::default() };
        let (mut now_ms, mut ms) = (500, 1_500);
        for (event, with_flame, with_centre) in events {
            match event {
                Event::Samples(count) => coming.by_ref().take(count).for_each(|arrival| profile.apply(arrival.clone())),
                Event::Turn(to_ms, length_ms) => (now_ms, ms) = (to_ms, length_ms),
                Event::Pass(by_ms) => now_ms += by_ms,
                Event::Freeze => profile.freeze(),
                Event::Thaw => profile.thaw(),
                Event::ClearWindow => profile.clear_window(Clock::Prof),
                Event::Reset => profile.reset(Clock::Prof),
            }
            let span = match question.span {
                Span::Total => Span::Total,
                Span::Last { .. } => Span::Last { ns: ms * 1_000_000, now_ns: now_ms * 1_000_000 },
            };
            let query = Query { span, ..question.clone() };
            let besides = Besides {
                centre: with_centre.then_some("a"),
                lines: with_centre.then_some("b"),
                flame: with_flame.then_some(&form),
                total: true,
                trends: true,
            };
            let kept = tallier.answer(&profile, &names, &query, besides);
            let fresh = Tallier::default().answer(&profile, &names, &query, besides);
            same(&certain(kept, &query), &certain(fresh, &query))?;
        }
    }
}

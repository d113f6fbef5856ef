//! Compares the table with an oracle, number by number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::symbols::{FunctionId, Names};
use sigtop::tally::query::{Grouping, Query, Sort};
use sigtop::tally::tallier::Tallier;
use sigtop::tally::text::Text;
use sigtop::tally::top::{InlineState, TopTable};

use crate::stacks::{Sample, everything, is_listed, played, query, samples, text};

type Figures = (String, InlineState, u64, u64);

fn oracle(samples: &[Sample], query: &Query) -> (Vec<Figures>, [u64; 4]) {
    let (mut flat, mut cum) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let mut inlined_calls = BTreeMap::<(String, String), bool>::new();
    let [mut total, mut kept, mut count, mut kept_count] = [0; 4];
    for sample in samples {
        if !sample.is_in(query.span) {
            continue;
        }
        let weight = sample.weight_ns();
        total += weight;
        count += 1;
        let Some(stack) = sample.filtered(query) else { continue };
        kept += weight;
        kept_count += 1;
        if weight == 0 {
            continue;
        }
        let lines = sample.steps(&stack, query.group);
        *flat.entry(lines.last().unwrap().0.clone()).or_default() += weight;
        for name in lines.iter().map(|line| &line.0).collect::<BTreeSet<_>>() {
            *cum.entry(name.clone()).or_default() += weight;
        }
        // The leaf of a stack that was reduced to it is called by nobody.
        let is_reduced = sample.reduced(query).is_some_and(|(_, is_reduced)| is_reduced);
        let mut seen = BTreeSet::new();
        for pair in lines[..lines.len() - usize::from(is_reduced)].windows(2) {
            let (caller, callee) = (&pair[0].0, &pair[1].0);
            if caller != callee && seen.insert((caller, callee)) {
                *inlined_calls.entry((caller.clone(), callee.clone())).or_insert(true) &= pair[1].1;
            }
        }
    }
    let mut rows: Vec<Figures> = cum
        .into_iter()
        .map(|(name, cum)| {
            let calls: BTreeSet<bool> =
                inlined_calls.iter().filter(|(edge, _)| edge.1 == name).map(|(_, &inlined)| inlined).collect();
            let inline = match (calls.contains(&true), calls.contains(&false)) {
                (true, true) => InlineState::Partial,
                (true, false) => InlineState::Yes,
                _ => InlineState::No,
            };
            let flat = flat.get(&name).copied().unwrap_or(0);
            (name, inline, flat, cum)
        })
        .collect();
    rows.retain(|(name, _, flat, _)| is_listed(query, name, *flat));
    rows.sort_by(|a, b| match query.sort {
        Sort::Flat => b.2.cmp(&a.2).then(a.0.cmp(&b.0)).then(b.3.cmp(&a.3)),
        Sort::Cum | Sort::Latency => b.3.cmp(&a.3).then(a.0.cmp(&b.0)).then(b.2.cmp(&a.2)),
        Sort::Name => a.0.cmp(&b.0),
    });
    (rows, [total, kept, count, kept_count])
}

fn extract(table: &TopTable) -> (Vec<Figures>, [u64; 4]) {
    let rows = table.rows.iter().map(|row| (row.full.to_string(), row.inline, row.flat_ns, row.cum_ns)).collect();
    (rows, [table.total_ns, table.kept_ns, table.samples, table.kept_samples])
}

/// Clears the fields that depend on which of several functions was sampled first.
fn certain(mut table: TopTable, query: &Query) -> TopTable {
    for row in table.rows.iter_mut().filter(|_| query.group != Grouping::Function) {
        (row.function, row.module) = (FunctionId(0), Text::default());
    }
    table
}

proptest! {
    #![proptest_config(property(300))]

    #[test]
    fn the_table_is_the_oracles(samples in samples(), query in query()) {
        let played = played(&samples);
        prop_assert_eq!(extract(&Tallier::default().table(&played.profile, &played.names, &query)), oracle(&samples, &query));
    }

    /// Samples and names arrive in pieces, and queries change in between. Data kept from earlier
    /// answers must not change the results.
    #[test]
    fn a_kept_tallier_answers_as_a_new_one(
        samples in samples(),
        queries in prop::collection::vec(query(), 1..4),
        pieces in 1..6usize,
        late in 0..4usize,
        early in any::<bool>(),
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
        let mut asked = VecDeque::new();
        let size = script.arrivals.len().div_ceil(pieces);
        for (round, piece) in script.arrivals.chunks(size).enumerate() {
            piece.iter().for_each(|arrival| profile.apply(arrival.clone()));
            profile.add_owner_frames();
            // The answers must also agree before the names have caught up.
            for query in queries.iter().filter(|_| early) {
                prop_assert_eq!(certain(Arc::unwrap_or_clone(tallier.table(&profile, &names, query)), query), certain(Arc::unwrap_or_clone(Tallier::default().table(&profile, &names, query)), query));
            }
            asked.push_back(names.catch_up(&profile));
            if round >= late {
                for request in asked.pop_front().unwrap() {
                    names.absorb(script.reply(&request));
                }
            }
            for query in &queries {
                prop_assert_eq!(certain(Arc::unwrap_or_clone(tallier.table(&profile, &names, query)), query), certain(Arc::unwrap_or_clone(Tallier::default().table(&profile, &names, query)), query));
            }
        }
        asked.drain(..).flatten().for_each(|request| names.absorb(script.reply(&request)));
        for query in &queries {
            prop_assert_eq!(extract(&tallier.table(&profile, &names, query)), oracle(&samples, query));
        }
    }
}

#[test]
fn frames_without_names_count_and_have_no_row() {
    let script = Script::read("process 7 ./a\nat 1s prof 10ms main;f").unwrap();
    let (mut profile, names) = (Profile::default(), Names::default());
    script.arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
    let answer = Tallier::default().table(&profile, &names, &everything(Sort::Flat));
    assert_eq!((answer.rows.len(), answer.kept_ns), (0, 10_000_000));
}

#[test]
fn a_truncated_stack_has_a_row_that_is_never_the_leaf() {
    let played = scenario("process 7 ./a\nat 1s prof 10ms [truncated];f;g\nat 1s prof 30ms main;f").unwrap();
    let rows = extract(&Tallier::default().table(&played.profile, &played.names, &everything(Sort::Cum))).0;
    let plain: Vec<_> = rows.iter().map(|row| (row.0.as_str(), row.2 / 1_000_000, row.3 / 1_000_000)).collect();
    assert_eq!(plain, [("f", 30, 40), ("main", 0, 30), ("[truncated]", 0, 10), ("g", 10, 10)]);
}

#[test]
fn a_function_that_is_inlined_only_later_gets_its_mark() {
    let script = Script::read("process 7 ./a\nat 1s prof 1ms main;f\nat 2s prof 1ms main;g;f (inline)").unwrap();
    let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
    let mut marks = Vec::new();
    let (early, late) = script.arrivals.split_at(script.arrivals.len() - 1);
    for arrivals in [early, late] {
        arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
        for request in names.catch_up(&profile) {
            names.absorb(script.reply(&request));
        }
        let answer = tallier.table(&profile, &names, &everything(Sort::Flat));
        marks.push(answer.rows.iter().find(|row| row.full == "f").unwrap().inline);
    }
    assert_eq!(marks, [InlineState::No, InlineState::Partial]);
}

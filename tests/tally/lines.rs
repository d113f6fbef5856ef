//! Compares lines and addresses of one row with an oracle, weight by weight.

use std::collections::{BTreeMap, BTreeSet};

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::lines::RowLines;
use sigtop::tally::query::{Grouping, Query, Sort};
use sigtop::tally::tallier::Tallier;

use crate::stacks::{Sample, counted, everything, played, query, samples, text};

type Weights<K> = BTreeMap<K, (u64, u64)>;

/// Flat and cum of the row in total, by line and by address, and the weights of the callees of each
/// line.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    all: (u64, u64),
    lines: Weights<(String, u32)>,
    addresses: Weights<(String, u64)>,
    callees: BTreeMap<(String, u32, String), u64>,
}

fn oracle(samples: &[Sample], query: &Query, centre: &str) -> Figures {
    let mut figures = Figures::default();
    for sample in samples.iter().filter(|sample| sample.is_in(query.span) && sample.weight_ms > 0) {
        // The leaf of a stack that was reduced to it has no lines.
        let Some((mut stack, is_reduced)) = sample.reduced(query) else { continue };
        stack.truncate(stack.len() - usize::from(is_reduced));
        let weight = sample.weight_ns();
        let names = sample.steps(&stack, query.group);
        // The name, line and address of every function on the stack, root first.
        let places: Vec<_> = stack
            .iter()
            .flat_map(|location| location.lines.iter().map(move |line| (location, line)))
            .zip(&names)
            .map(|((location, line), (name, _))| {
                let address = location.address.filter(|_| !location.module.is_empty());
                (name, (line.1.clone(), line.2), address.map(|address| (location.module.to_owned(), address)))
            })
            .collect();
        let in_leaf = &names[names.len() - stack.last().map_or(0, |location| location.lines.len())..];
        let ends = places.last().filter(|(name, ..)| *name == centre && !is_reduced);
        let on: Vec<_> = places.iter().filter(|(name, ..)| *name == centre).collect();
        if on.is_empty() {
            continue;
        }
        figures.all.1 += weight;
        for line in on.iter().map(|(_, line, _)| line.clone()).collect::<BTreeSet<_>>() {
            figures.lines.entry(line).or_default().1 += weight;
        }
        for address in on.iter().filter_map(|(.., address)| address.clone()).collect::<BTreeSet<_>>() {
            figures.addresses.entry(address).or_default().1 += weight;
        }
        let calls = places.windows(2).filter(|pair| pair[0].0 == centre);
        let calls = calls.map(|pair| (pair[0].1.0.clone(), pair[0].1.1, pair[1].0.clone()));
        for call in calls.collect::<BTreeSet<_>>() {
            *figures.callees.entry(call).or_default() += weight;
        }
        if let Some((_, line, _)) = ends {
            figures.all.0 += weight;
            figures.lines.entry(line.clone()).or_default().0 += weight;
        }
        if let Some((.., Some(address))) =
            places.last().filter(|_| !is_reduced && in_leaf.iter().any(|(name, _)| name == centre))
        {
            figures.addresses.entry(address.clone()).or_default().0 += weight;
        }
    }
    figures
}

fn extract(profile: &Profile, answer: &RowLines) -> Figures {
    let path = |module| profile.modules.file(module).path.to_string_lossy().into_owned();
    let callees = answer.lines.iter().flat_map(|line| {
        line.callees
            .iter()
            .map(|callee| ((line.file.to_string(), line.line, callee.full.to_string()), callee.weight_ns))
    });
    Figures {
        all: (answer.flat_ns, answer.cum_ns),
        lines: answer
            .lines
            .iter()
            .map(|line| ((line.file.to_string(), line.line), (line.flat_ns, line.cum_ns)))
            .collect(),
        addresses: answer
            .addresses
            .iter()
            .map(|spot| ((path(spot.module), spot.address), (spot.flat_ns, spot.cum_ns)))
            .collect(),
        callees: callees.collect(),
    }
}

fn one_of(samples: &[Sample], query: &Query, centre: prop::sample::Index) -> String {
    let whole = Query { group: query.group, roots: query.roots, ..Query::default() };
    let names: BTreeSet<String> =
        counted(samples, &whole).into_iter().flat_map(|(steps, _)| steps).map(|step| step.0).collect();
    let names: Vec<String> = names.into_iter().chain(["nobody".to_owned()]).collect();
    centre.get(&names).clone()
}

proptest! {
    #![proptest_config(property(500))]

    #[test]
    fn the_weights_are_the_oracles(samples in samples(), query in query(), centre in any::<prop::sample::Index>()) {
        let centre = one_of(&samples, &query, centre);
        let played = played(&samples);
        let answer = Tallier::default().lines(&played.profile, &played.names, &query, &centre);
        prop_assert_eq!(extract(&played.profile, &answer), oracle(&samples, &query, &centre));
        prop_assert_eq!(answer.lines.iter().map(|line| line.flat_ns).sum::<u64>(), answer.flat_ns);
        prop_assert!(answer.lines.is_sorted_by_key(|line| (&line.file, line.line)));
        prop_assert!(answer.addresses.is_sorted_by_key(|spot| (spot.module, spot.address)));
    }

    /// Samples and names arrive in pieces, and centre and filters change in between.
    #[test]
    fn a_kept_tallier_answers_as_a_new_one(
        samples in samples(),
        questions in prop::collection::vec((query(), any::<prop::sample::Index>(), any::<bool>()), 1..5),
        pieces in 1..6usize,
    ) {
        let script = Script::read(&text(&samples)).unwrap();
        let (mut profile, mut names, mut tallier) = (Profile::default(), Names::default(), Tallier::default());
        let mut asked = Vec::new();
        for piece in script.arrivals.chunks(script.arrivals.len().div_ceil(pieces)) {
            piece.iter().for_each(|arrival| profile.apply(arrival.clone()));
            profile.add_owner_frames();
            let late = std::mem::replace(&mut asked, names.catch_up(&profile));
            for (query, centre, whole) in &questions {
                let centre = &one_of(&samples, query, *centre);
                if *whole {
                    let fresh = Tallier::default().lines(&profile, &names, query, centre);
                    let mut kept = tallier.lines(&profile, &names, query, centre);
                    if query.group != Grouping::Function {
                        // A row that is not a function has the module of the first sampled function
                        // in it.
                        kept.module = fresh.module.clone();
                    }
                    prop_assert_eq!(kept, fresh);
                } else {
                    tallier.table(&profile, &names, query);
                }
            }
            late.iter().for_each(|request| names.absorb(script.reply(request)));
        }
    }
}

#[test]
fn inlined_lines_say_where_they_were_inlined_and_calls_whom_they_call() {
    let text = "process 7 ./a
at 1s prof 10ms main@m.c:1;f@f.c:3;g@g.h:7 (inline);h@h.h:9 (inline) x 5
at 1s prof 10ms main@m.c:2;h@h.h:9 (inline) x 2
at 1s prof 10ms main@m.c:1;f@f.c:4;h@h.h:8;f@f.c:3
at 1s prof 10ms main@m.c:1;f@f.c:4;f@f.c:4;memcpy";
    let played = scenario(text).unwrap();
    let ask = |centre| Tallier::default().lines(&played.profile, &played.names, &everything(Sort::Flat), centre);
    let h = ask("h");
    let at = |line: u32| h.lines.iter().find(|known| known.line == line).unwrap();
    let chain: Vec<_> = at(9).inlined_into.iter().map(|call| (call.short.as_str(), &*call.file, call.line)).collect();
    assert_eq!(chain, [("g", "g.h", 7), ("f", "f.c", 3)], "of the heavier copy");
    assert_eq!((at(9).flat_ns, at(8).flat_ns, at(8).cum_ns), (70_000_000, 0, 10_000_000));
    assert!(at(8).inlined_into.is_empty());

    let f = ask("f");
    let callees = |line: u32| {
        let line = f.lines.iter().find(|known| known.line == line).unwrap();
        line.callees.iter().map(|callee| (callee.short.as_str(), callee.weight_ns / 1_000_000)).collect::<Vec<_>>()
    };
    assert_eq!(callees(3), [("g", 50)]);
    assert_eq!(callees(4), [("f", 10), ("h", 10), ("memcpy", 10)], "a recursive call is a call");
    assert_eq!(f.lines.iter().map(|line| line.cum_ns / 1_000_000).collect::<Vec<_>>(), [60, 20], "counted once");
}

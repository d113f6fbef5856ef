//! Callers and callees, edge by edge.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::callers::{Callers, Edge, callers};
use sigtop::tally::query::{Query, Sort};
use sigtop::tally::tallier::Tallier;

use crate::stacks::{Sample, counted, everything, played, query, samples, text};

/// Name, whether every call was inlined, weight.
type Told = (String, bool, u64);

/// Flat and cum of the centre, callers, callees.
fn oracle(samples: &[Sample], query: &Query, centre: &str) -> (u64, u64, Vec<Told>, Vec<Told>) {
    let (mut flat, mut cum) = (0, 0);
    let mut edges = BTreeMap::<(String, String), (bool, u64)>::new();
    for (steps, weight) in counted(samples, query) {
        flat += if steps.last().unwrap().0 == centre { weight } else { 0 };
        cum += if steps.iter().any(|step| step.0 == centre) { weight } else { 0 };
        let mut seen = BTreeSet::new();
        for pair in steps.windows(2) {
            let (caller, (callee, inlined)) = (&pair[0].0, &pair[1]);
            if caller != callee && seen.insert((caller, callee)) {
                let edge = edges.entry((caller.clone(), callee.clone())).or_insert((true, 0));
                *edge = (edge.0 && *inlined, edge.1 + weight);
            }
        }
    }
    let side = |of: &dyn Fn(&(String, String)) -> Option<String>| {
        let mut side: Vec<Told> =
            edges.iter().filter_map(|(edge, &(inlined, weight))| Some((of(edge)?, inlined, weight))).collect();
        side.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        side
    };
    let callers = side(&|(caller, callee)| (callee == centre).then(|| caller.clone()));
    let callees = side(&|(caller, callee)| (caller == centre).then(|| callee.clone()));
    (flat, cum, callers, callees)
}

fn told(answer: &Callers) -> (u64, u64, Vec<Told>, Vec<Told>) {
    let side =
        |edges: &[Edge]| edges.iter().map(|edge| (edge.full.to_string(), edge.inlined, edge.weight_ns)).collect();
    (answer.flat_ns, answer.cum_ns, side(&answer.callers), side(&answer.callees))
}

/// One of the rows that there are, or nobody.
fn one_of(samples: &[Sample], query: &Query, centre: prop::sample::Index) -> String {
    let whole = Query { group: query.group, roots: query.roots, ..Query::default() };
    let names: BTreeSet<String> =
        counted(samples, &whole).into_iter().flat_map(|(steps, _)| steps).map(|step| step.0).collect();
    let names: Vec<String> = names.into_iter().chain(["nobody".to_owned()]).collect();
    centre.get(&names).clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_edges_are_the_oracles(samples in samples(), query in query(), centre in any::<prop::sample::Index>()) {
        let centre = one_of(&samples, &query, centre);
        let played = played(&samples);
        let answer = callers(&played.profile, &played.names, &query, &centre);
        prop_assert_eq!(told(&answer), oracle(&samples, &query, &centre));
        prop_assert_eq!(answer.short.is_empty(), answer.cum_ns == 0);
    }

    /// Samples and names come bit by bit, and centre and filters change in between.
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
            profile.label();
            let late = std::mem::replace(&mut asked, names.catch_up(&profile));
            for (query, centre, whole) in &questions {
                let centre = &one_of(&samples, query, *centre);
                if *whole {
                    let fresh = callers(&profile, &names, query, centre);
                    prop_assert_eq!(told(&tallier.callers(&profile, &names, query, centre)), told(&fresh));
                } else {
                    tallier.table(&profile, &names, query);
                }
            }
            late.iter().for_each(|request| names.absorb(script.reply(request)));
        }
    }
}

#[test]
fn recursion_makes_no_edge_and_counts_once() {
    let text = "process 7 ./a\nat 1s prof 30ms main;f;f;g;f;g\nat 1s prof 10ms main;f;h (inline);f";
    let played = scenario(text).unwrap();
    let answer = callers(&played.profile, &played.names, &everything(Sort::Flat), "f");
    let ms = |side: Vec<Told>| side.into_iter().map(|(name, _, ns)| (name, ns / 1_000_000)).collect::<Vec<_>>();
    let (flat, cum, callers, callees) = told(&answer);
    assert_eq!((flat, cum), (10_000_000, 40_000_000));
    assert_eq!(ms(callers), [("main".to_owned(), 40), ("g".to_owned(), 30), ("h".to_owned(), 10)]);
    assert_eq!(ms(callees), [("g".to_owned(), 30), ("h".to_owned(), 10)]);
    assert_eq!(answer.callees.iter().map(|edge| edge.inlined).collect::<Vec<_>>(), [false, true]);
    assert_eq!((answer.short.as_str(), answer.module.as_str()), ("f", "a"));
}

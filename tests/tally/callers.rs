//! Compares callers and callees with an oracle, edge by edge.

use std::collections::{BTreeMap, BTreeSet};

use crate::property::property;
use proptest::prelude::*;
use sigtop::profile::Profile;
use sigtop::symbols::Names;
use sigtop::symbols::scenario::{Script, scenario};
use sigtop::tally::call_paths::CallPath;
use sigtop::tally::callers::{CallEdge, Callers};
use sigtop::tally::query::{Query, Sort};
use sigtop::tally::tallier::{Extras, Tallier};

use crate::stacks::{Sample, calling, counted, everything, played, query, samples, text};

/// Name, whether every call was inlined, weight.
pub(crate) type Figures = (String, bool, u64);

/// Returns flat and cum of the centre, its callers and its callees.
pub(crate) fn oracle(samples: &[Sample], query: &Query, centre: &str) -> (u64, u64, Vec<Figures>, Vec<Figures>) {
    let (mut flat, mut cum) = (0, 0);
    let mut edges = BTreeMap::<(String, String), (bool, u64)>::new();
    for (steps, weight) in counted(samples, query) {
        flat += if steps.last().unwrap().0 == centre { weight } else { 0 };
        cum += if steps.iter().any(|step| step.0 == centre) { weight } else { 0 };
    }
    for (steps, weight) in calling(samples, query) {
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
        let mut side: Vec<Figures> =
            edges.iter().filter_map(|(edge, &(inlined, weight))| Some((of(edge)?, inlined, weight))).collect();
        side.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        side
    };
    let callers = side(&|(caller, callee)| (callee == centre).then(|| caller.clone()));
    let callees = side(&|(caller, callee)| (caller == centre).then(|| callee.clone()));
    (flat, cum, callers, callees)
}

fn extract(answer: &Callers) -> (u64, u64, Vec<Figures>, Vec<Figures>) {
    let side =
        |edges: &[CallEdge]| edges.iter().map(|edge| (edge.full.to_string(), edge.inlined, edge.weight_ns)).collect();
    (answer.flat_ns, answer.cum_ns, side(&answer.callers), side(&answer.callees))
}

/// Returns the callers, or callees, behind a path from the centre, by weight.
pub(crate) fn branch_oracle(samples: &[Sample], query: &Query, centre: &str, path: &CallPath) -> Vec<(String, u64)> {
    let mut sums = BTreeMap::<String, u64>::new();
    for (mut steps, weight) in counted(samples, query) {
        if !path.is_callee {
            steps.reverse();
        }
        let names: Vec<&str> = steps.iter().map(|step| step.0.as_str()).collect();
        let behind: BTreeSet<&str> = (0..names.len())
            .filter(|&at| names[at] == centre)
            .filter_map(|at| {
                let way = &names[at + 1..];
                let is_way =
                    way.len() > path.names.len() && path.names.iter().zip(way).all(|(one, other)| **one == **other);
                is_way.then(|| way[path.names.len()])
            })
            .collect();
        behind.into_iter().for_each(|name| *sums.entry(name.to_owned()).or_default() += weight);
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// Compares the rows behind each edge with the oracle, down to a depth.
fn compare_branches(
    (samples, query, centre): (&[Sample], &Query, &str),
    ask: &mut dyn FnMut(&[CallPath]) -> Callers,
    depth: usize,
) {
    let mut unfolded: Vec<CallPath> = Vec::new();
    for _ in 0..depth {
        let answer = ask(&unfolded);
        let mut next = Vec::new();
        for (is_callee, edges) in [(false, &answer.callers), (true, &answer.callees)] {
            let root = CallPath { is_callee, names: Vec::new() };
            let mut open: Vec<(CallPath, &[CallEdge])> = vec![(root, edges)];
            while let Some((path, edges)) = open.pop() {
                let found: Vec<(String, u64)> =
                    edges.iter().map(|edge| (edge.full.to_string(), edge.weight_ns)).collect();
                if unfolded.contains(&path) {
                    assert_eq!(found, branch_oracle(samples, query, centre, &path), "{path:?}");
                }
                for edge in edges {
                    let mut path = path.clone();
                    path.names.push(edge.full.clone());
                    next.push(path.clone());
                    open.push((path, &edge.children));
                }
            }
        }
        next.truncate(40);
        unfolded = next;
    }
}

/// Returns one of the existing rows, or `nobody`, which no row is called.
pub(crate) fn one_of(samples: &[Sample], query: &Query, centre: prop::sample::Index) -> String {
    let whole = Query { group: query.group, roots: query.roots, ..Query::default() };
    let names: BTreeSet<String> =
        counted(samples, &whole).into_iter().flat_map(|(steps, _)| steps).map(|step| step.0).collect();
    let names: Vec<String> = names.into_iter().chain(["nobody".to_owned()]).collect();
    centre.get(&names).clone()
}

proptest! {
    #![proptest_config(property(500))]

    #[test]
    fn the_edges_are_the_oracles(samples in samples(), query in query(), centre in any::<prop::sample::Index>()) {
        let centre = one_of(&samples, &query, centre);
        let played = played(&samples);
        let answer = Tallier::default().callers(&played.profile, &played.names, &query, &centre);
        prop_assert_eq!(extract(&answer), oracle(&samples, &query, &centre));
        prop_assert_eq!(answer.short.is_empty(), answer.cum_ns == 0);
    }

    #[test]
    fn the_branches_are_the_oracles(samples in samples(), query in query(), centre in any::<prop::sample::Index>()) {
        let centre = one_of(&samples, &query, centre);
        let played = played(&samples);
        let mut tallier = Tallier::default();
        let mut ask = |unfolded: &[CallPath]| {
            let extras = Extras { center: Some(&centre), unfolded, ..Extras::default() };
            tallier.answer(&played.profile, &played.names, &query, extras).callers.unwrap()
        };
        compare_branches((&samples, &query, &centre), &mut ask, 3);
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
                    let fresh = Tallier::default().callers(&profile, &names, query, centre);
                    prop_assert_eq!(extract(&tallier.callers(&profile, &names, query, centre)), extract(&fresh));
                } else {
                    tallier.table(&profile, &names, query);
                }
            }
            late.iter().for_each(|request| names.absorb(script.reply(request)));
        }
    }
}

#[test]
fn callers_of_callers_count_each_sample_once() {
    let text = "process 7 ./a\nat 1s prof 30ms main;a;f;a;f\nat 1s prof 10ms main;b;f;leaf";
    let played = scenario(text).unwrap();
    let path =
        |is_callee, names: &[&str]| CallPath { is_callee, names: names.iter().map(|&name| name.into()).collect() };
    let unfolded = [path(false, &["a"]), path(false, &["a", "f"]), path(false, &["b"]), path(true, &["a"])];
    let extras = Extras { center: Some("f"), unfolded: &unfolded, ..Extras::default() };
    let answer = Tallier::default().answer(&played.profile, &played.names, &everything(Sort::Flat), extras);
    let callers = answer.callers.unwrap();
    let ms = |edges: &[CallEdge]| {
        edges.iter().map(|edge| format!("{} {}", edge.full, edge.weight_ns / 1_000_000)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(ms(&callers.callers), "a 30, b 10");
    assert_eq!(ms(&callers.callers[0].children), "f 30, main 30", "one sample has both ways");
    assert_eq!(ms(&callers.callers[0].children[0].children), "a 30");
    assert_eq!(ms(&callers.callers[1].children), "main 10");
    assert_eq!(ms(&callers.callees[0].children), "f 30");
}

#[test]
fn recursion_makes_no_edge_and_counts_once() {
    let text = "process 7 ./a\nat 1s prof 30ms main;f;f;g;f;g\nat 1s prof 10ms main;f;h (inline);f";
    let played = scenario(text).unwrap();
    let answer = Tallier::default().callers(&played.profile, &played.names, &everything(Sort::Flat), "f");
    let ms = |side: Vec<Figures>| side.into_iter().map(|(name, _, ns)| (name, ns / 1_000_000)).collect::<Vec<_>>();
    let (flat, cum, callers, callees) = extract(&answer);
    assert_eq!((flat, cum), (10_000_000, 40_000_000));
    assert_eq!(ms(callers), [("main".to_owned(), 40), ("g".to_owned(), 30), ("h".to_owned(), 10)]);
    assert_eq!(ms(callees), [("g".to_owned(), 30), ("h".to_owned(), 10)]);
    assert_eq!(answer.callees.iter().map(|edge| edge.inlined).collect::<Vec<_>>(), [false, true]);
    assert_eq!((answer.short.as_str(), answer.module.as_str()), ("f", "a"));
}

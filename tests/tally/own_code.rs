//! Own code: foreign frames are folded into their own callers, and no time is lost.

use crate::property::property;
use proptest::prelude::*;
use sigtop::symbols::scenario::scenario;
use sigtop::tally::flame::FlameQuery;
use sigtop::tally::query::{OwnCode, Pattern, Query, Sort};
use sigtop::tally::tallier::Tallier;
use sigtop::tally::top::TopTable;

use crate::stacks::{everything, played, query, samples};

const POOL: &str = "
    process 7 ./server
    # A task of a thread pool, and what it calls.
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::encode;serde_json::to_string@/c/registry/src/json.rs:2;libc.so.6!memcpy x 40
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::encode;libc.so.6!malloc x 10
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;server::encode x 5
    # Inlined library code, and own code that is called by a library.
    at 0s..1s prof 10ms main;core::sort@/rustc/1f/library/core/src/sort.rs:3;server::less;core::cmp@/rustc/1f/library/core/src/cmp.rs:3 (inline) x 20
    # An idle worker of the pool has no own frame.
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;libc.so.6!sched_yield x 25
    now 1s
";

fn own(pattern: Option<&str>) -> OwnCode {
    OwnCode { folds: true, pattern: pattern.map(|text| Pattern::new(text).unwrap()) }
}

fn table(own: OwnCode, sort: Sort) -> TopTable {
    let played = scenario(POOL).unwrap();
    (*Tallier::default().table(&played.profile, &played.names, &Query { own, ..everything(sort) })).clone()
}

/// Name, flat, cum, time in libraries in ms, and the heaviest library call.
fn rows(table: &TopTable) -> Vec<(&str, u64, u64, u64, &str)> {
    let ms = |ns: u64| ns / 1_000_000;
    let row = |row: &'_ sigtop::tally::top::TopRow| (ms(row.flat_ns), ms(row.cum_ns), ms(row.library_ns));
    let rows = table.rows.iter().map(|of| (of.short.as_str(), row(of), of.library_call.as_str()));
    rows.map(|(name, (flat, cum, library), call)| (name, flat, cum, library, call)).collect()
}

#[test]
fn foreign_frames_are_folded_into_their_own_callers() {
    let table = table(own(None), Sort::Flat);
    let expected = [
        ("server::encode", 550, 550, 500, "serde_json::to_string"),
        ("sched_yield", 250, 250, 250, ""),
        ("server::less", 200, 200, 200, "core::cmp"),
        ("main", 0, 200, 0, ""),
    ];
    assert_eq!(rows(&table), expected);
    let is_own: Vec<bool> = table.rows.iter().map(|row| row.is_own).collect();
    assert_eq!(is_own, [true, false, true, true], "the leaf of a stack without own frames is foreign");
}

#[test]
fn unfolded_rows_say_whether_they_are_own() {
    let table = table(OwnCode::default(), Sort::Name);
    let own: Vec<&str> = table.rows.iter().filter(|row| row.is_own).map(|row| row.short.as_str()).collect();
    assert_eq!(own, ["main", "server::encode", "server::less"]);
    assert!(table.rows.iter().all(|row| row.library_ns == 0 && row.library_call.is_empty()));
}

#[test]
fn a_pattern_says_what_is_own() {
    let table = table(own(Some("^serde_json::|registry/src/rayon")), Sort::Flat);
    let expected = [
        ("rayon_core::run", 400, 800, 400, "sched_yield"),
        ("serde_json::to_string", 400, 400, 400, "memcpy"),
        ("core::cmp", 200, 200, 200, ""),
    ];
    assert_eq!(rows(&table), expected);
}

#[test]
fn a_flame_graph_has_a_box_for_stacks_without_own_frames() {
    let played = scenario(POOL).unwrap();
    let query = Query { own: own(None), ..everything(Sort::Flat) };
    let flame = Tallier::default().flame(&played.profile, &played.names, &query, &FlameQuery::default());
    let boxes: Vec<(&str, usize, u64)> =
        flame.boxes.iter().map(|one| (one.short.as_str(), one.parent, one.weight_ns / 1_000_000)).collect();
    let expected = [
        ("all", 0, 1000),
        ("main", 0, 200),
        ("sched_yield", 0, 250),
        ("server::encode", 0, 550),
        ("server::less", 1, 200),
    ];
    assert_eq!(boxes, expected);
}

#[test]
fn callers_of_a_row_without_own_callers_are_none() {
    let played = scenario(POOL).unwrap();
    let query = Query { own: own(None), ..everything(Sort::Flat) };
    let callers = Tallier::default().callers(&played.profile, &played.names, &query, "sched_yield");
    assert_eq!((callers.short.as_str(), callers.flat_ns, callers.cum_ns), ("sched_yield", 250_000_000, 250_000_000));
    assert!(callers.callers.is_empty() && callers.callees.is_empty());
}

#[test]
fn functions_of_a_program_that_starts_later_become_own() {
    let text = "process 7 /bin/sh\nat 1s prof 10ms main;/srv/app!work\nprocess 8 /srv/app\nat 2s prof 10ms work";
    let script = sigtop::symbols::scenario::Script::read(text).unwrap();
    let (mut profile, mut names) = (sigtop::profile::Profile::default(), sigtop::symbols::Names::default());
    let (mut tallier, query) = (Tallier::default(), Query { own: own(None), ..everything(Sort::Flat) });
    let mut own_after = Vec::new();
    for arrival in &script.arrivals {
        profile.apply(arrival.clone());
        names.catch_up(&profile).iter().for_each(|request| names.absorb(script.reply(request)));
        let table = tallier.table(&profile, &names, &query);
        assert_eq!(*table, *Tallier::default().table(&profile, &names, &query));
        own_after.push(table.rows.iter().any(|row| &*row.short == "work"));
    }
    assert_eq!((own_after.first(), own_after.last()), (Some(&false), Some(&true)));
}

proptest! {
    #![proptest_config(property(300))]

    /// Folding moves time from row to row; it neither loses nor adds any.
    #[test]
    fn totals_are_the_same_folded_or_not(samples in samples(), query in query()) {
        let played = played(&samples);
        let mut tallier = Tallier::default();
        let mut sums = |folds: bool| {
            let own = OwnCode { folds, ..query.own.clone() };
            let table = tallier.table(&played.profile, &played.names, &Query { own, ..query.clone() });
            let flat_ns: u64 = table.rows.iter().map(|row| row.flat_ns).sum();
            (flat_ns, table.total_ns, table.kept_ns, table.samples, table.kept_samples)
        };
        let unfolded = sums(false);
        prop_assert_eq!(unfolded, sums(true));
        prop_assert_eq!(unfolded, sums(false));
    }

    /// The parts of a row's time do not exceed it, and only own rows have a library call.
    #[test]
    fn library_time_is_a_part_of_flat(samples in samples(), query in query()) {
        let played = played(&samples);
        let query = Query { own: OwnCode { folds: true, ..query.own.clone() }, ..query };
        let table = Tallier::default().table(&played.profile, &played.names, &query);
        for row in &table.rows {
            prop_assert!(row.library_ns <= row.flat_ns && row.flat_ns <= row.cum_ns, "{row:?}");
            prop_assert!(row.is_own || row.library_ns == row.flat_ns, "{row:?}");
            prop_assert!(row.library_call.is_empty() || row.is_own && row.library_ns > 0, "{row:?}");
        }
    }
}

//! The screen and the report on the saved session show the same rows, flat, cum and marks, under
//! any filters. The screen's numbers come from a prefix tree that grows, the report's from stacks
//! that were written and read again.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sigtop::pprof::format::{self, proto};
use sigtop::pprof::graph::{EdgeSelection, Graph, GraphOptions, NodeIdentity, NodeTable};
use sigtop::symbols::scenario::scenario;
use sigtop::tally::query::{Filters, OwnCode, Pattern, Query};
use sigtop::tally::tallier::Tallier;
use sigtop::wire::Clock;

use crate::making::of_scenario;
use crate::property::property;

const NAMES: [&str; 6] = ["a", "b", "libz.so.1!c", "d@src/d.c:4", "e@src/d.c:9", "libz.so.1+0x1234"];

fn stack() -> impl Strategy<Value = String> {
    let frame = (0..NAMES.len(), any::<bool>());
    prop::collection::vec(frame, 1..7).prop_map(|frames| {
        let mut text = String::from("main");
        for (name, inlined) in frames {
            let can = !NAMES[name].contains(['!', '+']) && !text.ends_with("0x1234") && !text.ends_with("!c");
            text += &format!(";{}{}", NAMES[name], if inlined && can { " (inline)" } else { "" });
        }
        text
    })
}

fn filters() -> impl Strategy<Value = Filters> {
    let some = || prop::collection::vec(prop::sample::select(vec!["a", "b|c", "d.c", "libz", "^e$", "main"]), 0..2);
    (some(), some(), some(), some(), some()).prop_map(|(focus, ignore, hide, show, show_from)| {
        let patterns = |texts: Vec<&str>| texts.into_iter().map(|text| Pattern::new(text).unwrap()).collect();
        Filters {
            focus: patterns(focus),
            ignore: patterns(ignore),
            hide: patterns(hide),
            show: patterns(show),
            show_from: patterns(show_from),
            ..Filters::default()
        }
    })
}

fn own() -> impl Strategy<Value = OwnCode> {
    let pattern = prop::option::of(prop::sample::select(vec!["^a$", "d.c", "libz", "main|b"]));
    (any::<bool>(), pattern)
        .prop_map(|(folds, pattern)| OwnCode { folds, pattern: pattern.map(|text| Pattern::new(text).unwrap()) })
}

proptest! {
    #![proptest_config(property(96))]

    #[test]
    fn a_report_of_what_is_saved_has_the_screens_rows(
        stacks in prop::collection::vec((stack(), 1..50u32), 1..8),
        filters in filters(),
        own in own(),
    ) {
        let lines = stacks.iter().map(|(stack, count)| format!("at 0s..1s prof 10ms {stack} x {count}\n"));
        let text: String = ["process 7 ./app\n".to_owned()].into_iter().chain(lines).collect();
        let played = scenario(&text).unwrap();
        let query = Query { filters: filters.clone(), own: own.clone(), ..Query::default() };
        let shown = Tallier::default().table(&played.profile, &played.names, &query);
        let shown: BTreeMap<String, (i64, i64, i64)> = shown
            .rows
            .iter()
            .map(|row| (row.full.to_string(), (row.flat_ns as i64, row.cum_ns as i64, row.library_ns as i64)))
            .collect();

        let mut bytes = Vec::new();
        proto::write(&mut bytes, &of_scenario(&text, Clock::Prof)).unwrap();
        let mut saved = format::read(bytes.as_slice()).unwrap();
        saved.filter(&filters);
        let value = saved.value_index("").unwrap();
        let locations = saved.locations.len();
        let libraries = if own.folds { saved.fold_foreign(&own, locations, value).1 } else { Default::default() };
        let grain =
            NodeIdentity { function: true, file: false, line: false, column: false, address: false, object: false };
        let nodes = NodeTable::build(&saved, grain, str::to_owned);
        let graph = Graph::build(&saved, &nodes, None, GraphOptions { value, edges: EdgeSelection::All, tags: None, drop_negative: false, is_mean: false, is_tree: false });
        let reported: BTreeMap<String, (i64, i64, i64)> = graph
            .order
            .iter()
            .map(|&node| {
                let (name, node) = (nodes.name(node), node as usize);
                (name.to_owned(), (graph.flat[node], graph.cum[node], libraries.of(name).0))
            })
            .collect();
        prop_assert_eq!(shown, reported);
    }
}

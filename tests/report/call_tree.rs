//! `-call_tree`: each call path has nodes of its own.

use sigtop::pprof::profile::{Function, Line, Location, SavedProfile, ValueType};
use sigtop::pprof::report::{ReportKind, ReportOptions, generate};
use sigtop::pprof::samples::Samples;

/// `leaf` is called by `one` and by `other`; in the last sample it calls itself.
fn profile() -> SavedProfile {
    let names = ["main", "one", "other", "leaf"];
    let function = |name: &&str| Function { name: (*name).into(), ..Function::default() };
    let location = |index: usize| {
        let lines = vec![Line { function: index as u32, line: 0, column: 0 }];
        Location { id: index as u64 + 1, lines, ..Location::default() }
    };
    let mut samples = Samples::with_width(1);
    samples.push(&[3, 1, 0], &[10], 0);
    samples.push(&[3, 2, 0], &[5], 0);
    samples.push(&[3, 3, 2, 0], &[1], 0);
    SavedProfile {
        sample_types: vec![ValueType { kind: "samples".into(), unit: "count".into() }],
        functions: names.iter().map(function).collect(),
        locations: (0..names.len()).map(location).collect(),
        labels: vec![[].into()],
        samples,
        ..SavedProfile::default()
    }
}

fn dot(call_tree: bool, nodecount: usize) -> String {
    let options = ReportOptions {
        kind: ReportKind::Dot,
        call_tree,
        nodecount: Some(nodecount),
        zone: jiff::tz::TimeZone::UTC,
        ..ReportOptions::default()
    };
    let mut out = Vec::new();
    generate(&mut out, profile(), &options).expect("a graph");
    String::from_utf8(out).expect("text")
}

/// The tooltips of nodes, or of edges: their names and values.
fn tooltips<'t>(text: &'t str, kind: &str) -> Vec<&'t str> {
    let lines = text.lines().filter(|line| line.contains(" -> ") == (kind == "edge") && line.contains("tooltip="));
    let mut all: Vec<&str> = lines.filter_map(|line| line.split(" tooltip=\"").nth(1)?.split('"').next()).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_function_has_a_node_for_each_path_to_it() {
    let graph = dot(false, 0);
    assert_eq!(tooltips(&graph, "node"), ["leaf (16)", "main (16)", "one (10)", "other (6)"]);
    let tree = dot(true, 0);
    assert_eq!(tooltips(&tree, "node"), ["leaf (1)", "leaf (10)", "leaf (6)", "main (16)", "one (10)", "other (6)"]);
    let edges = ["leaf -> leaf (1)", "main -> one (10)", "main -> other (6)", "one -> leaf (10)", "other -> leaf (6)"];
    assert_eq!(tooltips(&tree, "edge"), edges);
}

#[test]
fn what_is_left_out_of_a_tree_leaves_residual_edges() {
    let tree = dot(true, 4);
    assert_eq!(tooltips(&tree, "node").len(), 4, "{tree}");
    let edges = tooltips(&tree, "edge");
    assert_eq!(edges, ["leaf -> leaf (1)", "main ... leaf (10)", "main ... leaf (6)"]);
}

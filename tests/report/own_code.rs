//! `--own`: values of foreign code belong to the own function that called it.

use sigtop::pprof::format::SaveFormat;
use sigtop::pprof::report::{ReportKind, ReportOptions, generate, prepare};
use sigtop::tally::query::{Filters, OwnCode, Pattern};
use sigtop::wire::Clock;

use crate::making::of_scenario;

const POOL: &str = "
    process 7 /srv/server
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;encode@/srv/main.rs:16;serde_json::to_string@/c/registry/src/json.rs:2;libc.so.6!memcpy x 40
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;encode@/srv/main.rs:16;core::cmp@/rustc/1f/library/core/src/cmp.rs:3 (inline) x 20
    at 0s..1s prof 10ms libc.so.6!clone3;rayon_core::run@/c/registry/src/rayon/run.rs:1;libc.so.6!sched_yield x 40
    now 1s
";

fn report(kind: ReportKind, own: OwnCode, filters: Filters, tagroot: &[&str]) -> (String, Vec<String>) {
    let options = ReportOptions {
        kind,
        own,
        filters,
        tagroot: tagroot.iter().map(|&key| key.to_owned()).collect(),
        zone: jiff::tz::TimeZone::UTC,
        ..ReportOptions::default()
    };
    let mut profile = of_scenario(POOL, Clock::Prof);
    prepare(&mut profile, false);
    let mut out = Vec::new();
    let warnings = generate(&mut out, profile, &options).expect("a report");
    (String::from_utf8(out).expect("text"), warnings)
}

fn own(pattern: Option<&str>) -> OwnCode {
    OwnCode { folds: true, pattern: pattern.map(|text| Pattern::new(text).unwrap()) }
}

/// The lines of a table from its sum on.
fn table(own: OwnCode, filters: Filters) -> String {
    let (text, _) = report(ReportKind::Top, own, filters, &[]);
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Showing")).collect();
    lines.join("\n")
}

#[test]
fn a_table_has_own_functions_and_the_same_total() {
    let folded = "Showing nodes accounting for 1000ms, 100% of 1000ms total
      flat  flat%   sum%        cum   cum%    library
     600ms 60.00% 60.00%      600ms 60.00%      600ms  encode -> serde_json::to_string
     400ms 40.00%   100%      400ms 40.00%      400ms  sched_yield";
    assert_eq!(table(own(None), Filters::default()), folded);
    let all = table(OwnCode::default(), Filters::default());
    assert!(all.starts_with("Showing nodes accounting for 1000ms, 100% of 1000ms total\n"));
    assert!(all.contains("rayon_core::run") && all.contains("core::cmp (inline)"), "{all}");
}

/// Filters see foreign frames, as in the live view.
#[test]
fn filters_come_before_folding() {
    let filters = Filters { focus: vec![Pattern::new("serde_json").unwrap()], ..Filters::default() };
    let folded = "Showing nodes accounting for 400ms, 40.00% of 1000ms total
      flat  flat%   sum%        cum   cum%    library
     400ms 40.00% 40.00%      400ms 40.00%      400ms  encode -> serde_json::to_string";
    assert_eq!(table(own(None), filters), folded);
}

#[test]
fn frames_of_labels_are_not_folded() {
    let (stacks, _) = report(SaveFormat::Folded.into(), own(None), Filters::default(), &["process"]);
    let mut lines: Vec<&str> = stacks.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["server;encode 60", "server;sched_yield 40"]);
}

#[test]
fn a_pattern_is_named_in_the_header_and_if_it_matches_nothing() {
    let (text, warnings) = report(ReportKind::Top, own(Some("^serde_json")), Filters::default(), &[]);
    assert!(text.contains("Active filters:\n   own=^serde_json\n") && warnings.is_empty(), "{text}");
    let (_, warnings) = report(ReportKind::Top, own(Some("nothing")), Filters::default(), &[]);
    assert_eq!(warnings, ["Own expression matched no samples"]);
}

//! Compares the text report with pprof's output. The first line of every golden `pprof-*.txt` names
//! the version of pprof, the scenario (as a `profile.proto` with its `now` as the duration) and the
//! arguments. The rest is pprof's output.

use std::path::Path;

use sigtop::pprof::live_top::{TopHeader, TopLimits, write_top};
use sigtop::symbols::scenario::scenario;
use sigtop::tally::query::{Filters, OwnCode, Pattern, Query, Sort};
use sigtop::tally::tallier::Tallier;
use sigtop::tally::top::TopTable;
use sigtop::wire::{Clock, LossCause};

const NOTHING_LOST: [u64; LossCause::ALL.len()] = [0; LossCause::ALL.len()];

/// Parses the command line of a golden, `scenario.txt -top ARGUMENT…`.
fn asked(question: &str) -> (String, Query, TopLimits) {
    let mut words = question.split_whitespace();
    let scenario = words.next().unwrap().to_owned();
    assert_eq!(words.next(), Some("-top"));
    let mut query = Query::default();
    let mut limits = TopLimits::default();
    for word in words {
        let (name, text) = word.split_once('=').unwrap_or((word, ""));
        let pattern = || vec![Pattern::new(text).unwrap()];
        match name {
            "-cum" => query.sort = Sort::Cum,
            "-nodefraction" => limits.nodefraction = text.parse().unwrap(),
            "-nodecount" => limits.nodecount = Some(text.parse().unwrap()),
            "-focus" => query.filters.focus = pattern(),
            "-ignore" => query.filters.ignore = pattern(),
            "-hide" => query.filters.hide = pattern(),
            "-show" => query.filters.show = pattern(),
            "-show_from" => query.filters.show_from = pattern(),
            _ => panic!("{word}"),
        }
    }
    (scenario, query, limits)
}

fn unmarked(row: &str) -> &str {
    row.strip_suffix(" (inline)").or(row.strip_suffix(" (partial-inline)")).unwrap_or(row)
}

#[test]
fn reports_are_pprofs_to_the_letter() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut compared = 0;
    for entry in tests.join("golden").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().starts_with("pprof-") {
            continue;
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        let (first, expected) = golden.split_once('\n').unwrap();
        let (name, query, limits) = asked(first.split_once("): ").unwrap().1);
        let played = scenario(&std::fs::read_to_string(tests.join("scenarios").join(name)).unwrap()).unwrap();
        let file = Path::new(&played.profile.processes()[0].executable).file_name().unwrap().to_str().unwrap();
        let heading = TopHeader {
            file,
            clock: query.clock,
            duration_ns: Some(played.now_ns),
            lost_ticks: NOTHING_LOST,
            lost_ns: NOTHING_LOST,
            filters: &query.filters,
            own: &OwnCode::default(),
            sort: query.sort,
        };
        let mut report = String::new();
        write_top(&mut report, &heading, &Tallier::default().table(&played.profile, &played.names, &query), &limits);
        // pprof's marks depend on which rows are shown; ours do not (see pprof/live_top.rs).
        let marks_differ = limits.nodecount.is_some();
        let figures = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("Samples: "));
            lines.map(|line| if marks_differ { unmarked(line) } else { line }.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(figures(&report), figures(expected), "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 15, "{compared} goldens");
}

#[test]
fn losses_are_told_with_their_causes() {
    let report = |lost_ticks, lost_ns| {
        let table = TopTable { samples: 1848, total_ns: 18_480_000_000, ..TopTable::default() };
        let filters = Filters::default();
        let heading = TopHeader {
            file: "a",
            clock: Clock::Real,
            duration_ns: None,
            lost_ticks,
            lost_ns,
            filters: &filters,
            own: &OwnCode::default(),
            sort: Sort::Flat,
        };
        let mut report = String::new();
        write_top(&mut report, &heading, &table, &TopLimits::default());
        report
    };
    let mut lost = NOTHING_LOST;
    let start = "File: a\nType: wall\nSamples: 1 848 (0.00% miss rate)\nShowing nodes";
    assert!(report(lost, NOTHING_LOST).starts_with(start));
    lost[LossCause::RingFull as usize] = 2;
    lost[LossCause::SocketFull as usize] = 1;
    let mut lost_ns = lost.map(|ticks| ticks * 10_000_000);
    assert!(report(lost, lost_ns).contains("\nSamples: 1 848 (0.16% miss rate: 2 ring full, 1 socket full)\n"));
    // If the frequency exceeds the kernel's tick, a sample stands for several periods, and so may a
    // lost tick.
    lost_ns[LossCause::RingFull as usize] = 18_480_000_000;
    assert!(report(lost, lost_ns).contains("\nSamples: 1 848 (50.01% miss rate: 2 ring full, 1 socket full)\n"));
}

#[test]
fn several_patterns_of_a_kind_are_one_and_long_ones_are_cut() {
    let pattern = |text: &str| Pattern::new(text).unwrap();
    let filters = Filters {
        focus: vec![pattern("parse"), pattern("hash")],
        // The limit of 80 bytes is in the middle of a character.
        ignore: vec![pattern(&"é".repeat(60))],
        ..Filters::default()
    };
    let heading = TopHeader {
        file: "a",
        clock: Clock::Prof,
        duration_ns: Some(1),
        lost_ticks: NOTHING_LOST,
        lost_ns: NOTHING_LOST,
        filters: &filters,
        own: &OwnCode::default(),
        sort: Sort::Flat,
    };
    let mut report = String::new();
    write_top(&mut report, &heading, &TopTable::default(), &TopLimits::default());
    let cut = format!("   ignore={}…", "é".repeat(36));
    assert_eq!(report.lines().skip(4).take(3).collect::<Vec<_>>(), ["Active filters:", "   focus=parse|hash", &cut]);
    assert!(report.contains("\nDuration: 1ns, Total samples = 0 \n"), "{report}");
}

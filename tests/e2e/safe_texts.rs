//! No text of a foreign profile or of a target controls the terminal that a report is printed to.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use sigtop::pprof::format::proto;
use sigtop::pprof::profile::{Function, Label, LabelValue, Line, Location, Mapping, SavedProfile, ValueType};
use sigtop::pprof::samples::Samples;
use sigtop::tally::text::Text;

use crate::harness::run::{SIGTOP, run};
use crate::harness::targets;

/// Sets the clipboard, clears the screen with a C1 sequence, reverses the direction of text, and
/// begins a line of its own.
const HARMFUL: &str = "\x1b]52;c;QQ==\x07\u{9b}2J\u{202e}\u{2066}\r\x08";

/// Reports about any profile. A pattern matches the hostile functions.
const REPORTS: &[&str] = &[
    "--top",
    "--top --lines",
    "--top --files",
    "--top --filefunctions",
    "--top --addresses",
    "--top --tagroot=key",
    "--top --tagleaf=number",
    "--tree",
    "--peek=.",
    "--list=.",
    "--disasm=.",
    "--method=.",
    "--traces",
    "--tags",
    "--comments",
    "--raw",
    "--folded",
    "--flame",
    "--speedscope",
    "--firefox",
    "--dot",
    "--callgrind",
];

fn harmful(name: &str) -> Text {
    format!("{name}{HARMFUL}{name}").into()
}

/// A profile in which every text is harmful.
fn hostile_profile() -> SavedProfile {
    let kind = |name: &str| ValueType { kind: harmful(name), unit: "nanoseconds".into() };
    let mut samples = Samples::with_width(1);
    samples.push(&[0, 1], &[7_000_000], 1);
    samples.push(&[2], &[5_000_000], 1);
    let function = |name| Function {
        name: harmful(name),
        system_name: harmful(name),
        file: format!("/src/{}.c", harmful(name)).into(),
        start_line: 3,
    };
    let location = |index: u32| Location {
        id: u64::from(index) + 1,
        mapping: Some(0),
        address: 0x40_1000 + 16 * u64::from(index),
        lines: if index < 2 { vec![Line { function: index, line: 4, column: 2 }] } else { Vec::new() },
        folded: false,
    };
    let key = |key, value| Label { key, value };
    SavedProfile {
        sample_types: vec![kind("cpu")],
        samples,
        labels: vec![
            [].into(),
            [
                key("key".into(), LabelValue::Text(harmful("value"))),
                key("number".into(), LabelValue::Number(3, harmful("unit"))),
                key(harmful("thread"), LabelValue::Text("one".into())),
            ]
            .into(),
        ],
        mappings: vec![Mapping {
            id: 1,
            start: 0x40_0000,
            limit: 0x50_0000,
            file: harmful("/bin/app"),
            build_id: harmful("ab"),
            ..Mapping::default()
        }],
        locations: (0..3).map(location).collect(),
        functions: vec![function("leaf"), function("root")],
        period_type: kind("cpu"),
        period: 1_000_000,
        comments: vec![harmful("comment")],
        doc_url: harmful("https://example.com"),
        ..SavedProfile::default()
    }
}

/// Panics unless a text is free of characters that control a terminal or its order of letters.
fn assert_harmless(text: &str, what: &str) {
    let is_harmful = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = text.lines().find(|line| line.contains(is_harmful));
    assert!(found.is_none(), "{what}: {found:?}");
}

/// Prints every report of a profile.
fn report_all(profile: &Path) {
    for options in REPORTS {
        let ran = run(Command::new(SIGTOP).arg("report").args(options.split_whitespace()).arg(profile));
        // A function without a source file or a program cannot be listed.
        let may_fail = options.starts_with("--list") || options.starts_with("--disasm");
        assert!(may_fail || ran.code() == 0 && !ran.out().is_empty(), "{options}: {}{}", ran.out(), ran.err());
        assert_harmless(&ran.out(), options);
        assert_harmless(&ran.err(), options);
    }
}

#[test]
fn reports_of_a_foreign_profile() {
    let directory = targets::scratch("safe_texts");
    let path = directory.join("hostile.pb.gz");
    proto::write(File::create(&path).expect("a file"), &hostile_profile()).expect("a profile");
    // The profile is as hostile as it should be.
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(File::open(&path).expect("a file")).read_to_end(&mut bytes).expect("gzip");
    assert!(String::from_utf8_lossy(&bytes).contains(HARMFUL));
    report_all(&path);
}

/// Messages quote lines that cannot be read.
#[test]
fn messages_about_a_foreign_file() {
    let directory = targets::scratch("safe_messages");
    for (name, text) in [
        ("heap", format!("heap profile: 1: 8 [1: 8] @ heap/2\n{HARMFUL}\n")),
        ("folded", format!("a;b 3\n{HARMFUL}\n{HARMFUL}c 1\n")),
        ("script", format!("app 1 1.000000: 1 cycles:\n\t1 {HARMFUL}f (x)\n\n{HARMFUL}app\n")),
        ("bytes", HARMFUL.to_owned()),
    ] {
        let path = directory.join(name);
        fs::write(&path, text).expect("a file");
        for verb in ["report", "view"] {
            let ran = run(Command::new(SIGTOP).args([verb, "--no-config"]).arg(&path));
            assert_harmless(&ran.err(), name);
            assert_harmless(&ran.out(), name);
        }
    }
}

/// A target gives its process and threads the names.
#[test]
fn files_about_a_hostile_target() {
    let directory = targets::scratch("safe_target");
    let program = directory.join(format!("app{HARMFUL}"));
    fs::hard_link(targets::c("hostile_names"), &program).expect("a link");
    for extension in ["folded", "svg", "speedscope.json", "firefox.json", "callgrind", "dot", "txt", "pb.gz", "sigtop"]
    {
        let path = directory.join(format!("saved.{extension}"));
        let mut record = Command::new(SIGTOP);
        record.args(["record", "--no-config", "-F", "200", "-o"]).arg(&path).arg("--").arg(&program).arg("0.3");
        let ran = run(&mut record);
        assert!(ran.code() == 0, "{extension}: {}{}", ran.out(), ran.err());
        assert_harmless(&ran.err(), extension);
        match extension {
            "pb.gz" | "sigtop" => report_all(&path),
            _ => assert_harmless(&fs::read_to_string(&path).expect("text"), extension),
        }
    }
    let ran = run(Command::new(SIGTOP).args(["--batch", "--no-config"]).arg("--").arg(&program));
    assert_harmless(&ran.out(), "the table");
    assert_harmless(&ran.err(), "messages");
}

//! Exports are judged by their own readers: callgrind_annotate, graphviz, and speedscope's schema.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sigtop::pprof::format;
use sigtop::pprof::profile::SavedProfile;
use sigtop::pprof::report::{ReportKind, ReportOptions, generate, prepare};

use crate::making::tests;
use crate::skips::skip;

/// Profiles of several programs and units.
const PROFILES: [&str; 4] = ["ours.pb.gz", "go-cpu.pb.gz", "go-heap.pb.gz", "mixed.pb.gz"];

/// Checks one file of `--speedscope` against the schema, and prints the sum of all weights.
const SPEEDSCOPE: &str = r#"
const fs = require("fs"), file = JSON.parse(fs.readFileSync(process.argv[2]));
const schema = JSON.parse(fs.readFileSync(require.resolve("speedscope/dist/release/file-format-schema.json")));
const Ajv = require("ajv"), check = new Ajv({ strict: false, allErrors: true }).compile(schema);
if (!check(file)) throw new Error(JSON.stringify(check.errors.slice(0, 5)));
const weights = file.profiles.flatMap((profile) => profile.weights);
console.log(weights.reduce((sum, weight) => sum + weight, 0));
"#;

fn read(name: &str) -> SavedProfile {
    let file = fs::File::open(tests().join("profiles").join(name)).expect("a profile");
    let mut saved = format::read(file).expect("a readable profile");
    prepare(&mut saved, true);
    saved
}

/// Writes an export to a scratch file.
fn written(name: &str, kind: &str, extension: &str) -> PathBuf {
    let options = ReportOptions {
        kind: ReportKind::from_path(format!("x.{extension}").as_ref()).expect("a format"),
        call_tree: kind == "tree",
        zone: jiff::tz::TimeZone::UTC,
        ..ReportOptions::default()
    };
    let mut out = Vec::new();
    generate(&mut out, read(name), &options).expect("an export");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("reader-{kind}-{name}.{extension}"));
    fs::write(&path, out).expect("a scratch file");
    path
}

fn is_installed(program: &str) -> bool {
    let quiet = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_installed = quiet.is_ok();
    if !is_installed {
        skip(&format!("{program} is not installed"));
    }
    is_installed
}

/// Runs a reader. Returns its output.
fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn callgrind_annotate_reads_graphs_and_trees() {
    if !is_installed("callgrind_annotate") {
        return;
    }
    for (name, kind) in PROFILES.iter().flat_map(|name| [(name, "graph"), (name, "tree")]) {
        let said = output(Command::new("callgrind_annotate").arg(written(name, kind, "callgrind")));
        assert!(said.contains("PROGRAM TOTALS"), "{name} {kind}: {said}");
    }
}

#[test]
fn graphviz_draws_graphs_and_trees() {
    if !is_installed("dot") {
        return;
    }
    for (name, kind) in PROFILES.iter().flat_map(|name| [(name, "graph"), (name, "tree")]) {
        let drawn = output(Command::new("dot").arg("-Tsvg").arg(written(name, kind, "dot")));
        assert!(drawn.contains("</svg>"), "{name} {kind}");
    }
}

#[test]
fn speedscope_files_fit_the_schema_of_speedscope() {
    if std::env::var_os("SIGTOP_LONG").is_none() {
        return skip("speedscope's schema, as SIGTOP_LONG is not set");
    }
    if !is_installed("npm") {
        return;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("speedscope");
    fs::create_dir_all(&directory).expect("a scratch directory");
    let install = ["install", "--silent", "--no-fund", "--no-audit", "speedscope@1.25.0", "ajv@8"];
    output(Command::new("npm").args(install).current_dir(&directory));
    fs::write(directory.join("check.js"), SPEEDSCOPE).expect("a script");
    for name in PROFILES {
        let file = written(name, "list", "speedscope.json");
        let sum = output(Command::new("node").arg("check.js").arg(&file).current_dir(&directory));
        let saved = read(name);
        let value = saved.value_index("").expect("a value");
        // A negative value has no place on a time axis.
        if saved.samples.values(value).all(|value| value >= 0) {
            let total: i64 = saved.samples.values(value).sum();
            assert_eq!(sum.trim(), total.to_string(), "{name}");
        }
    }
}

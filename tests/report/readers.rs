//! Exports are judged by their own readers: callgrind_annotate, graphviz, speedscope's schema, and
//! the Firefox Profiler's command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use sigtop::pprof::format;
use sigtop::pprof::profile::SavedProfile;
use sigtop::pprof::report::{ReportKind, ReportOptions, generate, prepare};

use crate::making::tests;
use crate::skips::skip;

/// Profiles of several programs and units.
const PROFILES: [&str; 4] = ["ours.pb.gz", "go-cpu.pb.gz", "go-heap.pb.gz", "mixed.pb.gz"];

/// Checks one file of `--speedscope` against the schema, and that JavaScript writes what it has read
/// byte for byte, so that no number loses digits. Prints the sum of all weights.
const SPEEDSCOPE: &str = r#"
const fs = require("fs"), text = fs.readFileSync(process.argv[2], "utf8"), file = JSON.parse(text);
const again = JSON.stringify(file) + "\n", at = [...again].findIndex((letter, at) => letter !== text[at]);
if (again !== text) throw new Error(`${text.slice(at, at + 40)} is read as ${again.slice(at, at + 40)}`);
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

/// Installs packages of npm into a directory of their own, and returns it. They are fetched by long
/// runs alone.
fn npm_packages(what: &str, packages: &[&str]) -> Option<PathBuf> {
    if std::env::var_os("SIGTOP_LONG").is_none() {
        skip(&format!("{what}, as SIGTOP_LONG is not set"));
        return None;
    }
    if !is_installed("npm") {
        return None;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(what.replace([' ', '\''], "-"));
    fs::create_dir_all(&directory).expect("a scratch directory");
    let mut install = Command::new("npm");
    install.args(["install", "--silent", "--no-fund", "--no-audit"]).args(packages).current_dir(&directory);
    let is_fetched = install.status().expect("npm runs").success();
    if !is_fetched {
        skip(&format!("{what}, which npm cannot install"));
    }
    is_fetched.then_some(directory)
}

#[test]
fn speedscope_files_fit_the_schema_of_speedscope() {
    let Some(directory) = npm_packages("speedscope's schema", &["speedscope@1.25.0", "ajv@8"]) else { return };
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

/// The time or size of each function by itself, and of it with its callees.
type Weights = BTreeMap<String, [f64; 2]>;

/// Adds up the weights of a profile as it was read. Times are in milliseconds.
fn weights(saved: &SavedProfile) -> Weights {
    let value = saved.value_index("").expect("a value");
    let unit = if saved.sample_types[value].unit == "nanoseconds" { 1e-6 } else { 1.0 };
    let mut weights = Weights::new();
    saved.samples.for_each(|sample| {
        let frames = sample.stack.iter().flat_map(|&location| {
            let location = &saved.locations[location as usize];
            let names = location.lines.iter().map(|line| saved.functions[line.function as usize].name.to_string());
            let address = location.lines.is_empty().then(|| format!("{:#x}", location.address));
            names.chain(address).collect::<Vec<String>>()
        });
        let frames: Vec<String> = frames.collect();
        let weight = sample.values[value] as f64 * unit;
        // Samples that weigh nothing are in no export.
        if weight == 0.0 {
            return;
        }
        if let Some(leaf) = frames.first() {
            weights.entry(leaf.clone()).or_default()[0] += weight;
        }
        for name in frames.into_iter().collect::<BTreeSet<String>>() {
            weights.entry(name).or_default()[1] += weight;
        }
    });
    weights
}

/// The Firefox Profiler's command line. A daemon of its own holds the profile that it has loaded.
struct FirefoxProfiler<'a> {
    directory: &'a Path,
}

impl FirefoxProfiler<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("node");
        command.arg("node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js").args(arguments);
        command.current_dir(self.directory).env("PROFILER_CLI_SESSION_DIR", self.directory.join("sessions"));
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let said = output(self.command(arguments).arg("--json"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
    }

    /// Returns what it shows of the functions of all threads.
    fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        for thread in self.json(&["thread", "list"])["threads"].as_array().expect("threads") {
            let handle = thread["threadHandle"].as_str().expect("a handle");
            let shown = self.json(&["thread", "functions", "--include-idle", "--limit", "0", "--thread", handle]);
            for function in shown["functions"].as_array().expect("functions") {
                let sums = weights.entry(function["name"].as_str().expect("a name").to_owned()).or_default();
                for (sum, key) in sums.iter_mut().zip(["selfSamples", "totalSamples"]) {
                    *sum += function[key].as_f64().expect("a number");
                }
            }
        }
        weights
    }
}

impl Drop for FirefoxProfiler<'_> {
    fn drop(&mut self) {
        drop(self.command(&["stop", "--all"]).stdout(Stdio::null()).status());
    }
}

#[test]
fn the_firefox_profiler_shows_the_weights_of_every_function() {
    let package = "@firefox-devtools/profiler-cli@0.10.0";
    let Some(directory) = npm_packages("the Firefox Profiler", &[package]) else { return };
    for name in PROFILES {
        let profiler = FirefoxProfiler { directory: &directory };
        output(&mut profiler.command(&["load", written(name, "list", "firefox.json").to_str().expect("UTF-8")]));
        let (shown, expected) = (profiler.weights(), weights(&read(name)));
        assert!(expected.len() > 4, "{name}: {expected:?}");
        assert!(shown.keys().eq(expected.keys()), "{name}: {shown:?}, not {expected:?}");
        for (function, sums) in &shown {
            let is_near = |(shown, expected): (&f64, &f64)| (shown - expected).abs() <= 1e-6 * expected.abs();
            assert!(sums.iter().zip(&expected[function]).all(is_near), "{name}: {function}: {sums:?}");
        }
    }
}

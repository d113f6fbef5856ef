//! `sigtop check`: profiles of two builds, from the samples to the exit status.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use sigtop::check::compare::Measure;
use sigtop::check::print::{CheckReport, SideFacts};
use sigtop::check::rules::GrowthRule;
use sigtop::check::series::{Series, UnitKind, ValueChoice};
use sigtop::check::verdict::{CheckRules, Finding, Verdict, check};
use sigtop::pprof::profile::{Function, Line, Location, RecordingFacts, SavedProfile, ValueType};
use sigtop::pprof::samples::Samples;

use crate::json::validate;
use crate::making::tests;

/// SplitMix64 (Steele, Lea and Flood).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Samples a program with these costs of functions, whose bursts have a mean of 10 samples. The
/// names of functions have a hash of the build.
fn sampled(random: &mut Random, costs: &[f64], samples: u64, hash: u64) -> SavedProfile {
    let mut profile = SavedProfile {
        sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
        labels: vec![[].into()],
        samples: Samples::with_width(2),
        ..SavedProfile::default()
    };
    for index in 0..costs.len() as u32 {
        let name = format!("app::f{index}::h{hash:016x}");
        profile.functions.push(Function { name: name.as_str().into(), ..Function::default() });
        let lines = vec![Line { function: index, line: 1 + hash as i64, column: 0 }];
        profile.locations.push(Location { id: u64::from(index) + 1, lines, ..Location::default() });
    }
    let sum: f64 = costs.iter().sum();
    let mut function = 0;
    for sample in 0..samples {
        if sample == 0 || random.next() < 0.1 {
            let mut rest = random.next() * sum;
            function = costs.iter().position(|cost| (rest -= cost, rest < 0.0).1).unwrap_or(0);
        }
        profile.samples.push_timed(&[function as u32], &[1, 10_000_000], 0, sample * 10_000_000);
    }
    profile
}

/// Checks two sides for any growth of a function.
fn any_growth(base: &[SavedProfile], new: &[SavedProfile]) -> (Verdict, Vec<(String, Finding)>) {
    let kind = UnitKind::choose(base, new, false);
    let choice = ValueChoice { value: 1, cum: false };
    let (one, other) = (Series::new(base, kind, choice), Series::new(new, kind, choice));
    let rules = CheckRules { functions: vec![GrowthRule::any_growth()], total: None };
    let result = check([&one, &other], kind, Measure::Share, &rules, [base.len(), new.len()]);
    let rows = result.comparison.rows.iter().map(|row| row.name.clone()).zip(result.findings.iter().copied());
    (result.verdict, rows.collect())
}

const COSTS: [f64; 12] = [10.0, 25.0, 15.0, 12.0, 9.0, 8.0, 7.0, 5.0, 4.0, 3.0, 1.5, 0.5];

#[test]
fn bursts_of_samples_are_no_regression_and_a_larger_share_is() {
    let mut slower = COSTS;
    slower[0] *= 2.5;
    let (mut alarms, mut found) = (0, 0);
    let mut random = Random(7);
    for hash in 0..100 {
        let base = [sampled(&mut random, &COSTS, 20_000, hash)];
        let same = [sampled(&mut random, &COSTS, 20_000, hash + 1)];
        let new = [sampled(&mut random, &slower, 20_000, hash + 2)];
        alarms += u32::from(any_growth(&base, &same).0 == Verdict::Regression);
        let (verdict, rows) = any_growth(&base, &new);
        let row = rows.iter().find(|(name, _)| name == "app::f0").expect("one name for both builds");
        found += u32::from(verdict == Verdict::Regression && row.1 == Finding::Regression);
    }
    println!("{alarms} alarms, {found} found of 100");
    assert!(alarms <= 1, "{alarms} alarms of 100");
    assert!(found >= 95, "{found} found of 100");
}

/// A directory for the files of one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn run(words: &[&str]) -> (i32, Output) {
    let mut sigtop = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    let output = sigtop.arg("check").arg("--no-config").args(words).stdin(Stdio::null()).output().unwrap();
    (output.status.code().expect("no signal"), output)
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Writes folded stacks and returns the path.
fn folded(directory: &Path, name: &str, stacks: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, stacks).unwrap();
    path.display().to_string()
}

#[test]
fn a_regression_exits_with_1_in_every_format() {
    let directory = directory("regression");
    let base = folded(&directory, "base.folded", "main;parse 100000\nmain;hash 300000\nmain;rest 600000\n");
    let new = folded(&directory, "new.folded", "main;parse 106000\nmain;hash 300000\nmain;rest 600000\n");
    let (status, output) = run(&[&base, &new]);
    let report = text(&output);
    assert_eq!(status, 1, "{output:?}");
    assert!(report.starts_with("regression: 1 of 3 functions has grown beyond the limits"), "{report}");
    assert!(report.contains("\n  parse has grown by 5.4 ±") && report.contains("  parse\n"), "{report}");
    assert!(report.contains("note: the files do not say when samples were taken"), "{report}");
    let (status, output) = run(&[&base, &new, "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    validate(&object);
    assert_eq!((status, object["verdict"].as_str(), object["units"].as_str()), (1, Some("regression"), Some("counts")));
    let row = &object["functions"][0];
    assert_eq!((row["name"].as_str(), row["finding"].as_str()), (Some("parse"), Some("regression")));
    let share = 106_000.0 / 1_006_000.0;
    assert!((row["new_percent"].as_f64().unwrap() - 100.0 * share).abs() < 1e-9);
    assert!((row["change_percent"].as_f64().unwrap() - 100.0 * (share / 0.1 - 1.0)).abs() < 1e-9);
    let (status, output) = run(&[&base, &new, "--markdown"]);
    assert!(status == 1 && text(&output).contains("| `parse` |\n"), "{output:?}");
    let (status, output) = run(&[&base, &new, "--github"]);
    assert!(status == 1 && text(&output).starts_with("::error title=sigtop check::regression: 1 of 3"), "{output:?}");
    assert!(text(&output).contains("%25\n"), "a percent sign is escaped: {output:?}");
    assert!(report.lines().any(|line| line.ends_with("?  total per file")), "nothing tells how it varies: {report}");
    // A limit above the growth, and a rule for another function.
    assert_eq!(run(&[&base, &new, "--fail-on", "parse>+8%"]).0, 0);
    assert_eq!(run(&[&base, &new, "--fail-on", "parse>+3%"]).0, 1);
    assert_eq!(run(&[&base, &new, "--fail-on", "hash>+3%"]).0, 0);
    assert_eq!(run(&[&new, &base]).0, 0, "an improvement is fine");
}

/// The growth of a library belongs to the own function that calls it more often.
#[test]
fn own_functions_have_the_time_of_their_libraries() {
    let directory = directory("own");
    let with = |name: &str, parse: u32, hash: u32| {
        let stacks = format!("main;parse;memcpy {parse}\nmain;parse 1000\nmain;hash;memcpy {hash}\nmain;rest 600000\n");
        folded(&directory, name, &stacks)
    };
    let (base, new) = (with("base.folded", 100_000, 300_000), with("new.folded", 106_000, 294_000));
    assert_eq!(run(&[&base, &new]).0, 0, "memcpy takes as long as before");
    let (status, output) = run(&[&base, &new, "--own=parse|hash|main|rest", "--fail-on", "parse>+3%"]);
    assert!(status == 1 && text(&output).contains("\n  parse has grown by 5.9"), "{output:?}");
    assert!(!text(&output).contains("memcpy"), "{output:?}");
    let (_, output) = run(&[&base, &new, "--own=nothing"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no function is own code"), "{output:?}");
}

#[test]
fn shares_that_grow_because_another_function_shrinks_are_no_regression() {
    let directory = directory("shift");
    let base = folded(&directory, "base.folded", "main;parse 400000\nmain;hash 300000\nmain;rest 300000\n");
    let new = folded(&directory, "new.folded", "main;parse 200000\nmain;hash 300000\nmain;rest 300000\n");
    let (status, output) = run(&[&base, &new]);
    assert_eq!(status, 0, "{output:?}");
    assert!(text(&output).contains("2 only because others have shrunk, 1 smaller"), "{output:?}");
    let worse = folded(&directory, "worse.folded", "main;parse 200000\nmain;hash 330000\nmain;rest 300000\n");
    let (status, output) = run(&[&base, &worse]);
    assert!(status == 1 && text(&output).contains("\n  hash has grown by"), "{output:?}");
}

#[test]
fn too_few_samples_exit_with_3_and_say_how_many_would_do() {
    let directory = directory("few");
    let base = folded(&directory, "base.folded", "main;parse 100\nmain;rest 900\n");
    let new = folded(&directory, "new.folded", "main;parse 104\nmain;rest 896\n");
    let (status, output) = run(&[&base, &new]);
    let report = text(&output);
    assert_eq!(status, 3, "{output:?}");
    assert!(
        report.contains("a growth of parse by 5 % might have been missed")
            && report.contains(" samples a side would do"),
        "{report}"
    );
    // The total of one file a side, a function that has everything, and a misspelled one.
    for rules in [&["--total", "+2%"][..], &["--fail-on", "nothing_like_it>+3%"]] {
        let (status, output) = run(&[&[base.as_str(), &new], rules].concat());
        assert_eq!(status, 3, "{rules:?} {output:?}");
    }
    let one = folded(&directory, "one.folded", "main;all 100000\n");
    let (status, output) = run(&[&one, &one]);
    assert!(status == 3 && text(&output).contains("its share cannot grow"), "{output:?}");
}

#[test]
fn nothing_is_fine_without_a_base() {
    let directory = directory("none");
    let new = folded(&directory, "new.folded", "main;parse 100000\nmain;rest 100000\n");
    let empty = folded(&directory, "empty.folded", "");
    let missing = directory.join("missing.folded").display().to_string();
    let nothing = directory.join("nothing");
    fs::create_dir(&nothing).unwrap();
    let nothing = nothing.display().to_string();
    let cases: [&[&str]; 7] =
        [&[&missing, &new], &[&empty, &new], &[&new, &empty], &[&nothing, &new], &[&new], &[], &["--new", &new]];
    for words in cases {
        let (status, output) = run(words);
        assert!(status != 0 && status != 1, "{words:?}: {status} {output:?}");
        assert!(!output.stderr.is_empty() || status == 3, "{words:?}: {output:?}");
    }
}

#[test]
fn files_of_a_directory_are_runs_whose_total_is_compared() {
    let directory = directory("runs");
    for (side, factor) in [("base", 100), ("new", 104)] {
        fs::create_dir(directory.join(side)).unwrap();
        for run in 0..8 {
            let noise = 1000 + [3, -2, 1, -4, 2, 0, -1, 1][run as usize];
            let stacks = format!("main;parse {}\nmain;rest {}\n", noise * factor / 4, noise * factor);
            folded(&directory.join(side), &format!("{run}.folded"), &stacks);
        }
    }
    let [base, new] = ["base", "new"].map(|side| directory.join(side).display().to_string());
    let (status, output) = run(&[&base, &new, "--total", "+2%"]);
    assert!(status == 1 && text(&output).contains("total has grown by 4.0 ±"), "{output:?}");
    assert_eq!(run(&[&base, &new, "--total", "+5%"]).0, 0);
    let (status, output) = run(&[&base, &new, "--fail-on", "parse>+9%"]);
    assert!(status == 0 && text(&output).contains(" +4.0% ±"), "the total has changed, and may: {output:?}");
    let (status, output) = run(&[&base, &new, "--by", "time", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    validate(&object);
    assert_eq!((status, object["units"].as_str(), object["base"]["units"].as_u64()), (1, Some("files"), Some(8)));
    assert_eq!(object["functions"].as_array().unwrap().iter().filter(|row| row["finding"] == "regression").count(), 2);
}

#[test]
fn a_recording_is_compared_by_blocks_of_time() {
    let recording = tests().join("recordings/ripgrep.sigtop").display().to_string();
    let (status, output) = run(&[&recording, &recording, "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    validate(&object);
    assert_eq!((status, object["units"].as_str()), (3, Some("blocks")), "{object}");
    let warnings = object["warnings"].to_string();
    assert!(
        warnings.contains("both sides are the same build") && warnings.contains("differences between runs"),
        "{warnings}"
    );
}

#[test]
fn commands_are_run_in_turns_and_compared() {
    let program = |turns: u32| format!("i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done");
    let (quick, slow) = (program(200_000), program(400_000));
    let runs = ["--runs", "5", "--hz", "250", "--json", "--", "sh", "-c", &quick, "--", "sh", "-c", &slow];
    let (status, output) = run(&runs);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    validate(&object);
    assert_eq!(
        (status, object["units"].as_str(), object["measure"].as_str()),
        (1, Some("runs"), Some("time")),
        "{object}"
    );
    assert_eq!(object["total"]["finding"], "regression");
    assert!(object["total"]["change_percent"].as_f64().unwrap() > 40.0, "{object}");
    let (status, output) = run(&["--runs", "2", "--", "false", "--", "true"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(status == 125 && error.contains("a run of false failed"), "{error}");
    assert_eq!(run(&["--runs", "2", "--", "true"]).0, 2);
}

#[test]
fn differences_between_the_machines_of_both_sides_are_noted() {
    let profile = |host: &str, kernel: &str, command: &str| {
        let mut profile = sampled(&mut Random(3), &COSTS, 2_000, 1);
        let (host, kernel, command) = (host.into(), kernel.into(), command.into());
        profile.recordings = vec![RecordingFacts { host, kernel, command, ..RecordingFacts::default() }];
        [profile]
    };
    let report = |base: &[SavedProfile], new: &[SavedProfile]| {
        let choice = ValueChoice { value: 1, cum: false };
        let [one, other] = [base, new].map(|side| Series::new(side, UnitKind::Blocks, choice));
        let rules = CheckRules { functions: vec![GrowthRule::any_growth()], total: None };
        let sides = [base, new].map(|side| SideFacts::new(vec!["a.sigtop".to_owned()], side));
        let result = check([&one, &other], UnitKind::Blocks, Measure::Share, &rules, [1, 1]);
        let report = CheckReport { result, value_name: "cpu".to_owned(), unit: "nanoseconds".to_owned(), sides };
        validate(&report.json());
        report.text()
    };
    let base = profile("one", "Linux 6.8.0", "./server --threads 4\x1b[2J");
    let text = report(&base, &profile("other", "Linux 6.9.0", "./server"));
    assert!(text.contains("note: the machines differ: base one; new other\n"), "{text}");
    assert!(text.contains("note: the kernels differ: base Linux 6.8.0; new Linux 6.9.0\n"), "{text}");
    assert!(text.contains("note: the commands differ: base ./server --threads 4"), "{text}");
    assert!(!text.contains('\x1b') && !report(&base, &base).contains("differ:"), "{text}");
}

/// Regression test: parts of a function that stood on one stack counted twice.
#[test]
fn parts_of_a_function_on_one_stack_count_once() {
    let directory = directory("parts");
    let base = folded(&directory, "base.folded", "main;foo;foo.cold 100000\nmain;rest 100000\n");
    let (_, output) = run(&[&base, &base, "--cum", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = object["functions"].as_array().unwrap();
    let share = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["base_percent"].as_f64();
    assert_eq!((share("foo"), share("main"), rows.len()), (Some(50.0), Some(100.0), 3), "{object}");
}

#[test]
fn code_without_a_name_is_not_charged_to_its_caller() {
    let mixed = tests().join("profiles/mixed.pb.gz").display().to_string();
    let (_, output) = run(&[&mixed, &mixed, "--json", "--sample-index", "wall"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    validate(&object);
    let top = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(["report", "--json", &mixed]).output().unwrap();
    let top: Value = serde_json::from_slice(&top.stdout).unwrap();
    let flat = |rows: &Value, name: &str, member: &str| {
        rows.as_array().unwrap().iter().find(|row| row["name"] == name).map(|row| row[member].as_i64().unwrap())
    };
    for name in ["json::Parser::peek", "json::parse"] {
        assert_eq!(flat(&object["functions"], name, "base"), flat(&top["rows"], name, "flat"), "{name}: {object}");
        assert!(flat(&object["functions"], name, "base").is_some(), "{name}");
    }
}

//! Python functions between native frames, in every version of CPython that is installed and read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::harness::raw::{Entry, Frame};
use crate::harness::run::{Batch, SIGTOP, Watched, in_parallel, installed, run, text, tool};
use crate::harness::skips::{are_installed, skip};
use crate::harness::statistics::deviations;
use crate::harness::targets;

/// Versions that are read, besides that of `python3`, the oldest first.
const OTHERS: [&str; 8] = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"];
/// The module of a Python function in the dump.
const PYTHON: &str = "[Python]";

/// Returns the interpreters to test, each version once, the oldest first.
fn interpreters() -> &'static [PathBuf] {
    // What starts a Python may be a script that takes longer than Python itself.
    static FOUND: LazyLock<Vec<PathBuf>> = LazyLock::new(find_interpreters);
    if FOUND.is_empty() {
        skip("no version of CPython is installed that is read");
    }
    &FOUND
}

fn find_interpreters() -> Vec<PathBuf> {
    let mut found: Vec<(usize, PathBuf)> = Vec::new();
    let others = OTHERS.iter().filter_map(|version| Some((installed(&format!("python{version}"))?, *version)));
    for (path, version) in tool("python3").map(|path| (path, "")).into_iter().chain(others) {
        // It may be a script that chooses among versions by this variable.
        let show = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)";
        let shown = Command::new(&path).env("PYENV_VERSION", version).args(["-c", show]).output();
        let Some(shown) = shown.ok().filter(|shown| shown.status.success()) else { continue };
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let Some((version, path)) = shown.trim().split_once(' ') else { continue };
        let age = OTHERS.iter().position(|other| *other == version);
        if let Some(age) = age.filter(|age| found.iter().all(|(other, _)| other != age)) {
            found.push((age, path.into()));
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn script() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/interpreted.py")
}

fn watch(python: &Path, options: &str, target: &str, seconds: &str) -> Watched {
    let watched = Batch::new(options).run(&[text(python), script(), target, seconds]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    watched
}

/// Returns the name of a Python function without its place and without the names around it, which
/// CPython has from 3.11 on; empty for other frames.
fn function(frame: &Frame) -> &str {
    let name = if frame.module == PYTHON { frame.name() } else { "" };
    name.split_once(" (").and_then(|(name, _)| name.rsplit('.').next()).unwrap_or_default()
}

/// Returns the Python functions of the target on a stack, outermost first.
fn functions(entry: &Entry) -> Vec<&str> {
    let own = entry.frames.iter().filter(|frame| frame.name().contains("interpreted.py"));
    own.map(function).filter(|name| !name.is_empty()).collect()
}

fn is_loop(frame: &Frame) -> bool {
    frame.name() == "_PyEval_EvalFrameDefault"
}

fn is_python(frame: &Frame) -> bool {
    frame.module == PYTHON
}

/// Returns the share of samples with a frame that is wanted.
fn share(watched: &Watched, wanted: fn(&Frame) -> bool) -> f64 {
    let with = watched.raw.of("prof").filter(|entry| entry.frames.iter().any(wanted));
    with.map(|entry| entry.samples).sum::<u64>() as f64 / watched.raw.samples("prof") as f64
}

/// Asserts that nearly all samples of the target have Python functions, but for those of its start:
/// it imports modules while the agent does not know them yet.
fn nearly_all_are_read(watched: &Watched) {
    const START_NS: u64 = 30_000_000;
    let (mut with, mut with_ns, mut without_ns) = (0, 0, 0);
    for entry in watched.raw.of("prof") {
        match entry.frames.iter().any(is_python) {
            true => (with, with_ns) = (with + entry.samples, with_ns + entry.weight_ns),
            false if entry.frames.iter().any(is_loop) => without_ns += entry.weight_ns,
            false => {}
        }
    }
    assert!(
        with > 100 && without_ns <= with_ns / 20 + START_NS,
        "{with} samples of {with_ns} ns with Python functions, {without_ns} ns without"
    );
}

#[test]
fn shares_are_those_of_the_functions() {
    check_shares("--hz 250", "1.7");
}

#[test]
fn shares_from_outside_are_those_of_the_functions() {
    check_shares("--hz 990 --engine external --budget 100%", "0.6");
}

fn check_shares(options: &str, seconds: &str) {
    for python in interpreters() {
        let mut samples = [0; 4];
        // The check can fail: with so many samples, a half is no 60 percent. On a busy machine, one
        // run has too few, as ticks that come together are one sample.
        while samples[0] == 0 || deviations(samples[0] / 2, samples[0], 0.6).abs() <= 4.0 {
            let watched = watch(python, options, "shares", seconds);
            nearly_all_are_read(&watched);
            for (samples, name) in samples.iter_mut().zip(["shares", "burn_a", "burn_b", "burn_c"]) {
                let entries = watched.raw.of("prof").filter(|entry| functions(entry).contains(&name));
                *samples += entries.map(|entry| entry.samples).sum::<u64>();
            }
        }
        let all = samples[0];
        for (hits, expected) in samples[1..].iter().zip([0.6, 0.3, 0.1]) {
            let distance = deviations(*hits, all, expected);
            assert!(distance.abs() <= 4.0, "{expected} in {python:?}: {hits} of {all}, {distance} standard deviations");
        }
    }
}

/// py-spy launches the target and is launched by sigtop, so that both sample the same run.
#[test]
fn shares_are_those_that_py_spy_finds() {
    if !are_installed(&["py-spy"]) {
        return;
    }
    for python in interpreters() {
        let file = targets::scratch("py-spy").join("stacks");
        let py_spy = ["py-spy", "record", "--rate", "300", "--format", "raw", "--output", text(&file), "--"];
        let watched = Batch::new("--hz 250").run(&[&py_spy[..], &[text(python), script(), "shares", "2"]].concat());
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let stacks = std::fs::read_to_string(&file).expect("py-spy writes its stacks");
        let found_by_py_spy = |name: &str| -> u64 {
            let with = stacks.lines().filter(|line| line.contains(&format!(";{name} (")));
            with.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        let found = |name: &str| -> u64 {
            let with = watched.raw.of("prof").filter(|entry| functions(entry).contains(&name));
            with.map(|entry| entry.samples).sum()
        };
        let (all, all_by_py_spy) = (found("shares"), found_by_py_spy("shares"));
        assert!(all > 300 && all_by_py_spy > 300, "{all} samples, {all_by_py_spy} of py-spy");
        let distance = |one: u64, other: u64| {
            let (one, other) = (one as f64 / all as f64, other as f64 / all_by_py_spy as f64);
            let spread = one * (1.0 - one) / all as f64 + other * (1.0 - other) / all_by_py_spy as f64;
            (one - other) / spread.sqrt()
        };
        for name in ["burn_a", "burn_b", "burn_c"] {
            let (ours, theirs) = (found(name), found_by_py_spy(name));
            let differs = format!("{name} in {python:?}: {ours} of {all}, py-spy {theirs} of {all_by_py_spy}");
            assert!(distance(ours, theirs).abs() <= 4.0, "{differs}");
        }
        // The check can fail.
        assert!(distance(found("burn_a"), found_by_py_spy("burn_b")).abs() > 4.0, "{stacks}");
    }
}

/// Returns whether the target calls `callee` in `caller`.
fn is_call(caller: &str, callee: &str) -> bool {
    let callers: &[&str] = match callee {
        "<module>" => &[],
        // The body of a class.
        "Meter" => &["<module>"],
        "calls" => &["<module>", "worker"],
        "threads" => &["<module>"],
        "worker" => &["<module>", "threads"],
        "recurse" => &["calls", "recurse"],
        "through_c" => &["calls", "through_c"],
        "produce" => &["calls", "delegate"],
        "delegate" | "combine" | "fail" | "__del__" | "__eq__" | "value" | "<lambda>" => &["calls"],
        "<listcomp>" => &["calls", "threads"],
        "sort_key" => &["calls", "<listcomp>"],
        "leaf" => &[
            "calls",
            "recurse",
            "through_c",
            "produce",
            "sort_key",
            "combine",
            "fail",
            "<lambda>",
            "__del__",
            "__eq__",
            "value",
        ],
        _ => &[],
    };
    callers.contains(&caller)
}

/// No stack has a function under one that does not call it, whatever happens between them, and the
/// callers' lines are those of the calls.
#[test]
fn callers_are_those_of_the_program() {
    check_callers("--hz 500", "0.7");
}

#[test]
fn callers_from_outside_are_those_of_the_program() {
    check_callers("--hz 990 --engine external --budget 100%", "0.4");
}

fn check_callers(options: &str, seconds: &str) {
    let source = std::fs::read_to_string(script()).expect("it is part of the tests");
    let lines: Vec<&str> = source.lines().collect();
    for python in interpreters() {
        for target in ["calls", "threads"] {
            let watched = watch(python, options, target, seconds);
            nearly_all_are_read(&watched);
            assert!(share(&watched, is_python) > 0.8 && share(&watched, is_loop) < 0.05, "{python:?}");
            lines_are_those_of_the_calls(&watched, &lines);
            let mut seen = std::collections::BTreeSet::new();
            for entry in watched.raw.of("prof") {
                let functions = functions(entry);
                for pair in functions.windows(2) {
                    assert!(is_call(pair[0], pair[1]), "{python:?}: {} calls {}: {entry:?}", pair[0], pair[1]);
                    seen.insert(format!("{} {}", pair[0], pair[1]));
                }
            }
            for pair in ["calls recurse", "recurse recurse", "through_c through_c", "sort_key leaf", "combine leaf"] {
                assert!(seen.contains(pair), "{python:?}: {pair} is not in {seen:?}");
            }
        }
    }
}

/// Asserts it of the calls that one line alone makes.
fn lines_are_those_of_the_calls(watched: &Watched, lines: &[&str]) {
    let mut checked = 0;
    for entry in watched.raw.of("prof") {
        for pair in entry.frames.windows(2) {
            let [caller, callee] = [&pair[0], &pair[1]].map(|frame| (function(frame), frame.name()));
            if !caller.1.contains("interpreted.py") || !["recurse", "fail", "combine"].contains(&callee.0) {
                continue;
            }
            let line: usize = caller.1.rsplit(':').next().and_then(|line| line.parse().ok()).expect("a line");
            assert!(lines[line - 1].contains(callee.0), "{caller:?} calls {callee:?}");
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} calls");
}

/// Functions alone are the default, which other tests check.
#[test]
fn the_option_chooses_the_frames() {
    for (at, python) in interpreters().iter().enumerate() {
        let mixed = watch(python, "--hz 500 --python mixed", "calls", "0.4");
        assert!(share(&mixed, is_python) > 0.8 && share(&mixed, is_loop) > 0.8, "{python:?}");
        if at == 0 {
            let native = watch(python, "--hz 500 --python native", "calls", "0.4");
            assert!(share(&native, is_python) == 0.0 && share(&native, is_loop) > 0.8);
        }
    }
}

#[test]
fn deep_recursion_keeps_the_leaf_side() {
    check_deep_recursion("--hz 500");
}

#[test]
fn deep_recursion_from_outside_keeps_the_leaf_side() {
    check_deep_recursion("--hz 500 --engine external --budget 100%");
}

fn check_deep_recursion(options: &str) {
    for python in interpreters() {
        let watched = watch(python, options, "deep", "0.35");
        let deep = watched.raw.of("prof").filter(|entry| functions(entry).last() == Some(&"spin"));
        // Up to 3.10, each function has some three native frames.
        let deep: Vec<_> = deep.filter(|entry| functions(entry).len() > 60).collect();
        let samples: u64 = deep.iter().map(|entry| entry.samples).sum();
        assert!(samples * 2 > watched.raw.samples("prof"), "{samples} samples\n{}", watched.tables);
        for entry in deep {
            let is_gap = |frame: &Frame| frame.name() == "[frames left out]";
            let gaps = entry.frames.iter().filter(|frame| is_gap(frame)).count();
            // The deepest native stacks end at the limit of a walk.
            assert!(gaps == 1 || gaps == 0 && entry.truncated, "{entry:?}");
        }
    }
}

#[test]
fn a_sleeping_thread_shows_its_function() {
    for python in interpreters() {
        let ways = ["--hz 100 --clock wall --engine external", "--hz 100 --clock wall"];
        // Frames of the loop of 3.15 need a register that the kernel does not show of a sleeping
        // thread.
        let by_agent = !python.ends_with("python3.15");
        in_parallel(&ways[..1 + usize::from(by_agent)], |options| {
            let watched = watch(python, options, "nap", "1");
            let all = watched.raw.weight_ns("real");
            let napping = watched.raw.cum_ns("real", |name| name.starts_with("nap ("));
            assert!(napping * 10 > all * 7, "{options}: {napping} of {all} ns\n{}", watched.tables);
        });
    }
}

/// Handlers make no system calls there, but sleeping threads are read, and all from outside.
#[test]
fn under_a_seccomp_filter_running_threads_are_read_from_outside() {
    for python in interpreters() {
        let file = targets::scratch("python").join("filtered.sigtop");
        let record = |engine: &[&str]| {
            let mut command = Command::new(SIGTOP);
            command.args(["record", "--clock", "wall", "--hz", "250"]).args(engine).arg("-o").arg(&file);
            let recorded = run(command.args(["--", text(python), script(), "filtered", "1"]));
            assert_eq!(recorded.code(), 0, "{}", recorded.err());
            let view = run(Command::new(SIGTOP).args(["view", "--batch", text(&file)])).out();
            let symbols = run(Command::new(SIGTOP).args(["symbols", text(&file)])).out();
            (view, symbols)
        };
        let reason = "The agent reads no running threads under a seccomp filter; --engine external does";
        let (view, symbols) = record(&[]);
        assert!(view.contains("nap (") && !view.contains("burn_a ("), "{python:?}: {view}");
        assert!(symbols.contains(reason), "{symbols}");
        let (view, symbols) = record(&["--engine", "external"]);
        assert!(view.contains("nap (") && view.contains("burn_a ("), "{python:?}: {view}");
        assert!(!symbols.contains(reason), "{symbols}");
    }
}

#[test]
fn a_child_of_fork_shows_its_functions() {
    for python in interpreters() {
        let watched = watch(python, "--hz 500", "children", "0.6");
        let pids = |wanted: &str| {
            let entries = watched.raw.of("prof").filter(|entry| functions(entry).contains(&wanted));
            let mut pids: Vec<u32> = entries.map(|entry| entry.pid).collect();
            pids.dedup();
            pids
        };
        let (parent, child) = (pids("burn_a"), pids("burn_b"));
        assert!(parent.len() == 1 && child.len() == 1 && parent != child, "{parent:?}, {child:?}");
    }
}

/// The code of `made_7` is freed, and that of `made_8` may lie at its address.
#[test]
fn a_freed_function_lends_nobody_its_name() {
    for python in interpreters() {
        let watched = watch(python, "--hz 500", "replaced", "0.6");
        let mut checked = 0;
        for entry in watched.raw.of("prof") {
            let made: Vec<&str> = entry.frames.iter().map(Frame::name).filter(|name| name.contains("made_")).collect();
            // The module of a made function is compiled under the function's name.
            for pair in made.windows(2) {
                let number = |name: &str| {
                    let digits = name.rsplit("made_").next().unwrap_or_default();
                    digits.chars().take_while(char::is_ascii_digit).collect::<String>()
                };
                assert_eq!(number(pair[0]), number(pair[1]), "{python:?}: {entry:?}");
                checked += 1;
            }
        }
        assert!(checked > 20, "{checked} stacks of made functions");
    }
}

#[test]
fn a_recording_has_the_functions() {
    for python in interpreters() {
        let directory = targets::scratch("python");
        let file = directory.join("app.sigtop");
        let command = [text(python), script(), "shares", "0.6"];
        let recorded = run(Command::new(SIGTOP).args(["record", "--hz", "250", "-o", text(&file), "--"]).args(command));
        assert_eq!(recorded.code(), 0, "{}", recorded.err());
        let view = |option: &str| {
            let viewed = run(Command::new(SIGTOP).args(["view", "--batch", "--python", option, text(&file)]));
            assert_eq!(viewed.code(), 0, "{}", viewed.err());
            viewed.out()
        };
        let (functions, native) = (view("functions"), view("native"));
        assert!(functions.contains("burn_a (") && !native.contains("burn_a ("), "{functions}\n{native}");
        let report = run(Command::new(SIGTOP).args(["report", "--top", text(&file)]));
        assert!(report.out().contains("interpreted.py:"), "{}", report.out());
        let symbols = run(Command::new(SIGTOP).args(["symbols", text(&file)])).out();
        assert!(symbols.contains("stacks with Python functions"), "{symbols}");
    }
}

/// Regression test: once a program had made a subinterpreter, none of its stacks had Python
/// functions, neither those of the main interpreter nor of the other.
#[test]
fn functions_of_subinterpreters_are_named() {
    const SUB: &str = "def hot_in_sub(n):\n    x = 0\n    for i in range(n): x = (x * 7 + i) & 65535\n    return x\n\
        def outer_in_sub():\n    for i in range(40): hot_in_sub(50000)\nouter_in_sub()\n";
    let main = format!(
        "import _xxsubinterpreters as s\ndef hot_in_main(n):\n    x = 0\n    for i in range(n): x = (x * 7 + i) & 65535\n\
         def in_main():\n    i = s.create()\n    s.run_string(i, {SUB:?})\n    for k in range(40): hot_in_main(50000)\nin_main()\n"
    );
    // 3.13 has another module, and no order of the states of a thread that can be read.
    let with =
        interpreters().iter().filter(|python| ["3.11", "3.12"].iter().any(|version| text(python).contains(version)));
    let mut count = 0;
    for python in with {
        count += 1;
        for engine in ["", "--engine ptrace --budget 100%"] {
            let watched = Batch::new(&format!("--hz 250 {engine}")).run(&[text(python), "-c", &main]);
            assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
            let with = |wanted: &[&str]| -> u64 {
                let has = |entry: &&Entry| {
                    let names = entry.frames.iter().map(function).filter(|name| wanted.contains(name));
                    names.eq(wanted.iter().copied())
                };
                watched.raw.of("prof").filter(has).map(|entry| entry.samples).sum()
            };
            let all: u64 = watched.raw.of("prof").map(|entry| entry.samples).sum();
            let (sub, own) = (with(&["in_main", "outer_in_sub", "hot_in_sub"]), with(&["in_main", "hot_in_main"]));
            assert!(
                all > 40 && sub * 4 > all && own * 4 > all,
                "{engine}: {sub} and {own} of {all}\n{}",
                watched.tables
            );
        }
    }
    if count == 0 {
        skip("neither CPython 3.11 nor 3.12 is installed");
    }
}

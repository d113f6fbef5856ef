//! Code that programs generate while they run: it has the names of perf maps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::raw::{Entry, Raw};
use crate::harness::run::{Batch, Watched, installed, run, text};
use crate::harness::skips::skip;
use crate::harness::statistics::lower_bound;
use crate::harness::targets;

/// Removes the perf maps that processes of a watch left behind.
fn remove_maps(watched: &Watched) {
    for image in &watched.raw.images {
        let _ = fs::remove_file(format!("/tmp/perf-{}.map", image.pid));
    }
}

/// Share of the weight whose leaf is in generated code of this name; without one if it is empty.
fn flat_share(raw: &Raw, name: &str) -> f64 {
    let module = if name.is_empty() { "?" } else { "[JIT]" };
    let flat: u64 = raw
        .of("prof")
        .filter(|entry| entry.frames.last().is_some_and(|frame| frame.module == module && frame.name() == name))
        .map(|entry| entry.weight_ns)
        .sum();
    flat as f64 / raw.weight_ns("prof").max(1) as f64
}

/// A third of the time is spent in each function. With 300 samples, five standard deviations are
/// 0.14.
#[test]
fn generated_code_has_the_name_of_its_time() {
    let program = targets::c("generates");
    let watched = Batch::new("--hz 250").run(&[text(&program), "0.4"]);
    remove_maps(&watched);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    for wanted in ["first", "second", ""] {
        let share = flat_share(&watched.raw, wanted);
        assert!((share - 1.0 / 3.0).abs() < 0.15, "{share} in {wanted}\n{}", watched.tables);
    }
    assert!(watched.tables.contains("[JIT]"), "{}", watched.tables);
}

/// Regression test: from outside, the map of a program in another pid namespace was looked for by
/// the pid that sigtop knows.
#[test]
fn generated_code_in_another_pid_namespace_is_named() {
    let program = targets::c("generates");
    let user = if nix::unistd::geteuid().is_root() { "" } else { "Ur" };
    let unshare = ["unshare".to_owned(), format!("-{user}pfm"), "--mount-proc".to_owned()];
    let probe = Command::new(&unshare[0]).args(&unshare[1..]).args(["mount", "-t", "tmpfs", "none", "/tmp"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skip("unshare is not permitted");
    }
    let script = format!("mount -t tmpfs none /tmp && exec {} 0.4", text(&program));
    let command: Vec<&str> = unshare.iter().map(String::as_str).chain(["sh", "-c", &script]).collect();
    for engine in ["", "--engine external --budget 100%"] {
        let watched = Batch::new(&format!("--hz 250 {engine}")).run(&command);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        for wanted in ["first", "second"] {
            let share = flat_share(&watched.raw, wanted);
            assert!(share > 0.15, "{engine}: {share} in {wanted}\n{}", watched.tables);
        }
    }
}

/// The names are in the recording, with the version of the code: the program and its map are gone.
#[test]
fn recording_keeps_the_names_of_generated_code() {
    let program = targets::c("generates");
    let file = targets::scratch("generated").join("run.sigtop");
    for symbols in [&["--symbols"][..], &[]] {
        let sigtop = env!("CARGO_BIN_EXE_sigtop");
        let run = Command::new(sigtop)
            .args(["record", "--quiet", "--hz", "250", "-o", text(&file)])
            .args(symbols)
            .args(["--", text(&program), "0.3"])
            .status();
        assert!(run.expect("sigtop runs").success());
        let table = Command::new(sigtop).args(["view", "--batch", "--window", "all", text(&file)]).output();
        let table = table.expect("sigtop runs");
        let table = [table.stdout, table.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let has = |name: &str| table.lines().any(|line| line.trim_end().ends_with(&format!(" {name}")));
        assert!(has("first") && has("second"), "{symbols:?}: {table}");
        assert!(has("[JIT]"), "{table}");
    }
}

#[test]
fn functions_of_node_and_python_are_named() {
    const JS: &str = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } \
                      let sum = 0; for (let i = 0; i < 400; i++) sum += fib(22); console.log(sum)";
    const PYTHON: &str = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(25))";
    for (program, jit, code) in [("node", "auto", ["-e", JS]), ("python3.12", "all", ["-c", PYTHON])] {
        let Some(path) = installed(program) else { continue };
        // It may be a script that chooses among versions and has none.
        let version = Command::new(&path).arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let command = [text(&path), code[0], code[1]];
        let off = Batch::new("--hz 250 --jit off --python native").run(&command);
        let all = Batch::new(&format!("--hz 250 --jit {jit} --python native")).run(&command);
        // V8 leaves logs in the working directory with some of its options.
        let directory = targets::scratch("working-directory");
        assert_eq!(run(Batch::new("").command(&command).current_dir(&directory)).code(), 0);
        let left: Vec<_> = fs::read_dir(&directory).expect("it was made").flatten().collect();
        assert!(left.is_empty(), "{program} left {left:?}");
        [&off, &all].into_iter().for_each(remove_maps);
        assert_eq!((all.ran.code(), all.ran.out()), (0, off.ran.out()), "{}", all.ran.err());
        let share = |watched: &Watched| {
            let named = watched.raw.cum_ns("prof", |name| name.starts_with("fib ("));
            named as f64 / watched.raw.weight_ns("prof").max(1) as f64
        };
        assert_eq!(share(&off), 0.0, "{program}");
        assert!(share(&all) > 0.3, "{program}: {} in fib\n{}", share(&all), all.tables);
    }
}

/// Compiles the Java program and returns its directory, if a JDK with perf maps is installed.
fn java() -> Option<PathBuf> {
    let directory = targets::scratch("java");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/Compiled.java");
    let compiled = installed("javac").is_some_and(|javac| {
        let ran = Command::new(javac).args(["--release", "17", "-d", text(&directory), source]).output();
        ran.is_ok_and(|ran| ran.status.success())
    });
    if !compiled {
        skip("no JDK 17 or later is installed");
    }
    compiled.then_some(directory)
}

/// Runs the Java program under sigtop with these options of both.
fn watch_java(directory: &Path, sigtop: &str, options: &[&str]) -> Watched {
    let java = installed("java").expect("javac has one");
    // Calls that are inlined have no frame of their own.
    let fixed = ["-Xshare:auto", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Compiled::*"];
    let command = [&[text(&java)], &fixed[..], options, &["-cp", text(directory), "Compiled", "1.6"]].concat();
    let watched = Batch::new(&format!("--hz 250 --no-config {sigtop}")).run(&command);
    remove_maps(&watched);
    assert_eq!((watched.ran.code(), watched.ran.out()), (0, String::new()), "{}", watched.ran.err());
    watched
}

/// Java writes the names at its end, and keeps frame pointers only if it is asked to.
#[test]
fn java_functions_are_named_and_what_they_lack_is_said() {
    let Some(directory) = java() else { return };
    let flags = ["-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"];
    for engine in ["", "--engine external --budget 100%"] {
        // On a busy machine, one run has too few samples to tell.
        let (mut whole, mut all) = (0, 0);
        let with = loop {
            let with = watch_java(&directory, engine, &flags);
            let inner: Vec<_> = with.raw.of("prof").filter(|entry| has_frame(entry, "Compiled.inner(long)")).collect();
            let is_whole = |entry: &&&Entry| has_frame(entry, "Compiled.middle(long, int)") && !entry.truncated;
            all += inner.iter().map(|entry| entry.samples).sum::<u64>();
            whole += inner.iter().filter(is_whole).map(|entry| entry.samples).sum::<u64>();
            assert!(flat_share(&with.raw, "long Compiled.inner(long)") > 0.5, "{engine}\n{}", with.tables);
            if all >= 1_000 || all > 0 && lower_bound(whole, all, 1e-6) > 0.9 {
                break with;
            }
        };
        assert!(lower_bound(whole, all, 1e-6) > 0.9, "{engine}: {whole} of {all} are whole\n{}", with.tables);
        assert!(with.last().row("long Compiled.inner(long)").is_some(), "{}", with.tables);
        let said = with.ran.err() + &with.tables;
        assert!(!said.contains("PreserveFramePointer") && !said.contains("perfmap"), "{engine}: {said}");

        let without = watch_java(&directory, engine, &[]);
        assert!(flat_share(&without.raw, "") > 0.5, "{engine}\n{}", without.tables);
        let said = without.ran.err() + &without.tables;
        let sentence = "are truncated: start the program with -XX:+PreserveFramePointer; jcmd ";
        assert_eq!(said.matches(sentence).count(), 1, "{engine}: {said}");
    }
}

fn has_frame(entry: &Entry, name: &str) -> bool {
    entry.frames.iter().any(|frame| frame.name().ends_with(name))
}

/// Regression test: code that keeps no frame pointer lost its caller, and nothing said so: the base
/// pointer led from it to `far_caller`. On a stack of its own it was a root, because that register
/// was 0 there.
#[test]
fn callers_of_generated_code_without_frame_pointers_are_not_skipped() {
    let source = include_str!("../targets/generated_stacks.c");
    let flags = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    let program = targets::generated("generated_stacks", source, "c", "cc", &flags);
    for engine in ["", "--engine external --budget 100%"] {
        for (way, callers) in [
            ("leaf", &["far_caller", "near_caller", ""][..]),
            ("between", &["far_caller", "near_caller", "plain_caller", ""]),
            ("calls", &["far_caller", "near_caller", "", "burn"]),
            ("aside", &["far_caller", "near_caller", "", ""]),
        ] {
            let watched = Batch::new(&format!("--hz 250 --jit off {engine}")).run(&[text(&program), way, "0.6"]);
            assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
            let (mut whole, mut all) = (0, 0);
            for entry in watched.raw.of("prof") {
                let names: Vec<&str> = entry.frames.iter().map(|frame| frame.name()).collect();
                // The functions between are not distinguished from the code on the other stack.
                let Some(generated) = entry.frames.iter().position(|frame| frame.module == "?") else { continue };
                let is_whole = names.ends_with(callers);
                let is_caller = generated > 0
                    && names[generated - 1] == callers[callers.iter().position(|name| name.is_empty()).unwrap() - 1];
                assert!(is_caller || entry.truncated, "{engine} {way}: {names:?}");
                all += entry.samples;
                whole += if is_whole && !entry.truncated { entry.samples } else { 0 };
            }
            assert!(all > 20, "{engine} {way}: {all} samples\n{}", watched.tables);
            assert!(
                way == "aside" || lower_bound(whole, all, 1e-6) > 0.6,
                "{engine} {way}: {whole} of {all} are whole"
            );
        }
    }
}

/// Regression test: text that had been moved to huge pages was nameless generated code, and its
/// stacks were truncated.
#[test]
fn code_that_was_moved_to_anonymous_memory_is_that_of_its_file() {
    let program = targets::c("moved_text");
    for engine in ["", "--engine external --budget 100%"] {
        let watched = Batch::new(&format!("--hz 250 {engine}")).run(&[text(&program), "0.8"]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        let all: u64 = watched.raw.of("prof").map(|entry| entry.samples).sum();
        let is_whole = |entry: &&Entry| {
            let names: Vec<&str> = entry.frames.iter().map(|frame| frame.name()).collect();
            names.ends_with(&["main", "caller", "burn"]) && !entry.truncated
        };
        let whole: u64 = watched.raw.of("prof").filter(is_whole).map(|entry| entry.samples).sum();
        assert!(all > 50 && whole * 100 >= all * 80, "{engine}: {whole} of {all}\n{}", watched.tables);
    }
}

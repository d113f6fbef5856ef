//! Code that programs generate while they run: it has the names of perf maps.

use std::fs;
use std::process::Command;

use crate::harness::raw::Raw;
use crate::harness::run::{Batch, Watched, installed, text};
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
        assert_eq!((has("first"), has("second")), (!symbols.is_empty(), !symbols.is_empty()), "{table}");
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

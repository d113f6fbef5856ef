//! The deepest stack of each thread, with the sizes of its frames: those that the compiler tells.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use super::recording::Directory;
use crate::harness::run::{SIGTOP, in_parallel, run};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Returns the size of each function's frame by `cc -fstack-usage`.
fn sizes_of_compiler() -> HashMap<String, u64> {
    let directory = targets::scratch("frame-sizes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/frame_sizes.c");
    let mut command = Command::new("cc");
    command.args(["-O2", "-fomit-frame-pointer", "-pthread", "-fstack-usage", "-c", "-o"]);
    assert!(command.arg(directory.join("sizes.o")).arg(source).status().expect("a compiler").success());
    let usage = fs::read_to_string(directory.join("sizes.su")).expect("what the compiler says");
    let line = |line: &str| {
        let mut words = line.split('\t');
        let function = words.next()?.rsplit(':').next()?.to_owned();
        Some((function, words.next()?.parse().ok()?))
    };
    usage.lines().filter_map(line).collect()
}

/// Formats a size as reports do.
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{:.1} KiB", bytes as f64 / 1024.0) }
}

/// Returns the lines of a thread's stack in a report, each as size and function.
fn stack<'a>(report: &'a str, thread: &str) -> (&'a str, Vec<(&'a str, &'a str)>) {
    let heading = format!("  thread {thread} (");
    let section = report.split("\n\n").find(|section| section.contains(&heading));
    let (first, rest) = section.and_then(|section| section.split_once('\n')).unwrap_or_else(|| panic!("{report}"));
    (first, rest.lines().filter_map(|line| line.trim_start().split_once("  ")).collect())
}

#[test]
fn frames_have_the_sizes_that_the_compiler_tells() {
    let sizes = sizes_of_compiler();
    let directory = Directory::new("frame-sizes");
    let report = |(name, clock, arguments): &(&str, &str, &[&str])| {
        let file = directory.file(name);
        let mut record = Command::new(SIGTOP);
        record.args(["record", "--hz", "500", "--clock", clock, "-o"]).arg(&file).arg("--");
        let ran = run(record.arg(targets::c("frame_sizes")).args(*arguments));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let ran = run(Command::new(SIGTOP).args(["report", "--stacks"]).arg(&file));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.out()
    };
    let compiled = |function: &str| size(sizes[function]);
    let expect = |report: &str, thread: &str, limit: &str, expected: &[(String, &str)]| {
        let (heading, lines) = stack(report, thread);
        assert!(heading.contains(limit), "{heading}");
        for (size, function) in expected {
            assert!(lines.contains(&(size.as_str(), function)), "{size} {function}: {heading} {lines:#?}");
        }
    };
    let computes = [
        (compiled("spin"), "spin"),
        (compiled("small_frame"), "small_frame"),
        (compiled("large_frame"), "large_frame"),
        (compiled("shallow"), "shallow"),
    ];
    let runs: [(&str, &str, &[&str]); 3] =
        [("cpu", "cpu", &["1500"]), ("wall", "wall", &["1500"]), ("late", "wall", &["3500", "late"])];
    let [cpu, wall, late] = in_parallel(&runs, report).try_into().expect("three reports");
    // The lowest page of a stack is its guard.
    expect(&cpu, "shallow", " of 2.0 MiB", &computes);
    // Of 404 callers, 32 are kept next to the leaf and 128 next to the root; three are libc's.
    let recursion = compiled("recurse");
    let ends =
        [(compiled("large_frame"), "large_frame"), (recursion.clone(), "recurse × 29"), (compiled("deep"), "deep")];
    expect(&cpu, "deep", " of 1020.0 KiB", &ends);
    let left_out = size(sizes["recurse"] * (400 - 29 - 125));
    expect(&cpu, "deep", "", &[(left_out, "[frames left out]"), (recursion, "recurse × 125")]);
    expect(&wall, "shallow", " of 2.0 MiB", &computes);
    expect(&wall, "asleep", " of 2.0 MiB", &[(compiled("doze"), "doze")]);
    // Regression test: a thread that was measured before the agent knew the memory of its stack had
    // no limit ever after. The agent reads the maps once a second.
    expect(&late, "late", " of 2.0 MiB", &[(compiled("doze"), "doze")]);
}

#[test]
fn the_screen_shows_the_deepest_stack() {
    let mut command = Command::new(SIGTOP);
    let mut terminal = Terminal::start(140, 40, command.arg("--").arg(targets::c("frame_sizes")).arg("60000"));
    terminal.see("large_frame");
    terminal.keys("5");
    terminal.see("max stack");
    terminal.keys("/deep\r");
    terminal.keys("K");
    terminal.see("of 1020.0 KiB");
    terminal.see("[frames left out]");
    terminal.see("recurse × ");
    terminal.keys("\x1b");
    terminal.see("max stack");
    terminal.keys("qe");
    terminal.finish();
}

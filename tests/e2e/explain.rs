//! `sigtop explain` on programs with a planted fault: the sentence that names it is among the ten.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::children::with_default_signals;
use crate::harness::run::{SIGTOP, run};
use crate::harness::targets;
use crate::harness::terminal::Terminal;
use crate::recording::Directory;

/// Records a program and explains the recording.
fn explain(options: &[&str], program: PathBuf, arguments: &[&str]) -> String {
    let directory = Directory::new(&format!("explain-{}", arguments.join("-")));
    let file = directory.file("a.sigtop");
    let mut command = Command::new(SIGTOP);
    command.args(["record", "--quiet", "-o"]).arg(&file).args(options).arg("--").arg(program).args(arguments);
    run(with_default_signals(command.stdin(Stdio::null())));
    let ran = run(Command::new(SIGTOP).arg("explain").arg(&file));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out()
}

/// Asserts that a line has all these words, and that there are at most ten lines.
fn assert_sentence(text: &str, words: &[&str]) {
    assert!(text.lines().count() <= 10, "{text}");
    assert!(
        text.lines().any(|line| words.iter().all(|word| line.contains(word))),
        "no sentence has {words:?}:\n{text}"
    );
}

#[test]
fn a_hot_function_and_its_path_are_named() {
    let text = explain(&[], targets::c("shares"), &["80", "15", "5", "1"]);
    assert_sentence(&text, &["burn_a (shares) itself has", "of the CPU time", "[Top: burn_a]"]);
    assert_sentence(&text, &["main › work › burn_a", "[Flame: burn_a]"]);
    assert_sentence(&text, &["The lines of burn_a are unknown", "build it with -g", "[Source: burn_a]"]);
    assert_sentence(&text, &["samples: shares are uncertain by up to", "[header: samples]"]);
}

#[test]
fn a_wait_for_a_lock_and_its_holder_are_named() {
    let text = explain(&["--clock", "wall"], targets::c("waits_for"), &["3"]);
    assert_sentence(&text, &["Threads mostly wait: they run for", "[Threads, waits: "]);
    assert_sentence(&text, &["Threads wait for a lock in wait_", "thread holder holds it for", "[waits: wait_"]);
    assert!(!text.contains("Deadlock"), "{text}");
}

#[test]
fn a_deadlock_is_named() {
    let text = explain(&["--clock", "wall"], targets::c("waits_for"), &["3", "deadlock"]);
    assert_sentence(&text, &["Deadlock: threads ", "first", "second", "wait for each other's locks"]);
}

#[test]
fn sleep_is_named() {
    let text = explain(&["--clock", "wall"], targets::c("sleepers"), &["8", "800", "2"]);
    assert_sentence(&text, &["Threads mostly wait", "sleep "]);
}

#[test]
fn growth_is_named() {
    let text = explain(&["--hz", "500"], targets::c("turns"), &["5", "6", "6"]);
    assert_sentence(&text, &["burn_b grows: it has", "[Top, trend: burn_b]"]);
}

#[test]
fn the_one_thread_that_works_is_named() {
    let text = explain(&[], targets::c("many_idle"), &["10", "1", "1"]);
    assert_sentence(&text, &["One thread of 11, many_idle", "does", "of the work"]);
}

#[test]
fn unsampled_time_is_named_with_its_cause() {
    let text = explain(&[], targets::c("blocks_all"), &["800"]);
    assert_sentence(&text, &["% of CPU time not sampled: SIGURG is blocked in blocks_all", "[losses]"]);
}

#[test]
fn the_site_of_allocations_is_named() {
    let text = explain(&["--clock", "alloc"], targets::c("allocates"), &["256", "90", "5", "5"]);
    assert_sentence(&text, &["site_a (allocates) allocates", "of the allocated memory", "[Top: site_a]"]);
    assert_sentence(&text, &["The hottest path is", "work › site_a", "[Flame: site_a]"]);
}

#[test]
fn a_running_process_is_explained() {
    let mut command = Command::new(targets::c("waits_for"));
    command.args(["60", "deadlock"]).stdout(Stdio::null());
    let mut target = with_default_signals(&mut command).spawn().expect("a target");
    std::thread::sleep(Duration::from_millis(200));
    let ran = run(Command::new(SIGTOP).args(["explain", "--duration", "3s", &target.id().to_string()]));
    target.kill().expect("a child");
    target.wait().expect("a child");
    assert_sentence(&ran.out(), &["Deadlock: threads ", "first", "second"]);
    let ran = run(Command::new(SIGTOP).args(["explain", "/nowhere/x"]));
    assert!(ran.code() != 0 && ran.err().contains("/nowhere/x"), "{}", ran.err());
}

#[test]
fn the_screen_explains_what_it_shows() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/python.sigtop");
    let mut terminal = Terminal::start(140, 45, Command::new(SIGTOP).args(["view", "--no-config"]).arg(&recording));
    terminal.see("PyEval");
    terminal.keys(":focus=encoder\r");
    terminal.wait("the filter holds", |screen| screen.contents().contains("focus"));
    terminal.keys(":explain\r");
    terminal.see("Where the time goes");
    terminal.see("more than any other function");
    let page = terminal.text();
    let sentence = page.lines().find(|line| line.contains(" itself has ")).expect("a sentence");
    let hottest = sentence.split_once(". ").and_then(|(_, rest)| rest.split_once(" (")).expect("a name").0.to_owned();
    terminal.keys("\x1b");
    terminal.wait("the panes are back", |screen| !screen.contents().contains("Where the time goes"));
    let first = terminal.text().lines().find(|line| line.starts_with('▸')).expect("a selected row").to_owned();
    assert!(first.contains(&hottest), "{hottest} is not in {first}\n{page}");
    terminal.keys("q");
    terminal.finish();
}

//! CPU time that no tick stands for, seen from outside: how much of it there is, and why.

use std::process::Command;

use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// CPU time of a process that no signal reaches is counted from outside, its fork child's too, and
/// the reason is given.
#[test]
fn cpu_time_without_any_tick_is_reported_with_its_reason() {
    let binary = targets::c("blocks_all");
    let said = |text: &str| {
        let line = text.lines().find(|line| line.contains("% of CPU time not sampled"));
        let line = line.unwrap_or_else(|| panic!("nothing said in {text:?}")).to_owned();
        let number = line.split(" % of CPU time not sampled").next().and_then(|head| head.split(' ').next_back());
        let percent: u32 = number.and_then(|number| number.parse().ok()).expect("a number");
        assert!(percent >= 90 && line.contains("SIGURG is blocked in blocks_all"), "{line}");
    };
    let directory = targets::scratch("unsampled");
    for command in [&["1500"][..], &["1500", "child"]] {
        let words: Vec<&str> = [text(&binary)].into_iter().chain(command.iter().copied()).collect();
        let watched = Batch::new("--hz 250").run(&words);
        assert_eq!((watched.ran.code(), watched.ran.out().as_str()), (0, "burnt 1500\n"));
        said(&watched.tables);
        let file = directory.join("file.sigtop");
        let ran = run(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).arg("--").args(&words));
        said(&ran.err());
    }
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["--on-quit", "end", "--"]).arg(&binary).args(["60000", "child"]);
    let mut terminal = Terminal::start(140, 45, &sigtop);
    terminal.see("% of CPU time not sampled");
    terminal.see("CPU time is not sampled: SIGURG is blocked in blocks_all");
    terminal.keys("L");
    terminal.see("CPU time that no tick saw");
    terminal.see("% of CPU time: SIGURG is blocked in blocks_all");
    // It blocks SIGTERM too.
    terminal.keys("q");
    assert_eq!(terminal.finish().code(), Some(128 + 9));
}

/// Of a process that blocks every signal halfway the first half is sampled.
#[test]
fn only_the_time_without_ticks_is_counted() {
    let script = "\"$0\" && exec \"$1\" 300";
    let (single, blocked) = (targets::c("single"), targets::c("blocks_all"));
    let watched = Batch::new("--hz 250").run(&["sh", "-c", script, text(&single), text(&blocked)]);
    let line = watched.tables.lines().find(|line| line.contains("not sampled")).expect("said").to_owned();
    let percent: u32 = line.split(' ').nth(1).and_then(|number| number.parse().ok()).expect("a number");
    assert!((35..=65).contains(&percent), "{line}");
}

/// Nothing is said of programs whose time is sampled, however they use threads and processes.
#[test]
fn nothing_is_said_of_what_is_sampled() {
    let [single, duty, forks] = ["single", "duty", "forks"].map(targets::c);
    let script = "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do /bin/true; done; done; \"$0\"";
    let commands: [&[&str]; 4] =
        [&[text(&single)], &[text(&duty), "2"], &[text(&forks), "50"], &["sh", "-c", script, text(&single)]];
    for command in commands {
        for options in ["--hz 99", "--hz 1000"] {
            let watched = Batch::new(options).run(command);
            assert!(!watched.tables.contains("not sampled"), "{options} {command:?}: {}", watched.tables);
        }
    }
}

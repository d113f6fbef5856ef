//! A target that idles is waited for, and said to be: never an error, never an empty screen without a word.

use std::process::Command;

use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Leaves the screen and ends the target.
fn end(mut terminal: Terminal) {
    terminal.keys("q");
    terminal.see("[e]nd");
    terminal.keys("e");
    terminal.finish();
}

#[test]
fn a_sleeper_is_waited_for() {
    let mut terminal = Terminal::start(120, 30, Command::new(SIGTOP).arg("--").arg(targets::c("longsleep")).arg("60"));
    terminal.see("waiting for CPU time");
    terminal.see("s used)");
    end(terminal);
}

#[test]
fn a_sleeper_has_wall_time() {
    let mut terminal = Terminal::start(
        120,
        30,
        Command::new(SIGTOP).args(["--clock", "real", "--"]).arg(targets::c("longsleep")).arg("60"),
    );
    terminal.see("REAL (wall)");
    terminal.see("nanosleep");
    assert!(!terminal.text().contains("waiting for CPU time"), "{}", terminal.text());
    end(terminal);
}

#[test]
fn the_clock_of_an_idle_server_is_switched_while_it_runs() {
    let mut terminal = Terminal::start(120, 30, Command::new(SIGTOP).arg("--").arg(targets::c("epoll_idle")).arg("60"));
    terminal.see("waiting for CPU time");
    terminal.keys("r");
    terminal.see("REAL (wall)");
    terminal.see("epoll_wait");
    terminal.keys("p");
    terminal.see("PROF (cpu)");
    terminal.see("waiting for CPU time");
    end(terminal);
}

#[test]
fn over_before_a_tick_is_one_sentence() {
    let ran = run(Command::new(SIGTOP).args(["--", "true"]));
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
    let err = ran.err();
    assert!(
        err.contains("true ended with status 0 after") && err.contains("no sample (a sample takes 10.1 ms)"),
        "{err:?}"
    );
}

/// By its CPU clock an idle target is not interrupted at all.
#[test]
fn an_idle_target_is_left_asleep() {
    let watched = Batch::new("--hz 1000").run(&[text(&targets::c("epoll_idle")), "1"]);
    assert_eq!(watched.ran.out(), "interrupted 0\n");
    let watched = Batch::new("--hz 1000").run(&[text(&targets::c("longsleep")), "1"]);
    assert_eq!(watched.ran.out(), "asleep\ninterrupted 0\n");
}

/// By the wall clock a sleeper is woken once, not at every tick.
#[test]
fn the_wall_clock_lets_sleepers_sleep() {
    let watched = Batch::new("--clock real --hz 250").run(&[text(&targets::c("epoll_idle")), "2"]);
    let weight = watched.raw.weight_ns("real") as f64 / 1e9;
    assert!(weight > 1.4, "{weight} s of 2 s");
    assert!(watched.ran.number("interrupted") <= 10, "{}", watched.ran.out());
}

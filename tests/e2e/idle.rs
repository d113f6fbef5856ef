//! sigtop waits for an idle target and reports that it is idle: never an error, and never an empty
//! screen without a message.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::shares::accounts;
use crate::harness::run::{Batch, SIGTOP, in_parallel, run, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Leaves the screen and ends the target.
fn end(mut terminal: Terminal) {
    terminal.keys("q");
    terminal.see("[e] end");
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

/// CPU time from before it was watched is not awaited.
#[test]
fn a_server_that_is_idle_now_has_used_no_cpu_time_yet() {
    let mut server = Command::new(targets::c("longsleep"))
        .args(["60", "300"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the target starts");
    let mut line = String::new();
    let out = server.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("its first line");
    assert_eq!(line, "asleep\n");
    let pid = server.id().to_string();
    let mut terminal = Terminal::start(120, 30, Command::new(SIGTOP).args(["--no-config", "--pid", &pid]));
    terminal.see("waiting for CPU time (0 s used)");
    terminal.keys("q");
    terminal.finish();
    server.kill().expect("the target can be ended");
    server.wait().expect("the target ends");
}

#[test]
fn a_sleeper_has_wall_time() {
    let mut terminal = Terminal::start(
        120,
        30,
        Command::new(SIGTOP).args(["--clock", "real", "--"]).arg(targets::c("longsleep")).arg("60"),
    );
    terminal.see("● wall time");
    terminal.see("nanosleep");
    assert!(!terminal.text().contains("waiting for CPU time"), "{}", terminal.text());
    end(terminal);
}

#[test]
fn the_clock_of_an_idle_server_is_switched_while_it_runs() {
    let mut terminal = Terminal::start(120, 30, Command::new(SIGTOP).arg("--").arg(targets::c("epoll_idle")).arg("60"));
    terminal.see("waiting for CPU time");
    // The time is shown once a second, about.
    terminal.wait("two seconds", |screen| ["watched 2.", "watched 3."].iter().any(|up| screen.contents().contains(up)));
    terminal.keys("r");
    terminal.see("● wall time");
    terminal.see("epoll_wait");
    // The time before the key was not to be sampled: it is not lost.
    let screen = terminal.text();
    let lost = screen.split_once("lost ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    assert!(lost.is_some_and(|ticks: u32| ticks < 150), "{screen}");
    terminal.keys("p");
    terminal.see("● CPU time");
    terminal.see("waiting for CPU time");
    end(terminal);
}

#[test]
fn over_before_a_tick_is_one_sentence() {
    let ran = run(Command::new(SIGTOP).args(["--", "true"]));
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
    let err = ran.err();
    assert!(
        err.contains("true ended with status 0 after") && err.contains("no samples (the sampling period is 10.1 ms)"),
        "{err:?}"
    );
}

/// An idle target is never interrupted with the CPU clock.
#[test]
fn an_idle_target_is_left_asleep() {
    in_parallel(&[("epoll_idle", "interrupted 0\n"), ("longsleep", "asleep\ninterrupted 0\n")], |(target, out)| {
        let watched = Batch::new("--hz 1000").run(&[text(&targets::c(target)), "1"]);
        assert_eq!(watched.ran.out(), *out);
    });
}

/// A program that only sleeps has no agent thread. It is sampled from outside.
#[test]
fn the_wall_clock_lets_sleepers_sleep() {
    in_parallel(&["epoll_idle", "longsleep"], |target| {
        let watched = Batch::new("--clock real --hz 250").run(&[text(&targets::c(target)), "2"]);
        let weight = watched.raw.weight_ns("real") as f64 / 1e9;
        assert!(weight > 1.4, "{target}: {weight} s of 2 s");
        assert_eq!(watched.ran.number("interrupted"), 0, "{target}");
    });
}

/// The sampler leaves a process to its agent when that connects: no time is sampled twice, and what
/// the sampler has seen is not lost.
#[test]
fn the_agent_takes_over_from_the_sampler() {
    let watched = Batch::new("--clock real --hz 250").run(&[text(&targets::c("late_start"))]);
    assert_eq!(watched.ran.number("interrupted"), 0);
    accounts(&watched.raw);
    let ms = |function: &str| watched.raw.cum_ns("real", |name| name == function) / 1_000_000;
    let (first, work, second) = (ms("first_wait"), ms("work"), ms("second_wait"));
    let lost = watched.raw.lost_all().1 / 1_000_000;
    assert!((400..=710).contains(&first), "{first} ms of 700 in the first wait");
    assert!((270..=310).contains(&second), "{second} ms of 300 in the second wait");
    assert!(work >= 250, "{work} ms of at least 300 at work");
    // What the sampler has not seen at the start is lost, and what it has seen is not.
    assert!((690..=740).contains(&(first + lost)), "{first} ms in the first wait, {lost} ms lost");
    let pids: Vec<u32> = watched.raw.images.iter().map(|image| image.pid).collect();
    assert!(pids.len() == 2 && pids[0] == pids[1], "{:?}", watched.raw.images);
}

/// A process that rests is looked at less often, and each function still has its time: how long a
/// thread has slept on is known afterwards.
#[test]
fn a_process_at_rest_is_looked_at_less_often() {
    let watched = Batch::new("--clock real --hz 499").run(&[text(&targets::c("rests")), "8"]);
    accounts(&watched.raw);
    let ns = |function: &str| watched.raw.cum_ns("real", |name| name == function) as f64;
    let ratio = |ns: f64, label| ns / watched.ran.number(label) as f64;
    // Intervals of 40 ms would give each of eight computations half an interval too much: 1.5. On a
    // busy machine, the time until the thread gets a CPU belongs to its sleep.
    let burn = ratio(ns("burn") + watched.raw.lost_all().1 as f64, "burn");
    assert!((0.6..=1.3).contains(&burn), "{burn} of the time at work");
    // Where a thread goes from one sleep to another, half an interval is taken to belong to each.
    let [here, there] = [ratio(ns("sleep_here"), "here"), ratio(ns("sleep_there"), "there")];
    assert!((0.8..=1.2).contains(&there) && (0.85..=1.15).contains(&here), "{here} and {there} of the sleeps");
    let looks = watched.raw.cum_samples("real", |name| name.starts_with("sleep_"));
    assert!(looks < 600, "{looks} looks at 1 600 periods of sleep");
}

/// The kernel shows the instruction and the stack pointer of a sleeping thread, and no other
/// register. A frame whose size depends on data ends at the return address of a call that names its
/// function. Where the call goes through a pointer, the walk ends and the stack is marked.
#[test]
fn a_sleeper_is_truncated_where_a_frame_has_no_size_and_no_call_names_its_function() {
    in_parallel(&["--clock real --hz 250", "--clock real --hz 250 --engine external"], |options| {
        let watched = Batch::new(options).run(&[text(&targets::c("variable_frame"))]);
        let asleep = |function: &str, truncated: bool| {
            let stacks = watched.raw.of("real").filter(|entry| entry.truncated == truncated);
            let inside = stacks.filter(|entry| entry.frames.iter().any(|frame| frame.name() == function));
            inside.map(|entry| entry.weight_ns).sum::<u64>() / 1_000_000
        };
        for function in ["fixed_frame", "variable_frame"] {
            let times = [asleep(function, false), asleep(function, true)];
            assert!(times[0] >= 350 && times[1] == 0, "{options}: {function} {times:?} ms whole and truncated, of 500");
        }
        let pointed = [asleep("pointed_frame", false), asleep("pointed_frame", true)];
        assert!(pointed[1] >= 350 && pointed[0] <= 20, "{options}: {pointed:?} ms whole and truncated, of 500");
    });
}

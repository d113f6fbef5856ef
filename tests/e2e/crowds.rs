//! Many threads: that idle, that come and go, that the kernel has no timers for. Nobody is woken, nothing leaks, and what no tick saw is said.
//! `SIGTOP_LONG=1` makes the crowds as large as they get.

use std::process::Command;

use super::guest::{Guest, host, prove, same};
use super::shares::accounts;
use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::targets;

/// How many there are in a short run, or in a long one.
fn crowd(short: u32, long: u32) -> String {
    if std::env::var_os("SIGTOP_LONG").is_some() { long } else { short }.to_string()
}

/// How many waits were interrupted, and how many ended early, in a crowd of so many.
fn broken_off(guest: Guest, command: &[&str]) -> Result<(u32, u32), String> {
    let shown = host(guest, command);
    let number = |name: &str| {
        let line = shown.stdout.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u32>().ok()).ok_or_else(|| format!("{shown:?}"))
    };
    if shown.code != 0 || number("threads")?.to_string() != command[1] {
        return Err(format!("{shown:?}"));
    }
    Ok((number("interrupted")?, number("early")?))
}

/// The agent thread has more to do the more threads there are; its time is not the target's, whose sleep goes on. What a napping thread
/// itself uses makes a tick of the interval timers now and then: some milliseconds.
#[test]
fn a_sleeper_in_a_crowd_is_left_asleep() {
    let command = [text(&targets::c("crowd")), "1000", "2"].map(str::to_owned);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let ways = [("--hz 1000", 1), ("--engine itimer --hz 1000", 4), ("--clock virtual --hz 1000", 4)];
    let allowed = |guest: Guest| match guest {
        Guest::Batch(options) => ways.iter().find(|way| way.0 == options).map_or(0, |way| way.1),
        Guest::Bad(_) => 4,
        _ => 0,
    };
    let guests: Vec<Guest> = [Guest::Nobody].into_iter().chain(ways.map(|way| Guest::Batch(way.0))).collect();
    prove(&guests, &["bad_clock"], |guest| match broken_off(guest, &command)? {
        (interrupted, early) if interrupted.max(early) <= allowed(guest) => Ok(()),
        broken => Err(format!("{broken:?} interrupted and early")),
    });
}

/// Ticks of a busy thread, and of the process, are for that thread alone: none is handed on to one that sleeps.
#[test]
fn a_busy_thread_wakes_nobody() {
    let command = [text(&targets::c("crowd")), "50", "2", "busy"].map(str::to_owned);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    prove(
        &[Guest::Nobody, Guest::Batch("--hz 99"), Guest::Batch("--hz 1000")],
        &["bad_pair"],
        |guest| match broken_off(guest, &command)? {
            (0..=1, 0) => Ok(()),
            broken => Err(format!("{broken:?} interrupted and early")),
        },
    );
}

#[test]
fn thousands_of_threads_are_alive() {
    let (binary, count) = (targets::c("crowd"), crowd(2_000, 10_000));
    for options in ["--hz 250", "--clock real --hz 100"] {
        let watched = Batch::new(options).run(&[text(&binary), &count, "1"]);
        assert!(watched.ran.out().starts_with(&format!("threads {count}\n")), "{}", watched.ran.out());
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        accounts(&watched.raw);
    }
}

#[test]
fn tens_of_thousands_of_threads_come_and_go() {
    let (binary, count) = (targets::c("churn"), crowd(20_000, 500_000));
    let command = [text(&binary), &count];
    let alone = host(Guest::Nobody, &command);
    prove(&["--hz 250", "--clock real --hz 100"].map(Guest::Batch), &[], |guest| {
        same(host(guest, &command), alone.clone())
    });
}

/// No timer for anyone: the target is unharmed, and its time is sampled by what there is or said to be lost.
#[test]
fn without_queued_signals_what_is_missing_is_said() {
    let (binary, options) = (targets::c("threads"), "--hz 250");
    let script = "ulimit -i 0; exec \"$0\" \"$@\"";
    let watched = Batch::new(options).run(&["sh", "-c", script, text(&binary), "20", "60"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    accounts(&watched.raw);
    let used = watched.ran.number("process") as f64;
    let shown = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64;
    // Where not even the first timer is given, nobody is there to say so in figures: then it is said in words.
    let said = watched.ran.err() + &watched.tables;
    assert!((shown / used - 1.0).abs() <= 0.1 || said.contains("no sample"), "{shown} of {used}: {said}");
}

/// Timers of threads that ended are given back.
#[test]
fn queued_signals_do_not_grow_with_threads_that_were() {
    let queued = |command: &mut Command| {
        let out = run(command).out();
        let line = out.lines().find_map(|line| line.strip_prefix("SigQ:")).unwrap_or_else(|| panic!("{out:?}"));
        line.trim().split('/').next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    let churn = text(&targets::c("churn")).to_owned();
    // The shell waits for it, and then looks at the whole user's.
    // The kernel gives the places of deleted timers back a little later.
    let script = "\"$0\" 4000 >&2; sleep 1; cat /proc/self/status";
    let before = queued(Command::new("sh").args(["-c", script, &churn]));
    let watched = queued(Command::new(SIGTOP).args(["--hz", "250", "--quiet", "--", "sh", "-c", script, &churn]));
    assert!(watched < before + 200, "{before} before, {watched} while watched");
}

//! Many threads: idle ones, short-lived ones, and more than the kernel has timers for. No thread is
//! woken, nothing leaks, and unsampled CPU time is reported. `SIGTOP_LONG=1` uses the largest
//! numbers of threads.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::guest::{Guest, eventually, host, prove, same};
use super::shares::accounts;
use crate::harness::quiet::alone;
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, SIGTOP, in_parallel, run, text};
use crate::harness::targets;

/// Number of threads in a short run, or in a long one.
fn crowd(short: u32, long: u32) -> String {
    if std::env::var_os("SIGTOP_LONG").is_some() { long } else { short }.to_string()
}

/// Returns how many waits were interrupted, and how many of those ended early, among this many
/// threads.
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

/// The agent thread's work grows with the number of threads, but its time is not attributed to the
/// target, which sleeps undisturbed. The time that a napping thread uses itself makes the interval
/// timers tick now and then: a few milliseconds.
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
    let check = |guest| match broken_off(guest, &command)? {
        (interrupted, early) if interrupted.max(early) <= allowed(guest) => Ok(()),
        broken => Err(format!("{broken:?} interrupted and early")),
    };
    let guests: Vec<Guest> = [Guest::Nobody].into_iter().chain(ways.map(|way| Guest::Batch(way.0))).collect();
    in_parallel(&guests, |guest| prove(&[*guest], &[], check));
    prove(&[], &["bad_clock"], check);
}

/// Ticks of a busy thread, and of the process, are attributed to that thread only, never to a
/// sleeping one.
#[test]
fn a_busy_thread_wakes_nobody() {
    let command = [text(&targets::c("crowd")), "50", "1", "busy"].map(str::to_owned);
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
    in_parallel(&["--hz 250", "--clock real --hz 100"], |options| {
        let watched = Batch::new(options).run(&[text(&binary), &count, "1", "awake"]);
        assert!(watched.ran.out().starts_with(&format!("threads {count}\n")), "{}", watched.ran.out());
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        accounts(&watched.raw);
    });
}

/// Regression test: by the wall clock, most of the time of thousands of threads was lost if one of
/// them ran.
#[test]
fn the_wall_time_of_a_crowd_is_sampled_or_said_to_be_lost() {
    alone();
    let (binary, count) = (targets::c("many_threads"), crowd(3_000, 10_000));
    for options in ["--clock wall", "--clock wall --engine external", "--clock wall --engine ptrace"] {
        let watched = Batch::new(options).run(&[text(&binary), &count, "3"]);
        let all = watched.ran.number("wall") as f64;
        let (sampled, lost) = (watched.raw.weight_ns("real") as f64 / all, watched.raw.lost_all().1 as f64 / all);
        let said = format!("{options}: {sampled:.3} sampled, {lost:.3} lost: {}", watched.tables);
        assert!((sampled + lost - 1.0).abs() < 0.05 && sampled > 0.9, "{said}");
        assert_eq!(lost > 0.01, !watched.tables.contains("(0."), "{said}");
    }
}

/// Regression test: when the viewer left a crowd that went on, up to the last second of each
/// sleeper was in no sample, and nothing said so. Now all have the same time.
#[test]
fn a_crowd_that_is_left_has_all_its_wall_time() {
    const COUNT: usize = 2_000;
    alone();
    let (binary, file) = (targets::c("many_threads"), targets::scratch("left").join("raw"));
    let library = run(Command::new(SIGTOP).args(["env", "--path"])).out();
    for (way, engine) in [("with the agent", "threads"), ("from outside", "ptrace")] {
        let mut target = Command::new(&binary);
        if engine == "threads" {
            target.env("LD_PRELOAD", library.trim());
        }
        let mut target = target.args([&COUNT.to_string(), "60"]).stdout(Stdio::null()).spawn().expect("target");
        let (pid, tasks) = (target.id().to_string(), format!("/proc/{}/task", target.id()));
        let has_all = || fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() > COUNT);
        assert!(eventually(Duration::from_secs(30), has_all));
        let mut sigtop = Command::new(SIGTOP);
        sigtop.args(["--batch", "--clock", "wall", "--engine", engine, "--interval", "2s", "--count", "1", "--raw"]);
        let ran = run(sigtop.arg(&file).args(["--pid", &pid]));
        target.kill().and_then(|()| target.wait()).expect("a child");
        let raw =
            Raw::parse(&fs::read_to_string(&file).unwrap_or_default()).unwrap_or_else(|_| panic!("{}", ran.err()));
        let mut threads = BTreeMap::new();
        raw.entries.iter().for_each(|entry| *threads.entry(entry.tid).or_insert(0) += entry.weight_ns);
        let mut times: Vec<u64> = threads.into_values().collect();
        times.sort_unstable();
        // A few compute, and one may be lost.
        let [least, most] = [COUNT / 50, COUNT - COUNT / 50].map(|index| times.get(index).copied().unwrap_or(0));
        assert!(most > 500_000_000 && least > most / 100 * 95, "{way}: {least} to {most} ns: {}", ran.out());
    }
}

#[test]
fn tens_of_thousands_of_threads_come_and_go() {
    alone();
    let (binary, count) = (targets::c("churn"), crowd(20_000, 500_000));
    let command = [text(&binary), &count];
    let alone = host(Guest::Nobody, &command);
    prove(&["--hz 250", "--clock real --hz 100"].map(Guest::Batch), &[], |guest| {
        same(host(guest, &command), alone.clone())
    });
}

/// No timer can be created for any thread: the target is unharmed, its time is reported as lost,
/// and the reason is given.
#[test]
fn without_queued_signals_what_is_missing_is_said() {
    let (binary, options) = (targets::c("threads"), "--hz 250");
    let watched = Batch::new(options).run(&["prlimit", "--sigpending=0", text(&binary), "20", "60"]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    accounts(&watched.raw);
    let used = watched.ran.number("process") as f64;
    let lost = watched.raw.lost_all().1 as f64;
    let said = watched.ran.err() + &watched.tables;
    assert!((lost / used - 1.0).abs() <= 0.1 && watched.raw.samples("prof") == 0, "{lost} of {used}: {said}");
    assert!(said.contains("the kernel refuses timers (ulimit -i") && !said.contains("is blocked"), "{said}");
}

/// Timers of threads that ended are deleted.
#[test]
fn timers_do_not_grow_with_threads_that_ended() {
    for options in ["--hz 250", "--hz 250 --clock real"] {
        let watched = Batch::new(options).run(&[text(&targets::c("churn")), "4000", "timers"]);
        let timers = watched.ran.number("timers");
        assert!(timers < 64, "{options}: {timers} timers");
    }
}

//! The end of a watch: sigtop exits when its target has exited, without a delay of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Number of rounds of a measurement. The fastest one counts, since load only ever slows a round
/// down.
const ROUNDS: u32 = 15;
/// Time by which a run may be longer under sigtop in a debug build. It is less than the interval
/// between two answers (100 ms).
const LATE: Duration = Duration::from_millis(80);

fn shortest(measure: impl Fn() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| measure()).min().expect("there are rounds")
}

fn took(command: &mut Command) -> Duration {
    let start = Instant::now();
    let ran = run(command);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    start.elapsed()
}

#[test]
fn a_batch_ends_with_its_target() {
    let alone = shortest(|| took(&mut Command::new("true")));
    let watched = shortest(|| took(Command::new(SIGTOP).args(["--quiet", "--", "true"])));
    assert!(watched < alone + LATE, "{watched:?}, and {alone:?} alone");
}

#[test]
fn a_recording_ends_with_its_target() {
    let directory = targets::scratch("ending");
    let alone = shortest(|| took(&mut Command::new("true")));
    for file in ["plain.sigtop", "profile.pb.gz"] {
        let file = directory.join(file);
        let watched = shortest(|| took(Command::new(SIGTOP).args(["record", "-o"]).arg(&file).args(["--", "true"])));
        assert!(watched < alone + LATE, "{}: {watched:?}, and {alone:?} alone", file.display());
    }
}

/// The table contains the samples of the last moments, even if sigtop exits right after its target.
/// Samples that are not sent at the end would be missing from most rounds: the agent sends them
/// every 100 ms, and the bounds allow 15. A few rounds may lack CPU time for which the kernel made
/// no tick, because other programs run beside this one.
#[test]
fn the_last_samples_of_a_target_are_reported() {
    let binary = targets::c("single");
    let rounds = (0..10).map(|_| {
        let watched = Batch::new("--hz 1000").run(&[text(&binary)]);
        (watched.raw.cum_ns("prof", |name| name == "main") / 1_000_000, watched.raw.lost["unaccounted"].1 / 1_000_000)
    });
    let rounds: Vec<(u64, u64)> = rounds.collect();
    let complete = rounds.iter().filter(|(ms, _)| (285..=315).contains(ms)).count();
    assert!(complete >= 7, "{complete} of 10 rounds are complete: (ms of 300, ms lost) {rounds:?}");
}

#[test]
fn a_screen_ends_with_the_target_that_it_ends() {
    let mut sigtop = Command::new(SIGTOP);
    sigtop.args(["--quiet", "--on-quit", "end", "--", "sleep", "60"]);
    let watched = shortest(|| {
        let mut terminal = Terminal::start(80, 24, &sigtop);
        terminal.see("sleep 60");
        terminal.keys("q");
        let start = Instant::now();
        terminal.finish();
        start.elapsed()
    });
    assert!(watched < LATE, "{watched:?}");
}

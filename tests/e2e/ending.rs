//! The end of a watch: sigtop ends when its target has ended, and adds no waiting of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::run::{Batch, SIGTOP, run, text};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// Rounds of a measurement. The shortest one counts: a busy machine makes some of them longer,
/// never shorter.
const ROUNDS: u32 = 15;
/// How much longer a run may take under sigtop in a debug build. An answer's turn (100 ms) does not
/// fit into it.
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

/// The samples of the last moments are in the table, however soon sigtop ends after its target.
#[test]
fn the_last_samples_of_a_target_are_reported() {
    let binary = targets::c("single");
    for round in 0..10 {
        let watched = Batch::new("--hz 1000").run(&[text(&binary)]);
        let ms = watched.raw.cum_ns("prof", |name| name == "main") / 1_000_000;
        assert!((285..=315).contains(&ms), "round {round}: {ms} ms of 300; lost {:?}", watched.raw.lost);
    }
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

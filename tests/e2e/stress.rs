//! Runs stress-ng with verification: it passes as it does without sigtop. It runs with
//! `SIGTOP_LONG=1` only, and prints a message otherwise.

use std::process::Command;

use crate::harness::run::{SIGTOP, run};
use crate::harness::skips::skip;

const STRESSORS: &str = "signal sigrt sigq sigfd sigsuspend sigpending sigsegv signest sigabrt itimer timer timerfd fork vfork exec stack pthread \
                         clone dynlib daemon close chroot seccomp context bad-altstack longjmp zombie spawn prctl";

#[test]
fn stress_ng_passes_what_it_passes_alone() {
    if std::env::var_os("SIGTOP_LONG").is_none() {
        return skip("stress-ng, as SIGTOP_LONG is not set");
    }
    if Command::new("stress-ng").arg("--version").output().is_err() {
        return skip("stress-ng is not installed");
    }
    for stressor in STRESSORS.split_whitespace() {
        let words = ["stress-ng", &format!("--{stressor}"), "1", "-t", "5", "--verify"];
        for round in 0..3 {
            let alone = run(Command::new(words[0]).args(&words[1..])).code();
            let watched = run(Command::new(SIGTOP).args(["--hz", "99", "--quiet", "--"]).args(words)).code();
            assert_eq!(watched, alone, "{stressor}, round {round}");
        }
    }
}

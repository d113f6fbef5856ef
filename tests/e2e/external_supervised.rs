//! Sampling from outside a program whose system calls a supervisor answers (seccomp): each call is
//! made once, as alone.

use std::process::Command;

use crate::harness::outside::engines_outside;
use crate::harness::quiet::alone;
use crate::harness::run::{Batch, Ran, run, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Number of supervised calls of a run, and the time that each waits for its answer, µs.
const CALLS: &str = "1000";
const PAUSES: [&str; 2] = ["1000", "0"];

fn assert_each_call_was_made_once(what: &str, ran: &Ran) {
    assert_eq!(ran.code(), 0, "{what}: {}", ran.err());
    assert_eq!(ran.number("requests"), ran.number("made"), "{what}: {}", ran.out());
    for number in ["again", "vanished", "wrong"] {
        assert_eq!(ran.number(number), 0, "{what}: {}", ran.out());
    }
}

/// Regression test: a stop ended the wait for the supervisor, and the call was made again: at
/// 1 000 Hz 12 to 26 of 4 000 calls.
#[test]
fn calls_that_a_supervisor_answers_are_made_once() {
    alone();
    let target = targets::c("supervised");
    let mut all_sentences = 0;
    let modes = ["process", "thread"].into_iter().flat_map(|mode| PAUSES.map(|pause| [mode, CALLS, pause]));
    for arguments in modes {
        let alone = run(Command::new(&target).args(arguments));
        if alone.code() == 3 {
            return skip("the kernel has no seccomp supervisors, or does not allow one here");
        }
        assert_each_call_was_made_once("alone", &alone);
        for engine in engines_outside() {
            for hz in ["99", "1000"] {
                let what = format!("{engine}, {hz} Hz, {arguments:?}");
                let batch = Batch::new(&format!("--engine {engine} --hz {hz} --budget 100%"));
                let watched = batch.run(&[&[text(&target)], &arguments[..]].concat());
                assert_each_call_was_made_once(&what, &watched.ran);
                // A run without pauses is over before it is sampled.
                if engine == "ptrace" && hz == "1000" && arguments[2] != "0" {
                    // Its time is not sampled, which is counted and said.
                    let (lost_ns, used_ns) = (watched.raw.lost_all().1, watched.ran.number("cpu"));
                    assert!(2 * lost_ns >= used_ns, "{what}: {lost_ns} ns lost of {used_ns} ns");
                    // A child is too young to be stopped for most of these milliseconds.
                    let sentences = watched.tables.matches("wait for a supervisor (seccomp)").count();
                    assert!(sentences <= 1, "{what}: {}", watched.tables);
                    all_sentences += sentences;
                }
            }
        }
    }
    assert!(all_sentences > 0, "no run said it");
}

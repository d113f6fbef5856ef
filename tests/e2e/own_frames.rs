//! The agent's own functions are in no stack, and its work at the end of a process is not charged
//! to the target.

use crate::harness::raw::Entry;
use crate::harness::run::{Batch, text};
use crate::harness::targets;

fn has_own_frame(entry: &Entry) -> bool {
    entry.frames.iter().any(|frame| frame.module.starts_with("libsigtop"))
}

/// Returns the stack and its number of samples in a line.
fn describe(entry: &Entry) -> String {
    let frames = entry.frames.iter().map(|frame| format!("{}!{}", frame.module, frame.name()));
    format!("{} {}", frames.collect::<Vec<String>>().join(";"), entry.samples)
}

/// The target spends its time in functions that the agent interposes, and in handlers that the
/// agent calls. Its processes end in every way, one of which leaves their samples in the ring.
#[test]
fn the_agents_functions_are_in_no_stack() {
    for (options, clock) in
        [("--hz 1000", "prof"), ("--clock real --hz 1000", "real"), ("--clock real --engine itimer --hz 2000", "real")]
    {
        let watched = Batch::new(options).run(&[text(&targets::c("interposed")), "200"]);
        let raw = &watched.raw;
        let all = raw.samples(clock);
        assert!(all >= 50, "{options}: {all} samples");
        let own: Vec<String> = raw.of(clock).filter(|entry| has_own_frame(entry)).map(describe).collect();
        assert!(own.is_empty(), "{options}: of {all} samples: {own:#?}");
        let called = raw.cum_samples(clock, |name| ["create_thread", "change_signals"].contains(&name));
        assert!(called >= 10, "{options}: {called} of {all} samples in calls of the agent's functions");
        // The agent sends what it has when a process exits, which takes it less than a millisecond.
        let exits = ["exit", "_exit", "__run_exit_handlers", "_dl_fini", "_dl_call_fini"];
        let at_exit = raw.cum_ns(clock, |name| exits.contains(&name)) as f64 / raw.weight_ns(clock) as f64;
        assert!(at_exit <= 0.1, "{options}: {at_exit} of the time is spent at exit");
    }
}

//! Targets whose stack has no room for a signal frame when a tick comes: on a small thread stack,
//! below a stack pointer that is used for data, on a small alternate stack. Each behaves as it does
//! alone.

use super::guest::{Guest, host, prove, same, watch_unharmed};
use super::shares::accounts;
use crate::harness::run::{Watched, text};
use crate::harness::targets;

/// Both clocks by both engines, with many ticks.
const FAST: [Guest; 4] = [
    Guest::Batch("--clock prof --engine threads --hz 1000"),
    Guest::Batch("--clock prof --engine itimer --hz 1000"),
    Guest::Batch("--clock real --engine threads --hz 1000"),
    Guest::Batch("--clock real --engine itimer --hz 1000"),
];

/// Runs a mode of the target alone and watched, and asserts that the output is the same. Returns
/// the run by CPU time.
fn unharmed(mode: &str) -> Watched {
    let binary = targets::c("small_stacks");
    // Where samples are not judged, less CPU time shows the same.
    let short = [text(&binary), mode, "25"];
    let alone = host(Guest::Nobody, &short);
    assert_eq!(alone.code, 0, "{alone:?}");
    prove(&FAST[1..], &["bad_stack"], |guest| same(host(guest, &short), alone.clone()));
    let watched = watch_unharmed(&FAST[..1], &short[..2], &alone);
    accounts(&watched.raw);
    watched
}

/// Asserts that so much of the CPU time has samples with this function on the stack.
fn sampled(watched: &Watched, function: &str, percent: u64) {
    let (seen, all) = (watched.raw.cum_ns("prof", |name| name == function), watched.raw.weight_ns("prof"));
    assert!(seen * 100 >= all * percent, "{function} has {seen} of {all} ns; lost {:?}", watched.raw.lost);
}

#[test]
fn a_small_thread_needs_no_room_for_ticks() {
    sampled(&unharmed("thread"), "burn_at_the_end", 80);
}

#[test]
fn the_stack_pointer_may_point_to_data() {
    let watched = unharmed("data");
    // Their shares depend on the processor.
    sampled(&watched, "shuffle", 10);
    sampled(&watched, "burn_with_sp", 10);
}

/// Regression test: a tick killed handlers with `SA_NODEFER` on small alternate stacks, and
/// handlers that were left by a jump.
#[test]
fn a_handler_on_a_small_stack_needs_no_room_for_ticks() {
    sampled(&unharmed("handler"), "on_small_stack", 80);
}

#[test]
fn sigaltstack_answers_as_without_sigtop() {
    let binary = targets::c("small_stacks");
    let command = [text(&binary), "answers"];
    let alone = host(Guest::Nobody, &command);
    prove(&FAST, &[], |guest| same(host(guest, &command), alone.clone()));
}

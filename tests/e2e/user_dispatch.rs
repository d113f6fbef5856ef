//! Syscall User Dispatch: a thread whose system calls are delivered to it as SIGSYS gets no tick,
//! because even the return from a signal handler is a system call.

use super::guest::{Guest, host, prove, same, watch_unharmed};
use super::shares::accounts;
use crate::harness::run::text;
use crate::harness::skips::skip;
use crate::harness::targets;

/// Both clocks by both engines, with many ticks.
const FAST: [Guest; 4] = [
    Guest::Batch("--clock prof --engine threads --hz 1000"),
    Guest::Batch("--clock prof --engine itimer --hz 1000"),
    Guest::Batch("--clock real --engine threads --hz 1000"),
    Guest::Batch("--clock real --engine itimer --hz 1000"),
];

/// Regression test: a tick killed such a process with SIGSYS.
#[test]
fn a_thread_with_dispatched_system_calls_gets_no_ticks() {
    let binary = targets::c("user_dispatch");
    let command = [text(&binary)];
    let alone = host(Guest::Nobody, &command);
    if alone.stdout.contains("on: -1") {
        return skip("the kernel has no Syscall User Dispatch");
    }
    assert!(alone.stdout.contains("dispatched 120, others 0, wrong results 0"), "{alone:?}");
    prove(&FAST[1..], &["bad_stack"], |guest| same(host(guest, &command), alone.clone()));
    // Its time is counted as not sampled; before, after and beside it, everything is sampled.
    let watched = watch_unharmed(&FAST[..1], &command, &alone);
    accounts(&watched.raw);
    assert!(watched.raw.lost["unaccounted"].1 > 100_000_000, "{:?}", watched.raw.lost);
    for (function, least_ms) in [("burn_blocked", 50), ("burn_beside", 50)] {
        let seen = watched.raw.cum_ns("prof", |name| name == function) / 1_000_000;
        assert!(seen >= least_ms, "{function}: {seen} ms; lost {:?}", watched.raw.lost);
    }
}

//! Programs that hide a call from the agent, and that a tick or a system call of the agent ends.
//! SECURITY.md lists them; if one survives some day, its line there can go. Close relatives of some
//! are shown to be safe.

use super::guest::{Guest, Shown, host, prove, same};
use crate::harness::run::text;
use crate::harness::targets;

/// Status of a process that was killed by SIGSYS, as a shell reports it.
const BAD_CALL: i32 = 128 + 31;
/// Status of a process that was killed by SIGPROF.
const PROFILING_TIMER: i32 = 128 + 27;

/// Both clocks, with one timer per thread.
const THREADS: [Guest; 2] = [Guest::Batch("--hz 250"), Guest::Batch("--clock real --hz 250")];

/// Runs a mode of the program, which computes for this long before and after it. The agent thread
/// looks around ten times a second.
fn shown(mode: &str, guest: Guest) -> Shown {
    const BURN_MS: &str = "150";
    host(guest, &[text(&targets::c("aside")), mode, BURN_MS])
}

/// Returns what the program shows alone, which is a success.
fn shown_alone(mode: &str) -> Shown {
    let alone = shown(mode, Guest::Nobody);
    assert_eq!((alone.code, alone.stdout.as_str()), (7, "done\n"), "{mode}: {alone:?}");
    alone
}

fn is_killed(mode: &str, guest: Guest, status: i32) {
    shown_alone(mode);
    let watched = shown(mode, guest);
    assert_eq!(watched.code, status, "{mode} is listed in SECURITY.md as fatal: {watched:?}");
}

fn is_unharmed(mode: &str, guests: &[Guest]) {
    let alone = shown_alone(mode);
    prove(guests, &[], |guest| same(shown(mode, guest), alone.clone()));
}

/// The first tick spawns the agent thread, and no system call can be made to ask for a filter
/// first, because it might be forbidden, too. A program that announces the filter is unharmed.
#[test]
fn an_inline_filter_before_the_first_tick_is_fatal() {
    is_killed("inline-early", THREADS[0], BAD_CALL);
    is_unharmed("inline-announced", &THREADS);
}

#[test]
fn an_inline_filter_for_all_threads_is_fatal() {
    is_killed("inline-tsync", THREADS[0], BAD_CALL);
}

#[test]
fn an_inline_filter_against_returning_from_handlers_is_fatal() {
    is_killed("inline-no-return", THREADS[0], BAD_CALL);
}

/// A system call that is refused with an error does no harm: nothing is sampled.
#[test]
fn an_inherited_filter_that_kills_for_timers_is_fatal_and_one_that_refuses_them_is_not() {
    is_killed("inherited-kill", THREADS[0], BAD_CALL);
    is_unharmed("inherited-refuse", &THREADS);
}

#[test]
fn inline_system_call_dispatch_is_fatal() {
    is_killed("dispatch", THREADS[0], BAD_CALL);
}

/// Only the interval timer depends on the action of SIGPROF.
#[test]
fn an_inline_reset_of_sigprof_is_fatal_with_an_interval_timer() {
    is_killed("default", Guest::Batch("--engine itimer --hz 250"), PROFILING_TIMER);
    is_unharmed("default", &THREADS);
}

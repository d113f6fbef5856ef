//! Programs that switch stacks themselves: fibers with stacks of 16 KB, and goroutines beside C
//! code, whose initial stacks are a fraction of that.

use super::guest::{Guest, Shown, WAYS, host, prove, same, watch_unharmed};
use super::shares::accounts;
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, installed, text};
use crate::harness::skips::skip;
use crate::harness::targets;

fn is_seen(raw: &Raw, function: &str) {
    accounts(raw);
    let (seen, all) = (raw.cum_ns("prof", |name| name == function), raw.weight_ns("prof"));
    assert!(seen * 10 >= all * 3, "{function}: {seen} of {all} ns");
}

#[test]
fn fibers_have_room_for_a_tick_on_their_small_stacks() {
    let binary = targets::c("fibers");
    let command = [text(&binary), "150"];
    let alone = host(Guest::Nobody, &command);
    assert!(alone.code == 0 && alone.stdout.starts_with("sum "), "{alone:?}");
    prove(&WAYS[1..], &["bad_stack"], |guest| same(host(guest, &command), alone.clone()));
    is_seen(&watch_unharmed(&[Guest::Batch("--hz 1000")], &command, &alone).raw, "fiber_work");
}

/// The Go runtime handles every signal and preempts goroutines with SIGURG. With C in it, it
/// installs its handlers by libc's sigaction(3).
#[test]
fn a_go_program_with_c_in_it_computes_the_same_and_is_seen() {
    let Some(go) = installed("go") else {
        return skip("go is not installed");
    };
    let binary = targets::go(&go, "cgo");
    let command = [text(&binary), "700"];
    let alone = host(Guest::Nobody, &command);
    assert!(alone.code == 0 && alone.stdout.starts_with("sum "), "{alone:?}");
    // A message on stderr says that this is a Go program.
    let all_else = |shown: Shown| (shown.code, shown.stdout);
    prove(&WAYS[1..], &[], |guest| same(all_else(host(guest, &command)), all_else(alone.clone())));
    let watched = Batch::new("--hz 1000").run(&command);
    is_seen(&watched.raw, "burn_c");
    same(all_else(watched.ran.into()), all_else(alone)).unwrap();
    // The agent finds the handler at its next check of the process, a second later. If a tick has
    // spawned it before the runtime installed the handler, it was first, and forwards signals.
    let watched = Batch::new("--engine itimer --hz 1000").run(&[text(&binary), "2800"]);
    let is_refused = watched.tables.contains("handler of its own");
    assert!(is_refused || watched.raw.samples("prof") > 350, "{}", watched.tables);
}

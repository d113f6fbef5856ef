//! Targets that ask the kernel for what their guests feel: memory that is locked, and pids that mean something else.

use super::guest::{Guest, WAYS, host, prove, same};
use super::shares::accounts;
use crate::harness::run::{Batch, Watched, text};
use crate::harness::skips::skip;
use crate::harness::targets;

fn unharmed(mode: &str) {
    let binary = targets::c("kernel");
    let command = [text(&binary), mode];
    let alone = host(Guest::Nobody, &command);
    assert_eq!(alone.code, 0, "{alone:?}");
    prove(&WAYS, &[], |guest| same(host(guest, &command), alone.clone()));
}

fn watched(mode: &str) -> Watched {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("kernel")), mode]);
    accounts(&watched.raw);
    watched
}

#[test]
fn memory_that_is_locked_is_the_targets_alone() {
    unharmed("lock");
    let seen = watched("lock").raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    assert!(seen >= 400, "{seen} ms of 500");
    // Ours is not taken from the little that it may lock.
    unharmed("limit");
}

/// /proc tells other numbers than the kernel does there: no thread can be given a timer by them, and that of the process has to do.
#[test]
fn a_new_namespace_of_pids_is_sampled_all_the_same() {
    if !nix::unistd::geteuid().is_root() {
        return skip("a namespace of pids takes root");
    }
    unharmed("pids");
    let watched = watched("pids");
    let seen = watched.raw.cum_ns("prof", |name| name == "burn_in_child") / 1_000_000;
    assert!((800..=1100).contains(&seen), "{seen} ms of 1000; lost {:?}", watched.raw.lost);
}

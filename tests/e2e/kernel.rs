//! Tests of targets whose kernel settings affect the agent: locked memory, limits, and pid
//! namespaces.

use super::guest::{Guest, WAYS, host, prove, same, watch_unharmed};
use super::shares::accounts;
use crate::harness::run::{Watched, text};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Runs a mode of the target alone and with each guest, and returns the run by CPU time.
fn unharmed(mode: &str) -> Watched {
    let binary = targets::c("kernel");
    let command: Vec<&str> = [text(&binary)].into_iter().chain(mode.split(' ')).collect();
    // Where samples are not judged, less CPU time shows the same.
    let short = [&command[..], &["30"]].concat();
    let alone = host(Guest::Nobody, &short);
    assert_eq!(alone.code, 0, "{alone:?}");
    prove(&WAYS[1..], &[], |guest| same(host(guest, &short), alone.clone()));
    let watched = watch_unharmed(&WAYS[..1], &command, &alone);
    accounts(&watched.raw);
    watched
}

#[test]
fn memory_that_is_locked_is_the_targets_alone() {
    let seen = unharmed("lock").raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    assert!(seen >= 400, "{seen} ms of 500");
    // The agent's memory does not use up the target's low limit of locked memory.
    unharmed("limit");
}

/// The agent's mappings count towards the target's locked memory and address space; they are small.
#[test]
fn limits_of_memory_leave_room_for_the_agent_beside_the_target() {
    for mode in ["all 8", "all 16"] {
        unharmed(mode);
    }
    let seen = unharmed("space").raw.cum_ns("prof", |name| name == "burn") / 1_000_000;
    assert!(seen >= 400, "{seen} ms of 500");
}

#[test]
fn the_agent_maps_little_for_a_target_with_one_thread() {
    let binary = targets::c("kernel");
    let size = |guest| {
        let shown = host(guest, &[text(&binary), "size", "40"]);
        let kib = shown.stdout.strip_prefix("anonymous ").and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.unwrap_or_else(|| panic!("{shown:?}"))
    };
    let alone = size(Guest::Nobody);
    // The ring has room for the ticks of all processors.
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let most = 1300 + processors.saturating_sub(4).next_power_of_two().saturating_sub(1) * 32;
    for guest in WAYS {
        let more = size(guest) - alone;
        // The clock of allocations has tables of countdowns and of sampled addresses.
        let is_memory = matches!(guest, Guest::Batch(options) if options.contains("alloc"));
        let most = most + if is_memory { 640 } else { 0 };
        assert!(more <= most, "{guest:?}: {more} KiB, which is more than {most}");
    }
}

/// Regression test: the agent's mappings filled the hole of one that the target had just removed,
/// and a use of it that must fail succeeded.
#[test]
fn holes_between_mappings_stay_empty() {
    unharmed("hole");
}

/// Tids in /proc differ from the kernel's in a new pid namespace with the old /proc. They cannot
/// be used to create timers of threads, so the agent falls back to the timer of the process.
#[test]
fn a_new_pid_namespace_is_sampled() {
    if !nix::unistd::geteuid().is_root() {
        return skip("a namespace of pids takes root");
    }
    let watched = unharmed("pids");
    let seen = watched.raw.cum_ns("prof", |name| name == "burn_in_child") / 1_000_000;
    assert!((800..=1100).contains(&seen), "{seen} ms of 1000; lost {:?}", watched.raw.lost);
}

/// Regression test: the agent thread shared the target's list of semaphore operations to be undone
/// (`SEM_UNDO`), which the kernel creates for the first such thread, so a fork child no longer had
/// the same one. stress-ng's kcmp found it.
#[test]
fn the_agent_thread_shares_no_semaphore_operations() {
    let binary = targets::c("semaphores");
    let alone = host(Guest::Nobody, &[text(&binary)]);
    if alone.stdout == "compared -1\n" {
        return skip("kcmp(2) is not permitted here");
    }
    assert_eq!(alone.stdout, "compared 0\n", "{alone:?}");
    prove(&WAYS, &["bad_pthread"], |guest| same(host(guest, &[text(&binary)]), alone.clone()));
}

//! The clock of samples and heartbeats, and that of the sampler's own work.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time on `CLOCK_MONOTONIC`, ns.
pub(super) fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from).as_nanos() as u64
}

/// The CPU time of the calling thread, ns.
pub(super) fn thread_cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from).as_nanos() as u64
}

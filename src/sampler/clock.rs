//! The clock of samples and heartbeats, and that of the sampler's own work.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

/// The time on `CLOCK_MONOTONIC`, ns.
pub(super) fn monotonic_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// The CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The number of clock ticks of `/proc` per second.
pub(super) fn ticks_per_second() -> u64 {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100, |ticks| ticks.max(1) as u64)
}

/// The time of a start on `CLOCK_MONOTONIC`, ns, from that in `/proc`, in clock ticks since the boot
/// of the machine. It is exact to half a tick.
pub(super) fn started_ns(start_ticks: u64) -> u64 {
    let tick_ns = 1_000_000_000 / ticks_per_second();
    let since_boot_ns = start_ticks.saturating_mul(tick_ns).saturating_add(tick_ns / 2);
    let age_ns = read_ns(ClockId::CLOCK_BOOTTIME).saturating_sub(since_boot_ns);
    monotonic_ns().saturating_sub(age_ns)
}

fn read_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from).as_nanos() as u64
}

//! Tells whether the process was stopped, by a signal, a debugger or the freezer: its agent thread
//! was stopped with it.

use crate::agent::os::syscall::{self, File};
use crate::wire::Schedule;

/// Minimum time for which a process was stopped, ns. Shorter waits of the agent thread have other
/// reasons, too.
const LEAST_STOP_NS: u64 = 200_000_000;

/// The CPU time of the agent thread and of the process at the last tick.
#[derive(Default)]
pub(super) struct OwnSchedule {
    file: Option<File>,
    last: Schedule,
    /// CPU time of the process, ns; 0 if it was not read.
    used_ns: u64,
}

impl OwnSchedule {
    /// Returns for how long the process was stopped, ns, if a tick is late by a time, ns: for as
    /// much of it as the agent thread neither ran nor waited for a CPU, if the process did not run
    /// either. Of many threads, that is not read. To be called at each tick.
    pub(super) fn stopped_ns(&mut self, late_ns: u64, few: bool) -> u64 {
        if self.file.is_none() {
            self.file = File::open(b"/proc/thread-self/schedstat\0", 0);
        }
        let mut text = [0; 96];
        let length = self.file.as_ref().map_or(0, |file| file.read_at(&mut text, 0));
        let Some(now) = Schedule::parse(&text[..length]) else { return 0 };
        let used_ns = if few { syscall::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) } else { 0 };
        let ran_ns = match core::mem::replace(&mut self.used_ns, used_ns) {
            0 => 0,
            before_ns => used_ns.saturating_sub(before_ns),
        };
        stopped_ns(late_ns, core::mem::replace(&mut self.last, now), now, ran_ns)
    }
}

fn stopped_ns(late_ns: u64, before: Schedule, now: Schedule, process_ran_ns: u64) -> u64 {
    let ran_ns = now.ran_ns.saturating_sub(before.ran_ns);
    let delayed_ns = now.delayed_ns.saturating_sub(before.delayed_ns);
    let stopped_ns = late_ns.saturating_sub(ran_ns.saturating_add(delayed_ns));
    // The agent thread may wait for something else while the process runs.
    if stopped_ns < LEAST_STOP_NS || process_ran_ns > stopped_ns / 2 { 0 } else { stopped_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_that_is_late_for_no_other_reason_was_stopped() {
        const S: u64 = 1_000_000_000;
        let before = Schedule { ran_ns: 5 * S, delayed_ns: 2 * S, slices: 1 };
        let now = |ran_ns, delayed_ns| Schedule { ran_ns: 5 * S + ran_ns, delayed_ns: 2 * S + delayed_ns, slices: 2 };
        assert_eq!(stopped_ns(3 * S, before, now(S / 10, S / 5), S / 5), 3 * S - S / 10 - S / 5);
        assert_eq!(stopped_ns(3 * S, before, now(S, 2 * S), 0), 0, "it waited for a CPU");
        assert_eq!(stopped_ns(3 * S, before, now(0, 0), 3 * S), 0, "another thread ran meanwhile");
        assert_eq!(stopped_ns(LEAST_STOP_NS - 1, before, now(0, 0), 0), 0);
        assert_eq!(stopped_ns(3 * S, now(S, S), before, 0), 3 * S, "hostile figures do no harm");
    }
}

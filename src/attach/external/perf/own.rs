//! The events of a thread that sample it with the period of the viewer.

use std::os::fd::OwnedFd;

use super::attributes;

/// The events of one thread.
pub(super) struct OwnEvents {
    /// The process of the thread.
    pub(super) pid: u32,
    events: Vec<OwnEvent>,
}

/// The event of one CPU.
struct OwnEvent {
    cpu: u32,
    event: OwnedFd,
    /// Time at which the period of the viewer took the place of the first, random one, ns; 0
    /// before.
    started_ns: u64,
}

impl OwnEvents {
    pub(super) fn new(pid: u32, events: Vec<(u32, OwnedFd)>) -> OwnEvents {
        let events = events.into_iter().map(|(cpu, event)| OwnEvent { cpu, event, started_ns: 0 }).collect();
        OwnEvents { pid, events }
    }

    /// Notes a sample that was written on a CPU at a time, ns, and returns its weight, ns.
    /// `first_ns` is the first period of the event, which may have ended several times before it was
    /// replaced.
    pub(super) fn weigh(&mut self, (cpu, at_ns): (u32, u64), first_ns: u64, now_ns: u64, period_ns: u64) -> u64 {
        let Some(own) = self.events.iter_mut().find(|own| own.cpu == cpu) else { return period_ns };
        if own.started_ns == 0 {
            own.started_ns = now_ns;
            // It fails if the thread has ended.
            let _ = attributes::set_period(&own.event, period_ns);
            return period_ns;
        }
        if at_ns > own.started_ns { period_ns } else { first_ns }
    }
}

//! The events of a thread that sample it with the period of the viewer.

use std::os::fd::OwnedFd;

use super::attributes;
use super::estimator::PeriodSequence;

/// Number of samples with one period.
const SAMPLES: u32 = 2;

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
    /// The period that is in force, and the one before, ns.
    period_ns: u64,
    last_ns: u64,
    /// Time at which it was set, ns; 0 for the first one.
    set_ns: u64,
    /// Number of samples since.
    samples: u32,
}

impl OwnEvents {
    pub(super) fn new(pid: u32, events: Vec<(u32, u64, OwnedFd)>) -> OwnEvents {
        let own =
            |(cpu, period_ns, event)| OwnEvent { cpu, event, period_ns, last_ns: period_ns, set_ns: 0, samples: 0 };
        OwnEvents { pid, events: events.into_iter().map(own).collect() }
    }

    /// Notes a sample that was written on a CPU at a time, ns, and returns its weight, ns: the time
    /// since the one before. A new period is drawn after some samples, so that nothing keeps step
    /// with them. One that has ended several times before it was replaced counts as often.
    pub(super) fn weigh(
        &mut self,
        (cpu, at_ns): (u32, u64),
        now_ns: u64,
        wanted_ns: u64,
        sequence: &mut PeriodSequence,
    ) -> u64 {
        let Some(own) = self.events.iter_mut().find(|own| own.cpu == cpu) else { return wanted_ns };
        let is_first = own.set_ns == 0;
        if !is_first && at_ns <= own.set_ns {
            return own.last_ns;
        }
        // The first one stands for what was before it, too.
        let weight_ns = if is_first { wanted_ns } else { own.period_ns };
        own.samples += 1;
        if is_first || own.samples >= SAMPLES {
            (own.last_ns, own.period_ns) = (own.period_ns, sequence.draw_around(wanted_ns) & !1);
            (own.set_ns, own.samples) = (now_ns, 0);
            // It fails if the thread has ended.
            let _ = attributes::set_period(&own.event, own.period_ns);
        }
        weight_ns
    }
}

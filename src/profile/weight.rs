//! The weight of samples: time, number, and the wall-clock time that they explain.

use crate::wire::Clock;

/// The weight of a stack. On a clock of memory it is a number of bytes, of samples, and of
/// allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Time of the sampled clock, ns.
    pub ns: u64,
    /// Number of samples.
    pub samples: u64,
    /// The part of the time that remains if it is divided among the threads that ran at that
    /// moment, ns; see [`RunningTime`](super::running_time::RunningTime). It wraps around, so that
    /// a correction may be negative. On a clock of memory, the number of allocations.
    pub latency_ns: u64,
}

impl Weight {
    /// The weight of samples whose latency is not known yet, or that have none.
    pub const fn new(ns: u64, samples: u64) -> Weight {
        Weight { ns, samples, latency_ns: 0 }
    }

    /// The number that saved profiles have: of samples or, on a clock of memory, of allocations.
    pub fn count(self, clock: Clock) -> u64 {
        if clock.is_memory() { self.latency_ns } else { self.samples }
    }

    /// A change of the latency alone.
    pub(super) const fn of_latency(latency_ns: u64) -> Weight {
        Weight { ns: 0, samples: 0, latency_ns }
    }

    /// The two's complement, which subtracts the weight where sums wrap around.
    pub(crate) const fn negative(self) -> Weight {
        Weight {
            ns: self.ns.wrapping_neg(),
            samples: self.samples.wrapping_neg(),
            latency_ns: self.latency_ns.wrapping_neg(),
        }
    }
}

impl std::ops::SubAssign for Weight {
    fn sub_assign(&mut self, other: Weight) {
        self.ns = self.ns.saturating_sub(other.ns);
        self.samples = self.samples.saturating_sub(other.samples);
        self.latency_ns = self.latency_ns.wrapping_sub(other.latency_ns);
    }
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.ns = self.ns.saturating_add(other.ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.latency_ns = self.latency_ns.wrapping_add(other.latency_ns);
    }
}

//! The mean bytes between two samples of memory, as the samples tell it. An agent makes its
//! interval longer where a thread allocates very quickly, so it differs between threads and over
//! time.
//!
//! The weight of a small allocation is the interval that was in force, and half of its own size:
//! `s / (1 - e^(-s/i)) ≈ i + s/2`.

use super::totals::Weight;

/// Length of the periods of the recent interval, ns.
const PERIOD_NS: u64 = 5_000_000_000;
/// Minimum number of allocations that a sample stands for, if it shows the interval. The
/// approximation above is exact to a fiftieth then.
const MIN_OBJECTS: u64 = 4;

/// The mean of the intervals, by bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    bytes: f64,
    /// Sum of the intervals, each times the bytes that it stands for.
    sum: f64,
}

/// The intervals of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct SamplingIntervals {
    total: Mean,
    /// The period before, and the current one.
    recent: [Mean; 2],
    /// Number of the current period.
    period: u64,
}

impl SamplingIntervals {
    /// Adds a sample.
    pub(super) fn add(&mut self, at_ns: u64, weight: Weight) {
        let period = at_ns / PERIOD_NS;
        if period > self.period {
            let before = if period == self.period + 1 { self.recent[1] } else { Mean::default() };
            (self.recent, self.period) = ([before, Mean::default()], period);
        }
        if weight.latency_ns < MIN_OBJECTS {
            return;
        }
        let bytes = weight.ns as f64;
        let interval = bytes * (1.0 - 0.5 / weight.latency_ns as f64);
        for mean in [&mut self.total, &mut self.recent[1]] {
            mean.bytes += bytes;
            mean.sum += bytes * interval;
        }
    }

    /// The mean since the start, or lately; 0 if no sample shows it.
    pub(super) fn mean(&self, is_total: bool) -> u64 {
        let [before, current] = self.recent;
        let recent = Mean { bytes: before.bytes + current.bytes, sum: before.sum + current.sum };
        let Mean { bytes, sum } = if is_total || recent.bytes == 0.0 { self.total } else { recent };
        if bytes > 0.0 { (sum / bytes) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn allocations(bytes: u64, objects: u64) -> Weight {
        Weight { latency_ns: objects, ..Weight::new(bytes, 1) }
    }

    #[test]
    fn the_mean_counts_bytes_and_forgets_what_was_long_ago() {
        let mut intervals = SamplingIntervals::default();
        assert_eq!(intervals.mean(true), 0);
        // Nine bytes of ten were sampled with the longer interval.
        let add = |intervals: &mut SamplingIntervals, at_ns| {
            (0..9).for_each(|_| intervals.add(at_ns, allocations(1_000, 100)));
            intervals.add(at_ns, allocations(81_000, 100));
        };
        add(&mut intervals, SECOND);
        let expected = (0.995 * (9.0 * 1_000.0 * 1_000.0 + 81_000.0 * 81_000.0) / 90_000.0) as u64;
        assert_eq!([intervals.mean(true), intervals.mean(false)], [expected; 2]);
        // A large allocation stands for itself.
        intervals.add(2 * SECOND, allocations(1 << 30, 1));
        assert_eq!(intervals.mean(false), expected);
        intervals.add(7 * SECOND, allocations(1_000, 500));
        assert!(intervals.mean(false) > 70_000, "the period before counts");
        intervals.add(13 * SECOND, allocations(1_000, 500));
        assert_eq!(intervals.mean(false), 999);
        assert!(intervals.mean(true) > 70_000);
    }
}

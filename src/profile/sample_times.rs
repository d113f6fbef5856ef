//! The time of every single sample, for file formats with a time axis. The history has times only
//! by bucket and only for the last minutes. Times are kept on request.

use super::stack::StackId;
use super::totals::ThreadStack;
use crate::wire::Clock;

/// Maximum number of samples, 40 bytes each. If there are more, all times are dropped.
const MAX_SAMPLES: usize = 1 << 22;

/// A sample and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// The time of the tick on the viewer's `CLOCK_MONOTONIC`, ns, accurate to the kernel's tick.
    pub at_ns: u64,
    /// The bucket of the history that has the sample. It may be later than its time.
    pub bucket: u64,
    /// The clock that ticked.
    pub clock: Clock,
    /// Thread and stack.
    pub key: ThreadStack,
    /// Number of samples, or of allocations.
    pub samples: u32,
    /// Weight on the clock, ns.
    pub weight_ns: u64,
}

/// All samples in order of arrival.
#[derive(Debug, Default)]
pub(super) struct SampleTimes {
    samples: Vec<TimedSample>,
    is_full: bool,
    /// The number of samples at the time of the freeze.
    frozen: Option<usize>,
}

impl SampleTimes {
    pub(super) fn push(&mut self, sample: TimedSample) {
        if self.samples.len() == MAX_SAMPLES {
            (self.samples, self.is_full) = (Vec::new(), true);
        }
        if !self.is_full {
            self.samples.push(sample);
        }
    }

    /// The samples in the totals, or `None` if there were too many. It is also `None` if all have
    /// one time, as those of an imported profile have that does not say theirs.
    pub(super) fn all(&self) -> Option<&[TimedSample]> {
        let samples = self.samples.get(..self.frozen.unwrap_or(self.samples.len()))?;
        let have_times = samples.len() < 2 || samples.windows(2).any(|pair| pair[0].at_ns != pair[1].at_ns);
        Some(samples).filter(|_| have_times && !self.is_full)
    }

    /// Replaces the stack of every sample.
    pub(super) fn renumber(&mut self, mut stack: impl FnMut(StackId) -> StackId) {
        self.samples.iter_mut().for_each(|sample| sample.key.1 = stack(sample.key.1));
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.samples.capacity() * size_of::<TimedSample>()
    }

    pub(super) fn freeze(&mut self) {
        self.frozen = Some(self.samples.len());
    }

    pub(super) fn thaw(&mut self) {
        self.frozen = None;
    }

    /// Removes the samples of a clock.
    pub(super) fn reset(&mut self, clock: Clock) {
        if let Some(frozen) = self.frozen {
            let is_other = |sample: &&TimedSample| sample.clock != clock;
            self.frozen = Some(self.samples.iter().take(frozen).filter(is_other).count());
        }
        self.samples.retain(|sample| sample.clock != clock);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack::StackId;
    use super::super::thread::ThreadId;
    use super::*;

    #[test]
    fn samples_after_a_freeze_and_of_a_reset_clock_are_left_out() {
        let mut times = SampleTimes::default();
        let sample = |at_ns, clock| TimedSample {
            at_ns,
            bucket: 0,
            clock,
            key: (ThreadId(0), StackId::EMPTY),
            samples: 1,
            weight_ns: 1,
        };
        let known = |times: &SampleTimes| times.all().unwrap().iter().map(|sample| sample.at_ns).collect::<Vec<_>>();
        times.push(sample(1, Clock::Prof));
        times.push(sample(2, Clock::Real));
        times.freeze();
        times.push(sample(3, Clock::Real));
        assert_eq!(known(&times), [1, 2]);
        times.reset(Clock::Prof);
        assert_eq!(known(&times), [2]);
        times.thaw();
        assert_eq!(known(&times), [2, 3]);
    }
}

//! When every single sample was taken, for files that show samples along the time. The books know
//! times only by bucket, and only of the last minutes. Kept where it is asked for.

use super::Clock;
use super::window::Key;

/// Samples, at most, at 40 bytes each. Beyond it no times are kept.
const MAX_SAMPLES: usize = 1 << 22;

/// A sample and when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// The time on the viewer's `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// The clock that ticked.
    pub clock: Clock,
    /// Thread and stack.
    pub key: Key,
    /// Weight on the clock, ns.
    pub weight_ns: u64,
}

/// All samples in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct SampleTimes {
    samples: Vec<TimedSample>,
    is_full: bool,
    /// How many there were when the books were frozen.
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

    /// The samples that are in the books; `None` if there were too many.
    pub(super) fn all(&self) -> Option<&[TimedSample]> {
        let known = self.frozen.unwrap_or(self.samples.len());
        self.samples.get(..known).filter(|_| !self.is_full)
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
    fn frozen_and_reset_samples_are_left_out() {
        let mut times = SampleTimes::default();
        let sample = |at_ns, clock| TimedSample { at_ns, clock, key: (ThreadId(0), StackId::EMPTY), weight_ns: 1 };
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

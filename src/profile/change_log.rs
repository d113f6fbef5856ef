//! The latest samples added to the totals, in order of arrival. A reader that keeps sums adds the
//! new samples to them instead of summing the whole profile again. The log is short: a reader that
//! falls too far behind has to start over.

use std::collections::VecDeque;

use super::totals::{ThreadStack, Weight};

/// Maximum number of entries in the log, 40 bytes each: four seconds at 8 000 samples per second,
/// each of which is followed by its latency.
const MAX_SAMPLES: usize = 1 << 16;

/// A sample that was added to the totals, or a change of the latency of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedSample {
    /// History bucket: time divided by [`BUCKET_NS`](super::totals::BUCKET_NS).
    pub bucket: u64,
    /// The sampled thread and its stack.
    pub key: ThreadStack,
    /// The sample's weight.
    pub weight: Weight,
}

/// A position in a [`ChangeLog`]: the reader knows all samples before it. It becomes invalid when
/// the totals change in another way than by a new sample (reset, freeze, thaw).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// Number of changes that were no samples.
    epoch: u64,
    /// Number of samples.
    number: u64,
}

/// The latest samples of one clock, of all processes.
#[derive(Debug, Default)]
pub struct ChangeLog {
    samples: VecDeque<LoggedSample>,
    end: LogPosition,
}

impl ChangeLog {
    pub(super) fn push(&mut self, sample: LoggedSample) {
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.end.number += 1;
    }

    /// Invalidates all positions, because the totals changed in another way than by a sample.
    pub(super) fn invalidate(&mut self) {
        self.samples.clear();
        self.end.epoch += 1;
    }

    /// The position after the newest sample.
    pub fn position(&self) -> LogPosition {
        self.end
    }

    /// Returns the samples after a position, or `None` if the log no longer has all of them.
    pub fn since(&self, position: LogPosition) -> Option<impl Iterator<Item = &LoggedSample>> {
        let count = self.end.number.checked_sub(position.number)? as usize;
        let start = self.samples.len().checked_sub(count).filter(|_| position.epoch == self.end.epoch)?;
        Some(self.samples.range(start..))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack::StackId;
    use super::super::thread::ThreadId;
    use super::*;

    fn sample(bucket: u64) -> LoggedSample {
        LoggedSample { bucket, key: (ThreadId(0), StackId::EMPTY), weight: Weight::new(1, 1) }
    }

    #[test]
    fn recent_positions_yield_the_new_samples_and_old_positions_yield_none() {
        let mut log = ChangeLog::default();
        let start = log.position();
        (0..10).for_each(|bucket| log.push(sample(bucket)));
        let middle = log.position();
        (10..12).for_each(|bucket| log.push(sample(bucket)));
        let buckets =
            |log: &ChangeLog, position| Some(log.since(position)?.map(|sample| sample.bucket).collect::<Vec<_>>());
        assert_eq!(buckets(&log, middle), Some(vec![10, 11]));
        assert_eq!(buckets(&log, start).map(|all| all.len()), Some(12));
        assert_eq!(buckets(&log, log.position()), Some(vec![]));
        (0..MAX_SAMPLES as u64).for_each(|bucket| log.push(sample(bucket)));
        assert_eq!((buckets(&log, start), buckets(&log, middle)), (None, None));
        let end = log.position();
        log.invalidate();
        assert_eq!(buckets(&log, end), None);
        assert_eq!(buckets(&log, log.position()), Some(vec![]));
    }
}

//! Changes of stack weights that are collected before they are applied. They are sorted by stack,
//! so that tables by stack are read in order, and those of one stack are merged.

use crate::profile::stack::StackId;
use crate::tally::stacks::{LATENCY, PREFETCH, SUMS};

/// Maximum number of changes in a batch.
const MAX_CHANGES: usize = 1 << 14;

/// The change of one stack's weight in each sum. What is subtracted is added as its two's
/// complement.
#[derive(Clone, Copy)]
pub(crate) struct StackChange {
    pub(crate) stack: StackId,
    pub(crate) ns: [u64; SUMS],
    /// The number of samples. Sums of latencies have none of their own.
    pub(crate) samples: [u64; LATENCY],
}

/// Collected changes.
#[derive(Default)]
pub(crate) struct Batch(Vec<StackChange>);

impl Batch {
    /// Adds a change. Returns whether the batch is full and must be drained.
    pub(crate) fn push(&mut self, change: StackChange) -> bool {
        self.0.push(change);
        self.0.len() >= MAX_CHANGES
    }

    /// Removes all changes. They are passed to `apply` in the order of their stacks, merged, in
    /// slices of at most [`PREFETCH`].
    pub(crate) fn drain(&mut self, mut apply: impl FnMut(&[StackChange])) {
        self.0.sort_unstable_by_key(|change| change.stack);
        self.0.dedup_by(|next, kept| {
            let same = next.stack == kept.stack;
            if same {
                kept.ns.iter_mut().zip(next.ns).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
                kept.samples.iter_mut().zip(next.samples).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
            }
            same
        });
        self.0.chunks(PREFETCH).for_each(&mut apply);
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_stack_are_merged_and_subtracted() {
        let mut batch = Batch::default();
        for (stack, sum, by_ns) in [(7, 0, 5), (3, 1, 2), (7, 1, 4), (7, 0, -3), (3, 1, 1), (3, 2, 6)] {
            let (mut ns, mut samples) = ([0; SUMS], [0; LATENCY]);
            ns[sum] = by_ns as u64;
            samples.iter_mut().skip(sum).take(1).for_each(|samples| *samples = i64::signum(by_ns) as u64);
            assert!(!batch.push(StackChange { stack: StackId::from_index(stack), ns, samples }));
        }
        let mut drained = Vec::new();
        let mut drain = |batch: &mut Batch| {
            batch.drain(|changes| {
                let signed = |sum: u64| sum as i64;
                drained.extend(
                    changes
                        .iter()
                        .map(|change| (change.stack.index(), change.ns.map(signed), change.samples.map(signed))),
                );
            });
        };
        drain(&mut batch);
        drain(&mut batch);
        assert_eq!(drained, [(3, [0, 3, 6, 0], [0, 2]), (7, [2, 4, 0, 0], [0, 1])]);
    }
}

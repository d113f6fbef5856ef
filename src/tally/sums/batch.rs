//! Changes of stack weights that are collected before they are applied. They are sorted by stack,
//! so that tables by stack are read in order, and those of one stack are merged.

use crate::profile::stack::StackId;
use crate::profile::totals::Weight;
use crate::tally::stacks::{PREFETCH, SUMS};

/// Maximum number of changes in a batch.
const MAX_CHANGES: usize = 1 << 14;

/// The change of one stack's weight in each sum. What is subtracted is added as its two's
/// complement.
#[derive(Clone, Copy)]
pub(crate) struct StackChange {
    pub(crate) stack: StackId,
    pub(crate) sums: [Weight; SUMS],
}

/// Collected changes.
#[derive(Default)]
pub(crate) struct Batch(Vec<StackChange>);

impl Batch {
    /// Adds a change. Returns whether the batch is full and must be drained.
    pub(crate) fn push(&mut self, stack: StackId, sums: [Weight; SUMS]) -> bool {
        self.0.push(StackChange { stack, sums });
        self.0.len() >= MAX_CHANGES
    }

    /// Removes all changes. They are passed to `apply` in the order of their stacks, merged, in
    /// slices of at most [`PREFETCH`].
    pub(crate) fn drain(&mut self, mut apply: impl FnMut(&[StackChange])) {
        self.0.sort_unstable_by_key(|change| change.stack);
        self.0.dedup_by(|next, kept| {
            let same = next.stack == kept.stack;
            if same {
                for (sum, more) in kept.sums.iter_mut().zip(&next.sums) {
                    sum.ns = sum.ns.wrapping_add(more.ns);
                    sum.samples = sum.samples.wrapping_add(more.samples);
                }
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
        let weight = |ns: i64| Weight::new(ns as u64, ns.signum() as u64);
        for (stack, sum, ns) in [(7, 0, 5), (3, 1, 2), (7, 1, 4), (7, 0, -3), (3, 1, 1)] {
            let mut sums = [Weight::default(); SUMS];
            sums[sum] = weight(ns);
            assert!(!batch.push(StackId::from_index(stack), sums));
        }
        let mut drained = Vec::new();
        let mut drain = |batch: &mut Batch| {
            batch.drain(|changes| {
                let signed = |sum: Weight| (sum.ns as i64, sum.samples as i64);
                drained.extend(changes.iter().map(|change| (change.stack.index(), change.sums.map(signed))));
            });
        };
        drain(&mut batch);
        drain(&mut batch);
        let zero = (0, 0);
        assert_eq!(drained, [(3, [zero, (3, 2), zero, zero]), (7, [(2, 0), (4, 1), zero, zero])]);
    }
}

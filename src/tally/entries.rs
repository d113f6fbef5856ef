//! Entries of the books on their way into sums: put in the order of their stacks, so that what is kept by stack is gone through once, from
//! one end to the other; and those of one stack put together.

use super::running::SIDES;
use super::weights::AHEAD;
use crate::profile::stack::StackId;
use crate::profile::window::Weight;

/// Entries that wait, at most.
const MOST: usize = 1 << 14;

/// What comes to a stack, of either side. What goes is the complement.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) stack: StackId,
    pub(super) sides: [Weight; SIDES],
}

/// Entries that wait.
#[derive(Default)]
pub(super) struct Entries(Vec<Entry>);

impl Entries {
    /// Puts one there, for each side. Says whether it is time to take them.
    pub(super) fn put(&mut self, stack: StackId, sides: [Weight; SIDES]) -> bool {
        self.0.push(Entry { stack, sides });
        self.0.len() >= MOST
    }

    /// Takes all: calls `each` once for every stack, with many of them at a time, in order.
    pub(super) fn take(&mut self, mut each: impl FnMut(&[Entry])) {
        self.0.sort_unstable_by_key(|entry| entry.stack);
        self.0.dedup_by(|next, kept| {
            let same = next.stack == kept.stack;
            if same {
                for (sum, more) in kept.sides.iter_mut().zip(&next.sides) {
                    sum.ns = sum.ns.wrapping_add(more.ns);
                    sum.samples = sum.samples.wrapping_add(more.samples);
                }
            }
            same
        });
        self.0.chunks(AHEAD).for_each(&mut each);
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_comes_once_and_what_goes_is_taken_away() {
        let mut entries = Entries::default();
        let weight = |ns: i64| Weight { ns: ns as u64, samples: ns.signum() as u64 };
        for (stack, side, ns) in [(7, 0, 5), (3, 1, 2), (7, 1, 4), (7, 0, -3), (3, 1, 1)] {
            let mut sides = [Weight::default(); SIDES];
            sides[side] = weight(ns);
            assert!(!entries.put(StackId::of(stack), sides));
        }
        let mut seen = Vec::new();
        let mut take = |entries: &mut Entries| {
            entries.take(|all| {
                let signed = |side: Weight| (side.ns as i64, side.samples as i64);
                seen.extend(all.iter().map(|entry| (entry.stack.index(), entry.sides.map(signed))));
            });
        };
        take(&mut entries);
        take(&mut entries);
        assert_eq!(seen, [(3, [(0, 0), (3, 2)]), (7, [(2, 0), (4, 1)])]);
    }
}

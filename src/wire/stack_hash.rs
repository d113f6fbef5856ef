//! The hash that stands for a whole stack where stacks are looked up by value.

use std::hash::BuildHasher;

/// The hash of all frames of a stack. Of a million stacks, two have the same hash in one of 30
/// million sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackHash(u64);

/// Hashes stacks with foldhash. Every hasher has a random seed of its own, so a target cannot
/// choose addresses that collide.
#[derive(Debug, Default)]
pub struct StackHasher(foldhash::quality::RandomState);

impl StackHasher {
    /// Hashes packed frames.
    pub fn hash(&self, frames: &[u64]) -> StackHash {
        StackHash(self.0.hash_one(frames))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_stack_hash_depends_on_every_frame_its_position_and_the_depth() {
        let hasher = StackHasher::default();
        let frames: Vec<u64> = (0..11).map(|frame| frame * 0x40 + 7).collect();
        let mut hashes = HashSet::from([hasher.hash(&frames), hasher.hash(&[]), hasher.hash(&[0])]);
        for one in 0..frames.len() {
            let mut other = frames.clone();
            other[one] ^= 1;
            assert!(hashes.insert(hasher.hash(&other)));
            assert!(hashes.insert(hasher.hash(&frames[..one])) || one == 0);
            for two in 0..one {
                let mut other = frames.clone();
                other.swap(one, two);
                assert!(hashes.insert(hasher.hash(&other)));
            }
        }
    }

    #[test]
    fn every_hasher_has_its_own_seed() {
        assert_ne!(StackHasher::default().hash(&[1]), StackHasher::default().hash(&[1]));
    }
}

//! Hash maps keyed by ids and addresses. Such keys are looked up half a million times per second,
//! which is too often for the standard library's SipHash. Of foldhash, the quality variant is used:
//! with some seeds, the fast one leaves most values of the top bits unused for consecutive ids.

/// A hash map keyed by ids or addresses. Every map has a random seed of its own, so a target cannot
/// choose addresses that collide.
pub(crate) type IdMap<K, V> = std::collections::HashMap<K, V, foldhash::quality::RandomState>;

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    type IdHasher = foldhash::quality::RandomState;

    #[test]
    fn hashes_of_neighbouring_ids_are_spread_over_low_and_high_bits() {
        let hasher = IdHasher::default();
        let hashes: Vec<u64> = (0..4096u64).map(|id| hasher.hash_one((id as u32, 7u32))).collect();
        for shift in [0, 52] {
            let mut counts = vec![0; 4096];
            hashes.iter().for_each(|hash| counts[(hash >> shift) as usize & 4095] += 1);
            // 4 096 balls thrown at random leave 1 507 of as many boxes empty (σ 20), and no box
            // gets 12.
            let empty = counts.iter().filter(|&&count| count == 0).count();
            assert!((1300..1700).contains(&empty) && counts.iter().all(|&count| count < 12), "{shift}: {empty}");
        }
    }

    #[test]
    fn every_map_has_its_own_seed() {
        assert_ne!(IdHasher::default().hash_one(1u64), IdHasher::default().hash_one(1u64));
    }
}

//! Reproducible random numbers for tests.

/// SplitMix64 (Steele, Lea and Flood).
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    /// Returns the next number, from 0 up to, not including, 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The shares of the 25 functions of a program, from 15 % down to 1 %.
pub(super) fn program_shares() -> Vec<f64> {
    let shares: Vec<f64> = (0..25).map(|index| 1.0 / (1.6 + f64::from(index))).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

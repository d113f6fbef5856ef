//! The weight of samples: time and number.

/// The weight of a stack. On a clock of memory it is a number of bytes and of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Time of the sampled clock, ns.
    pub ns: u64,
    /// Number of samples.
    pub samples: u64,
}

impl std::ops::SubAssign for Weight {
    fn sub_assign(&mut self, other: Weight) {
        self.ns = self.ns.saturating_sub(other.ns);
        self.samples = self.samples.saturating_sub(other.samples);
    }
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.ns = self.ns.saturating_add(other.ns);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

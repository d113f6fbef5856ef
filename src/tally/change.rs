//! Differences between two weights, as values. [`diff`](super::diff) computes them; the views carry
//! them next to the sizes.

/// The sign and significance of a difference. Its size is stored elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether the weight decreased.
    pub negative: bool,
    /// Whether the difference is statistically significant.
    pub significant: bool,
}

/// The changes of a row's flat and cum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The flat and the cum of the baseline, ns.
    pub before_ns: (u64, u64),
    /// The change of its flat.
    pub flat: Change,
    /// The change of its cum.
    pub cum: Change,
}

/// A difference with its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Its absolute value, ns.
    pub ns: u64,
    /// Its sign and significance.
    pub change: Change,
}

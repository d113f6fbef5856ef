//! Estimates how unlikely it is that chance explains a share.

use std::f64::consts::PI;

/// Returns the negative logarithm of the probability that, of `samples` independent samples, a
/// share as far from `expected` as `share` is found: at most `2 exp(-k D)` with `D = q ln(q/p) +
/// (1-q) ln((1-q)/(1-p))` (Chernoff), and about that divided by `sqrt(4 pi k D)`. The factor 2 is
/// left to [`threshold`].
pub(super) fn evidence(samples: f64, share: f64, expected: f64) -> f64 {
    let term = |share: f64, expected: f64| if share == 0.0 { 0.0 } else { share * (share / expected).ln() };
    let exponent = samples * (term(share, expected) + term(1.0 - share, 1.0 - expected));
    exponent + (4.0 * PI * exponent.max(1.0)).ln() / 2.0
}

/// The evidence above which a row is significant, if `false_alarms` is the probability that any of
/// `rows` rows is so by chance.
pub(super) fn threshold(rows: usize, false_alarms: f64) -> f64 {
    (2.0 * rows as f64 / false_alarms).ln()
}

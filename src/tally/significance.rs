//! Estimates how unlikely it is that chance explains a share.

use std::f64::consts::PI;

/// Returns the negative logarithm of the probability that, of `samples` independent samples, a
/// share as far from `expected` as `share` is found: at most `2 exp(-k D)` with `D = q ln(q/p) +
/// (1-q) ln((1-q)/(1-p))` (Chernoff), and about that divided by `sqrt(4 pi k D)`. The factor 2 is
/// left to [`threshold`].
pub fn evidence(samples: f64, share: f64, expected: f64) -> f64 {
    let term = |share: f64, expected: f64| if share == 0.0 { 0.0 } else { share * (share / expected).ln() };
    let exponent = samples * (term(share, expected) + term(1.0 - share, 1.0 - expected));
    exponent + (4.0 * PI * exponent.max(1.0)).ln() / 2.0
}

/// Returns the negative logarithm of the probability that a row has a share of the `now` samples as
/// far from that of the `before` samples as it has (Fisher's exact test, one-sided): it has
/// `now.0` of `now.1` samples, and `before.0` of `before.1`. It is 0 or less if chance explains it.
/// Counts may be fractions.
///
/// The probability of one outcome is hypergeometric. More extreme outcomes form about a geometric
/// series.
pub fn evidence_of_shares(now: (f64, f64), before: (f64, f64)) -> f64 {
    // The counts with the samples of other rows, in either period.
    let (x, other_x) = (now.0, (now.1 - now.0).max(0.0));
    let (y, other_y) = (before.0, (before.1 - before.0).max(0.0));
    let marginals = [x + y, other_x + other_y, x + other_x, y + other_y].map(ln_factorial);
    let cells = [x, y, other_x, other_y, x + y + other_x + other_y].map(ln_factorial);
    let one = marginals.iter().sum::<f64>() - cells.iter().sum::<f64>();
    // The next outcome has one more of the row's samples where its share is the larger one.
    let next = match x * other_y > y * other_x {
        true => y * other_x / ((x + 1.0) * (other_y + 1.0)),
        false => x * other_y / ((y + 1.0) * (other_x + 1.0)),
    };
    (1.0 - next).ln() - one
}

/// Gosper's approximation; exact to 3 % at 0 and to less above.
fn ln_factorial(n: f64) -> f64 {
    let power = if n > 0.0 { n * n.ln() - n } else { 0.0 };
    power + (PI * (2.0 * n + 1.0 / 3.0)).ln() / 2.0
}

/// The evidence above which a row is significant, if `false_alarms` is the probability that any of
/// `rows` rows is so by chance.
pub(super) fn threshold(rows: f64, false_alarms: f64) -> f64 {
    (2.0 * rows / false_alarms).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_shares_is_that_of_the_exact_test() {
        // Sums of hypergeometric probabilities, in whole numbers.
        let cases = [
            ((8.0, 1000.0), (0.0, 1000.0), 3.851_741e-3),
            ((3.0, 10.0), (0.0, 10.0), 1.052_632e-1),
            ((150.0, 790.0), (95.0, 790.0), 8.314_530e-5),
            ((20.0, 400.0), (160.0, 1600.0), 6.946_218e-4),
            ((40.0, 40.0), (30.0, 40.0), 5.148_282e-4),
        ];
        for (now, before, p) in cases {
            let evidence = evidence_of_shares(now, before);
            assert!((evidence + f64::ln(p)).abs() < 0.05, "{now:?} {before:?}: {evidence} is not {}", -f64::ln(p));
        }
        assert!(evidence_of_shares((10.0, 10.0), (20.0, 20.0)) < 0.05);
        assert!(evidence_of_shares((5.0, 10.0), (10.0, 20.0)) < 0.0);
    }
}

//! Probabilities that chance explains a difference, and what a variance is estimated from.

use statrs::function::beta::beta_reg;

/// The probability that Student's t with so many degrees of freedom is above `t`, which is not
/// negative.
pub(super) fn upper_tail(t: f64, freedom: f64) -> f64 {
    if t <= 0.0 || !t.is_finite() {
        return if t > 0.0 { 0.0 } else { 0.5 };
    }
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t)) / 2.0
}

/// The `t` that Student's t exceeds with this probability, from 0 up to 0.5.
pub(super) fn quantile(probability: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if upper_tail(middle, freedom) > probability { low = middle } else { high = middle }
    }
    high
}

/// The estimate of a mean or a share, with the variance of the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    /// The estimate.
    pub(super) value: f64,
    /// Its variance.
    pub(super) variance: f64,
    /// The degrees of freedom of the variance.
    pub(super) freedom: f64,
}

/// Estimates the share of `parts` in `totals`, one pair for each independent unit. The variance is
/// that of a ratio; if neighboring units are alike, it is larger by their correlation.
pub(super) fn share(parts: &[f64], totals: &[f64], are_neighbors: bool) -> Estimate {
    let total: f64 = totals.iter().sum();
    let value = if total > 0.0 { parts.iter().sum::<f64>() / total } else { 0.0 };
    let count = totals.iter().filter(|&&total| total > 0.0).count() as f64;
    if count < 2.0 {
        return Estimate { value, ..Estimate::default() };
    }
    let residuals: Vec<f64> = parts.iter().zip(totals).map(|(part, of)| part - value * of).collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = if are_neighbors && squares > 0.0 { (products / squares).max(0.0) } else { 0.0 };
    let variance = count / (count - 1.0) * squares * (1.0 + 2.0 * correlation) / (total * total);
    Estimate { value, variance, freedom: count - 1.0 }
}

/// Estimates the mean of independent values.
pub(super) fn mean(values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count.max(1.0);
    if count < 2.0 {
        return Estimate { value, ..Estimate::default() };
    }
    let squares: f64 = values.iter().map(|one| (one - value) * (one - value)).sum();
    Estimate { value, variance: squares / (count - 1.0) / count, freedom: count - 1.0 }
}

/// The degrees of freedom of the variance of a difference (Welch and Satterthwaite).
pub(super) fn freedom_of_difference(base: Estimate, new: Estimate) -> f64 {
    let sum = base.variance + new.variance;
    let part = |of: Estimate| if of.freedom > 0.0 { of.variance * of.variance / of.freedom } else { 0.0 };
    let parts = part(base) + part(new);
    if parts > 0.0 { (sum * sum / parts).max(1.0) } else { base.freedom.min(new.freedom).max(1.0) }
}

/// Returns which of these probabilities are accepted if the part of false ones among the accepted
/// is to be at most `rate` (Benjamini and Hochberg).
pub(super) fn accept(probabilities: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = probabilities.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let is_below = |(index, one): (usize, &f64)| (*one <= rate * (index + 1) as f64 / count).then_some(*one);
    let limit = sorted.iter().enumerate().filter_map(is_below).next_back();
    probabilities.iter().map(|one| limit.is_some_and(|limit| *one <= limit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_and_quantiles_are_those_of_tables() {
        for (t, freedom, p) in [(2.228, 10.0, 0.025), (1.96, 1e7, 0.025), (4.587, 10.0, 0.0005), (12.71, 1.0, 0.025)] {
            assert!((upper_tail(t, freedom) / p - 1.0).abs() < 2e-3, "{t} {freedom}: {}", upper_tail(t, freedom));
            assert!((quantile(p, freedom) / t - 1.0).abs() < 1e-3, "{p} {freedom}: {}", quantile(p, freedom));
        }
        // The fifth power of ten is far in the tail, where many approximations fail.
        assert!((quantile(1e-6, 18.0) - 6.966).abs() < 0.4, "{}", quantile(1e-6, 18.0));
    }

    #[test]
    fn benjamini_and_hochberg_accept_up_to_the_last_below_the_line() {
        assert_eq!(accept(&[0.9, 0.011, 0.02, 0.001], 0.05), [false, true, true, true]);
        assert_eq!(accept(&[0.06, 0.9], 0.05), [false, false]);
        assert_eq!(accept(&[], 0.05), [] as [bool; 0]);
    }

    #[test]
    fn the_variance_of_a_share_is_that_of_its_units() {
        let equal = share(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0], false);
        assert_eq!((equal.value, equal.variance, equal.freedom), (0.1, 0.0, 2.0));
        let alike = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0];
        let totals = [10.0; 6];
        assert!(share(&alike, &totals, true).variance > 1.9 * share(&alike, &totals, false).variance);
        let base = Estimate { value: 1.0, variance: 4.0, freedom: 9.0 };
        assert_eq!(freedom_of_difference(base, base), 18.0);
    }
}

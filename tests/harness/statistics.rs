//! Statistical bounds for tests.

/// Returns the lower end of the exact (Clopper–Pearson) one-sided interval for a proportion, given
/// `hits` of `trials` and the chance of being wrong, `error`.
pub(crate) fn lower_bound(hits: u64, trials: u64, error: f64) -> f64 {
    assert!(hits <= trials && trials > 0, "{hits} of {trials}");
    if hits == 0 {
        return 0.0;
    }
    let misses = trials - hits;
    // The share of misses at which at most this many would be seen with probability `error`. The
    // probability falls as the share grows.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if at_most(misses, trials, middle) > error { low = middle } else { high = middle }
    }
    1.0 - high
}

/// Returns the probability of at most `count` successes in `trials` of chance `p`.
fn at_most(count: u64, trials: u64, p: f64) -> f64 {
    if p >= 1.0 {
        return if count >= trials { 1.0 } else { 0.0 };
    }
    let (n, mut log_term) = (trials as f64, trials as f64 * (-p).ln_1p());
    let mut sum = log_term.exp();
    for i in 0..count {
        log_term += ((n - i as f64) / (i as f64 + 1.0)).ln() + p.ln() - (-p).ln_1p();
        sum += log_term.exp();
    }
    sum
}

/// Returns the number of standard deviations by which `hits` of `trials` differ from a share of
/// `expected`.
pub(crate) fn deviations(hits: u64, trials: u64, expected: f64) -> f64 {
    let n = trials as f64;
    (hits as f64 - n * expected) / (n * expected * (1.0 - expected)).sqrt()
}

//! The numbers of Poisson sampling, without a library of mathematics.

const LN_2: f64 = core::f64::consts::LN_2;
/// Largest countdown, in intervals: one of e^40 is larger.
pub(crate) const MAX_INTERVALS: u64 = 40;

/// Returns the next random number of a sequence (xorshift64). The state must not be 0.
pub(crate) fn next_random(state: u64) -> u64 {
    let state = state ^ state << 13;
    let state = state ^ state >> 7;
    state ^ state << 17
}

/// Converts a random number to one between 0, exclusive, and 1.
fn unit(random: u64) -> f64 {
    ((random >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Returns the natural logarithm of a normal positive number: that of its mantissa by the series of
/// the inverse hyperbolic tangent, exact to 10^-10.
fn ln(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let (mantissa, exponent) =
        if mantissa > core::f64::consts::SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let (mut sum, mut power) = (0.0, s);
    for odd in [1.0, 3.0, 5.0, 7.0, 9.0, 11.0] {
        sum += power / odd;
        power *= square;
    }
    2.0 * sum + exponent as f64 * LN_2
}

/// Returns 1 − e^−x of a number that is not negative.
fn one_minus_exp(x: f64) -> f64 {
    if x > MAX_INTERVALS as f64 {
        return 1.0;
    }
    let series = |x: f64| (1..14).rev().fold(0.0, |sum, n| x / n as f64 * (1.0 - sum));
    if x < 0.5 {
        return series(x);
    }
    let halvings = (x / LN_2) as u64;
    let rest = x - halvings as f64 * LN_2;
    1.0 - (1.0 - series(rest)) * f64::from_bits((1023 - halvings) << 52)
}

/// Draws the bytes until the next sample, from an exponential distribution with this mean.
pub(crate) fn draw(interval: u64, random: u64) -> i64 {
    (-ln(unit(random)) * interval as f64) as i64 + 1
}

/// Rounds up or down by chance, so that the mean is exact.
fn round(number: f64, random: u64) -> u64 {
    let whole = number as u64;
    whole + u64::from(number - whole as f64 >= unit(random))
}

/// Returns the bytes and the number of allocations that an allocation of this size stands for: its
/// size, and 1, divided by the chance that it is sampled; `None` if it is not. It is a candidate by
/// the interval, and sampled by the interval doubled that many times.
pub(crate) fn weigh(size: u64, interval: u64, doublings: u32, random: &mut impl FnMut() -> u64) -> Option<(u64, u64)> {
    let longer = interval.saturating_mul(1 << doublings);
    let chance = one_minus_exp(size as f64 / longer as f64);
    if doublings > 0 && unit(random()) * one_minus_exp(size as f64 / interval as f64) > chance {
        return None;
    }
    if size == 0 || chance <= 0.0 {
        return Some((longer, 1));
    }
    Some((round(size as f64 / chance, random()), round(1.0 / chance, random())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_exponentials_are_those_of_the_library() {
        for x in [1e-12, 1e-3, 0.1, 0.4, 0.6, 0.999, 1.0, 1.5, 2.0, 17.0] {
            assert!((ln(x) - f64::ln(x)).abs() < 1e-9, "ln {x}");
            let expected = -f64::exp_m1(-x);
            assert!((one_minus_exp(x) / expected - 1.0).abs() < 1e-9, "{x}: {} {expected}", one_minus_exp(x));
        }
        assert!(one_minus_exp(1e9) == 1.0 && one_minus_exp(0.0) == 0.0);
    }

    #[test]
    fn countdowns_have_their_mean_and_weights_are_unbiased() {
        const INTERVAL: u64 = 1000;
        let mut random = 0x1234_5678_9abc_def1;
        let mut step = || {
            random = next_random(random);
            random
        };
        let draws = 400_000;
        let sum: i64 = (0..draws).map(|_| draw(INTERVAL, step())).sum();
        // The standard deviation of an exponential distribution is its mean.
        let bound = 4.0 / f64::sqrt(f64::from(draws)) + 1e-3;
        assert!((sum as f64 / f64::from(draws) / INTERVAL as f64 - 1.0).abs() < bound);
        for (size, doublings) in [(1, 0), (16, 0), (700, 0), (1000, 0), (5000, 0), (16, 3), (700, 1), (5000, 4)] {
            let (mut left, mut bytes, mut objects, mut samples) = (draw(INTERVAL, step()), 0, 0, 0);
            let count = 4_000_000 / size.max(16);
            for _ in 0..count {
                left -= size as i64;
                if left < 0 {
                    left = draw(INTERVAL, step());
                    let weight = weigh(size, INTERVAL, doublings, &mut step).unwrap_or_default();
                    let is_sampled = u32::from(weight.0 > 0);
                    (bytes, objects, samples) = (bytes + weight.0, objects + weight.1, samples + is_sampled);
                }
            }
            let bound = 4.0 / f64::sqrt(f64::from(samples)) + 2e-3;
            assert!((bytes as f64 / (count * size) as f64 - 1.0).abs() < bound, "{size}: {bytes} bytes");
            assert!((objects as f64 / count as f64 - 1.0).abs() < bound, "{size}: {objects} of {count}");
        }
    }
}

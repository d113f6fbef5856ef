//! Converts values to whole numbers of sampling periods without changing their sum.

/// Returns the number of periods in each value. The remainder of a value is carried to the next, so
/// the sum of any run of results is within one period of the truth. A value may get 0 periods; if
/// all would get 0, the largest gets one.
///
/// `period` is in the unit of the values; 0 counts as 1.
pub(super) fn whole_periods(values: &[i64], period: u64) -> Vec<i64> {
    let period = i128::from(period.max(1));
    let round = |sum: i128| (sum + period / 2).div_euclid(period);
    let mut sum = 0;
    let rounded = values.iter().map(|&value| {
        let before = round(sum);
        sum += i128::from(value);
        // At most the value plus one; only a period of 1 makes that as large as an i64.
        i64::try_from(round(sum) - before).unwrap_or(value)
    });
    let mut counts: Vec<i64> = rounded.collect();
    if counts.iter().all(|&count| count == 0)
        && let Some((index, &value)) = values.iter().enumerate().max_by_key(|(_, value)| value.unsigned_abs())
    {
        counts[index] = value.signum();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_carried() {
        assert_eq!(whole_periods(&[14; 5], 10), [1, 2, 1, 2, 1]);
        assert_eq!(whole_periods(&[4, 4, 4, -12], 10), [0, 1, 0, -1]);
        assert_eq!(whole_periods(&[1, 2, 1], 10), [0, 1, 0]);
        assert_eq!(whole_periods(&[i64::MAX, i64::MAX, i64::MIN], 1), [i64::MAX, i64::MAX, i64::MIN]);
        assert_eq!(whole_periods(&[5, 7], 0), [5, 7]);
        assert_eq!(whole_periods(&[0, 0], 10), [0, 0]);
        assert!(whole_periods(&[], 10).is_empty());
    }
}

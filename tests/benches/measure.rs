//! Code that the benches share: rounds from the command line, interleaving, medians with bootstrap
//! intervals.

/// Returns the value of `--NAME N` on the command line.
pub(crate) fn argument(name: &str, default: u64) -> u64 {
    let flag = format!("--{name}");
    let mut arguments = std::env::args().skip_while(|argument| *argument != flag).skip(1);
    match arguments.next() {
        Some(value) => value.parse().unwrap_or_else(|_| panic!("{flag} wants a number, not {value:?}")),
        None => default,
    }
}

/// Returns the order of `count` variants in a round: it is rotated and reversed from round to
/// round, so that no variant always follows the same other one.
pub(crate) fn order(count: usize, round: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).map(|i| (i + round as usize) % count).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Returns the median.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

/// Returns a statistic of all rounds, and its 95 % interval by resampling whole rounds.
pub(crate) fn bootstrap<T>(rounds: &[T], statistic: impl Fn(&[&T]) -> f64) -> (f64, f64, f64) {
    let value = statistic(&rounds.iter().collect::<Vec<&T>>());
    let mut random = 88_172_645_463_325_252u64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        &rounds[(random % rounds.len() as u64) as usize]
    };
    let mut values: Vec<f64> =
        (0..2000).map(|_| statistic(&rounds.iter().map(|_| draw()).collect::<Vec<&T>>())).collect();
    values.sort_by(f64::total_cmp);
    (value, values[50], values[1949])
}

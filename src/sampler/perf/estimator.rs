//! The weights of samples of threads that live for less than a few periods.
//!
//! A timer that begins with a thread and expires after each period would never sample a thread that
//! ends before the first one. So the period is drawn for each thread, evenly between a tenth of
//! the wanted one and the whole. A sample is the k-th of its timer after a time `t` on the CPU if the
//! period was `t / k`. The density of samples, each weighed by its period, at a time `t` is
//!
//! ```text
//! Z(t) = Σ f(t / k) · (t / k) · 1/k       over all k; f is the density of periods
//! ```
//!
//! It is below 1 at the beginning and 1 later. A sample that weighs its period divided by `Z(t)`
//! makes each instant of a thread count the same, on average over threads. The instants before the
//! shortest period have no samples; those that follow for as long stand for them, too.

/// The shortest period of a birth event, as a part of the wanted one.
const SHORTEST: f64 = 0.1;
/// Time on the CPU from which on Z is 1, in wanted periods.
const LONG: f64 = 30.0;
/// Distance between two draws, as a part of all of them: the golden ratio. Draws at such a distance
/// are spread more evenly than random ones, and in no step with anything.
const STEP: f64 = 0.618_033_988_749_894_9;

/// Draws periods.
#[derive(Debug)]
pub(super) struct PeriodSequence {
    position: f64,
}

impl PeriodSequence {
    /// Creates a sequence that begins at a position that is given by chance.
    pub(super) fn new(seed: u64) -> PeriodSequence {
        PeriodSequence { position: (seed % 1_000_003) as f64 / 1_000_003.0 }
    }

    /// Draws a period between half of the wanted one and half as much again, ns.
    pub(super) fn draw_around(&mut self, wanted_ns: u64) -> u64 {
        self.step();
        ((0.5 + self.position) * wanted_ns as f64) as u64
    }

    fn step(&mut self) {
        self.position = (self.position + STEP).fract();
    }

    /// Draws a first period, or one of a birth event, for a wanted one, ns.
    pub(super) fn draw_period(&mut self, wanted_ns: u64) -> u64 {
        self.step();
        ((SHORTEST + (1.0 - SHORTEST) * self.position) * wanted_ns as f64) as u64
    }
}

/// Returns the weight of the k-th sample, counted from 1, of a timer with a drawn period, ns.
pub(super) fn weight(period_ns: u64, k: u32, wanted_ns: u64) -> u64 {
    let age = f64::from(k) * period_ns as f64 / wanted_ns.max(1) as f64;
    let instants = if age < 2.0 * SHORTEST { 2.0 } else { 1.0 };
    (instants * period_ns as f64 / density(age)) as u64
}

/// Z at a time on the CPU in wanted periods.
fn density(age: f64) -> f64 {
    if age >= LONG {
        return 1.0;
    }
    let (first, last) = (age.ceil().max(1.0) as u32, (age / SHORTEST * (1.0 + 1e-6)) as u32);
    let sum: f64 = (first..=last.max(first)).map(|k| f64::from(k).powi(-2)).sum();
    age / (1.0 - SHORTEST) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED_NS: u64 = 10_000_000;

    /// Samples threads of this length on a virtual clock. Returns the mean sum of the weights, ns,
    /// in the first and in the second half of their time.
    fn sample_threads(length_ns: u64, threads: u32) -> [f64; 2] {
        let mut sequence = PeriodSequence::new(7);
        let mut halves = [0.0; 2];
        for _ in 0..threads {
            let period_ns = sequence.draw_period(WANTED_NS);
            for k in 1..=(length_ns / period_ns) as u32 {
                let is_second = u64::from(k) * period_ns * 2 > length_ns;
                halves[usize::from(is_second)] += weight(period_ns, k, WANTED_NS) as f64;
            }
        }
        halves.map(|sum| sum / f64::from(threads))
    }

    #[test]
    fn short_and_long_threads_have_the_weight_of_their_time() {
        for length_ms in [2.0, 3.5, 5.0, 9.9, 10.1, 15.0, 33.0, 60.0, 400.0] {
            let length_ns = length_ms * 1e6;
            let sum: f64 = sample_threads(length_ns as u64, 20_000).iter().sum();
            assert!((sum / length_ns - 1.0).abs() < 0.03, "{length_ms} ms: {sum}");
        }
    }

    #[test]
    fn each_part_of_a_thread_has_its_weight() {
        for length_ms in [5.0, 20.0, 60.0] {
            let half_ns = length_ms * 1e6 / 2.0;
            let [first, second] = sample_threads((2.0 * half_ns) as u64, 20_000);
            assert!((first / half_ns - 1.0).abs() < 0.03, "{length_ms} ms: {first}");
            assert!((second / half_ns - 1.0).abs() < 0.03, "{length_ms} ms: {second}");
        }
    }

    /// Negative control: with one period for all, threads below it have no samples.
    #[test]
    fn weights_that_are_periods_are_wrong_for_short_threads() {
        let mut sequence = PeriodSequence::new(7);
        let sum: u64 = (0..1_000)
            .map(|_| sequence.draw_period(WANTED_NS))
            .map(|period_ns| 2_000_000 / period_ns * period_ns)
            .sum();
        assert!(sum < 1_000 * 1_000_000, "{sum}");
    }
}

//! Tells which samples of a recording its session shows: none before a reset or after a freeze.

use crate::wire::Clock;

/// The samples that are shown, by their numbers in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct ShownSamples {
    /// The number of samples before the last reset of each clock.
    hidden: [u64; Clock::ALL.len()],
    /// The number of samples before the freeze.
    frozen: Option<u64>,
    /// The number of samples so far.
    count: u64,
}

impl ShownSamples {
    /// Hides the first `count` samples of a clock.
    pub(super) fn reset(&mut self, clock: Clock, count: u64) {
        self.hidden[clock as usize] = count;
    }

    /// Returns these samples without those after the first `count`.
    pub(super) fn until(&self, count: Option<u64>) -> ShownSamples {
        ShownSamples { frozen: count, ..self.clone() }
    }

    /// Counts the next sample. Returns whether it is shown.
    pub(super) fn count(&mut self, clock: Clock) -> bool {
        self.count += 1;
        self.count > self.hidden[clock as usize] && self.frozen.is_none_or(|frozen| self.count <= frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_before_a_reset_of_their_clock_and_after_a_freeze_are_hidden() {
        let mut shown = ShownSamples::default();
        shown.reset(Clock::Prof, 2);
        let mut frozen = shown.until(Some(4));
        let clocks = [Clock::Prof, Clock::Real, Clock::Prof, Clock::Real, Clock::Prof];
        assert_eq!(clocks.map(|clock| shown.count(clock)), [false, true, true, true, true]);
        assert_eq!(clocks.map(|clock| frozen.count(clock)), [false, true, true, true, false]);
    }
}

//! How long each clock has been measured: what shares of a CPU are of. Time counts while an agent is there.

use crate::link::wire::Clock;

/// Read at every answer.
#[derive(Default)]
pub(super) struct Stopwatch {
    read_ns: Option<u64>,
    clock: Option<Clock>,
    totals_ns: [u64; 3],
    /// Since the clock was turned to, or its totals were forgotten.
    window_ns: u64,
}

impl Stopwatch {
    /// Up to now this clock was shown, by an agent or by none.
    pub(super) fn read(&mut self, clock: Clock, measured: bool, now_ns: u64) {
        if self.clock.replace(clock) != Some(clock) {
            self.window_ns = 0;
        } else if let Some(before_ns) = self.read_ns.filter(|_| measured) {
            let passed_ns = now_ns.saturating_sub(before_ns);
            self.window_ns += passed_ns;
            self.totals_ns[clock as usize] += passed_ns;
        }
        self.read_ns = Some(now_ns);
    }

    /// The totals of the shown clock are forgotten.
    pub(super) fn reset(&mut self) {
        self.window_ns = 0;
        self.clock.iter().for_each(|&clock| self.totals_ns[clock as usize] = 0);
    }

    /// What there is of a window of this length, ns, or of the total.
    pub(super) fn of(&self, window_ns: Option<u64>) -> u64 {
        match window_ns {
            Some(ns) => ns.min(self.window_ns),
            None => self.clock.map_or(0, |clock| self.totals_ns[clock as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_has_its_time_and_a_window_starts_anew() {
        let mut watch = Stopwatch::default();
        for (clock, measured, now_ns) in
            [(Clock::Prof, false, 100), (Clock::Prof, false, 200), (Clock::Prof, true, 250), (Clock::Prof, true, 300)]
        {
            watch.read(clock, measured, now_ns);
        }
        assert_eq!((watch.of(Some(1000)), watch.of(Some(30)), watch.of(None)), (100, 30, 100));
        watch.read(Clock::Real, true, 400);
        watch.read(Clock::Real, true, 410);
        assert_eq!((watch.of(Some(1000)), watch.of(None)), (10, 10));
        watch.read(Clock::Prof, true, 500);
        assert_eq!((watch.of(Some(1000)), watch.of(None)), (0, 100));
        watch.reset();
        watch.read(Clock::Prof, true, 507);
        assert_eq!((watch.of(Some(1000)), watch.of(None)), (7, 7));
    }
}

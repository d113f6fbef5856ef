//! The time for which each clock was measured, which shares of a CPU relate to. Time counts while
//! an agent is connected.

use crate::wire::Clock;

/// Measured time, updated at every answer.
#[derive(Default)]
pub(super) struct MeasuredTime {
    read_ns: Option<u64>,
    clock: Option<Clock>,
    totals_ns: [u64; Clock::ALL.len()],
    /// Time since the clock was selected or its totals were reset.
    window_ns: u64,
}

impl MeasuredTime {
    /// Adds the time since the last call, during which `clock` was selected. `measured` says
    /// whether an agent was connected.
    pub(super) fn update(&mut self, clock: Clock, measured: bool, now_ns: u64) {
        // Memory in use is a view of what was allocated.
        let clock = clock.sampled();
        if self.clock.replace(clock) != Some(clock) {
            self.window_ns = 0;
        } else if let Some(before_ns) = self.read_ns.filter(|_| measured) {
            let passed_ns = now_ns.saturating_sub(before_ns);
            self.window_ns += passed_ns;
            self.totals_ns[clock as usize] += passed_ns;
        }
        self.read_ns = Some(now_ns);
    }

    /// Resets the selected clock.
    pub(super) fn reset(&mut self) {
        self.window_ns = 0;
        self.clock.iter().for_each(|&clock| self.totals_ns[clock as usize] = 0);
    }

    /// The measured time of the selected clock within a window of this length, or in total, ns.
    pub(super) fn within(&self, window_ns: Option<u64>) -> u64 {
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
    fn each_clock_has_its_own_time_and_selecting_it_restarts_the_window() {
        let mut time = MeasuredTime::default();
        for (clock, measured, now_ns) in
            [(Clock::Prof, false, 100), (Clock::Prof, false, 200), (Clock::Prof, true, 250), (Clock::Prof, true, 300)]
        {
            time.update(clock, measured, now_ns);
        }
        assert_eq!((time.within(Some(1000)), time.within(Some(30)), time.within(None)), (100, 30, 100));
        time.update(Clock::Real, true, 400);
        time.update(Clock::Real, true, 410);
        assert_eq!((time.within(Some(1000)), time.within(None)), (10, 10));
        time.update(Clock::Prof, true, 500);
        assert_eq!((time.within(Some(1000)), time.within(None)), (0, 100));
        time.reset();
        time.update(Clock::Prof, true, 507);
        assert_eq!((time.within(Some(1000)), time.within(None)), (7, 7));
    }
}

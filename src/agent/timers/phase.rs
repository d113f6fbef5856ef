//! Expiry times of a busy thread's timer: one per period on average, but not at equal intervals.
//! Equally spaced ticks would always meet work that repeats with the period at the same point.
//!
//! The agent thread changes the timers of threads that have ticked whenever it is awake anyway.
//! Between two changes a timer expires slightly faster than once per period, which meets the work
//! at every point; then it pauses for the excess, which keeps the number of ticks right.

/// The shortest interval is shorter than the period by this fraction of it.
const FASTER: u64 = 8;
/// The grid of ticks drifts by at most half of this fraction of the period at a time.
const DRIFT: u64 = 8;

/// The ticks of one timer since it was armed.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    /// Number of ticks that each stood for a period.
    ticks: u64,
    /// Difference between the period and the timer's interval, ns.
    faster_ns: u64,
    /// Time from an even grid of ticks to the first tick, ns.
    offset_ns: u64,
}

impl Phase {
    /// Records the ticks of a sample, whose weight is one period for each, and returns its true
    /// weight, ns. Ticks that came together, because the kernel noticed them late, stand for the
    /// time that passed between them: together they may be so many that the thread ends before a
    /// pause could make up for the difference.
    pub(crate) fn weigh(&mut self, weight_ns: u64, period_ns: u64) -> u64 {
        let ticks = (weight_ns / period_ns).max(1);
        self.count(1);
        weight_ns.saturating_sub((ticks - 1) * self.faster_ns)
    }

    /// Records ticks that each stand for a period, or are weighed elsewhere.
    pub(crate) fn count(&mut self, ticks: u64) {
        self.ticks += ticks;
    }

    /// Returns whether the timer has ticked.
    pub(crate) fn has_ticked(&self) -> bool {
        self.ticks > 0
    }

    /// Returns the interval of the timer, ns.
    pub(crate) fn interval_ns(&self, period_ns: u64) -> u64 {
        period_ns - self.faster_ns
    }

    /// Chooses new expiry times for a timer that has `left_ns` until it expires. Returns the time
    /// to the first expiry and the interval, ns; `None` when a tick is on its way, or would have to
    /// come in the past.
    pub(crate) fn change(
        &mut self,
        left_ns: u64,
        period_ns: u64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<(u64, u64)> {
        let (offset_ns, faster_ns) = (random() % period_ns, random() % (period_ns / FASTER).max(1));
        // Late positions in the grid are slightly less likely, so the grid drifts in both
        // directions.
        let drift_ns = random() % (period_ns / DRIFT).max(1);
        let later_ns = self.ticks * self.faster_ns + offset_ns + drift_ns;
        let earlier_ns = self.offset_ns + period_ns / DRIFT / 2;
        let first_ns = (left_ns + later_ns).checked_sub(earlier_ns).filter(|&first_ns| first_ns > 0)?;
        if left_ns <= 1 {
            return None;
        }
        *self = Phase { ticks: 0, faster_ns, offset_ns };
        Some((first_ns, self.interval_ns(period_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 10_000;

    /// Returns the times at which a timer expires, for so many periods, if it is changed at random
    /// times. The scheduler notices an expiry at its next tick.
    fn expiries(periods: u64, is_changed: bool, tick_ns: u64) -> Vec<u64> {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let (mut phase, mut expiries) = (Phase::default(), Vec::new());
        let (mut now_ns, mut expires_ns, mut interval_ns) = (0, 3_000_u64, PERIOD_NS);
        while now_ns < periods * PERIOD_NS {
            now_ns += random() % (10 * PERIOD_NS);
            while expires_ns.next_multiple_of(tick_ns) <= now_ns {
                expiries.push(expires_ns.next_multiple_of(tick_ns));
                phase.weigh(PERIOD_NS, PERIOD_NS);
                expires_ns += interval_ns;
            }
            if is_changed && phase.has_ticked() {
                let left_ns = expires_ns.saturating_sub(now_ns);
                if let Some((first_ns, next_ns)) = phase.change(left_ns, PERIOD_NS, &mut random) {
                    (expires_ns, interval_ns) = (now_ns + first_ns, next_ns);
                }
            }
        }
        expiries
    }

    /// Returns where in the period a timer expires.
    fn places(periods: u64, is_changed: bool) -> Vec<u64> {
        expiries(periods, is_changed, 1).into_iter().map(|expiry_ns| expiry_ns % PERIOD_NS).collect()
    }

    /// Returns how many standard deviations the share of work that takes the first 30 % of each
    /// cycle is from 0.3. Some expiries between two changes hit the same point: half of them count.
    fn distance(cycle_ns: u64, tick_ns: u64, is_changed: bool) -> f64 {
        let expiries = expiries(20_000, is_changed, tick_ns);
        let hits = expiries.iter().filter(|&expiry_ns| expiry_ns % cycle_ns < cycle_ns * 3 / 10).count();
        let all = expiries.len() as f64;
        (hits as f64 - 0.3 * all).abs() / (2.0 * all * 0.3 * 0.7).sqrt()
    }

    #[test]
    fn work_that_keeps_step_has_its_true_share() {
        for cycle_ns in [PERIOD_NS / 2, PERIOD_NS, 2 * PERIOD_NS, PERIOD_NS * 8 / 9] {
            // The last is 250 Hz beside 99 Hz.
            for tick_ns in [1, PERIOD_NS * 2 / 5 - 40] {
                let distance = distance(cycle_ns, tick_ns, true);
                assert!(distance <= 4.0, "cycle {cycle_ns}, scheduler's tick {tick_ns}: {distance:.1} deviations");
            }
        }
        assert!(distance(PERIOD_NS, 1, false) > 50.0, "a timer that is left alone meets one part alone");
    }

    fn by_tenths(places: &[u64]) -> [usize; 10] {
        let mut tenths = [0; 10];
        places.iter().for_each(|place| tenths[(place / (PERIOD_NS / 10)) as usize] += 1);
        tenths
    }

    #[test]
    fn a_timer_expires_everywhere_in_the_period_and_as_often_as_it_says() {
        let places = places(20_000, true);
        assert!(places.len().abs_diff(20_000) <= 15, "{}", places.len());
        let tenths = by_tenths(&places);
        assert!(tenths.iter().all(|&tenth| (1_800..=2_200).contains(&tenth)), "{tenths:?}");
    }

    /// Regression test: ticks that came together weighed up to an eighth too much.
    #[test]
    fn ticks_that_come_together_weigh_as_much_as_their_time() {
        const TICKS: u64 = 100;
        let mut random = || 0;
        let mut phase = Phase::default();
        phase.weigh(PERIOD_NS, PERIOD_NS);
        assert!(phase.change(PERIOD_NS / 2, PERIOD_NS, &mut || PERIOD_NS / FASTER - 1).is_some());
        let interval_ns = phase.interval_ns(PERIOD_NS);
        assert_eq!(interval_ns, PERIOD_NS - PERIOD_NS / FASTER + 1, "as fast as can be");
        let weight_ns = phase.weigh(TICKS * PERIOD_NS, PERIOD_NS);
        assert_eq!(weight_ns, PERIOD_NS + (TICKS - 1) * interval_ns);
        // The pause makes up for one tick alone.
        let (first_ns, _) = phase.change(interval_ns / 2, PERIOD_NS, &mut random).expect("a tick to come");
        assert!(first_ns < 2 * PERIOD_NS, "{first_ns}");
    }

    #[test]
    fn a_timer_that_is_left_alone_expires_at_one_place() {
        assert_eq!(by_tenths(&places(1_000, false)).iter().filter(|&&tenth| tenth > 0).count(), 1);
    }
}

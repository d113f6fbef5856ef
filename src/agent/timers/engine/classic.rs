//! The interval timer of a process as an engine: how it is armed, what its ticks weigh, and when it
//! is left to the target.

use super::TimerEngine;
use crate::agent::os::{syscall, user_dispatch};
use crate::agent::sampling::unaccounted;
use crate::agent::signals::actions;
use crate::agent::timers::interval_timer;
use crate::agent::timers::phase::Phase;
use crate::wire::{Clock, Engaged, Engine, EngineState};

impl TimerEngine {
    pub(super) fn engage_classic(&mut self) -> Result<i32, EngineState> {
        let Engaged { clock, period_ns, .. } = self.engaged;
        let (_, signal) = interval_timer::classic_timer(clock);
        if interval_timer::classic_is_taken(clock) {
            return Err(EngineState::TimerTaken);
        }
        // Its signal may come to any thread that does not block it.
        if user_dispatch::is_in_use() {
            return Err(EngineState::SignalTaken);
        }
        if !actions::claim(signal) {
            return Err(EngineState::SignalTaken);
        }
        self.scan(true);
        (self.weighed_at_ns, self.classic_phase) = (self.classic_clock_ns(), Phase::default());
        interval_timer::arm_classic(clock, self.epoch, period_ns);
        self.hold(false);
        Ok(signal)
    }

    /// Returns whether the target has set the interval timer that the agent used. It is then the
    /// target's.
    pub(super) fn is_left_to_the_target(&mut self) -> bool {
        let Engaged { engine, period_ns, signal, .. } = self.engaged;
        let period_us = period_ns / 1_000;
        let apart_us = self.paused_timer.classic_interval_us().abs_diff(period_us);
        if engine != Engine::Itimer || !interval_timer::is_classic(signal as i32) || apart_us <= period_us / 8 {
            return false;
        }
        interval_timer::forget_classic();
        self.paused_timer.give_back();
        self.engaged.state = EngineState::TimerTaken;
        true
    }

    fn classic_clock_ns(&self) -> u64 {
        match self.engaged.clock {
            Clock::Real => syscall::monotonic_ns(),
            Clock::Prof | Clock::Alloc | Clock::Live => unaccounted::used_ns(),
            Clock::Virtual => syscall::user_ns(),
        }
    }

    /// Returns the weight of each of `ticks` ticks of the interval timer, ns: an equal share of the
    /// time that its clock has advanced since ticks were last weighed.
    pub(crate) fn weigh_classic(&mut self, ticks: u64) -> u64 {
        if self.engaged.engine != Engine::Itimer || ticks == 0 {
            return 0;
        }
        self.classic_phase.count(ticks);
        let now_ns = self.classic_clock_ns();
        let passed_ns = now_ns.saturating_sub(core::mem::replace(&mut self.weighed_at_ns, now_ns));
        passed_ns / ticks
    }
}

//! Wall ticks: threads that sleep are sampled where they do, and those that run are owed the time.

use crate::agent::sampling::counters;
use crate::agent::timers::engine::{TimerEngine, next_random};
use crate::agent::timers::sleepers::{SleeperSample, WallTime};
use crate::agent::unwind::modules::Snapshot;
use crate::link::wire::{Clock, Engine, EngineState, LossCause};

impl TimerEngine {
    /// Returns the time until the next wall tick is due, ns; `None` if there are no wall ticks.
    pub(crate) fn until_wall_tick(&self, now_ns: u64) -> Option<u64> {
        let e = &self.engaged;
        let ticking = e.state == EngineState::Running && e.engine == Engine::Threads && e.clock == Clock::Real;
        ticking.then(|| (self.last_wall_ns + self.wall_interval_ns).saturating_sub(now_ns))
    }

    /// Counts a wall tick for every thread, if one is due. A sleeping thread is recognized without
    /// waking it, and `repeat` takes its sample. A running thread is owed the time, and the next
    /// tick of its CPU clock carries it. No signal is sent: a thread that was just seen running may
    /// sleep by the time the signal arrives, and its wait would end early.
    pub(crate) fn wall_tick(&mut self, now_ns: u64, snapshot: &Snapshot, mut repeat: impl FnMut(SleeperSample<'_>)) {
        if self.until_wall_tick(now_ns) != Some(0) {
            return;
        }
        let elapsed_ns = now_ns - self.last_wall_ns;
        self.last_wall_ns = now_ns;
        // The interval differs each time, so that work that repeats with the period is not always
        // met at the same point.
        self.wall_interval_ns =
            self.engaged.period_ns / 2 + next_random(&mut self.random) % self.engaged.period_ns.max(1);
        let Some(sleepers) = &mut self.sleepers else { return };
        let count = self.threads.count().0 as usize;
        let (threads, few) = self.threads.iter_mut();
        for thread in threads {
            let schedule = thread.schedule(few);
            let sleeps_on = schedule.is_some() && schedule == thread.sleeping_since;
            if sleeps_on {
                sleepers.waits.read_holder(&mut thread.wait, count);
            }
            let sleeps = sleeps_on || sleepers.find(thread, schedule, snapshot, (count, few));
            thread.note_delay(schedule, sleeps);
            if sleeps {
                // A last sample that weighed more than was owed is made up for.
                let weight_ns = (elapsed_ns as i64 + thread.owed_ns.min(0)).max(0);
                thread.owed_ns = thread.owed_ns.max(0);
                counters::count_unhandled(1);
                repeat(SleeperSample { thread, weight_ns: weight_ns as u64, is_repeated: sleeps_on });
            } else if thread.is_timed() {
                thread.owed_ns += elapsed_ns as i64;
                thread.owed_ticks += 1;
            } else {
                counters::count_unhandled(1);
                counters::count_loss(LossCause::NoTimer, 1, elapsed_ns);
            }
        }
    }

    /// Returns the wall time that a tick of a thread's CPU clock stands for, ns: the time for which
    /// wall ticks found it running since the previous one.
    pub(crate) fn settle(&mut self, tid: u32) -> WallTime {
        let period_ns = self.engaged.period_ns as i64;
        let Some(thread) = self.threads.find(tid) else { return WallTime::default() };
        let weight_ns = thread.owed_ns.max(period_ns.min(thread.owed_ns + period_ns)).max(0);
        thread.owed_ns -= weight_ns;
        thread.owed_ticks = 0;
        let delayed_ns = thread.take_delay(weight_ns as u64);
        WallTime { ran_ns: weight_ns as u64 - delayed_ns, delayed_ns }
    }
}

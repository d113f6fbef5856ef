//! Wall ticks: threads that sleep are sampled where they do, and those that run are owed the time.
//!
//! While no thread of the process runs, its threads sleep on where they were found, and the ticks
//! come less often: the agent thread of an idle process hardly wakes. The first tick after such a
//! rest learns from the scheduler for how long a thread slept on, and has a sample for that.

use crate::agent::sampling::counters;
use crate::agent::timers::engine::{TimerEngine, next_random};
use crate::agent::timers::sleepers::{SleeperSample, WallTime};
use crate::agent::timers::thread::Thread;
use crate::agent::unwind::modules::Snapshot;
use crate::link::wire::{Clock, Engine, EngineState, LossCause, Schedule};

/// The average time between two ticks of a process that rests, ns, at most.
const LONGEST_REST_NS: u64 = 40_000_000;

/// Returns the average time between two wall ticks, ns, after so many of them in a row before which
/// no thread had run.
fn average_interval_ns(period_ns: u64, rests: u32) -> u64 {
    (period_ns << rests.min(8)).min(LONGEST_REST_NS).max(period_ns)
}

/// The time since the last wall tick.
struct WallInterval {
    /// Its length, ns.
    ns: u64,
    /// The period of sampling, ns.
    period_ns: u64,
    /// Whether the process rested: no thread had run before the last tick.
    is_rest: bool,
    /// Whether the process exits.
    last: bool,
}

impl WallInterval {
    /// Returns for how long a thread slept on that has ended since, ns. Nobody knows when: on
    /// average, it was in the middle of the interval. When the process exits, its threads have just
    /// ended.
    fn until_end_ns(&self) -> u64 {
        if self.last { self.ns } else { self.ns / 2 }
    }

    /// Returns how much of it counts for a thread of which nothing was known at its start, ns.
    /// After a rest, the thread has come since, on average in the middle.
    fn of_new_thread_ns(&self) -> u64 {
        if self.is_rest { self.ns / 2 } else { self.ns }
    }

    /// Divides the interval of a thread that has run since. Returns for how long it slept on
    /// before, if that is known, and the rest, ns. Short intervals are not divided. `schedule` are
    /// the thread's present figures, and `few` tells whether its files may stay open.
    fn divide(&self, thread: &mut Thread, schedule: Option<Schedule>, few: bool) -> (Option<u64>, u64) {
        if !self.is_rest && self.ns <= 2 * self.period_ns {
            return (None, self.ns);
        }
        let is_awake = self.last || thread.location(few).is_none();
        match thread.slept_on(self.ns, schedule, is_awake) {
            Some(slept_ns) => (Some(slept_ns), self.ns - slept_ns),
            None => (None, self.of_new_thread_ns()),
        }
    }
}

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
    /// sleep by the time the signal arrives, and its wait would end early. A thread that has ended
    /// since it was found asleep has a last sample.
    ///
    /// When the process exits, a rest ends with the `last` tick, which takes no thread for asleep
    /// that waits for the agent.
    pub(crate) fn wall_tick(
        &mut self,
        now_ns: u64,
        last: bool,
        snapshot: &Snapshot,
        mut repeat: impl FnMut(SleeperSample<'_>),
    ) {
        let last = last && self.rests > 0;
        match self.until_wall_tick(now_ns) {
            Some(0) => {}
            Some(_) if last => {}
            _ => return,
        }
        let period_ns = self.engaged.period_ns;
        let interval = WallInterval { ns: now_ns - self.last_wall_ns, period_ns, is_rest: self.rests > 0, last };
        self.last_wall_ns = now_ns;
        let mut rests = true;
        let Some(sleepers) = &mut self.sleepers else { return };
        let count = self.threads.count().0 as usize;
        let mut sample = |thread: &mut Thread, weight_ns, is_repeated| {
            counters::count_unhandled(1);
            repeat(SleeperSample { thread, weight_ns, is_repeated });
        };
        self.threads.sample_ended(|thread| sample(thread, interval.until_end_ns(), true));
        let (mut known, (threads, few)) = (0, self.threads.iter_mut());
        for thread in threads {
            let schedule = thread.schedule(few);
            if schedule.is_none() && thread.has_ended() {
                if core::mem::take(&mut thread.alive) {
                    match thread.sleeping_since.take() {
                        Some(_) => sample(thread, interval.until_end_ns(), true),
                        None => thread.owe(interval.until_end_ns()),
                    }
                }
                rests = false;
                // Another may have taken its place, and the number of threads may be the same.
                self.threads_then = 0;
                continue;
            }
            known += 1;
            let sleeps_on = schedule.is_some() && schedule == thread.sleeping_since;
            rests &= sleeps_on;
            let mut elapsed_ns = interval.ns;
            if sleeps_on {
                sleepers.waits.read_holder(&mut thread.wait, count);
            } else {
                let slept_ns;
                (slept_ns, elapsed_ns) = interval.divide(thread, schedule, few);
                if let Some(slept_ns) = slept_ns {
                    sample(thread, slept_ns, true);
                }
                if last {
                    continue;
                }
            }
            let is_known = sleeps_on && !thread.last.is_outdated(snapshot.generation());
            let sleeps = is_known || sleepers.find(thread, schedule, snapshot, (count, few));
            thread.note_delay(schedule, sleeps);
            if sleeps {
                // A last sample that weighed more than was owed is made up for.
                let weight_ns = (elapsed_ns as i64 + thread.owed_ns.min(0)).max(0);
                thread.owed_ns = thread.owed_ns.max(0);
                sample(thread, weight_ns as u64, sleeps_on);
                continue;
            }
            thread.sleeping_since = None;
            thread.owe(elapsed_ns);
        }
        // The agent's own thread is alive, too.
        let unknown = self.threads.alive().saturating_sub(known + 1);
        if unknown > 0 {
            rests = false;
            counters::count_unhandled(unknown);
            counters::count_loss(LossCause::NotReady, unknown, unknown * interval.of_new_thread_ns());
        }
        self.rests = if rests { self.rests.saturating_add(1) } else { 0 };
        // The interval differs each time, so that work that repeats with the period is not always
        // met at the same point.
        let average_ns = average_interval_ns(period_ns, self.rests);
        self.wall_interval_ns = average_ns / 2 + next_random(&mut self.random) % average_ns.max(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_thread_slept_for_half_of_the_interval_or_until_the_exit() {
        let interval = |last| WallInterval { ns: 40_000, period_ns: 10_000, is_rest: true, last };
        assert_eq!([false, true].map(|last| interval(last).until_end_ns()), [20_000, 40_000]);
    }

    #[test]
    fn a_long_interval_is_divided_where_a_thread_woke() {
        let figures = |ran_ns| Some(Schedule { ran_ns, delayed_ns: 0, slices: 7 });
        let interval = |ns, is_rest| WallInterval { ns, period_ns: 10_000, is_rest, last: true };
        let mut thread = Thread::new(1);
        assert_eq!(interval(40_000, true).divide(&mut thread, figures(9_000), true), (None, 20_000), "it has come");
        assert_eq!(interval(40_000, false).divide(&mut thread, figures(9_000), true), (None, 40_000), "it ran before");
        thread.sleeping_since = figures(1_000);
        assert_eq!(interval(40_000, true).divide(&mut thread, figures(9_000), true), (Some(32_000), 8_000));
        assert_eq!(interval(15_000, false).divide(&mut thread, figures(9_000), true), (None, 15_000), "it is short");
    }

    #[test]
    fn a_rest_makes_ticks_rarer_up_to_a_limit() {
        let average_ms = |period_ms: u64, rests| average_interval_ns(period_ms * 1_000_000, rests) / 1_000_000;
        assert_eq!([0, 1, 2, 3, 9, u32::MAX].map(|rests| average_ms(10, rests)), [10, 20, 40, 40, 40, 40]);
        assert_eq!([0, 6, 7].map(|rests| average_ms(1, rests)), [1, 40, 40]);
        assert_eq!([0, 5].map(|rests| average_ms(100, rests)), [100, 100]);
    }
}

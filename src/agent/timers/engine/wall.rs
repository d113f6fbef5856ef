//! Wall ticks: threads that sleep are sampled where they do, and those that run are owed the time.
//!
//! While no thread of the process runs, its threads sleep on where they were found, and the ticks
//! come less often: the agent thread of an idle process hardly wakes. The first tick after such a
//! rest learns from the scheduler for how long a thread slept on, and has a sample for that.
//! In a [`crowd`], each thread rests by itself.

use crate::agent::sampling::counters;
use crate::agent::timers::engine::crowd::{self, LookBudget};
use crate::agent::timers::engine::{COUNT_EVERY_NS, TimerEngine, next_random};
use crate::agent::timers::sleepers::{SleeperSample, WallTime};
use crate::agent::timers::thread::Thread;
use crate::agent::unwind::modules::Snapshot;
use crate::wire::{Clock, Engine, EngineState, LossCause, Schedule};

/// The average time between two ticks of a process that rests, ns, at most.
const LONGEST_REST_NS: u64 = 40_000_000;

/// Returns the average time between two wall ticks, ns, after so many of them in a row before which
/// no thread had run.
fn average_interval_ns(period_ns: u64, rests: u32) -> u64 {
    (period_ns << rests.min(8)).min(LONGEST_REST_NS).max(period_ns)
}

/// The time since a thread was last looked at.
struct WallInterval {
    /// Its length, ns.
    ns: u64,
    /// The period of sampling, ns.
    period_ns: u64,
    /// Whether the thread rested: it had not run before the last look, nor, outside of a crowd, had
    /// any other.
    is_rest: bool,
    /// Whether no tick follows: the process exits, or another clock is to tick.
    last: bool,
}

impl WallInterval {
    /// Returns for how long a thread slept on that has ended since, ns. Nobody knows when: on
    /// average, it was in the middle of the interval, or of the time since threads were counted.
    /// When the process exits, its threads have just ended.
    fn until_end_ns(&self) -> u64 {
        if self.last { self.ns } else { self.ns - self.ns.min(COUNT_EVERY_NS) / 2 }
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
    /// When the process exits, or another clock follows, a rest ends with the `last` tick, which
    /// takes no thread for asleep that waits for the agent.
    pub(crate) fn wall_tick(
        &mut self,
        now_ns: u64,
        last: bool,
        snapshot: &Snapshot,
        repeat: &mut dyn FnMut(SleeperSample<'_>),
    ) {
        let few = self.threads.are_few();
        let last = last && (self.rests > 0 || !few);
        match self.until_wall_tick(now_ns) {
            Some(0) => {}
            Some(_) if last => {}
            _ => return,
        }
        let period_ns = self.engaged.period_ns;
        let since_ns = core::mem::replace(&mut self.last_wall_ns, now_ns);
        let late_ns = (now_ns - since_ns).saturating_sub(self.wall_interval_ns);
        let stopped_ns = self.own_schedule.stopped_ns(late_ns, few);
        let has_rested = self.rests > 0;
        let interval_of = |thread: &Thread| WallInterval {
            ns: now_ns.saturating_sub(thread.counted_to_ns),
            period_ns,
            is_rest: has_rested || !few && thread.rests > 0,
            last,
        };
        let mut rests = true;
        let Some(sleepers) = &mut self.sleepers else { return };
        let count = self.threads.len();
        let mut send = |sample: SleeperSample<'_>| {
            counters::count_unhandled(1);
            repeat(sample);
        };
        self.threads.sample_ended(|thread| send(SleeperSample::again(thread, interval_of(thread).until_end_ns())));
        let mut budget = LookBudget::after(now_ns - since_ns);
        let (mut known, mut counted_ns) = (0, 0_u64);
        for thread in self.threads.iter_mut_from(self.next_look_at) {
            if thread.counted_to_ns == 0 {
                thread.counted_to_ns = since_ns;
            }
            if let Some(weight_ns) = thread.note_stop(stopped_ns) {
                send(SleeperSample { thread, weight_ns, is_repeated: true, is_stopped: true });
            }
            let interval = interval_of(thread);
            if last && !few {
                match thread.slept_by_clock_ns(interval.ns) {
                    Some(slept_ns) => send(SleeperSample::again(thread, slept_ns)),
                    None => lose(1, interval.ns),
                }
                if thread.owed_ns > 0 {
                    // No tick of its clock has carried it.
                    lose(1, core::mem::take(&mut thread.owed_ns) as u64);
                }
                thread.counted_to_ns = now_ns;
                continue;
            }
            let is_due = few || thread.next_look_ns <= now_ns;
            let has_turn = is_due && budget.is_left(thread);
            let unchanged = if has_turn { thread.unchanged_schedule() } else { None };
            if !has_turn || !few && unchanged.is_none() && !budget.allows(thread) {
                known += 1;
                rests &= !is_due;
                counted_ns = counted_ns.wrapping_add(thread.counted_to_ns);
                continue;
            }
            thread.counted_to_ns = now_ns;
            let schedule = unchanged.or_else(|| thread.schedule(few));
            if schedule.is_none() && thread.has_ended() {
                if core::mem::take(&mut thread.alive) {
                    match thread.sleeping_since.take() {
                        Some(_) => send(SleeperSample::again(thread, interval.until_end_ns())),
                        None => thread.owe(interval.until_end_ns()),
                    }
                }
                rests = false;
                // Another may have taken its place, and the number of threads may be the same.
                self.threads_then = 0;
                continue;
            }
            known += 1;
            counted_ns = counted_ns.wrapping_add(now_ns);
            let sleeps_on = schedule.is_some() && schedule == thread.sleeping_since;
            rests &= sleeps_on;
            let mut elapsed_ns = interval.ns;
            if sleeps_on {
                sleepers.waits.read_holder(&mut thread.wait, |_| count);
            } else {
                let slept_ns;
                (slept_ns, elapsed_ns) = interval.divide(thread, schedule, few);
                if let Some(slept_ns) = slept_ns {
                    send(SleeperSample::again(thread, slept_ns));
                }
                if last {
                    continue;
                }
            }
            let is_known = sleeps_on && !thread.last.is_outdated(snapshot.generation());
            let sleeps = is_known || sleepers.find(thread, schedule, snapshot, (count, few));
            thread.note_delay(schedule, sleeps);
            thread.rests = if sleeps_on { thread.rests.saturating_add(1) } else { 0 };
            thread.next_look_ns = 0;
            if sleeps {
                if !few {
                    let average_ns = crowd::rest_ns(period_ns, thread.rests, count);
                    thread.next_look_ns = now_ns + average_ns / 2 + next_random(&mut self.random) % average_ns.max(1);
                }
                // A last sample that weighed more than was owed is made up for.
                let weight_ns = (elapsed_ns as i64 + thread.owed_ns.min(0)).max(0);
                thread.owed_ns = thread.owed_ns.max(0);
                send(SleeperSample { is_repeated: sleeps_on, ..SleeperSample::again(thread, weight_ns as u64) });
                continue;
            }
            thread.sleeping_since = None;
            thread.owe(elapsed_ns);
        }
        self.next_look_at = budget.next().unwrap_or(self.next_look_at);
        if last && !few {
            return;
        }
        // The agent's own thread is alive, too.
        let unknown = self.threads.alive().saturating_sub(known + 1);
        if unknown > 0 {
            rests = false;
            let interval_ns = now_ns - since_ns;
            let each_ns = if has_rested { interval_ns / 2 } else { interval_ns };
            lose(unknown, unknown * each_ns);
        }
        crowd::publish_counted(if few { 0 } else { known }, counted_ns);
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
        let stopped_ns = core::mem::take(&mut thread.stopped_ns);
        WallTime { ran_ns: weight_ns as u64 - delayed_ns, delayed_ns, stopped_ns }
    }
}

/// Counts wall-clock time of threads that were not looked at as lost, ns.
fn lose(threads: u64, ns: u64) {
    counters::count_unhandled(threads);
    counters::count_loss(LossCause::NotReady, threads, ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_thread_slept_for_half_of_the_interval_or_until_the_exit() {
        let interval = |last| WallInterval { ns: 40_000, period_ns: 10_000, is_rest: true, last };
        assert_eq!([false, true].map(|last| interval(last).until_end_ns()), [20_000, 40_000]);
        let long = WallInterval { ns: 1_000_000_000, ..interval(false) };
        assert_eq!(long.until_end_ns(), 950_000_000, "threads are counted more often");
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

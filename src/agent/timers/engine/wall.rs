//! Wall ticks: threads that sleep are sampled where they do, and those that run are owed the time.
//!
//! Each thread rests by itself: while it has not run, it sleeps on where it was found, and is
//! looked at less and less often. Its next sample stands for all the time since. The first look
//! after it has run learns from the scheduler for how long it slept on, and has a sample for that.
//! So one that runs makes none of thousands that sleep be looked at, and an idle process is hardly
//! woken.

use crate::agent::os::syscall;
use crate::agent::sampling::counters;
use crate::agent::state;
use crate::agent::timers::engine::{TimerEngine, lose_unfound, next_random};
use crate::agent::timers::look_queue::{LookKind, longest_interval_ns, rest_ns};
use crate::agent::timers::sleepers::{SleeperFinder, SleeperSample, WallTime};
use crate::agent::timers::thread::Thread;
use crate::agent::unwind::modules::Snapshot;
use crate::link::wire::ring::word;
use crate::link::wire::{Clock, Engine, EngineState};
use core::sync::atomic::Ordering;

/// Number of looks in a crowd between two readings of the CPU time that they have taken.
const LOOKS: u32 = 8;

/// One look at a thread.
struct WallLook<'a> {
    /// The present time, ns.
    now_ns: u64,
    /// The period of sampling, ns.
    period_ns: u64,
    /// Whether the process exits: no thread is taken for asleep that waits for the agent.
    last: bool,
    /// Number of threads, and whether they are few enough to keep their files open.
    threads: (usize, bool),
    /// Sum of the times by which the threads were looked at later than before, ns.
    gained_ns: u64,
    snapshot: &'a Snapshot,
    sleepers: &'a mut SleeperFinder,
}

/// The state in which a look has found a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WallState {
    Sleeps,
    Runs,
    Ended,
}

impl WallLook<'_> {
    /// Looks at a thread. `sample` takes the samples of what it slept: first where it was found
    /// before, then where it is found now. One that runs is owed the time.
    fn look(&mut self, thread: &mut Thread, sample: &mut impl FnMut(&mut Thread, u64, bool)) -> WallState {
        let (count, few) = self.threads;
        let interval_ns = self.now_ns.saturating_sub(thread.looked_at_ns);
        let cpu_ns = thread.cpu_ns(few);
        if cpu_ns.is_none() && thread.has_ended() {
            return WallState::Ended;
        }
        thread.looked_at_ns += interval_ns;
        self.gained_ns = self.gained_ns.wrapping_add(interval_ns);
        let sleeps_on = cpu_ns.is_some() && cpu_ns == thread.sleeping_since;
        if sleeps_on {
            self.sleepers.waits.read_holder(&mut thread.wait, count);
            if self.last || !thread.last.is_outdated(self.snapshot.generation()) {
                let weight_ns = thread.take_sleep(interval_ns);
                sample(thread, weight_ns, true);
                thread.rests = thread.rests.saturating_add(1);
                return WallState::Sleeps;
            }
        }
        // In a crowd, one look is not followed by many.
        thread.rests = if few { 0 } else { thread.rests / 2 };
        let location = if self.last { None } else { thread.location(few) };
        let is_awake = location.is_none();
        // To open a file takes most of a look.
        let schedule = if few || is_awake && !self.last { thread.schedule(few) } else { None };
        let delayed_ns = thread.note_delay(schedule);
        let slept_ns = if sleeps_on || interval_ns <= 2 * self.period_ns {
            // Short intervals are not divided.
            None
        } else {
            thread.slept_on(interval_ns, cpu_ns, delayed_ns, is_awake)
        };
        if let Some(slept_ns) = slept_ns {
            sample(thread, slept_ns, true);
        }
        if self.last {
            if slept_ns.is_none() && interval_ns > 2 * self.period_ns {
                // Nothing is known of it but what its ticks have shown.
                let lost_ns = thread.take_sleep(interval_ns);
                lose_unfound(lost_ns, lost_ns / self.period_ns.max(1));
            }
            return WallState::Runs;
        }
        let elapsed_ns = interval_ns - slept_ns.unwrap_or(0);
        if self.sleepers.read(thread, (cpu_ns, location), self.snapshot, count) {
            thread.forget_delay();
            let weight_ns = thread.take_sleep(elapsed_ns);
            sample(thread, weight_ns, sleeps_on);
            return WallState::Sleeps;
        }
        thread.sleeping_since = None;
        thread.owe(elapsed_ns);
        WallState::Runs
    }
}

impl TimerEngine {
    /// Returns the time until the next wall tick is due, ns; `None` if there are no wall ticks.
    pub(crate) fn until_wall_tick(&self, now_ns: u64) -> Option<u64> {
        let e = &self.engaged;
        let ticking = e.state == EngineState::Running && e.engine == Engine::Threads && e.clock == Clock::Real;
        ticking.then(|| self.next_wall_ns.saturating_sub(now_ns))
    }

    /// Looks at all threads that are known from now on.
    pub(super) fn begin_wall(&mut self) {
        let now_ns = syscall::monotonic_ns();
        self.sleepers = Some(SleeperFinder::new());
        (self.last_wall_ns, self.next_wall_ns) = (now_ns, now_ns + self.engaged.period_ns);
        self.own_schedule.stopped_ns(0);
        (self.unfound_ns, self.look_budget) = (0, Default::default());
        for thread in self.threads.iter_mut() {
            (thread.looked_at_ns, thread.next_look_ns, thread.rests) = (now_ns, now_ns, 0);
            self.looks.push(LookKind::New, (now_ns, thread.tid));
        }
        self.add_up_looks();
    }

    /// Adds up to when the threads were looked at.
    fn add_up_looks(&mut self) {
        self.wall_seen_ns = self.threads.iter_mut().fold(0, |sum, thread| sum.wrapping_add(thread.looked_at_ns));
        self.publish_looks(self.threads.len());
    }

    /// Publishes up to when so many threads were looked at: for the process, which waits for last
    /// looks when it exits, and for the viewer, if it is killed.
    pub(crate) fn publish_looks(&self, threads: usize) {
        state::LAST_LOOKS.store(threads as u32, Ordering::Relaxed);
        counters::counter(word::WALL_THREADS).store(threads as u64, Ordering::Relaxed);
        counters::counter(word::WALL_SEEN_NS).store(self.wall_seen_ns, Ordering::Relaxed);
    }

    /// Looks at threads from now on that were found. They have the time of those that were there
    /// and not found yet; what is more is that of others, which have ended, and is lost.
    pub(super) fn admit_to_wall(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.count_before_ns);
        self.threads.note_ends(now_ns - passed_ns / 2);
        if self.sleepers.is_none() {
            return self.lose_wall_before(0);
        }
        let unfound_ns = core::mem::take(&mut self.unfound_ns);
        let count = self.threads.new_ones_count();
        let each_ns = unfound_ns.checked_div(count).unwrap_or(0).min(passed_ns);
        for thread in self.threads.new_ones() {
            (thread.looked_at_ns, thread.next_look_ns) = (now_ns - each_ns, now_ns);
            self.looks.push(LookKind::New, (now_ns, thread.tid));
        }
        match unfound_ns - each_ns * count {
            lost_ns if lost_ns < self.engaged.period_ns => self.unfound_ns = lost_ns,
            lost_ns => lose_unfound(lost_ns, lost_ns / self.engaged.period_ns.max(1)),
        }
        self.add_up_looks();
    }

    /// Makes a wall tick, if one is due: looks at the threads whose turn it is. A sleeping thread
    /// is recognized without waking it, and `repeat` takes its sample. A running thread is owed the
    /// time, and the next tick of its CPU clock carries it. No signal is sent: a thread that was
    /// just seen running may sleep by the time the signal arrives, and its wait would end early. A
    /// thread that has ended since it was found asleep has a last sample.
    ///
    /// When the process exits, the `last` tick looks at all threads.
    pub(crate) fn wall_tick(
        &mut self,
        now_ns: u64,
        last: bool,
        snapshot: &Snapshot,
        mut repeat: impl FnMut(SleeperSample<'_>),
    ) {
        match self.until_wall_tick(now_ns) {
            Some(0) => {}
            Some(_) if last => {}
            _ => return,
        }
        let Some(mut sleepers) = self.sleepers.take() else { return };
        let period_ns = self.engaged.period_ns;
        let passed_ns = now_ns.saturating_sub(core::mem::replace(&mut self.last_wall_ns, now_ns));
        // The agent's own thread is alive, too.
        let unfound = self.threads.alive().saturating_sub(self.threads.len() as u64 + 1);
        self.unfound_ns = self.unfound_ns.saturating_add(unfound * passed_ns);
        let mut sample = |thread: &mut Thread, weight_ns, is_repeated| {
            if weight_ns > 0 {
                counters::count_unhandled(1);
                repeat(SleeperSample { thread, weight_ns, is_repeated });
            }
        };
        let stopped_ns = self.own_schedule.stopped_ns(now_ns.saturating_sub(self.next_wall_ns));
        if stopped_ns > 0 {
            let stopped = self.threads.iter_mut().map(|thread| note_stop(thread, now_ns, stopped_ns, &mut sample));
            self.wall_seen_ns = stopped.fold(self.wall_seen_ns, u64::wrapping_add);
        }
        self.threads.sample_ended(|thread| sample(thread, thread.last_ns(), true));
        let threads = (self.threads.len(), self.threads.are_few());
        let mut look = WallLook { now_ns, period_ns, last, threads, gained_ns: 0, snapshot, sleepers: &mut sleepers };
        if last {
            for thread in self.threads.iter_mut() {
                look.look(thread, &mut sample);
            }
        } else {
            self.look_in_turn(passed_ns, &mut look, sample);
        }
        self.wall_seen_ns = self.wall_seen_ns.wrapping_add(look.gained_ns);
        self.sleepers = Some(sleepers);
        if !last {
            // The samples of last looks may not be sent in time.
            self.publish_looks(threads.0);
        }
    }

    /// Looks at the threads whose turn it is, and sets the time of the next tick. It differs each
    /// time, so that work that repeats with the period is not always met at the same point.
    fn look_in_turn(
        &mut self,
        passed_ns: u64,
        look: &mut WallLook<'_>,
        mut sample: impl FnMut(&mut Thread, u64, bool),
    ) {
        let (now_ns, period_ns, (count, few)) = (look.now_ns, look.period_ns, look.threads);
        let random = next_random(&mut self.random);
        let spent_ns = || syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        self.look_budget.collect(passed_ns);
        for kind in LookKind::ALL {
            let (begun_ns, mut used_ns, mut looks) = (spent_ns(), 0, 0u32);
            while few || self.look_budget.left_ns(kind) > used_ns as i64 {
                let Some((due_ns, tid)) = self.looks.pop(kind, now_ns) else { break };
                let Some(thread) = self.threads.find(tid).filter(|thread| thread.next_look_ns == due_ns) else {
                    continue;
                };
                let state = look.look(thread, &mut sample);
                if state == WallState::Ended {
                    // Another may have taken its place, and the number of threads may be the same.
                    self.threads_then = 0;
                    if core::mem::take(&mut thread.alive) {
                        thread.ended_ns = now_ns - (now_ns - self.last_count_ns.min(now_ns)) / 2;
                        match thread.sleeping_since.take() {
                            Some(_) => sample(thread, thread.last_ns(), true),
                            None => thread.owe(thread.last_ns()),
                        }
                    }
                    continue;
                }
                let average_ns = rest_ns(period_ns, thread.rests, count);
                // Threads that rest alike have their turn together.
                thread.next_look_ns = now_ns + average_ns / 2 + random % average_ns.max(1);
                let next_kind = if state == WallState::Sleeps { LookKind::Resting } else { LookKind::Active };
                self.looks.push(next_kind, (thread.next_look_ns, tid));
                looks += 1;
                if looks.is_multiple_of(LOOKS) && !few {
                    used_ns = spent_ns() - begun_ns;
                }
            }
            if !few {
                self.look_budget.spend(kind, spent_ns() - begun_ns);
            }
        }
        let longest_ns = longest_interval_ns(period_ns);
        let next_ns = self.looks.next_ns().unwrap_or(u64::MAX);
        self.next_wall_ns = next_ns.clamp(now_ns + period_ns / 2, now_ns + longest_ns / 2 + random % longest_ns);
    }

    /// Returns the wall time that a tick of a thread's CPU clock stands for, ns: the time for which
    /// looks found it running since the previous one.
    pub(crate) fn settle(&mut self, tid: u32, now_ns: u64) -> WallTime {
        let period_ns = self.engaged.period_ns;
        let Some(thread) = self.threads.find(tid) else { return WallTime::default() };
        let weight_ns = thread.take_run(now_ns, period_ns);
        let delayed_ns = thread.take_delay(weight_ns);
        let stopped_ns = core::mem::take(&mut thread.stopped_ns);
        WallTime { ran_ns: weight_ns - delayed_ns, delayed_ns, stopped_ns }
    }
}

/// Samples a thread of a process that was stopped, where it slept. Where it runs, the next tick of
/// its CPU clock carries the time. Returns how much of it no look had counted, ns.
fn note_stop(
    thread: &mut Thread,
    now_ns: u64,
    stopped_ns: u64,
    sample: &mut impl FnMut(&mut Thread, u64, bool),
) -> u64 {
    let stopped_ns = stopped_ns.min(now_ns.saturating_sub(thread.looked_at_ns));
    thread.looked_at_ns += stopped_ns;
    if thread.sleeping_since.is_none() {
        thread.stopped_ns += stopped_ns;
        return stopped_ns;
    }
    let wait = thread.wait.stop(thread.tid);
    sample(thread, stopped_ns, true);
    thread.wait.set(wait);
    stopped_ns
}

//! The engine in force: which timers are armed for which clock, and what has to be looked after while they run.

use core::sync::atomic::Ordering;

use super::asleep::{Looker, Place};
use super::guard;
use super::handler;
use super::modules::Snapshot;
use super::order;
use super::signals;
use super::sigstack_pool;
use super::start;
use super::state::{self, Config};
use super::sys;
use super::threads::{Schedule, Thread, Threads};
use super::timer::{self, Held, Timer};
use super::unseen;
use super::user_dispatch;
use super::young;
use crate::link::wire::{Clock, Engaged, Engine, EngineState, Loss, MAX_FRAMES, flag};

/// How often threads are counted in wall mode, where no tick tells of a new one, ns.
const COUNT_EVERY_NS: u64 = 100_000_000;
/// Looks, a tenth of a second apart, until no tick of a disarmed interval timer can be on its way to a handler.
const LATE_LOOKS: u32 = 5;
/// CPU time of the process after which new threads are looked for, ns.
const SEARCH_NS: u64 = 20_000_000;
/// The same when one came or went just now, at least: timers of CPU clocks are looked at by the
/// scheduler's tick.
const TICK_NS: u64 = 4_000_000;
/// So long after one thread came or went, others may that live shorter than it takes to find them, ns.
const UNSETTLED_NS: u64 = 500_000_000;

/// The engine, and the threads it ticks on.
pub(super) struct Ticker {
    /// What is in force.
    pub(super) engaged: Engaged,
    /// The process's threads.
    pub(super) threads: Threads,
    agent: u32,
    /// While the wall clock ticks per thread.
    looker: Option<Looker>,
    epoch: u32,
    random: u64,
    late_looks: u32,
    /// What the agent thread has stopped while it works.
    held: Held,
    /// Wakes the agent thread when the process has used CPU time.
    waker: Option<Timer>,
    /// The interval timer was found disarmed for an exec.
    exec_seen: bool,
    /// Since when the program is to be sampled, by CLOCK_MONOTONIC, until something is in force; 0
    /// where nobody asked for it then.
    watched_since_ns: u64,
    /// What the interval timer's clock showed when its ticks were last weighed, ns.
    weighed_at_ns: u64,
    last_wall_ns: u64,
    /// From the last wall tick to the next, ns: half a period to one and a half.
    wall_interval_ns: u64,
    last_count_ns: u64,
    threads_then: u64,
    /// When a thread was found to have come or gone, ns.
    changed_at_ns: u64,
}

/// A wall tick of a thread that sleeps.
pub(super) struct Repeat<'a> {
    /// The thread, with its last stack.
    pub(super) thread: &'a Thread,
    /// What the tick stands for, ns.
    pub(super) weight_ns: u64,
}

impl Ticker {
    /// Nothing armed.
    pub(super) fn new(agent: u32, epoch: u32) -> Ticker {
        young::prepare();
        Ticker {
            engaged: Engaged {
                clock: Clock::Prof,
                engine: Engine::Threads,
                state: EngineState::Off,
                period_ns: 0,
                signal: 0,
            },
            threads: Threads::default(),
            agent,
            looker: None,
            epoch,
            random: sys::monotonic_ns() | 1,
            late_looks: 0,
            held: Held::default(),
            waker: Timer::of_agent(agent),
            exec_seen: false,
            watched_since_ns: start::take_watched_since(),
            weighed_at_ns: 0,
            last_wall_ns: 0,
            wall_interval_ns: 0,
            last_count_ns: 0,
            threads_then: 0,
            changed_at_ns: 0,
        }
    }

    /// Of the configuration in force, for the next life of the agent.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Disarms everything and arms what is asked for.
    pub(super) fn engage(&mut self, clock: Clock, engine: Engine, period_ns: u64) {
        if self.is_begun_with(clock, engine, period_ns) {
            timer::delete_birth_timers();
            let (signal, _) = signals::in_force();
            (self.engaged.state, self.engaged.signal) = (EngineState::Running, signal as u32);
            return;
        }
        self.epoch = self.epoch.wrapping_add(1);
        let config = Config { clock, period_ns };
        state::configure(self.epoch, config);
        timer::delete_birth_timers();
        self.disarm();
        self.engaged = Engaged { clock, engine, period_ns, state: EngineState::Off, signal: 0 };
        let result = match engine {
            Engine::Threads => self.engage_threads(),
            Engine::Itimer => self.engage_classic(),
        };
        match result {
            Ok(signal) => (self.engaged.state, self.engaged.signal) = (EngineState::Running, signal as u32),
            Err(refusal) => self.engaged.state = refusal,
        }
        signals::note_in_force(self.engaged.signal as i32, self.epoch);
    }

    /// Whether the timers that [`begin`](Self::begin) armed are what is asked for: to arm them anew
    /// would lose what each has counted since its last tick.
    fn is_begun_with(&self, clock: Clock, engine: Engine, period_ns: u64) -> bool {
        let wanted = (clock, engine, period_ns) == (Clock::Prof, Engine::Threads, self.engaged.period_ns);
        let is_off = self.engaged.state == EngineState::Off && self.engaged.clock == Clock::Prof;
        wanted && is_off && signals::in_force() == (signals::tick(), self.epoch) && order::signal() == 0
    }

    /// Disarms everything; samples are taken by hand alone, each of which stands for a period.
    pub(super) fn by_hand(&mut self, clock: Clock, period_ns: u64) {
        self.disengage();
        self.epoch = self.epoch.wrapping_add(1);
        state::configure(self.epoch, Config { clock, period_ns });
        self.engaged = Engaged { clock, engine: Engine::Threads, period_ns, state: EngineState::Off, signal: 0 };
    }

    /// First of all in the agent thread's life, if CPU time is asked for: what it uses itself until it is asked again for something makes
    /// no ticks any more, what the threads use that there are does.
    pub(super) fn begin(&mut self) {
        self.hold(false);
        let config = state::config(self.epoch);
        if config.clock == Clock::Prof && config.period_ns > 0 {
            self.engaged.period_ns = config.period_ns;
            self.scan(false);
            let signal = signals::tick();
            self.arm_cpu(signal, false);
            signals::note_in_force(signal, self.epoch);
        }
    }

    /// Before the agent thread sleeps: it is woken when the process has used so much CPU time that
    /// a thread may have come, and soon after one came or went.
    ///
    /// Ticks of the process's clock are never sent to the process: where the thread that uses the
    /// time blocks the signal, as libc does while it makes or ends a thread, or is the agent's, the
    /// kernel wakes one that sleeps to take the tick.
    pub(super) fn release(&mut self) {
        if let Some(waker) = self.waker
            && self.engaged.engine == Engine::Threads
        {
            let is_settled = sys::monotonic_ns() - self.changed_at_ns >= UNSETTLED_NS;
            let after_ns = if is_settled { SEARCH_NS } else { self.engaged.period_ns.clamp(TICK_NS, SEARCH_NS) };
            // Not at equal intervals, which could be those of the target's work.
            waker.arm(after_ns / 2 + next_random(&mut self.random) % after_ns, 0);
        }
        self.held.release();
    }

    /// Whether a thread came or went since the last scan, one number for another aside.
    pub(super) fn has_other_threads(&mut self) -> bool {
        self.threads.alive() != self.threads_then
    }

    /// When it has slept.
    pub(super) fn hold(&mut self, ticks_flow: bool) {
        // Where the only thread runs, nobody sleeps.
        self.held.hold(ticks_flow && self.threads.count().0 <= 1);
    }

    fn engage_threads(&mut self) -> Result<i32, EngineState> {
        let clock = self.engaged.clock;
        if clock == Clock::Virtual {
            return Err(EngineState::Unsupported);
        }
        let asked = order::signal();
        let signal = if asked != 0 && guard::take(asked) { asked } else { signals::tick() };
        guard::take(signal);
        self.scan(true);
        // Those that were there are no sign of others to come.
        self.changed_at_ns = 0;
        // Threads that were there before somebody asked for their time are not missed.
        let since_ns = core::mem::take(&mut self.watched_since_ns);
        self.lose_wall_before(since_ns);
        if clock == Clock::Real {
            self.looker = Some(Looker::new());
            self.last_wall_ns = sys::monotonic_ns();
            self.wall_interval_ns = self.engaged.period_ns;
        }
        self.arm_cpu(signal, false);
        let (count, timed) = self.threads.count();
        if timed == 0 && count > 0 && clock == Clock::Real { Err(EngineState::TimerRefused) } else { Ok(signal) }
    }

    fn engage_classic(&mut self) -> Result<i32, EngineState> {
        let Engaged { clock, period_ns, .. } = self.engaged;
        let (_, signal) = timer::classic_timer(clock);
        if timer::classic_is_taken(clock) {
            return Err(EngineState::TimerTaken);
        }
        // Its signal may come to any thread that does not block it.
        if user_dispatch::is_in_use() {
            return Err(EngineState::SignalTaken);
        }
        if !guard::take(signal) {
            return Err(EngineState::SignalTaken);
        }
        self.scan(true);
        self.weighed_at_ns = self.classic_clock_ns();
        timer::arm_classic(clock, self.epoch, period_ns);
        self.hold(false);
        Ok(signal)
    }

    /// Disarms everything.
    pub(super) fn disengage(&mut self) {
        timer::delete_birth_timers();
        self.disarm();
    }

    /// The same for good: the agent thread ends.
    pub(super) fn retire(&mut self) {
        self.disengage();
        self.waker.take().inspect(|waker| waker.delete());
    }

    fn disarm(&mut self) {
        signals::note_in_force(0, self.epoch);
        if timer::disarm_classic() != 0 {
            self.late_looks = LATE_LOOKS;
        }
        self.threads.disarm();
        self.looker = None;
        self.engaged.state = EngineState::Off;
    }

    fn arm_cpu(&mut self, signal: i32, came: bool) {
        let random = &mut self.random;
        self.threads.arm_cpu(self.epoch, signal, self.engaged.period_ns, came, &mut || next_random(random));
    }

    /// A timer of this thread has expired so often that its sample weighs so much.
    pub(super) fn note_ticks(&mut self, tid: u32, weight_ns: u64) {
        let period_ns = self.engaged.period_ns.max(1);
        if let Some(thread) = self.threads.find(tid) {
            thread.phase.note((weight_ns / period_ns).max(1));
        }
    }

    /// Changes the phases of the threads that have ticked.
    pub(super) fn change_phases(&mut self) {
        if (self.engaged.engine, self.engaged.state) == (Engine::Threads, EngineState::Running) {
            let random = &mut self.random;
            self.threads.change_phases(self.engaged.period_ns, &mut || next_random(random));
        }
    }

    fn scan(&mut self, names: bool) {
        // Before: one that comes meanwhile, and is not found, makes another number at the next look.
        self.threads_then = self.threads.alive();
        if self.threads.scan(self.agent, names) {
            sigstack_pool::provide(self.threads.count().0 as usize);
            self.changed_at_ns = sys::monotonic_ns();
        }
    }

    /// Counts the wall time of threads that are new here as lost, as far as they were to be
    /// sampled: since this time, if it is not 0. CLOCK_MONOTONIC
    fn lose_wall_before(&mut self, since_ns: u64) {
        let Engaged { clock, period_ns, .. } = self.engaged;
        for thread in self.threads.new_ones() {
            if since_ns > 0
                && clock == Clock::Real
                && let Some(age_ns) = thread.age_ns()
            {
                let lost_ns = age_ns.min(sys::monotonic_ns().saturating_sub(since_ns));
                let ticks = lost_ns / period_ns.max(1);
                state::count_unhandled(ticks);
                state::lose(Loss::NotReady, ticks, lost_ns);
            }
        }
    }

    /// Whether a thread of the target asked for a timer.
    pub(super) fn are_threads_wanted(&self) -> bool {
        state::WANT_THREADS.load(Ordering::SeqCst)
    }

    /// Looks after the timers: threads that came and went, a handler that was taken away, an interval timer that another
    /// hand has set. All of it when it is `due`. Returns whether what is in force changed.
    pub(super) fn look_after(&mut self, now_ns: u64, due: bool, is_short: impl Fn(&Ticker) -> bool) -> bool {
        if self.late_looks > 0 {
            self.late_looks -= 1;
            if self.late_looks == 0 {
                timer::none_is_late();
            }
        }
        if self.engaged.state != EngineState::Running {
            return false;
        }
        let wanted = state::WANT_THREADS.swap(false, Ordering::Relaxed);
        let mut changed = false;
        if self.engaged.clock == Clock::Prof || now_ns.saturating_sub(self.last_count_ns) >= COUNT_EVERY_NS {
            self.last_count_ns = now_ns;
            // One that came when another went shows itself by the time that is short.
            changed = self.has_other_threads() || self.threads.some_young || is_short(self);
        }
        if wanted || due || changed {
            self.scan(due);
            let signal = self.engaged.signal as i32;
            self.lose_wall_before(1);
            match (self.engaged.engine, self.engaged.clock) {
                (Engine::Threads, clock) => self.arm_cpu(signal, clock == Clock::Prof),
                (Engine::Itimer, _) => {}
            }
        }
        if due && is_short(self) {
            self.leave_blocked_signal();
        }
        self.is_left_to_the_target() || self.moves() || due && self.check()
    }

    /// Has ticks come by another signal if a thread blocks the one in force, by a call that was not
    /// seen, and blocks another one in no thread.
    fn leave_blocked_signal(&mut self) {
        let blocked = self.threads.blocked();
        if blocked & signals::bit(self.engaged.signal as i32) & signals::hidden() != 0 {
            signals::move_on(blocked);
        }
    }

    /// Whether the program uses the signal in force itself, and ticks are to come by another.
    pub(super) fn is_to_move(&self) -> bool {
        let signal = self.engaged.signal as i32;
        let running = (self.engaged.engine, self.engaged.state) == (Engine::Threads, EngineState::Running);
        running && signals::is_candidate(signal) && signal != signals::tick()
    }

    /// Arms the timers with another signal, if they are to be; returns whether they were.
    fn moves(&mut self) -> bool {
        let moves = self.is_to_move();
        if moves {
            let Engaged { clock, engine, period_ns, .. } = self.engaged;
            self.engage(clock, engine, period_ns);
        }
        moves
    }

    /// Whether the target has set the interval timer that ours was; then it is the target's.
    fn is_left_to_the_target(&mut self) -> bool {
        let Engaged { engine, period_ns, signal, .. } = self.engaged;
        let period_us = period_ns / 1_000;
        let apart_us = self.held.classic_interval_us().abs_diff(period_us);
        if engine != Engine::Itimer || !timer::is_classic(signal as i32) || apart_us <= period_us / 8 {
            return false;
        }
        timer::forget_classic();
        self.held.give_back();
        self.engaged.state = EngineState::TimerTaken;
        true
    }

    fn check(&mut self) -> bool {
        let Engaged { clock, engine, period_ns, signal, .. } = self.engaged;
        let signal = signal as i32;
        let lost = !handler::is_ours(&sys::action_of(signal));
        if lost && signals::is_candidate(signal) {
            // The program has a handler of its own there, or shares this one.
            signals::move_on(0);
        }
        guard::take(signals::tick());
        if lost {
            // Taken away by a raw system call. Ticks in flight must not meet whatever is there now.
            self.engage(clock, engine, period_ns);
            return true;
        }
        // Disarmed for an exec, which has failed if the process is the same at the next check.
        let disarmed = engine == Engine::Itimer && !timer::is_classic(signal);
        if core::mem::replace(&mut self.exec_seen, disarmed) && disarmed {
            self.exec_seen = false;
            timer::stay();
            self.engage(clock, engine, period_ns);
        }
        false
    }

    fn classic_clock_ns(&self) -> u64 {
        match self.engaged.clock {
            Clock::Real => sys::monotonic_ns(),
            Clock::Prof => unseen::used_ns(),
            Clock::Virtual => sys::user_ns(),
        }
    }

    /// What each of `ticks` ticks of the interval timer stands for, ns: their part of the time that its clock has gone on since
    /// the last ones were weighed.
    pub(super) fn weigh_classic(&mut self, ticks: u64) -> u64 {
        if self.engaged.engine != Engine::Itimer || ticks == 0 {
            return 0;
        }
        let now_ns = self.classic_clock_ns();
        let passed_ns = now_ns.saturating_sub(core::mem::replace(&mut self.weighed_at_ns, now_ns));
        passed_ns / ticks
    }

    /// Whether nothing but a tick, or a request, makes work.
    pub(super) fn is_at_rest(&self, now_ns: u64) -> bool {
        self.late_looks == 0 && self.until_wall_tick(now_ns).is_none()
    }

    /// How long the agent thread may sleep before a wall tick is due, ns; `None` without one.
    pub(super) fn until_wall_tick(&self, now_ns: u64) -> Option<u64> {
        let e = &self.engaged;
        let ticking = e.state == EngineState::Running && e.engine == Engine::Threads && e.clock == Clock::Real;
        ticking.then(|| (self.last_wall_ns + self.wall_interval_ns).saturating_sub(now_ns))
    }

    /// Counts a wall tick for every thread, if it is due. A thread that sleeps is found without
    /// waking it, and `repeat` takes its sample; to a thread that runs the time is owed, and the
    /// next tick of its CPU clock carries it. No signal is sent: a thread that was just seen to run
    /// may sleep by the time the signal arrives, and its wait would end early.
    pub(super) fn wall_tick(&mut self, now_ns: u64, snapshot: &Snapshot, mut repeat: impl FnMut(Repeat<'_>)) {
        if self.until_wall_tick(now_ns) != Some(0) {
            return;
        }
        let elapsed_ns = now_ns - self.last_wall_ns;
        self.last_wall_ns = now_ns;
        // Another one each time: what repeats as often as the ticks is not met at one point only.
        self.wall_interval_ns =
            self.engaged.period_ns / 2 + next_random(&mut self.random) % self.engaged.period_ns.max(1);
        let (threads, few) = self.threads.iter_mut();
        for thread in threads {
            let schedule = thread.schedule(few);
            let sleeps_on = schedule.is_some() && schedule == thread.asleep_at;
            if sleeps_on || look(self.looker.as_mut(), thread, schedule, snapshot) {
                // A last sample that weighed more than was owed is made up for.
                let weight_ns = (elapsed_ns as i64 + thread.owed_ns.min(0)).max(0);
                thread.owed_ns = thread.owed_ns.max(0);
                state::count_unhandled(1);
                repeat(Repeat { thread, weight_ns: weight_ns as u64 });
            } else if thread.is_timed() {
                thread.owed_ns += elapsed_ns as i64;
                thread.owed_ticks += 1;
            } else {
                state::count_unhandled(1);
                state::lose(Loss::NoTimer, 1, elapsed_ns);
            }
        }
    }

    /// What a thread used before it had a timer, for its first sample to stand for, ns; once.
    pub(super) fn used_before(&mut self, tid: u32) -> u64 {
        self.threads.find(tid).map_or(0, |thread| core::mem::take(&mut thread.used_before_ns))
    }

    /// The wall time that a tick of a thread's CPU clock stands for, ns: what wall ticks found it
    /// running for since the last one.
    pub(super) fn settle(&mut self, tid: u32) -> u64 {
        let period_ns = self.engaged.period_ns as i64;
        let Some(thread) = self.threads.find(tid) else { return 0 };
        let weight_ns = thread.owed_ns.max(period_ns.min(thread.owed_ns + period_ns)).max(0);
        thread.owed_ns -= weight_ns;
        thread.owed_ticks = 0;
        weight_ns as u64
    }
}

/// xorshift64: phases only have to differ.
fn next_random(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Finds out where a thread sleeps, and keeps its stack. False when it runs.
fn look(looker: Option<&mut Looker>, thread: &mut Thread, schedule: Option<Schedule>, snapshot: &Snapshot) -> bool {
    let (Some(looker), Some(before), Some(place)) = (looker, schedule, Place::of(thread.tid)) else { return false };
    let mut frames = [0; MAX_FRAMES];
    let found = looker.look(snapshot, place, &mut frames);
    // What was read is one stack only if the thread did not move meanwhile.
    let Some((depth, flags)) = found.filter(|_| thread.schedule(true) == Some(before)) else { return false };
    thread.asleep_at = Some(before);
    thread.last.remember(flags | flag::REPEAT, snapshot.generation(), &frames[..depth]);
    true
}

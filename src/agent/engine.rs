//! The engine in force: which timers are armed for which clock, and what has to be looked after while they run.

use core::sync::atomic::Ordering;

use super::asleep::{Looker, Place};
use super::guard;
use super::handler;
use super::modules::Snapshot;
use super::order;
use super::sigstack_pool;
use super::state::{self, Config};
use super::sys;
use super::threads::{Schedule, Thread, Threads};
use super::timer::{self, Held, Need};
use super::unseen;
use super::user_dispatch;
use crate::link::wire::ring::word;
use crate::link::wire::{Clock, Engaged, Engine, EngineState, Loss, MAX_FRAMES, flag};

/// How often threads are counted in wall mode, where no tick tells of a new one, ns.
const COUNT_EVERY_NS: u64 = 100_000_000;
/// Looks, a tenth of a second apart, until no tick of a disarmed interval timer can be on its way to a handler.
const LATE_LOOKS: u32 = 5;
/// So long after one thread came or went, others may that live shorter than it takes to find them, ns.
const UNSETTLED_NS: u64 = 500_000_000;
/// Below this period the scheduler's figures may be older than a tick, ns.
const COARSE_NS: u64 = 8_000_000;

/// The engine, and the threads it ticks on.
pub(super) struct Ticker {
    /// What is in force.
    pub(super) engaged: Engaged,
    /// The process's threads.
    pub(super) threads: Threads,
    /// Wall ticks that needed no handler.
    pub(super) repeats: u64,
    agent: u32,
    /// While the wall clock ticks per thread.
    looker: Option<Looker>,
    epoch: u32,
    random: u64,
    late_looks: u32,
    /// What the agent thread has stopped while it works.
    held: Held,
    /// The interval timer was found disarmed for an exec.
    exec_seen: bool,
    /// What the interval timer's clock showed when its ticks were last weighed, ns.
    weighed_at_ns: u64,
    last_wall_ns: u64,
    last_count_ns: u64,
    threads_then: u64,
    /// When a thread was found to have come or gone, ns.
    changed_at_ns: u64,
    /// What the process timer was let go for.
    need: Need,
}

/// A wall tick that needs no signal: the thread sleeps where it slept.
pub(super) struct Repeat<'a> {
    /// The thread, with its last stack.
    pub(super) thread: &'a Thread,
    /// What the tick stands for, ns.
    pub(super) weight_ns: u64,
}

impl Ticker {
    /// Nothing armed.
    pub(super) fn new(agent: u32, epoch: u32) -> Ticker {
        Ticker {
            engaged: Engaged {
                clock: Clock::Prof,
                engine: Engine::Threads,
                state: EngineState::Off,
                period_ns: 0,
                signal: 0,
            },
            threads: Threads::default(),
            repeats: 0,
            agent,
            looker: None,
            epoch,
            random: sys::monotonic_ns() | 1,
            late_looks: 0,
            held: Held::default(),
            exec_seen: false,
            weighed_at_ns: 0,
            last_wall_ns: 0,
            last_count_ns: 0,
            threads_then: 0,
            changed_at_ns: 0,
            need: Need::Samples,
        }
    }

    /// Of the configuration in force, for the next life of the agent.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Disarms everything and arms what is asked for.
    pub(super) fn engage(&mut self, clock: Clock, engine: Engine, period_ns: u64) {
        self.epoch = self.epoch.wrapping_add(1);
        let config = Config { clock, period_ns };
        state::configure(self.epoch, config);
        // First of all, so that next to nothing is missed while the others are changed.
        let finds_threads = (engine, clock) == (Engine::Threads, Clock::Prof);
        if finds_threads && state::MAY_CALL.load(Ordering::Relaxed) {
            timer::arm_process_timer(self.epoch, config);
            self.held = Held::default();
            self.hold(false);
        } else {
            timer::delete_process_timer();
        }
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
            self.arm_cpu(libc::SIGURG);
        }
    }

    /// Before the agent thread sleeps. Where every thread has a timer, the process's finds nothing; but where both tick at once, the handler
    /// of one blocks the other's signal, and the kernel wakes a thread that sleeps to take it. So it does not tick while `ticks_flow`, and threads
    /// are counted at every look; else it ticks rarely.
    pub(super) fn release(&mut self, ticks_flow: bool) {
        let (count, timed) = self.threads.count();
        let is_running = (self.engaged.clock, self.engaged.state) == (Clock::Prof, EngineState::Running);
        let is_settled = sys::monotonic_ns() - self.changed_at_ns >= UNSETTLED_NS;
        self.need = match is_running && is_settled && count == timed {
            false => Need::Samples,
            true if ticks_flow => Need::Nothing,
            true => Need::Search,
        };
        self.held.release(self.need);
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
        // Chained and always ours; SIGPROF is left to the target. Whoever resets or ignores it behind our back is not killed.
        guard::take(libc::SIGURG);
        let asked = order::signal();
        let signal = if asked != 0 && guard::take(asked) { asked } else { libc::SIGURG };
        self.scan(true);
        // Those that were there are no sign of others to come.
        self.changed_at_ns = 0;
        if clock == Clock::Prof {
            self.arm_cpu(signal);
        } else {
            // Who is to be asked whether a sample counts has to be asked on its own thread.
            self.looker = if order::has_filter() { None } else { Looker::new() };
            self.threads.arm_wall(self.epoch, signal);
            self.last_wall_ns = sys::monotonic_ns();
        }
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
        timer::delete_process_timer();
        self.disarm();
    }

    fn disarm(&mut self) {
        if timer::disarm_classic() != 0 {
            self.late_looks = LATE_LOOKS;
        }
        self.threads.disarm();
        self.looker = None;
        self.engaged.state = EngineState::Off;
    }

    fn arm_cpu(&mut self, signal: i32) {
        let mut random = self.random;
        self.threads.arm_cpu(self.epoch, signal, self.engaged.period_ns, &mut || {
            // xorshift64: phases only have to differ.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        });
        self.random = random;
    }

    fn scan(&mut self, names: bool) {
        // Before: one that comes meanwhile, and is not found, makes another number at the next look.
        self.threads_then = self.threads.alive();
        if self.threads.scan(self.agent, names) {
            sigstack_pool::provide(self.threads.count().0 as usize);
            self.changed_at_ns = sys::monotonic_ns();
        }
    }

    /// Whether a handler met a thread without a timer that may be given one. One that the kernel refuses a timer is met by every tick of
    /// the process: it is asked for again when all is looked after.
    pub(super) fn are_threads_wanted(&self) -> bool {
        !self.threads.some_refused && state::WANT_THREADS.load(Ordering::SeqCst)
    }

    /// Looks after the timers: threads that came and went, a handler that was taken away, an interval timer that another
    /// hand has set. All of it when it is `due`. Where nobody else looks for threads, one that came when another went is known by the time
    /// that `is_short`. Returns whether what is in force changed.
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
        let wanted = (due || self.are_threads_wanted()) && state::WANT_THREADS.swap(false, Ordering::Relaxed);
        let mut changed = false;
        let counts = self.engaged.clock == Clock::Real && now_ns.saturating_sub(self.last_count_ns) >= COUNT_EVERY_NS;
        if counts || self.need == Need::Nothing {
            self.last_count_ns = now_ns;
            changed = self.threads.alive() != self.threads_then || self.need == Need::Nothing && is_short(self);
        }
        if wanted || due || changed {
            self.scan(due);
            let signal = self.engaged.signal as i32;
            match (self.engaged.engine, self.engaged.clock) {
                (Engine::Threads, Clock::Prof) => self.arm_cpu(signal),
                (Engine::Threads, _) => self.threads.arm_wall(self.epoch, signal),
                (Engine::Itimer, _) => {}
            }
        }
        self.is_left_to_the_target() || due && self.check()
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
        let lost = !handler::is_ours(&sys::action_of(signal as i32));
        guard::take(libc::SIGURG);
        if lost {
            // Taken away by a raw system call. Ticks in flight must not meet whatever is there now.
            self.engage(clock, engine, period_ns);
            return true;
        }
        // Disarmed for an exec, which has failed if the process is the same at the next check.
        let disarmed = engine == Engine::Itimer && !timer::is_classic(signal as i32);
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
        ticking.then(|| (self.last_wall_ns + e.period_ns).saturating_sub(now_ns))
    }

    /// Counts a wall tick for every thread, if it is due: the time since the last one is owed to each. Where a sleeper is is found
    /// out without waking it, and `repeat` takes its sample; a thread that runs, or cannot be followed from where it sleeps, is
    /// sent a signal.
    pub(super) fn wall_tick(&mut self, now_ns: u64, snapshot: &Snapshot, mut repeat: impl FnMut(Repeat<'_>)) {
        if self.until_wall_tick(now_ns) != Some(0) {
            return;
        }
        let elapsed_ns = now_ns - self.last_wall_ns;
        self.last_wall_ns = now_ns;
        let coarse = self.engaged.period_ns < COARSE_NS;
        let (threads, few) = self.threads.iter_mut();
        for thread in threads {
            thread.owed_ns += elapsed_ns;
            thread.owed_ticks += 1;
            if thread.in_flight {
                continue;
            }
            let schedule = thread.schedule(few);
            let slept = schedule.is_some_and(|now| now.slept_since(thread.at_last, thread.was_woken));
            let known = slept && !thread.last.frames.is_empty() && !(coarse && Place::of(thread.tid).is_none());
            if known || look(self.looker.as_mut(), thread, schedule, snapshot) {
                let weight_ns = core::mem::take(&mut thread.owed_ns);
                thread.owed_ticks = 0;
                state::count(word::TICKS, 1);
                self.repeats += 1;
                repeat(Repeat { thread, weight_ns });
            } else if thread.fire() {
                (thread.at_last, thread.was_woken) = (schedule.unwrap_or_default(), true);
                thread.in_flight = true;
            } else {
                let (ticks, ns) = (core::mem::take(&mut thread.owed_ticks), core::mem::take(&mut thread.owed_ns));
                state::count(word::TICKS, ticks);
                state::lose(Loss::NoTimer, ticks, ns);
            }
        }
    }

    /// A wall tick has found its thread's stack: what it stands for, ns. The stack is kept for repeats.
    pub(super) fn settle(&mut self, tid: u32, flags: u32, generation: u32, frames: &[u64]) -> u64 {
        let Some(thread) = self.threads.find(tid) else { return 0 };
        thread.in_flight = false;
        thread.owed_ticks = 0;
        thread.last.remember(flags | flag::REPEAT, generation, frames);
        core::mem::take(&mut thread.owed_ns)
    }
}

/// Finds out where a thread sleeps. False when it runs, or has to be asked; a place where it was asked before is answered from
/// memory.
fn look(looker: Option<&mut Looker>, thread: &mut Thread, schedule: Option<Schedule>, snapshot: &Snapshot) -> bool {
    let (Some(looker), Some(before), Some(place)) = (looker, schedule, Place::of(thread.tid)) else { return false };
    if thread.asked_at == Some(place) && !thread.last.frames.is_empty() {
        (thread.at_last, thread.was_woken) = (before, false);
        return true;
    }
    let mut frames = [0; MAX_FRAMES];
    let found = looker.look(snapshot, place, &mut frames);
    // What was read is one stack only if the thread did not move meanwhile.
    if thread.schedule(true) != schedule {
        return false;
    }
    let Some((depth, flags)) = found else {
        thread.asked_at = Some(place);
        thread.last.frames.clear();
        return false;
    };
    thread.asked_at = None;
    (thread.at_last, thread.was_woken) = (before, false);
    thread.last.remember(flags | flag::REPEAT, snapshot.generation(), &frames[..depth]);
    true
}

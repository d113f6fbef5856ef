//! The engine in force: the timers that are armed for its clock, and their maintenance while they
//! run.

mod classic;
pub(crate) mod crowd;
mod wall;

use crate::agent::os::syscall;
use crate::agent::sampling::counters::{self, TimerConfig};
use crate::agent::signals::{actions, stacks, tick_signal};
use crate::agent::state;
use crate::agent::timers::interval_timer::{self, PausedTimer};
use crate::agent::timers::new_threads;
use crate::agent::timers::phase::Phase;
use crate::agent::timers::sleepers::SleeperFinder;
use crate::agent::timers::stops::OwnSchedule;
use crate::agent::timers::threads::Threads;
use crate::agent::timers::timer::Timer;
use core::sync::atomic::Ordering;

use crate::wire::{Clock, Engaged, Engine, EngineState, LossCause};

/// Interval between two counts of the threads in wall mode, where no tick reveals a new one, ns.
const COUNT_EVERY_NS: u64 = 100_000_000;
/// Number of checks, a tenth of a second apart, after which no tick of a disarmed interval timer
/// can still be on its way to a handler, unless it is pending.
const LATE_LOOKS: u32 = 5;
/// Minimum interval between two searches for threads that have reported their start, ns.
const SEARCH_INTERVAL_NS: u64 = 10_000_000;
/// CPU time of the process after which new threads are looked for, ns.
const SEARCH_NS: u64 = 20_000_000;
/// Minimum of the same shortly after a thread came or went, ns: the kernel checks CPU-clock timers
/// at scheduler ticks only.
const TICK_NS: u64 = 4_000_000;
/// Time after a thread came or went during which other threads may live for less time than it takes
/// to find them, ns.
const UNSETTLED_NS: u64 = 500_000_000;

/// The engine, and the threads that it samples.
pub(crate) struct TimerEngine {
    /// The configuration in force.
    pub(crate) engaged: Engaged,
    /// The process's threads.
    pub(crate) threads: Threads,
    agent: u32,
    /// The signal that the program wants ticks to be sent by; 0 for any.
    pub(crate) preferred_signal: i32,
    /// Finds out where threads sleep; present while the wall clock ticks per thread.
    sleepers: Option<SleeperFinder>,
    epoch: u32,
    random: u64,
    late_looks: u32,
    /// The interval timer that is stopped while the agent thread works.
    paused_timer: PausedTimer,
    /// Wakes the agent thread when the process has used CPU time.
    waker: Option<Timer>,
    /// Whether the interval timer was found disarmed for an exec.
    exec_seen: bool,
    /// CLOCK_MONOTONIC time from which the program is to be sampled, until a configuration is in
    /// force, ns; 0 if no sampling was requested then.
    watched_since_ns: u64,
    /// The phase of the interval timer.
    classic_phase: Phase,
    /// Reading of the interval timer's clock when its ticks were last weighed, ns.
    weighed_at_ns: u64,
    last_wall_ns: u64,
    /// Time between the last wall tick and the next, ns: half a period to one and a half, or more
    /// while the process rests.
    wall_interval_ns: u64,
    /// The schedule of the agent thread, by which a stop of the process is noticed.
    own_schedule: OwnSchedule,
    /// Number of wall ticks in a row before which no thread has run.
    rests: u32,
    /// The thread of a crowd that the next wall tick looks at first.
    next_look_at: u32,
    last_count_ns: u64,
    threads_then: u64,
    /// Time of the last search for threads because one had reported its start, ns.
    searched_at_ns: u64,
    /// Time when a thread was last found to have come or gone, ns.
    changed_at_ns: u64,
}

impl TimerEngine {
    /// Creates an engine with nothing armed.
    pub(crate) fn new(agent: u32, epoch: u32) -> TimerEngine {
        TimerEngine {
            engaged: Engaged {
                clock: Clock::Prof,
                engine: Engine::Threads,
                state: EngineState::Off,
                period_ns: 0,
                signal: 0,
            },
            threads: Threads::default(),
            agent,
            preferred_signal: 0,
            sleepers: None,
            epoch,
            random: syscall::monotonic_ns() | 1,
            late_looks: 0,
            paused_timer: PausedTimer::default(),
            waker: Timer::of_agent(agent),
            exec_seen: false,
            watched_since_ns: state::take_watched_since(),
            classic_phase: Phase::default(),
            weighed_at_ns: 0,
            last_wall_ns: 0,
            wall_interval_ns: 0,
            own_schedule: OwnSchedule::default(),
            rests: 0,
            next_look_at: 0,
            last_count_ns: 0,
            threads_then: 0,
            searched_at_ns: 0,
            changed_at_ns: 0,
        }
    }

    /// Returns the epoch of the configuration in force. The next agent thread continues from it.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Disarms everything and arms the requested timers.
    pub(crate) fn engage(&mut self, clock: Clock, engine: Engine, period_ns: u64) {
        if self.is_begun_with(clock, engine, period_ns) {
            new_threads::stop_awaiting_first_tick();
            let (signal, _) = tick_signal::in_force();
            (self.engaged.state, self.engaged.signal) = (EngineState::Running, signal as u32);
            return;
        }
        self.epoch = self.epoch.wrapping_add(1);
        let config = TimerConfig { clock, period_ns };
        counters::publish_config(self.epoch, config);
        new_threads::stop_awaiting_first_tick();
        self.disarm();
        self.engaged = Engaged { clock, engine, period_ns, state: EngineState::Off, signal: 0 };
        let result = match engine {
            Engine::External | Engine::Events | Engine::Ptrace => Err(EngineState::Unsupported),
            _ if clock.is_memory() => {
                self.scan(true);
                Ok(0)
            }
            Engine::Threads => self.engage_threads(),
            Engine::Itimer => self.engage_classic(),
        };
        match result {
            Ok(signal) => (self.engaged.state, self.engaged.signal) = (EngineState::Running, signal as u32),
            Err(refusal) => self.engaged.state = refusal,
        }
        tick_signal::note_in_force(self.engaged.signal as i32, self.epoch);
    }

    /// Counts no wall time before the next request as lost, because it was sampled from outside.
    pub(crate) fn miss_nothing_before(&mut self) {
        self.watched_since_ns = 0;
    }

    /// Returns whether the timers that [`begin`](Self::begin) armed are the requested ones. Arming
    /// them anew would lose the time that each has counted since its last tick.
    fn is_begun_with(&self, clock: Clock, engine: Engine, period_ns: u64) -> bool {
        let wanted = (clock, engine, period_ns) == (Clock::Prof, Engine::Threads, self.engaged.period_ns);
        let is_off = self.engaged.state == EngineState::Off && self.engaged.clock == Clock::Prof;
        let is_armed = is_off && !self.threads.are_timers_refused();
        wanted && is_armed && tick_signal::in_force() == (tick_signal::tick(), self.epoch) && self.preferred_signal == 0
    }

    /// Disarms everything. Samples are then taken by explicit calls only, and each stands for a
    /// period.
    pub(crate) fn by_hand(&mut self, clock: Clock, period_ns: u64) {
        self.disengage();
        self.epoch = self.epoch.wrapping_add(1);
        counters::publish_config(self.epoch, TimerConfig { clock, period_ns });
        self.engaged = Engaged { clock, engine: Engine::Threads, period_ns, state: EngineState::Off, signal: 0 };
    }

    /// First step of the agent thread: stops the interval timer and, if CPU time is to be sampled,
    /// arms the timers of the existing threads. Until the next request their CPU time makes ticks,
    /// and that of the agent thread does not.
    pub(crate) fn begin(&mut self) {
        self.hold(false);
        let config = counters::config(self.epoch);
        if config.clock == Clock::Prof && config.period_ns > 0 {
            self.engaged.period_ns = config.period_ns;
            self.scan(false);
            let signal = tick_signal::tick();
            self.arm_cpu(signal, false);
            tick_signal::note_in_force(signal, self.epoch);
        }
    }

    /// Resumes the interval timer before the agent thread sleeps. Threads that start wake
    /// the agent thread. Where they may not make system calls, a timer does: when the process
    /// has used enough CPU time for a new thread to be likely, and sooner if a thread came or went
    /// recently.
    ///
    /// The timer of the process's clock never sends its ticks to the process: if the thread that
    /// uses the time blocks the signal (as libc does while it creates or ends a thread), or is the
    /// agent's, the kernel wakes a sleeping thread to deliver the tick.
    pub(crate) fn release(&mut self) {
        if let Some(waker) = self.waker
            && self.engaged.engine == Engine::Threads
            && state::syscalls_forbidden()
        {
            let is_settled = syscall::monotonic_ns() - self.changed_at_ns >= UNSETTLED_NS;
            let after_ns = if is_settled { SEARCH_NS } else { self.engaged.period_ns.clamp(TICK_NS, SEARCH_NS) };
            // Not at equal intervals, which could be those of the target's work.
            waker.arm(after_ns / 2 + next_random(&mut self.random) % after_ns, 0);
        }
        self.paused_timer.release();
    }

    /// Returns whether a thread came or went since the last scan. One that came for one that went
    /// is not noticed.
    pub(crate) fn has_other_threads(&mut self) -> bool {
        self.threads.alive() != self.threads_then
    }

    /// Stops the interval timer again after the agent thread has slept.
    pub(crate) fn hold(&mut self, ticks_flow: bool) {
        // If the only thread is running, no sleeping thread can be woken. The phase of a running
        // timer is not changed.
        self.paused_timer.hold(ticks_flow && self.threads.len() <= 1 && !self.classic_phase.has_ticked());
    }

    fn engage_threads(&mut self) -> Result<i32, EngineState> {
        let clock = self.engaged.clock;
        if clock == Clock::Virtual {
            return Err(EngineState::Unsupported);
        }
        let asked = self.preferred_signal;
        let signal = if asked != 0 && actions::claim(asked) { asked } else { tick_signal::tick() };
        actions::claim(signal);
        self.scan(true);
        // Those that were there are no sign of others to come.
        self.changed_at_ns = 0;
        // Threads that were there before somebody asked for their time are not missed.
        let since_ns = core::mem::take(&mut self.watched_since_ns);
        self.lose_wall_before(since_ns);
        if clock == Clock::Real {
            self.sleepers = Some(SleeperFinder::new());
            self.last_wall_ns = syscall::monotonic_ns();
            (self.wall_interval_ns, self.rests) = (self.engaged.period_ns, 0);
        }
        self.arm_cpu(signal, false);
        if self.threads.are_timers_refused() { Err(EngineState::TimerRefused) } else { Ok(signal) }
    }

    /// Disarms everything.
    pub(crate) fn disengage(&mut self) {
        new_threads::stop_awaiting_first_tick();
        self.disarm();
    }

    /// Disarms everything for good, because the agent thread ends.
    pub(crate) fn retire(&mut self) {
        self.disengage();
        self.waker.take().inspect(|waker| waker.delete());
    }

    fn disarm(&mut self) {
        tick_signal::note_in_force(0, self.epoch);
        if interval_timer::disarm_classic() != 0 {
            self.late_looks = LATE_LOOKS;
        }
        self.threads.disarm();
        crowd::publish_counted(0, 0);
        self.sleepers = None;
        self.engaged.state = EngineState::Off;
    }

    fn arm_cpu(&mut self, signal: i32, came: bool) {
        let random = &mut self.random;
        self.threads.arm_cpu(self.epoch, signal, self.engaged.period_ns, came, &mut || next_random(random));
    }

    /// Records the ticks of this thread's timer that a sample stands for. Takes the weight that the
    /// handler gave it, and returns the true one, ns.
    pub(crate) fn weigh_ticks(&mut self, tid: u32, weight_ns: u64) -> u64 {
        let period_ns = self.engaged.period_ns.max(1);
        let Some(thread) = self.threads.find(tid) else { return weight_ns };
        let weight_ns = thread.phase.weigh(weight_ns, period_ns);
        thread.sampled_to_ns += weight_ns;
        weight_ns
    }

    /// Changes the phases of the timers that have ticked.
    pub(crate) fn change_phases(&mut self) {
        let Engaged { engine, state, period_ns, .. } = self.engaged;
        let mut random = || next_random(&mut self.random);
        match (state, engine) {
            (EngineState::Running, Engine::Threads) => self.threads.change_phases(period_ns, &mut random),
            (EngineState::Running, Engine::Itimer) => {
                self.paused_timer.change_phase(&mut self.classic_phase, period_ns, &mut random);
            }
            _ => {}
        }
    }

    fn scan(&mut self, names: bool) {
        // Counted before the scan: a thread that comes meanwhile and is not found changes the
        // number at the next check.
        self.threads_then = self.threads.alive();
        if self.threads.scan(self.agent, names) {
            stacks::provide(self.threads.len());
            self.changed_at_ns = syscall::monotonic_ns();
        }
    }

    /// Counts the wall time of newly found threads since `since_ns` (CLOCK_MONOTONIC) as lost.
    /// Counts nothing if that is 0.
    fn lose_wall_before(&mut self, since_ns: u64) {
        let Engaged { clock, period_ns, .. } = self.engaged;
        for thread in self.threads.new_ones() {
            if since_ns > 0
                && clock == Clock::Real
                && let Some(age_ns) = thread.age_ns()
            {
                let lost_ns = age_ns.min(syscall::monotonic_ns().saturating_sub(since_ns));
                let ticks = lost_ns / period_ns.max(1);
                counters::count_unhandled(ticks);
                counters::count_loss(LossCause::NotReady, ticks, lost_ns);
            }
        }
    }

    /// Returns the time until the next search for a thread that has reported its start, ns; `None`
    /// without one. In wall mode threads are counted anyway.
    pub(crate) fn until_new_threads(&self, now_ns: u64) -> Option<u64> {
        let searches = self.engaged.clock != Clock::Real && self.engaged.state == EngineState::Running;
        let next_ns = self.searched_at_ns + SEARCH_INTERVAL_NS;
        (searches && state::NEW_THREAD.load(Ordering::SeqCst)).then(|| next_ns.saturating_sub(now_ns))
    }

    /// Returns whether a thread of the target has asked for a timer.
    pub(crate) fn are_threads_wanted(&self) -> bool {
        state::WANT_THREADS.load(Ordering::SeqCst)
    }

    /// Maintains the timers: handles threads that came or went, a handler that was removed, and an
    /// interval timer that the target has set. Makes every check if it is `due`. Returns whether
    /// the configuration in force changed.
    pub(crate) fn look_after(&mut self, now_ns: u64, due: bool, is_short: impl Fn(&TimerEngine) -> bool) -> bool {
        if self.late_looks > 0 {
            self.late_looks -= 1;
            if self.late_looks == 0 && !interval_timer::forget_late() {
                self.late_looks = 1;
            }
        }
        if self.engaged.state != EngineState::Running {
            return false;
        }
        let mut wanted = state::WANT_THREADS.swap(false, Ordering::Relaxed);
        if self.until_new_threads(now_ns) == Some(0) {
            state::NEW_THREAD.store(false, Ordering::SeqCst);
            self.searched_at_ns = now_ns;
            wanted = true;
        }
        let mut changed = false;
        if self.engaged.clock == Clock::Prof || now_ns.saturating_sub(self.last_count_ns) >= COUNT_EVERY_NS {
            self.last_count_ns = now_ns;
            // A thread that came when another one went shows as unaccounted time.
            changed = self.has_other_threads() || self.threads.has_new_threads || is_short(self);
        }
        if wanted || due || changed {
            self.scan(due);
            let signal = self.engaged.signal as i32;
            // Wall ticks have counted the time of new threads.
            self.lose_wall_before(0);
            match (self.engaged.engine, self.engaged.clock) {
                (_, Clock::Alloc | Clock::Live) => {}
                (Engine::Threads, clock) => self.arm_cpu(signal, clock == Clock::Prof),
                (Engine::Itimer | Engine::External | Engine::Events | Engine::Ptrace, _) => {}
            }
        }
        if due && is_short(self) {
            self.leave_blocked_signal();
        }
        self.is_left_to_the_target() || self.moves() || due && self.check()
    }

    /// Moves the ticks to another signal if a thread blocks the one in force, through a call that
    /// was not intercepted, and there is one that no thread blocks.
    fn leave_blocked_signal(&mut self) {
        let blocked = self.threads.blocked();
        if blocked & tick_signal::bit(self.engaged.signal as i32) & tick_signal::hidden() != 0 {
            tick_signal::move_on(blocked);
        }
    }

    /// Returns whether the program uses the signal in force itself, so that ticks must move to
    /// another.
    pub(crate) fn is_to_move(&self) -> bool {
        let signal = self.engaged.signal as i32;
        let running = (self.engaged.engine, self.engaged.state) == (Engine::Threads, EngineState::Running);
        running && tick_signal::is_candidate(signal) && signal != tick_signal::tick()
    }

    /// Arms the timers with another signal if they must move; returns whether they did.
    fn moves(&mut self) -> bool {
        let moves = self.is_to_move();
        if moves {
            let Engaged { clock, engine, period_ns, .. } = self.engaged;
            self.engage(clock, engine, period_ns);
        }
        moves
    }

    fn check(&mut self) -> bool {
        let Engaged { clock, engine, period_ns, signal, .. } = self.engaged;
        if clock.is_memory() {
            return false;
        }
        let signal = signal as i32;
        let lost = !actions::is_ours(&syscall::signal_action(signal));
        if lost && tick_signal::is_candidate(signal) {
            // The program has a handler of its own there, or shares this one.
            tick_signal::move_on(0);
        }
        actions::claim(tick_signal::tick());
        if lost {
            // Taken away by a raw system call. Ticks in flight must not meet whatever is there now.
            self.engage(clock, engine, period_ns);
            return true;
        }
        // Disarmed for an exec, which has failed if the process is the same at the next check.
        let disarmed = engine == Engine::Itimer && !interval_timer::is_classic(signal);
        if core::mem::replace(&mut self.exec_seen, disarmed) && disarmed {
            self.exec_seen = false;
            interval_timer::stay();
            self.engage(clock, engine, period_ns);
        }
        false
    }

    /// Returns whether only a tick or a request can give the agent thread work.
    pub(crate) fn is_at_rest(&self, now_ns: u64) -> bool {
        self.late_looks == 0 && self.until_wall_tick(now_ns).is_none()
    }

    /// Returns the CPU time that a thread used before it had a timer, ns, and resets it to 0. The
    /// thread's first sample stands for this time too.
    pub(crate) fn used_before(&mut self, tid: u32) -> u64 {
        self.threads.find(tid).map_or(0, |thread| core::mem::take(&mut thread.used_before_ns))
    }
}

/// Returns the next random number (xorshift64). The phases only have to differ.
fn next_random(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

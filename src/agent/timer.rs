//! Timers: what their ticks carry, POSIX timers for threads and for the process, and the classic interval timers.
//!
//! A tick's value holds its kind, the epoch of its configuration and the thread: `cookie << 32 | epoch << 22 | tid`. Linux
//! thread ids have 22 bits. Only signals of POSIX timers are dropped by the kernel at exec; an interval timer survives it
//! and would kill the next program, so it is disarmed before (see `guard`).

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::signals;
use super::state::{self, Config};
use super::sys::{self, syscall};
use crate::link::wire::Clock;

/// What a tick of a POSIX timer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum TickKind {
    /// Of a thread's CPU clock.
    Thread = 0x5167_7101,
    /// The first tick, which gives birth: of the first thread's CPU clock, or, without a thread in
    /// its value, of the process's.
    Birth = 0x5167_7103,
    /// Of the CPU clock of a thread that has just started.
    Young = 0x5167_7105,
    /// Of the process's CPU clock, for the agent thread alone: the process has used some.
    Wake = 0x5167_7104,
}

impl TickKind {
    /// The kind of a tick's value; `None` when the timer is not ours.
    pub(super) fn of(value: u64) -> Option<TickKind> {
        let kinds = [TickKind::Thread, TickKind::Birth, TickKind::Young, TickKind::Wake];
        kinds.into_iter().find(|&kind| kind as u32 == (value >> 32) as u32)
    }

    fn value(self, epoch: u32, tid: u32) -> u64 {
        u64::from(self as u32) << 32 | u64::from(epoch & EPOCH_MASK) << TID_BITS | u64::from(tid & TID_MASK)
    }
}

/// Whether a signal with this code and value is a tick of the agent's.
pub(super) fn is_tick(signal: i32, code: i32, value: u64) -> bool {
    const SI_TIMER: i32 = -2;
    const SI_KERNEL: i32 = 0x80;
    match code {
        SI_TIMER => TickKind::of(value).is_some(),
        SI_KERNEL => is_classic(signal) || is_late(signal),
        _ => false,
    }
}

const TID_BITS: u32 = 22;
const TID_MASK: u32 = (1 << TID_BITS) - 1;
const EPOCH_MASK: u32 = (1 << (32 - TID_BITS)) - 1;

/// The epoch in a tick's value.
pub(super) fn epoch_of(value: u64) -> u32 {
    value as u32 >> TID_BITS
}

/// The thread in a tick's value.
pub(super) fn tid_of(value: u64) -> u32 {
    value as u32 & TID_MASK
}

/// A timer of the kernel's; deleted by name, never by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer(i32);

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_THREAD_ID: i32 = 4;

/// The kernel's sigevent.
#[repr(C)]
struct Event {
    value: u64,
    signal: i32,
    notify: i32,
    tid: u32,
    _pad: [u32; 11],
}

/// Clock id of a thread's CPU time, of any thread of this process.
pub(super) fn thread_clock(tid: u32) -> i32 {
    !(tid as i32) << 3 | 6
}

impl Timer {
    fn create(clock: i32, notify: i32, signal: i32, tid: u32, value: u64) -> Option<Timer> {
        let event = Event { value, signal, notify, tid, _pad: [0; 11] };
        let mut id = -1i32;
        // SAFETY: the kernel reads one sigevent and writes one id.
        let result = unsafe { syscall!(libc::SYS_timer_create, clock, &raw const event, &raw mut id) };
        (result == 0).then_some(Timer(id))
    }

    /// Ticks of a thread's CPU clock, sent to that thread; not armed yet. `None` when the kernel
    /// refuses (RLIMIT_SIGPENDING, seccomp, or the thread is gone). timer_create(2) `named` is the
    /// id that its ticks carry, `tid` the one that the kernel knows in the process's own namespace.
    pub(super) fn of_thread(tid: u32, named: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(thread_clock(tid), SIGEV_THREAD_ID, signal, tid, TickKind::Thread.value(epoch, named))
    }

    /// Ticks of the calling thread's CPU clock, which has just started; not armed yet.
    pub(super) fn of_young_thread(tid: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(thread_clock(tid), SIGEV_THREAD_ID, signal, tid, TickKind::Young.value(epoch, tid))
    }

    /// Wakes the agent thread, whose id is `agent`, when the process has used CPU time; not armed
    /// yet.
    pub(super) fn of_agent(agent: u32) -> Option<Timer> {
        let value = TickKind::Wake.value(0, agent);
        Timer::create(libc::CLOCK_PROCESS_CPUTIME_ID, SIGEV_THREAD_ID, sys::WAKE_SIGNAL, agent, value)
    }

    /// Ticks after `first_ns`, then every `period_ns` (0: never again). timer_settime(2)
    pub(super) fn arm(self, first_ns: u64, period_ns: u64) {
        let setting = [split(period_ns), split(first_ns.max(1))];
        // SAFETY: the kernel reads one itimerspec.
        unsafe { syscall!(libc::SYS_timer_settime, self.0, 0, setting.as_ptr(), 0usize) };
    }

    /// When it expires next, ns from now; 0 when it is not armed. timer_gettime(2)
    pub(super) fn left_ns(self) -> u64 {
        let mut setting = [[0u64; 2]; 2];
        // SAFETY: the kernel writes one itimerspec.
        unsafe { syscall!(libc::SYS_timer_gettime, self.0, setting.as_mut_ptr()) };
        setting[1][0] * 1_000_000_000 + setting[1][1]
    }

    /// Its number.
    pub(super) fn id(self) -> u32 {
        self.0 as u32
    }

    /// The timer of this number.
    pub(super) fn of_id(id: i32) -> Timer {
        Timer(id)
    }

    /// Gives it back. timer_delete(2)
    pub(super) fn delete(self) {
        // SAFETY: deletes a timer of ours.
        unsafe { syscall!(libc::SYS_timer_delete, self.0) };
    }
}

/// Seconds and the rest.
fn split(ns: u64) -> [u64; 2] {
    [ns / 1_000_000_000, ns % 1_000_000_000]
}

/// The scheduler's tick, ns; 0 before it was asked for.
static TICK_NS: AtomicU64 = AtomicU64::new(0);

/// The scheduler's tick, ns: timers of CPU clocks expire at these alone. Asks the kernel once.
pub(super) fn tick_ns() -> u64 {
    match TICK_NS.load(Ordering::Relaxed) {
        0 => {
            let tick_ns = sys::tick_ns().max(1);
            TICK_NS.store(tick_ns, Ordering::Relaxed);
            tick_ns
        }
        tick_ns => tick_ns,
    }
}

/// When a timer of a CPU clock is to expire first, ns from now, so that every tick of the scheduler
/// from the next one on is as likely to be its first as another within the period. It is found to
/// have expired at such ticks alone. Counted from now instead of from the last one, it would be
/// late by half a tick on average, which a short thread misses at its end.
pub(super) fn first_ns(random: u64, period_ns: u64) -> u64 {
    (random % period_ns.max(1)).saturating_sub(sys::since_tick_ns()) + 1
}

/// A number that differs from process to process.
fn seed() -> u64 {
    let mut mixed = sys::monotonic_ns() ^ u64::from(sys::getpid()) << 40;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// What a first tick stands for, ns: the period, or the scheduler's tick if that is longer.
pub(super) fn birth_period_ns(period_ns: u64) -> u64 {
    period_ns.max(tick_ns())
}

/// The timers that wait for the first tick: their ids, or -1. Written by the constructor and the
/// fork hook, then by the agent thread.
static BIRTH_TIMERS: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// Periods of the process's CPU time after which any of its threads may take the first tick.
pub(super) const PATIENT: u64 = 4;

/// Waits for the first tick: of the first thread's CPU clock, which is sent to a thread that runs;
/// and, where that thread sleeps while others work, of the process's, which may wake one that
/// sleeps.
pub(super) fn arm_for_birth(epoch: u32, config: Config) {
    delete_birth_timers();
    state::configure(epoch, config);
    let (first, signal) = (sys::getpid(), signals::tick());
    let of_first =
        Timer::create(thread_clock(first), SIGEV_THREAD_ID, signal, first, TickKind::Birth.value(epoch, first));
    let of_process =
        Timer::create(libc::CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, signal, 0, TickKind::Birth.value(epoch, 0));
    let period_ns = birth_period_ns(config.period_ns);
    let settings = [(first_ns(seed(), period_ns), period_ns), (PATIENT * period_ns, PATIENT * period_ns)];
    for ((place, timer), (first_ns, period_ns)) in BIRTH_TIMERS.iter().zip([of_first, of_process]).zip(settings) {
        if let Some(timer) = timer {
            place.store(timer.0, Ordering::Relaxed);
            timer.arm(first_ns, period_ns);
        }
    }
}

/// When the first thread's next tick would come of the timer that waits for the first one, ns of
/// its CPU time from now; 0 without such a timer.
pub(super) fn birth_left_ns() -> u64 {
    match BIRTH_TIMERS[0].load(Ordering::Relaxed) {
        id @ 0.. => Timer(id).left_ns(),
        _ => 0,
    }
}

/// Whether a first tick is waited for.
pub(super) fn is_birth_awaited() -> bool {
    BIRTH_TIMERS.iter().any(|timer| timer.load(Ordering::Relaxed) >= 0)
}

/// Waits for the first tick no more.
pub(super) fn delete_birth_timers() {
    for timer in &BIRTH_TIMERS {
        let id = timer.swap(-1, Ordering::Relaxed);
        if id >= 0 {
            Timer(id).delete();
        }
    }
}

/// A fork child has no timers: forgets its parent's.
pub(super) fn forget_birth_timers() {
    BIRTH_TIMERS.iter().for_each(|timer| timer.store(-1, Ordering::Relaxed));
}

/// Signal of the interval timer that is armed, or 0. Written by the agent thread and by `guard` at exec.
static CLASSIC_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Signal of the interval timer that was disarmed last, while a tick of it may still be on its way; else 0. Written by the agent
/// thread.
static LATE_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Epoch of its ticks, which carry no value.
static CLASSIC_EPOCH: AtomicU32 = AtomicU32::new(0);

/// The interval timer of a clock, its signal. setitimer(2)
pub(super) fn classic_timer(clock: Clock) -> (i32, i32) {
    match clock {
        Clock::Prof => (2, libc::SIGPROF),
        Clock::Real => (0, libc::SIGALRM),
        Clock::Virtual => (1, libc::SIGVTALRM),
    }
}

/// Signal of the interval timer that is armed, or 0.
pub(super) fn classic_signal() -> i32 {
    CLASSIC_SIGNAL.load(Ordering::Relaxed)
}

/// Whether a signal from the kernel is the armed interval timer's.
pub(super) fn is_classic(signal: i32) -> bool {
    classic_signal() == signal
}

/// Whether a signal from the kernel is a late tick of an interval timer of ours that is disarmed.
pub(super) fn is_late(signal: i32) -> bool {
    LATE_SIGNAL.load(Ordering::Relaxed) == signal
}

/// No tick is on its way any more.
pub(super) fn none_is_late() {
    LATE_SIGNAL.store(0, Ordering::Relaxed);
}

/// Epoch of the interval timer's ticks.
pub(super) fn classic_epoch() -> u32 {
    CLASSIC_EPOCH.load(Ordering::Relaxed)
}

/// A timer's interval and its time to the next tick, in seconds and microseconds (an interval timer) or nanoseconds.
type Setting = [[u64; 2]; 2];

fn micros(part: [u64; 2]) -> u64 {
    part[0] * 1_000_000 + part[1]
}

fn of_micros(micros: u64) -> [u64; 2] {
    [micros / 1_000_000, micros % 1_000_000]
}

fn set_interval(which: i32, setting: Setting) -> Setting {
    let mut old = Setting::default();
    // SAFETY: the kernel reads one itimerval and writes one.
    unsafe { syscall!(libc::SYS_setitimer, which, setting.as_ptr(), old.as_mut_ptr()) };
    old
}

/// What is set now. getitimer(2)
fn interval(which: i32) -> Setting {
    let mut setting = Setting::default();
    // SAFETY: the kernel writes one itimerval.
    unsafe { syscall!(libc::SYS_getitimer, which, setting.as_mut_ptr()) };
    setting
}

/// Whether the interval timer of a clock is counting now.
pub(super) fn classic_is_taken(clock: Clock) -> bool {
    micros(interval(classic_timer(clock).0)[1]) != 0
}

/// Arms the interval timer of a clock.
pub(super) fn arm_classic(clock: Clock, epoch: u32, period_ns: u64) {
    let (which, signal) = classic_timer(clock);
    CLASSIC_EPOCH.store(epoch, Ordering::Relaxed);
    setting(|| {
        CLASSIC_SIGNAL.store(signal, Ordering::SeqCst);
        set_interval(which, [of_micros(period_ns / 1_000); 2]);
    });
}

/// Sets the interval timer, unless a thread is on its way to exec, which an armed one would survive.
fn setting(set: impl FnOnce()) {
    SETTING.store(true, Ordering::SeqCst);
    if !LEAVING.load(Ordering::SeqCst) {
        set();
    }
    SETTING.store(false, Ordering::SeqCst);
}

/// From now on no interval timer is armed. For a thread on its way to exec.
pub(super) fn leave() {
    LEAVING.store(true, Ordering::SeqCst);
    // The agent thread is between looking there and setting the timer: a few instructions.
    while SETTING.load(Ordering::SeqCst) {
        if state::MAY_CALL.load(Ordering::Relaxed) {
            sys::yield_now();
        }
        core::hint::spin_loop();
    }
}

/// The exec has failed.
pub(super) fn stay() {
    LEAVING.store(false, Ordering::Relaxed);
}

/// Disarms the interval timer of ours, if there is one, and returns its signal (else 0).
pub(super) fn disarm_classic() -> i32 {
    let signal = CLASSIC_SIGNAL.load(Ordering::Acquire);
    if let Some(which) = armed_timer() {
        LATE_SIGNAL.store(signal, Ordering::Release);
        CLASSIC_SIGNAL.store(0, Ordering::Release);
        set_interval(which, Setting::default());
    }
    signal
}

/// The number of the interval timer that is armed.
fn armed_timer() -> Option<i32> {
    let signal = classic_signal();
    let timers = [Clock::Prof, Clock::Real, Clock::Virtual].map(classic_timer);
    timers.into_iter().find(|timer| timer.1 == signal).map(|timer| timer.0)
}

/// A fork child has no interval timers; and the interval timer of a target that has set it itself is not ours any more.
pub(super) fn forget_classic() {
    CLASSIC_SIGNAL.store(0, Ordering::Relaxed);
    LATE_SIGNAL.store(0, Ordering::Relaxed);
    SETTING.store(false, Ordering::Relaxed);
    LEAVING.store(false, Ordering::Relaxed);
}

/// CPU time of the calling thread, ns.
fn own_cpu_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The agent thread is setting the interval timer. A thread on its way to exec waits for the end of it.
static SETTING: AtomicBool = AtomicBool::new(false);
/// A thread is on its way to exec. Written by it, and by the agent thread when it has not got there.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// The interval timer that counts CPU time, stopped while the agent thread works: what it uses is
/// not the target's, and a tick of it would be sent to a thread that sleeps, and wake it.
#[derive(Default)]
pub(super) struct Held {
    classic: Option<i32>,
    classic_left: Setting,
    classic_is_stopped: bool,
    /// CPU time of the agent thread when it was let go; 0 while it is stopped, ns.
    released_ns: u64,
}

impl Held {
    /// Stops it if it counts CPU time, and not while the only thread is `busy`: the kernel gives
    /// such a timer a tick of its own more whenever it is set. The others are looked at. For the
    /// agent thread alone.
    ///
    /// What the agent thread needs to fall asleep and to come here again is given back: little as it is, it would be a tick in the end.
    pub(super) fn hold(&mut self, busy: bool) {
        let before = core::mem::take(self);
        let own_ns = if before.released_ns > 0 { own_cpu_ns().saturating_sub(before.released_ns) } else { 0 };
        self.classic = armed_timer();
        self.classic_is_stopped = self.classic.is_some_and(|which| which != 0) && !busy;
        self.classic_left = match self.classic {
            None => Setting::default(),
            Some(which) if self.classic_is_stopped => set_interval(which, Setting::default()),
            Some(which) => interval(which),
        };
        let [_, left] = &mut self.classic_left;
        if *left != [0, 0] && self.classic_is_stopped && self.classic == Some(classic_timer(Clock::Prof).0) {
            *left = of_micros(micros(*left) + own_ns / 1_000);
        }
    }

    /// Lets it go on from where it was, but for one that is not ours any more.
    pub(super) fn release(&mut self) {
        if self.classic_is_stopped {
            setting(|| {
                if armed_timer() == self.classic {
                    self.give_back();
                }
            });
            self.released_ns = own_cpu_ns();
        }
    }

    /// Sets the interval timer as it was found, whosever it is.
    pub(super) fn give_back(&self) {
        let [interval, left] = self.classic_left;
        if let Some(which) = self.classic
            && self.classic_is_stopped
            && micros(left) > 0
        {
            // The kernel adds a tick of its own to every time that is set.
            let left = micros(left).saturating_sub(sys::tick_ns() / 1_000);
            set_interval(which, [interval, of_micros(left.max(1))]);
        }
    }

    /// The interval of the interval timer, µs.
    pub(super) fn classic_interval_us(&self) -> u64 {
        micros(self.classic_left[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_carry_kind_epoch_and_thread() {
        for kind in [TickKind::Thread, TickKind::Birth, TickKind::Young, TickKind::Wake] {
            let value = kind.value(1021, 4_194_303);
            assert_eq!((TickKind::of(value), epoch_of(value), tid_of(value)), (Some(kind), 1021, 4_194_303));
        }
        assert_eq!(TickKind::of(42), None);
        assert_eq!(epoch_of(TickKind::Wake.value(1024 + 5, 1)), 5, "epochs wrap");
    }
}

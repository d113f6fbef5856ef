//! The interval timers of a process, setitimer(2).
//!
//! An interval timer survives exec and its signal would kill the next program, so it is disarmed
//! before.

use crate::wire::Clock;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::agent::os::syscall::{self, syscall};
use crate::agent::signals::tick_signal::SI_TIMER;
use crate::agent::state;
use crate::agent::timers::phase::Phase;
use crate::agent::timers::timer::TickKind;

/// Returns whether a signal with this code and value is a tick of the agent's.
pub(crate) fn is_tick(signal: i32, code: i32, value: u64) -> bool {
    const SI_KERNEL: i32 = 0x80;
    match code {
        SI_TIMER => TickKind::of(value).is_some(),
        SI_KERNEL => is_classic(signal) || is_late(signal),
        _ => false,
    }
}

/// Signal of the armed interval timer, or 0. Written by the agent thread, and by a thread of the
/// target before exec.
static CLASSIC_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Signals of the interval timers that were disarmed, while a tick of them may still come: bit n−1
/// is signal n. Written by the agent thread.
static LATE_SIGNALS: AtomicU64 = AtomicU64::new(0);
/// Those of them that have been pending since. A thread that blocks such a signal, or gets no CPU,
/// receives it much later. Written by the agent thread.
static PENDING_SIGNALS: AtomicU64 = AtomicU64::new(0);
/// Epoch of the interval timer's ticks, which carry no value.
static CLASSIC_EPOCH: AtomicU32 = AtomicU32::new(0);

/// Returns the interval timer of a clock, and its signal. setitimer(2)
pub(crate) fn classic_timer(clock: Clock) -> (i32, i32) {
    match clock {
        Clock::Prof => (2, libc::SIGPROF),
        Clock::Real => (0, libc::SIGALRM),
        Clock::Virtual => (1, libc::SIGVTALRM),
        Clock::Alloc | Clock::Live => (2, libc::SIGPROF),
    }
}

/// Returns the signal of the armed interval timer, or 0.
pub(crate) fn classic_signal() -> i32 {
    CLASSIC_SIGNAL.load(Ordering::Relaxed)
}

/// Returns whether a signal from the kernel is a tick of the armed interval timer.
pub(crate) fn is_classic(signal: i32) -> bool {
    classic_signal() == signal
}

/// Returns whether a signal from the kernel is a late tick of an interval timer that the agent has
/// disarmed.
pub(crate) fn is_late(signal: i32) -> bool {
    LATE_SIGNALS.load(Ordering::Relaxed) & bit(signal) != 0
}

/// Records that no tick is on its way any more, except for those that are still pending. Returns
/// whether there are none. For the agent thread, which blocks all signals.
pub(crate) fn forget_late() -> bool {
    let pending = pending() & PENDING_SIGNALS.load(Ordering::Relaxed);
    PENDING_SIGNALS.store(pending, Ordering::Relaxed);
    LATE_SIGNALS.fetch_and(pending, Ordering::Relaxed);
    pending == 0
}

fn pending() -> u64 {
    if state::syscalls_forbidden() { 0 } else { syscall::pending_signals() }
}

fn bit(signal: i32) -> u64 {
    1u64.checked_shl((signal - 1) as u32).unwrap_or(0)
}

/// Returns the epoch of the interval timer's ticks.
pub(crate) fn classic_epoch() -> u32 {
    CLASSIC_EPOCH.load(Ordering::Relaxed)
}

/// Interval of a timer and time to its next tick, in seconds and microseconds (`struct itimerval`).
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

/// Sets a timer of CPU time that the agent has stopped. If the target has set it since, its setting
/// is restored.
fn resume(which: i32, [interval, left]: Setting) {
    // The kernel adds one tick of the scheduler to every time that is set.
    let set = |[interval, left]: Setting| {
        let left_us = micros(left).saturating_sub(syscall::tick_ns() / 1_000);
        set_interval(which, [interval, of_micros(left_us.max(1))])
    };
    let targets = set([interval, left]);
    if targets[1] != [0, 0] {
        set(targets);
    }
}

/// Returns the present setting. getitimer(2)
fn interval(which: i32) -> Setting {
    let mut setting = Setting::default();
    // SAFETY: the kernel writes one itimerval.
    unsafe { syscall!(libc::SYS_getitimer, which, setting.as_mut_ptr()) };
    setting
}

/// Returns whether the interval timer of a clock is running.
pub(crate) fn classic_is_taken(clock: Clock) -> bool {
    micros(interval(classic_timer(clock).0)[1]) != 0
}

/// Arms the interval timer of a clock.
pub(crate) fn arm_classic(clock: Clock, epoch: u32, period_ns: u64) {
    let (which, signal) = classic_timer(clock);
    CLASSIC_EPOCH.store(epoch, Ordering::Relaxed);
    setting(|| {
        CLASSIC_SIGNAL.store(signal, Ordering::SeqCst);
        set_interval(which, [of_micros(period_ns / 1_000); 2]);
    });
}

/// Sets the interval timer, unless a thread is about to exec, which an armed one would survive.
fn setting(set: impl FnOnce()) {
    SETTING.store(true, Ordering::SeqCst);
    if !EXEC_PENDING.load(Ordering::SeqCst) {
        set();
    }
    SETTING.store(false, Ordering::SeqCst);
}

/// Forbids arming an interval timer. For a thread that is about to exec.
pub(crate) fn leave() {
    EXEC_PENDING.store(true, Ordering::SeqCst);
    // The agent thread is between the check and setting the timer, which takes a few instructions.
    while SETTING.load(Ordering::SeqCst) {
        if state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
            syscall::yield_now();
        }
        core::hint::spin_loop();
    }
}

/// Allows arming again, because the exec has failed.
pub(crate) fn stay() {
    EXEC_PENDING.store(false, Ordering::Relaxed);
}

/// Disarms the agent's interval timer, if there is one. Returns its signal, or 0.
pub(crate) fn disarm_classic() -> i32 {
    let signal = CLASSIC_SIGNAL.load(Ordering::Acquire);
    if let Some(which) = armed_timer() {
        LATE_SIGNALS.fetch_or(bit(signal), Ordering::Release);
        CLASSIC_SIGNAL.store(0, Ordering::Release);
        set_interval(which, Setting::default());
        PENDING_SIGNALS.fetch_or(pending() & bit(signal), Ordering::Relaxed);
    }
    signal
}

/// Returns the number of the armed interval timer.
fn armed_timer() -> Option<i32> {
    let signal = classic_signal();
    let timers = [Clock::Prof, Clock::Real, Clock::Virtual].map(classic_timer);
    timers.into_iter().find(|timer| timer.1 == signal).map(|timer| timer.0)
}

/// Forgets the interval timer: in a fork child, which has none, and when the target has set the
/// timer itself.
pub(crate) fn forget_classic() {
    CLASSIC_SIGNAL.store(0, Ordering::Relaxed);
    LATE_SIGNALS.store(0, Ordering::Relaxed);
    PENDING_SIGNALS.store(0, Ordering::Relaxed);
    SETTING.store(false, Ordering::Relaxed);
    EXEC_PENDING.store(false, Ordering::Relaxed);
}

/// Returns the CPU time of the calling thread, ns.
fn own_cpu_ns() -> u64 {
    syscall::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Whether the agent thread is setting the interval timer. A thread that is about to exec waits for
/// the end of that.
static SETTING: AtomicBool = AtomicBool::new(false);
/// Whether a thread is about to exec. Written by that thread, and by the agent thread if the exec
/// has failed.
static EXEC_PENDING: AtomicBool = AtomicBool::new(false);

/// An interval timer that counts CPU time, stopped while the agent thread works: the CPU time of
/// the agent thread is not the target's, and a tick of it would be sent to a sleeping thread and
/// wake it.
#[derive(Default)]
pub(crate) struct PausedTimer {
    classic: Option<i32>,
    classic_left: Setting,
    classic_is_stopped: bool,
    /// CPU time of the agent thread when the timer was resumed, ns; 0 while it is stopped.
    released_ns: u64,
}

impl PausedTimer {
    /// Stops the timer if it counts CPU time, unless the only thread is `busy`: the kernel adds a
    /// scheduler tick whenever such a timer is set. A timer that is not stopped is only read. For
    /// the agent thread alone.
    ///
    /// The CPU time that the agent thread used to fall asleep and to return here is added to the
    /// time left. It is little, but would add up to a tick.
    pub(crate) fn hold(&mut self, busy: bool) {
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

    /// Resumes the timer where it was stopped, unless it is not the agent's any more.
    pub(crate) fn release(&mut self) {
        if self.classic_is_stopped {
            setting(|| {
                if armed_timer() == self.classic {
                    self.give_back();
                }
            });
            self.released_ns = own_cpu_ns();
        }
    }

    /// Sets the interval timer as it was found, whether it is the agent's or the target's.
    pub(crate) fn give_back(&self) {
        if let Some(which) = self.classic
            && self.classic_is_stopped
            && self.classic_left[1] != [0, 0]
        {
            resume(which, self.classic_left);
        }
    }

    /// Chooses new expiry times of a stopped timer, unless a tick is on its way. Does nothing if
    /// the scheduler's tick, by which CPU time is checked, is longer than the period.
    pub(crate) fn change_phase(&mut self, phase: &mut Phase, period_ns: u64, random: &mut impl FnMut() -> u64) {
        let (tick_ns, [interval, left]) = (syscall::tick_ns(), self.classic_left);
        let is_ours = interval == of_micros(phase.interval_ns(period_ns) / 1_000);
        let Some(left_ns) = (micros(left) * 1_000).checked_sub(tick_ns) else { return };
        if self.classic_is_stopped
            && is_ours
            && phase.has_ticked()
            && period_ns > tick_ns
            && let Some((first_ns, interval_ns)) = phase.change(left_ns, period_ns, random)
        {
            self.classic_left = [of_micros(interval_ns / 1_000), of_micros((first_ns + tick_ns) / 1_000)];
        }
    }

    /// Returns the interval of the interval timer, µs.
    pub(crate) fn classic_interval_us(&self) -> u64 {
        micros(self.classic_left[0])
    }
}

//! Timers: what their ticks carry, POSIX timers for threads and for the process, and the classic interval timers.
//!
//! A tick's value holds its kind, the epoch of its configuration and the thread: `cookie << 32 | epoch << 22 | tid`. Linux
//! thread ids have 22 bits. Only signals of POSIX timers are dropped by the kernel at exec; an interval timer survives it
//! and would kill the next program, so it is disarmed before (see `guard`).

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::state::{self, Config};
use super::sys::syscall;
use crate::link::wire::Clock;

/// What a tick of a POSIX timer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum TickKind {
    /// Of a thread's CPU clock.
    Thread = 0x5167_7101,
    /// Sent by the agent thread to a thread, once a period of wall time.
    Wall = 0x5167_7102,
    /// Of the process's CPU clock: birth, and threads without a timer.
    Process = 0x5167_7103,
}

impl TickKind {
    /// The kind of a tick's value; `None` when the timer is not ours.
    pub(super) fn of(value: u64) -> Option<TickKind> {
        let kinds = [TickKind::Thread, TickKind::Wall, TickKind::Process];
        kinds.into_iter().find(|&kind| kind as u32 == (value >> 32) as u32)
    }

    fn value(self, epoch: u32, tid: u32) -> u64 {
        u64::from(self as u32) << 32 | u64::from(epoch & EPOCH_MASK) << TID_BITS | u64::from(tid & TID_MASK)
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
fn thread_clock(tid: u32) -> i32 {
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

    /// Ticks of a thread's CPU clock, sent to that thread; not armed yet. `None` when the kernel refuses (RLIMIT_SIGPENDING,
    /// seccomp, or the thread is gone). timer_create(2)
    pub(super) fn of_thread(tid: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(thread_clock(tid), SIGEV_THREAD_ID, signal, tid, TickKind::Thread.value(epoch, tid))
    }

    /// A tick sent to a thread whenever [`fire`](Self::fire)d.
    pub(super) fn of_wall(tid: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(libc::CLOCK_MONOTONIC, SIGEV_THREAD_ID, signal, tid, TickKind::Wall.value(epoch, tid))
    }

    /// Ticks of the process's CPU clock, sent to a thread that runs. They ride on SIGURG, whose default is to be ignored.
    pub(super) fn of_process(epoch: u32) -> Option<Timer> {
        let value = TickKind::Process.value(epoch, 0);
        Timer::create(libc::CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, libc::SIGURG, 0, value)
    }

    /// Ticks after `first_ns`, then every `period_ns` (0: never again). timer_settime(2)
    pub(super) fn arm(self, first_ns: u64, period_ns: u64) {
        let split = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000];
        let setting = [split(period_ns), split(first_ns.max(1))];
        // SAFETY: the kernel reads one itimerspec.
        unsafe { syscall!(libc::SYS_timer_settime, self.0, 0, setting.as_ptr(), 0usize) };
    }

    /// Ticks once, now.
    pub(super) fn fire(self) {
        self.arm(1, 0);
    }

    /// Gives it back. timer_delete(2)
    pub(super) fn delete(self) {
        // SAFETY: deletes a timer of ours.
        unsafe { syscall!(libc::SYS_timer_delete, self.0) };
    }
}

/// The process timer: its id, or -1. Written by the constructor and the fork hook, then by the agent thread.
static PROCESS_TIMER: AtomicI32 = AtomicI32::new(-1);

/// Arms the process timer for the first time, or anew for another epoch.
pub(super) fn arm_process_timer(epoch: u32, config: Config) {
    delete_process_timer();
    state::configure(epoch, config);
    if let Some(timer) = Timer::of_process(epoch) {
        PROCESS_TIMER.store(timer.0, Ordering::Relaxed);
        timer.arm(config.period_ns, config.period_ns);
    }
}

/// Takes the process timer away.
pub(super) fn delete_process_timer() {
    let id = PROCESS_TIMER.swap(-1, Ordering::Relaxed);
    if id >= 0 {
        Timer(id).delete();
    }
}

/// A fork child has no timers: forgets the id of its parent's.
pub(super) fn forget_process_timer() {
    PROCESS_TIMER.store(-1, Ordering::Relaxed);
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

/// Whether a signal from the kernel is the armed interval timer's.
pub(super) fn is_classic(signal: i32) -> bool {
    CLASSIC_SIGNAL.load(Ordering::Relaxed) == signal
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

/// Microseconds as the kernel keeps them for an interval timer: interval and time to the next tick.
type Interval = [[u64; 2]; 2];

fn set_interval(which: i32, period_ns: u64) {
    let micros = period_ns / 1_000;
    let part = [micros / 1_000_000, micros % 1_000_000];
    let setting: Interval = [part, part];
    // SAFETY: the kernel reads one itimerval.
    unsafe { syscall!(libc::SYS_setitimer, which, setting.as_ptr(), 0usize) };
}

/// The interval of an interval timer, µs, and whether it is counting now. getitimer(2)
pub(super) fn classic_interval_us(clock: Clock) -> (u64, bool) {
    let mut setting: Interval = [[0; 2]; 2];
    // SAFETY: the kernel writes one itimerval.
    unsafe { syscall!(libc::SYS_getitimer, classic_timer(clock).0, setting.as_mut_ptr()) };
    let micros = |part: [u64; 2]| part[0] * 1_000_000 + part[1];
    (micros(setting[0]), micros(setting[1]) != 0)
}

/// Arms the interval timer of a clock.
pub(super) fn arm_classic(clock: Clock, epoch: u32, period_ns: u64) {
    let (which, signal) = classic_timer(clock);
    CLASSIC_EPOCH.store(epoch, Ordering::Relaxed);
    CLASSIC_SIGNAL.store(signal, Ordering::Release);
    set_interval(which, period_ns);
}

/// Disarms the interval timer of ours, if there is one, and returns its signal (else 0).
pub(super) fn disarm_classic() -> i32 {
    let signal = CLASSIC_SIGNAL.load(Ordering::Acquire);
    if signal != 0 {
        LATE_SIGNAL.store(signal, Ordering::Release);
        CLASSIC_SIGNAL.store(0, Ordering::Release);
    }
    if let Some(clock) = [Clock::Prof, Clock::Real, Clock::Virtual].into_iter().find(|&c| classic_timer(c).1 == signal)
    {
        set_interval(classic_timer(clock).0, 0);
    }
    signal
}

/// A fork child has no interval timers.
pub(super) fn forget_classic() {
    CLASSIC_SIGNAL.store(0, Ordering::Relaxed);
    LATE_SIGNAL.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_carry_kind_epoch_and_thread() {
        for kind in [TickKind::Thread, TickKind::Wall, TickKind::Process] {
            let value = kind.value(1021, 4_194_303);
            assert_eq!((TickKind::of(value), epoch_of(value), tid_of(value)), (Some(kind), 1021, 4_194_303));
        }
        assert_eq!(TickKind::of(42), None);
        assert_eq!(epoch_of(TickKind::Wall.value(1024 + 5, 1)), 5, "epochs wrap");
    }
}

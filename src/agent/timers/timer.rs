//! POSIX timers, and the values that their ticks carry.
//!
//! A value holds the kind of the tick, the epoch of its configuration and the thread: `cookie << 32
//! | epoch << 22 | tid`. Linux thread ids have 22 bits. The kernel deletes POSIX timers at exec.

use crate::agent::os::syscall::{self, syscall};
use core::sync::atomic::{AtomicU64, Ordering};

/// The meaning of a POSIX timer's tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum TickKind {
    /// A tick of a thread's CPU clock.
    Thread = 0x5167_7101,
    /// The first tick of a thread, before there is an agent thread: it starts that thread.
    First = 0x5167_7103,
    /// A tick of the CPU clock of a thread that has just started.
    NewThread = 0x5167_7105,
    /// A tick of the process's CPU clock, for the agent thread alone: the process has used some CPU
    /// time. Armed only where handlers may not make system calls; see [`Timer::of_agent`].
    Wake = 0x5167_7104,
}

impl TickKind {
    /// Returns the kind of a tick's value; `None` if the timer is not the agent's.
    pub(crate) fn of(value: u64) -> Option<TickKind> {
        let kinds = [TickKind::Thread, TickKind::First, TickKind::NewThread, TickKind::Wake];
        kinds.into_iter().find(|&kind| kind as u32 == (value >> 32) as u32)
    }

    pub(super) fn value(self, epoch: u32, tid: u32) -> u64 {
        u64::from(self as u32) << 32 | u64::from(epoch & EPOCH_MASK) << TID_BITS | u64::from(tid & TID_MASK)
    }
}

const TID_BITS: u32 = 22;
const TID_MASK: u32 = (1 << TID_BITS) - 1;
const EPOCH_MASK: u32 = (1 << (32 - TID_BITS)) - 1;

/// Returns the epoch in a tick's value.
pub(crate) fn epoch_of(value: u64) -> u32 {
    value as u32 >> TID_BITS
}

/// Returns the thread in a tick's value.
pub(crate) fn tid_of(value: u64) -> u32 {
    value as u32 & TID_MASK
}

/// A timer of the kernel's. It is deleted explicitly, not on drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer(i32);

const SIGEV_THREAD_ID: i32 = 4;

/// The kernel's sigevent.
#[repr(C)]
struct TimerEvent {
    value: u64,
    signal: i32,
    notify: i32,
    tid: u32,
    _pad: [u32; 11],
}

/// Returns the clock id of the CPU time of a thread of this process.
pub(crate) fn thread_clock(tid: u32) -> i32 {
    !(tid as i32) << 3 | 6
}

impl Timer {
    fn create(clock: i32, notify: i32, signal: i32, tid: u32, value: u64) -> Option<Timer> {
        let event = TimerEvent { value, signal, notify, tid, _pad: [0; 11] };
        let mut id = -1i32;
        // SAFETY: the kernel reads one sigevent and writes one id.
        let result = unsafe { syscall!(libc::SYS_timer_create, clock, &raw const event, &raw mut id) };
        (result == 0).then_some(Timer(id))
    }

    /// Creates a timer of a thread's CPU clock whose ticks are sent to that thread; not armed yet.
    /// Returns `None` if the kernel refuses (RLIMIT_SIGPENDING, seccomp, or the thread is gone).
    /// `named` is the thread id that the ticks carry, `tid` the one in the process's own namespace.
    /// timer_create(2)
    pub(crate) fn of_thread(tid: u32, named: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(thread_clock(tid), SIGEV_THREAD_ID, signal, tid, TickKind::Thread.value(epoch, named))
    }

    /// Creates a timer of the CPU clock of the calling thread, which has just started; not armed
    /// yet.
    pub(crate) fn of_new_thread(tid: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(thread_clock(tid), SIGEV_THREAD_ID, signal, tid, TickKind::NewThread.value(epoch, tid))
    }

    /// Creates a timer of a thread's CPU clock for the time without an agent thread; not armed yet.
    pub(crate) fn of_first_tick(tid: u32, epoch: u32, signal: i32) -> Option<Timer> {
        Timer::create(thread_clock(tid), SIGEV_THREAD_ID, signal, tid, TickKind::First.value(epoch, tid))
    }

    /// Creates the timer that wakes the agent thread, whose id is `agent`, when the process has
    /// used CPU time; not armed yet. While a timer of the process's CPU clock is armed, the kernel
    /// updates that clock at scheduler ticks only, and the target reads it with that resolution.
    pub(crate) fn of_agent(agent: u32) -> Option<Timer> {
        let value = TickKind::Wake.value(0, agent);
        Timer::create(libc::CLOCK_PROCESS_CPUTIME_ID, SIGEV_THREAD_ID, syscall::WAKE_SIGNAL, agent, value)
    }

    /// Arms the timer: a tick after `first_ns`, then every `period_ns` (0: none). timer_settime(2)
    pub(crate) fn arm(self, first_ns: u64, period_ns: u64) {
        let setting = [split(period_ns), split(first_ns.max(1))];
        // SAFETY: the kernel reads one itimerspec.
        unsafe { syscall!(libc::SYS_timer_settime, self.0, 0, setting.as_ptr(), 0usize) };
    }

    /// Arms the timer of a first tick: with a random phase, then every period, or every tick of the
    /// scheduler where that is longer.
    pub(crate) fn arm_for_first_tick(self, period_ns: u64) {
        let period_ns = first_tick_period_ns(period_ns);
        self.arm(first_ns(seed() ^ self.0 as u64, period_ns), period_ns);
    }

    /// Arms the timer of a first tick in place of one that had so much time left, ns.
    pub(crate) fn rearm_for_first_tick(self, left_ns: u64, period_ns: u64) {
        self.arm(left_ns, first_tick_period_ns(period_ns));
    }

    /// Returns the time until the next tick, ns; 0 if the timer is not armed. timer_gettime(2)
    pub(crate) fn left_ns(self) -> u64 {
        let mut setting = [[0u64; 2]; 2];
        // SAFETY: the kernel writes one itimerspec.
        unsafe { syscall!(libc::SYS_timer_gettime, self.0, setting.as_mut_ptr()) };
        setting[1][0] * 1_000_000_000 + setting[1][1]
    }

    /// Returns whether the timer has expired and the kernel has not noticed it yet.
    pub(crate) fn is_overdue(self) -> bool {
        self.left_ns() == 1
    }

    /// Returns the timer's id.
    pub(crate) fn id(self) -> u32 {
        self.0 as u32
    }

    /// Returns the timer with this id.
    pub(crate) fn of_id(id: i32) -> Timer {
        Timer(id)
    }

    /// Deletes the timer. timer_delete(2)
    pub(crate) fn delete(self) {
        // SAFETY: deletes a timer of the agent's.
        unsafe { syscall!(libc::SYS_timer_delete, self.0) };
    }
}

/// Splits a time into seconds and nanoseconds.
fn split(ns: u64) -> [u64; 2] {
    [ns / 1_000_000_000, ns % 1_000_000_000]
}

/// The scheduler's tick, ns; 0 before it was read.
static TICK_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the scheduler's tick, ns: timers of CPU clocks expire only at these. Asks the kernel
/// once.
pub(crate) fn tick_ns() -> u64 {
    match TICK_NS.load(Ordering::Relaxed) {
        0 => {
            let tick_ns = syscall::tick_ns().max(1);
            TICK_NS.store(tick_ns, Ordering::Relaxed);
            tick_ns
        }
        tick_ns => tick_ns,
    }
}

/// Returns the time to the first expiry of a CPU-clock timer, ns, chosen so that every scheduler
/// tick within the period, from the next one on, is equally likely to be the timer's first. The
/// kernel notices an expiry at scheduler ticks only. A time counted from now instead of from the
/// last scheduler tick would be late by half a tick on average, which a short-lived thread would
/// miss at its end.
pub(crate) fn first_ns(random: u64, period_ns: u64) -> u64 {
    (random % period_ns.max(1)).saturating_sub(syscall::since_tick_ns()) + 1
}

/// Returns a number that differs from process to process.
fn seed() -> u64 {
    let mut mixed = syscall::monotonic_ns() ^ u64::from(syscall::getpid()) << 40;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns the time that a first tick stands for, ns: the period, or the scheduler's tick if that
/// is longer.
pub(crate) fn first_tick_period_ns(period_ns: u64) -> u64 {
    period_ns.max(tick_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_carry_kind_epoch_and_thread() {
        for kind in [TickKind::Thread, TickKind::First, TickKind::NewThread, TickKind::Wake] {
            let value = kind.value(1021, 4_194_303);
            assert_eq!((TickKind::of(value), epoch_of(value), tid_of(value)), (Some(kind), 1021, 4_194_303));
        }
        assert_eq!(TickKind::of(42), None);
        assert_eq!(epoch_of(TickKind::Wake.value(1024 + 5, 1)), 5, "epochs wrap");
    }
}

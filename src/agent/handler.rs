//! The signal handler: dispatches ticks, wake signals and everything else.
//!
//! It runs on any thread of the target, between any two instructions, with every signal blocked.
//! Its contract: it takes no lock, allocates nothing, touches no thread-local storage and no errno,
//! calls no libc function, and reads neither a clock nor the time-stamp counter. A tick of a known
//! thread makes no system call. The handler makes one to spawn the agent thread, to wake it, to
//! probe a page of a stack or code that the agent thread has not seen yet, and to get the thread id
//! in a tick of an interval timer. In a tick that finds an interpreter's loop on the stack it makes
//! a few more, to read the interpreter's frames. It makes none once a thread of the process is
//! under seccomp. Its reads of the stack and of the interpreter cannot fault. What it cannot do it
//! counts. A filter that the program gave to `ProfilerStartWithOptions` is called first, and what
//! that does is the program's responsibility.

use crate::agent::cpuprofile::control;
use crate::agent::os::{coarse_clock, syscall};
use crate::agent::sampling::counters::{self, TimerConfig};
use crate::agent::sampling::ring::RawSample;
use crate::agent::sampling::sample;
use crate::agent::signals::tick_signal::{self, SI_TIMER};
use crate::agent::signals::{actions, interrupted, stacks};
use crate::agent::timers::timer::{self, TickKind};
use crate::agent::timers::{interval_timer, new_threads};
use crate::agent::unwind::registers::Registers;
use crate::agent::{spawn, state};
use crate::arch::{is_handler_frame, return_from_handler, signal_handler};
use core::sync::atomic::Ordering;

use crate::wire::ring::{LEFT_OUT, word};
use crate::wire::{Clock, KNOCK_COOKIE};

/// The kernel's siginfo of a timer or of a queued signal, as far as it is used here.
#[repr(C)]
struct Info {
    signal: i32,
    errno: i32,
    code: i32,
    _pad: i32,
    /// Timer id, or pid of the sender of a queued signal.
    _source: i32,
    /// Overrun of a timer, or uid of the sender of a queued signal.
    overrun: i32,
    value: u64,
}

const SI_QUEUE: i32 = -1;
const SI_KERNEL: i32 = 0x80;
const SI_USER: i32 = 0;
const SI_TKILL: i32 = -6;

/// Address of the handler of the agent's signals.
pub(super) fn address() -> usize {
    on_signal as *const () as usize
}

signal_handler!(on_signal calls on_any_signal);

/// Returns from the handler that the caller runs in to the interrupted code, without unwinding
/// anything. Returns to the caller if it runs in no handler, or if system calls are not allowed.
pub(crate) fn leave() {
    const PAGE: usize = 4096;
    /// Maximum size of a handler's frames, in bytes.
    const DEPTH: usize = 64 * 1024;
    let here = 0u64;
    let mut at = &raw const here as usize & !7;
    let end = at + DEPTH;
    let mut readable_to = at;
    while at < end && state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
        if at >= readable_to {
            if !syscall::is_readable(at) {
                return;
            }
            readable_to = (at | (PAGE - 1)) + 1;
        }
        // SAFETY: the word is in a readable page of this thread's stack. The rest of the handler's
        // entry is executed in its place.
        unsafe {
            if is_handler_frame(at) {
                return_from_handler(at);
            }
        }
        at += 8;
    }
}

extern "C" fn on_any_signal(signal: i32, info: *const Info, context: *const u64) {
    #[cfg(sigtop_timed)]
    let begun = crate::agent::sampling::handler_time::now();
    receive(signal, info, context);
    #[cfg(sigtop_timed)]
    crate::agent::sampling::handler_time::count_since(begun);
}

#[inline(always)]
fn receive(signal: i32, info: *const Info, context: *const u64) {
    // SAFETY: the kernel passes a siginfo and a ucontext.
    let (code, overrun, value) = unsafe { ((*info).code, (*info).overrun, (*info).value) };
    match (code, TickKind::of(value)) {
        (SI_TIMER, Some(kind)) => {
            // SAFETY: the kernel's ucontext.
            unsafe { interrupted::count(context) };
            let epoch = timer::epoch_of(value);
            let ticks = 1 + overrun.max(0) as u64;
            let weight_ns = |period_ns: u64| period_ns.saturating_mul(ticks);
            match kind {
                // The agent thread weighs ticks of the wall clock, because it knows for how long
                // this thread ran.
                TickKind::Thread => {
                    let TimerConfig { clock, period_ns } = counters::config(epoch);
                    let weight_ns = if clock == Clock::Real { 0 } else { weight_ns(period_ns) };
                    tick(timer::tid_of(value), epoch, weight_ns, context);
                }
                TickKind::NewThread => {
                    tick(timer::tid_of(value), epoch, timer::tick_ns().saturating_mul(ticks), context)
                }
                // The agent thread waits for this one without a handler.
                TickKind::Wake => {}
                TickKind::First => first_tick(timer::tid_of(value), epoch, ticks, context),
            }
        }
        (SI_KERNEL, _) if interval_timer::is_classic(signal) && state::in_own_process() => {
            // SAFETY: the kernel's ucontext.
            unsafe { interrupted::count(context) };
            // A child that was made without libc, with an interval timer of its own, has neither
            // ring nor slots. The agent thread weighs the tick, because the kernel sends more or
            // fewer of these than the interval says, and gives no count.
            tick(thread_id(), interval_timer::classic_epoch(), 0, context);
        }
        (SI_KERNEL, _) if interval_timer::is_late(signal) => {}
        (SI_USER | SI_TKILL, _) if control::is_toggle_signal(signal) => {
            if control::toggle() {
                spawn::call_agent();
            }
        }
        (SI_QUEUE, _) if value >> 32 == u64::from(KNOCK_COOKIE) && tick_signal::is_candidate(signal) => {
            // SAFETY: the kernel's ucontext.
            unsafe { interrupted::count(context) };
            knock(value as u32);
        }
        _ => {
            counters::count(word::FOREIGN, 1);
            // SAFETY: these are the arguments that the kernel passed.
            unsafe { actions::forward(signal, info.cast::<()>().cast_mut(), context.cast_mut()) };
        }
    }
}

/// Returns the caller's thread id where system calls are allowed, else 0.
fn thread_id() -> u32 {
    if state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) { syscall::gettid() } else { 0 }
}

/// Handles a wake signal (knock) of a viewer that wants to be called.
fn knock(viewer: u32) {
    // A vfork child runs in its parent's memory: an agent thread spawned there would belong to the
    // child and end with it.
    if !state::in_own_process() || state::DISABLED.load(Ordering::Relaxed) {
        return;
    }
    state::KNOCK.store(viewer, Ordering::Release);
    // Where a filter may forbid both, an existing agent thread finds the request by itself, and
    // none is spawned.
    if !state::FILTERED.load(Ordering::Relaxed) {
        match state::AGENT.load(Ordering::Acquire) {
            0 => spawn::spawn_agent_thread(),
            _ => state::wake(),
        }
    }
}

/// Handles a tick of the timers that wait for the first one: spawns the agent thread, which deletes
/// them. The tick is weighed like any other, so CPU time before it is sampled too.
fn first_tick(tid: u32, epoch: u32, ticks: u64, context: *const u64) {
    match state::AGENT.load(Ordering::Acquire) {
        0 => {
            if !state::in_own_process() || state::DISABLED.load(Ordering::Relaxed) {
                return;
            }
            // This holds until the agent thread has checked: in a process under seccomp it could
            // not be spawned.
            state::SYSCALLS_ALLOWED.store(true, Ordering::Relaxed);
            spawn::spawn_agent_thread();
        }
        // The agent thread has not given every thread a timer yet.
        _ if tick_signal::in_force().0 == 0 || new_threads::has_timer(tid) => {}
        _ => return,
    }
    let TimerConfig { clock, period_ns } = counters::config(epoch);
    // For other clocks the tick only spawns the agent thread.
    if clock == Clock::Prof {
        tick(tid, epoch, timer::first_tick_period_ns(period_ns).saturating_mul(ticks), context);
    }
}

fn tick(tid: u32, epoch: u32, weight_ns: u64, context: *const u64) {
    if state::DISABLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the kernel's ucontext, of a handler that returns.
    let registers = unsafe {
        stacks::lend(context.cast_mut(), tid);
        Registers::of(context)
    };
    let flags = if control::is_excluded_by_filter() { LEFT_OUT } else { 0 };
    let detail = coarse_clock::now_ns();
    sample::record_sample(RawSample { tid, epoch, weight_ns, flags, detail, ..RawSample::default() }, registers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::os::syscall::KernelAction;

    static CAME: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

    signal_handler!(on_broken calls broken);

    extern "C" fn broken(signal: i32, _: *const Info, _: *const u64) {
        CAME.store(signal as u32, Ordering::Relaxed);
        deeper(4);
        CAME.store(0, Ordering::Relaxed);
    }

    #[inline(never)]
    fn deeper(levels: u32) {
        let room = core::hint::black_box([levels; 20]);
        if levels == 0 {
            leave();
        } else {
            deeper(room[1] - 1);
        }
        core::hint::black_box(room);
    }

    #[test]
    fn a_handler_is_left_from_its_depths_and_outside_of_one_nothing_is_left() {
        state::SYSCALLS_ALLOWED.store(true, Ordering::Relaxed);
        let action =
            KernelAction { handler: on_broken as *const () as usize, ..crate::agent::signals::actions::action() };
        // SAFETY: only this test uses the signal, and it is handled here.
        unsafe {
            syscall::set_signal_action(libc::SIGRTMAX() - 3, &action);
            libc::raise(libc::SIGRTMAX() - 3);
        }
        assert_eq!(CAME.load(Ordering::Relaxed), libc::SIGRTMAX() as u32 - 3, "the rest of the handler has not run");
        std::thread::spawn(leave).join().expect("back, having found no handler");
    }
}

//! The signal handler: a tick becomes a record, or is counted as lost.
//!
//! It runs on any thread of the target, between any two instructions, with every signal blocked.
//! Its contract: it takes no lock, allocates nothing, touches no thread-local storage and no errno,
//! calls no libc function, and reads no clock and no time-stamp counter. A tick of a thread that is
//! known makes no system call. One is made for a birth, for a stack or code that the agent thread
//! has not seen yet (a probe, a wake-up), and for a tick of an interval timer (the thread's id) —
//! and none at all once a thread of the process is under seccomp. What it reads of the stack cannot
//! fault. What it cannot do it counts. A filter of the program's own, which it gave to
//! `ProfilerStartWithOptions`, is asked first: what that does is the program's affair.

use core::sync::atomic::Ordering;

use super::guard;
use super::later::Later;
use super::order;
use super::ring::{RawSample, Ring};
use super::sigaltstack;
use super::signals;
use super::slot::{Claim, Pool};
use super::start;
use super::state::{self, Config};
use super::sys::{self, KernelAction};
use super::timer::{self, TickKind};
use super::unwind::{self, LiveStack, Registers};
use crate::link::wire::ring::{LEFT_OUT, STALE, word};
use crate::link::wire::{Clock, FrameAddress, KNOCK_COOKIE, Loss, flag};

/// Flags of our actions: restart what the tick interrupts, run on the alternate stack (Go insists), bring our restorer.
pub(super) const FLAGS: u64 = libc::SA_SIGINFO as u64 | libc::SA_RESTART as u64 | libc::SA_ONSTACK as u64 | 0x0400_0000;

/// The kernel's siginfo, as far as it is used here: of a timer, or of a queued signal.
#[repr(C)]
struct Info {
    signal: i32,
    errno: i32,
    code: i32,
    _pad: i32,
    /// Timer id; pid of a queued signal.
    _source: i32,
    /// Overrun of a timer; uid of a queued signal.
    overrun: i32,
    value: u64,
}

const SI_TIMER: i32 = -2;
const SI_QUEUE: i32 = -1;
const SI_KERNEL: i32 = 0x80;
const SI_USER: i32 = 0;
const SI_TKILL: i32 = -6;

core::arch::global_asm!(
    // Returns from a handler. Unwinders know it by these very bytes, and by the instruction before it.
    ".balign 16",
    "nop",
    ".globl sigtop_restorer",
    ".hidden sigtop_restorer",
    ".type sigtop_restorer, @function",
    "sigtop_restorer:",
    "mov rax, 15",
    "syscall",
    ".size sigtop_restorer, . - sigtop_restorer",
);

unsafe extern "C" {
    fn sigtop_restorer();
}

/// The action that brings signals here.
pub(super) fn action() -> KernelAction {
    KernelAction {
        handler: on_signal as *const () as usize,
        flags: FLAGS,
        restorer: sigtop_restorer as *const () as usize,
        mask: !0,
    }
}

/// Where the system call that ends a handler returns to, which it never does.
pub(super) fn return_address() -> u64 {
    /// Bytes of the restorer.
    const LENGTH: u64 = 9;
    sigtop_restorer as *const () as u64 + LENGTH
}

/// Whether an action is ours.
pub(super) fn is_ours(action: &KernelAction) -> bool {
    action.handler == on_signal as *const () as usize
}

/// Of the word that marks where a handler returns to: its own address, changed by this.
const MARK: u64 = 0x7369_6774_6f70_5e7f;

/// A handler that calls `$body` with its arguments, and keeps a mark below its return address for as long as that runs.
macro_rules! handler {
    ($name:ident calls $body:ident) => {
        #[unsafe(naked)]
        extern "C" fn $name(_signal: i32, _info: *const Info, _context: *const u64) {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "lea rax, [rsp - 8]",
                "movabs rcx, {mark}",
                "xor rax, rcx",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                "call {body}",
                "mov qword ptr [rsp], 0",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                mark = const MARK,
                body = sym $body,
            )
        }
    };
}

handler!(on_signal calls on_any_signal);

/// Returns from the handler that the caller runs in to what it interrupted, with all that was begun left as it is. It returns to its
/// caller if that is in none, or if system calls are not allowed.
pub(super) fn leave() {
    const PAGE: usize = 4096;
    /// Bytes that a handler has on its stack, at most.
    const DEPTH: usize = 64 * 1024;
    let here = 0u64;
    let mut at = &raw const here as usize & !7;
    let end = at + DEPTH;
    let mut readable_to = at;
    while at < end && state::MAY_CALL.load(Ordering::Relaxed) {
        if at >= readable_to {
            if !sys::readable(at) {
                return;
            }
            readable_to = (at | (PAGE - 1)) + 1;
        }
        // SAFETY: in a page of this thread's stack that can be read. At the mark the rest of the handler's entry is done in its stead.
        unsafe {
            if (at as *const u64).read_volatile() == at as u64 ^ MARK {
                (at as *mut u64).write_volatile(0);
                core::arch::asm!("mov rsp, {}", "ret", in(reg) at + 8, options(noreturn));
            }
        }
        at += 8;
    }
}

extern "C" fn on_any_signal(signal: i32, info: *const Info, context: *const u64) {
    #[cfg(sigtop_timed)]
    let begun = super::timing::now();
    receive(signal, info, context);
    #[cfg(sigtop_timed)]
    super::timing::count_since(begun);
}

#[inline(always)]
fn receive(signal: i32, info: *const Info, context: *const u64) {
    // SAFETY: the kernel gives a siginfo and a ucontext.
    let (code, overrun, value) = unsafe { ((*info).code, (*info).overrun, (*info).value) };
    match code {
        SI_TIMER if let Some(kind) = TickKind::of(value) => {
            let epoch = timer::epoch_of(value);
            let ticks = 1 + overrun.max(0) as u64;
            let weight_ns = |period_ns: u64| period_ns.saturating_mul(ticks);
            match kind {
                // By the wall clock weighed by the agent thread, which knows how long this one ran.
                TickKind::Thread => {
                    let Config { clock, period_ns } = state::config(epoch);
                    let weight_ns = if clock == Clock::Real { 0 } else { weight_ns(period_ns) };
                    tick(timer::tid_of(value), epoch, weight_ns, context);
                }
                TickKind::Young => tick(timer::tid_of(value), epoch, timer::tick_ns().saturating_mul(ticks), context),
                // For the agent thread, which takes it without a handler.
                TickKind::Wake => {}
                TickKind::Birth => first_tick(timer::tid_of(value), epoch, ticks, context),
            }
        }
        SI_KERNEL if timer::is_classic(signal) && state::is_at_home() => {
            // A child that was made behind libc's back, with an interval timer of its own, has neither ring nor slots. The tick is weighed
            // by the agent thread: the kernel gives more of these than their interval says, or fewer, and no count.
            tick(thread_id(), timer::classic_epoch(), 0, context);
        }
        SI_KERNEL if timer::is_late(signal) => {}
        SI_USER | SI_TKILL if order::is_switch(signal) => order::switch(),
        SI_QUEUE if value >> 32 == u64::from(KNOCK_COOKIE) && signals::is_candidate(signal) => knock(value as u32),
        _ => {
            state::count(word::FOREIGN, 1);
            // SAFETY: these are the arguments that the kernel gave.
            unsafe { guard::pass_on(signal, info.cast::<()>().cast_mut(), context.cast_mut()) };
        }
    }
}

/// The caller's thread id where system calls are allowed, else 0.
fn thread_id() -> u32 {
    if state::MAY_CALL.load(Ordering::Relaxed) { sys::gettid() } else { 0 }
}

/// A viewer wants to be called.
fn knock(viewer: u32) {
    // A vfork child runs in its parent's memory: an agent born there would be the child's, and die with it.
    if !state::is_at_home() || state::DISABLED.load(Ordering::Relaxed) {
        return;
    }
    state::KNOCK.store(viewer, Ordering::Release);
    // Where a filter may forbid both, an agent that is there looks by itself, and one that is not stays unborn.
    if !state::FILTERED.load(Ordering::Relaxed) {
        match state::AGENT.load(Ordering::Acquire) {
            0 => start::give_birth(),
            _ => state::wake(),
        }
    }
}

/// A tick of the timers that wait for the first one: gives birth to the agent, which takes them
/// away. It weighs like any other, so that what was used before is sampled too.
fn first_tick(tid: u32, epoch: u32, ticks: u64, context: *const u64) {
    match state::AGENT.load(Ordering::Acquire) {
        0 => {
            if !state::is_at_home() || state::DISABLED.load(Ordering::Relaxed) {
                return;
            }
            // Until the thread looks: a process under seccomp would not get as far as the birth.
            state::MAY_CALL.store(true, Ordering::Relaxed);
            start::give_birth();
        }
        // Until the agent thread has given every thread a timer.
        _ if signals::in_force().0 == 0 => {}
        _ => return,
    }
    let Config { clock, period_ns } = state::config(epoch);
    // For another clock it only gives birth.
    if clock == Clock::Prof {
        let (tid, periods) = if tid == 0 { (thread_id(), timer::PATIENT) } else { (tid, 1) };
        tick(tid, epoch, timer::birth_period_ns(period_ns).saturating_mul(periods * ticks), context);
    }
}

/// What the part on the slot's stack needs.
struct Work<'a> {
    claim: &'a mut Claim,
    ring: &'a Ring,
    sample: RawSample,
    registers: Registers,
    kept: bool,
}

fn tick(tid: u32, epoch: u32, weight_ns: u64, context: *const u64) {
    if state::DISABLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the kernel's ucontext, of a handler that returns.
    let registers = unsafe {
        sigaltstack::lend(context.cast_mut(), tid);
        Registers::of(context)
    };
    let flags = if order::is_left_out() { LEFT_OUT } else { 0 };
    sample(RawSample { tid, epoch, weight_ns, flags, ..RawSample::default() }, registers);
}

/// A sample that the target takes of itself, with every signal blocked: false when there is no agent to take it.
pub(super) fn sample_by_hand(registers: Registers) -> bool {
    let ready = !state::POOL.load(Ordering::Acquire).is_null() && !state::RING.load(Ordering::Acquire).is_null();
    if !ready || state::DISABLED.load(Ordering::Relaxed) {
        return false;
    }
    let epoch = start::epoch();
    let weight_ns = state::config(epoch).period_ns;
    sample(RawSample { tid: sys::gettid(), epoch, weight_ns, ..RawSample::default() }, registers);
    true
}

fn sample(sample: RawSample, registers: Registers) {
    let weight_ns = sample.weight_ns;
    let pool = state::POOL.load(Ordering::Acquire);
    if pool.is_null() {
        return keep_early(&sample, registers);
    }
    // SAFETY: published once and never freed.
    let pool: &'static Pool = unsafe { &*pool };
    let Some(mut claim) = pool.claim(registers.sp()) else {
        state::count(word::TICKS, 1);
        return state::lose(Loss::NoSlot, 1, weight_ns);
    };
    // Loaded after the slot was claimed: see `state::RING`.
    let ring = state::RING.load(Ordering::SeqCst);
    if ring.is_null() {
        drop(claim);
        return keep_early(&sample, registers);
    }
    // SAFETY: never freed.
    let ring: &'static Ring = unsafe { &*ring };
    state::count(word::TICKS, 1);
    let stack = claim.stack();
    let mut work = Work { claim: &mut claim, ring, sample, registers, kept: false };
    // SAFETY: the claim is held; `take` expects a Work, which outlives the call.
    let returned = unsafe { stack.run(take, (&raw mut work).cast()) };
    if !(returned && work.kept) {
        state::lose(Loss::RingFull, 1, weight_ns);
    }
}

extern "C" fn take(work: *mut ()) {
    // SAFETY: `tick` gives a Work.
    let work = unsafe { &mut *work.cast::<Work<'_>>() };
    let snapshot = state::SNAPSHOT.load(Ordering::SeqCst);
    if snapshot.is_null() {
        let leaf = FrameAddress::Instruction(work.registers.ip()).pack();
        work.sample.flags |= flag::UNREADABLE;
        work.kept = work.ring.push(&work.sample, &[leaf]);
        return;
    }
    // SAFETY: loaded after the slot was claimed, so the agent thread keeps it until this handler returns.
    let snapshot = unsafe { &*snapshot };
    let (cache, frames) = work.claim.parts();
    let may_call = state::MAY_CALL.load(Ordering::Relaxed);
    let mut stack = LiveStack::new(snapshot, work.registers.sp(), may_call);
    let walk = unwind::walk(snapshot, cache, work.registers, &mut stack, frames);
    state::count(word::FRAMES, walk.depth as u64);
    #[cfg(sigtop_timed)]
    {
        super::timing::count_depth(walk.depth);
        let mut again = LiveStack::new(snapshot, work.registers.sp(), may_call);
        super::timing::aside(|| unwind::walk(snapshot, cache, work.registers, &mut again, frames).depth);
    }
    work.sample.generation = snapshot.generation();
    work.sample.flags |= walk.flags | if walk.uncovered { STALE } else { 0 };
    if walk.uncovered && may_call {
        if walk.flags & flag::TRUNCATED != 0 && state::CURIOUS.load(Ordering::Relaxed) {
            // Perhaps in a library that was loaded just now: the agent thread walks it when it has read the maps.
            let later = state::LATER.load(Ordering::Acquire);
            // SAFETY: published once and never freed.
            work.kept = !later.is_null() && unsafe { &*later }.keep(&work.sample, work.registers);
        }
        if !state::WANT_MODULES.swap(true, Ordering::Relaxed) {
            state::wake();
        }
        if work.kept {
            return;
        }
    }
    work.kept = work.ring.push(&work.sample, &frames[..walk.depth]);
}

/// A tick before the agent thread has made pool and ring. It is not under seccomp yet, or the birth would have failed.
fn keep_early(sample: &RawSample, registers: Registers) {
    state::count(word::TICKS, 1);
    let mut later = state::LATER.load(Ordering::Acquire);
    if later.is_null() && state::MAY_CALL.load(Ordering::Relaxed) {
        later = room_for_later();
    }
    // SAFETY: published once and never freed.
    let kept = !later.is_null() && unsafe { &*later }.keep(sample, registers);
    if !kept {
        state::lose(Loss::NotReady, 1, sample.weight_ns);
    }
}

/// Room for ticks that are walked later, made by whoever needs it first; null without memory.
pub(super) fn room_for_later() -> *mut Later {
    let fresh = Later::pages();
    if fresh.is_null() {
        return fresh;
    }
    match state::LATER.compare_exchange(core::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(other) => {
            // SAFETY: made just now and shown to nobody.
            unsafe { Later::release(fresh) };
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CAME: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

    handler!(on_broken calls broken);

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
        state::MAY_CALL.store(true, Ordering::Relaxed);
        let action = KernelAction { handler: on_broken as *const () as usize, ..action() };
        // SAFETY: the signal is this test's alone, and is handled here.
        unsafe {
            sys::set_action(libc::SIGRTMAX() - 3, &action);
            libc::raise(libc::SIGRTMAX() - 3);
        }
        assert_eq!(CAME.load(Ordering::Relaxed), libc::SIGRTMAX() as u32 - 3, "the rest of the handler has not run");
        std::thread::spawn(leave).join().expect("back, having found no handler");
    }
}

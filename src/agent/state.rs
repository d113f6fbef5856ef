//! What the handlers and the agent thread share: a handful of atomics and three pointers. Each says who writes it.
//!
//! Everything here is valid when zero, and is made anew for a fork child by [`forget`].

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::later::Later;
use super::modules::Snapshot;
use super::ring::Ring;
use super::slot::Pool;
use super::{sys, user_dispatch};
use crate::link::wire::ring::{self, EPOCHS, word};
use crate::link::wire::{Clock, Loss};

/// Value of [`AGENT`] while a handler makes the thread.
pub(super) const BIRTH: u32 = u32::MAX;

/// Process that this state belongs to. Written by the constructor and the fork hook; a vfork child sees its parent's.
pub(super) static OWNER: AtomicU32 = AtomicU32::new(0);
/// Thread id of the agent thread; 0 when there is none, [`BIRTH`] while it is made. The kernel stores the id at its birth
/// and 0 after its death, when its stack is free again.
pub(super) static AGENT: AtomicU32 = AtomicU32::new(0);
/// Pid of the viewer whose knock was heard last; taken (swapped for 0) by the agent thread.
pub(super) static KNOCK: AtomicU32 = AtomicU32::new(0);
/// Whether a viewer is (or is about to be) there: fork children of a watched process are watched. Written by the
/// constructor and the agent thread.
pub(super) static WATCHED: AtomicBool = AtomicBool::new(false);
/// Whether handlers may make system calls: no thread is under seccomp. Written by the agent thread; not before it lived.
pub(super) static MAY_CALL: AtomicBool = AtomicBool::new(false);
/// A filter of system calls is announced or found: neither handlers nor hooks make any, for good; fork children inherit both. Written by
/// the target's thread or the agent's.
pub(super) static FILTERED: AtomicBool = AtomicBool::new(false);
/// The program can gain no privileges any more: a filter of system calls may follow unseen. Written
/// by the target's thread.
pub(super) static CONFINED: AtomicBool = AtomicBool::new(false);
/// Set for good when the agent met a bug of its own: from then on it does nothing.
pub(super) static DISABLED: AtomicBool = AtomicBool::new(false);

/// Where records go; null before the agent thread has made it, and while it gives the ring other memory. Written by the agent thread,
/// read by handlers after they claimed a slot: both sequentially consistent, so that a handler whose slot looked free sees the null.
pub(super) static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());
/// Where handlers run. Written once by the agent thread (release), read by handlers (acquire).
pub(super) static POOL: AtomicPtr<Pool> = AtomicPtr::new(core::ptr::null_mut());
/// What handlers unwind with. Swapped by the agent thread, read by handlers after they claimed a slot: both sequentially
/// consistent, so that a handler whose slot looked free to the agent thread sees the new one.
pub(super) static SNAPSHOT: AtomicPtr<Snapshot> = AtomicPtr::new(core::ptr::null_mut());
/// Ticks for the agent thread to walk. Written once by the first handler (compare-exchange) or the agent thread.
pub(super) static LATER: AtomicPtr<Later> = AtomicPtr::new(core::ptr::null_mut());

/// A handler met an address that no module covers, or a stack that no mapping covers.
pub(super) static WANT_MODULES: AtomicBool = AtomicBool::new(false);
/// Whether that is worth a copy of the stack: set by the agent thread, and cleared when reading the maps for it found nothing
/// new.
pub(super) static CURIOUS: AtomicBool = AtomicBool::new(false);
/// A handler met a thread without a timer.
pub(super) static WANT_THREADS: AtomicBool = AtomicBool::new(false);
/// 1 while the agent thread sleeps, else 0. Whoever swaps it to 0 wakes it.
pub(super) static ASLEEP: AtomicU32 = AtomicU32::new(0);
/// Counts drains that left the ring empty; a leaving process waits for it to move.
pub(super) static DRAINED: AtomicU32 = AtomicU32::new(0);

/// The process is about to exit: the agent thread sends everything and says so. Written by the destructor.
pub(super) static LEAVING: AtomicBool = AtomicBool::new(false);

/// Counters by their [`word`], while there is no ring to hold them. Written by handlers, emptied by the agent thread.
static EARLY: [AtomicU64; EARLY_WORDS] = [const { AtomicU64::new(0) }; EARLY_WORDS];
/// An agent that times itself counts in words further behind.
const EARLY_WORDS: usize = if cfg!(sigtop_timed) { ring::HEADER_WORDS } else { word::CONFIGS };

/// The counter of a [`word`]: in the ring, where it outlives the process, as soon as there is one.
pub(super) fn counter(index: usize) -> &'static AtomicU64 {
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: published once and never freed.
    if ring.is_null() { &EARLY[index] } else { unsafe { (*ring).header(index) } }
}

/// Adds to a counter.
pub(super) fn count(index: usize, more: u64) {
    counter(index).fetch_add(more, Ordering::Relaxed);
}

/// Ticks that the agent thread counts itself, as no handler ran for them. Written by that thread.
static UNHANDLED: AtomicU64 = AtomicU64::new(0);

/// Counts ticks for which no handler ran.
pub(super) fn count_unhandled(ticks: u64) {
    count(word::TICKS, ticks);
    UNHANDLED.fetch_add(ticks, Ordering::Relaxed);
}

/// How many ticks had no handler since the last [`begin_unhandled`].
pub(super) fn unhandled() -> u64 {
    UNHANDLED.load(Ordering::Relaxed)
}

/// They are counted anew, with an empty ring.
pub(super) fn begin_unhandled() {
    UNHANDLED.store(0, Ordering::Relaxed);
}

/// Counts a tick (or several) that becomes no sample.
pub(super) fn lose(cause: Loss, ticks: u64, weight_ns: u64) {
    count(word::LOST_TICKS + cause as usize, ticks);
    count(word::LOST_NS + cause as usize, weight_ns);
}

/// Moves what was counted before there was a ring into it.
pub(super) fn settle_counters() {
    for (index, early) in EARLY.iter().enumerate().filter(|(_, early)| early.load(Ordering::Relaxed) != 0) {
        count(index, early.swap(0, Ordering::Relaxed));
    }
}

/// Ticks and weight lost so far, by cause.
pub(super) fn losses() -> ([u64; Loss::ALL.len()], [u64; Loss::ALL.len()]) {
    let read = |first: usize| core::array::from_fn(|cause| counter(first + cause).load(Ordering::Relaxed));
    (read(word::LOST_TICKS), read(word::LOST_NS))
}

static CONFIGS: [AtomicU64; EPOCHS] = [const { AtomicU64::new(0) }; EPOCHS];

/// What a tick of some epoch stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// Which clock ticks.
    pub(super) clock: Clock,
    /// How long its period is, ns.
    pub(super) period_ns: u64,
}

/// Publishes a configuration, before a timer of its epoch is armed. Period below 2^60 ns.
pub(super) fn configure(epoch: u32, config: Config) {
    CONFIGS[epoch as usize % EPOCHS].store(config.period_ns << 2 | config.clock as u64, Ordering::Release);
    show_configs();
}

/// Writes the configurations into the ring, if there is one, for whoever reads it after the process's end.
pub(super) fn show_configs() {
    if !RING.load(Ordering::Acquire).is_null() {
        for (index, config) in CONFIGS.iter().enumerate() {
            counter(word::CONFIGS + index).store(config.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The configuration of an epoch.
pub(super) fn config(epoch: u32) -> Config {
    let (clock, period_ns) = ring::config_of(CONFIGS[epoch as usize % EPOCHS].load(Ordering::Acquire));
    Config { clock, period_ns }
}

/// Whether functions that the target calls, and handlers of its signals, may make no system call of
/// the agent's on this thread.
pub(super) fn must_not_call() -> bool {
    FILTERED.load(Ordering::Relaxed) || user_dispatch::forbids_calls()
}

/// Whether this is the process that the agent lives in, and not a vfork child in its memory; taken for granted where it may not be asked.
pub(super) fn is_at_home() -> bool {
    must_not_call() || sys::getpid() == OWNER.load(Ordering::Relaxed)
}

/// Wakes the agent thread if it sleeps. Makes a system call: not for handlers of a thread that may
/// be under seccomp.
pub(super) fn wake() {
    if ASLEEP.load(Ordering::Relaxed) != 0 && ASLEEP.swap(0, Ordering::AcqRel) != 0 {
        sys::send_wake(OWNER.load(Ordering::Relaxed), AGENT.load(Ordering::Relaxed));
    }
}

/// Makes everything as it was before the first tick: for a fork child, in which no agent thread exists and no handler
/// runs. What the parent's agent had mapped is left behind.
pub(super) fn forget() {
    AGENT.store(0, Ordering::Relaxed);
    KNOCK.store(0, Ordering::Relaxed);
    MAY_CALL.store(false, Ordering::Relaxed);
    RING.store(core::ptr::null_mut(), Ordering::Relaxed);
    POOL.store(core::ptr::null_mut(), Ordering::Relaxed);
    SNAPSHOT.store(core::ptr::null_mut(), Ordering::Relaxed);
    LATER.store(core::ptr::null_mut(), Ordering::Relaxed);
    WANT_MODULES.store(false, Ordering::Relaxed);
    WANT_THREADS.store(false, Ordering::Relaxed);
    ASLEEP.store(0, Ordering::Relaxed);
    EARLY.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
}

//! Takes a sample: claims a slot, walks the stack on the slot's own stack, and writes a record into
//! the ring, or counts the sample as lost.
//!
//! It runs in the signal handler, under its contract (see [`handler`](crate::agent::handler)).

use core::sync::atomic::Ordering;

use crate::agent::interpreter;
use crate::agent::os::syscall;
use crate::agent::sampling::deferred::{self, DEFERRED};
#[cfg(sigtop_timed)]
use crate::agent::sampling::handler_time;
use crate::agent::sampling::ring::{RING, RawSample, Ring};
use crate::agent::sampling::slot::{POOL, SlotClaim, SlotPool};
use crate::agent::sampling::snapshots::SNAPSHOT;
use crate::agent::sampling::{counters, deepest};
use crate::agent::state;
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::stack::LiveStack;
use crate::agent::unwind::walk;
use crate::wire::ring::{STALE, word};
use crate::wire::{FrameAddress, LossCause, flag};

/// Takes a sample that the target asks for, with every signal blocked. Returns false if there is no
/// agent thread to send it.
pub(crate) fn sample_by_hand(registers: Registers) -> bool {
    let ready = !POOL.load(Ordering::Acquire).is_null() && !RING.load(Ordering::Acquire).is_null();
    if !ready || state::DISABLED.load(Ordering::Relaxed) {
        return false;
    }
    let epoch = counters::current_epoch();
    let weight_ns = counters::config(epoch).period_ns;
    record_sample(RawSample { tid: syscall::gettid(), epoch, weight_ns, ..RawSample::default() }, registers);
    true
}

/// Takes a sample of the code that was interrupted with these registers. Returns false if it was
/// lost.
pub(crate) fn record_sample(sample: RawSample, registers: Registers) -> bool {
    let pool = POOL.load(Ordering::Acquire);
    if pool.is_null() {
        return defer_early(&sample, registers);
    }
    // SAFETY: published once and never freed.
    let pool: &'static SlotPool = unsafe { &*pool };
    let Some(mut claim) = pool.claim(registers.sp()) else {
        counters::count(word::TICKS, 1);
        lose(LossCause::NoSlot, &sample);
        return false;
    };
    // Loaded after the slot was claimed: see `RING`.
    let ring = RING.load(Ordering::SeqCst);
    if ring.is_null() {
        drop(claim);
        return defer_early(&sample, registers);
    }
    // SAFETY: never freed.
    let ring: &'static Ring = unsafe { &*ring };
    counters::count(word::TICKS, 1);
    let stack = claim.stack();
    let mut is_recorded = false;
    // SAFETY: the claim is held until this function returns, and nothing else runs on its stack.
    let has_returned = unsafe { stack.run(|| is_recorded = walk_and_record(&mut claim, ring, sample, registers)) };
    if !(has_returned && is_recorded) {
        lose(LossCause::RingFull, &sample);
        return false;
    }
    true
}

/// Counts a sample as lost.
fn lose(cause: LossCause, sample: &RawSample) {
    counters::count_lost_sample(cause, counters::config(sample.epoch).clock, sample.weight_ns);
}

/// Walks the stack and writes the record, on the slot's stack. Returns false if the ring is full.
fn walk_and_record(claim: &mut SlotClaim, ring: &Ring, mut sample: RawSample, registers: Registers) -> bool {
    let snapshot = SNAPSHOT.load(Ordering::SeqCst);
    if snapshot.is_null() {
        let leaf = FrameAddress::Instruction(registers.ip()).pack();
        sample.flags |= flag::UNREADABLE;
        return push(ring, &sample, &[leaf]);
    }
    // SAFETY: loaded after the slot was claimed, so the agent thread keeps it until this handler
    // returns.
    let snapshot = unsafe { &*snapshot };
    let (cache, frames) = claim.parts();
    let sp = registers.sp();
    let may_call = state::SYSCALLS_ALLOWED.load(Ordering::Relaxed);
    let mut stack = LiveStack::new(snapshot, registers.sp(), may_call);
    let walk = walk::walk(snapshot, cache, registers, &mut stack, frames);
    counters::count(word::FRAMES, walk.depth as u64);
    #[cfg(sigtop_timed)]
    {
        handler_time::count_depth(walk.depth);
        let mut again = LiveStack::new(snapshot, registers.sp(), may_call);
        handler_time::time_again(|| walk::walk(snapshot, cache, registers, &mut again, frames).depth);
        handler_time::count_lookups(cache);
    }
    deepest::note(sample.tid, sp, snapshot, cache.last_walk(), &walk, frames[0]);
    sample.generation = snapshot.generation();
    sample.flags |= walk.flags | if walk.uncovered { STALE } else { 0 };
    if walk.uncovered && may_call {
        // The code may be in a library that was loaded just now: then the agent thread walks this
        // stack after it has read the maps.
        let is_deferred = walk.flags & flag::TRUNCATED != 0
            && state::REREAD_MAPS_ON_MISS.load(Ordering::Relaxed)
            && defer(&sample, registers, may_call);
        if !state::WANT_MODULES.swap(true, Ordering::Relaxed) {
            state::wake();
        }
        if is_deferred {
            return true;
        }
    }
    let depth = interpreter::merge_frames(sample.tid, frames, walk.depth, walk.is_whole());
    push(ring, &sample, &frames[..depth])
}

/// Writes a record, and wakes the agent thread if more than half of the ring is in use. Returns
/// false if the ring is full.
fn push(ring: &Ring, sample: &RawSample, frames: &[u64]) -> bool {
    // Waking costs nothing if the agent thread is awake already.
    if ring.is_crowded() && state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
        state::wake();
    }
    ring.push(sample, frames)
}

/// Keeps registers and, if system calls are allowed, the stack for the agent thread to walk.
/// Returns false if there is no room.
fn defer(sample: &RawSample, registers: Registers, may_call: bool) -> bool {
    let deferred = DEFERRED.load(Ordering::Acquire);
    // SAFETY: published once and never freed.
    !deferred.is_null() && unsafe { &*deferred }.keep(sample, registers, may_call)
}

/// Defers a tick that comes before the agent thread has made the pool and the ring. The thread may
/// be under seccomp already if the agent thread was spawned just before the filter. Returns false
/// if the tick was lost.
fn defer_early(sample: &RawSample, registers: Registers) -> bool {
    counters::count(word::TICKS, 1);
    let may_call = state::SYSCALLS_ALLOWED.load(Ordering::Relaxed);
    if DEFERRED.load(Ordering::Acquire).is_null() && may_call {
        deferred::allocate();
    }
    let is_kept = defer(sample, registers, may_call);
    if !is_kept {
        lose(LossCause::NotReady, sample);
    }
    is_kept
}

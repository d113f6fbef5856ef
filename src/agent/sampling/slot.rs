//! The pool of slots. A slot holds what one running handler needs: an unwinder's cache, a stack to
//! run on, and room for frames. A handler claims one by compare-exchange and frees it at its end.
//! If all are busy, the tick is lost and counted. The agent thread makes one slot for each thread
//! that may be in a handler.
//!
//! There is no thread-local storage, because in a preloaded library it can allocate on first use.

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::agent::os::memory;
use crate::agent::unwind::walk::WalkCache;
use crate::arch;
use crate::wire::MAX_FRAMES;

/// Maximum number of handlers that run simultaneously. A handler takes a microsecond, so more are
/// rare on common machines.
const SLOTS: usize = 32;
/// Slots of a process with one thread. A second handler may interrupt a call of the program's own.
const FIRST_SLOTS: usize = 2;
/// Bytes of a slot with its stack, which grows down towards it from the end; a power of two, and
/// aligned to itself, so that [`leave_slot_stack`] finds the stack's top. A cold unwind takes some
/// 8 KiB of it.
const STACK: usize = 64 * 1024;

const _: () = assert!(STACK.is_power_of_two() && size_of::<Slot>() + 24 * 1024 <= STACK);

/// The data of one handler, at the start of its [`STACK`] bytes.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// 1 while a handler owns the slot. Written by handlers; sequentially consistent (see
    /// `SNAPSHOT`).
    busy: AtomicU32,
    /// Number of claims so far. Written by the owner, read by the agent thread.
    claims: AtomicU32,
    cache: UnsafeCell<WalkCache>,
    frames: UnsafeCell<[u64; MAX_FRAMES]>,
}

/// All slots and their stacks. Lives as long as the process.
pub(crate) struct SlotPool {
    /// The first `count` exist for good. Written by the agent thread, before the count.
    slots: [AtomicPtr<Slot>; SLOTS],
    count: AtomicUsize,
}

/// The pool in whose slots handlers run. Written once by the agent thread (release), read by
/// handlers (acquire).
pub(crate) static POOL: AtomicPtr<SlotPool> = AtomicPtr::new(core::ptr::null_mut());
// SAFETY: the cells of a slot are used by its owner alone, and `busy` tells who that is.
unsafe impl Sync for Slot {}

/// The busy slots that the agent thread saw when it retired a snapshot.
pub(crate) struct SlotObservation([Option<u32>; SLOTS]);

impl SlotPool {
    /// Makes a pool with two free slots. `None` if there is no memory.
    pub(crate) fn new() -> Option<SlotPool> {
        let slots = [const { AtomicPtr::new(core::ptr::null_mut()) }; SLOTS];
        let pool = SlotPool { slots, count: AtomicUsize::new(0) };
        pool.grow(0);
        (pool.count.load(Ordering::Relaxed) == FIRST_SLOTS).then_some(pool)
    }

    /// Makes a slot for each of so many threads and one more, as far as there is memory. For the
    /// agent thread only.
    pub(crate) fn grow(&self, threads: usize) {
        let wanted = (threads + 1).clamp(FIRST_SLOTS, SLOTS);
        for index in self.count.load(Ordering::Relaxed)..wanted {
            let slot = memory::map_aligned(STACK).cast::<Slot>();
            if slot.is_null() {
                return;
            }
            // SAFETY: fresh pages, with room for it; zero is valid for the other fields.
            unsafe { WalkCache::init((&raw mut (*slot).cache).cast()) };
            self.slots[index].store(slot, Ordering::Relaxed);
            self.count.store(index + 1, Ordering::Release);
        }
    }

    /// Returns the existing slots.
    fn slots(&self) -> impl Iterator<Item = &'static Slot> {
        let count = self.count.load(Ordering::Acquire);
        // SAFETY: written before the count, and never given back.
        self.slots[..count].iter().map(|slot| unsafe { &*slot.load(Ordering::Relaxed) })
    }

    /// Claims a free slot. The search starts at a slot that depends on `hint`, an address on the
    /// caller's stack, so that threads use different slots.
    pub(crate) fn claim(&'static self, hint: u64) -> Option<SlotClaim> {
        let count = self.count.load(Ordering::Acquire);
        let spread = (hint >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut index = (spread as usize * count) >> 32;
        for _ in 0..count {
            // SAFETY: written before the count, and never given back.
            let slot = unsafe { &*self.slots[index].load(Ordering::Relaxed) };
            if slot.busy.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                slot.claims.store(slot.claims.load(Ordering::Relaxed).wrapping_add(1), Ordering::SeqCst);
                return Some(SlotClaim { slot });
            }
            index = if index + 1 == count { 0 } else { index + 1 };
        }
        None
    }

    /// Records which slots are busy, and with which claim.
    pub(crate) fn observe(&self) -> SlotObservation {
        let mut observation = SlotObservation([None; SLOTS]);
        for (slot, seen) in self.slots().zip(&mut observation.0) {
            *seen = (slot.busy.load(Ordering::SeqCst) == 1).then(|| slot.claims.load(Ordering::SeqCst));
        }
        observation
    }

    /// Returns whether every handler that an observation has seen has returned.
    pub(crate) fn all_returned(&self, observation: &mut SlotObservation) -> bool {
        for (slot, seen) in self.slots().zip(&mut observation.0) {
            let returned = |claim| slot.busy.load(Ordering::SeqCst) == 0 || slot.claims.load(Ordering::SeqCst) != claim;
            if seen.is_some_and(returned) {
                *seen = None;
            }
        }
        observation.0.iter().all(Option::is_none)
    }
}

/// A claimed slot. It is freed on drop.
pub(crate) struct SlotClaim {
    slot: &'static Slot,
}

impl SlotClaim {
    /// Returns the unwinder's cache and the room for frames.
    pub(crate) fn parts(&mut self) -> (&mut WalkCache, &mut [u64; MAX_FRAMES]) {
        // SAFETY: `busy` is 1 and this claim is the only one of the slot.
        unsafe { (&mut *self.slot.cache.get(), &mut *self.slot.frames.get()) }
    }

    /// Returns the slot's own stack.
    pub(crate) fn stack(&self) -> SlotStack {
        SlotStack(core::ptr::from_ref(self.slot) as usize + STACK)
    }
}

/// The top of a slot's stack.
pub(crate) struct SlotStack(usize);

impl SlotStack {
    /// Calls a closure on this stack. Returns false if the closure left through
    /// [`leave_slot_stack`].
    ///
    /// # Safety
    /// The slot's claim must be held, and nothing else may run on its stack.
    pub(crate) unsafe fn run<F: FnOnce()>(self, body: F) -> bool {
        /// Calls the closure at this address.
        extern "C" fn trampoline<F: FnOnce()>(body: *mut ()) {
            // SAFETY: `run` gives the address of a closure that it does not use afterwards.
            unsafe { body.cast::<F>().read()() }
        }
        let mut body = ManuallyDrop::new(body);
        // SAFETY: the top of a stack that only the owner of the slot uses, and the closure that the
        // trampoline expects.
        unsafe { arch::call_on_stack(self.0, trampoline::<F>, (&raw mut body).cast()) == 0 }
    }
}

impl Drop for SlotClaim {
    fn drop(&mut self) {
        self.slot.busy.store(0, Ordering::SeqCst);
    }
}

/// Returns from [`SlotStack::run`] without unwinding the frames of its closure: the way out of a
/// panic. Nothing on that stack needs to be dropped (the agent is built with `panic = "abort"`, and
/// the slot's claim lives on the other stack).
///
/// # Safety
/// Only on a stack that [`SlotStack::run`] switched to.
pub(crate) unsafe fn leave_slot_stack() -> ! {
    // SAFETY: the caller runs on a slot's stack.
    unsafe { arch::leave_stack::<STACK>() }
}

/// Returns whether an address lies on the stack of a slot.
pub(crate) fn is_on_slot_stack(pool: &SlotPool, address: usize) -> bool {
    pool.slots().any(|slot| core::ptr::from_ref(slot) as usize == address & !(STACK - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn address_on_stack() -> usize {
        let here = 0u8;
        &raw const here as usize
    }

    fn pool() -> &'static SlotPool {
        Box::leak(Box::new(SlotPool::new().expect("memory")))
    }

    #[test]
    fn a_body_runs_on_its_slot_and_comes_back_either_way() {
        let pool = pool();
        let claim = pool.claim(0).expect("free");
        let mut address = 0usize;
        // SAFETY: the claim is held, and nothing else runs on the slot's stack.
        unsafe {
            assert!(claim.stack().run(|| address = address_on_stack()));
            assert!(is_on_slot_stack(pool, address));
            address = 0;
            let escapes = || {
                address = address_on_stack();
                leave_slot_stack()
            };
            assert!(!claim.stack().run(escapes));
            assert!(is_on_slot_stack(pool, address));
        }
    }

    #[test]
    fn slots_run_out_and_come_back() {
        let pool = pool();
        let first: Vec<SlotClaim> = core::iter::from_fn(|| pool.claim(7 << 12)).collect();
        assert_eq!(first.len(), FIRST_SLOTS);
        drop(first);
        pool.grow(100);
        let claims: Vec<SlotClaim> = core::iter::from_fn(|| pool.claim(7 << 12)).collect();
        assert_eq!(claims.len(), SLOTS);
        let tops: std::collections::HashSet<usize> = claims.iter().map(|claim| claim.stack().0).collect();
        assert_eq!(tops.len(), SLOTS);
        let mut seen = pool.observe();
        assert!(!pool.all_returned(&mut seen));
        drop(claims);
        let _again = pool.claim(0).expect("free");
        assert!(pool.all_returned(&mut seen), "a later claim of a slot is not the one that was seen");
    }

    #[test]
    fn handlers_are_spread_over_the_slots_that_there_are() {
        let pool = pool();
        pool.grow(7);
        let mut used = std::collections::HashSet::new();
        for thread in 0..1000u64 {
            used.insert(pool.claim(0x7f00_0000_0000 + (thread << 23)).expect("free").stack().0);
        }
        assert_eq!(used.len(), 8);
    }
}

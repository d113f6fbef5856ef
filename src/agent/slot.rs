//! The pool of slots: what one running handler needs for itself — an unwinder's cache, a stack to run on, room for
//! frames. A handler claims one by compare-exchange and gives it back; when all are busy the tick is lost and counted.
//! The agent thread makes as many as the process has threads that may be in a handler.
//!
//! No thread-local storage: in a preloaded library it can allocate on first use.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::memory;
use super::unwind::Cache;
use crate::link::wire::MAX_FRAMES;

/// Handlers that run at once: more than the cores of common machines are rare, since a handler takes a microsecond.
const SLOTS: usize = 32;
/// Slots of a process with one thread: a second handler may interrupt a program's own call.
const FIRST_SLOTS: usize = 2;
/// Bytes of a slot with its stack, which grows down towards it from the end; a power of two, and
/// aligned to itself, so that [`escape`] finds the stack's top. A cold unwind takes some 8 KiB of
/// it.
const STACK: usize = 64 * 1024;

const _: () = assert!(STACK.is_power_of_two() && size_of::<Slot>() + 24 * 1024 <= STACK);

/// One handler's belongings, at the beginning of its [`STACK`] bytes.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// 1 while a handler owns it. Written by handlers; sequentially consistent (see `state::SNAPSHOT`).
    busy: AtomicU32,
    /// Claims so far. Written by the owner, read by the agent thread.
    claims: AtomicU32,
    cache: UnsafeCell<Cache>,
    frames: UnsafeCell<[u64; MAX_FRAMES]>,
}

/// All slots and their stacks. Lives as long as the process.
pub(super) struct Pool {
    /// The first `count` are there for good. Written by the agent thread, before the count.
    slots: [AtomicPtr<Slot>; SLOTS],
    count: AtomicUsize,
}

// SAFETY: the cells of a slot are used by its owner alone, and `busy` tells who that is.
unsafe impl Sync for Slot {}

/// What the agent thread saw of the pool when it retired a snapshot.
pub(super) struct Observation([Option<u32>; SLOTS]);

impl Pool {
    /// A pool with two slots, both free; `None` without memory for them.
    pub(super) fn new() -> Option<Pool> {
        let slots = [const { AtomicPtr::new(core::ptr::null_mut()) }; SLOTS];
        let pool = Pool { slots, count: AtomicUsize::new(0) };
        pool.grow(0);
        (pool.count.load(Ordering::Relaxed) == FIRST_SLOTS).then_some(pool)
    }

    /// Makes a slot for each of so many threads and one more, as far as there is memory. For the
    /// agent thread alone.
    pub(super) fn grow(&self, threads: usize) {
        let wanted = (threads + 1).clamp(FIRST_SLOTS, SLOTS);
        for index in self.count.load(Ordering::Relaxed)..wanted {
            let slot = memory::aligned(STACK).cast::<Slot>();
            if slot.is_null() {
                return;
            }
            // SAFETY: fresh pages, with room for it; zero is valid for the other fields, and leaves
            // the frames untouched.
            unsafe { (&raw mut (*slot).cache).write(UnsafeCell::new(Cache::new())) };
            self.slots[index].store(slot, Ordering::Relaxed);
            self.count.store(index + 1, Ordering::Release);
        }
    }

    /// The slots that there are.
    fn slots(&self) -> impl Iterator<Item = &'static Slot> {
        let count = self.count.load(Ordering::Acquire);
        // SAFETY: written before the count, and never given back.
        self.slots[..count].iter().map(|slot| unsafe { &*slot.load(Ordering::Relaxed) })
    }

    /// A free slot, looked for from a place that `hint` (an address on the caller's stack) spreads threads over.
    pub(super) fn claim(&'static self, hint: u64) -> Option<Claim> {
        let count = self.count.load(Ordering::Acquire);
        let spread = (hint >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut index = (spread as usize * count) >> 32;
        for _ in 0..count {
            // SAFETY: written before the count, and never given back.
            let slot = unsafe { &*self.slots[index].load(Ordering::Relaxed) };
            if slot.busy.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                slot.claims.store(slot.claims.load(Ordering::Relaxed).wrapping_add(1), Ordering::SeqCst);
                return Some(Claim { slot });
            }
            index = if index + 1 == count { 0 } else { index + 1 };
        }
        None
    }

    /// Which slots are busy, and with which claim.
    pub(super) fn observe(&self) -> Observation {
        let mut observation = Observation([None; SLOTS]);
        for (slot, seen) in self.slots().zip(&mut observation.0) {
            *seen = (slot.busy.load(Ordering::SeqCst) == 1).then(|| slot.claims.load(Ordering::SeqCst));
        }
        observation
    }

    /// Whether every handler that an observation saw has returned since.
    pub(super) fn all_returned(&self, observation: &mut Observation) -> bool {
        for (slot, seen) in self.slots().zip(&mut observation.0) {
            let returned = |claim| slot.busy.load(Ordering::SeqCst) == 0 || slot.claims.load(Ordering::SeqCst) != claim;
            if seen.is_some_and(returned) {
                *seen = None;
            }
        }
        observation.0.iter().all(Option::is_none)
    }
}

/// A claimed slot; free again on drop.
pub(super) struct Claim {
    slot: &'static Slot,
}

impl Claim {
    /// The unwinder's cache and the room for frames.
    pub(super) fn parts(&mut self) -> (&mut Cache, &mut [u64; MAX_FRAMES]) {
        // SAFETY: `busy` is 1 and this claim is the only one of the slot.
        unsafe { (&mut *self.slot.cache.get(), &mut *self.slot.frames.get()) }
    }

    /// The slot's own stack.
    pub(super) fn stack(&self) -> SlotStack {
        SlotStack(core::ptr::from_ref(self.slot) as usize + STACK)
    }
}

/// The top of a slot's stack.
pub(super) struct SlotStack(usize);

impl SlotStack {
    /// Calls `body(argument)` on this stack. False when `body` left through [`escape`].
    ///
    /// # Safety
    /// The slot's claim must be held, by nobody who runs on it already; `argument` must be what `body` expects.
    pub(super) unsafe fn run(self, body: extern "C" fn(*mut ()), argument: *mut ()) -> bool {
        // SAFETY: the top of a stack that only the owner of the slot uses.
        unsafe { on_stack(self.0, body, argument) == 0 }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.slot.busy.store(0, Ordering::SeqCst);
    }
}

/// Saves the callee-saved registers, remembers rsp in the top word of the new stack, switches, calls, switches back.
#[unsafe(naked)]
unsafe extern "C" fn on_stack(top: usize, body: extern "C" fn(*mut ()), argument: *mut ()) -> usize {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi - 8], rsp",
        "lea rsp, [rdi - 16]",
        "mov rdi, rdx",
        "xor ebp, ebp",
        "call rsi",
        "xor eax, eax",
        "mov rsp, [rsp + 8]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Leaves the body that runs on a slot's stack, as if it had returned, with everything below forgotten: the way out of a
/// panic. Nothing on that stack needs to be dropped (the agent is built with `panic = "abort"`, and the slot's claim
/// lives on the other stack).
///
/// # Safety
/// Only on a stack that [`SlotStack::run`] switched to.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn escape() -> ! {
    naked_asm!(
        "lea rdi, [rsp - 1]",
        "or rdi, {mask}",
        "mov rsp, [rdi - 7]",
        "mov eax, 1",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        mask = const STACK - 1,
    )
}

/// Whether `address` lies on the stack of a slot.
pub(super) fn on_a_slot(pool: &Pool, address: usize) -> bool {
    pool.slots().any(|slot| core::ptr::from_ref(slot) as usize == address & !(STACK - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn note_stack(argument: *mut ()) {
        let here = 0u8;
        // SAFETY: the tests give a pointer to a usize.
        unsafe { *argument.cast::<usize>() = &raw const here as usize };
    }

    extern "C" fn leave_early(argument: *mut ()) {
        note_stack(argument);
        // SAFETY: called through SlotStack::run alone.
        unsafe { escape() }
    }

    fn pool() -> &'static Pool {
        Box::leak(Box::new(Pool::new().expect("memory")))
    }

    #[test]
    fn a_body_runs_on_its_slot_and_comes_back_either_way() {
        let pool = pool();
        let claim = pool.claim(0).expect("free");
        let mut address = 0usize;
        // SAFETY: both bodies take a pointer to a usize.
        unsafe {
            assert!(claim.stack().run(note_stack, (&raw mut address).cast()));
            assert!(on_a_slot(pool, address));
            address = 0;
            assert!(!claim.stack().run(leave_early, (&raw mut address).cast()));
            assert!(on_a_slot(pool, address));
        }
    }

    #[test]
    fn slots_run_out_and_come_back() {
        let pool = pool();
        let first: Vec<Claim> = core::iter::from_fn(|| pool.claim(7 << 12)).collect();
        assert_eq!(first.len(), FIRST_SLOTS);
        drop(first);
        pool.grow(100);
        let claims: Vec<Claim> = core::iter::from_fn(|| pool.claim(7 << 12)).collect();
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

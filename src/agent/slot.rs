//! The pool of slots: what one running handler needs for itself — an unwinder's cache, a stack to run on, room for
//! frames. A handler claims one by compare-exchange and gives it back; when all are busy the tick is lost and counted.
//!
//! No thread-local storage: in a preloaded library it can allocate on first use.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use super::memory;
use super::unwind::Cache;
use crate::link::wire::MAX_FRAMES;

/// Handlers that run at once: more than the cores of common machines are rare, since a handler takes a microsecond.
const SLOTS: usize = 32;
/// Bytes of a handler's stack; a power of two, and aligned to itself, so that [`escape`] finds its top. A cold unwind takes some
/// 8 KiB; a new cache is built here before it is put into its slot.
const STACK: usize = 128 * 1024;

const _: () = assert!(STACK.is_power_of_two() && 3 * size_of::<Cache>() + 32 * 1024 < STACK);

/// One handler's belongings.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// 1 while a handler owns it. Written by handlers; sequentially consistent (see `state::SNAPSHOT`).
    busy: AtomicU32,
    /// Claims so far. Written by the owner, read by the agent thread.
    claims: AtomicU32,
    cache: UnsafeCell<Option<Cache>>,
    frames: UnsafeCell<[u64; MAX_FRAMES]>,
}

/// All slots and their stacks. Lives as long as the process.
pub(super) struct Pool {
    slots: &'static [Slot],
    stacks: usize,
}

// SAFETY: the cells of a slot are used by its owner alone, and `busy` tells who that is.
unsafe impl Sync for Slot {}

/// What the agent thread saw of the pool when it retired a snapshot.
pub(super) struct Observation([Option<u32>; SLOTS]);

impl Pool {
    /// A pool with every slot free; `None` without memory for it. Its pages are touched when a slot is first used.
    pub(super) fn new() -> Option<Pool> {
        let size = (SLOTS + 1) * STACK + SLOTS * size_of::<Slot>();
        let start = memory::pages(size);
        if start.is_null() {
            return None;
        }
        let stacks = (start as usize).next_multiple_of(STACK);
        let slots = (stacks + SLOTS * STACK) as *mut Slot;
        for index in 0..SLOTS {
            // SAFETY: within the fresh mapping: STACK bytes at most were lost to alignment. Writing field by field, so
            // that the big array of frames stays untouched zero pages.
            unsafe { (&raw mut (*slots.add(index)).cache).write(UnsafeCell::new(None)) };
        }
        // SAFETY: zero is valid for the other fields; the mapping is never given back.
        let slots = unsafe { core::slice::from_raw_parts(slots, SLOTS) };
        Some(Pool { slots, stacks })
    }

    /// A free slot, looked for from a place that `hint` (an address on the caller's stack) spreads threads over.
    pub(super) fn claim(&'static self, hint: u64) -> Option<Claim> {
        let start = ((hint >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize;
        for step in 0..SLOTS {
            let index = (start + step) % SLOTS;
            let slot = &self.slots[index];
            if slot.busy.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                slot.claims.store(slot.claims.load(Ordering::Relaxed).wrapping_add(1), Ordering::SeqCst);
                return Some(Claim { slot, top: self.stacks + (index + 1) * STACK });
            }
        }
        None
    }

    /// Which slots are busy, and with which claim.
    pub(super) fn observe(&self) -> Observation {
        Observation(core::array::from_fn(|index| {
            let slot = &self.slots[index];
            (slot.busy.load(Ordering::SeqCst) == 1).then(|| slot.claims.load(Ordering::SeqCst))
        }))
    }

    /// Whether every handler that an observation saw has returned since.
    pub(super) fn all_returned(&self, observation: &mut Observation) -> bool {
        for (slot, seen) in self.slots.iter().zip(&mut observation.0) {
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
    top: usize,
}

impl Claim {
    /// The unwinder's cache and the room for frames.
    pub(super) fn parts(&mut self) -> (&mut Cache, &mut [u64; MAX_FRAMES]) {
        // SAFETY: `busy` is 1 and this claim is the only one of the slot.
        unsafe { ((*self.slot.cache.get()).get_or_insert_with(Cache::new), &mut *self.slot.frames.get()) }
    }

    /// The slot's own stack.
    pub(super) fn stack(&self) -> SlotStack {
        SlotStack(self.top)
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
    (pool.stacks..pool.stacks + SLOTS * STACK).contains(&address)
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
        let claims: Vec<Claim> = core::iter::from_fn(|| pool.claim(7 << 12)).collect();
        assert_eq!(claims.len(), SLOTS);
        let tops: std::collections::HashSet<usize> = claims.iter().map(|claim| claim.top).collect();
        assert_eq!(tops.len(), SLOTS);
        let mut seen = pool.observe();
        assert!(!pool.all_returned(&mut seen));
        drop(claims);
        let _again = pool.claim(0).expect("free");
        assert!(pool.all_returned(&mut seen), "a later claim of a slot is not the one that was seen");
    }
}

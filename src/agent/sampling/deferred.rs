//! Samples whose stack the agent thread walks later, from a copy of registers and stack: those that
//! come before the agent thread has made the pool (so the tick that spawns it is a sample like any
//! other), and those in code that was loaded after the maps were last read.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::agent::os::{memory, syscall};
use crate::agent::sampling::ring::RawSample;
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::stack::CopiedStack;
use crate::arch::RED_ZONE;
use crate::wire::ring::LEFT_OUT;

/// Maximum number of deferred samples. At 100 Hz they are 160 ms of CPU time; the agent thread runs
/// after a few.
const ENTRIES: usize = 16;
/// Maximum size of one copy of a stack, in bytes from its stack pointer.
const COPY: usize = 64 * 1024;
/// Size of all copies together, in bytes. Most stacks are a few KiB deep.
const BYTES: usize = 64 * 1024;
const PAGE: u64 = 4096;

/// State of a slot. In all states but FREE it belongs to its owner: the handler that claimed it,
/// then the agent thread.
const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const READY: u32 = 2;

/// Room for one sample.
#[repr(C)]
struct DeferredSlot {
    /// Claimed by compare-exchange, made ready with release by its handler, read with acquire and
    /// freed by the agent thread.
    state: AtomicU32,
    tick: UnsafeCell<DeferredTick>,
}

/// A deferred sample.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DeferredTick {
    /// Thread that was interrupted.
    pub(crate) tid: u32,
    /// Epoch of the timer's configuration.
    pub(crate) epoch: u32,
    /// Weight in ns of the clock.
    pub(crate) weight_ns: u64,
    /// The packed detail of a sample that is one.
    pub(crate) detail: u64,
    /// Flags of the sample that are known already.
    pub(crate) flags: u32,
    /// Registers with which the walk starts.
    pub(crate) registers: Registers,
    /// Address of the first byte copied.
    low: u64,
    /// Start of its copy in the bytes, and the size of the copy.
    start: usize,
    length: usize,
}

/// The room for deferred samples.
#[repr(C)]
pub(crate) struct DeferredSamples {
    entries: [DeferredSlot; ENTRIES],
    /// `copies << 32 | bytes`: the number of copies, and the number of bytes in use from the start.
    /// The bytes are freed with the last copy. Changed by compare-exchange: with acquire by a
    /// handler that takes bytes, with release by the agent thread.
    taken: AtomicU64,
    bytes: UnsafeCell<[u8; BYTES]>,
}

/// The deferred samples. Written once, by the first handler (compare-exchange) or the agent thread.
pub(crate) static DEFERRED: AtomicPtr<DeferredSamples> = AtomicPtr::new(core::ptr::null_mut());

// SAFETY: an entry's cells are its owner's (see the states), and so are the bytes that it took.
unsafe impl Sync for DeferredSamples {}

impl DeferredSamples {
    /// Maps fresh room. Returns null if there is no memory.
    pub(crate) fn pages() -> *mut DeferredSamples {
        memory::map_pages(size_of::<DeferredSamples>()).cast()
    }

    /// Unmaps room that was not published.
    ///
    /// # Safety
    /// It must come from [`pages`](Self::pages) and must not be used any more.
    pub(crate) unsafe fn release(deferred: *mut DeferredSamples) {
        // SAFETY: the caller vouches.
        unsafe { memory::unmap(deferred.cast(), size_of::<DeferredSamples>()) };
    }

    /// Keeps a sample. Returns false if there is no room left. The stack is copied only if system
    /// calls are allowed, because only they tell what can be read.
    pub(crate) fn keep(&self, sample: &RawSample, registers: Registers, may_call: bool) -> bool {
        let RawSample { tid, epoch, weight_ns, detail, flags, .. } = *sample;
        let take = |entry: &&DeferredSlot| {
            entry.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let Some(entry) = self.entries.iter().find(take) else { return false };
        let low = registers.sp().saturating_sub(RED_ZONE) & !7;
        let mut readable = 0;
        while may_call && readable < COPY && syscall::is_readable((low + readable as u64) as usize) {
            let page_end = ((low + readable as u64) & !(PAGE - 1)) + PAGE;
            readable = ((page_end - low) as usize).min(COPY);
        }
        let (start, length) = self.take_bytes(readable);
        // SAFETY: the pages were found readable just now and are this thread's own stack; the bytes
        // were taken by this handler alone.
        unsafe {
            let source = core::ptr::with_exposed_provenance::<u8>(low as usize);
            core::ptr::copy_nonoverlapping(source, self.bytes.get().cast::<u8>().add(start), length);
        }
        let flags = flags & LEFT_OUT;
        // SAFETY: this handler alone took the entry.
        unsafe {
            *entry.tick.get() = DeferredTick { tid, epoch, weight_ns, detail, flags, registers, low, start, length }
        };
        entry.state.store(READY, Ordering::Release);
        true
    }

    /// Takes up to so many bytes. Returns where they start and how many they are.
    fn take_bytes(&self, wanted: usize) -> (usize, usize) {
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let start = taken as u32 as usize;
            let length = wanted.min(BYTES - start);
            let next = ((taken >> 32) + 1) << 32 | (start + length) as u64;
            match self.taken.compare_exchange_weak(taken, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return (start, length),
                Err(now) => taken = now,
            }
        }
    }

    /// Frees the bytes of one copy; all bytes are free again with the last one.
    fn give_bytes_back(&self) {
        let fewer = |taken: u64| match (taken >> 32).saturating_sub(1) {
            0 => Some(0),
            copies => Some(copies << 32 | taken & u64::from(u32::MAX)),
        };
        let _always_done = self.taken.fetch_update(Ordering::Release, Ordering::Relaxed, fewer);
    }

    /// Calls `each` with every complete sample, once. For the agent thread only.
    pub(crate) fn drain(&self, mut each: impl FnMut(DeferredTick, CopiedStack<'_>)) {
        for entry in self.entries.iter().filter(|entry| entry.state.load(Ordering::Acquire) == READY) {
            // SAFETY: written completely, and nobody's but this thread's until it is free.
            let (tick, bytes) = unsafe {
                let tick = *entry.tick.get();
                let start = self.bytes.get().cast::<u8>().add(tick.start);
                (tick, core::slice::from_raw_parts(start, tick.length))
            };
            each(tick, CopiedStack { low: tick.low, bytes });
            self.give_bytes_back();
            entry.state.store(FREE, Ordering::Release);
        }
    }
}

/// Allocates the room for deferred samples, unless another thread has done so. Does nothing if
/// there is no memory.
pub(crate) fn allocate() {
    let fresh = DeferredSamples::pages();
    let none = core::ptr::null_mut();
    if !fresh.is_null() && DEFERRED.compare_exchange(none, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: made just now and not published.
        unsafe { DeferredSamples::release(fresh) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shared_and_come_back_with_the_last_copy() {
        // SAFETY: zero is valid, as in fresh pages.
        let deferred: Box<DeferredSamples> = unsafe { Box::new_zeroed().assume_init() };
        assert_eq!(deferred.take_bytes(1000), (0, 1000));
        assert_eq!(deferred.take_bytes(COPY), (1000, BYTES - 1000), "what is left");
        assert_eq!(deferred.take_bytes(1), (BYTES, 0));
        deferred.give_bytes_back();
        deferred.give_bytes_back();
        assert_eq!(deferred.take_bytes(1), (BYTES, 0), "one copy is there still");
        deferred.give_bytes_back();
        deferred.give_bytes_back();
        assert_eq!(deferred.take_bytes(10), (0, 10));
    }

    #[test]
    fn a_kept_tick_has_its_stack_and_registers() {
        // SAFETY: as above.
        let deferred: Box<DeferredSamples> = unsafe { Box::new_zeroed().assume_init() };
        let words = [0x1234_5678_9abc_def0u64; 64];
        let sample = RawSample { tid: 7, epoch: 3, weight_ns: 9, ..RawSample::default() };
        for _ in 0..3 {
            for _ in 0..ENTRIES {
                assert!(deferred.keep(&sample, Registers::of_sleeper(1, words.as_ptr() as u64), true));
            }
            let is_kept = deferred.keep(&sample, Registers::of_sleeper(1, words.as_ptr() as u64), true);
            assert!(!is_kept, "every entry is taken");
            let mut seen = 0;
            deferred.drain(|tick, stack| {
                assert_eq!((tick.tid, tick.epoch, tick.weight_ns), (7, 3, 9));
                if !stack.bytes.is_empty() {
                    let at = words.as_ptr() as usize - stack.low as usize;
                    assert_eq!(stack.bytes[at..at + 8], words[0].to_ne_bytes());
                    seen += 1;
                }
            });
            assert!(seen > 0);
        }
    }

    /// Regression test: a tick between the spawn of the agent thread and its pool asked the kernel
    /// which pages can be read, although a seccomp filter could kill for that.
    #[test]
    fn no_stack_is_copied_where_system_calls_are_forbidden() {
        // SAFETY: as above.
        let deferred: Box<DeferredSamples> = unsafe { Box::new_zeroed().assume_init() };
        let words = [1u64; 64];
        let sample = RawSample { tid: 7, weight_ns: 9, ..RawSample::default() };
        assert!(deferred.keep(&sample, Registers::of_sleeper(1, words.as_ptr() as u64), false));
        let mut lengths = Vec::new();
        deferred.drain(|tick, stack| lengths.push((tick.weight_ns, stack.bytes.len())));
        assert_eq!(lengths, [(9, 0)]);
    }
}

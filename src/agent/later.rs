//! Ticks that cannot be walked where they happen, kept as registers and a copy of the stack, for the agent thread to walk
//! later: those before it has made the pool (so the tick that gave birth to the agent is a sample like any other), and those in
//! code that was loaded after the last reading of the maps.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::asleep::CopiedStack;
use super::memory;
use super::ring::RawSample;
use super::sys;
use super::unwind::Registers;
use crate::link::wire::ring::LEFT_OUT;

/// Ticks kept at once; at 100 Hz, 160 ms of CPU time: the agent thread is there after a few.
const ENTRIES: usize = 16;
/// Bytes of stack copied from its pointer on, at most.
const COPY: usize = 64 * 1024;
/// Bytes for all copies together: most stacks are a few KiB deep.
const BYTES: usize = 64 * 1024;
const RED_ZONE: u64 = 128;
const PAGE: u64 = 4096;

/// States of an entry. All but FREE are its owner's: the handler's that took it, then the agent thread's.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const READY: u32 = 2;

/// One tick.
#[repr(C)]
struct Entry {
    /// Taken by compare-exchange, made ready with release by its handler, read with acquire and freed by the agent thread.
    state: AtomicU32,
    tick: UnsafeCell<Tick>,
}

/// What is known of a kept tick.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Tick {
    /// Thread.
    pub(super) tid: u32,
    /// Of the timer's configuration.
    pub(super) epoch: u32,
    /// Of its clock, ns.
    pub(super) weight_ns: u64,
    /// Of the sample, as far as they are known already.
    pub(super) flags: u32,
    /// Where the walk starts.
    pub(super) registers: Registers,
    /// Address of the first byte copied.
    low: u64,
    /// Where its copy begins in the bytes, and how long it is.
    start: usize,
    length: usize,
}

/// Room for them.
#[repr(C)]
pub(super) struct Later {
    entries: [Entry; ENTRIES],
    /// `copies << 32 | bytes`: how many copies are there, and how many bytes are taken from the
    /// start on. Bytes are given back when the last copy is. Changed by compare-exchange: with
    /// acquire by a handler that takes bytes, with release by the agent thread.
    taken: AtomicU64,
    bytes: UnsafeCell<[u8; BYTES]>,
}

// SAFETY: an entry's cells are its owner's (see the states), and so are the bytes that it took.
unsafe impl Sync for Later {}

impl Later {
    /// Fresh room; null without memory.
    pub(super) fn pages() -> *mut Later {
        memory::pages(size_of::<Later>()).cast()
    }

    /// Gives unused room back.
    ///
    /// # Safety
    /// It came from [`pages`](Self::pages), and nobody uses it.
    pub(super) unsafe fn release(later: *mut Later) {
        // SAFETY: the caller vouches.
        unsafe { memory::release(later.cast(), size_of::<Later>()) };
    }

    /// Keeps a tick; false when there is no room left.
    pub(super) fn keep(&self, sample: &RawSample, registers: Registers) -> bool {
        let RawSample { tid, epoch, weight_ns, flags, .. } = *sample;
        let take =
            |entry: &&Entry| entry.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let Some(entry) = self.entries.iter().find(take) else { return false };
        let low = registers.sp().saturating_sub(RED_ZONE) & !7;
        let mut readable = 0;
        while readable < COPY && sys::readable((low + readable as u64) as usize) {
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
        unsafe { *entry.tick.get() = Tick { tid, epoch, weight_ns, flags, registers, low, start, length } };
        entry.state.store(READY, Ordering::Release);
        true
    }

    /// Takes so many bytes, or what is left of them: where they begin, and how many they are.
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

    /// Gives the bytes of one copy back; all of them if it was the last.
    fn give_bytes_back(&self) {
        let fewer = |taken: u64| match (taken >> 32).saturating_sub(1) {
            0 => Some(0),
            copies => Some(copies << 32 | taken & u64::from(u32::MAX)),
        };
        let _always_done = self.taken.fetch_update(Ordering::Release, Ordering::Relaxed, fewer);
    }

    /// Calls `each` with every tick that is complete, once. For the agent thread alone.
    pub(super) fn take(&self, mut each: impl FnMut(Tick, CopiedStack<'_>)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shared_and_come_back_with_the_last_copy() {
        // SAFETY: zero is valid, as in fresh pages.
        let later: Box<Later> = unsafe { Box::new_zeroed().assume_init() };
        assert_eq!(later.take_bytes(1000), (0, 1000));
        assert_eq!(later.take_bytes(COPY), (1000, BYTES - 1000), "what is left");
        assert_eq!(later.take_bytes(1), (BYTES, 0));
        later.give_bytes_back();
        later.give_bytes_back();
        assert_eq!(later.take_bytes(1), (BYTES, 0), "one copy is there still");
        later.give_bytes_back();
        later.give_bytes_back();
        assert_eq!(later.take_bytes(10), (0, 10));
    }

    #[test]
    fn a_kept_tick_has_its_stack_and_registers() {
        // SAFETY: as above.
        let later: Box<Later> = unsafe { Box::new_zeroed().assume_init() };
        let words = [0x1234_5678_9abc_def0u64; 64];
        let sample = RawSample { tid: 7, epoch: 3, weight_ns: 9, ..RawSample::default() };
        for _ in 0..3 {
            for _ in 0..ENTRIES {
                assert!(later.keep(&sample, Registers::asleep(1, words.as_ptr() as u64)));
            }
            assert!(!later.keep(&sample, Registers::asleep(1, words.as_ptr() as u64)), "every entry is taken");
            let mut seen = 0;
            later.take(|tick, stack| {
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
}

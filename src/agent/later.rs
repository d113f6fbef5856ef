//! Ticks that cannot be walked where they happen, kept as registers and a copy of the stack, for the agent thread to walk
//! later: those before it has made the pool (so the tick that gave birth to the agent is a sample like any other), and those in
//! code that was loaded after the last reading of the maps.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use super::asleep::CopiedStack;
use super::memory;
use super::ring::RawSample;
use super::sys;
use super::unwind::Registers;
use crate::link::wire::ring::LEFT_OUT;

/// Ticks kept at once; at 100 Hz, 80 ms of CPU time: the agent thread is there after a few.
const ENTRIES: usize = 8;
/// Bytes of stack copied from its pointer on.
const COPY: usize = 64 * 1024;
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
    bytes: UnsafeCell<[u8; COPY]>,
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
    low: u64,
    length: usize,
}

/// Room for them.
#[repr(C)]
pub(super) struct Later {
    entries: [Entry; ENTRIES],
}

// SAFETY: an entry's cells are its owner's (see the states).
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
        let mut length = 0;
        while length < COPY {
            let page_end = ((low + length as u64) & !(PAGE - 1)) + PAGE;
            if !sys::readable((low + length as u64) as usize) {
                break;
            }
            let part = ((page_end - low) as usize).min(COPY) - length;
            // SAFETY: the page was found readable just now, is this thread's own stack, and the destination has room.
            unsafe {
                let source = core::ptr::with_exposed_provenance::<u8>((low + length as u64) as usize);
                core::ptr::copy_nonoverlapping(source, entry.bytes.get().cast::<u8>().add(length), part);
            }
            length += part;
        }
        // SAFETY: this handler alone took the entry.
        unsafe { *entry.tick.get() = Tick { tid, epoch, weight_ns, flags: flags & LEFT_OUT, registers, low, length } };
        entry.state.store(READY, Ordering::Release);
        true
    }

    /// Calls `each` with every tick that is complete, once. For the agent thread alone.
    pub(super) fn take(&self, mut each: impl FnMut(Tick, CopiedStack<'_>)) {
        for entry in self.entries.iter().filter(|entry| entry.state.load(Ordering::Acquire) == READY) {
            // SAFETY: written completely, and nobody's but this thread's until it is free.
            let (tick, bytes) = unsafe { (*entry.tick.get(), &*entry.bytes.get()) };
            each(tick, CopiedStack { low: tick.low, bytes: &bytes[..tick.length] });
            entry.state.store(FREE, Ordering::Release);
        }
    }
}

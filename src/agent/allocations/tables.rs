//! The tables that the replacements of the allocator's functions use: countdowns by thread, and the
//! set of sampled addresses with its filter.
//!
//! A sampled address is in a slot of the bucket that its hash names, and the number of the slot is
//! the id of the allocation. A slot is taken ([`TAKEN`]) while the sample is recorded, holds the
//! address until that is freed, and is then [`FREED`] until the agent thread has sent its end.
//! So the viewer hears of an allocation before its end, and no end is lost. An address for which
//! the bucket has no room is not watched, and its sample says so.

use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::agent::arch::HASH_MULTIPLIER;
use crate::agent::os::memory;
use alloc::vec::Vec;

/// Number of countdowns. A thread beyond them shares one.
const COUNTDOWNS: usize = 1024;
/// Number of countdowns that a thread looks at to find or claim its own.
const PROBES: usize = 16;
const FILTER: usize = 16384;
const BUCKETS: usize = FILTER / 2;
const BUCKET: usize = 8;

/// State of a slot whose allocation is being recorded or reallocated.
const TAKEN: u64 = 1;
/// State of a slot whose allocation was freed. Only the agent thread makes it free (0).
const FREED: u64 = 2;

/// The countdown of one thread, in a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Countdown {
    /// Thread pointer of its thread; 0 while it has none. A thread that starts where one has ended
    /// has the same.
    owner: AtomicUsize,
    /// Bytes until the next sample. The replacements subtract from it without a locked instruction,
    /// because only signal handlers of the same thread do so too.
    pub(crate) left: AtomicI64,
    /// State of the random numbers; 0 before the first.
    pub(crate) random: AtomicU64,
}

/// All tables, in the layout that the replacements know.
#[repr(C)]
pub(crate) struct Tables {
    countdowns: [Countdown; COUNTDOWNS],
    /// Number of watched addresses for every value of the hash.
    filter: [AtomicU8; FILTER],
    slots: [AtomicU64; BUCKETS * BUCKET],
    /// The countdown of the threads that have none of their own.
    shared: Countdown,
    /// Number of slots that have become [`FREED`].
    freed: AtomicU32,
}

const _: () = assert!(size_of::<Countdown>() == 64 && core::mem::offset_of!(Countdown, left) == 8);
const _: () = assert!(core::mem::offset_of!(Tables, filter) == 0x1_0000 && COUNTDOWNS == 1024 && FILTER == 0x4000);

/// The tables. Written once, by the agent thread, before a function is replaced; a fork child
/// inherits them.
pub(crate) static TABLES: AtomicPtr<Tables> = AtomicPtr::new(core::ptr::null_mut());

/// Returns the tables, if there are any yet.
pub(crate) fn tables() -> Option<&'static Tables> {
    let tables = TABLES.load(Ordering::Acquire);
    // SAFETY: published once and never unmapped.
    (!tables.is_null()).then(|| unsafe { &*tables })
}

/// Returns the tables, which are made at the first call; `None` if there is no memory. For the
/// agent thread.
pub(crate) fn make() -> Option<&'static Tables> {
    if TABLES.load(Ordering::Acquire).is_null() {
        // Fresh zero pages, valid as tables.
        TABLES.store(memory::map_inherited(size_of::<Tables>()).cast(), Ordering::Release);
    }
    tables()
}

fn hash(word: usize) -> usize {
    ((word as u64).wrapping_mul(HASH_MULTIPLIER) >> 32) as usize
}

impl Tables {
    /// Returns the countdown of the thread with this thread pointer.
    pub(crate) fn countdown(&self, owner: usize) -> &Countdown {
        let start = hash(owner);
        for probe in 0..PROBES {
            let countdown = &self.countdowns[(start + probe) % COUNTDOWNS];
            let found = countdown.owner.load(Ordering::Relaxed);
            let is_own = found == owner
                || found == 0
                    && countdown.owner.compare_exchange(0, owner, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if is_own {
                return countdown;
            }
        }
        &self.shared
    }

    /// Makes every thread draw its countdown anew. If one subtracts at this moment it may miss
    /// that, which [`mend`](Self::mend) finds.
    pub(crate) fn restart(&self) {
        for countdown in self.countdowns.iter().chain([&self.shared]) {
            countdown.random.store(0, Ordering::Relaxed);
            countdown.left.store(0, Ordering::Relaxed);
        }
    }

    /// Restarts the countdowns that are longer than any that is drawn.
    pub(crate) fn mend(&self, most: i64) {
        let all = self.countdowns.iter().chain([&self.shared]);
        all.filter(|countdown| countdown.left.load(Ordering::Relaxed) > most).for_each(|countdown| {
            countdown.random.store(0, Ordering::Relaxed);
            countdown.left.store(0, Ordering::Relaxed);
        });
    }

    /// Forgets all addresses. None may be added at the same time.
    pub(crate) fn forget_addresses(&self) {
        self.forget_filter();
        self.slots.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).for_each(|slot| {
            slot.store(0, Ordering::Relaxed);
        });
        self.freed.store(0, Ordering::Relaxed);
    }

    /// Lets no address appear to be sampled. For a fork child.
    pub(crate) fn forget_filter(&self) {
        let used = self.filter.iter().filter(|byte| byte.load(Ordering::Relaxed) != 0);
        used.for_each(|byte| byte.store(0, Ordering::Relaxed));
    }

    fn bucket(&self, address: usize) -> (usize, &[AtomicU64]) {
        let first = hash(address) % BUCKETS * BUCKET;
        (first, &self.slots[first..first + BUCKET])
    }

    /// Takes a slot for an address, and returns its id; 0 if there is no room.
    pub(crate) fn take(&self, address: usize) -> u32 {
        // Its last end was not seen.
        self.free(address);
        let (first, bucket) = self.bucket(address);
        let is_taken = |slot: &AtomicU64| slot.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        bucket.iter().position(is_taken).map_or(0, |at| (first + at) as u32 + 1)
    }

    /// Watches the address for which a slot was taken.
    pub(crate) fn watch(&self, id: u32, address: usize) {
        if let Some(slot) = self.slot(id) {
            self.filter[hash(address) % FILTER].fetch_add(1, Ordering::Relaxed);
            slot.store(address as u64, Ordering::Release);
        }
    }

    /// Gives a taken slot back.
    pub(crate) fn give_back(&self, id: u32) {
        if let Some(slot) = self.slot(id) {
            slot.store(0, Ordering::Release);
        }
    }

    /// Takes the slot of an address that is watched. Returns its id; 0 if it is not.
    pub(crate) fn withdraw(&self, address: usize) -> u32 {
        let filter = &self.filter[hash(address) % FILTER];
        if address as u64 <= FREED || filter.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let (first, bucket) = self.bucket(address);
        let is_withdrawn = |slot: &AtomicU64| {
            slot.load(Ordering::Relaxed) == address as u64
                && slot.compare_exchange(address as u64, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(at) = bucket.iter().position(is_withdrawn) else { return 0 };
        filter.fetch_sub(1, Ordering::Relaxed);
        (first + at) as u32 + 1
    }

    /// Ends the allocation of a slot that was withdrawn.
    pub(crate) fn end(&self, id: u32) {
        if let Some(slot) = self.slot(id) {
            slot.store(FREED, Ordering::Release);
            self.freed.fetch_add(1, Ordering::Release);
        }
    }

    /// Ends the allocation at an address, if that is watched.
    pub(crate) fn free(&self, address: usize) {
        self.end(self.withdraw(address));
    }

    fn slot(&self, id: u32) -> Option<&AtomicU64> {
        self.slots.get((id as usize).wrapping_sub(1))
    }

    /// Adds the ids of the allocations that have ended since the last call. For the agent thread.
    pub(crate) fn collect_freed(&self, ids: &mut Vec<u32>) {
        if self.freed.swap(0, Ordering::Acquire) > 0 {
            let freed = self.slots.iter().zip(1..).filter(|(slot, _)| slot.load(Ordering::Acquire) == FREED);
            // Those of the last call that are not sent yet are found again.
            ids.clear();
            ids.extend(freed.map(|(_, id)| id));
        }
    }

    /// Returns whether an allocation has ended since the last [`collect_freed`](Self::collect_freed).
    pub(crate) fn has_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> &'static Tables {
        // SAFETY: zero is valid, as in fresh pages.
        Box::leak(unsafe { Box::<Tables>::new_zeroed().assume_init() })
    }

    #[test]
    fn an_address_is_watched_until_it_is_freed_and_its_id_is_not_used_before_that_is_told() {
        let tables = fresh();
        let id = tables.take(0x7000);
        assert!(id != 0 && tables.withdraw(0x7000) == 0, "it is not watched yet");
        tables.watch(id, 0x7000);
        tables.free(0x8000);
        assert!(!tables.has_freed());
        tables.free(0x7000);
        assert!(tables.has_freed() && tables.withdraw(0x7000) == 0);
        let again = tables.take(0x7000);
        assert_ne!(again, id, "its end is not sent yet");
        let mut ids = Vec::new();
        tables.collect_freed(&mut ids);
        assert_eq!(ids, [id]);
        tables.give_back(id);
        assert_eq!(tables.take(0x7000), id);
    }

    #[test]
    fn a_full_bucket_watches_no_more() {
        let tables = fresh();
        let ids: Vec<u32> = (0..BUCKET + 1).map(|_| tables.take(0x7000)).collect();
        assert!(ids[..BUCKET].iter().all(|&id| id != 0) && ids[BUCKET] == 0);
        tables.watch(0, 0x7000);
        tables.give_back(ids[3]);
        assert_eq!(tables.take(0x7000), ids[3]);
    }

    #[test]
    fn threads_have_countdowns_of_their_own_and_the_rest_share_one() {
        let tables = fresh();
        let mut own = std::collections::HashSet::new();
        for thread in 1..=100usize {
            own.insert(core::ptr::from_ref(tables.countdown(0x7f00_0000_0740 + (thread << 23))));
        }
        assert_eq!(own.len(), 100);
        for thread in 101..=5000usize {
            tables.countdown(0x7f00_0000_0740 + (thread << 23));
        }
        let shared = core::ptr::from_ref(&tables.shared);
        assert!(core::ptr::eq(tables.countdown(0x7e00_0000_0000), shared));
    }
}

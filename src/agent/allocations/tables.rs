//! The tables that the replacements of the allocator's functions use: countdowns by thread, and the
//! set of sampled addresses with its filter.
//!
//! A sampled allocation has an id, and its address is in a slot of the bucket that the address's
//! hash names. When it is freed, the slot is free again at once, but the id is not used again
//! before the agent thread has sent its end. So the viewer hears of an allocation before its end,
//! no end is lost, and an address that is allocated again and again takes one slot. The ends that
//! were not sent also stand in the ring ([`LastEnds`]). The slot is claimed before the sample is
//! recorded: an address for which the bucket has no room is not watched, and its sample says so. A
//! mapping has an id and no slot ([`SampledMappings`]).
//!
//! [`LastEnds`]: crate::agent::allocations::last_ends::LastEnds

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::agent::allocations::countdown::Countdown;
use crate::agent::allocations::mappings::SampledMappings;
use crate::agent::os::memory;
use crate::agent::sampling::ring::Ring;
use crate::arch::HASH_MULTIPLIER;
use crate::wire::ring::ALLOCATIONS;

/// Number of countdowns. A thread beyond them shares one.
const COUNTDOWNS: usize = 1024;
/// Number of countdowns that a thread looks at to find or claim its own.
const PROBES: usize = 16;
const FILTER: usize = 16384;
const BUCKETS: usize = FILTER / 2;
const BUCKET: usize = 8;

/// Number of ids, which fit the lower bits of a slot. There is no allocation 0.
const IDS: usize = ALLOCATIONS;
const ID_BITS: u32 = ALLOCATIONS.ilog2();
/// End of the addresses that fit the upper bits of a slot.
const ADDRESSES: u64 = 1 << (64 - ID_BITS);

/// All tables, in the layout that the replacements know.
#[repr(C)]
pub(crate) struct Tables {
    countdowns: [Countdown; COUNTDOWNS],
    /// Number of watched addresses for every value of the hash.
    filter: [AtomicU8; FILTER],
    /// The address and id of a watched allocation, the id alone while its sample is recorded, or 0.
    slots: [AtomicU64; BUCKETS * BUCKET],
    /// The ids that are in use, as bits. Only the agent thread gives back one that has ended.
    used: [AtomicU64; IDS / 64],
    /// The ids whose allocations have ended since the agent thread has looked.
    ended: [AtomicU64; IDS / 64],
    /// The word of `used` in which an id was found last.
    last_used: AtomicUsize,
    /// The countdown of the threads that have none of their own.
    shared: Countdown,
    /// Whether an allocation has ended since the agent thread has looked.
    have_ended: AtomicBool,
    /// The sampled mappings.
    pub(crate) mappings: SampledMappings,
}

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

    /// Returns the number of bytes that all threads have allocated.
    pub(crate) fn counted(&self) -> u64 {
        let all = self.countdowns.iter().chain([&self.shared]);
        all.map(Countdown::counted).fold(0, u64::wrapping_add)
    }

    /// Makes every thread draw its countdown anew. If one subtracts at this moment it may miss
    /// that, which [`mend`](Self::mend) finds.
    pub(crate) fn restart(&self) {
        self.countdowns.iter().chain([&self.shared]).for_each(Countdown::restart);
    }

    /// Restarts the countdowns that are longer than any that is drawn.
    pub(crate) fn mend(&self, most: i64) {
        let all = self.countdowns.iter().chain([&self.shared]);
        all.filter(|countdown| countdown.left.load(Ordering::Relaxed) > most).for_each(Countdown::restart);
    }

    /// Forgets all addresses, and notes ends in this ring from now on. None may be added meanwhile.
    pub(crate) fn begin(&self, ring: &'static Ring) {
        self.mappings.last_ends.begin(ring);
        self.forget_filter();
        let words = self.slots.iter().chain(&self.used).chain(&self.ended);
        words.filter(|word| word.load(Ordering::Relaxed) != 0).for_each(|word| word.store(0, Ordering::Relaxed));
        self.have_ended.store(false, Ordering::Relaxed);
    }

    /// Lets no address appear to be sampled. For a fork child.
    pub(crate) fn forget_filter(&self) {
        let used = self.filter.iter().filter(|byte| byte.load(Ordering::Relaxed) != 0);
        used.for_each(|byte| byte.store(0, Ordering::Relaxed));
        self.mappings.forget();
    }

    fn bucket(&self, address: usize) -> &[AtomicU64] {
        let first = hash(address) % BUCKETS * BUCKET;
        &self.slots[first..first + BUCKET]
    }

    /// Puts a word into a free slot of an address's bucket. Returns false if there is none.
    fn fill(&self, address: usize, word: u64) -> bool {
        let fill = |slot: &AtomicU64| slot.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        (address as u64) < ADDRESSES && self.bucket(address).iter().any(fill)
    }

    /// Takes an id; 0 if all are in use.
    fn take_id(&self) -> u32 {
        let last = self.last_used.load(Ordering::Relaxed);
        for index in (0..self.used.len()).map(|index| (last + index) % self.used.len()) {
            // Nothing has the id 0.
            let reserved = u64::from(index == 0);
            let mut word = self.used[index].load(Ordering::Relaxed);
            while (word | reserved) != u64::MAX {
                let bit = (word | reserved).trailing_ones();
                let next = word | 1 << bit;
                match self.used[index].compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        self.last_used.store(index, Ordering::Relaxed);
                        return index as u32 * 64 + bit;
                    }
                    Err(changed) => word = changed,
                }
            }
        }
        0
    }

    /// Gives the id of an allocation back, whose end was sent, or which was not recorded.
    pub(crate) fn give_back(&self, id: u32) {
        self.mappings.last_ends.remove(id);
        if let Some(word) = self.used.get(id as usize / 64) {
            word.fetch_and(!(1 << (id % 64)), Ordering::Release);
        }
    }

    /// Takes an id and a slot for an address. Returns the id; 0 if there is no room.
    pub(crate) fn take(&self, address: usize) -> u32 {
        // Its last end was not seen.
        self.free(address);
        let id = self.take_id();
        if id != 0 && !self.fill(address, id.into()) {
            self.give_back(id);
            return 0;
        }
        id
    }

    /// Takes an id for a mapping and watches it. Returns the id; 0 if there is no room.
    pub(crate) fn take_mapping(&self, address: usize, length: usize) -> u32 {
        let id = self.take_id();
        if id != 0 && !self.mappings.watch(id, address, length) {
            self.give_back(id);
            return 0;
        }
        id
    }

    /// Changes what stands in the slot of an address, from one word to another.
    fn replace(&self, address: usize, word: u64, next: u64) {
        let replace = |slot: &AtomicU64| slot.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.bucket(address).iter().any(replace);
    }

    /// Watches the address for which an id was taken.
    pub(crate) fn watch(&self, id: u32, address: usize) {
        if id != 0 {
            self.filter[hash(address) % FILTER].fetch_add(1, Ordering::Relaxed);
            self.replace(address, id.into(), (address as u64) << ID_BITS | u64::from(id));
        }
    }

    /// Gives back what was taken for an address, as its sample was lost.
    pub(crate) fn cancel(&self, id: u32, address: usize) {
        if id != 0 {
            self.replace(address, id.into(), 0);
            self.give_back(id);
        }
    }

    /// Stops watching an address. Returns the id of its allocation; 0 if it is not watched.
    pub(crate) fn withdraw(&self, address: usize) -> u32 {
        let filter = &self.filter[hash(address) % FILTER];
        if address == 0 || address as u64 >= ADDRESSES || filter.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        for slot in self.bucket(address) {
            let word = slot.load(Ordering::Relaxed);
            if word >> ID_BITS == address as u64
                && slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                filter.fetch_sub(1, Ordering::Relaxed);
                return word as u32 & (IDS as u32 - 1);
            }
        }
        0
    }

    /// Watches again the address of an allocation that was withdrawn.
    pub(crate) fn watch_again(&self, id: u32, address: usize) {
        match self.fill(address, id.into()) {
            true => self.watch(id, address),
            false => self.end(id),
        }
    }

    /// Ends the allocation with an id that was withdrawn.
    pub(crate) fn end(&self, id: u32) {
        if let Some(word) = self.ended.get(id as usize / 64).filter(|_| id != 0) {
            self.mappings.last_ends.add(id);
            word.fetch_or(1 << (id % 64), Ordering::Release);
            self.have_ended.store(true, Ordering::Release);
        }
    }

    /// Ends the allocation at an address, if that is watched.
    pub(crate) fn free(&self, address: usize) {
        self.end(self.withdraw(address));
    }

    /// Calls `each` with the id of every allocation that has ended since the last call. For the
    /// agent thread.
    pub(crate) fn collect_freed(&self, mut each: impl FnMut(u32)) {
        if !self.have_ended.swap(false, Ordering::Acquire) {
            return;
        }
        for (index, word) in self.ended.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut ended = word.swap(0, Ordering::Acquire);
            while ended != 0 {
                each(index as u32 * 64 + ended.trailing_zeros());
                ended &= ended - 1;
            }
        }
    }

    /// Returns whether an allocation has ended since the last [`collect_freed`](Self::collect_freed),
    /// or a mapping has shrunk.
    pub(crate) fn has_freed(&self) -> bool {
        self.have_ended.load(Ordering::Relaxed) || self.mappings.have_shrunk()
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
        tables.collect_freed(|id| ids.push(id));
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
        tables.cancel(ids[3], 0x7000);
        assert_eq!(tables.take(0x7000), ids[3]);
    }

    /// An allocator hands the address out again that was freed last.
    #[test]
    fn one_address_is_watched_as_often_as_there_are_ids() {
        let tables = fresh();
        for _ in 1..IDS {
            let id = tables.take(0x7000);
            assert_ne!(id, 0);
            tables.watch(id, 0x7000);
            tables.free(0x7000);
        }
        assert_eq!(tables.take(0x7000), 0, "no end was sent yet");
        let mut ids = Vec::new();
        tables.collect_freed(|id| ids.push(id));
        assert_eq!(ids, (1..IDS as u32).collect::<Vec<_>>());
        ids.iter().for_each(|&id| tables.give_back(id));
        assert_ne!(tables.take(0x7000), 0);
        assert_eq!(tables.take(ADDRESSES as usize), 0, "no such address fits");
    }

    #[test]
    fn an_allocation_that_was_not_moved_is_watched_again() {
        let tables = fresh();
        let id = tables.take(0x7000);
        tables.watch(id, 0x7000);
        assert_eq!(tables.withdraw(0x7000), id);
        assert_eq!(tables.withdraw(0x7000), 0);
        tables.watch_again(id, 0x7000);
        assert!(!tables.has_freed());
        tables.free(0x7000);
        assert!(tables.has_freed());
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

//! The ends of allocations that the viewer may not know yet, in the ring: there it finds them after
//! the end of the process.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::agent::os::memory;
use crate::agent::sampling::ring::Ring;
use crate::arch::page_size;
use crate::wire::ring::{HEADER_WORDS, MappingPiece, word};

/// A page that the kernel empties in a fork child, whose frees are not this process's. Zero is
/// valid.
#[repr(C, align(4096))]
pub(crate) struct LastEnds {
    /// The ring; null if nothing is noted.
    ring: AtomicPtr<Ring>,
}

impl LastEnds {
    /// Notes ends in this ring from now on, if the kernel can empty the page in a fork child. A
    /// larger page has other tables, too, which the child needs.
    pub(super) fn begin(&self, ring: &'static Ring) {
        for word in (word::ENDED..HEADER_WORDS).map(|index| ring.header(index)) {
            word.store(0, Ordering::Relaxed);
        }
        if page_size() == size_of::<LastEnds>()
            && memory::empty_in_fork(core::ptr::from_ref(self).cast(), size_of::<LastEnds>())
        {
            self.ring.store(core::ptr::from_ref(ring).cast_mut(), Ordering::Release);
        }
    }

    fn word(&self, index: usize) -> Option<&'static AtomicU64> {
        // SAFETY: a ring lives as long as its process, in which alone this is not null.
        let ring = unsafe { self.ring.load(Ordering::Acquire).as_ref() }?;
        Some(ring.header(index))
    }

    /// Notes that an allocation has ended.
    pub(super) fn add(&self, id: u32) {
        if let Some(word) = self.word(word::ENDED + id as usize / 64) {
            word.fetch_or(1 << (id % 64), Ordering::Relaxed);
        }
    }

    /// Forgets that an allocation has ended, as the viewer knows it.
    pub(super) fn remove(&self, id: u32) {
        if let Some(word) = self.word(word::ENDED + id as usize / 64) {
            word.fetch_and(!(1 << (id % 64)), Ordering::Relaxed);
        }
    }

    /// Notes what is left of a piece of a mapping; `None` if there is no such piece any more.
    pub(super) fn set_piece(&self, index: usize, piece: Option<MappingPiece>) {
        let words = piece.map_or([0; 2], MappingPiece::pack);
        for (word, value) in words.into_iter().enumerate().rev() {
            if let Some(word) = self.word(word::PIECES + 2 * index + word) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}

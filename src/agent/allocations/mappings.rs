//! The sampled mappings, by the pages of each that are mapped still.
//!
//! munmap(2) may end a part of a mapping, or several at a time, mmap(2) may replace a part of one,
//! and mremap(2) moves some. A mapping is therefore kept as pieces, and found by its pages. A piece
//! is one word, so that any thread, and any handler, can change it by a single exchange. Only the
//! agent thread makes a piece without pages free again, once it knows that its mapping has shrunk.

use crate::agent::allocations::last_ends::LastEnds;
use crate::arch::page_size;
use crate::wire::ring::{MAPPING_PIECES, MappingPiece};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of pieces. A mapping beyond them is not watched, and its sample says so.
const PIECES: usize = MAPPING_PIECES;
/// Pages are counted in units of the smallest ones that a kernel has: 4 KiB.
const PAGE_BITS: u32 = 12;
/// A range of pages in one word: the first page, and in the lower bits the number of pages.
const COUNT_BITS: u32 = 27;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Number of pages that a process can map, and bit of the first page of a piece that mremap(2) is
/// moving: no range of addresses meets it.
const MOVING: u64 = 1 << (48 - PAGE_BITS);

/// State of a piece that is being written.
const CLAIMED: u64 = 1;
/// State of a piece whose pages are all unmapped.
const GONE: u64 = 2;

/// A part of a mapping.
#[repr(C)]
struct Piece {
    /// Its range of pages, 0 if the piece is free, or one of the states above, which are ranges of
    /// the page at address 0.
    range: AtomicU64,
    /// Id of the allocation, and the number of pages that the whole mapping had. Written while the
    /// piece is [`CLAIMED`].
    id: AtomicU32,
    whole: AtomicU32,
}

/// All pieces. Zero is valid: there are none.
#[repr(C)]
pub(crate) struct SampledMappings {
    pieces: [Piece; PIECES],
    /// Number of pieces from the first on that were ever used.
    used: AtomicUsize,
    /// Whether a mapping has shrunk since the agent thread has looked.
    have_shrunk: AtomicBool,
    /// The pieces and ended allocations as the viewer finds them after the end of the process.
    pub(super) last_ends: LastEnds,
}

/// The pages of a range of addresses: the first, and the one after the last. The kernel rounds ends
/// of mappings up to its own pages.
fn pages(address: usize, length: usize) -> (u64, u64) {
    let end = address.saturating_add(length).saturating_add(page_size() - 1) & !(page_size() - 1);
    ((address as u64 >> PAGE_BITS).min(MOVING), (end as u64 >> PAGE_BITS).min(MOVING))
}

/// Packs a range of pages; [`GONE`] if it is empty.
fn pack(first: u64, end: u64) -> u64 {
    if end > first { first << COUNT_BITS | (end - first) } else { GONE }
}

/// The pages of a range, as [`pages`] returns them. Those of a state are none.
fn unpack(range: u64) -> (u64, u64) {
    let first = range >> COUNT_BITS;
    (first, if first == 0 { 0 } else { first + (range & COUNT) })
}

impl SampledMappings {
    /// Whether no mapping is watched.
    fn is_empty(&self) -> bool {
        self.used.load(Ordering::Acquire) == 0
    }

    fn used(&self) -> &[Piece] {
        &self.pieces[..self.used.load(Ordering::Acquire).min(PIECES)]
    }

    /// Notes a piece as it is now.
    fn note(&self, index: usize) {
        let piece = &self.pieces[index];
        let range = piece.range.load(Ordering::Acquire);
        let (first, end) = unpack(range);
        let (id, whole) = (piece.id.load(Ordering::Relaxed), piece.whole.load(Ordering::Relaxed));
        let is_piece = range != 0 && range != CLAIMED;
        self.last_ends.set_piece(index, is_piece.then(|| MappingPiece { id, whole, left: (end - first) as u32 }));
    }

    /// Puts a range of pages of an allocation into a free piece. Returns false if there is none.
    fn add(&self, id: u32, whole: u32, range: u64) -> bool {
        let claim =
            |piece: &Piece| piece.range.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let Some(index) = self.pieces.iter().position(claim) else { return false };
        let piece = &self.pieces[index];
        piece.id.store(id, Ordering::Relaxed);
        piece.whole.store(whole, Ordering::Relaxed);
        piece.range.store(range, Ordering::Release);
        self.used.fetch_max(index + 1, Ordering::Release);
        self.note(index);
        true
    }

    /// Watches the mapping of an allocation. Returns false if there is no room for it, or if it is
    /// larger than half a terabyte.
    pub(crate) fn watch(&self, id: u32, address: usize, length: usize) -> bool {
        let (first, end) = pages(address, length);
        let whole = end - first;
        if first == 0 || !(1..=COUNT).contains(&whole) {
            return false;
        }
        self.add(id, whole as u32, pack(first, end))
    }

    /// Ends the pages of all mappings in a range of addresses.
    pub(crate) fn unmap(&self, address: usize, length: usize) {
        self.cut(pages(address, length), |_, _| GONE);
    }

    /// Takes the pages of all mappings in a range of addresses away from there, before mremap(2)
    /// moves them. [`attach`](Self::attach) has to follow.
    pub(crate) fn detach(&self, address: usize, length: usize) {
        self.cut(pages(address, length), |first, end| pack(first | MOVING, end | MOVING));
    }

    /// Puts the pages that were taken from a range of addresses at their new one. Those that do not
    /// fit it end. Returns whether there were any.
    pub(crate) fn attach(&self, from: (usize, usize), to: (usize, usize)) -> bool {
        let ((from, from_end), (to, to_end)) = (pages(from.0, from.1), pages(to.0, to.1));
        let mut is_any = false;
        for (index, piece) in self.used().iter().enumerate() {
            let range = piece.range.load(Ordering::Acquire);
            let (first, end) = unpack(range);
            if first & MOVING == 0 || (first & !MOVING) < from || (end & !MOVING) > from_end {
                continue;
            }
            let moved = |page: u64| (page & !MOVING) - from + to;
            let next = pack(moved(first), moved(end).min(to_end));
            if piece.range.compare_exchange(range, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                is_any = true;
                self.note(index);
                self.have_shrunk.store(true, Ordering::Release);
            }
        }
        is_any
    }

    /// Puts what `replace` makes of them in the place of the pages in a range.
    fn cut(&self, (from, to): (u64, u64), replace: impl Fn(u64, u64) -> u64) {
        if self.is_empty() {
            return;
        }
        for (index, piece) in self.used().iter().enumerate() {
            let mut range = piece.range.load(Ordering::Acquire);
            loop {
                let (first, end) = unpack(range);
                let (start, stop) = (from.max(first), to.min(end));
                if start >= stop {
                    break;
                }
                let parts = [pack(first, start), replace(start, stop), pack(stop, end)];
                let mut parts = parts.into_iter().filter(|&part| part != GONE);
                let kept = parts.next().unwrap_or(GONE);
                let (id, whole) = (piece.id.load(Ordering::Relaxed), piece.whole.load(Ordering::Relaxed));
                match piece.range.compare_exchange(range, kept, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        self.note(index);
                        // Further parts get places of their own. Without one they are lost.
                        for part in parts {
                            self.add(id, whole, part);
                        }
                        self.have_shrunk.store(true, Ordering::Release);
                        break;
                    }
                    Err(changed) => range = changed,
                }
            }
        }
    }

    /// Forgets all mappings.
    pub(crate) fn forget(&self) {
        self.used().iter().for_each(|piece| piece.range.store(0, Ordering::Relaxed));
        self.used.store(0, Ordering::Relaxed);
        self.have_shrunk.store(false, Ordering::Relaxed);
    }

    /// Whether a mapping has shrunk since the last [`collect`](Self::collect).
    pub(crate) fn have_shrunk(&self) -> bool {
        self.have_shrunk.load(Ordering::Relaxed)
    }

    /// Returns the part of each mapping that is left, as [`Message::Freed`] has it, by the id of the
    /// allocation; 0 of one that has ended. Empty if none has shrunk since the last call. For the
    /// agent thread.
    ///
    /// [`Message::Freed`]: crate::wire::Message::Freed
    pub(crate) fn collect(&self) -> Vec<(u32, u32)> {
        let mut pieces = Vec::new();
        if !self.have_shrunk.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        for (index, piece) in self.used().iter().enumerate() {
            let range = piece.range.load(Ordering::Acquire);
            if range == 0 || range == CLAIMED {
                continue;
            }
            let (first, end) = unpack(range);
            let (id, whole) = (piece.id.load(Ordering::Relaxed), piece.whole.load(Ordering::Relaxed));
            pieces.push(MappingPiece { id, whole, left: (end - first) as u32 });
            if range == GONE {
                piece.range.store(0, Ordering::Release);
                self.note(index);
            }
        }
        MappingPiece::left_by_id(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 1 << PAGE_BITS;
    const BASE: usize = 0x7f00_0000_0000;

    fn fresh() -> &'static SampledMappings {
        // SAFETY: zero is valid.
        Box::leak(unsafe { Box::<SampledMappings>::new_zeroed().assume_init() })
    }

    fn part(numerator: u64, denominator: u64) -> u32 {
        ((numerator << 32) / denominator) as u32
    }

    #[test]
    fn a_mapping_shrinks_from_both_ends_and_in_its_middle() {
        let mappings = fresh();
        assert!(mappings.watch(7, BASE, 16 * PAGE) && mappings.collect().is_empty());
        mappings.unmap(BASE - 4 * PAGE, 4 * PAGE);
        mappings.unmap(BASE + 16 * PAGE, PAGE);
        assert!(!mappings.have_shrunk(), "those are beside it");
        mappings.unmap(BASE - PAGE, 3 * PAGE);
        mappings.unmap(BASE + 14 * PAGE, 100 * PAGE);
        assert_eq!(mappings.collect(), [(7, part(12, 16))]);
        mappings.unmap(BASE + 6 * PAGE, 4 * PAGE - 1);
        assert_eq!(mappings.collect(), [(7, part(8, 16))]);
        mappings.unmap(BASE + 5 * PAGE, 6 * PAGE);
        assert_eq!(mappings.collect(), [(7, part(6, 16))]);
        mappings.unmap(BASE, 16 * PAGE);
        assert_eq!(mappings.collect(), [(7, 0)]);
        assert!(
            mappings.collect().is_empty()
                && mappings.pieces.iter().all(|piece| piece.range.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn pages_move_with_the_range_that_is_remapped() {
        let mappings = fresh();
        assert!(mappings.watch(1, BASE, 8 * PAGE) && mappings.watch(2, BASE + 8 * PAGE, 8 * PAGE));
        // Half of each, of which the last two pages find no room.
        let (from, to) = ((BASE + 4 * PAGE, 8 * PAGE), (BASE + 64 * PAGE, 6 * PAGE));
        mappings.detach(from.0, from.1);
        assert_eq!(mappings.collect(), [(1, u32::MAX), (2, u32::MAX)], "all are mapped still");
        mappings.unmap(from.0, from.1);
        assert!(mappings.attach(from, to) && !mappings.attach(from, to));
        assert_eq!(mappings.collect(), [(1, u32::MAX), (2, part(6, 8))]);
        mappings.unmap(BASE + 4 * PAGE, 8 * PAGE);
        assert!(!mappings.have_shrunk(), "they were moved from there");
        mappings.unmap(to.0, 5 * PAGE);
        assert_eq!(mappings.collect(), [(1, part(4, 8)), (2, part(5, 8))]);
        // A call that fails puts them back.
        mappings.detach(BASE, 4 * PAGE);
        assert!(mappings.attach((BASE, 4 * PAGE), (BASE, 4 * PAGE)));
        mappings.unmap(BASE, 3 * PAGE);
        assert_eq!(mappings.collect(), [(1, part(1, 8)), (2, part(5, 8))]);
        mappings.detach(0, usize::MAX);
        mappings.unmap(0, usize::MAX);
        assert_eq!(mappings.collect(), [(1, part(1, 8)), (2, part(5, 8))], "no address is theirs meanwhile");
    }

    #[test]
    fn one_call_ends_several_mappings_and_none_beyond_its_pages() {
        let mappings = fresh();
        for id in 1..=4 {
            assert!(mappings.watch(id, BASE + 8 * PAGE * id as usize, 8 * PAGE));
        }
        mappings.unmap(BASE + 20 * PAGE, 12 * PAGE);
        assert_eq!(mappings.collect(), [(1, u32::MAX), (2, part(4, 8)), (3, 0), (4, u32::MAX)]);
        mappings.forget();
        mappings.unmap(0, usize::MAX);
        assert!(!mappings.have_shrunk());
    }

    #[test]
    fn mappings_without_a_place_are_refused() {
        let mappings = fresh();
        assert!(!mappings.watch(1, BASE, 2 << 40), "too large");
        assert!(!mappings.watch(1, 1 << 48, PAGE), "too far");
        for id in 0..PIECES as u32 {
            assert!(mappings.watch(id, BASE + 2 * PAGE * id as usize, PAGE));
        }
        assert!(!mappings.watch(1, PAGE, PAGE));
        // What remains behind a hole has no place then, and counts as unmapped.
        mappings.unmap(BASE, PAGE);
        assert_eq!(mappings.collect()[0], (0, 0));
        assert!(mappings.watch(0, PAGE, 3 * PAGE));
        mappings.unmap(2 * PAGE, PAGE);
        assert_eq!(mappings.collect()[0], (0, part(1, 3)));
    }
}

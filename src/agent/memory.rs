//! The agent's own memory: pages from the kernel, and a small allocator over them for the agent thread.
//!
//! One thread allocates (the agent thread; at birth, nobody yet), so there is no lock. Handlers never allocate. In a fork
//! child the arena of the parent is gone, and a new one is begun.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;

use super::sys::syscall;

/// Bytes taken from the kernel at a time for small blocks.
const CHUNK: usize = 64 * 1024;
/// Larger blocks are mappings of their own.
const LARGEST_SMALL: usize = 16 * 1024;
/// Small blocks are powers of two from 16 bytes up.
const CLASSES: usize = 11;

const PAGE: usize = 4096;

const _: () = assert!(16 << (CLASSES - 1) == LARGEST_SMALL);

/// Fresh zero pages that a fork child does not inherit; null when there are none (RLIMIT_AS). mmap(2)
///
/// Where the target locks whatever it maps from now on (MCL_FUTURE), the kernel counts them against
/// RLIMIT_MEMLOCK until they are unlocked here: one mapping at a time, the largest of which has
/// some 260 KiB. A target that locks all it has (MCL_CURRENT) locks what the agent has then too,
/// some 1.2 MiB with one thread, and again at its next call; there is no flag that would keep pages
/// out of that.
pub(super) fn pages(size: usize) -> *mut u8 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let result = unsafe { syscall!(libc::SYS_mmap, 0usize, size, protection, flags, -1isize, 0) };
    if (-4095..0).contains(&result) {
        return null_mut();
    }
    not_locked(result as *const u8, size);
    // SAFETY: fresh pages hold nothing yet. Those that were made at once, to be locked, are not needed before they are used. madvise(2)
    unsafe { syscall!(libc::SYS_madvise, result, size, libc::MADV_DONTNEED) };
    not_for_forks(result as *const u8, size);
    result as *mut u8
}

/// Fresh zero pages like [`pages`], that begin at a multiple of their size, which is a power of
/// two. Null when there are none.
pub(super) fn aligned(size: usize) -> *mut u8 {
    let start = pages(2 * size - PAGE);
    if start.is_null() {
        return start;
    }
    let skipped = (start as usize).next_multiple_of(size) - start as usize;
    // SAFETY: the ends of a fresh mapping, before and behind what is returned.
    unsafe {
        if skipped > 0 {
            release(start, skipped);
        }
        if size - PAGE - skipped > 0 {
            release(start.add(skipped + size), size - PAGE - skipped);
        }
        start.add(skipped)
    }
}

/// Takes pages from what a target that locks all its memory may lock: mlockall(2) with MCL_FUTURE means ours too. munlock(2)
pub(super) fn not_locked(start: *const u8, size: usize) {
    // SAFETY: changes no contents of pages of the agent's own.
    unsafe { syscall!(libc::SYS_munlock, start, size) };
}

/// Keeps pages from being copied into fork children, which begin anew and look at none of them: a fork costs the target no more
/// because the agent is there. madvise(2)
pub(super) fn not_for_forks(start: *const u8, size: usize) {
    // SAFETY: a hint about pages of the agent's own.
    unsafe { syscall!(libc::SYS_madvise, start, size, libc::MADV_DONTFORK) };
}

/// Gives pages back. munmap(2)
///
/// # Safety
/// Nothing may use them any more.
pub(super) unsafe fn release(start: *mut u8, size: usize) {
    // SAFETY: the caller vouches.
    unsafe { syscall!(libc::SYS_munmap, start, size) };
}

/// Powers-of-two free lists over chunks of pages.
pub(super) struct Arena(UnsafeCell<State>);

struct State {
    free: [*mut u8; CLASSES],
    next: usize,
    end: usize,
}

// SAFETY: only one thread at a time uses it (see the file's head); `forget` runs where no agent thread exists.
unsafe impl Sync for Arena {}

impl Arena {
    /// Nothing allocated yet.
    pub(super) const fn new() -> Arena {
        Arena(UnsafeCell::new(State { free: [null_mut(); CLASSES], next: 0, end: 0 }))
    }

    /// Begins anew, without any of the blocks: for a fork child, which did not inherit them.
    ///
    /// # Safety
    /// No agent thread may exist, and none of the blocks may be freed afterwards.
    pub(super) unsafe fn forget(&self) {
        // SAFETY: the caller vouches that nobody else looks.
        unsafe { *self.0.get() = State { free: [null_mut(); CLASSES], next: 0, end: 0 } };
    }
}

fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(16).next_power_of_two();
    (size <= LARGEST_SMALL).then(|| size.trailing_zeros() as usize - 4)
}

// SAFETY: blocks are disjoint, aligned to their own power-of-two size (chunks are page-aligned and blocks are cut at
// multiples of their size), and live until freed; failure is a null pointer.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            return if layout.align() > 4096 { null_mut() } else { pages(layout.size().next_multiple_of(4096)) };
        };
        let size = 16usize << class;
        // SAFETY: one thread at a time; the heads of the free lists are blocks of their class that nobody uses, whose
        // first word is the next of the list.
        unsafe {
            let state = &mut *self.0.get();
            let head = state.free[class];
            if !head.is_null() {
                state.free[class] = *head.cast();
                return head;
            }
            let mut start = state.next.next_multiple_of(size);
            if state.next == 0 || start + size > state.end {
                let chunk = pages(CHUNK);
                if chunk.is_null() {
                    return null_mut();
                }
                start = (chunk as usize).next_multiple_of(size);
                state.end = chunk as usize + CHUNK;
            }
            state.next = start + size;
            start as *mut u8
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(layout) {
            // SAFETY: the caller gives a block of this layout back; its first word becomes the list's.
            Some(class) => unsafe {
                let state = &mut *self.0.get();
                *block.cast() = state.free[class];
                state.free[class] = block;
            },
            // SAFETY: a large block is a mapping of its own.
            None => unsafe { release(block, layout.size().next_multiple_of(4096)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_disjoint_and_used_again() {
        let arena = Arena::new();
        let mut live: Vec<(usize, usize)> = Vec::new();
        for round in 0..2_000usize {
            let layout = Layout::from_size_align(1 + round * 37 % 70_000, 1 << (round % 7)).expect("valid");
            // SAFETY: the layout has a size; the block is written within it and freed with the same layout.
            unsafe {
                let block = arena.alloc(layout);
                assert!(!block.is_null());
                assert_eq!(block as usize % layout.align(), 0);
                block.write_bytes(0xa5, layout.size());
                if round % 3 == 0 {
                    arena.dealloc(block, layout);
                } else {
                    live.push((block as usize, layout.size()));
                }
            }
        }
        live.sort_unstable();
        assert!(live.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "blocks overlap");
        let layout = Layout::from_size_align(100, 8).expect("valid");
        // SAFETY: as above.
        unsafe {
            let first = arena.alloc(layout);
            arena.dealloc(first, layout);
            assert_eq!(arena.alloc(layout), first);
        }
    }
}

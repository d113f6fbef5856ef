//! The agent's own memory: pages from the kernel, and a small allocator over them for the agent
//! thread.
//!
//! Only one thread allocates (the agent thread, or the one that spawns it), so there is no lock.
//! Handlers never allocate. A fork child does not have the parent's arena and starts a new one.

use alloc::alloc::{alloc_zeroed, handle_alloc_error};
use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::os::syscall::{self, syscall};
use crate::arch::page_size;

/// Bytes taken from the kernel at a time for small blocks.
const CHUNK: usize = 64 * 1024;
/// Larger blocks are mappings of their own.
const LARGEST_SMALL: usize = 16 * 1024;
/// Small blocks are powers of two from 16 bytes up.
const CLASSES: usize = 11;

const _: () = assert!(16 << (CLASSES - 1) == LARGEST_SMALL);

/// A table in static memory that has its pages for itself. The kernel provides a page when it is
/// written for the first time, and copies it in a fork child that writes it, so a table that is not
/// used costs nothing, and the small statics stay together on one page.
#[repr(align(4096))]
pub(crate) struct PageAligned<T>(pub(crate) T);

impl<T> Deref for PageAligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Distance of the agent's mappings below its library, in bytes. The kernel places those of the
/// target next to the libraries.
const DISTANCE: usize = 1 << 40;
/// Address that is suggested for the next mapping; 0 before the first one.
static NEXT_ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// Returns an address for a new mapping of the agent's, as a hint for mmap(2); 0 if there is none.
/// Without a hint the kernel would fill the hole of a mapping that the target has just removed, and
/// a use of it that must fail would succeed.
pub(crate) fn suggest_address(size: usize) -> usize {
    if NEXT_ADDRESS.load(Ordering::Relaxed) == 0 {
        let first = (&raw const NEXT_ADDRESS as usize & !(page_size() - 1)).saturating_sub(DISTANCE);
        // Simultaneous first calls find the same address.
        let _other_was_first = NEXT_ADDRESS.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
    }
    match NEXT_ADDRESS.load(Ordering::Relaxed) {
        low if low < DISTANCE => 0,
        _ => NEXT_ADDRESS.fetch_add(size.next_multiple_of(page_size()), Ordering::Relaxed),
    }
}

/// Maps fresh zero pages that a fork child does not inherit. Returns null if there are none
/// (RLIMIT_AS). mmap(2)
///
/// If the target locks whatever it maps from now on (MCL_FUTURE), the kernel counts the pages
/// against RLIMIT_MEMLOCK until they are unlocked here: one mapping at a time, the largest of which
/// has some 260 KiB, or the size of a `.debug_frame`, which is left out if that is too much. A
/// target that locks all it has (MCL_CURRENT) also locks the agent's present memory, some 1.2 MiB
/// with one thread, and again at its next such call; no flag excludes pages from that.
pub(crate) fn map_pages(size: usize) -> *mut u8 {
    let start = map_inherited(size);
    if !start.is_null() {
        exclude_from_fork(start, size);
    }
    start
}

/// Maps fresh zero pages like [`map_pages`], which a fork child inherits.
pub(crate) fn map_inherited(size: usize) -> *mut u8 {
    map(suggest_address(size), size)
}

/// Maps fresh zero pages that a fork child inherits, behind a gap in which nothing is mapped: what
/// runs over their start faults, as in a guard page, but the kernel has one mapping less to make,
/// copy and remove. Returns `None` if there is no memory or no such place.
pub(crate) fn map_behind_gap(gap: usize, size: usize) -> Option<*mut u8> {
    let place = suggest_address(gap + size).checked_add(gap).filter(|&place| place > gap)?;
    let start = map(place, size);
    if !start.is_null() && start as usize != place {
        // SAFETY: mapped just now.
        unsafe { unmap(start, size) };
        return None;
    }
    (!start.is_null()).then_some(start)
}

/// Maps fresh zero pages, unlocked, at an address if it is free. Returns null if there are none.
fn map(address: usize, size: usize) -> *mut u8 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new anonymous mapping touches nothing that exists: the address is a hint.
    let result = unsafe { syscall!(libc::SYS_mmap, address, size, protection, flags, -1isize, 0) };
    if (-4095..0).contains(&result) {
        return null_mut();
    }
    unlock_fresh(result as *const u8, size);
    result as *mut u8
}

/// Maps fresh zero pages like [`map_pages`], at a multiple of their size, which is a power of two.
/// Returns null if there are none.
pub(crate) fn map_aligned(size: usize) -> *mut u8 {
    // Smaller sizes are aligned as every page is.
    let more = size.saturating_sub(page_size());
    let start = map(suggest_address(size + more).next_multiple_of(size), size);
    if !start.is_null() && (start as usize).is_multiple_of(size) {
        exclude_from_fork(start, size);
        return start;
    }
    if !start.is_null() {
        // SAFETY: mapped just now.
        unsafe { unmap(start, size) };
    }
    let start = map_pages(size + more);
    if start.is_null() {
        return start;
    }
    let skipped = (start as usize).next_multiple_of(size) - start as usize;
    // SAFETY: the ends of a fresh mapping, before and behind what is returned.
    unsafe {
        if skipped > 0 {
            unmap(start, skipped);
        }
        if more > skipped {
            unmap(start.add(skipped + size), more - skipped);
        }
        start.add(skipped)
    }
}

/// Unlocks pages that were mapped just now if the target locks whatever it maps (MCL_FUTURE), and
/// gives those back that the kernel made at once for that. munlock(2), madvise(2)
pub(crate) fn unlock_fresh(start: *const u8, size: usize) {
    // SAFETY: pages that nobody has written to yet lose nothing.
    let empty = || unsafe { syscall!(libc::SYS_madvise, start, size, libc::MADV_DONTNEED) == 0 };
    // The kernel refuses that for locked pages.
    if !empty() {
        exclude_from_mlock(start, size);
        empty();
    }
}

/// Unlocks pages in a target that locks all its memory, because mlockall(2) with MCL_FUTURE also
/// locks the agent's. munlock(2)
pub(crate) fn exclude_from_mlock(start: *const u8, size: usize) {
    // SAFETY: changes no contents of pages of the agent's own.
    unsafe { syscall!(libc::SYS_munlock, start, size) };
}

/// Excludes pages from fork children, which start with new ones, so that the agent does not make
/// the target's forks slower. madvise(2)
pub(crate) fn exclude_from_fork(start: *const u8, size: usize) {
    // SAFETY: a hint about pages of the agent's own.
    unsafe { syscall!(libc::SYS_madvise, start, size, libc::MADV_DONTFORK) };
}

/// Whether a new page is private anonymous memory, and no file's: only such memory can be freed
/// lazily. madvise(2)
///
/// # Safety
/// Nobody may have written to the page yet.
pub(crate) unsafe fn is_fresh_memory(page: usize) -> bool {
    // SAFETY: the page holds nothing that could be freed.
    unsafe { syscall!(libc::SYS_madvise, page, page_size(), libc::MADV_FREE) == 0 }
}

/// Has the kernel empty pages in fork children. Returns false if it does not know how, as before
/// Linux 4.14. madvise(2)
pub(crate) fn empty_in_fork(start: *const u8, size: usize) -> bool {
    // SAFETY: changes no contents of pages of the agent's own.
    unsafe { syscall!(libc::SYS_madvise, start, size, libc::MADV_WIPEONFORK) == 0 }
}

/// Unmaps pages. munmap(2)
///
/// # Safety
/// The pages must not be used any more.
pub(crate) unsafe fn unmap(start: *mut u8, size: usize) {
    // SAFETY: the caller vouches.
    unsafe { syscall!(libc::SYS_munmap, start, size) };
}

/// Allocates a value whose bytes are all zero. A large one takes no pages before it is used.
///
/// # Safety
/// All bytes zero must be a valid value, or the caller makes them one before it is used.
pub(crate) unsafe fn zeroed<T>() -> Box<T> {
    const { assert!(size_of::<T>() > 0) };
    let layout = Layout::new::<T>();
    // SAFETY: the layout has a size, and the caller vouches for the bytes.
    unsafe {
        let place = alloc_zeroed(layout).cast::<T>();
        if place.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(place)
    }
}

/// A file whose contents are memory (memfd_create(2)); closed on drop.
pub(crate) struct MemoryFile(i32);

impl MemoryFile {
    /// Takes ownership of a file descriptor.
    pub(crate) fn new(descriptor: i32) -> MemoryFile {
        MemoryFile(descriptor)
    }

    /// Returns the file descriptor, in the agent thread's table.
    pub(crate) fn descriptor(&self) -> i32 {
        self.0
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        syscall::close(self.0);
    }
}

/// Powers-of-two free lists over chunks of pages.
pub(crate) struct Arena(UnsafeCell<State>);

struct State {
    free: [*mut u8; CLASSES],
    next: usize,
    end: usize,
}

// SAFETY: only one thread at a time uses it (see the file's head); `forget` runs where no agent
// thread exists.
unsafe impl Sync for Arena {}

/// The allocator of the agent thread.
#[cfg(sigtop_agent)]
#[global_allocator]
pub(crate) static ARENA: Arena = Arena::new();

impl Arena {
    /// Creates an allocator without memory.
    pub(crate) const fn new() -> Arena {
        Arena(UnsafeCell::new(State { free: [null_mut(); CLASSES], next: 0, end: 0 }))
    }

    /// Resets the allocator, without freeing its blocks: for a fork child, which did not inherit
    /// them.
    ///
    /// # Safety
    /// No agent thread may exist, and none of the blocks may be freed afterwards.
    pub(crate) unsafe fn forget(&self) {
        // SAFETY: the caller vouches that nobody else looks.
        unsafe { *self.0.get() = State { free: [null_mut(); CLASSES], next: 0, end: 0 } };
    }
}

fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(16).next_power_of_two();
    (size <= LARGEST_SMALL).then(|| size.trailing_zeros() as usize - 4)
}

// SAFETY: blocks are disjoint, aligned to their own power-of-two size (chunks are page-aligned and
// blocks are cut at multiples of their size), and live until freed; failure is a null pointer.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            let size = layout.size().next_multiple_of(page_size());
            return if layout.align() > page_size() { null_mut() } else { map_pages(size) };
        };
        let size = 16usize << class;
        // SAFETY: one thread at a time; the heads of the free lists are blocks of their class that
        // nobody uses, whose first word is the next of the list.
        unsafe {
            let state = &mut *self.0.get();
            let head = state.free[class];
            if !head.is_null() {
                state.free[class] = *head.cast();
                return head;
            }
            let mut start = state.next.next_multiple_of(size);
            if state.next == 0 || start + size > state.end {
                let chunk = map_pages(CHUNK);
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

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`; the block has the layout's size.
        unsafe {
            let block = self.alloc(layout);
            // A large block is a fresh mapping: zero already, and without pages until it is used.
            if !block.is_null() && class_of(layout).is_some() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(layout) {
            // SAFETY: the caller gives a block of this layout back; its first word becomes the
            // list's.
            Some(class) => unsafe {
                let state = &mut *self.0.get();
                *block.cast() = state.free[class];
                state.free[class] = block;
            },
            // SAFETY: a large block is a mapping of its own.
            None => unsafe { unmap(block, layout.size().next_multiple_of(page_size())) },
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
            // SAFETY: the layout has a size; the block is written within it and freed with the same
            // layout.
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

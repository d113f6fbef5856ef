//! The ring of one CPU, which the kernel shares with this process: the kernel writes records behind
//! `data_head`, and this process moves `data_tail` behind those that it has read.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::{SysconfVar, sysconf};

use super::record::{self, RECORD_HEADER, Record};
use super::record_bytes::RecordBytes;

/// Sizes of a ring that are tried, bytes. Without a privilege, a user has half a MiB per CPU
/// (`kernel.perf_event_mlock_kb`), beside the limit of locked memory.
const SIZES: [usize; 4] = [2 << 20, 512 << 10, 256 << 10, 128 << 10];
/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The ring of one CPU.
pub(super) struct CpuRing {
    pub(super) cpu: u32,
    owner: OwnedFd,
    base: NonNull<u8>,
    page: usize,
    /// Number of bytes of records: a power of two.
    size: usize,
    /// Position of the next record to read, from the start of all records.
    tail: u64,
}

// SAFETY: the mapping belongs to this value alone and may be read by any thread.
unsafe impl Send for CpuRing {}

impl CpuRing {
    /// Maps the ring of an event.
    pub(super) fn map(cpu: u32, owner: OwnedFd) -> io::Result<CpuRing> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, |size| size as usize);
        let mut refusal = io::Error::from(io::ErrorKind::OutOfMemory);
        for size in SIZES.map(|size| size.max(page)) {
            let Some(length) = NonZeroUsize::new(page + size) else { continue };
            let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            // SAFETY: a new mapping at an address that the kernel chooses.
            match unsafe { mmap(None, length, rights, MapFlags::MAP_SHARED, &owner, 0) } {
                Ok(base) => return Ok(CpuRing { cpu, owner, base: base.cast(), page, size, tail: 0 }),
                Err(error) => refusal = error.into(),
            }
        }
        Err(refusal)
    }

    /// The event that owns the ring. It is readable when there are records.
    pub(super) fn owner(&self) -> BorrowedFd<'_> {
        self.owner.as_fd()
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping has the position at this offset, aligned to 8
        // bytes, as long as this value lives.
        unsafe { self.base.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Returns the bytes of the next record with its header, if there is one.
    fn next_bytes(&self) -> Option<RecordBytes<'_>> {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let available = usize::try_from(head.wrapping_sub(self.tail)).ok()?.min(self.size);
        if available < RECORD_HEADER {
            return None;
        }
        let header = self.bytes(RECORD_HEADER);
        let mut size = [0; 2];
        header.copy(6, &mut size);
        let size = usize::from(u16::from_ne_bytes(size));
        Some(self.bytes(size.clamp(RECORD_HEADER, available)))
    }

    /// The next bytes. The kernel does not write to them before `data_tail` is behind them.
    fn bytes(&self, length: usize) -> RecordBytes<'_> {
        let start = self.tail as usize & (self.size - 1);
        let in_first = length.min(self.size - start);
        // SAFETY: both ranges are inside of the mapping, whose `size` bytes of records begin after
        // the first page, and the kernel leaves them as they are.
        unsafe {
            let data = self.base.add(self.page);
            let first = std::slice::from_raw_parts(data.add(start).as_ptr(), in_first);
            RecordBytes::new(first, std::slice::from_raw_parts(data.as_ptr(), length - in_first))
        }
    }

    /// Returns the next record, and leaves it in the ring.
    pub(super) fn peek(&self) -> Option<Record<'_>> {
        self.next_bytes().map(Record::decode)
    }

    /// Returns the time at which the next record was written, ns, if there is one.
    pub(super) fn peek_time(&self) -> Option<u64> {
        self.next_bytes().map(|bytes| record::time_ns(&bytes))
    }

    /// Removes the next record.
    pub(super) fn advance(&mut self) {
        self.tail += self.next_bytes().map_or(0, |bytes| bytes.len() as u64);
        self.position(TAIL).store(self.tail, Ordering::Release);
    }
}

impl Drop for CpuRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.base.cast(), self.page + self.size) };
    }
}

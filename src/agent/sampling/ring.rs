//! The fixed-size ring between handlers and the agent thread: many writers that never wait, one
//! reader.
//!
//! It is a circle of words in the layout of [`wire::ring`](crate::wire::ring). A writer
//! reserves the words of its record by moving `head`, fills them, and commits by storing the first
//! word last. The reader takes records in order, marks those that it has written as a sample, and
//! frees the room (zeroes it and moves `tail`) when the socket has taken it. So the ring still
//! holds whatever a killed process had not sent, and the viewer, which received the ring's memory
//! with the Hello, finds it there.
//!
//! No order of memory beside these is needed. A writer reserves only room that it has seen freed:
//! its acquire load of `tail` pairs with the reader's release store behind the zeroing. The reader
//! reads only records that are committed: its acquire load of a first word pairs with the writer's
//! release store behind the rest. Everything in between is relaxed, since a reserved word has one
//! writer, and `head` orders writers alone, by compare-exchange.
//!
//! It has room for the ticks of all processors between two checks by the agent thread. A writer
//! that reaches its second half wakes that thread.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::agent::os::memory::{self, MemoryFile};
use crate::agent::os::syscall::{self, syscall};
use crate::wire::MAX_FRAMES;
use crate::wire::ring::{GIVEN_UP, HEADER_WORDS, MIN_RING_WORDS, RECORD_WORDS, RING_MAGIC, RING_WORDS, word};

/// A handler's data of a tick, without the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawSample {
    /// The interrupted thread; 0 if it is unknown. The reader then assumes the first thread.
    pub(crate) tid: u32,
    /// Bits of [`flag`](crate::wire::flag), and [`STALE`](crate::wire::ring::STALE).
    pub(crate) flags: u32,
    /// Module generation of the frames.
    pub(crate) generation: u32,
    /// Epoch of the timer's configuration, which holds the clock and the period.
    pub(crate) epoch: u32,
    /// Weight, ns of the clock; 0 for a wall tick, which the agent thread weighs.
    pub(crate) weight_ns: u64,
    /// The [allocation](crate::wire::Allocation), packed. Of a tick, its time, ns; 0 if that
    /// is not known.
    pub(crate) detail: u64,
}

/// The ring; null before the agent thread has made it, and while the agent thread replaces its
/// memory. The agent thread writes it, and handlers read it after they have claimed a slot. Both
/// are sequentially consistent, so that a handler whose slot looked free sees the null.
pub(crate) static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());
/// The ring buffer. Lives as long as the process.
pub(crate) struct Ring {
    memory: &'static [AtomicU64],
    /// Position of the next record to read. Only the reader uses it.
    next: AtomicU64,
}

impl Ring {
    /// Makes an empty ring for this machine's processors. `None` if there is no memory.
    pub(crate) fn new() -> Option<Ring> {
        const WORDS_EACH: usize = 4096;
        Ring::with_words((syscall::processors() * WORDS_EACH).next_power_of_two())
    }

    /// Makes an empty ring with this number of words, a power of two, within the bounds of the
    /// format.
    fn with_words(words: usize) -> Option<Ring> {
        let words = words.clamp(MIN_RING_WORDS, RING_WORDS);
        let start = memory::map_pages((HEADER_WORDS + words) * 8);
        if start.is_null() {
            return None;
        }
        // SAFETY: fresh zero pages of this size, never given back (but replaced by `renew`); zero
        // is a valid AtomicU64.
        let memory = unsafe { core::slice::from_raw_parts(start.cast(), HEADER_WORDS + words) };
        Some(Ring { memory, next: AtomicU64::new(0) })
    }

    /// Returns the size of the buffer in words.
    fn words(&self) -> u64 {
        (self.memory.len() - HEADER_WORDS) as u64
    }

    /// Replaces the memory by a new file: empty, with every counter 0. No handler may be using the
    /// ring. Returns `None` and leaves the ring unchanged if the kernel has no such files or the
    /// target's limit on the size of files forbids it. memfd_create(2)
    pub(crate) fn renew(&self) -> Option<MemoryFile> {
        const MFD_NOEXEC_SEAL: u32 = 8;
        const F_SEAL_FUTURE_WRITE: i32 = 0x10;
        let size = size_of_val(self.memory);
        // A file beyond the limit would send SIGXFSZ to the target.
        if syscall::limit(libc::RLIMIT_FSIZE as i32) < size as u64 {
            return None;
        }
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let name = c"sigtop".as_ptr();
        // SAFETY: a name that ends; flags that older kernels do not know are left out.
        let mut file = unsafe { syscall!(libc::SYS_memfd_create, name, flags | MFD_NOEXEC_SEAL) };
        if file < 0 {
            // SAFETY: likewise.
            file = unsafe { syscall!(libc::SYS_memfd_create, name, flags) };
        }
        if file < 0 {
            return None;
        }
        let file = MemoryFile::new(file as i32);
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: the mapping replaces this ring's own pages, which no handler uses now; seals keep
        // its size, and everyone else from writing.
        unsafe {
            if syscall!(libc::SYS_ftruncate, file.descriptor(), size) < 0 {
                return None;
            }
            let start = self.memory.as_ptr();
            if syscall!(libc::SYS_mmap, start, size, protection, flags, file.descriptor(), 0) != start as isize {
                return None;
            }
            syscall!(libc::SYS_fcntl, file.descriptor(), libc::F_ADD_SEALS, seals);
        }
        memory::exclude_from_mlock(self.memory.as_ptr().cast(), size);
        memory::exclude_from_fork(self.memory.as_ptr().cast(), size);
        self.next.store(0, Ordering::Relaxed);
        self.header(word::MAGIC).store(RING_MAGIC, Ordering::Relaxed);
        Some(file)
    }

    /// Returns a word of the header.
    pub(crate) fn header(&self, index: usize) -> &AtomicU64 {
        &self.memory[index]
    }

    /// Returns the position of the first word that no writer has reserved. Written by writers
    /// (compare-exchange), read by all.
    fn head(&self) -> &AtomicU64 {
        self.header(word::HEAD)
    }

    /// Returns the position of the first word that the reader has not freed. Written by the reader
    /// with release after zeroing, read by writers with acquire, so that a reserved word is zero
    /// until its writer stores it.
    fn tail(&self) -> &AtomicU64 {
        self.header(word::TAIL)
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.memory[HEADER_WORDS + (position & (self.words() - 1)) as usize]
    }

    /// Returns the size of the record at a position; 0 if none is committed.
    fn size(&self, position: u64) -> u64 {
        self.word(position).load(Ordering::Acquire) & u64::from(u32::MAX)
    }

    /// Writes a record. Returns false if there is no room. Wait-free except for the race with other
    /// writers for `head`.
    pub(crate) fn push(&self, sample: &RawSample, frames: &[u64]) -> bool {
        let size = (RECORD_WORDS + frames.len()) as u64;
        let mut head = self.head().load(Ordering::Relaxed);
        loop {
            // A head behind the tail is outdated: the exchange fails and returns the present one.
            if (head + size).saturating_sub(self.tail().load(Ordering::Acquire)) > self.words() {
                return false;
            }
            match self.head().compare_exchange_weak(head, head + size, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        self.word(head + 1).store(pair(sample.tid, sample.flags), Ordering::Relaxed);
        self.word(head + 2).store(pair(sample.generation, sample.epoch), Ordering::Relaxed);
        self.word(head + 3).store(sample.weight_ns, Ordering::Relaxed);
        self.word(head + 4).store(sample.detail, Ordering::Relaxed);
        for (position, &frame) in (head + RECORD_WORDS as u64..).zip(frames) {
            self.word(position).store(frame, Ordering::Relaxed);
        }
        // This commits the record: the reader's acquire load of this word sees the rest.
        self.word(head).store(size, Ordering::Release);
        true
    }

    /// Returns whether more than half of the ring is in use.
    pub(crate) fn is_crowded(&self) -> bool {
        let (head, tail) = (self.head().load(Ordering::Relaxed), self.tail().load(Ordering::Relaxed));
        head.saturating_sub(tail) > self.words() / 2
    }

    /// Returns whether a committed record is waiting to be read.
    pub(crate) fn has_record(&self) -> bool {
        self.size(self.next.load(Ordering::Relaxed)) != 0
    }

    /// Returns the position up to which writers have reserved room, and the one up to which records
    /// were read.
    pub(crate) fn positions(&self) -> (u64, u64) {
        (self.head().load(Ordering::SeqCst), self.next.load(Ordering::Relaxed))
    }

    /// Returns the number of committed records that have not been read. For the reader only.
    pub(crate) fn count(&self) -> u64 {
        let (mut position, mut count) = (self.next.load(Ordering::Relaxed), 0);
        let end = self.tail().load(Ordering::Relaxed) + self.words();
        while position < end {
            match self.size(position) {
                0 => break,
                size => position += size,
            }
            count += 1;
        }
        count
    }

    /// Returns epoch, weight and detail of the first `count` records, which were not read. For the
    /// reader only.
    pub(crate) fn unread(&self, count: u64) -> impl Iterator<Item = (u32, u64, u64)> {
        let mut position = self.next.load(Ordering::Relaxed);
        (0..count).map(move |_| {
            let start = position;
            position += self.size(start);
            let [second, weight, detail] = [2, 3, 4].map(|word| self.word(start + word).load(Ordering::Relaxed));
            ((second >> 32) as u32, weight, detail)
        })
    }

    /// Reads the oldest record; its frames go into `frames`. Returns `None` if there is none, or if
    /// the oldest is not committed yet. Its room stays in use until it is
    /// [`release`](Self::release)d. For the reader only.
    pub(crate) fn take<'a>(&self, frames: &'a mut [u64; MAX_FRAMES]) -> Option<(RecordPosition, RawSample, &'a [u64])> {
        let start = self.next.load(Ordering::Relaxed);
        if start >= self.tail().load(Ordering::Relaxed) + self.words() {
            return None;
        }
        let size = self.size(start);
        if size == 0 {
            return None;
        }
        let low_high = |word: u64| (word as u32, (word >> 32) as u32);
        let (tid, flags) = low_high(self.word(start + 1).load(Ordering::Relaxed));
        let (generation, epoch) = low_high(self.word(start + 2).load(Ordering::Relaxed));
        let weight_ns = self.word(start + 3).load(Ordering::Relaxed);
        let detail = self.word(start + 4).load(Ordering::Relaxed);
        let depth = (size as usize).saturating_sub(RECORD_WORDS).min(MAX_FRAMES);
        for (frame, position) in frames[..depth].iter_mut().zip(start + RECORD_WORDS as u64..) {
            *frame = self.word(position).load(Ordering::Relaxed);
        }
        self.next.store(start + size, Ordering::Relaxed);
        let sample = RawSample { tid, flags, generation, epoch, weight_ns, detail };
        Some((RecordPosition(start), sample, &frames[..depth]))
    }

    /// Records in the ring the number of the sample that was sent for a record, or that the record
    /// was given up (`None`).
    pub(crate) fn set_sent_as(&self, RecordPosition(start): RecordPosition, number: Option<u64>) {
        // 0 and the value for records that were given up are not sample numbers. Skipping them
        // makes one sample in 2^32 inexact if the process is killed.
        let sent_as = number.map_or(GIVEN_UP, |number| (number as u32).clamp(1, GIVEN_UP - 1));
        let first = self.size(start) | u64::from(sent_as) << 32;
        self.word(start).store(first, Ordering::Release);
    }

    /// Frees the room of everything that was read. For the reader only.
    pub(crate) fn release(&self) {
        let (tail, next) = (self.tail().load(Ordering::Relaxed), self.next.load(Ordering::Relaxed));
        for position in tail..next {
            self.word(position).store(0, Ordering::Relaxed);
        }
        self.tail().store(next, Ordering::Release);
    }
}

/// Position of a record that was read and still has its room in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPosition(u64);

#[cfg(test)]
mod tests {
    use crate::wire::AgentCounters;
    use crate::wire::ring::recover;

    use super::*;

    /// Reads a record and frees its room immediately.
    fn pop<'a>(ring: &Ring, frames: &'a mut [u64; MAX_FRAMES]) -> Option<(RawSample, &'a [u64])> {
        let (_, sample, stack) = ring.take(frames)?;
        ring.release();
        Some((sample, stack))
    }

    #[test]
    fn a_viewer_finds_in_the_file_what_it_was_not_sent() {
        use std::io::{Read as _, Seek as _};
        use std::os::fd::{AsRawFd as _, BorrowedFd};

        let ring = Ring::new().expect("memory");
        let handle = ring.renew().expect("files in memory");
        // SAFETY: open as long as the handle, which outlives this.
        let descriptor = unsafe { BorrowedFd::borrow_raw(handle.descriptor()) };
        let mut file = std::fs::File::from(descriptor.try_clone_to_owned().expect("a copy"));
        let mut frames = [0; MAX_FRAMES];
        for tid in 1..=5 {
            assert!(ring.push(&RawSample { tid, weight_ns: 10, ..RawSample::default() }, &[3, 2]));
        }
        let (first, ..) = ring.take(&mut frames).expect("committed");
        ring.set_sent_as(first, Some(1));
        ring.release();
        let (second, ..) = ring.take(&mut frames).expect("committed");
        ring.set_sent_as(second, Some(2));
        let (third, ..) = ring.take(&mut frames).expect("committed");
        ring.set_sent_as(third, None);
        let mut left = |received| {
            let mut bytes = Vec::new();
            file.rewind().expect("a file");
            file.read_to_end(&mut bytes).expect("a file");
            let remains = recover(&bytes, received, &AgentCounters::default(), (1, 1), 0).expect("a ring");
            remains.samples.iter().map(|(sample, _)| sample.tid).collect::<Vec<_>>()
        };
        assert_eq!((left(1), left(2)), (vec![2, 4, 5], vec![4, 5]));
        ring.renew().expect("once more");
        assert!(ring.take(&mut frames).is_none(), "it is empty again");
        assert_eq!(left(2), [4, 5], "the file handed over before is as it was");
        let writing = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        assert!(writing.and_then(|file| file.set_len(1)).is_err() && file.set_len(1).is_err(), "sealed");
    }

    #[test]
    fn records_come_out_as_they_went_in_and_room_is_given_back() {
        let ring = Ring::new().expect("memory");
        let mut frames = [0; MAX_FRAMES];
        for round in 0..20_000u32 {
            let stack: Vec<u64> = (0..u64::from(round % 300) + 1).map(|frame| frame << 20 | u64::from(round)).collect();
            let sample = RawSample {
                tid: round,
                flags: 1,
                generation: 2,
                epoch: 3,
                weight_ns: u64::from(round) << 9,
                detail: u64::from(round) << 32 | 5,
            };
            assert!(ring.push(&sample, &stack));
            assert_eq!(pop(&ring, &mut frames), Some((sample, &stack[..])));
        }
        assert!(!ring.has_record());
    }

    #[test]
    fn a_full_ring_refuses_and_loses_nothing_it_took() {
        let ring = Ring::with_words(4 * MIN_RING_WORDS).expect("memory");
        assert!(!ring.is_crowded());
        let mut taken = 0;
        while ring.push(&RawSample { tid: taken, ..RawSample::default() }, &[7; 59]) {
            taken += 1;
        }
        assert_eq!(u64::from(taken), ring.words() / 64);
        assert!(ring.is_crowded());
        assert_eq!(ring.count(), u64::from(taken));
        let mut frames = [0; MAX_FRAMES];
        for tid in 0..taken {
            assert_eq!(pop(&ring, &mut frames).map(|(sample, _)| sample.tid), Some(tid));
        }
        assert_eq!(pop(&ring, &mut frames), None);
    }

    #[test]
    fn writers_on_many_threads_lose_nothing_but_what_is_refused() {
        let ring = Ring::new().expect("memory");
        const EACH: u32 = 50_000;
        let refused: u32 = std::thread::scope(|scope| {
            let write = |tid: u32| {
                let ring = &ring;
                scope.spawn(move || {
                    let stack = [u64::from(tid); 17];
                    (0..EACH)
                        .filter(|&n| !ring.push(&RawSample { tid, epoch: n, ..RawSample::default() }, &stack))
                        .count()
                })
            };
            let writers: Vec<_> = (1..4).map(write).collect();
            let mut frames = [0; MAX_FRAMES];
            let mut last = [None; 4];
            let mut taken = 0;
            loop {
                let finished = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
                while let Some((sample, stack)) = pop(&ring, &mut frames) {
                    assert!(stack.len() == 17 && stack.iter().all(|&frame| frame == u64::from(sample.tid)));
                    assert!(last[sample.tid as usize] < Some(sample.epoch), "a writer's order is kept");
                    last[sample.tid as usize] = Some(sample.epoch);
                    taken += 1;
                }
                if finished {
                    break;
                }
            }
            let refused: usize = writers.into_iter().map(|writer| writer.join().expect("no panic")).sum();
            assert_eq!(taken + refused, 3 * EACH as usize);
            refused as u32
        });
        assert!(refused < 3 * EACH);
    }
}

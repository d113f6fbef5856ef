//! The fixed ring between handlers and the agent thread: many writers that never wait, one reader.
//!
//! It is a circle of words. A writer reserves as many as its record needs by moving `head`, fills them, and commits by
//! storing the first word last. The reader takes records in order, zeroes them, and gives the room back by moving `tail`. A
//! record that does not fit is refused, and the writer counts it.

use core::sync::atomic::{AtomicU64, Ordering};

use super::memory;
use crate::link::wire::MAX_FRAMES;

/// Words of the ring: 1 MiB, some 6 000 samples of 20 frames; touched only as far as it fills.
const WORDS: usize = 128 * 1024;
/// Words before the frames.
const HEAD_WORDS: usize = 4;

const _: () = assert!(WORDS.is_power_of_two());
const _: () = assert!(HEAD_WORDS + MAX_FRAMES <= WORDS / 64);

/// What a handler knows of a tick besides its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawSample {
    /// Thread that was interrupted; 0 when only its wall or process tick is known (then the reader asks).
    pub(super) tid: u32,
    /// Bits of [`flag`](crate::link::wire::flag).
    pub(super) flags: u32,
    /// Module generation of the frames.
    pub(super) generation: u32,
    /// Of the timer's configuration: tells clock and period.
    pub(super) epoch: u32,
    /// Ns of the clock; 0 for a wall tick, which the agent thread weighs itself.
    pub(super) weight_ns: u64,
}

/// The circle. Lives as long as the process.
pub(super) struct Ring {
    words: &'static [AtomicU64],
    /// First word that no writer has reserved. Written by writers (compare-exchange), read by all.
    head: AtomicU64,
    /// First word that the reader has not given back. Written by the reader with release after zeroing, read by writers
    /// with acquire, so that a reserved word is zero until its writer stores it.
    tail: AtomicU64,
}

impl Ring {
    /// An empty ring; `None` without memory for it.
    pub(super) fn new() -> Option<Ring> {
        let start = memory::pages(WORDS * 8);
        if start.is_null() {
            return None;
        }
        // SAFETY: fresh zero pages of this size, never given back; zero is a valid AtomicU64.
        let words = unsafe { core::slice::from_raw_parts(start.cast(), WORDS) };
        Some(Ring { words, head: AtomicU64::new(0), tail: AtomicU64::new(0) })
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[position as usize & (WORDS - 1)]
    }

    /// Writes a record; false when there is no room. Wait-free but for the race with other writers for `head`.
    pub(super) fn push(&self, sample: &RawSample, frames: &[u64]) -> bool {
        let size = (HEAD_WORDS + frames.len()) as u64;
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head + size - self.tail.load(Ordering::Acquire) > WORDS as u64 {
                return false;
            }
            match self.head.compare_exchange_weak(head, head + size, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        self.word(head + 1).store(pair(sample.tid, sample.flags), Ordering::Relaxed);
        self.word(head + 2).store(pair(sample.generation, sample.epoch), Ordering::Relaxed);
        self.word(head + 3).store(sample.weight_ns, Ordering::Relaxed);
        for (position, &frame) in (head + HEAD_WORDS as u64..).zip(frames) {
            self.word(position).store(frame, Ordering::Relaxed);
        }
        // Commits: the reader's acquire load of this word sees the rest.
        self.word(head).store(size, Ordering::Release);
        true
    }

    /// Whether a committed record waits.
    pub(super) fn has_record(&self) -> bool {
        self.word(self.tail.load(Ordering::Relaxed)).load(Ordering::Acquire) != 0
    }

    /// Committed records from the oldest on. For the one reader only.
    pub(super) fn count(&self) -> u64 {
        let (mut position, mut count) = (self.tail.load(Ordering::Relaxed), 0);
        let end = position + WORDS as u64;
        while position < end {
            let size = self.word(position).load(Ordering::Acquire);
            if size == 0 {
                break;
            }
            position += size;
            count += 1;
        }
        count
    }

    /// Takes the oldest record; its frames go into `frames`. `None` when there is none, or when the oldest is not
    /// committed yet. For the one reader only.
    pub(super) fn pop<'a>(&self, frames: &'a mut [u64; MAX_FRAMES]) -> Option<(RawSample, &'a [u64])> {
        let tail = self.tail.load(Ordering::Relaxed);
        let size = self.word(tail).load(Ordering::Acquire);
        if size == 0 {
            return None;
        }
        let low_high = |word: u64| (word as u32, (word >> 32) as u32);
        let (tid, flags) = low_high(self.word(tail + 1).load(Ordering::Relaxed));
        let (generation, epoch) = low_high(self.word(tail + 2).load(Ordering::Relaxed));
        let weight_ns = self.word(tail + 3).load(Ordering::Relaxed);
        let depth = (size as usize).saturating_sub(HEAD_WORDS).min(MAX_FRAMES);
        for (frame, position) in frames[..depth].iter_mut().zip(tail + HEAD_WORDS as u64..) {
            *frame = self.word(position).load(Ordering::Relaxed);
        }
        for position in tail..tail + size {
            self.word(position).store(0, Ordering::Relaxed);
        }
        self.tail.store(tail + size, Ordering::Release);
        Some((RawSample { tid, flags, generation, epoch, weight_ns }, &frames[..depth]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in_and_room_is_given_back() {
        let ring = Ring::new().expect("memory");
        let mut frames = [0; MAX_FRAMES];
        for round in 0..20_000u32 {
            let stack: Vec<u64> = (0..u64::from(round % 300) + 1).map(|frame| frame << 20 | u64::from(round)).collect();
            let sample = RawSample { tid: round, flags: 1, generation: 2, epoch: 3, weight_ns: u64::from(round) << 9 };
            assert!(ring.push(&sample, &stack));
            assert_eq!(ring.pop(&mut frames), Some((sample, &stack[..])));
        }
        assert!(!ring.has_record());
    }

    #[test]
    fn a_full_ring_refuses_and_loses_nothing_it_took() {
        let ring = Ring::new().expect("memory");
        let mut taken = 0;
        while ring.push(&RawSample { tid: taken, ..RawSample::default() }, &[7; 60]) {
            taken += 1;
        }
        assert_eq!(taken as usize, WORDS / 64);
        assert_eq!(ring.count(), u64::from(taken));
        let mut frames = [0; MAX_FRAMES];
        for tid in 0..taken {
            assert_eq!(ring.pop(&mut frames).map(|(sample, _)| sample.tid), Some(tid));
        }
        assert_eq!(ring.pop(&mut frames), None);
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
                while let Some((sample, stack)) = ring.pop(&mut frames) {
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

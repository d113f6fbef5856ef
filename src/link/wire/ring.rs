//! The ring as both ends see it: the layout of the memory in which handlers leave their records, and what a viewer reads out of it
//! when the process has ended before everything was sent.
//!
//! It is one sealed file in memory: a page of words by name ([`word`]), then the circle, whose size
//! the agent chooses: a power of two of words from [`MIN_RING_WORDS`] to [`RING_WORDS`]. The length
//! of the file tells which. A record is `size | mark << 32`, `tid | flags << 32`, `generation |
//! epoch << 32`, the weight in ns, and the frames, packed. The mark is 0 until the agent has
//! written the record as a sample; then it is that sample's number in the stream (from 1 on,
//! wrapping), or [`GIVEN_UP`]. This distinguishes what was written and not received
//! from what was received, and no sample is taken twice.
//!
//! The agent writes with atomics where it runs; a viewer reads bytes that nobody else is known to keep from changing, and believes
//! none of them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Account, Clock, Loss, MAX_FRAMES, Sample, flag};

/// Words of the circle, at most: 1 MiB, some 6 000 samples of 20 frames; touched only as far as it
/// fills.
pub const RING_WORDS: usize = 128 * 1024;
/// Words of the circle, at least: some 700 samples of 20 frames.
pub const MIN_RING_WORDS: usize = 16 * 1024;
/// Words before the circle: a page.
pub const HEADER_WORDS: usize = 512;
/// Bytes of the file, at most.
pub const RING_BYTES: usize = (HEADER_WORDS + RING_WORDS) * 8;
/// Words of a record before its frames.
pub const RECORD_WORDS: usize = 4;
/// Configurations that ticks in flight may still belong to.
pub const EPOCHS: usize = 16;
/// Mark of a record that never became a sample, and is counted as lost.
pub const GIVEN_UP: u32 = u32::MAX;
/// Set in a record's flags beside the bits of [`flag`]: the snapshot may not have known the module of some frame.
pub const STALE: u32 = 1 << 31;
/// Likewise: the program's own filter leaves the sample out of the profile that it writes.
pub const LEFT_OUT: u32 = 1 << 30;

/// Words of the header.
pub mod word {
    /// [`RING_MAGIC`](super::RING_MAGIC), once the ring is in use.
    pub const MAGIC: usize = 0;
    /// First word of the circle that no writer has reserved (a position, not an index).
    pub const HEAD: usize = 8;
    /// First word of the circle that the agent has not given back.
    pub const TAIL: usize = 16;
    /// `CLOCK_MONOTONIC` when the agent looked last, ns.
    pub const LOOKED_NS: usize = 17;
    /// Ticks of ours that were to become samples.
    pub const TICKS: usize = 24;
    /// Frames walked.
    pub const FRAMES: usize = 25;
    /// Signals passed on.
    pub const FOREIGN: usize = 26;
    /// Ticks lost, by [`Loss`](super::Loss).
    pub const LOST_TICKS: usize = 32;
    /// Their weight, ns, likewise.
    pub const LOST_NS: usize = 48;
    /// What the ticks of an epoch stand for: `period_ns << 2 | clock`.
    pub const CONFIGS: usize = 64;
    /// Frames walked by a rule that the slot remembered, by one of the shared table, and by one looked up. Counted by an agent that was
    /// built to time itself alone, like the two that follow.
    pub const RULES: usize = 96;
    /// How often a handler took so many cycles of the time-stamp counter, by [`bucket`](super::bucket).
    pub const CYCLES: usize = 128;
    /// How often a stack was so deep, in steps of four frames.
    pub const DEPTHS: usize = 320;
    /// How often the same walk once more took so many cycles, by [`bucket`](super::bucket).
    pub const WARM: usize = 384;
}

const _: () = assert!(RING_WORDS.is_power_of_two() && word::CONFIGS + EPOCHS <= HEADER_WORDS);
const _: () = assert!(Loss::ALL.len() <= word::LOST_NS - word::LOST_TICKS);
const _: () = assert!(MIN_RING_WORDS.is_power_of_two() && RECORD_WORDS + MAX_FRAMES <= MIN_RING_WORDS / 16);

/// Buckets of [`word::CYCLES`].
pub const BUCKETS: usize = word::DEPTHS - word::CYCLES;

/// Buckets of [`word::WARM`].
pub const WARM_BUCKETS: usize = HEADER_WORDS - word::WARM;

/// Where a number of cycles is counted: eight buckets for each doubling.
pub fn bucket(cycles: u64) -> usize {
    let cycles = cycles.max(8);
    let doublings = cycles.ilog2() as usize;
    ((doublings - 3) * 8 + (cycles >> (doublings - 3) & 7) as usize).min(BUCKETS - 1)
}

/// The least number of cycles that a bucket counts.
pub fn least_cycles(bucket: usize) -> u64 {
    (8 + bucket as u64 % 8) << (bucket / 8)
}

/// First word of a ring in use: "sigtring".
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"sigtring");

/// The clock and the period, ns, of an epoch's word.
pub fn config_of(word: u64) -> (Clock, u64) {
    let clock = match word & 3 {
        0 => Clock::Prof,
        1 => Clock::Real,
        _ => Clock::Virtual,
    };
    (clock, word >> 2)
}

/// What a process left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Samples that were not received, oldest first. Those without a weight of their own (of a wall or interval timer) weigh their
    /// period.
    pub samples: Vec<(Sample, Box<[u64]>)>,
    /// The last account brought up to date: ticks that are neither here nor received nor counted as lost are lost as
    /// [`Loss::NotReady`].
    pub account: Account,
}

/// Reads a ring after its process has ended: `received` samples of it came over the socket, the last account of which was `account`;
/// `pid` is the process's own, `generation` the last one announced. `None` when the bytes are no ring.
pub fn remains(bytes: &[u8], received: u32, account: &Account, pid: u32, generation: u32) -> Option<Remains> {
    let words = Words::new(bytes)?;
    let mut remains = Remains { account: account.clone(), ..Remains::default() };
    let mut position = words.header(word::TAIL);
    let end = position.checked_add(words.circle as u64)?;
    while position < end {
        let first = words.circle(position);
        let (size, mark) = (first as u32 as usize, (first >> 32) as u32);
        if !(RECORD_WORDS..=RECORD_WORDS + MAX_FRAMES).contains(&size) {
            break;
        }
        // Numbers wrap: what lies within half of them before `received` was received.
        let came = mark != 0 && received.wrapping_sub(mark) < 1 << 31;
        if mark != GIVEN_UP && !came {
            remains.samples.push(words.record(position, size, pid, generation));
        }
        position = position.saturating_add(size as u64);
    }
    remains.close_account(&words, received);
    Some(remains)
}

impl Remains {
    fn close_account(&mut self, words: &Words<'_>, received: u32) {
        let account = &mut self.account;
        account.monotonic_ns = account.monotonic_ns.max(words.header(word::LOOKED_NS));
        account.ticks = words.header(word::TICKS);
        account.foreign_signals = words.header(word::FOREIGN);
        account.sent = u64::from(received).saturating_add(self.samples.len() as u64);
        account.lost_ticks = core::array::from_fn(|cause| words.header(word::LOST_TICKS + cause));
        account.lost_ns = core::array::from_fn(|cause| words.header(word::LOST_NS + cause));
        let lost = account.lost_ticks.iter().fold(0u64, |sum, &ticks| sum.saturating_add(ticks));
        let missing = account.ticks.saturating_sub(account.sent.saturating_add(lost));
        let period_ns = self.samples.last().map_or(0, |(sample, _)| sample.weight_ns);
        account.lost_ticks[Loss::NotReady as usize] += missing;
        let lost_ns = &mut account.lost_ns[Loss::NotReady as usize];
        *lost_ns = lost_ns.saturating_add(missing.saturating_mul(period_ns));
    }
}

/// The bytes, word by word.
struct Words<'a> {
    bytes: &'a [u8],
    /// Words of the circle.
    circle: usize,
}

impl Words<'_> {
    fn new(bytes: &[u8]) -> Option<Words<'_>> {
        let circle = (bytes.len() / 8).checked_sub(HEADER_WORDS)?;
        let is_whole = bytes.len().is_multiple_of(8) && circle.is_power_of_two();
        let words = Words { bytes, circle };
        let is_ring = is_whole && (MIN_RING_WORDS..=RING_WORDS).contains(&circle);
        (is_ring && words.header(word::MAGIC) == RING_MAGIC).then_some(words)
    }

    fn header(&self, index: usize) -> u64 {
        let bytes = self.bytes.get(8 * index..8 * index + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }

    fn circle(&self, position: u64) -> u64 {
        self.header(HEADER_WORDS + (position as usize & (self.circle - 1)))
    }

    fn record(&self, position: u64, size: usize, pid: u32, last: u32) -> (Sample, Box<[u64]>) {
        let pair = |offset: u64| {
            let word = self.circle(position.wrapping_add(offset));
            (word as u32, (word >> 32) as u32)
        };
        let ((tid, flags), (generation, epoch)) = (pair(1), pair(2));
        let (clock, period_ns) = config_of(self.header(word::CONFIGS + epoch as usize % EPOCHS));
        let weight_ns = match self.circle(position.wrapping_add(3)) {
            0 => period_ns,
            weight_ns => weight_ns,
        };
        let known = flag::TRUNCATED | flag::SIGNAL_FRAME | flag::REPEAT | flag::UNREADABLE;
        let sample = Sample {
            tid: if tid == 0 { pid } else { tid },
            clock,
            flags: flags & known,
            generation: if flags & STALE != 0 { last } else { generation },
            monotonic_ns: self.header(word::LOOKED_NS),
            weight_ns,
            slot: 0,
        };
        let frames = (RECORD_WORDS..size).map(|offset| self.circle(position.wrapping_add(offset as u64)));
        (sample, frames.collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::FrameAddress;
    use super::*;

    /// A ring with two records: the first was sent as sample 7, the second is fresh.
    fn ring() -> Vec<u8> {
        ring_of(RING_WORDS)
    }

    fn ring_of(circle: usize) -> Vec<u8> {
        let mut words = alloc::vec![0u64; HEADER_WORDS + circle];
        words[word::MAGIC] = RING_MAGIC;
        // Over the end of the circle.
        words[word::TAIL] = 3 * circle as u64 - 5;
        words[word::LOOKED_NS] = 900;
        words[word::TICKS] = 12;
        words[word::LOST_TICKS + Loss::RingFull as usize] = 1;
        words[word::CONFIGS + 3] = 10_000_000 << 2 | Clock::Prof as u64;
        words[word::CONFIGS + 4] = 20_000_000 << 2 | Clock::Real as u64;
        let records: [&[u64]; 2] = [
            &[6 | 7 << 32, 41, 2 | 3 << 32, 10_000_000, 0x10_0001, 0x20_0000],
            &[5, 42 | u64::from(STALE | flag::TRUNCATED) << 32, 2 | 4 << 32, 0, 0x30_0001],
        ];
        for (position, value) in (words[word::TAIL] as usize..).zip(records.concat()) {
            words[HEADER_WORDS + position % circle] = value;
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn what_was_not_received_is_taken_once() {
        let account = Account { ticks: 9, sent: 7, agent_cpu_ns: 5, ..Account::default() };
        let before = remains(&ring(), 6, &account, 40, 9).expect("a ring");
        assert_eq!(before.samples.len(), 2);
        let (sample, frames) = &before.samples[0];
        assert_eq!((sample.tid, sample.clock, sample.weight_ns, sample.generation), (41, Clock::Prof, 10_000_000, 2));
        assert_eq!(
            **frames,
            [FrameAddress::Instruction(0x8_0000), FrameAddress::Return(0x10_0000)].map(FrameAddress::pack)
        );
        let after = remains(&ring(), 7, &account, 40, 9).expect("a ring");
        assert_eq!(after.samples, before.samples[1..]);
        let (sample, _) = &after.samples[0];
        assert_eq!((sample.clock, sample.weight_ns, sample.generation), (Clock::Real, 20_000_000, 9));
        assert_eq!(sample.flags, flag::TRUNCATED);
        // 12 ticks: 7 received, 1 here, 1 counted as lost; the other three were on their way.
        assert_eq!((after.account.ticks, after.account.sent), (12, 8));
        assert_eq!(after.account.lost_ticks[Loss::RingFull as usize], 1);
        assert_eq!(after.account.lost_ticks[Loss::NotReady as usize], 3);
        assert_eq!(after.account.agent_cpu_ns, 5);
    }

    #[test]
    fn the_length_tells_the_size_of_the_circle() {
        let read = |bytes: &[u8]| remains(bytes, 6, &Account::default(), 40, 9).map(|remains| remains.samples);
        let largest = read(&ring());
        assert_eq!(largest.as_ref().map(Vec::len), Some(2));
        for circle in [MIN_RING_WORDS, 4 * MIN_RING_WORDS] {
            assert_eq!(read(&ring_of(circle)), largest);
        }
        for circle in [MIN_RING_WORDS / 2, 3 * MIN_RING_WORDS, 2 * RING_WORDS] {
            assert_eq!(read(&ring_of(circle)), None);
        }
    }

    #[test]
    fn buckets_hold_what_they_begin_with() {
        assert!((0..BUCKETS - 1).all(|at| bucket(least_cycles(at)) == at && bucket(least_cycles(at + 1) - 1) == at));
    }

    #[test]
    fn other_bytes_are_no_ring() {
        let ring = ring();
        assert!(remains(&ring[..ring.len() - 1], 0, &Account::default(), 1, 1).is_none());
        assert!(remains(&alloc::vec![0; RING_BYTES], 0, &Account::default(), 1, 1).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn any_bytes_are_read_within_bounds(
            header in proptest::collection::vec(any::<u64>(), 100),
            records in proptest::collection::vec(prop_oneof![0u64..600, any::<u64>()], 200),
            tail in prop_oneof![Just(0u64), any::<u64>()],
            received: u32,
        ) {
            let mut words = alloc::vec![0u64; RING_BYTES / 8];
            words[1..101].copy_from_slice(&header);
            (words[word::MAGIC], words[word::TAIL]) = (RING_MAGIC, tail);
            for (index, &value) in records.iter().enumerate() {
                words[HEADER_WORDS + (tail as usize + index) % RING_WORDS] = value;
            }
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            if let Some(remains) = remains(&bytes, received, &Account::default(), 1, 1) {
                prop_assert!(remains.samples.len() <= RING_WORDS / RECORD_WORDS);
                prop_assert!(remains.samples.iter().all(|(_, frames)| frames.len() <= MAX_FRAMES));
            }
        }
    }
}

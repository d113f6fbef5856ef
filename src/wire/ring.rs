//! The ring buffer in which handlers leave their samples: its layout, and how a viewer recovers
//! samples from it after the process has ended.
//!
//! The ring is one sealed memory file: a page of named words ([`word`]), six of what is left of
//! allocations, then the circle, whose size the agent chooses: a power of two of words from
//! [`MIN_RING_WORDS`] to [`RING_WORDS`]. The length of the file tells which. A record is
//! `size | sent_as << 32`, `tid | flags << 32`, `generation | epoch << 32`, the weight, the packed
//! allocation (of a tick, its time), and the packed frames. `sent_as` is 0 until the agent has sent
//! the record as a sample. Then it is the number of that sample in the connection (from 1 on,
//! wrapping), or [`GIVEN_UP`]. This tells samples that were sent and not received from samples that
//! were received, so that no sample is counted twice.
//!
//! The agent uses atomics while it runs. The viewer reads bytes that others may still change, and
//! trusts none of them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::interpreter;
use super::loss_cause::LossCause;
use super::messages::{AgentCounters, Allocation, Clock, Sample, flag};
use super::protocol::MAX_FRAMES;

/// Maximum size of the circle in words: 1 MiB, about 6 000 samples of 20 frames. Only the pages in
/// use are ever touched.
pub const RING_WORDS: usize = 128 * 1024;
/// Minimum size of the circle in words: about 700 samples of 20 frames.
pub const MIN_RING_WORDS: usize = 16 * 1024;
/// Size of the header in words: seven pages.
pub const HEADER_WORDS: usize = word::PIECES + 2 * MAPPING_PIECES;
/// Maximum number of pieces of sampled mappings.
pub const MAPPING_PIECES: usize = 1024;
/// Number of ids of sampled allocations.
pub const ALLOCATIONS: usize = 1 << 16;
/// Maximum size of the file in bytes.
pub const RING_BYTES: usize = (HEADER_WORDS + RING_WORDS) * 8;
/// Size of a record without its frames in words.
pub const RECORD_WORDS: usize = 5;
/// Number of configurations that the header remembers, for ticks in flight.
pub const EPOCHS: usize = 16;
/// The `sent_as` of a record that was not sent and is counted as lost.
pub const GIVEN_UP: u32 = u32::MAX;
/// Bit of a record's flags, besides those of [`flag`]: the module snapshot may have been too old
/// for some frame.
pub const STALE: u32 = 1 << 31;
/// Bit of a record's flags: the program's own filter excludes the sample from the profile that it
/// writes.
pub const LEFT_OUT: u32 = 1 << 30;

/// Indices of the header's words.
pub mod word {
    /// [`RING_MAGIC`](super::RING_MAGIC) once the ring is in use.
    pub const MAGIC: usize = 0;
    /// Position (not index) of the first word that no writer has reserved.
    pub const HEAD: usize = 8;
    /// Position of the first word that the agent has not released.
    pub const TAIL: usize = 16;
    /// `CLOCK_MONOTONIC` when the agent last drained the ring, ns.
    pub const DRAINED_NS: usize = 17;
    /// Number of threads of a crowd whose wall-clock time is counted.
    pub const WALL_THREADS: usize = 18;
    /// Sum of the times up to which it is counted, ns, wrapping.
    pub const WALL_COUNTED_NS: usize = 19;
    /// Number of ticks.
    pub const TICKS: usize = 24;
    /// Number of frames walked.
    pub const FRAMES: usize = 25;
    /// Number of signals forwarded to the target's handler.
    pub const FOREIGN: usize = 26;
    /// Lost ticks by [`LossCause`](super::super::LossCause).
    pub const LOST_TICKS: usize = 32;
    /// Weight of the lost ticks by cause, ns.
    pub const LOST_NS: usize = 48;
    /// Weight of the lost samples of memory by cause, bytes.
    pub const LOST_BYTES: usize = 64;
    /// Configuration of the ticks of an epoch: `period_ns << 2 | clock`.
    pub const CONFIGS: usize = 80;
    /// Frames walked by a rule cached in the slot, by a rule of the shared table, and by a rule
    /// that was looked up. This word and the following ones are counted only by an agent that is
    /// built to time itself.
    pub const RULES: usize = 96;
    /// Histogram of the time-stamp counter cycles of a handler, by
    /// [`bucket`](super::bucket).
    pub const CYCLES: usize = 128;
    /// Histogram of the depth of stacks, in steps of four frames.
    pub const DEPTHS: usize = 320;
    /// Histogram of the cycles of repeating the same walk, by [`bucket`](super::bucket).
    pub const WARM: usize = 384;
    /// The ids of the allocations that have ended, as bits. The agent clears a bit after the
    /// message of its end has left.
    pub const ENDED: usize = 512;
    /// The pieces of mappings, each in [two words](super::MappingPiece).
    pub const PIECES: usize = ENDED + super::ALLOCATIONS / 64;
}

/// Maximum time for which a thread's wall-clock time was not counted when its process is killed,
/// ns.
const LONGEST_UNCOUNTED_NS: u64 = 60_000_000_000;

const _: () = assert!(RING_WORDS.is_power_of_two() && word::CONFIGS + EPOCHS <= word::RULES);
const _: () = assert!(LossCause::ALL.len() <= word::LOST_NS - word::LOST_TICKS);
const _: () = assert!(MIN_RING_WORDS.is_power_of_two() && RECORD_WORDS + MAX_FRAMES <= MIN_RING_WORDS / 16);

/// Number of buckets of [`word::CYCLES`].
pub const BUCKETS: usize = word::DEPTHS - word::CYCLES;

/// Number of buckets of [`word::WARM`].
pub const WARM_BUCKETS: usize = word::ENDED - word::WARM;

/// The bucket of a number of cycles. There are eight buckets per factor of two.
pub fn bucket(cycles: u64) -> usize {
    let cycles = cycles.max(8);
    let doublings = cycles.ilog2() as usize;
    ((doublings - 3) * 8 + (cycles >> (doublings - 3) & 7) as usize).min(BUCKETS - 1)
}

/// The smallest number of cycles in a bucket.
pub fn bucket_start(bucket: usize) -> u64 {
    (8 + bucket as u64 % 8) << (bucket / 8)
}

/// The first word of a ring in use: "sigtring".
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"sigtring");

/// Splits an epoch's word into the clock and the period, ns.
pub fn unpack_config(word: u64) -> (Clock, u64) {
    let clock = match word & 3 {
        0 => Clock::Prof,
        1 => Clock::Real,
        2 => Clock::Virtual,
        _ => Clock::Alloc,
    };
    (clock, word >> 2)
}

/// A piece of a sampled mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingPiece {
    /// Id of the allocation.
    pub id: u32,
    /// Number of pages that the whole mapping had.
    pub whole: u32,
    /// Number of pages of this piece that are left, below 2^32 - 1.
    pub left: u32,
}

impl MappingPiece {
    /// Packs the piece into two words, of which the first is not 0.
    pub fn pack(self) -> [u64; 2] {
        [u64::from(self.left) + 1, u64::from(self.id) | u64::from(self.whole) << 32]
    }

    fn unpack([left, id]: [u64; 2]) -> Option<MappingPiece> {
        let left = left.checked_sub(1)?.try_into().ok()?;
        Some(MappingPiece { id: id as u32, whole: (id >> 32) as u32, left })
    }

    /// Returns the part of each mapping that is left, as [`Message::Freed`](super::Message::Freed)
    /// has it, by the id of the allocation.
    pub fn left_by_id(pieces: impl IntoIterator<Item = MappingPiece>) -> Vec<(u32, u32)> {
        let mut sums: Vec<(u32, u64, u32)> = Vec::new();
        for MappingPiece { id, whole, left } in pieces {
            match sums.iter_mut().find(|known| known.0 == id) {
                Some(known) => known.1 += u64::from(left),
                None => sums.push((id, left.into(), whole)),
            }
        }
        let part =
            |pages: u64, whole: u32| ((u128::from(pages) << 32) / u128::from(whole.max(1))).min(u32::MAX.into()) as u32;
        sums.into_iter().map(|(id, pages, whole)| (id, part(pages, whole))).collect()
    }
}

/// The unsent part of a connection, recovered from the ring of a process that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredRing {
    /// Samples that were not received, oldest first. A sample without a weight of its own (of a
    /// wall-clock or interval timer) has the weight of its period.
    pub samples: Vec<(Sample, Box<[u64]>)>,
    /// The allocations that have ended, and mappings that have shrunk, each with the part that is
    /// left, among them some of which this is known.
    pub freed: Vec<(u32, u32)>,
    /// The last counters brought up to date. Ticks that were neither received nor recovered nor
    /// counted as lost count as [`LossCause::NotReady`].
    pub counters: AgentCounters,
}

/// Reads the ring of a process that has ended. `received` is the number of samples that arrived
/// over the socket, `counters` are the last ones, `pid` is the process id in the target's
/// namespace, and `generation` is the last one announced. `now_ns` is the time of
/// `CLOCK_MONOTONIC`, ns. Returns `None` if the bytes are not a ring.
pub fn recover(
    bytes: &[u8],
    received: u32,
    counters: &AgentCounters,
    (pid, generation): (u32, u32),
    now_ns: u64,
) -> Option<RecoveredRing> {
    let words = RingWords::new(bytes)?;
    let mut recovered = RecoveredRing { counters: counters.clone(), ..RecoveredRing::default() };
    let mut position = words.header(word::TAIL);
    let end = position.checked_add(words.circle as u64)?;
    while position < end {
        let first = words.circle(position);
        let (size, sent_as) = (first as u32 as usize, (first >> 32) as u32);
        if !(RECORD_WORDS..=RECORD_WORDS + MAX_FRAMES).contains(&size) {
            break;
        }
        // Numbers wrap: those in the half of the range before `received` were received.
        let was_received = sent_as != 0 && received.wrapping_sub(sent_as) < 1 << 31;
        if sent_as != GIVEN_UP && !was_received {
            recovered.samples.push(words.record(position, size, pid, generation));
        }
        position = position.saturating_add(size as u64);
    }
    let pieces = (0..MAPPING_PIECES)
        .filter_map(|index| MappingPiece::unpack([0, 1].map(|word| words.header(word::PIECES + 2 * index + word))));
    recovered.freed = MappingPiece::left_by_id(pieces);
    recovered.freed.retain(|&(_, left)| left < u32::MAX);
    for index in 0..ALLOCATIONS / 64 {
        let bits = words.header(word::ENDED + index);
        let is_ended = |bit: &usize| bits >> bit & 1 != 0;
        recovered.freed.extend((0..64).filter(is_ended).map(|bit| ((index * 64 + bit) as u32, 0)));
    }
    recovered.update_counters(&words, received);
    recovered.lose_uncounted(&words, now_ns);
    Some(recovered)
}

impl RecoveredRing {
    fn update_counters(&mut self, words: &RingWords<'_>, received: u32) {
        let counters = &mut self.counters;
        counters.monotonic_ns = counters.monotonic_ns.max(words.header(word::DRAINED_NS));
        counters.ticks = words.header(word::TICKS);
        counters.foreign_signals = words.header(word::FOREIGN);
        counters.sent = u64::from(received).saturating_add(self.samples.len() as u64);
        counters.lost_ticks = core::array::from_fn(|cause| words.header(word::LOST_TICKS + cause));
        counters.lost_ns = core::array::from_fn(|cause| words.header(word::LOST_NS + cause));
        counters.lost_bytes = core::array::from_fn(|cause| words.header(word::LOST_BYTES + cause));
        let lost = counters.lost_ticks.iter().fold(0u64, |sum, &ticks| sum.saturating_add(ticks));
        let missing = counters.ticks.saturating_sub(counters.sent.saturating_add(lost));
        counters.lost_ticks[LossCause::NotReady as usize] += missing;
        if let Some((last, _)) = self.samples.last() {
            let weight = missing.saturating_mul(last.weight_ns);
            counters.add_lost_weight(LossCause::NotReady, last.clock, weight);
        }
    }
}

impl RecoveredRing {
    /// Counts wall-clock time of a crowd as lost that the agent did not come to count.
    fn lose_uncounted(&mut self, words: &RingWords<'_>, now_ns: u64) {
        let drained_ns = words.header(word::DRAINED_NS);
        // The clock of a process in another time namespace differs.
        let is_own_clock = now_ns.abs_diff(drained_ns) < LONGEST_UNCOUNTED_NS;
        let end_ns = if is_own_clock { now_ns.max(drained_ns) } else { drained_ns };
        let threads = words.header(word::WALL_THREADS).min(1 << 22);
        let uncounted_ns = threads.wrapping_mul(end_ns).wrapping_sub(words.header(word::WALL_COUNTED_NS));
        if threads > 0 && uncounted_ns <= threads * LONGEST_UNCOUNTED_NS {
            let counters = &mut self.counters;
            counters.ticks = counters.ticks.saturating_add(threads);
            let lost_ticks = &mut counters.lost_ticks[LossCause::NotReady as usize];
            *lost_ticks = lost_ticks.saturating_add(threads);
            counters.add_lost_weight(LossCause::NotReady, Clock::Real, uncounted_ns);
        }
    }
}

/// The words of a ring in bytes.
struct RingWords<'a> {
    bytes: &'a [u8],
    /// Size of the circle in words.
    circle: usize,
}

impl RingWords<'_> {
    fn new(bytes: &[u8]) -> Option<RingWords<'_>> {
        let circle = (bytes.len() / 8).checked_sub(HEADER_WORDS)?;
        let is_whole = bytes.len().is_multiple_of(8) && circle.is_power_of_two();
        let words = RingWords { bytes, circle };
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
        let (clock, period_ns) = unpack_config(self.header(word::CONFIGS + epoch as usize % EPOCHS));
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
            monotonic_ns: self.header(word::DRAINED_NS),
            age_ms: 0,
            weight_ns,
            allocation: match clock {
                Clock::Alloc => Allocation::unpack(self.circle(position.wrapping_add(4))),
                _ => Allocation::default(),
            },
            slot: 0,
        };
        // Which functions the interpreter's frames belong to is known to the agent alone.
        let frames = (RECORD_WORDS..size)
            .map(|offset| self.circle(position.wrapping_add(offset as u64)))
            .filter(|&word| !interpreter::is_interpreted(word));
        (sample, frames.collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::messages::FrameAddress;
    use super::*;

    /// A ring with two records: the first was sent as sample 7, the second was not sent.
    fn ring() -> Vec<u8> {
        ring_of(RING_WORDS)
    }

    fn ring_of(circle: usize) -> Vec<u8> {
        let mut words = alloc::vec![0u64; HEADER_WORDS + circle];
        words[word::MAGIC] = RING_MAGIC;
        // The records wrap around the end of the circle.
        words[word::TAIL] = 3 * circle as u64 - 5;
        words[word::DRAINED_NS] = 900;
        words[word::TICKS] = 12;
        words[word::LOST_TICKS + LossCause::RingFull as usize] = 1;
        words[word::ENDED + 2] = 0x8001;
        words[word::PIECES - 1] = 1 << 63;
        // Of mapping 5 half is left, of 6 all.
        for (index, (id, whole, left)) in [(5, 8, 3), (6, 2, 2), (5, 8, 1)].into_iter().enumerate() {
            let at = HEADER_WORDS - 2 * (index + 1);
            words[at..at + 2].copy_from_slice(&MappingPiece { id, whole, left }.pack());
        }
        words[word::CONFIGS + 3] = 10_000_000 << 2 | Clock::Prof as u64;
        words[word::CONFIGS + 4] = 20_000_000 << 2 | Clock::Real as u64;
        let records: [&[u64]; 2] = [
            &[7 | 7 << 32, 41, 2 | 3 << 32, 10_000_000, 0, 0x10_0001, 0x20_0000],
            &[6, 42 | u64::from(STALE | flag::TRUNCATED) << 32, 2 | 4 << 32, 0, 0, 0x30_0001],
        ];
        for (position, value) in (words[word::TAIL] as usize..).zip(records.concat()) {
            words[HEADER_WORDS + position % circle] = value;
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn samples_that_were_not_received_are_recovered_once() {
        let counters = AgentCounters { ticks: 9, sent: 7, agent_cpu_ns: 5, ..AgentCounters::default() };
        let before = recover(&ring(), 6, &counters, (40, 9), 0).expect("a ring");
        assert_eq!(before.samples.len(), 2);
        let (sample, frames) = &before.samples[0];
        assert_eq!((sample.tid, sample.clock, sample.weight_ns, sample.generation), (41, Clock::Prof, 10_000_000, 2));
        assert_eq!(
            **frames,
            [FrameAddress::Instruction(0x8_0000), FrameAddress::Return(0x10_0000)].map(FrameAddress::pack)
        );
        assert_eq!(before.freed, [(5, 1 << 31), (128, 0), (143, 0), (ALLOCATIONS as u32 - 1, 0)]);
        let after = recover(&ring(), 7, &counters, (40, 9), 0).expect("a ring");
        assert_eq!(after.samples, before.samples[1..]);
        let (sample, _) = &after.samples[0];
        assert_eq!((sample.clock, sample.weight_ns, sample.generation), (Clock::Real, 20_000_000, 9));
        assert_eq!(sample.flags, flag::TRUNCATED);
        // 12 ticks: 7 received, 1 recovered, 1 counted as lost. The other three were in flight.
        assert_eq!((after.counters.ticks, after.counters.sent), (12, 8));
        assert_eq!(after.counters.lost_ticks[LossCause::RingFull as usize], 1);
        assert_eq!(after.counters.lost_ticks[LossCause::NotReady as usize], 3);
        assert_eq!(after.counters.agent_cpu_ns, 5);
        let not_ready = LossCause::NotReady as usize;
        assert_eq!((after.counters.lost_ns[not_ready], after.counters.lost_bytes[not_ready]), (60_000_000, 0));
    }

    #[test]
    fn lost_samples_of_memory_are_bytes() {
        let mut ring = ring();
        let mut set = |index: usize, value: u64| ring[8 * index..8 * index + 8].copy_from_slice(&value.to_le_bytes());
        set(word::CONFIGS + 4, 1000 << 2 | Clock::Alloc as u64);
        set(word::LOST_BYTES + LossCause::RingFull as usize, 700);
        let counters = recover(&ring, 7, &AgentCounters::default(), (40, 9), 0).expect("a ring").counters;
        let lost = [LossCause::RingFull, LossCause::NotReady].map(|cause| counters.lost_bytes[cause as usize]);
        assert_eq!((lost, counters.lost_ns), ([700, 3000], [0; LossCause::ALL.len()]));
    }

    /// Regression test: when a process of thousands of threads was killed, their last time was lost
    /// in silence.
    #[test]
    fn the_time_that_was_not_counted_is_lost() {
        const S: u64 = 1_000_000_000;
        let lost = |threads, counted_ns, now_ns| {
            let mut ring = ring();
            let mut set =
                |index: usize, value: u64| ring[8 * index..8 * index + 8].copy_from_slice(&u64::to_le_bytes(value));
            set(word::DRAINED_NS, 100 * S);
            set(word::WALL_THREADS, threads);
            set(word::WALL_COUNTED_NS, counted_ns);
            let counters = recover(&ring, 7, &AgentCounters::default(), (40, 9), now_ns).expect("a ring").counters;
            let cause = LossCause::NotReady as usize;
            // Three ticks of 20 ms were in flight.
            (counters.lost_ticks[cause] - 3, counters.lost_ns[cause] - 60_000_000)
        };
        assert_eq!(lost(3, (98 + 99 + 100) * S, 101 * S), (3, 6 * S));
        assert_eq!(lost(3, (98 + 99 + 100) * S, 5 * S), (3, 3 * S), "another clock");
        assert_eq!(lost(0, 0, 101 * S), (0, 0), "no crowd");
        assert_eq!(lost(u64::MAX, 7, 101 * S), (0, 0));
        assert_eq!(lost(3, 500 * S, 101 * S), (0, 0));
    }

    #[test]
    fn the_file_length_gives_the_size_of_the_circle() {
        let read =
            |bytes: &[u8]| recover(bytes, 6, &AgentCounters::default(), (40, 9), 0).map(|recovered| recovered.samples);
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
    fn a_bucket_starts_at_its_smallest_value() {
        assert!((0..BUCKETS - 1).all(|at| bucket(bucket_start(at)) == at && bucket(bucket_start(at + 1) - 1) == at));
    }

    #[test]
    fn other_bytes_are_not_a_ring() {
        let ring = ring();
        assert!(recover(&ring[..ring.len() - 1], 0, &AgentCounters::default(), (1, 1), 0).is_none());
        assert!(recover(&alloc::vec![0; RING_BYTES], 0, &AgentCounters::default(), (1, 1), 0).is_none());
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
            let mut bytes = alloc::vec![0; RING_BYTES];
            let mut write = |at: usize, word: u64| bytes[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
            for (index, &value) in header.iter().enumerate() {
                write(1 + index, value);
            }
            write(word::MAGIC, RING_MAGIC);
            write(word::TAIL, tail);
            for (index, &value) in records.iter().enumerate() {
                write(HEADER_WORDS + (tail as usize + index) % RING_WORDS, value);
            }
            if let Some(recovered) = recover(&bytes, received, &AgentCounters::default(), (1, 1), 0) {
                prop_assert!(recovered.samples.len() <= RING_WORDS / RECORD_WORDS);
                prop_assert!(recovered.samples.iter().all(|(_, frames)| frames.len() <= MAX_FRAMES));
            }
        }
    }
}

//! Counts how often each stack occurred, for the profile in a file. For the agent thread alone.
//!
//! Samples have a weight in ns, while the file counts ticks of one period. The part of a weight
//! beyond whole ticks is carried over to the next sample, so that the sum is right whatever the
//! period of the samples is. Memory is bounded: when the stacks take too much of it, they are
//! dropped, because they are in the file, and the same stack gets another record later (readers add
//! equal records).

use alloc::vec;
use alloc::vec::Vec;

use crate::agent::cpuprofile::control::{self, ProfileRequest};
use crate::agent::cpuprofile::file::ProfileFile;
use crate::agent::os::maps;
use crate::agent::os::syscall::{self, File, PathBuffer};
use crate::agent::sampling::counters;
use crate::process::maps::lines;
use crate::wire::gperftools::HANDLER_FRAMES;
use crate::wire::interpreter::is_interpreted;
use crate::wire::ring::LEFT_OUT;
use crate::wire::{Clock, FRAMES_LEFT_OUT, FrameAddress};

/// Maximum number of addresses in memory: 2 MiB.
const MAX_ADDRESSES: usize = 256 * 1024;
/// Size of the hash table: twice the maximum number of stacks.
const TABLE_SIZE: usize = 16 * 1024;
/// Interval between writes, ns. A killed process loses up to twice as much.
const FLUSH_NS: u64 = 500_000_000;

const _: () = assert!(TABLE_SIZE.is_power_of_two());

/// A stack and its count.
struct StackEntry {
    hash: u64,
    /// Index of the first address, and the number of addresses.
    first: u32,
    depth: u32,
    count: u64,
    /// Offset of the record in the file; 0 if it is not there yet.
    at: u64,
    /// `true` if the count in the file is out of date.
    changed: bool,
}

/// A profile in memory, and its file.
pub(crate) struct ProfileAggregate {
    request: ProfileRequest,
    file: ProfileFile,
    /// Weight carried over to the next sample, ns.
    carry_ns: u64,
    entries: Vec<StackEntry>,
    addresses: Vec<u64>,
    /// Index + 1 of entries by hash; 0 is free.
    table: Vec<u16>,
    /// Indices of entries whose count has to be written.
    changed: Vec<u16>,
    /// Number of entries that are in the file.
    written: usize,
    samples: u64,
    map: Vec<u8>,
    is_map_stale: bool,
    flushed_ns: u64,
    /// Number of lost ticks so far.
    lost: u64,
    /// Value of the loss counters when they were last read.
    last_lost: u64,
    /// `true` if `lost` is not in the file yet.
    is_lost_changed: bool,
}

impl ProfileAggregate {
    /// Opens the requested file; `None` if it cannot be written.
    pub(crate) fn new(request: ProfileRequest) -> Option<ProfileAggregate> {
        let (file, end) = control::open_file()?;
        ProfileAggregate::into_file(request, file, end)
    }

    fn into_file(request: ProfileRequest, file: File, end: u64) -> Option<ProfileAggregate> {
        let mut aggregate = ProfileAggregate {
            request,
            file: ProfileFile::new(file, end, request.period_us).ok()?,
            carry_ns: 0,
            entries: Vec::new(),
            addresses: Vec::new(),
            table: vec![0; TABLE_SIZE],
            changed: Vec::new(),
            written: 0,
            samples: control::samples(),
            map: Vec::new(),
            is_map_stale: true,
            flushed_ns: 0,
            lost: 0,
            last_lost: lost_ticks(),
            is_lost_changed: false,
        };
        aggregate.flush();
        Some(aggregate)
    }

    /// The request that it serves.
    pub(crate) fn request(&self) -> ProfileRequest {
        self.request
    }

    /// Adds a sample of a thread, if the request includes it.
    pub(crate) fn add_sample(&mut self, tid: u32, clock: Clock, flags: u32, weight_ns: u64, frames: &[u64]) {
        let is_other_thread = self.request.first_thread && tid != syscall::getpid();
        if clock != self.request.clock || flags & LEFT_OUT != 0 || is_other_thread || frames.is_empty() {
            return;
        }
        let period_ns = self.request.period_us * 1_000;
        let weight_ns = self.carry_ns + weight_ns;
        self.carry_ns = weight_ns % period_ns;
        let count = weight_ns / period_ns;
        if count > 0 {
            self.add(count, frames);
        }
    }

    fn add(&mut self, count: u64, frames: &[u64]) {
        self.samples += count;
        control::set_samples(self.samples);
        if self.addresses.len() + frames.len() + HANDLER_FRAMES.len() > MAX_ADDRESSES
            || self.entries.len() >= TABLE_SIZE / 2
        {
            self.flush();
            self.clear();
        }
        let first = self.addresses.len();
        let frames = frames.iter().filter(|&&frame| frame != FRAMES_LEFT_OUT && !is_interpreted(frame));
        let mut frames = frames.map(|&frame| match FrameAddress::unpack(frame) {
            FrameAddress::Instruction(address) => (address, address.wrapping_add(1)),
            FrameAddress::Return(address) => (address.wrapping_sub(1), address),
        });
        // The leaf is an instruction address; callers are return addresses.
        self.addresses.extend(frames.next().map(|(leaf, _)| leaf));
        self.addresses.extend(HANDLER_FRAMES);
        self.addresses.extend(frames.map(|(_, caller)| caller));
        let (known, fresh) = self.addresses.split_at(first);
        let hash = fresh.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &word| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let mut slot = hash as usize & (TABLE_SIZE - 1);
        while let Some(index) = usize::from(self.table[slot]).checked_sub(1) {
            let entry = &mut self.entries[index];
            let start = entry.first as usize;
            if entry.hash == hash && known[start..][..entry.depth as usize] == *fresh {
                entry.count += count;
                if entry.at != 0 && !entry.changed {
                    entry.changed = true;
                    self.changed.push(index as u16);
                }
                self.addresses.truncate(first);
                return;
            }
            slot = (slot + 1) & (TABLE_SIZE - 1);
        }
        let depth = fresh.len() as u32;
        self.entries.push(StackEntry { hash, first: first as u32, depth, count, at: 0, changed: false });
        self.table[slot] = self.entries.len() as u16;
    }

    /// Drops all stacks. Those that could not be written to the file count as lost.
    fn clear(&mut self) {
        let unwritten = self.entries[self.written..].iter().map(|entry| entry.count).sum::<u64>();
        self.lost += unwritten;
        self.is_lost_changed |= unwritten > 0;
        self.samples -= unwritten;
        self.entries.clear();
        self.addresses.clear();
        self.changed.clear();
        self.table.fill(0);
        self.written = 0;
    }

    /// Marks the memory map as out of date, because there is new code.
    pub(crate) fn invalidate_map(&mut self) {
        self.is_map_stale = true;
    }

    /// Adds the ticks lost since the last call. `will_reset` says that the counters are reset next.
    pub(crate) fn update_losses(&mut self, will_reset: bool) {
        let now = lost_ticks();
        let more = now.saturating_sub(self.last_lost);
        self.lost += more;
        self.is_lost_changed |= more > 0;
        self.last_lost = if will_reset { 0 } else { now };
    }

    /// Flushes if the interval has passed or a thread waits for it.
    pub(crate) fn flush_if_due(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS;
        let requested = control::requested_flush();
        if is_due || requested.is_some() {
            self.flushed_ns = now_ns;
            self.update_losses(false);
            self.flush();
        }
        if let Some(number) = requested {
            control::complete_flush(number);
        }
    }

    /// Writes changed counts and new stacks. What cannot be written (the disk is full) is tried
    /// again the next time.
    pub(crate) fn flush(&mut self) {
        while let Some(&index) = self.changed.last() {
            let entry = &mut self.entries[usize::from(index)];
            if self.file.write_count(entry.at, entry.count).is_err() {
                break;
            }
            entry.changed = false;
            self.changed.pop();
        }
        let is_map_changed = self.is_map_stale && self.read_map();
        if self.written < self.entries.len() || is_map_changed || self.is_lost_changed {
            let ProfileAggregate { file, entries, addresses, map, lost, .. } = self;
            let mut tail = map.clone();
            if *lost > 0 {
                // Readers ignore the line, because it is neither a mapping nor an assignment.
                let line = PathBuffer::<64>::new().text(b"# ticks lost: ").number(*lost).text(b"\n");
                tail.extend_from_slice(line.as_bytes());
            }
            let fresh = &entries[self.written..];
            let range = |entry: &StackEntry| (entry.first as usize, entry.depth as usize);
            let records = fresh.iter().map(|entry| (entry.count, &addresses[range(entry).0..][..range(entry).1]));
            let mut offsets = Vec::with_capacity(fresh.len());
            if file.append(records, &tail, |at| offsets.push(at)).is_ok() {
                for (entry, at) in entries[self.written..].iter_mut().zip(offsets) {
                    entry.at = at;
                }
                self.written = self.entries.len();
                self.is_lost_changed = false;
            } else {
                self.is_map_stale |= is_map_changed;
            }
        }
        control::set_records_end(self.file.end());
    }

    /// Reads the memory map. Unmapped code keeps its line as long as nothing else is mapped there,
    /// because samples refer to it. Returns whether the map has changed.
    fn read_map(&mut self) -> bool {
        let text = maps::read();
        if text.is_empty() {
            return false;
        }
        self.is_map_stale = false;
        let mut now = Vec::new();
        let mut ranges = Vec::new();
        for (line, entry) in lines(&text).filter(|(_, entry)| entry.executable) {
            ranges.push((entry.start, entry.end));
            now.extend_from_slice(line);
            now.push(b'\n');
        }
        let old = core::mem::take(&mut self.map);
        for (line, unmapped) in lines(&old) {
            let next = ranges.partition_point(|&(_, end)| end <= unmapped.start);
            if ranges.get(next).is_none_or(|&(start, _)| unmapped.end <= start) {
                now.extend_from_slice(line);
                now.push(b'\n');
            }
        }
        self.map = now;
        self.map != old
    }
}

fn lost_ticks() -> u64 {
    let [ticks, ..] = counters::losses();
    ticks.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aggregate(name: &str, request: ProfileRequest) -> (ProfileAggregate, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("sigtop-{name}-{}", std::process::id()));
        let file = File::create(&[path.as_os_str().as_encoded_bytes(), b"\0"].concat(), libc::O_TRUNC);
        (ProfileAggregate::into_file(request, file.expect("writable"), 0).expect("written"), path)
    }

    /// The counts and addresses in a file, sorted. Removes the file.
    fn records(path: &std::path::Path) -> Vec<(u64, Vec<u64>)> {
        let bytes = std::fs::read(path).expect("readable");
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight")));
        let mut records = Vec::new();
        let mut words = words.by_ref().skip(5);
        while let (Some(count @ 1..), Some(depth)) = (words.next(), words.next()) {
            records.push((count, words.by_ref().take(depth as usize).collect()));
        }
        records.sort();
        std::fs::remove_file(path).expect("ours");
        records
    }

    const REQUEST: ProfileRequest =
        ProfileRequest { clock: Clock::Prof, period_us: 10_000, first_thread: false, manual: false };

    fn pack(frames: &[FrameAddress]) -> Vec<u64> {
        frames.iter().map(|frame| frame.pack()).collect()
    }

    #[test]
    fn weights_become_ticks_without_loss() {
        let (mut aggregate, path) = aggregate("weights", REQUEST);
        let own = [FrameAddress::Instruction(0x100), FrameAddress::Return(0x200)];
        // The leaf of this stack interrupted a handler of the program's.
        let nested = [FrameAddress::Instruction(0x300), FrameAddress::Instruction(0x400)];
        for _ in 0..10 {
            aggregate.add_sample(1, Clock::Prof, 0, 4_000_000, &pack(&own));
        }
        aggregate.flush();
        aggregate.add_sample(1, Clock::Prof, 0, 30_000_000, &pack(&own));
        aggregate.add_sample(1, Clock::Prof, 0, 10_000_000, &pack(&nested));
        aggregate.add_sample(1, Clock::Real, 0, 10_000_000, &pack(&own));
        aggregate.add_sample(1, Clock::Prof, LEFT_OUT, 10_000_000, &pack(&own));
        aggregate.flush();
        let [a, b] = HANDLER_FRAMES;
        assert_eq!(records(&path), [(1, vec![0x300, a, b, 0x401]), (7, vec![0x100, a, b, 0x200])]);
    }

    #[test]
    fn by_the_wall_clock_only_the_first_thread_may_count() {
        let request = ProfileRequest { clock: Clock::Real, first_thread: true, ..REQUEST };
        let (mut aggregate, path) = aggregate("first", request);
        for tid in [syscall::getpid(), syscall::getpid() + 1] {
            aggregate.add_sample(tid, Clock::Real, 0, 10_000_000, &pack(&[FrameAddress::Instruction(0x100)]));
        }
        aggregate.flush();
        assert_eq!(records(&path).iter().map(|(count, _)| count).sum::<u64>(), 1);
    }

    #[test]
    fn more_stacks_than_fit_in_memory_are_all_written() {
        let (mut aggregate, path) = aggregate("many", REQUEST);
        let stacks = TABLE_SIZE as u64 * 2;
        for round in 0..2 {
            for stack in 0..stacks {
                let frames = [FrameAddress::Instruction(0x1000 + stack), FrameAddress::Return(0x200 + round)];
                aggregate.add_sample(1, Clock::Prof, 0, 10_000_000, &pack(&frames));
            }
        }
        assert!(aggregate.entries.len() <= TABLE_SIZE / 2 && aggregate.addresses.len() <= MAX_ADDRESSES);
        aggregate.flush();
        let records = records(&path);
        assert_eq!((records.len() as u64, records.iter().map(|(count, _)| count).sum()), (2 * stacks, 2 * stacks));
    }
}

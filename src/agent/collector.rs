//! A profile as it is gathered for a file: how often each stack was met. For the agent thread alone.
//!
//! Samples weigh time; the file counts ticks of one period. What a sample weighs beyond whole ticks is kept for the next one, so that the
//! sum is right whatever the period of the samples is. Memory is bounded: when the stacks take too much of it they are forgotten, as they
//! stand in the file, and begin anew behind (readers add up what is alike).

use alloc::vec;
use alloc::vec::Vec;

use super::book::Book;
use super::maps;
use super::order::{self, Order};
use super::state;
use super::sys::{self, File, PathBuffer};
use crate::link::legacy::NOBODY;
use crate::link::wire::ring::LEFT_OUT;
use crate::link::wire::{Clock, FRAMES_LEFT_OUT, FrameAddress};

/// Words of addresses kept, at most: 2 MiB.
const MAX_WORDS: usize = 256 * 1024;
/// Places of the table, twice the stacks kept at most.
const PLACES: usize = 16 * 1024;
/// Between two writings of what is new, ns: half of what may be lost when the process is killed.
const FLUSH_NS: u64 = 500_000_000;

const _: () = assert!(PLACES.is_power_of_two());

/// A stack.
struct Entry {
    hash: u64,
    /// Its addresses: first of them, and how many.
    first: u32,
    depth: u32,
    count: u64,
    /// Where its record begins in the file; 0 if it is not there yet.
    at: u64,
    /// Its count is not what the file says.
    changed: bool,
}

/// What is gathered.
pub(super) struct Collector {
    order: Order,
    book: Book,
    /// Weight that no tick stands for yet, ns.
    rest_ns: u64,
    entries: Vec<Entry>,
    addresses: Vec<u64>,
    /// Entries by hash, + 1; 0 is free.
    table: Vec<u16>,
    /// Entries whose count is to be written.
    changed: Vec<u16>,
    /// Entries from here on are not in the file.
    written: usize,
    samples: u64,
    map: Vec<u8>,
    map_is_old: bool,
    flushed_ns: u64,
    /// Ticks lost, so far, and by the counters when it was looked last.
    lost: u64,
    lost_then: u64,
    lost_is_new: bool,
}

impl Collector {
    /// Into the file that is ordered; `None` if it cannot be written.
    pub(super) fn new(order: Order) -> Option<Collector> {
        let (file, end) = order::open()?;
        Collector::into_file(order, file, end)
    }

    fn into_file(order: Order, file: File, end: u64) -> Option<Collector> {
        let mut collector = Collector {
            order,
            book: Book::new(file, end, order.period_us).ok()?,
            rest_ns: 0,
            entries: Vec::new(),
            addresses: Vec::new(),
            table: vec![0; PLACES],
            changed: Vec::new(),
            written: 0,
            samples: order::samples(),
            map: Vec::new(),
            map_is_old: true,
            flushed_ns: 0,
            lost: 0,
            lost_then: lost_ticks(),
            lost_is_new: false,
        };
        collector.flush();
        Some(collector)
    }

    /// What it gathers.
    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Takes a sample of a thread, if it is one of the kind that is gathered.
    pub(super) fn take(&mut self, tid: u32, clock: Clock, flags: u32, weight_ns: u64, frames: &[u64]) {
        let other_thread = self.order.first_thread && tid != sys::getpid();
        if clock != self.order.clock || flags & LEFT_OUT != 0 || other_thread || frames.is_empty() {
            return;
        }
        let period_ns = self.order.period_us * 1_000;
        let weight_ns = self.rest_ns + weight_ns;
        self.rest_ns = weight_ns % period_ns;
        let count = weight_ns / period_ns;
        if count > 0 {
            self.add(count, frames);
        }
    }

    fn add(&mut self, count: u64, frames: &[u64]) {
        self.samples += count;
        order::note_samples(self.samples);
        if self.addresses.len() + frames.len() + NOBODY.len() > MAX_WORDS || self.entries.len() >= PLACES / 2 {
            self.flush();
            self.forget();
        }
        let first = self.addresses.len();
        let frames = frames.iter().filter(|&&frame| frame != FRAMES_LEFT_OUT);
        let mut frames = frames.map(|&frame| match FrameAddress::unpack(frame) {
            FrameAddress::Instruction(address) => (address, address.wrapping_add(1)),
            FrameAddress::Return(address) => (address.wrapping_sub(1), address),
        });
        // The leaf is told by its instruction, callers by where the call returns to.
        self.addresses.extend(frames.next().map(|(leaf, _)| leaf));
        self.addresses.extend(NOBODY);
        self.addresses.extend(frames.map(|(_, caller)| caller));
        let (known, fresh) = self.addresses.split_at(first);
        let hash = fresh.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &word| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let mut place = hash as usize & (PLACES - 1);
        while let Some(index) = usize::from(self.table[place]).checked_sub(1) {
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
            place = (place + 1) & (PLACES - 1);
        }
        let depth = fresh.len() as u32;
        self.entries.push(Entry { hash, first: first as u32, depth, count, at: 0, changed: false });
        self.table[place] = self.entries.len() as u16;
    }

    /// Forgets the stacks, if all of them are in the file; those that could not be written are lost, and counted.
    fn forget(&mut self) {
        let unwritten = self.entries[self.written..].iter().map(|entry| entry.count).sum::<u64>();
        self.lost += unwritten;
        self.lost_is_new |= unwritten > 0;
        self.samples -= unwritten;
        self.entries.clear();
        self.addresses.clear();
        self.changed.clear();
        self.table.fill(0);
        self.written = 0;
    }

    /// The map is to be read again: there is new code.
    pub(super) fn map_is_old(&mut self) {
        self.map_is_old = true;
    }

    /// What was lost until now; `anew` when the counters begin at 0 after this.
    pub(super) fn look_at_losses(&mut self, anew: bool) {
        let now = lost_ticks();
        let more = now.saturating_sub(self.lost_then);
        self.lost += more;
        self.lost_is_new |= more > 0;
        self.lost_then = if anew { 0 } else { now };
    }

    /// Writes what is new, if it is time to.
    pub(super) fn look(&mut self, now_ns: u64) {
        let due = now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS;
        let asked = order::flush_is_asked();
        if due || asked.is_some() {
            self.flushed_ns = now_ns;
            self.look_at_losses(false);
            self.flush();
        }
        if let Some(number) = asked {
            order::is_flushed(number);
        }
    }

    /// Writes what is new. What cannot be written (a full disk) is tried again the next time.
    pub(super) fn flush(&mut self) {
        while let Some(&index) = self.changed.last() {
            let entry = &mut self.entries[usize::from(index)];
            if self.book.count(entry.at, entry.count).is_err() {
                break;
            }
            entry.changed = false;
            self.changed.pop();
        }
        let map_is_new = self.map_is_old && self.read_map();
        if self.written < self.entries.len() || map_is_new || self.lost_is_new {
            let Collector { book, entries, addresses, map, lost, .. } = self;
            let mut tail = map.clone();
            if *lost > 0 {
                // No line of a map, and no assignment: readers pass over it.
                let line = PathBuffer::<64>::new().text(b"# ticks lost: ").number(*lost).text(b"\n");
                tail.extend_from_slice(line.as_bytes());
            }
            let fresh = &entries[self.written..];
            let of = |entry: &Entry| (entry.first as usize, entry.depth as usize);
            let records = fresh.iter().map(|entry| (entry.count, &addresses[of(entry).0..][..of(entry).1]));
            let mut places = Vec::with_capacity(fresh.len());
            if book.append(records, &tail, |at| places.push(at)).is_ok() {
                for (entry, at) in entries[self.written..].iter_mut().zip(places) {
                    entry.at = at;
                }
                self.written = self.entries.len();
                self.lost_is_new = false;
            } else {
                self.map_is_old |= map_is_new;
            }
        }
        order::note_end(self.book.end());
    }

    /// Reads which code lies where. Code that has gone keeps its line as long as no other lies there: samples name it. True when there is
    /// something new.
    fn read_map(&mut self) -> bool {
        let text = maps::read();
        if text.is_empty() {
            return false;
        }
        self.map_is_old = false;
        let mut now = Vec::new();
        let mut ranges = Vec::new();
        for (line, entry) in maps::lines(&text).filter(|(_, entry)| entry.executable) {
            ranges.push((entry.start, entry.end));
            now.extend_from_slice(line);
            now.push(b'\n');
        }
        let old = core::mem::take(&mut self.map);
        for (line, gone) in maps::lines(&old) {
            let next = ranges.partition_point(|&(_, end)| end <= gone.start);
            if ranges.get(next).is_none_or(|&(start, _)| gone.end <= start) {
                now.extend_from_slice(line);
                now.push(b'\n');
            }
        }
        self.map = now;
        self.map != old
    }
}

fn lost_ticks() -> u64 {
    let (ticks, _) = state::losses();
    ticks.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(name: &str, order: Order) -> (Collector, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("sigtop-{name}-{}", std::process::id()));
        let file = File::create(&[path.as_os_str().as_encoded_bytes(), b"\0"].concat(), libc::O_TRUNC);
        (Collector::into_file(order, file.expect("writable"), 0).expect("written"), path)
    }

    /// Counts and addresses, sorted.
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

    const ORDER: Order = Order { clock: Clock::Prof, period_us: 10_000, first_thread: false, by_hand: false };

    fn pack(frames: &[FrameAddress]) -> Vec<u64> {
        frames.iter().map(|frame| frame.pack()).collect()
    }

    #[test]
    fn weights_become_ticks_and_none_is_forgotten() {
        let (mut collector, path) = collector("weights", ORDER);
        let own = [FrameAddress::Instruction(0x100), FrameAddress::Return(0x200)];
        // Interrupted in a handler of the program's own.
        let nested = [FrameAddress::Instruction(0x300), FrameAddress::Instruction(0x400)];
        for _ in 0..10 {
            collector.take(1, Clock::Prof, 0, 4_000_000, &pack(&own));
        }
        collector.flush();
        collector.take(1, Clock::Prof, 0, 30_000_000, &pack(&own));
        collector.take(1, Clock::Prof, 0, 10_000_000, &pack(&nested));
        collector.take(1, Clock::Real, 0, 10_000_000, &pack(&own));
        collector.take(1, Clock::Prof, LEFT_OUT, 10_000_000, &pack(&own));
        collector.flush();
        let [a, b] = NOBODY;
        assert_eq!(records(&path), [(1, vec![0x300, a, b, 0x401]), (7, vec![0x100, a, b, 0x200])]);
    }

    #[test]
    fn by_the_wall_clock_the_first_thread_may_be_all() {
        let order = Order { clock: Clock::Real, first_thread: true, ..ORDER };
        let (mut collector, path) = collector("first", order);
        for tid in [sys::getpid(), sys::getpid() + 1] {
            collector.take(tid, Clock::Real, 0, 10_000_000, &pack(&[FrameAddress::Instruction(0x100)]));
        }
        collector.flush();
        assert_eq!(records(&path).iter().map(|(count, _)| count).sum::<u64>(), 1);
    }

    #[test]
    fn more_stacks_than_there_is_room_for_are_all_written() {
        let (mut collector, path) = collector("many", ORDER);
        let stacks = PLACES as u64 * 2;
        for round in 0..2 {
            for stack in 0..stacks {
                let frames = [FrameAddress::Instruction(0x1000 + stack), FrameAddress::Return(0x200 + round)];
                collector.take(1, Clock::Prof, 0, 10_000_000, &pack(&frames));
            }
        }
        assert!(collector.entries.len() <= PLACES / 2 && collector.addresses.len() <= MAX_WORDS);
        collector.flush();
        let records = records(&path);
        assert_eq!((records.len() as u64, records.iter().map(|(count, _)| count).sum()), (2 * stacks, 2 * stacks));
    }
}

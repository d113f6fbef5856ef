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
use super::sys::{self, PathBuffer};
use crate::link::legacy::NOBODY;
use crate::link::wire::ring::LEFT_OUT;
use crate::link::wire::{Clock, FrameAddress};

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
        let mut frames = frames.iter().map(|&frame| match FrameAddress::unpack(frame) {
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

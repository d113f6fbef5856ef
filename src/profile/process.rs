//! A watched process image: who it is, what it has mapped, its books by clock. An exec keeps the pid and starts a new one.

use std::hash::{BuildHasher, Hasher};

use super::clocks::Clocks;
use super::hash::IdMap;
use super::module::Mappings;
use super::stack::{Frame, FrameId, StackId, StackTable};
use super::thread::ThreadId;
use super::window::{Book, Place};
use crate::link::wire::{Account, Clock, Engaged, SourceId};

/// Index of a process image in a [`Profile`](super::Profile).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// One image of one process, from its Hello on.
pub struct Process {
    /// Its connection.
    pub source: SourceId,
    /// In the viewer's pid namespace.
    pub pid: u32,
    /// As the target sees it.
    pub own_pid: u32,
    /// Parent, as the target sees it.
    pub parent: u32,
    /// When its Hello came, on the viewer's clock, ns.
    pub since_ns: u64,
    /// With the pid, tells one process from the next that gets its number.
    pub start_ticks: u64,
    /// How many images of this process came before.
    pub image: u32,
    /// Target of `/proc/self/exe`.
    pub executable: String,
    /// Command line.
    pub argv: Vec<String>,
    /// Viewer's clock − target's clock, ns.
    pub clock_offset_ns: i64,
    /// Whether the agent is still there.
    pub connected: bool,
    /// Its latest counters.
    pub account: Account,
    /// Its counters one account before, for rates.
    pub earlier_account: Account,
    /// What its samples of the CPU clock stand for, ns: all that came, whatever was reset since.
    pub sampled_ns: u64,
    /// What its agent has in force.
    pub engaged: Option<Engaged>,
    pub(super) mappings: Mappings,
    pub(super) located: Located,
    pub(super) threads: IdMap<u32, ThreadId>,
    pub(super) books: Clocks<Book>,
}

/// Frames of addresses, and stacks, that were seen before, in one module generation: most are seen again with the next sample.
#[derive(Default)]
pub(super) struct Located {
    generation: u32,
    frames: IdMap<u64, FrameId>,
    /// By a hash of thread, clock and stack.
    seen: IdMap<u64, Seen>,
}

/// What tells a stack from all others of its process.
#[derive(Clone, Copy)]
pub(super) enum Identity {
    /// Its [mark](super::Marks).
    Mark(u64),
    /// In a recording.
    Number(u32),
}

/// Where a sample was entered before.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) stack: StackId,
    /// In the clock's book.
    pub(super) place: Place,
}

/// Addresses remembered for one image: as many as a large program's samples show.
const MAX_LOCATED: usize = 65_536;
/// Stacks of threads remembered for one image, at 20 to 40 bytes each.
const MAX_SEEN: usize = 458_752;

impl Located {
    /// Forgets all, as when mappings change.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.seen.clear();
    }

    /// Looks at `generation` from now on.
    pub(super) fn turn_to(&mut self, generation: u32) {
        let full = self.frames.len() > MAX_LOCATED || self.seen.len() > MAX_SEEN;
        if self.generation != generation || full {
            self.clear();
            self.generation = generation;
        }
    }

    /// The name under which a sample's place is remembered: no frame need be looked at.
    pub(super) fn name(&self, thread: ThreadId, clock: Clock, cut: bool, stack: Identity) -> u64 {
        let (is_numbered, word) = match stack {
            Identity::Mark(mark) => (false, mark),
            Identity::Number(number) => (true, number.into()),
        };
        let whose = u64::from(thread.0) << 8 | (clock as u64) << 2 | u64::from(is_numbered) << 1 | u64::from(cut);
        let mut hasher = self.seen.hasher().build_hasher();
        hasher.write_u64(whose);
        hasher.write_u64(word);
        hasher.finish()
    }

    /// Where a sample of this name was entered before.
    pub(super) fn seen(&self, name: u64) -> Option<Seen> {
        self.seen.get(&name).copied()
    }

    /// Remembers where a sample was entered.
    pub(super) fn remember(&mut self, name: u64, seen: Seen) {
        self.seen.insert(name, seen);
    }

    /// Forgets where samples were entered, as when the books are emptied.
    pub(super) fn forget_seen(&mut self) {
        self.seen.clear();
    }

    /// The frame of an address of the process.
    pub(super) fn frame(&mut self, address: u64, mappings: &Mappings, stacks: &mut StackTable) -> FrameId {
        *self.frames.entry(address).or_insert_with(|| {
            stacks.frame_id(match mappings.find(self.generation, address) {
                Some((module, address)) => Frame::Code { module, address },
                None => Frame::Unmapped(address),
            })
        })
    }
}

impl Process {
    /// Its agent is gone: nothing more can come, and what only samples need can go.
    pub(super) fn disconnect(&mut self) {
        self.connected = false;
        self.mappings = Mappings::default();
        self.located = Located::default();
        self.threads = IdMap::default();
    }

    /// A message sent at `monotonic_ns` (target's clock) came: its way took no less than nothing, so the least difference
    /// of the clocks is the best known.
    pub(super) fn see(&mut self, arrived_ns: u64, monotonic_ns: u64) {
        self.clock_offset_ns = self.clock_offset_ns.min(super::offset_ns(arrived_ns, monotonic_ns));
    }

    /// Last part of its executable's path.
    pub fn name(&self) -> &str {
        self.executable.rsplit('/').next().unwrap_or_default()
    }

    /// The book of a clock, if it ever ticked here.
    pub fn book(&self, clock: Clock) -> Option<&Book> {
        self.books.get(clock)
    }
}

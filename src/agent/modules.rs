//! Loaded modules, published to the handlers as an immutable [`Snapshot`]; read from the maps, never from the loader, so
//! that no loader lock is ever needed.
//!
//! A snapshot that was replaced is kept until every handler that could hold it has returned; only then are the tables of
//! unloaded modules given back.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::groups::{self, Group};
use super::learned::{self, Learned};
use super::maps::{self, Entry};
use super::rules::{self, Context, Lookup};
use super::slot::{Observation, Pool};
use super::state;
use super::sys;
use super::tables::{Image, Memory, Tables};
use crate::link::wire::{Module, Unload};

/// Modules kept, at most; what is mapped beyond them is not unwound through.
const MAX_MODULES: usize = 8192;
/// Snapshots that wait for handlers to return, at most: a handler takes microseconds, so more than one is rare.
const MAX_RETIRED: usize = 16;
/// Different restorers noticed: one for each libc in the process.
const RESTORERS: usize = 4;

/// Address ranges, sorted: start and one past the end.
type Ranges = Vec<(u64, u64)>;

/// What holds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This module of the snapshot.
    Module(usize),
    /// Code outside of every module.
    Code,
    /// No code, as far as the snapshot knows.
    Nowhere,
}

/// A module where it lies.
struct Placed {
    start: u64,
    end: u64,
    bias: u64,
    lookup: Option<Lookup>,
}

/// What a handler unwinds with.
pub(super) struct Snapshot {
    /// Counts changes of modules.
    generation: u32,
    /// A number of its modules and restorers.
    edition: u32,
    /// Modules, sorted by address.
    modules: Arc<[Placed]>,
    /// Executable memory outside of modules (made at run time), sorted: start and end.
    code: Ranges,
    /// Writable memory without a file, sorted: start and end. Stacks are here.
    writable: Ranges,
    /// The mapping of the first thread's stack, which grows downwards.
    growing: (u64, u64),
    restorers: [u64; RESTORERS],
    learned: Arc<Learned>,
}

impl Snapshot {
    /// Rules by range.
    #[inline]
    pub(super) fn learned(&self) -> &Learned {
        &self.learned
    }

    /// How many modules there are.
    #[cfg(test)]
    pub(super) fn module_count(&self) -> usize {
        self.modules.len()
    }

    /// Start, end, bias and tables of a module.
    #[cfg(test)]
    pub(super) fn tables_of(&self, module: usize) -> Option<(u64, u64, u64, &Lookup)> {
        let module = self.modules.get(module)?;
        Some((module.start, module.end, module.bias, module.lookup.as_ref()?))
    }

    /// Of its modules.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// A number that no snapshot with other modules or restorers has, of whatever agent of this process.
    pub(super) fn edition(&self) -> u32 {
        self.edition
    }

    /// What holds an address.
    #[inline]
    pub(super) fn place(&self, address: u64) -> Place {
        let next = self.modules.partition_point(|module| module.end <= address);
        match self.modules.get(next) {
            Some(module) if module.start <= address => Place::Module(next),
            _ if holder(&self.code, address).is_some() => Place::Code,
            _ => Place::Nowhere,
        }
    }

    /// The tables of a module, and an address as they have it.
    #[inline]
    pub(super) fn lookup(&self, module: usize, address: u64) -> Option<(&Lookup, u64)> {
        let module = self.modules.get(module)?;
        Some((module.lookup.as_ref()?, address.wrapping_sub(module.bias)))
    }

    /// Whether a signal handler returns to this address.
    pub(super) fn is_restorer(&self, address: u64) -> bool {
        address != 0 && (address == LIBC_RESTORER.load(Ordering::Relaxed) || self.restorers.contains(&address))
    }

    /// The end of the writable mapping that holds a stack pointer.
    pub(super) fn stack_end(&self, sp: u64) -> Option<u64> {
        if let Some(end) = holder(&self.writable, sp) {
            return Some(end);
        }
        // The first thread's stack may have grown since: between it and what lies below is nothing but stack.
        let (start, end) = self.growing;
        let below = self.writable.iter().rev().find(|range| range.1 <= start).map_or(0, |range| range.1);
        (below <= sp && sp < end).then_some(end)
    }
}

/// Slots outlive the agents of a process, and remember by these numbers.
fn next_edition() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

fn append(ranges: &mut Ranges, entry: &Entry<'_>) {
    match ranges.last_mut() {
        Some(last) if last.1 == entry.start => last.1 = entry.end,
        _ => ranges.push((entry.start, entry.end)),
    }
}

fn holder(ranges: &[(u64, u64)], address: u64) -> Option<u64> {
    let next = ranges.partition_point(|range| range.1 <= address);
    ranges.get(next).filter(|range| range.0 <= address).map(|range| range.1)
}

struct Known {
    id: u32,
    start: u64,
    end: u64,
    device: u64,
    inode: u64,
    path: Vec<u8>,
    image: Image,
    tables: Option<Tables>,
    generation: u32,
    announced: bool,
}

struct Retired {
    /// Kept alive for the handlers that hold it.
    _snapshot: Box<Snapshot>,
    /// Modules that it names and no later one does.
    _modules: Vec<Known>,
    observation: Observation,
}

/// The agent thread's view.
pub(super) struct Modules {
    pool: &'static Pool,
    known: Vec<Known>,
    next_id: u32,
    generation: u32,
    edition: u32,
    placed: Arc<[Placed]>,
    code: Ranges,
    writable: Ranges,
    growing: (u64, u64),
    restorers: [u64; RESTORERS],
    learned: Arc<Learned>,
    context: Box<Context>,
    retired: Vec<Retired>,
    gone: Vec<Unload>,
}

impl Modules {
    /// Nothing known yet.
    pub(super) fn new(pool: &'static Pool) -> Modules {
        Modules {
            pool,
            known: Vec::new(),
            next_id: 0,
            generation: 0,
            edition: next_edition(),
            placed: Arc::new([]),
            code: Ranges::new(),
            writable: Ranges::new(),
            growing: (0, 0),
            restorers: [0; RESTORERS],
            learned: Arc::default(),
            context: Box::new(rules::context()),
            retired: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Reads the maps and publishes what they say. True when there is new code, in a module or not.
    pub(super) fn refresh(&mut self) -> bool {
        self.reclaim();
        if self.retired.len() == MAX_RETIRED {
            return false;
        }
        let text = maps::read();
        if text.is_empty() {
            return false;
        }
        let mut groups: Vec<Group<'_>> = Vec::new();
        let (mut writable, mut code) = (Ranges::new(), Ranges::new());
        let mut growing = (0, 0);
        for entry in maps::entries(&text) {
            // Not that of files, which may be cut off at any time.
            if entry.writable && entry.inode == 0 {
                append(&mut writable, &entry);
                if entry.path == b"[stack]" {
                    growing = (entry.start, entry.end);
                }
            }
            if entry.executable {
                append(&mut code, &entry);
            }
            groups::add(&mut groups, &entry);
        }
        groups.retain(|group| group.executable && group.first.offset == 0);
        groups.truncate(MAX_MODULES);
        let (changed, removed) = self.compare(&groups);
        if changed {
            self.rebuild();
        }
        let new_code = changed || code != self.code;
        let restorers = restorers();
        let nothing_new = !new_code
            && (&writable, growing, restorers) == (&self.writable, self.growing, self.restorers)
            && !state::SNAPSHOT.load(Ordering::Relaxed).is_null();
        if nothing_new {
            return false;
        }
        if restorers != self.restorers {
            self.edition = next_edition();
        }
        (self.code, self.writable, self.growing, self.restorers) = (code, writable, growing, restorers);
        if !removed.is_empty() {
            let mut learned = Learned::clone(&self.learned);
            removed.iter().for_each(|known| learned.forget(known.start, known.end));
            self.learned = Arc::new(learned);
        }
        self.publish(removed);
        new_code
    }

    /// Compiles the rules of functions that handlers had to look up, and publishes them.
    pub(super) fn learn(&mut self) {
        if self.retired.len() == MAX_RETIRED {
            return;
        }
        let placed = self.placed.clone();
        let module_of = |pc| {
            let next = placed.partition_point(|module| module.end <= pc);
            let module = placed.get(next).filter(|module| module.start <= pc)?;
            Some((pc, module.bias, module.lookup.as_ref()?))
        };
        let mut noted = learned::take_notes().filter_map(module_of).peekable();
        if noted.peek().is_some() {
            let mut learned = Learned::clone(&self.learned);
            if learned.learn(noted, &mut self.context) {
                self.learned = Arc::new(learned);
                self.publish(Vec::new());
            }
        }
    }

    /// Makes `known` what `groups` say. Returns whether it changed, and what is gone.
    fn compare(&mut self, groups: &[Group<'_>]) -> (bool, Vec<Known>) {
        let same = |known: &Known, group: &Group<'_>| {
            let entry = &group.first;
            (known.start, known.end, known.device, known.inode) == (entry.start, group.end, entry.device, entry.inode)
                && known.path == entry.path
        };
        let generation = self.generation + 1;
        let (kept, removed): (Vec<Known>, Vec<Known>) =
            core::mem::take(&mut self.known).into_iter().partition(|known| {
                groups
                    .binary_search_by_key(&known.start, |group| group.first.start)
                    .is_ok_and(|i| same(known, &groups[i]))
            });
        self.known = kept;
        self.gone
            .extend(removed.iter().filter(|known| known.announced).map(|known| Unload { id: known.id, generation }));
        let mut changed = !removed.is_empty();
        if groups.len() > self.known.len() {
            let memory = Memory::open();
            for group in groups {
                let place = self.known.partition_point(|known| known.start < group.first.start);
                if self.known.get(place).is_some_and(|known| known.start == group.first.start) {
                    continue;
                }
                let Some(image) = Image::read(&memory, &group.first) else { continue };
                let entry = &group.first;
                let known = Known {
                    id: self.next_id,
                    start: entry.start,
                    end: group.end,
                    device: entry.device,
                    inode: entry.inode,
                    path: entry.path.to_vec(),
                    tables: Tables::of(&memory, &image, entry),
                    image,
                    generation,
                    announced: false,
                };
                self.known.insert(place, known);
                self.next_id += 1;
                changed = true;
            }
        }
        if changed {
            self.generation = generation;
        }
        (changed, removed)
    }

    fn rebuild(&mut self) {
        let placed = |known: &Known| Placed {
            start: known.start,
            end: known.end,
            bias: known.image.bias,
            lookup: known.tables.as_ref().and_then(|tables| Lookup::new(tables.header, tables.frames)),
        };
        self.placed = self.known.iter().map(placed).collect();
        self.edition = next_edition();
    }

    fn publish(&mut self, removed: Vec<Known>) {
        let snapshot = Box::new(self.snapshot());
        self.retire(Box::into_raw(snapshot), removed);
        self.reclaim();
    }

    fn publish_nothing(&mut self) {
        let known = core::mem::take(&mut self.known);
        self.retire(core::ptr::null_mut(), known);
    }

    fn retire(&mut self, next: *mut Snapshot, removed: Vec<Known>) {
        let old = state::SNAPSHOT.swap(next, Ordering::SeqCst);
        if !old.is_null() {
            // SAFETY: made by Box::into_raw in `publish`; nobody else frees it.
            let snapshot = unsafe { Box::from_raw(old) };
            let observation = self.pool.observe();
            self.retired.push(Retired { _snapshot: snapshot, _modules: removed, observation });
        }
    }

    /// What handlers are to unwind with now.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            generation: self.generation,
            edition: self.edition,
            modules: self.placed.clone(),
            code: self.code.clone(),
            writable: self.writable.clone(),
            growing: self.growing,
            restorers: self.restorers,
            learned: self.learned.clone(),
        }
    }

    fn reclaim(&mut self) {
        // In order: an older snapshot may name modules that a newer entry keeps.
        while self.retired.first_mut().is_some_and(|oldest| self.pool.all_returned(&mut oldest.observation)) {
            self.retired.remove(0);
        }
    }

    /// Modules that the viewer has not heard of, each once: `announce` returns false when it could not be told.
    pub(super) fn announce(&mut self, mut announce: impl FnMut(&Module<&[u8]>) -> bool) -> bool {
        for known in self.known.iter_mut().filter(|known| !known.announced) {
            let module = Module {
                id: known.id,
                generation: known.generation,
                start: known.start,
                end: known.end,
                bias: known.image.bias,
                device: known.device,
                inode: known.inode,
                path: &known.path[..],
                build_id: &known.image.build_id[..],
            };
            if !announce(&module) {
                return false;
            }
            known.announced = true;
        }
        true
    }

    /// Unloads that the viewer has not heard of, each once.
    pub(super) fn announce_gone(&mut self, mut announce: impl FnMut(&Unload) -> bool) -> bool {
        let told = self.gone.iter().position(|unload| !announce(unload)).unwrap_or(self.gone.len());
        self.gone.drain(..told);
        self.gone.is_empty()
    }

    /// A new viewer knows nothing.
    pub(super) fn forget_announcements(&mut self) {
        self.known.iter_mut().for_each(|known| known.announced = false);
        self.gone.clear();
    }

    /// Counts changes of modules.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }
}

impl Drop for Modules {
    /// Takes the snapshot away from the handlers and waits for those that hold one; should one not return, its memory
    /// stays.
    fn drop(&mut self) {
        self.publish_nothing();
        for _ in 0..100 {
            self.reclaim();
            if self.retired.is_empty() {
                return;
            }
            sys::futex_wait(&AtomicU32::new(0), 0, 1_000_000);
        }
        core::mem::forget(core::mem::take(&mut self.retired));
    }
}

/// Where the handlers that libc installs return to; 0 before the first one.
static LIBC_RESTORER: AtomicU64 = AtomicU64::new(0);

/// Learns from this signal, for which libc has just installed a handler, where handlers return to:
/// no snapshot that exists knows it.
pub(super) fn note_restorer(signal: i32) {
    if LIBC_RESTORER.load(Ordering::Relaxed) == 0 {
        LIBC_RESTORER.store(sys::action_of(signal).restorer as u64, Ordering::Relaxed);
    }
}

/// Where the handlers that the target has installed return to.
fn restorers() -> [u64; RESTORERS] {
    let mut found = [0; RESTORERS];
    let mut count = 0;
    for signal in 1..=64 {
        let action = sys::action_of(signal);
        let restorer = action.restorer as u64;
        let has_handler = action.handler > libc::SIG_IGN && action.flags & 0x0400_0000 != 0;
        if has_handler && !found.contains(&restorer) && count < RESTORERS {
            found[count] = restorer;
            count += 1;
        }
    }
    found
}

//! The loaded modules, published to the handlers as an immutable [`Snapshot`]. They are read from
//! the maps, never from the loader, so that no loader lock is ever needed.
//!
//! A replaced snapshot is kept until every handler that could hold it has returned. Only then are
//! the tables of unloaded modules freed.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::agent::os::maps;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::unwind::restorers::Restorers;
use crate::agent::unwind::rule_table::{self, RuleTable};
use crate::agent::unwind::rules::{self, TableContext, UnwindTables};
use crate::agent::unwind::tables::{ElfImage, TableSections};
use crate::process::mapped_images::{self, MappedImage};
use crate::process::maps::{MapsEntry, entries};
use crate::wire::{Module, Unload};

/// Maximum number of modules. Code of further modules is not unwound.
const MAX_MODULES: usize = 8192;

/// Address ranges, sorted: start and one past the end.
type Ranges = Vec<(u64, u64)>;

/// The location of a code address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeLocation {
    /// This module of the snapshot.
    Module(usize),
    /// Code outside of every module.
    Code,
    /// No code, as far as the snapshot knows.
    Unknown,
}

/// A module at its addresses in the process.
struct MappedModule {
    start: u64,
    end: u64,
    bias: u64,
    lookup: Option<UnwindTables>,
}

/// The data with which a handler unwinds.
pub(crate) struct Snapshot {
    /// Number of changes of the modules so far.
    generation: u32,
    /// Number that identifies its modules and restorers.
    edition: u32,
    /// Modules, sorted by address.
    modules: Arc<[MappedModule]>,
    /// Executable memory outside of modules (made at run time), sorted: start and end.
    code: Ranges,
    /// Writable memory without a file, sorted: start and end. Stacks are here.
    writable: Ranges,
    /// The mapping of the first thread's stack, which grows downwards.
    growing: (u64, u64),
    restorers: Restorers,
    /// The agent's own code: start and end.
    own_code: (u64, u64),
    rule_table: Arc<RuleTable>,
}

impl Snapshot {
    /// Returns the unwind rules by address range.
    #[inline]
    pub(crate) fn rule_table(&self) -> &RuleTable {
        &self.rule_table
    }

    /// Returns the number of modules.
    #[cfg(test)]
    pub(crate) fn module_count(&self) -> usize {
        self.modules.len()
    }

    /// Returns start, end, bias and tables of a module.
    #[cfg(test)]
    pub(crate) fn tables_of(&self, module: usize) -> Option<(u64, u64, u64, &UnwindTables)> {
        let module = self.modules.get(module)?;
        Some((module.start, module.end, module.bias, module.lookup.as_ref()?))
    }

    /// Returns the generation of its modules.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns a number that differs from that of every snapshot with other modules or restorers,
    /// also of earlier agent threads of this process.
    pub(crate) fn edition(&self) -> u32 {
        self.edition
    }

    /// Returns the location of an address.
    #[inline]
    pub(crate) fn locate(&self, address: u64) -> CodeLocation {
        let next = self.modules.partition_point(|module| module.end <= address);
        match self.modules.get(next) {
            Some(module) if module.start <= address => CodeLocation::Module(next),
            _ if holder(&self.code, address).is_some() => CodeLocation::Code,
            _ => CodeLocation::Unknown,
        }
    }

    /// Returns the tables of a module, and the address relative to its file.
    #[inline]
    pub(crate) fn lookup(&self, module: usize, address: u64) -> Option<(&UnwindTables, u64)> {
        let module = self.modules.get(module)?;
        Some((module.lookup.as_ref()?, address.wrapping_sub(module.bias)))
    }

    /// Returns whether a signal handler returns to this address.
    pub(crate) fn is_restorer(&self, address: u64) -> bool {
        self.restorers.contain(address)
    }

    /// Returns whether an address is in the agent's own code.
    #[inline]
    pub(crate) fn is_own(&self, address: u64) -> bool {
        let (start, end) = self.own_code;
        (start..end).contains(&address)
    }

    /// Returns the end of the writable mapping that contains a stack pointer.
    pub(crate) fn stack_end(&self, sp: u64) -> Option<u64> {
        holder(&self.writable, sp).or_else(|| self.is_on_first_stack(sp).then_some(self.growing.1))
    }

    /// Returns whether a stack pointer lies in the first thread's stack.
    pub(crate) fn is_on_first_stack(&self, sp: u64) -> bool {
        // It may have grown since the maps were read. Only stack lies between it and the mapping
        // below.
        let (start, end) = self.growing;
        let below = self.writable.iter().rev().find(|range| range.1 <= start).map_or(0, |range| range.1);
        (below..end).contains(&sp)
    }

    /// Returns the writable mapping that contains an address.
    pub(crate) fn writable_around(&self, address: u64) -> Option<(u64, u64)> {
        self.writable.iter().copied().find(|&(start, end)| (start..end).contains(&address))
    }
}

/// Returns a new edition. Slots outlive the agent threads of a process, and their caches are
/// identified by these numbers.
fn next_edition() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

fn append(ranges: &mut Ranges, entry: &MapsEntry<'_>) {
    match ranges.last_mut() {
        Some(last) if last.1 == entry.start => last.1 = entry.end,
        _ => ranges.push((entry.start, entry.end)),
    }
}

fn holder(ranges: &[(u64, u64)], address: u64) -> Option<u64> {
    let next = ranges.partition_point(|range| range.1 <= address);
    ranges.get(next).filter(|range| range.0 <= address).map(|range| range.1)
}

/// A module as the agent thread knows it, with its unwind tables.
pub(crate) struct LoadedModule {
    id: u32,
    start: u64,
    end: u64,
    device: u64,
    inode: u64,
    path: Vec<u8>,
    image: ElfImage,
    tables: Option<TableSections>,
    /// Tables of the functions that `tables` do not have.
    debug_tables: Option<TableSections>,
    generation: u32,
    announced: bool,
    /// Whether it is a part of a file's code that is mapped once more, away from its image. V8 maps
    /// its own functions near the code that it generates.
    is_copy: bool,
}

fn parsed(tables: Option<&TableSections>) -> Option<UnwindTables> {
    tables.and_then(|tables| UnwindTables::new(tables.header, tables.frames))
}

/// The changes found by [`Modules::refresh`].
pub(crate) struct Update {
    /// Whether there is new code, in a module or not.
    pub(crate) has_new_code: bool,
    /// Modules that were unloaded. Their tables must outlive every snapshot that names them.
    pub(crate) unloaded: Vec<LoadedModule>,
}

/// The modules of the process, as the agent thread knows them.
pub(crate) struct Modules {
    known: Vec<LoadedModule>,
    next_id: u32,
    generation: u32,
    edition: u32,
    mapped: Arc<[MappedModule]>,
    code: Ranges,
    writable: Ranges,
    growing: (u64, u64),
    restorers: Restorers,
    own_code: (u64, u64),
    rule_table: Arc<RuleTable>,
    context: Box<TableContext>,
    gone: Vec<Unload>,
    /// Whether a refresh has succeeded.
    is_read: bool,
}

impl Modules {
    /// Creates an empty list of modules.
    pub(crate) fn new() -> Modules {
        Modules {
            known: Vec::new(),
            next_id: 0,
            generation: 0,
            edition: next_edition(),
            mapped: Arc::new([]),
            code: Ranges::new(),
            writable: Ranges::new(),
            growing: (0, 0),
            restorers: Restorers::default(),
            own_code: (0, 0),
            rule_table: Arc::default(),
            context: Box::new(rules::new_context()),
            gone: Vec::new(),
            is_read: false,
        }
    }

    /// Reads the maps. Returns what has changed; `None` if nothing has, or if the maps cannot be
    /// read.
    pub(crate) fn refresh(&mut self) -> Option<Update> {
        let text = maps::read();
        if text.is_empty() {
            return None;
        }
        let mut images: Vec<MappedImage<'_>> = Vec::new();
        let (mut writable, mut code) = (Ranges::new(), Ranges::new());
        let mut growing = (0, 0);
        let here = next_edition as *const () as u64;
        for entry in entries(&text) {
            // Mappings of files are left out, because a file may be truncated at any time.
            if entry.readable && entry.writable && entry.inode == 0 {
                append(&mut writable, &entry);
                if entry.path == b"[stack]" {
                    growing = (entry.start, entry.end);
                }
            }
            if entry.executable {
                append(&mut code, &entry);
                // Elsewhere this code is a part of the program.
                if cfg!(sigtop_agent) && entry.contains(here) {
                    self.own_code = (entry.start, entry.end);
                }
            }
            mapped_images::add(&mut images, &entry);
        }
        mapped_images::retain_code(&mut images);
        images.truncate(MAX_MODULES);
        let (changed, removed) = self.compare(&images);
        if changed {
            self.rebuild();
        }
        let new_code = changed || code != self.code;
        let restorers = Restorers::read();
        let nothing_new = !new_code
            && (&writable, growing, restorers) == (&self.writable, self.growing, self.restorers)
            && self.is_read;
        if nothing_new {
            return None;
        }
        self.is_read = true;
        if restorers != self.restorers {
            self.edition = next_edition();
        }
        (self.code, self.writable, self.growing, self.restorers) = (code, writable, growing, restorers);
        if !removed.is_empty() {
            let mut rule_table = self.rule_table.to_change();
            removed.iter().for_each(|known| rule_table.forget(known.start, known.end));
            self.rule_table = Arc::new(rule_table);
        }
        Some(Update { has_new_code: new_code, unloaded: removed })
    }

    /// Compiles the rules of functions that handlers had to look up. Returns whether there are new
    /// ones.
    pub(crate) fn compile_rules(&mut self) -> bool {
        let mapped = self.mapped.clone();
        let module_of = |pc| {
            let next = mapped.partition_point(|module| module.end <= pc);
            let module = mapped.get(next).filter(|module| module.start <= pc)?;
            Some((pc, module.bias, module.lookup.as_ref()?))
        };
        let mut noted = rule_table::take_misses().filter_map(module_of).peekable();
        if noted.peek().is_none() {
            return false;
        }
        let mut rule_table = self.rule_table.to_change();
        let has_learned = rule_table.learn(noted, &mut self.context);
        if has_learned {
            self.rule_table = Arc::new(rule_table);
        }
        has_learned
    }

    /// Updates the loaded modules. Returns whether they changed, and which were unloaded.
    fn compare(&mut self, images: &[MappedImage<'_>]) -> (bool, Vec<LoadedModule>) {
        let same = |known: &LoadedModule, image_group: &MappedImage<'_>| {
            let entry = &image_group.first;
            (known.start, known.end, known.device, known.inode)
                == (entry.start, image_group.end, entry.device, entry.inode)
                && known.path == entry.path
        };
        let generation = self.generation + 1;
        let (kept, removed): (Vec<LoadedModule>, Vec<LoadedModule>) =
            core::mem::take(&mut self.known).into_iter().partition(|known| {
                images
                    .binary_search_by_key(&known.start, |image_group| image_group.first.start)
                    .is_ok_and(|i| same(known, &images[i]))
            });
        self.known = kept;
        self.gone
            .extend(removed.iter().filter(|known| known.announced).map(|known| Unload { id: known.id, generation }));
        let mut changed = !removed.is_empty();
        if images.len() > self.known.len() {
            let memory = ProcessMemory::open();
            let is_copy = |image_group: &&MappedImage<'_>| image_group.first.offset != 0;
            // The image that a copy is of comes before it.
            for image_group in images.iter().filter(|it| !is_copy(it)).chain(images.iter().filter(is_copy)) {
                let place = self.known.partition_point(|known| known.start < image_group.first.start);
                if self.known.get(place).is_some_and(|known| known.start == image_group.first.start) {
                    continue;
                }
                let (entry, is_copy) = (&image_group.first, is_copy(&image_group));
                let is_original = |known: &&LoadedModule| {
                    !known.is_copy && (known.device, known.inode) == (entry.device, entry.inode)
                };
                let original = self.known.iter().find(is_original).filter(|_| is_copy).map(|known| &known.image);
                let copied = || original.and_then(|original| original.for_copy(entry));
                let Some(image) = (if is_copy { copied() } else { ElfImage::read(&memory, entry) }) else { continue };
                // A copy has code alone.
                let whole = original.unwrap_or(&image);
                let file = whole.open_same(entry);
                let tables = TableSections::of(&memory, whole, file.as_ref());
                let lookup = parsed(tables.as_ref());
                let is_wanted = |address| lookup.as_ref().is_none_or(|lookup| !lookup.covers(address));
                let debug_tables = file.as_ref().and_then(|file| TableSections::of_debug(&image, file, &is_wanted));
                let known = LoadedModule {
                    id: self.next_id,
                    start: entry.start,
                    end: image_group.end,
                    device: entry.device,
                    inode: entry.inode,
                    path: entry.path.to_vec(),
                    debug_tables,
                    tables,
                    image,
                    generation,
                    announced: false,
                    is_copy,
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
        let mapped = |known: &LoadedModule| MappedModule {
            start: known.start,
            end: known.end,
            bias: known.image.bias,
            lookup: UnwindTables::join(parsed(known.tables.as_ref()), parsed(known.debug_tables.as_ref())),
        };
        self.mapped = self.known.iter().map(mapped).collect();
        self.edition = next_edition();
    }

    /// Returns id and headers of every loaded module that is whole.
    pub(crate) fn images(&self) -> impl Iterator<Item = (u32, &ElfImage)> {
        self.known.iter().filter(|known| !known.is_copy).map(|known| (known.id, &known.image))
    }

    /// Returns the headers of the loaded modules that are still mapped according to these entries
    /// of the maps, sorted by address.
    pub(crate) fn images_in<'a>(&'a self, entries: &'a [MapsEntry<'_>]) -> impl Iterator<Item = &'a ElfImage> {
        let is_there = |known: &&LoadedModule| {
            entries.binary_search_by_key(&known.start, |entry| entry.start).is_ok_and(|at| {
                let entry = &entries[at];
                (known.device, known.inode) == (entry.device, entry.inode) && known.path == entry.path
            })
        };
        self.known.iter().filter(|known| !known.is_copy).filter(is_there).map(|known| &known.image)
    }

    /// Takes the loaded modules out, which keep the tables that snapshots refer to.
    pub(crate) fn take_loaded(&mut self) -> Vec<LoadedModule> {
        core::mem::take(&mut self.known)
    }

    /// Makes a snapshot of the present state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            generation: self.generation,
            edition: self.edition,
            modules: self.mapped.clone(),
            code: self.code.clone(),
            writable: self.writable.clone(),
            growing: self.growing,
            restorers: self.restorers,
            own_code: self.own_code,
            rule_table: self.rule_table.clone(),
        }
    }

    /// Announces the modules that the viewer does not know yet, each once. `announce` returns false
    /// if there was no room.
    pub(crate) fn announce(&mut self, mut announce: impl FnMut(&Module<&[u8]>) -> bool) -> bool {
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

    /// Announces the unloads that the viewer does not know yet, each once.
    pub(crate) fn announce_gone(&mut self, mut announce: impl FnMut(&Unload) -> bool) -> bool {
        let announced = self.gone.iter().position(|unload| !announce(unload)).unwrap_or(self.gone.len());
        self.gone.drain(..announced);
        self.gone.is_empty()
    }

    /// Forgets what was announced, for a new viewer.
    pub(crate) fn forget_announcements(&mut self) {
        self.known.iter_mut().for_each(|known| known.announced = false);
        self.gone.clear();
    }

    /// Returns the number of changes of the modules so far.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }
}

//! Replaces functions in the global offset tables of the loaded modules, and puts them back.
//!
//! A module calls a function of another one through a word of its offset table, which the loader
//! fills in. Such words are found by the module's relocations. A word that holds the real function,
//! or an address of the module itself (the loader has not looked the function up yet), is replaced;
//! one that holds anything else leads to another allocator and stays. Nothing is remembered: a
//! replaced word is known by its value, also in a fork child.
//!
//! The loader makes tables read-only once it has filled them in. Such a word is written through
//! the kernel (`/proc/self/mem`), which leaves the rights of the page as they are and fails where
//! it is not mapped: a library that is loaded at this moment changes both. Where the kernel does
//! not allow that, the page is made writable for the instant of the change. A module whose pages
//! are still writable is being loaded, and its turn comes later. No module is unmapped meanwhile:
//! dlclose(3) waits.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::allocations::functions::{AllocatorFunction, FUNCTIONS};
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::syscall::syscall;
use crate::agent::os::{loader, maps};
use crate::agent::state;
use crate::agent::unwind::modules::Modules;
use crate::agent::unwind::tables::ElfImage;
use crate::arch::{is_slot_relocation, page_size, weak_address};
use crate::process::maps::{MapsEntry, entries};

const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
const DT_RELACOUNT: u64 = 0x6fff_fff9;
/// Maximum number of entries of a dynamic section.
const MAX_ENTRIES: u64 = 256;
/// Maximum bytes of a module's relocations: 64 MiB are 2.8 million.
const MAX_RELOCATIONS: u64 = 64 << 20;
/// Relocations or symbols that are read at a time, and the bytes of one.
const BATCH: usize = 2048;
const ENTRY: usize = 24;
/// Maximum bytes of names that are read at a time.
const NAMES: usize = 4096;

/// The functions that are wanted in the offset tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The replacements.
    Replacements,
    /// The real functions.
    Real,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableChange {
    /// Number of words that hold a replacement now.
    pub(crate) replaced: usize,
    /// Whether a module's turn has to come later.
    pub(crate) is_incomplete: bool,
}

impl TableChange {
    fn add(&mut self, other: TableChange) {
        self.replaced += other.replaced;
        self.is_incomplete |= other.is_incomplete;
    }
}

/// Looks the real functions up. Returns false if there is no allocator, or modules are being
/// loaded.
fn look_up() -> bool {
    let address_of = |function: &AllocatorFunction| {
        let name = CStr::from_bytes_with_nul(function.name.as_bytes()).unwrap_or_default();
        loader::first_definition(name)
    };
    for function in FUNCTIONS.iter().filter(|function| function.real.load(Ordering::Relaxed) == 0) {
        function.real.store(address_of(function), Ordering::Release);
    }
    malloc() != 0
}

fn malloc() -> usize {
    FUNCTIONS.first().map_or(0, |malloc| malloc.real.load(Ordering::Relaxed))
}

/// Changes the offset tables of all modules.
pub(crate) fn change(modules: &Modules, wanted: Wanted) -> TableChange {
    let none = TableChange { replaced: 0, is_incomplete: true };
    state::PATCHING.store(true, Ordering::SeqCst);
    let outcome =
        if state::UNLOADING.load(Ordering::SeqCst) == 0 && look_up() { change_all(modules, wanted) } else { none };
    state::PATCHING.store(false, Ordering::SeqCst);
    outcome
}

fn change_all(modules: &Modules, wanted: Wanted) -> TableChange {
    let mut outcome = TableChange::default();
    let memory = ProcessMemory::open();
    let text = maps::read();
    let entries: Vec<MapsEntry<'_>> = entries(&text).collect();
    let writer = ProcessMemory::open_for_writing();
    // A function that every libc has, under a version that is as old as glibc 2.16. Programs have
    // no function of that name.
    let libc = weak_address!("getauxval") as u64;
    // Functions of glibc call malloc(3) through its offset table, but not those of its allocator.
    // In musl those do so too, and what they allocate would count twice.
    let is_glibc = weak_address!("__register_atfork") != 0;
    let own = look_up as *const () as u64;
    let malloc = malloc() as u64;
    let is_allocator = |image: &ElfImage| image.holds(malloc) && !(is_glibc && image.holds(libc));
    for image in modules.images_in(&entries) {
        if image.holds(own) || image.holds(loader::own_address() as u64) || is_allocator(image) {
            continue;
        }
        let is_wanted = |function: &AllocatorFunction| {
            let real = function.real.load(Ordering::Relaxed) as u64;
            let is_its_own = |(_, image): (u32, &ElfImage)| image.holds(real) && is_allocator(image);
            real != 0 && (!function.calls_others || modules.images().any(is_its_own))
        };
        let mut each = |slot: u64, function: &AllocatorFunction| {
            if is_wanted(function) {
                outcome.add(change_word(image, &entries, (&memory, writer.as_ref()), slot, (function, wanted)));
            }
        };
        // A module without relocations calls nothing.
        let _ = visit(&memory, image, &mut each);
    }
    outcome
}

/// Changes one word, if it is to be changed.
fn change_word(
    image: &ElfImage,
    entries: &[MapsEntry<'_>],
    (memory, writer): (&ProcessMemory, Option<&ProcessMemory>),
    slot: u64,
    (function, wanted): (&AllocatorFunction, Wanted),
) -> TableChange {
    let (real, replacement) = (function.real.load(Ordering::Relaxed), function.replacement as usize);
    let (unchanged, later) = (TableChange::default(), TableChange { replaced: 0, is_incomplete: true });
    let mut bytes = [0; 8];
    if !slot.is_multiple_of(8) || memory.read(slot, &mut bytes).is_none() {
        return unchanged;
    }
    let value = usize::from_ne_bytes(bytes);
    let next = match wanted {
        Wanted::Replacements if value == replacement => return TableChange { replaced: 1, is_incomplete: false },
        Wanted::Replacements if value == real || image.holds(value as u64) => replacement,
        Wanted::Real if value == replacement => real,
        _ => return unchanged,
    };
    let at = entries.partition_point(|entry| entry.end <= slot);
    let Some(entry) = entries.get(at).filter(|entry| entry.start <= slot) else { return unchanged };
    if entry.writable && slot < image.relocated_end() {
        // The loader has not finished with it.
        return later;
    }
    // SAFETY: an aligned word of a module that stays mapped, in a page that is writable by then;
    // both values are functions of the same type. The loader may have looked the function up just
    // now.
    let exchange = || unsafe {
        let word = &*(slot as *const AtomicUsize);
        let _changed = word.compare_exchange(value, next, Ordering::AcqRel, Ordering::Relaxed);
    };
    let page = page_size() as u64;
    let protect = |protection: i32| {
        // SAFETY: a page of an offset table, which the target only reads.
        unsafe { syscall!(libc::SYS_mprotect, slot & !(page - 1), page, protection) == 0 }
    };
    if entry.writable {
        exchange();
    } else if !writer.is_some_and(|writer| writer.write(slot, &next.to_ne_bytes())) {
        if !protect(libc::PROT_READ | libc::PROT_WRITE) {
            return unchanged;
        }
        exchange();
        protect(libc::PROT_READ);
    }
    TableChange { replaced: usize::from(next == replacement), is_incomplete: false }
}

/// The tables that the loader uses to relocate a module: addresses in the process, and bytes.
#[derive(Default)]
struct DynamicTables {
    /// Relocations of the offset table and of other data.
    relocations: [(u64, u64); 2],
    /// Number of the first relocations of other data that concern no symbol.
    relative: u64,
    symbols: u64,
    names: u64,
}

impl DynamicTables {
    /// Reads their places from an image's dynamic section.
    fn read(memory: &ProcessMemory, image: &ElfImage) -> Option<DynamicTables> {
        let (start, size) = image.dynamic_section()?;
        let mut bytes = alloc::vec![0; size.min(MAX_ENTRIES * 16) as usize];
        memory.read(start, &mut bytes)?;
        let mut tables = DynamicTables::default();
        for entry in bytes.chunks_exact(16) {
            let (tag, value) = (word(entry, 0), word(entry, 8));
            // glibc relocates these words in place, musl and the vdso do not.
            let address = if value < image.bias { value.wrapping_add(image.bias) } else { value };
            match tag {
                DT_NULL => break,
                DT_JMPREL => tables.relocations[0].0 = address,
                DT_RELA => tables.relocations[1].0 = address,
                DT_PLTRELSZ => tables.relocations[0].1 = value,
                DT_RELASZ => tables.relocations[1].1 = value,
                DT_RELACOUNT => tables.relative = value,
                DT_SYMTAB => tables.symbols = address,
                DT_STRTAB => tables.names = address,
                _ => {}
            }
        }
        Some(tables)
    }

    /// Calls `each` with the offset and the symbol of every relocation of a word of the offset
    /// table.
    fn each_slot(&self, memory: &ProcessMemory, bytes: &mut [u8], mut each: impl FnMut(u64, u64)) -> Option<()> {
        for ((table, size), skipped) in self.relocations.into_iter().zip([0, self.relative]) {
            let count = if table == 0 { 0 } else { size.min(MAX_RELOCATIONS) / ENTRY as u64 };
            each_entry(memory, table, skipped..count, bytes, |_, relocation| {
                let (offset, info) = (word(relocation, 0), word(relocation, 8));
                if is_slot_relocation(info as u32) && info >> 32 != 0 {
                    each(offset, info >> 32);
                }
            })?;
        }
        Some(())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

/// Calls `each` with the number and the bytes of some entries of a table, which is read in large
/// parts.
fn each_entry(
    memory: &ProcessMemory,
    table: u64,
    mut numbers: Range<u64>,
    bytes: &mut [u8],
    mut each: impl FnMut(u64, &[u8]),
) -> Option<()> {
    while !numbers.is_empty() {
        let batch = (numbers.end - numbers.start).min((bytes.len() / ENTRY) as u64);
        let bytes = &mut bytes[..batch as usize * ENTRY];
        memory.read(table.checked_add(numbers.start * ENTRY as u64)?, bytes)?;
        bytes.chunks_exact(ENTRY).zip(numbers.start..).for_each(|(entry, number)| each(number, entry));
        numbers.start += batch;
    }
    Some(())
}

/// Returns those of some symbols, in rising order, that are functions of an allocator.
fn functions_among(
    memory: &ProcessMemory,
    tables: &DynamicTables,
    symbols: &[u64],
    bytes: &mut [u8],
) -> Option<Vec<(u64, &'static AllocatorFunction)>> {
    // Each is the place of a name in its table, above the 32 bits of the symbol that has it.
    let mut names: Vec<u64> = Vec::with_capacity(symbols.len());
    let mut rest = symbols.iter().peekable();
    let count = symbols.last().map_or(0, |last| last + 1);
    each_entry(memory, tables.symbols, 0..count, bytes, |number, symbol| {
        if rest.next_if(|wanted| **wanted == number).is_some() {
            names.push(word(symbol, 0) << 32 | number);
        }
    })?;
    // The table of names is read from start to end, where it holds a name that is asked for.
    names.sort_unstable();
    let bytes = &mut bytes[..NAMES];
    let (mut start, mut length) = (0, 0);
    let longest = FUNCTIONS.iter().map(|function| function.name.len()).max().unwrap_or(0);
    let mut functions = Vec::new();
    for packed in names {
        let (name, symbol) = ((packed >> 32) as usize, packed & u64::from(u32::MAX));
        if name + longest > start + length {
            (start, length) = (name, memory.read_some(tables.names.wrapping_add(name as u64), bytes));
        }
        let name = &bytes[name - start..length];
        let function = FUNCTIONS.iter().find(|function| name.starts_with(function.name.as_bytes()));
        functions.extend(function.map(|function| (symbol, function)));
    }
    Some(functions)
}

/// Calls `each` with the address of every word of an image's offset table that is to hold the
/// address of an allocator's function.
fn visit(memory: &ProcessMemory, image: &ElfImage, each: &mut impl FnMut(u64, &AllocatorFunction)) -> Option<()> {
    let tables = DynamicTables::read(memory, image)?;
    let mut bytes = alloc::vec![0; BATCH * ENTRY];
    let mut symbols = Vec::new();
    tables.each_slot(memory, &mut bytes, |_, symbol| symbols.push(symbol))?;
    symbols.sort_unstable();
    symbols.dedup();
    let functions = functions_among(memory, &tables, &symbols, &mut bytes)?;
    if functions.is_empty() {
        return None;
    }
    tables.each_slot(memory, &mut bytes, |offset, symbol| {
        if let Some((_, function)) = functions.iter().find(|(number, _)| *number == symbol) {
            each(image.bias.wrapping_add(offset), function);
        }
    })
}

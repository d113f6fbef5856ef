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
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::allocations::functions::{AllocatorFunction, FUNCTIONS};
use crate::agent::arch::{is_slot_relocation, weak_address};
use crate::agent::os::maps::MapsEntry;
use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::os::syscall::syscall;
use crate::agent::os::{loader, maps};
use crate::agent::state;
use crate::agent::unwind::modules::Modules;
use crate::agent::unwind::tables::ElfImage;

const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRSZ: u64 = 10;
const DT_JMPREL: u64 = 23;
/// Maximum number of entries of a dynamic section.
const MAX_ENTRIES: u64 = 256;
/// Maximum bytes of a module's relocations: 64 MiB are 2.8 million.
const MAX_RELOCATIONS: u64 = 64 << 20;
/// Maximum number of symbols of a module that are read.
const MAX_SYMBOLS: u64 = 4 << 20;
/// Relocations or symbols that are read at a time, and the bytes of one.
const BATCH: usize = 2048;
const ENTRY: usize = 24;
/// Longest name of a function that is replaced, with its NUL.
const NAME: usize = 40;
/// Bytes of names that are read at a time, and the maximum number of a module.
const NAMES: usize = 16 * 1024;
const MAX_NAMES: u64 = 64 << 20;
const PAGE: u64 = 4096;

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
    let entries: Vec<MapsEntry<'_>> = maps::entries(&text).collect();
    let writer = ProcessMemory::open_for_writing();
    let libc = weak_address!("__libc_start_main") as u64;
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
    let protect = |protection: i32| {
        // SAFETY: a page of an offset table, which the target only reads.
        unsafe { syscall!(libc::SYS_mprotect, slot & !(PAGE - 1), PAGE, protection) == 0 }
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

/// Returns the places of the functions' names in a table of strings, with the functions. A name may
/// be the end of a longer one.
fn find_names(memory: &ProcessMemory, (start, size): (u64, u64)) -> Vec<(u32, &'static AllocatorFunction)> {
    let mut found = Vec::new();
    let mut bytes = alloc::vec![0; NAMES];
    let size = size.min(MAX_NAMES);
    let mut read = 0;
    while read < size {
        let batch = &mut bytes[..((size - read) as usize).min(NAMES)];
        if memory.read(start + read, batch).is_none() {
            break;
        }
        let ends = batch.iter().enumerate().filter(|(at, byte)| **byte == 0 && *at > 0).map(|(at, _)| at + 1);
        for end in ends {
            // Most names differ in their last letter, which is faster to compare.
            let ends_alike = |name: &[u8]| batch[end - 2] == name[name.len() - 2] && batch[..end].ends_with(name);
            let named = FUNCTIONS.iter().filter(|function| ends_alike(function.name.as_bytes()));
            found.extend(named.map(|function| (read as u32 + (end - function.name.len()) as u32, function)));
        }
        // A name that is cut off at the end of this part is whole in the next one.
        let is_last = read + batch.len() as u64 == size;
        read += if is_last { NAMES } else { NAMES - NAME } as u64;
    }
    found
}

/// The tables that the loader uses to relocate a module: addresses in the process, and bytes.
#[derive(Default)]
struct DynamicTables {
    /// Relocations of the offset table and of other data.
    relocations: [(u64, u64); 2],
    symbols: u64,
    names: (u64, u64),
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
                DT_SYMTAB => tables.symbols = address,
                DT_STRTAB => tables.names.0 = address,
                DT_STRSZ => tables.names.1 = value,
                _ => {}
            }
        }
        Some(tables)
    }

    /// Calls `each` with the offset and the symbol of every relocation of a word of the offset
    /// table.
    fn each_slot(&self, memory: &ProcessMemory, bytes: &mut [u8], mut each: impl FnMut(u64, u64)) -> Option<()> {
        for (table, size) in self.relocations.into_iter().filter(|(table, _)| *table != 0) {
            each_entry(memory, (table, size.min(MAX_RELOCATIONS) / ENTRY as u64), bytes, |_, relocation| {
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

/// Calls `each` with the number and the bytes of every entry of a table, which is read in large
/// parts.
fn each_entry(
    memory: &ProcessMemory,
    (start, count): (u64, u64),
    bytes: &mut [u8],
    mut each: impl FnMut(u64, &[u8]),
) -> Option<()> {
    let mut done = 0;
    while done < count {
        let batch = (count - done).min((bytes.len() / ENTRY) as u64);
        let bytes = &mut bytes[..batch as usize * ENTRY];
        memory.read(start.checked_add(done * ENTRY as u64)?, bytes)?;
        bytes.chunks_exact(ENTRY).zip(done..).for_each(|(entry, number)| each(number, entry));
        done += batch;
    }
    Some(())
}

/// Calls `each` with the address of every word of an image's offset table that is to hold the
/// address of an allocator's function.
fn visit(memory: &ProcessMemory, image: &ElfImage, each: &mut impl FnMut(u64, &AllocatorFunction)) -> Option<()> {
    let tables = DynamicTables::read(memory, image)?;
    let names = find_names(memory, tables.names);
    if names.is_empty() {
        return None;
    }
    let mut bytes = alloc::vec![0; BATCH * ENTRY];
    let mut last = 0;
    tables.each_slot(memory, &mut bytes, |_, symbol| last = last.max(symbol))?;
    let mut functions = Vec::new();
    let count = (last + 1).min(MAX_SYMBOLS);
    each_entry(memory, (tables.symbols, count), &mut bytes, |number, symbol| {
        let name = word(symbol, 0) as u32;
        functions.extend(names.iter().find(|(at, _)| *at == name).map(|(_, function)| (number, *function)));
    })?;
    tables.each_slot(memory, &mut bytes, |offset, symbol| {
        if let Some((_, function)) = functions.iter().find(|(number, _)| *number == symbol) {
            each(image.bias.wrapping_add(offset), function);
        }
    })
}

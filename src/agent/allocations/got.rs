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
const DT_JMPREL: u64 = 23;
/// Maximum number of entries of a dynamic section.
const MAX_ENTRIES: u64 = 256;
/// Maximum bytes of a module's relocations: 64 MiB are 2.8 million.
const MAX_RELOCATIONS: u64 = 64 << 20;
/// Relocations that are read at a time.
const BATCH: usize = 2048;
const RELOCATION: usize = 24;
const SYMBOL: u64 = 24;
/// Longest name of a function that is replaced, with its NUL.
const NAME: usize = 40;
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

/// Calls `each` with the address of every word of an image's offset table that is to hold the
/// address of an allocator's function.
fn visit(memory: &ProcessMemory, image: &ElfImage, each: &mut impl FnMut(u64, &AllocatorFunction)) -> Option<()> {
    let (start, size) = image.dynamic_section()?;
    let (mut tables, mut sizes) = ([0; 2], [0; 2]);
    let (mut symbols, mut names) = (0, 0);
    let word = |address: u64| {
        let mut bytes = [0; 8];
        memory.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    };
    for index in 0..(size / 16).min(MAX_ENTRIES) {
        let (tag, value) = (word(start + 16 * index)?, word(start + 16 * index + 8)?);
        // glibc relocates these words in place, musl and the vdso do not.
        let address = if value < image.bias { value.wrapping_add(image.bias) } else { value };
        match tag {
            DT_NULL => break,
            DT_JMPREL => tables[0] = address,
            DT_RELA => tables[1] = address,
            DT_PLTRELSZ => sizes[0] = value,
            DT_RELASZ => sizes[1] = value,
            DT_SYMTAB => symbols = address,
            DT_STRTAB => names = address,
            _ => {}
        }
    }
    let mut bytes = alloc::vec![0; BATCH * RELOCATION];
    for (table, size) in tables.into_iter().zip(sizes) {
        let size = size.min(MAX_RELOCATIONS) / RELOCATION as u64 * RELOCATION as u64;
        let mut read = 0;
        while table != 0 && read < size {
            let batch = &mut bytes[..((size - read) as usize).min(BATCH * RELOCATION)];
            memory.read(table + read, batch)?;
            read += batch.len() as u64;
            for relocation in batch.chunks_exact(RELOCATION) {
                let part = |at: usize| relocation[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
                let (offset, info) = (part(0), part(8));
                if !is_slot_relocation(info as u32) || info >> 32 == 0 {
                    continue;
                }
                let name = word(symbols.checked_add(SYMBOL * (info >> 32))?)? as u32;
                let mut text = [0; NAME];
                let at = names.checked_add(name.into())?;
                // The last name may be followed by nothing that is mapped.
                if memory.read(at, &mut text).is_none() && memory.read(at, &mut text[..8]).is_none() {
                    continue;
                }
                if let Some(function) = FUNCTIONS.iter().find(|function| text.starts_with(function.name.as_bytes())) {
                    each(image.bias.wrapping_add(offset), function);
                }
            }
        }
    }
    Some(())
}

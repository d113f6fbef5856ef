//! Finds the next definition of a symbol after the agent's, in the loader's own list of loaded
//! objects. The result is that of `dlsym(RTLD_NEXT)`, without a dependency on the library in which
//! a libc has dlsym. For the constructor alone, while nothing is being loaded.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::os::text;
use crate::arch::weak_address;

/// The debugger's view of the loader, part of the ABI: version, then the first of a list of
/// objects.
#[repr(C)]
struct RDebug {
    version: i32,
    first: *const LinkMap,
    _stop: usize,
    /// 0 while nothing is being loaded or unloaded.
    state: i32,
}

#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
    dynamic: *const [usize; 2],
    next: *const LinkMap,
    previous: *const LinkMap,
}

#[repr(C)]
struct ElfSymbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

const DT_NULL: usize = 0;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;
/// Maximum number of objects searched. When a constructor of a preloaded library runs, fewer are
/// loaded.
const MAX_OBJECTS: usize = 4096;

fn r_debug() -> *const RDebug {
    // glibc exports the structure, musl a pointer to it.
    match (weak_address!("_r_debug"), weak_address!("_dl_debug_addr")) {
        (0, 0) => core::ptr::null(),
        // SAFETY: musl's variable is a pointer to the structure.
        (0, pointer) => unsafe { *(pointer as *const *const RDebug) },
        (structure, _) => structure as *const RDebug,
    }
}

fn first_link_map() -> *const LinkMap {
    let structure = r_debug();
    // SAFETY: the structure is the loader's, and constructors run after it was filled in.
    unsafe { if structure.is_null() { core::ptr::null() } else { (*structure).first } }
}

/// Returns whether any loaded object defines `name`. May be called at any time; returns false while
/// an object is being loaded or unloaded.
pub(crate) fn is_defined(name: &CStr) -> bool {
    let structure = r_debug();
    // SAFETY: the structure is the loader's, which writes the state before and after it changes its
    // list.
    let is_settled = || !structure.is_null() && unsafe { (&raw const (*structure).state).read_volatile() } == 0;
    let mut object = first_link_map();
    for _ in 0..MAX_OBJECTS {
        if object.is_null() || !is_settled() {
            return false;
        }
        // SAFETY: an object of the loader's list, which is not being changed.
        let this = unsafe { &*object };
        if this.find(name).is_some() {
            return true;
        }
        object = this.next;
    }
    false
}

/// Returns the address of the first definition of `name` in the loaded objects, the one that most
/// calls of it reach; 0 if there is none, or an object is being loaded or unloaded.
pub(crate) fn first_definition(name: &CStr) -> usize {
    let structure = r_debug();
    // SAFETY: as in `is_defined`.
    let is_settled = || !structure.is_null() && unsafe { (&raw const (*structure).state).read_volatile() } == 0;
    let mut object = first_link_map();
    for _ in 0..MAX_OBJECTS {
        if object.is_null() || !is_settled() {
            return 0;
        }
        // SAFETY: an object of the loader's list, which is not being changed.
        let this = unsafe { &*object };
        if let Some(address) = this.find(name) {
            return address;
        }
        object = this.next;
    }
    0
}

/// Returns an address in the loader itself; 0 if it is not known.
pub(crate) fn own_address() -> usize {
    r_debug() as usize
}

/// Returns the address of the first definition of `name` in the objects after the one that contains
/// `here`; 0 if there is none.
pub(crate) fn next_definition(name: &CStr, here: usize) -> usize {
    let address = AtomicUsize::new(0);
    next_definitions(here, core::iter::once((name, gnu_hash(name), &address)));
    address.into_inner()
}

/// Stores the address of the first definition of each name, given with its hash, in the objects
/// after the one that contains `here`. A name without a definition has the address 0.
pub(crate) fn next_definitions<'a>(here: usize, names: impl Iterator<Item = (&'a CStr, u32, &'a AtomicUsize)> + Clone) {
    let mut object = first_link_map();
    let mut passed = false;
    for _ in 0..MAX_OBJECTS {
        if object.is_null() {
            break;
        }
        // SAFETY: an object of the loader's list, which does not change while its constructors run.
        let this = unsafe { &*object };
        if passed && let Some(symbols) = this.symbols() {
            for (name, hash, address) in names.clone().filter(|(.., address)| address.load(Ordering::Relaxed) == 0) {
                address.store(symbols.find(name, hash).unwrap_or(0), Ordering::Relaxed);
            }
        }
        // The object whose dynamic section lies nearest above `here` within its image is ours.
        passed |= this.holds(here);
        object = this.next;
    }
}

/// Returns whether an object before the one that contains `here` defines `name`, so that the
/// program calls that one.
pub(crate) fn is_defined_before(name: &CStr, here: usize) -> bool {
    let mut object = first_link_map();
    for _ in 0..MAX_OBJECTS {
        if object.is_null() {
            return false;
        }
        // SAFETY: as in `next`.
        let this = unsafe { &*object };
        if this.holds(here) {
            return false;
        }
        if this.find(name).is_some() {
            return true;
        }
        object = this.next;
    }
    false
}

impl LinkMap {
    /// Reads the addresses of the object's tables of symbols.
    fn symbols(&self) -> Option<Symbols> {
        let (mut symbols, mut strings, mut gnu_hash, mut sysv_hash) = (None, None, None, None);
        let mut at = self.dynamic;
        if at.is_null() {
            return None;
        }
        loop {
            // SAFETY: a dynamic section ends with DT_NULL.
            let [tag, value] = unsafe { *at };
            // glibc relocates these words in place, musl and the vdso do not.
            let address = Some(if value < self.bias { value + self.bias } else { value });
            match tag {
                DT_NULL => break,
                DT_SYMTAB => symbols = address,
                DT_STRTAB => strings = address,
                DT_GNU_HASH => gnu_hash = address,
                DT_HASH => sysv_hash = address,
                _ => {}
            }
            at = at.wrapping_add(1);
        }
        let hash = match gnu_hash {
            Some(table) => HashTable::Gnu(table as *const u32),
            None => HashTable::Sysv(sysv_hash? as *const u32),
        };
        Some(Symbols {
            bias: self.bias,
            symbols: symbols? as *const ElfSymbol,
            strings: strings? as *const c_char,
            hash,
        })
    }

    /// Returns whether `here` is the address of this object's dynamic section, which identifies the
    /// agent's object.
    fn holds(&self, here: usize) -> bool {
        self.dynamic as usize == here
    }

    fn find(&self, name: &CStr) -> Option<usize> {
        self.symbols()?.find(name, gnu_hash(name))
    }
}

/// The tables of symbols of one object.
struct Symbols {
    bias: usize,
    symbols: *const ElfSymbol,
    strings: *const c_char,
    hash: HashTable,
}

enum HashTable {
    Gnu(*const u32),
    Sysv(*const u32),
}

impl Symbols {
    fn find(&self, name: &CStr, hash: u32) -> Option<usize> {
        let matches = |index: u32| {
            // SAFETY: the hash table names an index of the symbol table, a name an offset of the
            // string table.
            unsafe {
                let symbol = &*self.symbols.add(index as usize);
                // STT_NOTYPE or STT_FUNC: some functions in assembly have no type.
                let function = matches!(symbol.info & 15, 0 | 2) && symbol.section != 0 && symbol.value != 0;
                let equal =
                    function && text::starts_with(self.strings.add(symbol.name as usize), name.to_bytes_with_nul());
                equal.then_some(symbol.value + self.bias)
            }
        };
        match self.hash {
            HashTable::Gnu(table) => gnu_chain(table, hash, matches),
            HashTable::Sysv(table) => sysv_chain(table, name, matches),
        }
    }
}

/// The hash of a name in a table of the kind DT_GNU_HASH.
pub(crate) const fn gnu_hash(name: &CStr) -> u32 {
    let (bytes, mut hash, mut at) = (name.to_bytes(), 5381u32, 0);
    while at < bytes.len() {
        hash = hash.wrapping_mul(33).wrapping_add(bytes[at] as u32);
        at += 1;
    }
    hash
}

fn gnu_chain(table: *const u32, hash: u32, matches: impl Fn(u32) -> Option<usize>) -> Option<usize> {
    // SAFETY: the layout of DT_GNU_HASH: buckets, first symbol, words of the filter, shift; filter,
    // buckets, chains.
    unsafe {
        let (buckets, first, filter) = (*table, *table.add(1), *table.add(2));
        if buckets == 0 {
            return None;
        }
        let starts = table.add(4 + 2 * filter as usize);
        let chains = starts.add(buckets as usize);
        let mut index = *starts.add((hash % buckets) as usize);
        if index < first {
            return None;
        }
        loop {
            let entry = *chains.add((index - first) as usize);
            if entry | 1 == hash | 1
                && let Some(address) = matches(index)
            {
                return Some(address);
            }
            if entry & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }
}

fn sysv_chain(table: *const u32, name: &CStr, matches: impl Fn(u32) -> Option<usize>) -> Option<usize> {
    let hash = name.to_bytes().iter().fold(0u32, |hash, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff
    });
    // SAFETY: the layout of DT_HASH: buckets, chains, then both tables; index 0 ends a chain.
    unsafe {
        let buckets = *table;
        if buckets == 0 {
            return None;
        }
        let mut index = *table.add(2 + (hash % buckets) as usize);
        while index != 0 {
            if let Some(address) = matches(index) {
                return Some(address);
            }
            index = *table.add((2 + buckets + index) as usize);
        }
    }
    None
}

/// Returns libc's errno; 0 if it is not found.
pub(crate) fn errno() -> i32 {
    match weak_address!("__errno_location") {
        0 => 0,
        // SAFETY: libc's function of this name and type, on a thread of the target's.
        address => unsafe { *core::mem::transmute::<usize, extern "C" fn() -> *mut i32>(address)() },
    }
}

/// Sets libc's errno to the number of an error.
pub(crate) fn set_errno(number: i32) {
    let address = weak_address!("__errno_location");
    if address != 0 && number > 0 {
        // SAFETY: libc's function of this name and type, on a thread of the target's.
        unsafe { *core::mem::transmute::<usize, extern "C" fn() -> *mut i32>(address)() = number };
    }
}

unsafe extern "C" {
    /// The dynamic section of this library.
    #[link_name = "_DYNAMIC"]
    static OWN_DYNAMIC: c_char;
}

/// Address of this library's dynamic section, which identifies it in the loader's list.
pub(crate) fn own_dynamic() -> usize {
    &raw const OWN_DYNAMIC as usize
}

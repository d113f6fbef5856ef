//! The next definition of a symbol after ours, found in the loader's own list of loaded objects: what `dlsym(RTLD_NEXT)`
//! would say, without a dependency on where a libc keeps dlsym. Used in the constructor alone, when nothing is being loaded.

use core::ffi::CStr;

/// The debugger's view of the loader, part of the ABI: version, then the first of a list of objects.
#[repr(C)]
struct Debug {
    version: i32,
    first: *const Object,
    _stop: usize,
    /// 0 while nothing is being loaded or unloaded.
    state: i32,
}

#[repr(C)]
struct Object {
    bias: usize,
    name: *const i8,
    dynamic: *const [usize; 2],
    next: *const Object,
    previous: *const Object,
}

#[repr(C)]
struct Symbol {
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
/// Objects looked at: more are not loaded when a constructor of a preloaded library runs.
const MAX_OBJECTS: usize = 4096;

/// Address of a weak symbol, or 0: `extern_weak` linkage is not stable, the global offset table is.
macro_rules! weak_address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: loads a word of this library's own, filled in by the loader.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name), concat!("mov {}, [rip + ", $name, "@GOTPCREL]"), out(reg) address,
                options(nostack, pure, readonly, preserves_flags)
            );
        }
        address
    }};
}
pub(super) use weak_address;

fn structure() -> *const Debug {
    // glibc exports the structure, musl a pointer to it.
    match (weak_address!("_r_debug"), weak_address!("_dl_debug_addr")) {
        (0, 0) => core::ptr::null(),
        // SAFETY: musl's variable is a pointer to the structure.
        (0, pointer) => unsafe { *(pointer as *const *const Debug) },
        (structure, _) => structure as *const Debug,
    }
}

fn first_object() -> *const Object {
    let structure = structure();
    // SAFETY: the structure is the loader's, and constructors run after it was filled in.
    unsafe { if structure.is_null() { core::ptr::null() } else { (*structure).first } }
}

/// Whether any loaded object defines `name`. May be called at any time; while something is being
/// loaded or unloaded the answer is no.
pub(super) fn is_defined(name: &CStr) -> bool {
    let structure = structure();
    // SAFETY: the structure is the loader's, which writes the state before and after it changes its
    // list.
    let is_settled = || !structure.is_null() && unsafe { (&raw const (*structure).state).read_volatile() } == 0;
    let mut object = first_object();
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

/// The address of the first definition of `name` in the objects after the one that holds `here`; 0 when there is none.
pub(super) fn next(name: &CStr, here: usize) -> usize {
    let mut object = first_object();
    let mut passed = false;
    for _ in 0..MAX_OBJECTS {
        if object.is_null() {
            break;
        }
        // SAFETY: an object of the loader's list, which does not change while its constructors run.
        let this = unsafe { &*object };
        if passed && let Some(address) = this.find(name) {
            return address;
        }
        // The object whose dynamic section lies nearest above `here` within its image is ours.
        passed |= this.holds(here);
        object = this.next;
    }
    0
}

/// Whether an object before the one that holds `here` defines `name`, so that the program calls that one.
pub(super) fn is_before(name: &CStr, here: usize) -> bool {
    let mut object = first_object();
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

impl Object {
    fn entry(&self, tag: usize) -> Option<usize> {
        let mut at = self.dynamic;
        if at.is_null() {
            return None;
        }
        loop {
            // SAFETY: a dynamic section ends with DT_NULL.
            let [found, value] = unsafe { *at };
            if found == DT_NULL {
                return None;
            }
            if found == tag {
                // glibc relocates these words in place, musl and the vdso do not.
                return Some(if value < self.bias { value + self.bias } else { value });
            }
            at = at.wrapping_add(1);
        }
    }

    /// Whether this is the object whose code `here` is in: ours is known by its dynamic section.
    fn holds(&self, here: usize) -> bool {
        self.dynamic as usize == here
    }

    fn find(&self, name: &CStr) -> Option<usize> {
        let (symbols, strings) = (self.entry(DT_SYMTAB)? as *const Symbol, self.entry(DT_STRTAB)? as *const i8);
        let matches = |index: u32| {
            // SAFETY: the hash table names an index of the symbol table, a name an offset of the string table.
            unsafe {
                let symbol = &*symbols.add(index as usize);
                let function = symbol.info & 15 == 2 && symbol.section != 0 && symbol.value != 0;
                let equal = function && CStr::from_ptr(strings.add(symbol.name as usize)) == name;
                equal.then_some(symbol.value + self.bias)
            }
        };
        match self.entry(DT_GNU_HASH) {
            Some(table) => gnu_chain(table as *const u32, name, matches),
            None => sysv_chain(self.entry(DT_HASH)? as *const u32, name, matches),
        }
    }
}

fn gnu_chain(table: *const u32, name: &CStr, matches: impl Fn(u32) -> Option<usize>) -> Option<usize> {
    let hash = name.to_bytes().iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
    // SAFETY: the layout of DT_GNU_HASH: buckets, first symbol, words of the filter, shift; filter, buckets, chains.
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

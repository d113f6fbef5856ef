//! Looks up an exported symbol of a mapped file by its name, in the hash table that the loader uses
//! (`DT_GNU_HASH`). Everything is read through the kernel, because a file may be unmapped meanwhile.

use crate::agent::os::process_memory::ProcessMemory;
use crate::agent::unwind::tables::ElfImage;

const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// Maximum number of entries of a dynamic section.
const MAX_ENTRIES: u64 = 256;
/// Maximum number of symbols in a bucket of the hash table. Linkers make buckets of a few.
const MAX_CHAIN: u32 = 1024;
/// Maximum length of a symbol's name here, with its NUL.
const MAX_NAME: usize = 32;
const SYMBOL_BYTES: u64 = 24;

/// Address in the process and size of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DynamicSymbol {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// The dynamic symbols of a mapped file.
pub(super) struct DynamicSymbols<'a> {
    memory: &'a ProcessMemory,
    bias: u64,
    names: u64,
    symbols: u64,
    hashes: u64,
}

impl<'a> DynamicSymbols<'a> {
    /// Finds the tables of a file. Returns `None` if it has none.
    pub(super) fn of(memory: &'a ProcessMemory, image: &ElfImage) -> Option<DynamicSymbols<'a>> {
        let (start, size) = image.dynamic_section()?;
        let mut found = DynamicSymbols { memory, bias: image.bias, names: 0, symbols: 0, hashes: 0 };
        for index in 0..(size / 16).min(MAX_ENTRIES) {
            let (tag, value) = (found.word(start + 16 * index)?, found.word(start + 16 * index + 8)?);
            // glibc relocates these words in place, musl and the vdso do not.
            let address = if value < image.bias { value.wrapping_add(image.bias) } else { value };
            match tag {
                DT_NULL => break,
                DT_STRTAB => found.names = address,
                DT_SYMTAB => found.symbols = address,
                DT_GNU_HASH => found.hashes = address,
                _ => {}
            }
        }
        (found.names != 0 && found.symbols != 0 && found.hashes != 0).then_some(found)
    }

    /// Returns a defined symbol.
    pub(super) fn find(&self, name: &[u8]) -> Option<DynamicSymbol> {
        let hash = name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        // Buckets, first symbol, words of the filter, shift; then filter, buckets, chains.
        let (buckets, first) = (self.half(self.hashes)?, self.half(self.hashes + 4)?);
        let filter = u64::from(self.half(self.hashes + 8)?);
        let starts = self.hashes.checked_add(16 + 8 * filter)?;
        let chains = starts.checked_add(4 * u64::from(buckets))?;
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let start = self.half(starts + 4 * bucket)?;
        for index in start.max(first)..start.max(first).saturating_add(MAX_CHAIN) {
            let entry = self.half(chains.checked_add(4 * u64::from(index - first))?)?;
            if entry | 1 == hash | 1
                && let Some(symbol) = self.symbol(index, name)
            {
                return Some(symbol);
            }
            if entry & 1 == 1 || start < first {
                return None;
            }
        }
        None
    }

    /// Returns the symbol with an index, if it has this name and is defined.
    fn symbol(&self, index: u32, name: &[u8]) -> Option<DynamicSymbol> {
        let at = self.symbols.checked_add(SYMBOL_BYTES * u64::from(index))?;
        let mut text = [0; MAX_NAME];
        let text = text.get_mut(..=name.len())?;
        self.memory.read(self.names.checked_add(self.half(at)?.into())?, text)?;
        let is_named = text.strip_suffix(&[0]) == Some(name);
        let section = self.half(at + 4)? >> 16;
        let value = self.word(at + 8)?;
        (is_named && section != 0).then_some(())?;
        Some(DynamicSymbol { address: value.wrapping_add(self.bias), size: self.word(at + 16)? })
    }

    fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.memory.read(address, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::modules::Modules;

    #[test]
    fn symbols_of_a_loaded_library_are_found_where_the_loader_found_them() {
        let mut modules = Modules::new();
        modules.refresh().expect("the maps are read");
        let memory = ProcessMemory::open();
        let find = |name: &[u8]| {
            modules.images().filter_map(|(_, image)| DynamicSymbols::of(&memory, image)?.find(name)).next()
        };
        let found = find(b"getppid").expect("libc exports it");
        // SAFETY: the name of a function of libc.
        let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getppid".as_ptr()) };
        assert_eq!(found.address, expected as u64);
        assert!((1..200).contains(&found.size), "{found:?}");
        assert_eq!(find(b"getppid_of_nobody"), None);
        assert_eq!(find(&[b'x'; MAX_NAME + 1]), None);
    }
}

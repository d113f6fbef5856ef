//! Looks up an exported symbol of a mapped file by its name, in the hash table that the loader uses
//! (`DT_GNU_HASH`).

use super::memory::{TargetMemory, half, word};

const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// Maximum number of entries of a dynamic section.
const MAX_ENTRIES: u64 = 256;
/// Size of an entry, and the number of entries that are read at a time.
const ENTRY_BYTES: u64 = 16;
const ENTRIES_AT_A_TIME: u64 = 64;
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

/// The dynamic section of a mapped file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DynamicSection {
    /// Address in the process minus the address in the file.
    pub(crate) bias: u64,
    /// Address in the process.
    pub(crate) start: u64,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Address in the process of the file's index of unwind tables, or 0.
    pub(crate) unwind_index: u64,
}

/// The dynamic symbols of a mapped file.
pub(super) struct DynamicSymbols<'a, M> {
    memory: &'a M,
    bias: u64,
    names: u64,
    symbols: u64,
    hashes: u64,
}

impl<'a, M: TargetMemory> DynamicSymbols<'a, M> {
    /// Finds the tables of a file. Returns `None` if it has none.
    pub(super) fn of(memory: &'a M, section: DynamicSection) -> Option<DynamicSymbols<'a, M>> {
        let DynamicSection { bias, start, size, .. } = section;
        let mut found = DynamicSymbols { memory, bias, names: 0, symbols: 0, hashes: 0 };
        let entries = (size / ENTRY_BYTES).min(MAX_ENTRIES);
        let mut bytes = [0; (ENTRIES_AT_A_TIME * ENTRY_BYTES) as usize];
        'section: for first in (0..entries).step_by(ENTRIES_AT_A_TIME as usize) {
            let count = (entries - first).min(ENTRIES_AT_A_TIME);
            let bytes = bytes.get_mut(..(count * ENTRY_BYTES) as usize)?;
            memory.read(start.checked_add(first * ENTRY_BYTES)?, bytes)?;
            for entry in bytes.chunks_exact(ENTRY_BYTES as usize) {
                let (tag, value) = (word(entry, 0)?, word(entry, 8)?);
                // glibc relocates these words in place, musl and the vdso do not.
                let address = if value < bias { value.wrapping_add(bias) } else { value };
                match tag {
                    DT_NULL => break 'section,
                    DT_STRTAB => found.names = address,
                    DT_SYMTAB => found.symbols = address,
                    DT_GNU_HASH => found.hashes = address,
                    _ => {}
                }
            }
        }
        (found.names != 0 && found.symbols != 0 && found.hashes != 0).then_some(found)
    }

    /// Returns a defined symbol.
    pub(super) fn find(&self, name: &[u8]) -> Option<DynamicSymbol> {
        let hash = name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        // Buckets, first symbol, words of the filter, shift; then filter, buckets, chains.
        let mut header = [0; 16];
        self.memory.read(self.hashes, &mut header)?;
        let (buckets, first, filter) = (half(&header, 0)?, half(&header, 4)?, u64::from(half(&header, 8)?));
        if filter > 0 {
            let at = u64::from(hash / 64) % filter;
            let bits = self.memory.word(self.hashes.checked_add(16 + 8 * at)?)?;
            let second = hash.checked_shr(half(&header, 12)?)?;
            if bits >> (hash % 64) & bits >> (second % 64) & 1 == 0 {
                return None;
            }
        }
        let starts = self.hashes.checked_add(16 + 8 * filter)?;
        let chains = starts.checked_add(4 * u64::from(buckets))?;
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let start = self.memory.half(starts.checked_add(4 * bucket)?)?;
        for index in start.max(first)..start.max(first).saturating_add(MAX_CHAIN) {
            let entry = self.memory.half(chains.checked_add(4 * u64::from(index - first))?)?;
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
        self.memory.read(self.names.checked_add(self.memory.half(at)?.into())?, text)?;
        let is_named = text.strip_suffix(&[0]) == Some(name);
        let section = self.memory.half(at.checked_add(4)?)? >> 16;
        let value = self.memory.word(at.checked_add(8)?)?;
        (is_named && section != 0).then_some(())?;
        Some(DynamicSymbol { address: value.wrapping_add(self.bias), size: self.memory.word(at.checked_add(16)?)? })
    }
}

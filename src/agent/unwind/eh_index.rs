//! Builds the index of unwind tables that have none. Most compilers, but not all, make the linker
//! create `.eh_frame_hdr` (musl's wrapper of gcc does not). The index has the same format, so that
//! lookups need not distinguish the two.

use alloc::vec::Vec;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};

use crate::process::unwind::table_row::VENDOR;

/// A section of the tables, in the agent's own mappings, which outlive every snapshot that refers
/// to them.
pub(crate) type Section = &'static [u8];

/// Maximum number of functions in an index, which then takes 8 MiB.
const MAX_FUNCTIONS: usize = 1 << 20;
/// The head: version 1; the encodings of the pointer to the tables (4 bytes from where it is), of
/// the count, and of the index's addresses (4 bytes from the head's own address).
const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// Builds the index of the `.eh_frame` at an address of the file, which is used as the index's own
/// address too, of the functions at whose addresses `is_wanted`. Returns `None` if there is none, or
/// one is more than 2 GiB away. A function that the linker has dropped has no address.
pub(crate) fn of(address: u64, tables: Section, is_wanted: &dyn Fn(u64) -> bool) -> Option<Vec<u8>> {
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut frames = EhFrame::new(tables, LittleEndian);
    frames.set_vendor(VENDOR);
    frames.set_address_size(8);
    let near = |target: u64| i32::try_from(target.wrapping_sub(address) as i64).ok();
    let mut functions: Vec<(i32, i32)> = Vec::new();
    let mut entries = frames.entries(&bases);
    // What is broken further on does not take away what came before.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let first = function.initial_address();
        if function.len() > 0 && first > 0 && functions.len() < MAX_FUNCTIONS && is_wanted(first) {
            functions.push((near(first)?, i32::try_from(function.offset()).ok()?));
        }
    }
    if functions.is_empty() {
        return None;
    }
    functions.sort_unstable();
    let mut index = Vec::with_capacity(12 + 8 * functions.len());
    index.extend_from_slice(&HEAD);
    index.extend_from_slice(&(-4i32).to_le_bytes());
    index.extend_from_slice(&(functions.len() as u32).to_le_bytes());
    for (function, entry) in functions {
        index.extend_from_slice(&function.to_le_bytes());
        index.extend_from_slice(&entry.to_le_bytes());
    }
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::modules::Modules;
    use crate::agent::unwind::rules::{RuleLookup, UnwindTables, new_context};

    /// By an index of our own the same is found as by the linker's, in every module of this
    /// process.
    #[test]
    fn it_leads_to_what_the_linkers_leads_to() {
        let mut modules = Modules::new();
        assert!(modules.refresh().is_some_and(|update| update.has_new_code));
        let snapshot = modules.snapshot();
        let (mut context, mut found, mut indexed) = (new_context(), 0, 0);
        let mut random = 88_172_645_463_325_252u64;
        for module in 0..snapshot.module_count() {
            let Some((start, end, bias, lookup)) = snapshot.tables_of(module) else { continue };
            let (address, tables) = lookup.frames();
            let Some(index) = of(address, tables, &|_| true) else { continue };
            let ours = UnwindTables::new((address, index.leak()), (address, tables)).expect("an index is well formed");
            indexed += 1;
            let bases = BaseAddresses::default().set_eh_frame(address);
            for _ in 0..2_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = (start + random % (end - start)).wrapping_sub(bias);
                let expected = lookup.find(at, &mut context);
                let is_here =
                    || EhFrame::new(tables, LittleEndian).fde_for_address(&bases, at, EhFrame::cie_from_offset).is_ok();
                match ours.find(at, &mut context) {
                    RuleLookup::Missing if expected != RuleLookup::Missing => assert!(!is_here(), "{at:#x}"),
                    found => assert_eq!(found, expected, "{at:#x}"),
                }
                found += usize::from(expected != RuleLookup::Missing);
            }
        }
        assert!(indexed >= 3 && found > 2_000, "{indexed} modules, {found} addresses");
    }

    #[test]
    fn what_is_no_table_has_no_index() {
        assert!(of(0, b"", &|_| true).is_none());
        assert!(of(0, &[0; 16], &|_| true).is_none());
        assert!(of(0, &[0xff; 64], &|_| true).is_none());
    }
}

//! Debug information of functions that the linker left out. It stays in the file, and the addresses
//! in it are 0 or small offsets, where the file has no code. They are read as -1, which DWARF
//! reserves for such code, so that parsers skip what has them: a function of 8 KiB at address 0
//! would otherwise cover the first functions of a program.

use std::cell::RefCell;
use std::collections::BTreeMap;

use addr2line::gimli::{self, DW_AT_ranges, Dwarf, Reader, SectionId};

use super::elf::Elf;

/// The address that DWARF reserves for code that is not in the file.
const TOMBSTONE: u64 = u64::MAX;

/// The addresses where a file has code.
#[derive(Debug, Default)]
pub(super) struct CodeRanges {
    /// Start and end of each section with code.
    sections: Box<[(u64, u64)]>,
    /// The entries of units that have a list of ranges, by their start in `.debug_info`. Their
    /// address is the base of the list, often 0, and not the start of code.
    bases: RefCell<BTreeMap<u32, u32>>,
}

/// The way in which addresses in a section of debug information are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AddressUse {
    /// They are not changed: many are offsets.
    #[default]
    Any,
    /// They are starts or ends of code.
    Code,
    /// They are starts or ends of code, and bases of ranges.
    CodeOrBase,
}

impl AddressUse {
    /// The way in which addresses in the section `id` are read.
    pub(super) fn in_section(id: SectionId) -> AddressUse {
        match id {
            SectionId::DebugInfo => AddressUse::CodeOrBase,
            SectionId::DebugAddr | SectionId::DebugLine | SectionId::DebugRngLists => AddressUse::Code,
            _ => AddressUse::Any,
        }
    }
}

impl CodeRanges {
    /// The sections with code of a file.
    pub(super) fn of(elf: &Elf) -> CodeRanges {
        let code = elf.sections().iter().filter(|section| section.is_code());
        let mut sections: Box<[_]> = code.map(|section| (section.address(), section.end())).collect();
        sections.sort_unstable();
        CodeRanges { sections, bases: RefCell::default() }
    }

    /// Whether the file has code at an address or directly before it, where a function may end. In
    /// a file without sections all may be code.
    pub(super) fn contains(&self, address: u64) -> bool {
        let before = self.sections.partition_point(|section| section.0 <= address);
        self.sections.is_empty() || before.checked_sub(1).is_some_and(|index| address <= self.sections[index].1)
    }

    /// Returns the address at `position` of a section, or -1 if it can only be that of code that is
    /// not in the file.
    pub(super) fn filter(&self, address: u64, position: usize, usage: AddressUse) -> u64 {
        if usage == AddressUse::Any || self.contains(address) {
            return address;
        }
        let bases = self.bases.borrow();
        let entry = bases.range(..=position as u32).next_back();
        let is_base = entry.is_some_and(|(_, &end)| position < end as usize);
        if usage == AddressUse::CodeOrBase && is_base { address } else { TOMBSTONE }
    }

    /// Notes which of the units in `dwarf` have a list of ranges. `start` is the position of the
    /// first in `.debug_info`.
    pub(super) fn note_bases(&self, dwarf: &Dwarf<impl Reader<Offset = usize>>, start: u32) -> gimli::Result<()> {
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let Some(unit) = header.debug_info_offset() else { continue };
            // addr2line skips malformed units, too.
            let Ok(abbreviations) = dwarf.abbreviations(&header) else { continue };
            let mut entries = header.entries_raw(&abbreviations, None)?;
            let first = entries.next_offset();
            let Ok(Some(abbreviation)) = entries.read_abbreviation() else { continue };
            let has_ranges = abbreviation.attributes().iter().any(|attribute| attribute.name() == DW_AT_ranges);
            if has_ranges && entries.skip_attributes(abbreviation.attributes()).is_ok() {
                let position = |offset: gimli::UnitOffset| start + (unit.0 + offset.0) as u32;
                self.bases.borrow_mut().insert(position(first), position(entries.next_offset()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_where_no_code_is_become_the_reserved_one() {
        let code = CodeRanges { sections: [(0x1000, 0x2000), (0x3000, 0x3010)].into(), bases: RefCell::default() };
        code.bases.borrow_mut().insert(20, 40);
        for (address, in_info) in [(0x1000, 0x1000), (0x2000, 0x2000), (0x3010, 0x3010), (0x2001, TOMBSTONE)] {
            assert_eq!(code.filter(address, 0, AddressUse::CodeOrBase), in_info, "{address:#x}");
        }
        let bases = [19, 20, 39, 40].map(|position| code.filter(0, position, AddressUse::CodeOrBase));
        assert_eq!(bases, [TOMBSTONE, 0, 0, TOMBSTONE]);
        assert_eq!(code.filter(0, 30, AddressUse::Code), TOMBSTONE);
        assert_eq!(code.filter(0, 0, AddressUse::Any), 0, "an offset");
        assert!(CodeRanges::default().contains(0), "a file without sections");
    }
}

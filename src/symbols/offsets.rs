//! Converts file offsets of code to addresses in the file.

use std::path::Path;

use super::elf::Elf;
use super::error::hex;

/// The code of a file by offset.
pub struct Offsets(Vec<CodeRange>);

struct CodeRange {
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Offsets {
    /// Reads the sections of a file; `None` if it is not a supported ELF file.
    pub fn read(path: &Path) -> Option<Offsets> {
        let elf = Elf::open(path).ok()?;
        let code = elf.sections().iter().filter(|section| section.is_code());
        let parts = code.map(|section| CodeRange {
            offset: section.offset(),
            address: section.address(),
            bytes: section.end() - section.address(),
        });
        Some(Offsets(parts.collect()))
    }

    /// Returns the address of the byte at an offset, if it is code.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let is_inside = |part: &&CodeRange| offset.checked_sub(part.offset).is_some_and(|into| into < part.bytes);
        self.0.iter().find(is_inside).map(|part| part.address.wrapping_add(offset - part.offset))
    }
}

/// Reads the build id of a file in hexadecimal digits, empty if it has none; `None` if it is not a
/// supported ELF file.
pub fn read_build_id(path: &Path) -> Option<String> {
    Elf::open(path).ok().map(|elf| hex(&elf.build_id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offsets_of_code_have_addresses() {
        let offsets = Offsets(vec![CodeRange { offset: 0x1000, address: 0x2000, bytes: 0x10 }]);
        let addresses = [0xfff, 0x1000, 0x100f, 0x1010].map(|offset| offsets.address(offset));
        assert_eq!(addresses, [None, Some(0x2000), Some(0x200f), None]);
        let own = std::env::current_exe().unwrap();
        assert!(!Offsets::read(&own).unwrap().0.is_empty());
        assert!(Offsets::read(Path::new("/dev/null")).is_none());
    }
}

//! Where the bytes of a file lie among the file's own addresses: what a mapping of an unmoved file does not say.

use std::path::Path;

use super::elf::Elf;

/// The code of a file, by offset.
pub struct Offsets(Vec<Part>);

struct Part {
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Offsets {
    /// Reads them; `None` if it is no file of this kind.
    pub fn of(path: &Path) -> Option<Offsets> {
        let elf = Elf::open(path).ok()?;
        let code = elf.sections().iter().filter(|section| section.is_code());
        let parts = code.map(|section| Part {
            offset: section.offset(),
            address: section.address(),
            bytes: section.end() - section.address(),
        });
        Some(Offsets(parts.collect()))
    }

    /// The file's own address of the byte at an offset, if there is code.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let is_inside = |part: &&Part| offset.checked_sub(part.offset).is_some_and(|into| into < part.bytes);
        self.0.iter().find(is_inside).map(|part| part.address.wrapping_add(offset - part.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_an_address_in_code_alone() {
        let offsets = Offsets(vec![Part { offset: 0x1000, address: 0x2000, bytes: 0x10 }]);
        let addresses = [0xfff, 0x1000, 0x100f, 0x1010].map(|offset| offsets.address(offset));
        assert_eq!(addresses, [None, Some(0x2000), Some(0x200f), None]);
        let own = std::env::current_exe().unwrap();
        assert!(!Offsets::of(&own).unwrap().0.is_empty());
        assert!(Offsets::of(Path::new("/dev/null")).is_none());
    }
}

//! Start addresses of functions from the index in `.eh_frame_hdr`. It includes functions without a
//! symbol.

use super::elf::Elf;

/// Maximum size of an index: that of two million functions.
const MAX_BYTES: u64 = 16 << 20;
/// Size of the header, and of an entry, in bytes.
const HEAD: usize = 12;
const ENTRY: usize = 8;

/// Returns the start addresses in the index; none if there is no index in the encoding that linkers
/// use.
pub(super) fn function_starts(elf: &Elf) -> Vec<u64> {
    let Some(section) = elf.section(b".eh_frame_hdr") else { return Vec::new() };
    elf.bytes(section, MAX_BYTES).map(|bytes| parse(section.address(), &bytes)).unwrap_or_default()
}

fn parse(address: u64, bytes: &[u8]) -> Vec<u64> {
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    // Version 1; the number of entries has 4 bytes; entries are relative to the section, two signed
    // words of 4 bytes.
    match bytes {
        [1, 0x1b, 3, 0x3b, ..] if bytes.len() >= HEAD => {
            let count = number(&bytes[HEAD - 4..]) as u32 as usize;
            let entries = bytes[HEAD..].chunks_exact(ENTRY).take(count);
            entries.map(|entry| address.wrapping_add_signed(number(entry).into())).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_lists_start_addresses() {
        let words = |words: &[i32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let head = words(&[0x3b03_1b01, 0x40]);
        let index = [head.clone(), words(&[2, -0x1000, 0x20, -0xf00, 0x40, 9, 9])].concat();
        assert_eq!(parse(0x3000, &index), [0x2000, 0x2100]);
        assert_eq!(parse(0x3000, &index[..22]), [0x2000], "an index that ends early");
        assert!(parse(0x3000, &head).is_empty() && parse(0x3000, &[]).is_empty());
        assert!(parse(0x3000, &[&[2], &index[1..]].concat()).is_empty(), "another version");
    }
}

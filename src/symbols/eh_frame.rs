//! The functions of a file by its unwind tables (`.eh_frame`). Stripped files keep these: they say
//! where each function starts and ends, but not what it is called.

use std::collections::HashMap;

use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

use super::elf::Elf;

/// Maximum size of the tables; those of Chromium have 30 MiB.
const MAX_BYTES: u64 = 128 << 20;
/// Maximum number of functions.
const MAX_FUNCTIONS: usize = 2 << 20;

/// Returns the start and end of each function, sorted by start.
pub(super) fn functions(elf: &Elf) -> Vec<(u64, u64)> {
    let Some(section) = elf.section(b".eh_frame") else { return Vec::new() };
    let Ok(bytes) = elf.bytes(section, MAX_BYTES) else { return Vec::new() };
    let mut found = parse(section.address(), &bytes);
    let code: Vec<(u64, u64)> =
        elf.sections().iter().filter(|section| section.is_code()).map(|code| (code.address(), code.end())).collect();
    // The linker leaves entries of functions that it removed at address 0.
    found.retain(|&(start, end)| code.iter().any(|code| code.0 <= start && start < end && end <= code.1));
    found.sort_unstable();
    found
}

/// Reads entries up to the first malformed one.
fn parse(address: u64, bytes: &[u8]) -> Vec<(u64, u64)> {
    let tables = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut commons = HashMap::new();
    let mut found = Vec::new();
    let mut entries = tables.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry = partial.parse(|tables, bases, offset| {
            let known = commons.entry(offset.0).or_insert_with(|| tables.cie_from_offset(bases, offset));
            known.clone()
        });
        // Others may be in an encoding that needs more than the address of the section.
        if let Ok(entry) = entry {
            found.push((entry.initial_address(), entry.end_address()));
        }
        if found.len() == MAX_FUNCTIONS {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CIE with the encoding of linkers on x86-64, and an entry for each function.
    fn tables(functions: &[(i32, u32)]) -> Vec<u8> {
        let cie = [&[1][..], b"zR\0", &[1, 0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0]].concat();
        let mut bytes = [&(cie.len() as u32 + 4).to_le_bytes()[..], &[0; 4], &cie].concat();
        for &(start, size) in functions {
            let at = bytes.len() as i32;
            bytes.extend(16u32.to_le_bytes());
            bytes.extend((at + 4).to_le_bytes());
            bytes.extend((start - (at + 8)).to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn entries_say_where_functions_start_and_end() {
        let bytes = tables(&[(0x100, 0x20), (0x140, 0x10)]);
        assert_eq!(parse(0x1000, &bytes), [(0x1100, 0x1120), (0x1140, 0x1150)]);
        assert_eq!(parse(0x1000, &bytes[..bytes.len() - 1]), [(0x1100, 0x1120)], "tables that end early");
        assert!(parse(0x1000, &[]).is_empty());
    }

    #[test]
    fn mutations_do_no_harm() {
        let whole = tables(&[(0x100, 0x20), (0x140, 0x10)]);
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut bytes = whole.clone();
                bytes[at] = value;
                assert!(parse(0x1000, &bytes).len() <= 2);
            }
        }
    }
}

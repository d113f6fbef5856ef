//! Turns `.debug_frame` into the format of `.eh_frame`, so that one reader serves for both.
//! Assembly, and C that is compiled without unwind tables but with debug information, is described
//! there alone.
//!
//! The two formats differ in how an entry refers to its common entry, in the number that marks a
//! common entry, and in the header of a common entry of version 4. Addresses are absolute in both.
//! No entry changes its length.

/// The number that marks a common entry: in `.debug_frame`, and in `.eh_frame`.
const COMMON_ID: u32 = u32::MAX;
const LOADED_COMMON_ID: u32 = 0;
/// Size of the length and of the number behind it.
const HEAD: usize = 8;
/// Distance from the number to its own entry. An entry that is its own common entry is ignored.
const ITSELF: u32 = 4;

/// Converts the entries of a section, up to the first one that is broken or in the 64-bit format.
/// Returns the number of bytes that were converted.
pub(crate) fn convert(section: &mut [u8]) -> usize {
    let mut at = 0;
    while let Some((length, id)) = head(&section[at..]) {
        let end = at + 4 + length as usize;
        if (length as usize) < HEAD - 4 || end > section.len() {
            break;
        }
        let number = if id == COMMON_ID {
            if convert_common(&mut section[at + HEAD..end]).is_some() { LOADED_COMMON_ID } else { ITSELF }
        } else {
            // A common entry precedes all that refer to it.
            (at as u32 + 4).checked_sub(id).filter(|&back| back > ITSELF).unwrap_or(ITSELF)
        };
        section[at + 4..at + HEAD].copy_from_slice(&number.to_le_bytes());
        at = end;
    }
    at
}

fn head(bytes: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    Some((word(0)?, word(4)?))
}

/// Converts a common entry, from its version on. Returns `None` if it has extensions, or addresses
/// that are not of 8 bytes.
fn convert_common(entry: &mut [u8]) -> Option<()> {
    match entry {
        [1 | 3, 0, ..] => Some(()),
        // Version 4 adds the sizes of addresses and of segment selectors.
        [version @ 4, 0, 8, 0, ..] => {
            *version = 3;
            let end = entry.len();
            entry.copy_within(4.., 2);
            // These are instructions that do nothing.
            entry[end - 2..].fill(0);
            Some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::eh_index;
    use crate::agent::unwind::rules::{RuleLookup, UnwindTables, new_context};
    use crate::process::unwind::{CallerValue, PackedRule};

    /// A common entry and an entry for 32 bytes from an address on, of a function that pushes one
    /// word behind its first byte.
    fn section(version: u8, address: u64) -> Vec<u8> {
        let sizes: &[u8] = if version == 4 { &[8, 0] } else { &[] };
        let rest = [1, 0x78, 16, 0x0c, 7, 8, 0x90, 1];
        let common = [&[version, 0][..], sizes, &rest].concat();
        let mut bytes = Vec::new();
        let mut add = |id: u32, body: &[u8]| {
            bytes.extend_from_slice(&(body.len() as u32 + 4).to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(body);
        };
        add(u32::MAX, &common);
        add(0, &[&address.to_le_bytes()[..], &32u64.to_le_bytes(), &[0x41, 0x0e, 16]].concat());
        bytes
    }

    fn lookups(mut bytes: Vec<u8>, addresses: &[u64]) -> Option<Vec<RuleLookup>> {
        let length = convert(&mut bytes);
        bytes.truncate(length);
        let bytes = &*bytes.leak();
        let index = eh_index::of(0, bytes, &|_| true)?;
        let tables = UnwindTables::new((0, index.leak()), (0, bytes))?;
        Some(addresses.iter().map(|&address| tables.find(address, &mut new_context())).collect())
    }

    #[test]
    fn every_version_is_read_as_eh_frame_is() {
        let rule = |offset| {
            let (cfa, return_address) = (CallerValue::Register(7, offset), CallerValue::AtCfa(-8));
            RuleLookup::Rule(PackedRule { cfa, return_address, saved: [CallerValue::Same] })
        };
        for version in [1, 3, 4] {
            let found = lookups(section(version, 0x1000), &[0xfff, 0x1000, 0x1001, 0x101f, 0x1020]);
            let expected = [RuleLookup::Missing, rule(8), rule(16), rule(16), RuleLookup::Missing];
            assert_eq!(found.as_deref(), Some(&expected[..]), "version {version}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_read_hides_no_other() {
        // An unknown version, extensions, small addresses, and a reference to what follows.
        let patches: [(usize, u8); 4] = [(8, 2), (9, b'z'), (10, 4), (8 + 16 + 4, 0xf0)];
        for (at, byte) in patches {
            let mut first = section(4, 0x1000);
            first[at] = byte;
            let shift = first.len() as u32;
            let mut second = section(4, 0x2000);
            let reference = 4 + u32::from_le_bytes(second[..4].try_into().unwrap()) as usize + 4;
            second[reference..reference + 4].copy_from_slice(&shift.to_le_bytes());
            let found = lookups([first, second].concat(), &[0x1000, 0x2000]).expect("the second one is whole");
            assert_eq!(found[0], RuleLookup::Missing, "{at}");
            assert!(matches!(found[1], RuleLookup::Rule(_)), "{at}");
        }
        // A function that the linker has dropped.
        assert!(lookups(section(4, 0), &[]).is_none());
    }

    #[test]
    fn hostile_bytes_end_the_section() {
        let mut random = 88_172_645_463_325_252u64;
        for round in 0..20_000 {
            let mut bytes = [section(4, 0x1000), section(3, 0x2000)].concat();
            for _ in 0..round % 8 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = random as usize % bytes.len();
                bytes[at] = (random >> 32) as u8;
            }
            bytes.truncate(bytes.len() - round % 5);
            let length = bytes.len();
            assert!(convert(&mut bytes) <= length);
            lookups(bytes, &[0x1000, 0x2001]);
        }
    }
}

//! The unwind entries of an image with `.eh_frame_hdr`, the sorted table of functions that linkers
//! write. Every 64th function of the table is kept in memory. The rest of the table, and the
//! entries, are read when they are needed.

use std::collections::HashMap;

use super::mapped_file::MappedFile;

/// One function in this many is kept.
const STRIDE: usize = 64;
/// Size of the header's fixed part, and of one function, in bytes.
const HEAD: usize = 12;
const FUNCTION: usize = 8;
/// The version, and the encodings that linkers write: `.eh_frame` relative to the pointer itself,
/// the count, and a table relative to the header; all of 4 bytes.
const EXPECTED: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Maximum number of functions: a header of 128 MiB.
const MAX_FUNCTIONS: usize = 16 << 20;
/// Bytes of the table that are read together.
const CHUNK: usize = 1 << 16;
/// Bytes of an entry that are read together. Few entries are longer.
const ENTRY_READ: usize = 512;
/// Maximum length of an entry in bytes.
const MAX_ENTRY: usize = 1 << 20;
/// Maximum number of common entries that are kept.
const MAX_COMMON: usize = 256;

/// The table of one image.
pub(super) struct HeaderTable {
    /// Address (of the file) of the header.
    address: u64,
    count: usize,
    /// Every [`STRIDE`]th function: its address relative to the header.
    kept: Vec<i32>,
    /// Common entries that were read, by address.
    common: HashMap<u64, Box<[u8]>>,
}

/// One unwind entry with its common entry, as a section of its own.
pub(super) struct EntryBytes {
    /// The common entry and the entry.
    pub(super) bytes: Vec<u8>,
    /// Offset of the entry in them.
    pub(super) entry: usize,
    /// The address (of the file) at which this section has to lie for the entry's relative
    /// addresses to be right.
    pub(super) address: u64,
}

impl HeaderTable {
    /// Opens the header at an address of the file. Returns `None` if it has no table, or one in
    /// another encoding.
    pub(super) fn open(image: &MappedFile, address: u64, size: u64) -> Option<HeaderTable> {
        let mut head = [0; HEAD];
        if image.read(address, &mut head) != HEAD || head[..4] != EXPECTED {
            return None;
        }
        let count = word(&head, 8)? as usize;
        let table_size = usize::try_from(size).ok()?.checked_sub(HEAD)?;
        if count == 0 || count > MAX_FUNCTIONS || count * FUNCTION > table_size {
            return None;
        }
        let mut kept = Vec::with_capacity(count.div_ceil(STRIDE));
        let mut chunk = vec![0; CHUNK.min(count * FUNCTION)];
        for first in (0..count).step_by(CHUNK / FUNCTION) {
            let wanted = ((count - first) * FUNCTION).min(CHUNK);
            let read = image.read(address.wrapping_add((HEAD + first * FUNCTION) as u64), &mut chunk[..wanted]);
            if read != wanted {
                return None;
            }
            kept.extend(chunk[..wanted].chunks(STRIDE * FUNCTION).filter_map(|group| signed(group, 0)));
        }
        Some(HeaderTable { address, count, kept, common: HashMap::new() })
    }

    /// Returns the entry of the last function that begins at or before an address of the file.
    pub(super) fn entry(&mut self, image: &MappedFile, address: u64) -> Option<EntryBytes> {
        let target = i32::try_from(address.wrapping_sub(self.address) as i64).ok()?;
        let group = self.kept.partition_point(|&first| first <= target).checked_sub(1)? * STRIDE;
        let mut functions = [0; STRIDE * FUNCTION];
        let wanted = (self.count - group).min(STRIDE) * FUNCTION;
        let read = image.read(self.address.wrapping_add((HEAD + group * FUNCTION) as u64), &mut functions[..wanted]);
        let (functions, _) = functions[..read].as_chunks::<FUNCTION>();
        let next = functions.partition_point(|function| signed(function, 0).is_some_and(|first| first <= target));
        let entry = signed(functions.get(next.checked_sub(1)?)?, 4)?;
        self.read_entry(image, self.address.wrapping_add_signed(entry.into()))
    }

    fn read_entry(&mut self, image: &MappedFile, address: u64) -> Option<EntryBytes> {
        let entry = read_whole(image, address)?;
        // The distance from this field back to the common entry.
        let distance = word(&entry, 4)?;
        let common_at = address.wrapping_add(4).wrapping_sub(distance.into());
        if distance == 0 {
            return None;
        }
        if !self.common.contains_key(&common_at) {
            if self.common.len() == MAX_COMMON {
                self.common.clear();
            }
            self.common.insert(common_at, read_whole(image, common_at)?.into());
        }
        let mut bytes = self.common.get(&common_at)?.to_vec();
        let entry_at = bytes.len();
        bytes.extend_from_slice(&entry);
        bytes.get_mut(entry_at + 4..entry_at + 8)?.copy_from_slice(&(entry_at as u32 + 4).to_le_bytes());
        Some(EntryBytes { bytes, entry: entry_at, address: address.wrapping_sub(entry_at as u64) })
    }
}

/// Reads an entry, or a common entry, with its length.
fn read_whole(image: &MappedFile, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; ENTRY_READ];
    let read = image.read(address, &mut bytes);
    let length = word(&bytes[..read], 0)? as usize;
    // A length of zero ends the section. Lengths of 64 bits begin with one above the limit.
    let size = length.checked_add(4).filter(|&size| length >= 4 && size <= MAX_ENTRY)?;
    bytes.resize(size, 0);
    if size > read && image.read(address, &mut bytes) != size {
        return None;
    }
    Some(bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

fn signed(bytes: &[u8], at: usize) -> Option<i32> {
    word(bytes, at).map(u32::cast_signed)
}

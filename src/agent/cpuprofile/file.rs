//! The file of a profile in the format of [`wire::gperftools`](crate::wire::gperftools). It is
//! valid at any time, even if the process is killed.
//!
//! Records stay where they were written first. When a stack occurs again, only its count, one word,
//! is overwritten. New records replace the trailer: first the new trailer and the memory map are
//! written after the place of the records, then the records, from the last page to the first, and
//! last the first word of the first record. In between the file is always a valid profile: the old
//! one, whose trailer is still there, followed by a map with a damaged line; or the new one, whose
//! first record has a count of 0 for the duration of one call.

use alloc::vec::Vec;

use crate::agent::os::syscall::File;
use crate::arch::page_size;
use crate::wire::gperftools;

/// The file of a profile.
pub(crate) struct ProfileFile {
    file: File,
    /// Offset of the end of the records.
    end: u64,
    /// Buffer for the bytes to write.
    bytes: Vec<u8>,
}

fn append(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

impl ProfileFile {
    /// Wraps a file whose records end at `end`. If `end` is 0, writes an empty profile.
    pub(crate) fn new(file: File, end: u64, period_us: u64) -> Result<ProfileFile, i32> {
        let mut profile = ProfileFile { file, end, bytes: Vec::new() };
        if end == 0 {
            let header = gperftools::header(period_us);
            append(&mut profile.bytes, &header);
            append(&mut profile.bytes, &gperftools::TRAILER);
            profile.file.write_at(&profile.bytes, 0)?;
            profile.end = size_of_val(&header) as u64;
        }
        Ok(profile)
    }

    /// Offset of the end of the records.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Overwrites the count of the record at offset `at`.
    pub(crate) fn write_count(&self, at: u64, count: u64) -> Result<(), i32> {
        self.file.write_at(&count.to_ne_bytes(), at)
    }

    /// Appends records, each a count and addresses, and the memory map after them. If all are
    /// written, calls `located` with the offset of each; otherwise the profile is unchanged.
    pub(crate) fn append<'a>(
        &mut self,
        records: impl Iterator<Item = (u64, &'a [u64])> + Clone,
        map: &[u8],
        mut located: impl FnMut(u64),
    ) -> Result<(), i32> {
        self.bytes.clear();
        for (count, addresses) in records.clone() {
            append(&mut self.bytes, &[count, addresses.len() as u64]);
            append(&mut self.bytes, addresses);
        }
        let size = self.bytes.len();
        append(&mut self.bytes, &gperftools::TRAILER);
        self.bytes.extend_from_slice(map);
        let (fresh, tail) = self.bytes.split_at(size);
        let (start, end) = (self.end, self.end + size as u64);
        self.file.write_at(tail, end)?;
        self.file.cut(end + tail.len() as u64);
        let first = start + 8;
        let mut to = end;
        while to > first {
            let from = ((to - 1) & !(page_size() as u64 - 1)).max(first);
            self.file.write_at(&fresh[(from - start) as usize..(to - start) as usize], from)?;
            to = from;
        }
        if let Some(count) = fresh.get(..8) {
            self.file.write_at(count, start)?;
        }
        self.end = end;
        let mut at = start;
        for (_, addresses) in records {
            located(at);
            at += 8 * (2 + addresses.len() as u64);
        }
        // The buffer of a single large flush is not kept.
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight"))).collect()
    }

    #[test]
    fn records_stay_in_place_and_the_trailer_moves() {
        let path = std::env::temp_dir().join(format!("sigtop-profile-file-{}", std::process::id()));
        let name = [path.as_os_str().as_encoded_bytes(), b"\0"].concat();
        let file = File::create(&name, libc::O_TRUNC).expect("writable");
        let mut profile = ProfileFile::new(file, 0, 2_000).expect("written");
        let read = || std::fs::read(&path).expect("readable");
        assert_eq!(words(&read()), [0, 3, 0, 2_000, 0, 0, 1, 0]);

        let mut offsets = Vec::new();
        let first: [(u64, &[u64]); 2] = [(2, &[7, 8]), (1, &[9])];
        profile.append(first.iter().copied(), b"map\n", |at| offsets.push(at)).expect("written");
        assert_eq!(offsets, [40, 72]);
        let text = read();
        assert_eq!(words(&text), [0, 3, 0, 2_000, 0, 2, 2, 7, 8, 1, 1, 9, 0, 1, 0]);
        assert!(text.ends_with(b"map\n"));

        profile.write_count(40, 5).expect("written");
        // This record spans several pages.
        let deep: Vec<u64> = (1..2_000).collect();
        profile.append([(3, &deep[..])].into_iter(), b"m\n", |at| offsets.push(at)).expect("written");
        let now = words(&read());
        assert_eq!((now[5], now[12], now[13]), (5, 3, 1_999));
        assert_eq!(now[14..14 + 1_999], deep);
        assert_eq!(now[14 + 1_999..], [0, 1, 0]);
        assert!(read().ends_with(b"\0m\n"));
        std::fs::remove_file(&path).expect("ours");
    }
}

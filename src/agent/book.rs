//! The file of a profile: what [`link::legacy`](crate::link::legacy) tells, valid whenever the process is killed.
//!
//! Records are written once and stay where they are; a stack that is met again has its count written anew, one word. New records begin
//! where the end stands, and take its place: first the end and the map are written behind where they will be, then the records, from the
//! last page to the first, then the first record's first word. At each moment between, what lies where the records end is a profile: the
//! old one (its end stands, with a map behind that has a torn line), or the new one, whose first record counts 0 for the time of one call.

use alloc::vec::Vec;

use super::sys::File;
use crate::link::legacy;

const PAGE: u64 = 4096;

/// The file.
pub(super) struct Book {
    file: File,
    /// Where the records end.
    end: u64,
    /// What is being written.
    bytes: Vec<u8>,
}

fn append(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

impl Book {
    /// A file whose records end there; 0 for one without a head.
    pub(super) fn new(file: File, end: u64, period_us: u64) -> Result<Book, i32> {
        let mut book = Book { file, end, bytes: Vec::new() };
        if end == 0 {
            let head = legacy::head(period_us);
            append(&mut book.bytes, &head);
            append(&mut book.bytes, &legacy::END);
            book.file.write_at(&book.bytes, 0)?;
            book.end = size_of_val(&head) as u64;
        }
        Ok(book)
    }

    /// Where the records end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Writes a record's count anew; `at` is where it begins.
    pub(super) fn count(&self, at: u64, count: u64) -> Result<(), i32> {
        self.file.write_at(&count.to_ne_bytes(), at)
    }

    /// Writes new records, each a count and addresses, and what comes after them. `place` is told where each begins, if all are written;
    /// else the file is as it was.
    pub(super) fn append<'a>(
        &mut self,
        records: impl Iterator<Item = (u64, &'a [u64])> + Clone,
        map: &[u8],
        mut place: impl FnMut(u64),
    ) -> Result<(), i32> {
        self.bytes.clear();
        for (count, addresses) in records.clone() {
            append(&mut self.bytes, &[count, addresses.len() as u64]);
            append(&mut self.bytes, addresses);
        }
        let size = self.bytes.len();
        append(&mut self.bytes, &legacy::END);
        self.bytes.extend_from_slice(map);
        let (fresh, tail) = self.bytes.split_at(size);
        let (start, end) = (self.end, self.end + size as u64);
        self.file.write_at(tail, end)?;
        self.file.cut(end + tail.len() as u64);
        let first = start + 8;
        let mut to = end;
        while to > first {
            let from = ((to - 1) & !(PAGE - 1)).max(first);
            self.file.write_at(&fresh[(from - start) as usize..(to - start) as usize], from)?;
            to = from;
        }
        if let Some(count) = fresh.get(..8) {
            self.file.write_at(count, start)?;
        }
        self.end = end;
        let mut at = start;
        for (_, addresses) in records {
            place(at);
            at += 8 * (2 + addresses.len() as u64);
        }
        // A single large flush is not kept for the rest of the program's life.
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
    fn records_stay_and_the_end_moves() {
        let path = std::env::temp_dir().join(format!("sigtop-book-{}", std::process::id()));
        let name = [path.as_os_str().as_encoded_bytes(), b"\0"].concat();
        let file = File::create(&name, libc::O_TRUNC).expect("writable");
        let mut book = Book::new(file, 0, 2_000).expect("written");
        let read = || std::fs::read(&path).expect("readable");
        assert_eq!(words(&read()), [0, 3, 0, 2_000, 0, 0, 1, 0]);

        let mut places = Vec::new();
        let first: [(u64, &[u64]); 2] = [(2, &[7, 8]), (1, &[9])];
        book.append(first.iter().copied(), b"map\n", |at| places.push(at)).expect("written");
        assert_eq!(places, [40, 72]);
        let text = read();
        assert_eq!(words(&text), [0, 3, 0, 2_000, 0, 2, 2, 7, 8, 1, 1, 9, 0, 1, 0]);
        assert!(text.ends_with(b"map\n"));

        book.count(40, 5).expect("written");
        // Over several pages.
        let deep: Vec<u64> = (1..2_000).collect();
        book.append([(3, &deep[..])].into_iter(), b"m\n", |at| places.push(at)).expect("written");
        let now = words(&read());
        assert_eq!((now[5], now[12], now[13]), (5, 3, 1_999));
        assert_eq!(now[14..14 + 1_999], deep);
        assert_eq!(now[14 + 1_999..], [0, 1, 0]);
        assert!(read().ends_with(b"\0m\n"));
        std::fs::remove_file(&path).expect("ours");
    }
}

//! The bytes of a file that is read as it comes, inflated if it is gzipped, within bounds: hostile files have small bytes that
//! stand for large ones.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use super::error::ReadError;

/// Inflated bytes of one profile, at most.
const MAX_BYTES: u64 = 2 << 30;
/// What may come out of any file, however small.
const FREE_BYTES: u64 = 16 << 20;
/// Beyond that, inflated bytes for each byte of the file, at most; a real profile has about five.
const MAX_RATIO: u64 = 100;
/// Read at a time, at first and at most.
const CHUNKS: [usize; 2] = [4 << 10, 256 << 10];

/// Bytes that come from the file itself, counted.
struct Counted<R> {
    from: R,
    packed: std::rc::Rc<std::cell::Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.packed.set(self.packed.get() + count as u64);
        Ok(count)
    }
}

/// A window on the bytes of a profile, which moves on.
pub(super) struct Feed<'a> {
    from: Box<dyn Read + 'a>,
    /// Bytes of the file that were read, where they are fewer than what came out of them.
    packed: Option<std::rc::Rc<std::cell::Cell<u64>>>,
    buffer: Vec<u8>,
    start: usize,
    total: u64,
    ended: bool,
}

impl<'a> Feed<'a> {
    /// Begins to read, and inflates if there is something to inflate.
    pub(super) fn open(mut from: impl Read + 'a) -> Result<Feed<'a>, ReadError> {
        let mut magic = [0; 2];
        let mut known = 0;
        while known < magic.len() {
            match from.read(&mut magic[known..])? {
                0 => break,
                count => known += count,
            }
        }
        let all = io::Cursor::new(magic[..known].to_vec()).chain(from);
        let (from, packed): (Box<dyn Read + 'a>, _) = if magic == [0x1f, 0x8b] {
            let packed = std::rc::Rc::new(std::cell::Cell::new(0));
            let counted = Counted { from: all, packed: packed.clone() };
            (Box::new(MultiGzDecoder::new(io::BufReader::new(counted))), Some(packed))
        } else {
            (Box::new(all), None)
        };
        Ok(Feed { from, packed, buffer: Vec::new(), start: 0, total: 0, ended: false })
    }

    /// What is in the window.
    pub(super) fn seen(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Leaves `count` bytes behind.
    pub(super) fn pass(&mut self, count: usize) {
        self.start = (self.start + count).min(self.buffer.len());
    }

    /// Widens the window to `wanted` bytes, or to the end; memory grows with what comes, not with what is wanted.
    pub(super) fn want(&mut self, wanted: usize) -> Result<&[u8], ReadError> {
        while self.buffer.len() - self.start < wanted && !self.ended {
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let length = self.buffer.len();
            let chunk = (self.total as usize).clamp(CHUNKS[0], CHUNKS[1]);
            self.buffer.resize(length + chunk, 0);
            let count = self.from.read(&mut self.buffer[length..]);
            self.buffer.truncate(length + count.as_ref().map_or(0, |&count| count));
            let count = count?;
            self.ended = count == 0;
            self.total += count as u64;
            self.check()?;
        }
        Ok(self.seen())
    }

    fn check(&self) -> Result<(), ReadError> {
        if self.total > MAX_BYTES {
            return Err(ReadError::TooLarge { bytes: self.total });
        }
        if let Some(packed) = self.packed.as_ref().map(|packed| packed.get())
            && self.total > FREE_BYTES
            && self.total / MAX_RATIO > packed
        {
            return Err(ReadError::Bomb { packed, inflated: self.total });
        }
        Ok(())
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) fn line(&mut self) -> Result<Option<String>, ReadError> {
        let mut wanted = 1;
        let length = loop {
            self.want(wanted)?;
            let seen = self.seen();
            match seen.iter().skip(wanted - 1).position(|&byte| byte == b'\n') {
                Some(at) => break wanted - 1 + at,
                None if seen.is_empty() => return Ok(None),
                None if seen.len() < wanted => break seen.len(),
                None if seen.len() > MAX_LINE => return Err(ReadError::malformed("a line of more than 1 MB")),
                None => wanted = seen.len() + 1,
            }
        };
        let line = String::from_utf8_lossy(&self.seen()[..length]).into_owned();
        self.pass(length + 1);
        Ok(Some(line))
    }
}

/// Bytes in one line, at most.
const MAX_LINE: usize = 1 << 20;

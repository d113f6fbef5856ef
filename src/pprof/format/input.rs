//! A buffered reader for profiles that inflates gzip and limits memory: a hostile file of a few
//! bytes can inflate to gigabytes.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

use crate::pprof::error::ReadError;

/// Maximum size of a profile after inflating, in bytes.
const MAX_BYTES: u64 = 2 << 30;
/// Inflated bytes up to which any compression ratio is accepted.
const UNCHECKED_BYTES: u64 = 16 << 20;
/// Maximum compression ratio beyond [`UNCHECKED_BYTES`]. Real profiles have a ratio of about 5.
const MAX_RATIO: u64 = 100;
/// Size of the first read and maximum size of later reads, in bytes.
const CHUNK_BYTES: [usize; 2] = [4 << 10, 256 << 10];
/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 1 << 20;

/// Counts the bytes that are read from the compressed file.
struct CountingReader<R> {
    from: R,
    compressed: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.compressed.set(self.compressed.get() + count as u64);
        Ok(count)
    }
}

/// The inflated bytes of a profile, with a buffer that grows on demand.
pub(super) struct ProfileInput<'a> {
    from: Box<dyn Read + 'a>,
    /// Number of compressed bytes read so far; `None` if the file is not compressed.
    compressed: Option<Rc<Cell<u64>>>,
    buffer: Vec<u8>,
    start: usize,
    /// Number of inflated bytes read so far.
    total: u64,
    is_at_end: bool,
}

impl<'a> ProfileInput<'a> {
    /// Starts to read. Input with gzip's magic number is inflated.
    pub(super) fn open(mut from: impl Read + 'a) -> Result<ProfileInput<'a>, ReadError> {
        let mut magic = [0; 2];
        let mut length = 0;
        while length < magic.len() {
            match from.read(&mut magic[length..])? {
                0 => break,
                count => length += count,
            }
        }
        let all = io::Cursor::new(magic[..length].to_vec()).chain(from);
        let (from, compressed): (Box<dyn Read + 'a>, _) = if magic == [0x1f, 0x8b] {
            let compressed = Rc::new(Cell::new(0));
            let counting = CountingReader { from: all, compressed: compressed.clone() };
            (Box::new(MultiGzDecoder::new(io::BufReader::new(counting))), Some(compressed))
        } else {
            (Box::new(all), None)
        };
        Ok(ProfileInput { from, compressed, buffer: Vec::new(), start: 0, total: 0, is_at_end: false })
    }

    /// The bytes in the buffer.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Drops `count` bytes from the front of the buffer.
    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.buffer.len());
    }

    /// Reads until the buffer holds `length` bytes or the input ends, and returns the buffer.
    /// Memory grows with the bytes that arrive, not with `length`.
    pub(super) fn fill_to(&mut self, length: usize) -> Result<&[u8], ReadError> {
        while self.buffer.len() - self.start < length && !self.is_at_end {
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let end = self.buffer.len();
            let chunk = (self.total as usize).clamp(CHUNK_BYTES[0], CHUNK_BYTES[1]);
            self.buffer.resize(end + chunk, 0);
            let count = self.from.read(&mut self.buffer[end..]);
            self.buffer.truncate(end + count.as_ref().map_or(0, |&count| count));
            let count = count?;
            self.is_at_end = count == 0;
            self.total += count as u64;
            self.check_limits()?;
        }
        Ok(self.buffered())
    }

    fn check_limits(&self) -> Result<(), ReadError> {
        if self.total > MAX_BYTES {
            return Err(ReadError::TooLarge { bytes: self.total });
        }
        if let Some(compressed) = self.compressed.as_ref().map(|compressed| compressed.get())
            && self.total > UNCHECKED_BYTES
            && self.total / MAX_RATIO > compressed
        {
            return Err(ReadError::Bomb { compressed, inflated: self.total });
        }
        Ok(())
    }

    /// Reads the next line without its line break; `None` at the end of the input. Invalid UTF-8 is
    /// replaced by U+FFFD.
    pub(super) fn read_line(&mut self) -> Result<Option<String>, ReadError> {
        let mut length = 1;
        let end = loop {
            self.fill_to(length)?;
            let buffered = self.buffered();
            match buffered.iter().skip(length - 1).position(|&byte| byte == b'\n') {
                Some(at) => break length - 1 + at,
                None if buffered.is_empty() => return Ok(None),
                None if buffered.len() < length => break buffered.len(),
                None if buffered.len() > MAX_LINE => return Err(ReadError::malformed("a line of more than 1 MB")),
                None => length = buffered.len() + 1,
            }
        };
        let line = String::from_utf8_lossy(&self.buffered()[..end]).into_owned();
        self.consume(end + 1);
        Ok(Some(line))
    }
}

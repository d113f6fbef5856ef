//! Blocks of a recording: compressing and checksumming entries, and the way back. This module does
//! not look inside entries.

use std::io::{self, ErrorKind, Read};

use crc32fast::Hasher;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::error::RecordingError;
use super::format::{HEADER_BYTES, MAGIC, MAX_PLAIN, OLDEST_VERSION, VERSION};

/// Length of a block's header in bytes.
const BLOCK_HEADER_BYTES: usize = 12;
/// Maximum length of a block's compressed data in bytes. Incompressible data grows by about five
/// bytes in 16 KiB.
const MAX_COMPRESSED: usize = MAX_PLAIN + MAX_PLAIN / 64;
/// Number of bytes of a block to read before allocating room for more.
const READ_BYTES: usize = 1 << 16;

/// The header of a file.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header
}

fn checksum(lengths: &[u8], compressed: &[u8]) -> u32 {
    let mut sum = Hasher::new();
    sum.update(lengths);
    sum.update(compressed);
    sum.finalize()
}

/// Makes blocks of entries.
pub(super) struct BlockCompressor(Compress);

impl Default for BlockCompressor {
    fn default() -> BlockCompressor {
        BlockCompressor(Compress::new(Compression::default(), false))
    }
}

impl BlockCompressor {
    /// A compressor that stores blocks uncompressed, which costs next to no time.
    pub(super) fn uncompressed() -> BlockCompressor {
        BlockCompressor(Compress::new(Compression::none(), false))
    }

    /// Compresses entries of at most [`MAX_PLAIN`] bytes into a block.
    pub(super) fn compress(&mut self, plain: &[u8]) -> Vec<u8> {
        debug_assert!(plain.len() <= MAX_PLAIN);
        let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + plain.len() / 2 + 64);
        block.resize(BLOCK_HEADER_BYTES, 0);
        self.0.reset();
        loop {
            let consumed = self.0.total_in() as usize;
            // This cannot fail: all input is present, and the buffer grows until the output fits.
            match self.0.compress_vec(&plain[consumed..], &mut block, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                _ => block.reserve(plain.len() / 2 + 64),
            }
        }
        let compressed = (block.len() - BLOCK_HEADER_BYTES) as u32;
        block[..4].copy_from_slice(&compressed.to_le_bytes());
        block[4..8].copy_from_slice(&(plain.len() as u32).to_le_bytes());
        let sum = checksum(&block[..8], &block[BLOCK_HEADER_BYTES..]);
        block[8..12].copy_from_slice(&sum.to_le_bytes());
        block
    }
}

/// Compresses the blocks of a recording that was written
/// [uncompressed](super::Encoder::uncompressed). Returns the file header and the blocks.
///
/// # Errors
/// If `from` is not a complete recording.
pub fn compress_blocks(from: impl Read) -> Result<Vec<Vec<u8>>, RecordingError> {
    let mut blocks = BlockReader::open(from)?;
    let (mut compressor, mut compressed) = (BlockCompressor::default(), vec![header().to_vec()]);
    while let Some(block) = blocks.read()? {
        compressed.push(compressor.compress(&block.plain));
    }
    Ok(compressed)
}

/// A complete block.
pub struct Block {
    /// Offset of the block in the file, bytes.
    pub at_bytes: u64,
    /// The bytes of the block as in the file.
    pub raw: Vec<u8>,
    /// Its entries.
    pub plain: Vec<u8>,
}

/// Reads a file block by block.
pub struct BlockReader<R> {
    from: R,
    /// Length of the header and the complete blocks so far, bytes.
    whole_bytes: u64,
    decompressor: Decompress,
}

impl<R: Read> BlockReader<R> {
    /// Reads the file header.
    ///
    /// # Errors
    /// If it is not a recording of this version.
    pub fn open(mut from: R) -> Result<BlockReader<R>, RecordingError> {
        let mut header = [0; HEADER_BYTES];
        match from.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(RecordingError::NotARecording),
            other => other?,
        }
        if header[..8] != MAGIC {
            return Err(RecordingError::NotARecording);
        }
        let version = u16::from_le_bytes([header[8], header[9]]);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(RecordingError::Version(version));
        }
        Ok(BlockReader { from, whole_bytes: HEADER_BYTES as u64, decompressor: Decompress::new(false) })
    }

    /// Reads the next block; `None` if the file ends after a complete block.
    ///
    /// # Errors
    /// If the file ends inside a block, or the block is damaged or cannot be read.
    pub fn read(&mut self) -> Result<Option<Block>, RecordingError> {
        let at_bytes = self.whole_bytes;
        let mut raw = Vec::with_capacity(BLOCK_HEADER_BYTES);
        self.fill(BLOCK_HEADER_BYTES, &mut raw)?;
        if raw.is_empty() {
            return Ok(None);
        }
        let number = |raw: &[u8], at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if raw.len() < BLOCK_HEADER_BYTES {
            return Err(RecordingError::CutOff { whole_bytes: at_bytes });
        }
        let (compressed, plain) = (number(&raw, 0) as usize, number(&raw, 4) as usize);
        if compressed > MAX_COMPRESSED || plain > MAX_PLAIN {
            return Err(RecordingError::Damaged { at_bytes });
        }
        self.fill(compressed, &mut raw)?;
        if raw.len() < BLOCK_HEADER_BYTES + compressed {
            return Err(RecordingError::CutOff { whole_bytes: at_bytes });
        }
        if number(&raw, 8) != checksum(&raw[..8], &raw[BLOCK_HEADER_BYTES..]) {
            return Err(RecordingError::Damaged { at_bytes });
        }
        let plain = self.decompress(&raw[BLOCK_HEADER_BYTES..], plain).ok_or(RecordingError::Damaged { at_bytes })?;
        self.whole_bytes += raw.len() as u64;
        Ok(Some(Block { at_bytes, raw, plain }))
    }

    /// Length of the header and the complete blocks so far, bytes.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Appends `count` bytes, or as many as the file still has. Allocates for the bytes that
    /// arrive, not for the announced length.
    fn fill(&mut self, count: usize, raw: &mut Vec<u8>) -> io::Result<()> {
        let end = raw.len() + count;
        while raw.len() < end {
            let before = raw.len();
            raw.resize(end.min(before + READ_BYTES), 0);
            match self.from.read(&mut raw[before..]) {
                Ok(0) => {
                    raw.truncate(before);
                    return Ok(());
                }
                Ok(read) => raw.truncate(before + read),
                Err(error) if error.kind() == ErrorKind::Interrupted => raw.truncate(before),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Decompresses a block that announces `length` bytes; `None` if it holds anything else.
    fn decompress(&mut self, compressed: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut plain = Vec::with_capacity(length);
        self.decompressor.reset(false);
        let status = self.decompressor.decompress_vec(compressed, &mut plain, FlushDecompress::Finish).ok()?;
        let is_all = self.decompressor.total_in() as usize == compressed.len() && plain.len() == length;
        (status == Status::StreamEnd && is_all).then_some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<RecordingError>) {
        let mut plain = Vec::new();
        let mut blocks = match BlockReader::open(bytes) {
            Ok(blocks) => blocks,
            Err(error) => return (plain, Some(error)),
        };
        loop {
            match blocks.read() {
                Ok(Some(block)) => plain.push(block.plain),
                Ok(None) => return (plain, None),
                Err(error) => return (plain, Some(error)),
            }
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        let step = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(step).collect()
    }

    #[test]
    fn compressed_entries_are_decompressed_unchanged() {
        let all = [Vec::new(), vec![7; MAX_PLAIN], noise(MAX_PLAIN), noise(1), b"entries".repeat(1000)];
        let mut compressor = BlockCompressor::default();
        let bytes: Vec<u8> =
            header().into_iter().chain(all.iter().flat_map(|plain| compressor.compress(plain))).collect();
        let (read, fault) = read(&bytes);
        assert!(fault.is_none() && read == all);
    }

    #[test]
    fn uncompressed_blocks_can_be_compressed_later() {
        let all = [b"entries".repeat(1000), noise(MAX_PLAIN)];
        let mut uncompressed = BlockCompressor::uncompressed();
        let bytes: Vec<u8> =
            header().into_iter().chain(all.iter().flat_map(|plain| uncompressed.compress(plain))).collect();
        let compressed = compress_blocks(&bytes[..]).unwrap();
        assert!(compressed[1].len() < 300 && bytes.len() > MAX_PLAIN + 7000);
        let (read, fault) = read(&compressed.concat());
        assert!(fault.is_none() && read == all);
    }

    #[test]
    fn complete_blocks_of_a_truncated_file_are_read() {
        let mut compressor = BlockCompressor::default();
        let mut bytes = header().to_vec();
        let mut ends = vec![bytes.len()];
        for length in [10, 300, 5] {
            bytes.extend(compressor.compress(&noise(length)));
            ends.push(bytes.len());
        }
        for length in 0..bytes.len() {
            let (plain, fault) = read(&bytes[..length]);
            assert_eq!(plain.len(), ends[1..].iter().filter(|&&end| end <= length).count());
            match fault {
                None => assert!(ends.contains(&length)),
                Some(RecordingError::NotARecording) => assert!(length < HEADER_BYTES),
                Some(RecordingError::CutOff { whole_bytes }) => assert!(ends.contains(&(whole_bytes as usize))),
                Some(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn any_flipped_bit_is_detected() {
        let mut bytes = header().to_vec();
        bytes.extend(BlockCompressor::default().compress(&noise(100)));
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let (plain, fault) = read(&wrong);
            // The header has no checksum: some bits make another version that can be read.
            let version = u16::from_le_bytes([wrong[8], wrong[9]]);
            let is_readable = (64..80).contains(&bit) && (OLDEST_VERSION..=VERSION).contains(&version);
            let is_unused = (80..96).contains(&bit) || is_readable;
            assert_eq!((plain.is_empty(), fault.is_some()), (!is_unused, !is_unused), "bit {bit}");
        }
    }

    #[test]
    fn memory_follows_the_data_not_the_announced_length() {
        let mut bytes = header().to_vec();
        bytes.extend((MAX_COMPRESSED as u32).to_le_bytes());
        bytes.extend((MAX_PLAIN as u32).to_le_bytes());
        bytes.extend([0; 100]);
        assert!(matches!(read(&bytes), (plain, Some(RecordingError::CutOff { whole_bytes: 12 })) if plain.is_empty()));
    }
}

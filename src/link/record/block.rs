//! Blocks: entries packed and summed, and taken out again. It knows nothing of entries.

use std::io::{self, ErrorKind, Read};

use crc32fast::Hasher;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{MAGIC, MAX_PLAIN, RecordError, VERSION};

/// Bytes of a file's head.
pub const HEAD_BYTES: usize = 12;
/// Bytes of a block's head.
const BLOCK_HEAD: usize = 12;
/// Bytes of a packed block, at most: what cannot be packed grows by five bytes in 16 KiB or so.
const MAX_PACKED: usize = MAX_PLAIN + MAX_PLAIN / 64;
/// Bytes read of a block before more room is made for it.
const PIECE: usize = 1 << 16;

/// First bytes of a file.
pub fn head() -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..10].copy_from_slice(&VERSION.to_le_bytes());
    head
}

fn checksum(lengths: &[u8], packed: &[u8]) -> u32 {
    let mut sum = Hasher::new();
    sum.update(lengths);
    sum.update(packed);
    sum.finalize()
}

/// Makes blocks.
pub(super) struct Packer(Compress);

impl Default for Packer {
    fn default() -> Packer {
        Packer(Compress::new(Compression::default(), false))
    }
}

impl Packer {
    /// Makes blocks that are as large as what is in them, at no cost.
    pub(super) fn loose() -> Packer {
        Packer(Compress::new(Compression::none(), false))
    }

    /// A block of these entries, at most [`MAX_PLAIN`] bytes of them.
    pub(super) fn pack(&mut self, plain: &[u8]) -> Vec<u8> {
        debug_assert!(plain.len() <= MAX_PLAIN);
        let mut block = Vec::with_capacity(BLOCK_HEAD + plain.len() / 2 + 64);
        block.resize(BLOCK_HEAD, 0);
        self.0.reset();
        loop {
            let taken = self.0.total_in() as usize;
            // It cannot fail: the input is there, and room is made until it is done.
            match self.0.compress_vec(&plain[taken..], &mut block, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                _ => block.reserve(plain.len() / 2 + 64),
            }
        }
        let packed = (block.len() - BLOCK_HEAD) as u32;
        block[..4].copy_from_slice(&packed.to_le_bytes());
        block[4..8].copy_from_slice(&(plain.len() as u32).to_le_bytes());
        let sum = checksum(&block[..8], &block[BLOCK_HEAD..]);
        block[8..12].copy_from_slice(&sum.to_le_bytes());
        block
    }
}

/// The same recording with its blocks packed: what is kept in case somebody wants it is not. The head comes first.
///
/// # Errors
/// If it is no whole recording.
pub fn pack_again(from: impl Read) -> Result<Vec<Vec<u8>>, RecordError> {
    let (mut blocks, mut packer, mut packed) = (Blocks::open(from)?, Packer::default(), vec![head().to_vec()]);
    while let Some(block) = blocks.read()? {
        packed.push(packer.pack(&block.plain));
    }
    Ok(packed)
}

/// A whole block.
pub struct Block {
    /// Where it begins, bytes from the start.
    pub at_bytes: u64,
    /// As it lies in the file.
    pub raw: Vec<u8>,
    /// Its entries.
    pub plain: Vec<u8>,
}

/// Reads a file block by block.
pub struct Blocks<R> {
    from: R,
    /// Bytes of what was whole.
    whole_bytes: u64,
    unpacker: Decompress,
}

impl<R: Read> Blocks<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// If it is no recording that this sigtop reads.
    pub fn open(mut from: R) -> Result<Blocks<R>, RecordError> {
        let mut head = [0; HEAD_BYTES];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(RecordError::NotARecording),
            other => other?,
        }
        if head[..8] != MAGIC {
            return Err(RecordError::NotARecording);
        }
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        Ok(Blocks { from, whole_bytes: HEAD_BYTES as u64, unpacker: Decompress::new(false) })
    }

    /// The next block; `None` where the file ends between two.
    ///
    /// # Errors
    /// If the file ends inside of one, or it is damaged, or cannot be read.
    pub fn read(&mut self) -> Result<Option<Block>, RecordError> {
        let at_bytes = self.whole_bytes;
        let mut raw = Vec::with_capacity(BLOCK_HEAD);
        self.fill(BLOCK_HEAD, &mut raw)?;
        if raw.is_empty() {
            return Ok(None);
        }
        let number = |raw: &[u8], at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if raw.len() < BLOCK_HEAD {
            return Err(RecordError::CutOff { whole_bytes: at_bytes });
        }
        let (packed, plain) = (number(&raw, 0) as usize, number(&raw, 4) as usize);
        if packed > MAX_PACKED || plain > MAX_PLAIN {
            return Err(RecordError::Damaged { at_bytes });
        }
        self.fill(packed, &mut raw)?;
        if raw.len() < BLOCK_HEAD + packed {
            return Err(RecordError::CutOff { whole_bytes: at_bytes });
        }
        if number(&raw, 8) != checksum(&raw[..8], &raw[BLOCK_HEAD..]) {
            return Err(RecordError::Damaged { at_bytes });
        }
        let plain = self.unpack(&raw[BLOCK_HEAD..], plain).ok_or(RecordError::Damaged { at_bytes })?;
        self.whole_bytes += raw.len() as u64;
        Ok(Some(Block { at_bytes, raw, plain }))
    }

    /// Bytes of what was whole so far.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Appends so many bytes, or what there is: room is made for what comes, not for what was announced.
    fn fill(&mut self, count: usize, raw: &mut Vec<u8>) -> io::Result<()> {
        let end = raw.len() + count;
        while raw.len() < end {
            let before = raw.len();
            raw.resize(end.min(before + PIECE), 0);
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

    fn unpack(&mut self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut plain = Vec::with_capacity(length);
        self.unpacker.reset(false);
        let status = self.unpacker.decompress_vec(packed, &mut plain, FlushDecompress::Finish).ok()?;
        let is_all = self.unpacker.total_in() as usize == packed.len() && plain.len() == length;
        (status == Status::StreamEnd && is_all).then_some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<RecordError>) {
        let mut plain = Vec::new();
        let mut blocks = match Blocks::open(bytes) {
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
    fn what_was_packed_comes_out() {
        let all = [Vec::new(), vec![7; MAX_PLAIN], noise(MAX_PLAIN), noise(1), b"entries".repeat(1000)];
        let mut packer = Packer::default();
        let bytes: Vec<u8> = head().into_iter().chain(all.iter().flat_map(|plain| packer.pack(plain))).collect();
        let (read, fault) = read(&bytes);
        assert!(fault.is_none() && read == all);
    }

    #[test]
    fn loose_blocks_are_packed_later() {
        let all = [b"entries".repeat(1000), noise(MAX_PLAIN)];
        let mut loose = Packer::loose();
        let bytes: Vec<u8> = head().into_iter().chain(all.iter().flat_map(|plain| loose.pack(plain))).collect();
        let packed = pack_again(&bytes[..]).unwrap();
        assert!(packed[1].len() < 300 && bytes.len() > MAX_PLAIN + 7000);
        let (read, fault) = read(&packed.concat());
        assert!(fault.is_none() && read == all);
    }

    #[test]
    fn wherever_a_file_is_cut_its_whole_blocks_are_read() {
        let mut packer = Packer::default();
        let mut bytes = head().to_vec();
        let mut ends = vec![bytes.len()];
        for length in [10, 300, 5] {
            bytes.extend(packer.pack(&noise(length)));
            ends.push(bytes.len());
        }
        for length in 0..bytes.len() {
            let (plain, fault) = read(&bytes[..length]);
            assert_eq!(plain.len(), ends[1..].iter().filter(|&&end| end <= length).count());
            match fault {
                None => assert!(ends.contains(&length)),
                Some(RecordError::NotARecording) => assert!(length < HEAD_BYTES),
                Some(RecordError::CutOff { whole_bytes }) => assert!(ends.contains(&(whole_bytes as usize))),
                Some(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn a_wrong_bit_is_noticed() {
        let mut bytes = head().to_vec();
        bytes.extend(Packer::default().pack(&noise(100)));
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let (plain, fault) = read(&wrong);
            let is_unused = (80..96).contains(&bit);
            assert_eq!((plain.is_empty(), fault.is_some()), (!is_unused, !is_unused), "bit {bit}");
        }
    }

    #[test]
    fn a_block_that_announces_much_takes_what_it_has() {
        let mut bytes = head().to_vec();
        bytes.extend((MAX_PACKED as u32).to_le_bytes());
        bytes.extend((MAX_PLAIN as u32).to_le_bytes());
        bytes.extend([0; 100]);
        assert!(matches!(read(&bytes), (plain, Some(RecordError::CutOff { whole_bytes: 12 })) if plain.is_empty()));
    }
}

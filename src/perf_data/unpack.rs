//! Unpacks the records that `perf record -z` compresses: one zstd stream, cut into records anywhere.
//!
//! A decoder keeps a window of the last bytes back until its stream ends, and perf never ends it.
//! So records come out later than those that are not compressed, and the end is added here.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Maximum number of bytes that one compressed byte may stand for, beyond [`UNCHECKED_BYTES`].
/// Samples of one deep stack are compressed to less than a hundredth.
const MAX_RATIO: u64 = 4000;
const UNCHECKED_BYTES: u64 = 64 << 20;
/// An empty block that is the last of its stream.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];
/// A block is at least its header.
const BLOCK_HEADER: usize = 3;
/// The kind of a block that is one byte, repeated.
const REPEATED: u32 = 1;

/// A stream that is being unpacked.
#[derive(Default)]
pub(super) struct Unpacker {
    decoder: Option<FrameDecoder>,
    /// Compressed bytes of a block that is not complete.
    packed: Vec<u8>,
    /// Numbers of compressed and of unpacked bytes.
    read: u64,
    written: u64,
}

impl Unpacker {
    /// Adds compressed bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        self.packed.extend_from_slice(bytes);
    }

    /// Unpacks the next block, if it is complete, and appends what the decoder gives out. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// If the stream is malformed, or stands for too much: a predicate.
    pub(super) fn unpack_block(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let malformed = |error| format!("has compressed records that cannot be unpacked: {error}");
        let mut rest = &self.packed[..];
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None if rest.is_empty() => return Ok(false),
            none => {
                let decoder = none.insert(FrameDecoder::new());
                decoder.init(&mut rest).map_err(malformed)?;
                decoder
            }
        };
        let Some(&[a, b, c]) = rest.first_chunk::<BLOCK_HEADER>() else { return Ok(self.keep(rest.len())) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = if header >> 1 & 3 == REPEATED { 1 } else { (header >> 3) as usize };
        if rest.len() < BLOCK_HEADER + size {
            return Ok(self.keep(rest.len()));
        }
        let is_last = decoder.decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1)).map_err(malformed)?;
        let unpacked = decoder.collect().unwrap_or_default();
        self.written += unpacked.len() as u64;
        out.extend_from_slice(&unpacked);
        if is_last {
            self.decoder = None;
        }
        let left = rest.len();
        self.keep(left);
        if self.written > UNCHECKED_BYTES && self.written / MAX_RATIO > self.read {
            return Err(format!("has compressed records that stand for more than {MAX_RATIO} times their size"));
        }
        Ok(true)
    }

    /// Drops the compressed bytes except for the last ones.
    fn keep(&mut self, last: usize) -> bool {
        self.packed.drain(..self.packed.len() - last);
        false
    }

    /// Ends the stream, so that the last records are given out.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        if self.decoder.is_some() && self.packed.is_empty() {
            self.push(&LAST_BLOCK);
            self.unpack_block(out)?;
        }
        Ok(())
    }
}

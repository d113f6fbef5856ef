//! A copy of the parts of a thread's stack that a walk reads: one piece from the stack pointer
//! upwards, those behind large frames, and one of the stack that a signal handler on an alternate
//! stack has interrupted.

/// Maximum number of pieces of a copy.
const MAX_PIECES: usize = 4;

/// Contiguous memory of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StackPiece {
    start: u64,
    bytes: Vec<u8>,
    /// Number of bytes that are copied. The rest is left from earlier copies.
    length: usize,
}

impl StackPiece {
    fn copied(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The copied memory. Its buffers are used again for the next copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackCopy {
    pieces: Vec<StackPiece>,
    used: usize,
}

impl StackCopy {
    /// Removes all pieces.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Adds a piece that starts at `start`. `fill` copies up to `length` bytes and returns how many
    /// there are. Returns whether there was anything to copy and room for a piece.
    pub(crate) fn add(&mut self, start: u64, length: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if self.used == self.pieces.len() && self.used < MAX_PIECES {
            self.pieces.push(StackPiece::default());
        }
        let Some(piece) = self.pieces.get_mut(self.used) else { return false };
        if piece.bytes.len() < length {
            piece.bytes.resize(length, 0);
        }
        piece.length = fill(&mut piece.bytes[..length]).min(length);
        piece.start = start;
        let is_copied = piece.length > 0;
        self.used += usize::from(is_copied);
        is_copied
    }

    /// Returns the word at an address, if it was copied.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    /// Returns this many bytes from an address on, if they were copied into one piece.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        self.pieces[..self.used].iter().find_map(|piece| {
            let offset = usize::try_from(address.checked_sub(piece.start)?).ok()?;
            piece.copied().get(offset..offset.checked_add(length)?)
        })
    }

    /// Returns all words that were copied.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        // Stack pointers are aligned, and so are the pieces.
        let used = self.pieces[..self.used].iter();
        used.flat_map(|piece| piece.copied().as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word))
    }

    /// Returns the start and the end of the first piece.
    pub(crate) fn first_piece(&self) -> Option<(u64, u64)> {
        let piece = self.pieces[..self.used].first()?;
        Some((piece.start, piece.start.saturating_add(piece.length as u64)))
    }

    /// Returns the number of bytes that are copied.
    pub(crate) fn len(&self) -> usize {
        self.pieces[..self.used].iter().map(|piece| piece.length).sum()
    }

    /// Copies everything to another copy, in place of what that has.
    pub(crate) fn copy_to(&self, other: &mut StackCopy) {
        other.clear();
        for piece in &self.pieces[..self.used] {
            other.add(piece.start, piece.length, |bytes| {
                bytes.copy_from_slice(piece.copied());
                piece.length
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_both_pieces_are_read_and_nothing_beyond() {
        let mut copy = StackCopy::default();
        let fill = |first: u8| {
            move |bytes: &mut [u8]| {
                bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = first + index as u8);
                bytes.len()
            }
        };
        assert!(copy.add(0x1000, 16, fill(0)) && copy.add(u64::MAX - 15, 16, fill(16)));
        assert!(copy.add(0x3000, 8, fill(32)) && copy.add(0x4000, 8, fill(40)));
        assert!(!copy.add(0x9000, 8, fill(0)), "there is no room for a fifth piece");
        assert_eq!(copy.word(0x1008), Some(u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15])));
        assert_eq!((copy.word(0x1009), copy.word(0xfff), copy.word(u64::MAX)), (None, None, None));
        assert_eq!(copy.bytes(u64::MAX - 15, 1), Some(&[16][..]));
        assert_eq!(copy.first_piece(), Some((0x1000, 0x1010)));
        let mut other = StackCopy::default();
        assert!(other.add(0x7000, 24, fill(48)));
        copy.copy_to(&mut other);
        assert!(other.words().eq(copy.words()) && other.word(0x1008) == copy.word(0x1008));
        assert_eq!((other.word(0x1010), other.word(0x7000), other.len()), (None, None, copy.len()));
        copy.clear();
        assert!(!copy.add(0x1000, 8, |_| 0), "nothing could be copied");
        assert_eq!((copy.word(0x1000), copy.first_piece()), (None, None));
    }
}

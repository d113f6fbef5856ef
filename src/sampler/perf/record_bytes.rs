//! Bytes of a ring: one run of them, or two where a record goes on at the start of the ring.

/// The bytes of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordBytes<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> RecordBytes<'a> {
    pub(super) fn new(first: &'a [u8], second: &'a [u8]) -> RecordBytes<'a> {
        RecordBytes { first, second }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Copies the bytes from an offset on to a buffer, as far as there are any. Returns how many.
    pub(super) fn copy(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let from_first = self.first.get(offset..).unwrap_or_default();
        let from_second = self.second.get(offset.saturating_sub(self.first.len())..).unwrap_or_default();
        let in_first = from_first.len().min(buffer.len());
        buffer[..in_first].copy_from_slice(&from_first[..in_first]);
        let in_second = from_second.len().min(buffer.len() - in_first);
        buffer[in_first..][..in_second].copy_from_slice(&from_second[..in_second]);
        in_first + in_second
    }

    pub(super) fn word(&self, offset: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.copy(offset, &mut bytes) == 8).then(|| u64::from_ne_bytes(bytes))
    }

    pub(super) fn half_word(&self, offset: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        (self.copy(offset, &mut bytes) == 4).then(|| u32::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_across_the_end_of_the_ring() {
        let all: Vec<u8> = (0..24).collect();
        let word = |offset: usize| u64::from_ne_bytes(all[offset..offset + 8].try_into().unwrap());
        for split in 0..=24 {
            let bytes = RecordBytes::new(&all[..split], &all[split..]);
            assert_eq!(bytes.len(), 24);
            for offset in 0..=16 {
                assert_eq!(bytes.word(offset), Some(word(offset)), "{offset} of {split}");
            }
            assert_eq!((bytes.word(17), bytes.half_word(21), bytes.word(usize::MAX)), (None, None, None));
            let mut rest = [0; 9];
            assert_eq!((bytes.copy(20, &mut rest), &rest[..4]), (4, &all[20..]));
        }
    }
}

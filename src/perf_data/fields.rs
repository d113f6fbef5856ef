//! Reads numbers and texts of a file in either byte order.

/// The order of the bytes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The bytes that are not read yet. Every read is `None` if there are too few.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteFields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> ByteFields<'a> {
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> ByteFields<'a> {
        ByteFields { bytes, order }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Takes the next `length` bytes.
    pub(super) fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(length).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let bytes = self.array()?;
        Some(if self.order == ByteOrder::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.array()?;
        Some(if self.order == ByteOrder::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.array()?;
        Some(if self.order == ByteOrder::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// Takes a number of bit fields. Compilers for big-endian machines begin with the highest bit
    /// of each byte.
    pub(super) fn bit_fields(&mut self) -> Option<u64> {
        let bytes: [u8; 8] = self.array()?;
        let is_big = self.order == ByteOrder::Big;
        Some(u64::from_le_bytes(bytes.map(|byte| if is_big { byte.reverse_bits() } else { byte })))
    }

    /// Takes `count` numbers of 64 bits.
    pub(super) fn words(&mut self, count: u64) -> Option<FileWords<'a>> {
        let bytes = self.bytes(count.checked_mul(8)?)?;
        Some(FileWords { bytes, order: self.order })
    }

    /// Takes a text with its length in front, padded with zeros.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(length.into()).map(until_zero)
    }
}

/// Numbers of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileWords<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> FileWords<'a> {
    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + 'a {
        let is_big = self.order == ByteOrder::Big;
        let word = move |bytes: &[u8; 8]| if is_big { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) };
        self.bytes.as_chunks::<8>().0.iter().map(word)
    }
}

/// Returns the bytes before the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_both_orders() {
        let bytes = [1, 0, 2, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 3];
        let mut little = ByteFields::new(&bytes, ByteOrder::Little);
        assert_eq!((little.u16(), little.u32(), little.bit_fields()), (Some(1), Some(2), Some(0x80)));
        assert_eq!((little.u16(), little.rest()), (None, &[3][..]));
        let mut big = ByteFields::new(&bytes, ByteOrder::Big);
        assert_eq!((big.u16(), big.u32(), big.bit_fields()), (Some(0x100), Some(0x0200_0000), Some(1)));
        assert!(big.words(u64::MAX).is_none() && big.text().is_none());
    }
}

//! LEB128 varints, the one integer encoding of the wire, of recordings, of pprof's protocol
//! buffers and of packed sample lists: groups of seven bits, lowest first, with the high bit set in
//! every byte but the last. `no_std`, because the agent encodes with it too.

use alloc::vec::Vec;

/// Maximum length of a varint in bytes.
pub const MAX_BYTES: usize = 10;

/// Bytes that do not start with a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarintError {
    /// The bytes end before the varint does.
    Truncated,
    /// The value does not fit 64 bits.
    Overflow,
}

/// Encodes a value, one byte a call of `put`.
#[inline]
pub fn encode(mut value: u64, mut put: impl FnMut(u8)) {
    while value > 0x7f {
        put(value as u8 | 0x80);
        value >>= 7;
    }
    put(value as u8);
}

/// Appends a value to `out`.
#[inline]
pub fn push(out: &mut Vec<u8>, value: u64) {
    encode(value, |byte| out.push(byte));
}

/// Removes a varint from the front of `bytes` and returns its value. `bytes` is unchanged after an
/// error.
#[inline]
pub fn decode(bytes: &mut &[u8]) -> Result<u64, VarintError> {
    let (&first, mut rest) = bytes.split_first().ok_or(VarintError::Truncated)?;
    let mut value = u64::from(first & 0x7f);
    let (mut byte, mut shift) = (first, 0);
    while byte & 0x80 != 0 {
        (byte, rest) = rest.split_first().map(|(&byte, rest)| (byte, rest)).ok_or(VarintError::Truncated)?;
        shift += 7;
        // The tenth byte holds the last bit.
        if shift > 63 || shift == 63 && byte > 1 {
            return Err(VarintError::Overflow);
        }
        value |= u64::from(byte & 0x7f) << shift;
    }
    *bytes = rest;
    Ok(value)
}

/// Maps a wrapping difference of either sign to a number that is small where the difference is
/// small: 0, -1, 1, -2, … become 0, 1, 2, 3, …
#[inline]
pub fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ (difference as i64 >> 63) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_any_length_are_decoded_as_encoded() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 35, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            push(&mut bytes, value);
            assert!(bytes.len() <= MAX_BYTES);
            let mut rest = bytes.as_slice();
            assert_eq!((decode(&mut rest), rest.len()), (Ok(value), 0));
            for length in 0..bytes.len() {
                assert_eq!(decode(&mut &bytes[..length]), Err(VarintError::Truncated));
            }
        }
    }

    #[test]
    fn values_of_more_than_64_bits_are_refused() {
        assert_eq!(decode(&mut [0xff; 11].as_slice()), Err(VarintError::Overflow));
        let mut two_to_the_64 = [0x80; MAX_BYTES];
        two_to_the_64[9] = 2;
        assert_eq!(decode(&mut two_to_the_64.as_slice()), Err(VarintError::Overflow));
    }

    #[test]
    fn zigzag_is_small_for_small_differences_and_inverted_by_unzigzag() {
        assert_eq!([0, -1i64, 1, -2].map(|difference| zigzag(difference as u64)), [0, 1, 2, 3]);
        for difference in [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1] {
            assert_eq!(unzigzag(zigzag(difference)), difference);
        }
    }
}

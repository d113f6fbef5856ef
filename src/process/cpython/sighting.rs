//! The frames of an interpreter as they are seen while a thread stands still: the address of a code
//! object, and a hash that tells later whether the address still holds the same object.

use crate::arch::ADDRESS_BITS;

/// The bits that tell the words of a sighting from native frames and from each other.
const INTERPRETED: u64 = 1 << 63;
const IDENTITY: u64 = 1 << 62;
const OFFSET_BITS: u32 = crate::wire::interpreter::OFFSET_BITS;
const UNKNOWN_OFFSET: u32 = crate::wire::interpreter::UNKNOWN_OFFSET;
/// Number of low bits of a code object's address that are 0.
const ALIGNMENT_BITS: u32 = 3;

/// The highest address of a code object plus one.
pub(super) const MAX_ADDRESS: u64 = 1 << ADDRESS_BITS;
/// The bit of an address that the first word has no room for. The second has it, above the hash.
const HIGHEST: u64 = 1 << 47;
const HASH_BITS: u32 = 61;
const HASH: u64 = (1 << HASH_BITS) - 1;

/// A frame of an interpreter. It is written as two words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sighting {
    /// Address of the code object, a multiple of 8 below [`MAX_ADDRESS`].
    pub(super) code: u64,
    /// Offset of the instruction in code units, or [`UNKNOWN_OFFSET`].
    pub(super) offset: u32,
    /// Hash of the code object's contents, 61 bits.
    pub(super) identity: u64,
}

impl Sighting {
    /// Packs the sighting into two words of a stack.
    pub(super) fn pack(self) -> [u64; 2] {
        let offset = u64::from(self.offset.min(UNKNOWN_OFFSET));
        let is_high = u64::from(MAX_ADDRESS > HIGHEST && self.code & HIGHEST != 0);
        [
            INTERPRETED | (self.code & (HIGHEST - 1)) >> ALIGNMENT_BITS << OFFSET_BITS | offset,
            INTERPRETED | IDENTITY | is_high << HASH_BITS | (self.identity & HASH),
        ]
    }

    /// The inverse of [`pack`](Self::pack), from the start of a stack. `None` if that is a native
    /// frame.
    pub(super) fn unpack(words: &[u64]) -> Option<Sighting> {
        let &[frame, identity, ..] = words else { return None };
        let kinds = (frame & (INTERPRETED | IDENTITY), identity & (INTERPRETED | IDENTITY));
        let high = if MAX_ADDRESS > HIGHEST { (identity >> HASH_BITS & 1) * HIGHEST } else { 0 };
        (kinds == (INTERPRETED, INTERPRETED | IDENTITY)).then_some(Sighting {
            code: ((frame & (IDENTITY - 1)) >> OFFSET_BITS << ALIGNMENT_BITS) + high,
            offset: frame as u32 & UNKNOWN_OFFSET,
            identity: identity & HASH,
        })
    }
}

/// Returns a hash of some words, 61 bits.
pub(super) fn identity_of(words: &[u64]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = words.iter().fold(0u64, |hash, &word| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29));
    (hash ^ hash >> 32) & HASH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sighting_comes_back_from_its_words() {
        let sighting = Sighting { code: MAX_ADDRESS - 8, offset: 77, identity: HASH };
        assert_eq!(Sighting::unpack(&sighting.pack()), Some(sighting));
        let low = Sighting { code: HIGHEST - 8, offset: 3, identity: 5 };
        assert_eq!(Sighting::unpack(&low.pack()), Some(low));
        let far = Sighting { offset: u32::MAX, ..sighting };
        assert_eq!(Sighting::unpack(&far.pack()).map(|far| far.offset), Some(UNKNOWN_OFFSET));
        let [frame, identity] = sighting.pack();
        for words in [&[frame][..], &[frame, frame], &[identity, frame], &[0x1000, identity], &[]] {
            assert_eq!(Sighting::unpack(words), None);
        }
    }

    #[test]
    fn another_object_has_another_identity() {
        let words = [0x7f00_1000, 0x7f00_2000, 3];
        assert_eq!(identity_of(&words), identity_of(&words));
        assert_ne!(identity_of(&words), identity_of(&[words[0], words[1], 4]));
        assert_ne!(identity_of(&words), identity_of(&[words[1], words[0], 3]));
    }
}

//! The stubs of linkage tables of aarch64, as linkers write them: `adrp x16, PAGE; ldr x17, [x16,
//! #OFFSET]; add x16, x16, #OFFSET; br x17`, with `bti c` before and a check of a signature between
//! where the file has been linked for these. Files of that processor are read on others, too.

const BTI_C: u32 = 0xd503_245f;
/// `br x17` and `braa x17, x16`.
const JUMPS: [u32; 2] = [0xd61f_0220, 0xd71f_0a30];

/// Maximum length of a stub in bytes.
pub(crate) const STUB: usize = 24;

/// A stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkageStub {
    /// The address of the word that has the address to which it jumps.
    pub(crate) slot: u64,
    /// Its length in bytes.
    pub(crate) length: usize,
}

/// Returns the stub that some code at an address begins with.
pub(crate) fn linkage_stub(code: &[u8], address: u64) -> Option<LinkageStub> {
    let instruction = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let first = if instruction(0)? == BTI_C { 4 } else { 0 };
    let (page, load) = (instruction(first)?, instruction(first + 4)?);
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = i64::from((page << 8) as i32 >> 13 << 2 | (page >> 29 & 3) as i32);
    let base = (address.wrapping_add(first as u64) & !0xfff).wrapping_add_signed(pages << 12);
    let jump = (first + 8..STUB).step_by(4).find(|&at| instruction(at).is_some_and(|word| JUMPS.contains(&word)))?;
    Some(LinkageStub { slot: base.wrapping_add(u64::from(load >> 10 & 0xfff) * 8), length: jump + 4 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn stubs_name_their_slot() {
        // adrp x16, 20000; ldr x17, [x16, #8]; add x16, x16, #8; br x17, as GNU ld writes it.
        let stub = [0x9000_0090u32, 0xf940_0611, 0x9100_2210, 0xd61f_0220];
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let found = |length| Some(LinkageStub { slot: 0x20008, length });
        assert_eq!(linkage_stub(&code(&stub), 0x10620), found(16));
        let with_bti = [&[BTI_C], &stub[..]].concat();
        assert_eq!(linkage_stub(&code(&with_bti), 0x1061c), found(20));
        // With autia1716 before the jump.
        let signed = [BTI_C, stub[0], stub[1], stub[2], 0xd503_219f, stub[3]];
        assert_eq!(linkage_stub(&code(&signed), 0x1061c), found(24));
        assert_eq!(linkage_stub(&code(&stub[..3]), 0x10620), None);
        // stp x29, x30, [sp, #-16]!; br x17
        assert_eq!(linkage_stub(&code(&[0xa9bf_7bfd, 0xd61f_0220]), 0), None, "it saves the return address");
        assert_eq!(linkage_stub(&[1, 2, 3], 0), None);
    }
}

//! MiniDebugInfo: the symbol table that Fedora and others keep in stripped files, as an ELF file
//! packed with xz in the section `.gnu_debugdata`.

use std::io::Read;

use lzma_rust2::XzReader;

use super::elf::Elf;

/// Maximum size of the section, and of the file that it holds.
const MAX_PACKED_BYTES: u64 = 64 << 20;
const MAX_BYTES: u64 = 256 << 20;
/// Maximum memory of the decoder, KiB. The strongest preset of xz needs 65 MiB.
const MAX_DECODER_KIB: u32 = 96 << 10;

/// Unpacks the symbol table of a file, if it holds one.
pub(super) fn read(elf: &Elf) -> Option<Elf> {
    let packed = elf.bytes(elf.section(b".gnu_debugdata")?, MAX_PACKED_BYTES).ok()?;
    Elf::from_memory(&elf.path, unpack(&packed)?).ok()
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = XzReader::new_mem_limit(packed, false, MAX_DECODER_KIB);
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf sigtop | xz --check=crc32`
    const PACKED: [u8; 60] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21, 0x01, 0x16, 0x00,
        0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x05, 0x73, 0x69, 0x67, 0x74, 0x6f, 0x70, 0x00, 0x00, 0x00,
        0x92, 0xc2, 0x3f, 0xef, 0x00, 0x01, 0x1a, 0x06, 0xc5, 0xea, 0xc8, 0x79, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00,
        0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
    ];

    #[test]
    fn what_xz_packed_is_unpacked() {
        assert_eq!(unpack(&PACKED).as_deref(), Some(&b"sigtop"[..]));
        assert_eq!((unpack(&PACKED[..PACKED.len() - 1]), unpack(&[])), (None, None));
    }

    #[test]
    fn mutations_do_no_harm() {
        for at in 0..PACKED.len() {
            for value in 0..=255 {
                let mut bytes = PACKED;
                bytes[at] = value;
                let unpacked = unpack(&bytes);
                assert!(unpacked.is_none_or(|unpacked| unpacked == b"sigtop" || value != PACKED[at]));
            }
        }
    }
}

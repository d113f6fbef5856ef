//! The processors whose files are read, whatever processor reads them.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use object::elf;

/// The processor that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// x86-64.
    X86_64,
    /// aarch64.
    Aarch64,
}

impl Machine {
    /// Returns the processor with this number in an ELF header; `None` for others.
    pub(super) fn from_elf(number: elf::Machine) -> Option<Machine> {
        match number {
            elf::EM_X86_64 => Some(Machine::X86_64),
            elf::EM_AARCH64 => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// Returns whether some code does nothing: it fills the space before the next function.
    pub(super) fn is_padding(self, code: &[u8]) -> bool {
        match self {
            Machine::X86_64 => is_x86_padding(code),
            Machine::Aarch64 => {
                /// `nop`.
                const NOP: [u8; 4] = [0x1f, 0x20, 0x03, 0xd5];
                code.chunks(4).all(|instruction| instruction == NOP || instruction.iter().all(|&byte| byte == 0))
            }
        }
    }

    /// Returns the kind of a relocation that fills a word of an offset table.
    pub(super) fn slot(self, relocation: elf::RelocationType) -> Option<SlotRelocation> {
        let (functions, resolver, own): ([elf::RelocationType; 2], _, _) = match self {
            Machine::X86_64 => {
                ([elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT], elf::R_X86_64_IRELATIVE, elf::R_X86_64_RELATIVE)
            }
            Machine::Aarch64 => {
                ([elf::R_AARCH64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT], elf::R_AARCH64_IRELATIVE, elf::R_AARCH64_RELATIVE)
            }
        };
        match relocation {
            _ if functions.contains(&relocation) => Some(SlotRelocation::Symbol),
            _ if relocation == resolver => Some(SlotRelocation::Resolver),
            _ if relocation == own => Some(SlotRelocation::Own),
            _ => None,
        }
    }
}

/// The content of a word of an offset table, by the kind of its relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotRelocation {
    /// The address of a symbol.
    Symbol,
    /// The result of a function of the file.
    Resolver,
    /// An address in the file.
    Own,
}

fn is_x86_padding(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        let position = decoder.position();
        if code[position] == 0 {
            // It is in the code, so it is valid.
            let _ = decoder.set_position(position + 1);
        } else if !matches!(decoder.decode().mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_nothing_is_padding() {
        let long = [0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, 0x90];
        let is_padding = |code: &[u8]| Machine::X86_64.is_padding(code);
        assert!(is_padding(&long) && is_padding(&[0xcc; 9]) && is_padding(&[0; 5]) && is_padding(&[]));
        assert!(!is_padding(&[&long[..], &[0xc3]].concat()) && !is_padding(&long[..7]));
        let is_padding = |code: &[u32]| {
            Machine::Aarch64.is_padding(&code.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
        };
        assert!(is_padding(&[0xd503_201f, 0, 0xd503_201f]) && is_padding(&[]));
        assert!(!is_padding(&[0xd503_201f, 0xd65f_03c0]));
    }
}

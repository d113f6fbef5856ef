//! PLT stubs: the code through which a file calls functions of other files. Stubs have no symbols.
//! Their names follow from the GOT slot they jump through and the relocation of the slot.

use std::collections::HashMap;

use object::elf::{Rela64, Sym64};
use object::{LittleEndian, pod};

use super::elf::{Elf, ORDER, Section, string_at};
use super::machine::{Machine, SlotRelocation};
use crate::arch::linkage_stub;

/// Maximum size of a table of relocations or symbols, and of a section of stubs.
const MAX_BYTES: u64 = 64 << 20;

/// A PLT stub.
pub(super) struct PltStub {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The raw name of the function it calls.
    pub(super) name: Box<[u8]>,
}

/// Returns the stubs of a file; none if their tables are not understood. `name` returns the name of
/// a function of the file itself, for slots that refer to one.
pub(super) fn stubs<'n>(elf: &Elf, name: impl Fn(u64) -> Option<&'n [u8]>) -> Vec<PltStub> {
    let sections = elf.sections().iter().filter(|section| section.is_code() && section.name.starts_with(b".plt"));
    let mut sections = sections.peekable();
    let mut stubs = Vec::new();
    let Some(slots) = sections.peek().and_then(|_| GotSlots::read(elf)) else { return stubs };
    let mut names_bytes = 0;
    for section in sections {
        let Ok(code) = elf.bytes(section, MAX_BYTES) else { continue };
        for (start, end, slot) in slots.jumps(elf.machine, section, &code) {
            let name = match slots.called.get(&slot) {
                Some(&SlotTarget::Symbol(offset)) => string_at(&slots.strings, offset),
                Some(&SlotTarget::Resolver(address)) => name(address).unwrap_or(&[]),
                None => &[],
            };
            names_bytes += name.len() as u64;
            if names_bytes > MAX_BYTES {
                return stubs;
            }
            if !name.is_empty() {
                stubs.push(PltStub { start, end, name: name.into() });
            }
        }
    }
    stubs
}

/// The content of a GOT slot.
enum SlotTarget {
    /// The symbol whose name is at this offset.
    Symbol(u32),
    /// The result of the resolver (IFUNC) at this address. The resolver has the name of the
    /// function that it selects.
    Resolver(u64),
}

/// The contents of the GOT slots of a file.
pub(super) struct GotSlots {
    /// The contents by address of the slot.
    called: HashMap<u64, SlotTarget>,
    /// The slots in the order of `.rela.plt`.
    order: Vec<u64>,
    /// The slots that refer to functions of the file itself.
    own: HashMap<u64, u64>,
    strings: Vec<u8>,
}

impl GotSlots {
    pub(super) fn read(elf: &Elf) -> Option<GotSlots> {
        let section = elf.section(b".dynsym")?;
        let strings = elf.bytes(elf.sections().get(section.header.sh_link.get(ORDER) as usize)?, MAX_BYTES).ok()?;
        let symbols = array::<Sym64<LittleEndian>>(elf, section)?;
        let mut slots = GotSlots { called: HashMap::new(), order: Vec::new(), own: HashMap::new(), strings };
        let table_of_addresses = elf.section(b".got").map_or(0..0, |section| section.address()..section.end());
        for table in [&b".rela.plt"[..], b".rela.dyn"] {
            let relocations = elf.section(table).and_then(|section| array::<Rela64<LittleEndian>>(elf, section));
            for relocation in relocations.unwrap_or_default() {
                let slot = relocation.r_offset.get(ORDER);
                if table == b".rela.plt" {
                    slots.order.push(slot);
                }
                let called = match elf.machine.slot(relocation.r_type(ORDER, false)) {
                    Some(SlotRelocation::Symbol) => {
                        let symbol = symbols.get(relocation.r_sym(ORDER, false) as usize);
                        symbol.map(|symbol| SlotTarget::Symbol(symbol.st_name.get(ORDER)))
                    }
                    Some(SlotRelocation::Resolver) => Some(SlotTarget::Resolver(relocation.r_addend.get(ORDER) as u64)),
                    Some(SlotRelocation::Own) if table_of_addresses.contains(&slot) => {
                        slots.own.insert(slot, relocation.r_addend.get(ORDER) as u64);
                        None
                    }
                    _ => None,
                };
                slots.called.extend(called.map(|called| (slot, called)));
            }
        }
        Some(slots)
    }

    /// The raw name of the symbol that the slot at this address refers to.
    pub(super) fn name(&self, slot: u64) -> Option<&[u8]> {
        match self.called.get(&slot)? {
            SlotTarget::Symbol(offset) => Some(string_at(&self.strings, *offset)).filter(|name| !name.is_empty()),
            SlotTarget::Resolver(_) => None,
        }
    }

    /// The address in the file that the slot at this address refers to.
    pub(super) fn address(&self, slot: u64) -> Option<u64> {
        self.own.get(&slot).copied()
    }

    /// Returns the stubs in the code of a section: their first address, the one past their last,
    /// and the slot through which they jump.
    fn jumps(&self, machine: Machine, section: &Section, code: &[u8]) -> Vec<(u64, u64, u64)> {
        match machine {
            Machine::X86_64 => {
                let size = match section.header.sh_entsize.get(ORDER) {
                    8 => 8,
                    _ => 16,
                };
                let entries = code.chunks_exact(size).enumerate();
                let jump = |(index, entry)| {
                    let start = section.address().wrapping_add((index * size) as u64);
                    Some((start, start.saturating_add(size as u64), self.x86_slot(start, entry)?))
                };
                entries.filter_map(jump).collect()
            }
            Machine::Aarch64 => aarch64_jumps(section.address(), code),
        }
    }

    /// Returns the slot that a stub at `start` with these instructions jumps through.
    fn x86_slot(&self, start: u64, entry: &[u8]) -> Option<u64> {
        const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
        let code = entry.strip_prefix(ENDBR64).unwrap_or(entry);
        // The `bnd` prefix does not matter here.
        let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
        match code {
            // jmp *offset(%rip)
            [0xff, 0x25, a, b, c, d, rest @ ..] => {
                let next = start.wrapping_add((entry.len() - rest.len()) as u64);
                Some(next.wrapping_add_signed(i32::from_le_bytes([*a, *b, *c, *d]).into()))
            }
            // push $index: the part of a stub for lazy binding.
            [0x68, a, b, c, d, ..] => self.order.get(u32::from_le_bytes([*a, *b, *c, *d]) as usize).copied(),
            _ => None,
        }
    }
}

/// Returns the stubs of aarch64, as [`GotSlots::jumps`] does.
fn aarch64_jumps(address: u64, code: &[u8]) -> Vec<(u64, u64, u64)> {
    let (mut jumps, mut at) = (Vec::new(), 0);
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        let start = address.wrapping_add(at as u64);
        let stub = linkage_stub(rest, start);
        let length = stub.map_or(4, |stub| stub.length);
        jumps.extend(stub.map(|stub| (start, start.wrapping_add(length as u64), stub.slot)));
        at += length;
    }
    jumps
}

pub(super) fn array<T: pod::Pod>(elf: &Elf, section: &Section) -> Option<Vec<T>> {
    let bytes = elf.bytes(section, MAX_BYTES).ok()?;
    pod::slice_from_bytes(&bytes, bytes.len() / size_of::<T>()).ok().map(|(array, _)| array.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_of_aarch64_name_their_slot() {
        // adrp x16, 20000; ldr x17, [x16, #8]; add x16, x16, #8; br x17, as GNU ld writes it.
        let stub = [0x9000_0090u32, 0xf940_0611, 0x9100_2210, 0xd61f_0220];
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(aarch64_jumps(0x10620, &code(&stub)), [(0x10620, 0x10630, 0x20008)]);
        let with_bti = [&[0xd503_245f], &stub[..]].concat();
        assert_eq!(aarch64_jumps(0x1061c, &code(&with_bti)), [(0x1061c, 0x10630, 0x20008)]);
        assert_eq!(aarch64_jumps(0x10620, &code(&stub[..3])), []);
        assert_eq!(aarch64_jumps(0, &[1, 2, 3]), []);
    }
}

//! Stubs through which a file calls what others define. They have no symbols; each is known by the slot it jumps through,
//! and the slot by its relocation.

use std::collections::HashMap;

use object::elf::{self, Rela64, Sym64};
use object::{LittleEndian, pod};

use super::elf::{Elf, ORDER, Section, string_at};

/// Bytes of a table of relocations or symbols, and of a section of stubs.
const MAX_BYTES: u64 = 64 << 20;

/// One stub.
pub(super) struct Stub {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Raw name of what it calls.
    pub(super) name: Box<[u8]>,
}

/// The stubs of a file; none when something about them is not understood. `name` knows functions of the file itself, for
/// slots that are filled by one of them.
pub(super) fn stubs<'n>(elf: &Elf, name: impl Fn(u64) -> Option<&'n [u8]>) -> Vec<Stub> {
    let sections = elf.sections().iter().filter(|section| section.is_code() && section.name.starts_with(b".plt"));
    let mut sections = sections.peekable();
    let mut stubs = Vec::new();
    let Some(slots) = sections.peek().and_then(|_| Slots::read(elf)) else { return stubs };
    let mut names_bytes = 0;
    for section in sections {
        let Ok(code) = elf.bytes(section, MAX_BYTES) else { continue };
        let size = match section.header.sh_entsize.get(ORDER) {
            8 => 8,
            _ => 16,
        };
        for (index, entry) in code.chunks_exact(size).enumerate() {
            let start = section.address().wrapping_add((index * size) as u64);
            let name = match slots.called_by(start, entry) {
                Some(&Called::Symbol(offset)) => string_at(&slots.strings, offset),
                Some(&Called::Chosen(address)) => name(address).unwrap_or(&[]),
                None => &[],
            };
            names_bytes += name.len() as u64;
            if names_bytes > MAX_BYTES {
                return stubs;
            }
            if !name.is_empty() {
                stubs.push(Stub { start, end: start.saturating_add(size as u64), name: name.into() });
            }
        }
    }
    stubs
}

/// What fills a slot.
enum Called {
    /// A symbol, by the place of its name.
    Symbol(u32),
    /// Whatever the function of this file at this address chooses; it bears the name of what it chooses from.
    Chosen(u64),
}

/// What the slots of a file are filled with.
pub(super) struct Slots {
    /// By address of the slot.
    called: HashMap<u64, Called>,
    /// Slots in the order of `.rela.plt`.
    order: Vec<u64>,
    /// Slots of the table of addresses that the file fills with functions of its own.
    own: HashMap<u64, u64>,
    strings: Vec<u8>,
}

impl Slots {
    pub(super) fn read(elf: &Elf) -> Option<Slots> {
        let section = elf.section(b".dynsym")?;
        let strings = elf.bytes(elf.sections().get(section.header.sh_link.get(ORDER) as usize)?, MAX_BYTES).ok()?;
        let symbols = array::<Sym64<LittleEndian>>(elf, section)?;
        let mut slots = Slots { called: HashMap::new(), order: Vec::new(), own: HashMap::new(), strings };
        let table_of_addresses = elf.section(b".got").map_or(0..0, |section| section.address()..section.end());
        for table in [&b".rela.plt"[..], b".rela.dyn"] {
            let relocations = elf.section(table).and_then(|section| array::<Rela64<LittleEndian>>(elf, section));
            for relocation in relocations.unwrap_or_default() {
                let slot = relocation.r_offset.get(ORDER);
                if table == b".rela.plt" {
                    slots.order.push(slot);
                }
                let called = match relocation.r_type(ORDER, false) {
                    elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => {
                        let symbol = symbols.get(relocation.r_sym(ORDER, false) as usize);
                        symbol.map(|symbol| Called::Symbol(symbol.st_name.get(ORDER)))
                    }
                    elf::R_X86_64_IRELATIVE => Some(Called::Chosen(relocation.r_addend.get(ORDER) as u64)),
                    elf::R_X86_64_RELATIVE if table_of_addresses.contains(&slot) => {
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

    /// Raw name of the symbol that the slot at this address is filled with.
    pub(super) fn name(&self, slot: u64) -> Option<&[u8]> {
        match self.called.get(&slot)? {
            Called::Symbol(offset) => Some(string_at(&self.strings, *offset)).filter(|name| !name.is_empty()),
            Called::Chosen(_) => None,
        }
    }

    /// The file's own address that the slot at this address is filled with.
    pub(super) fn address(&self, slot: u64) -> Option<u64> {
        self.own.get(&slot).copied()
    }

    /// What a stub at `start` with these instructions calls.
    fn called_by(&self, start: u64, entry: &[u8]) -> Option<&Called> {
        const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
        let code = entry.strip_prefix(ENDBR64).unwrap_or(entry);
        // A prefix (`bnd`) without meaning here.
        let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
        let slot = match code {
            // jmp *offset(%rip)
            [0xff, 0x25, a, b, c, d, rest @ ..] => {
                let next = start.wrapping_add((entry.len() - rest.len()) as u64);
                next.wrapping_add_signed(i32::from_le_bytes([*a, *b, *c, *d]).into())
            }
            // push $index: the lazy half of a stub.
            [0x68, a, b, c, d, ..] => *self.order.get(u32::from_le_bytes([*a, *b, *c, *d]) as usize)?,
            _ => return None,
        };
        self.called.get(&slot)
    }
}

fn array<T: pod::Pod>(elf: &Elf, section: &Section) -> Option<Vec<T>> {
    let bytes = elf.bytes(section, MAX_BYTES).ok()?;
    pod::slice_from_bytes(&bytes, bytes.len() / size_of::<T>()).ok().map(|(array, _)| array.to_vec())
}

//! Parts of functions in stripped files. A compiler moves what is rarely needed out of a function,
//! which ends in a jump to it: `sem_wait` of glibc is left before its thread sleeps. Such a part
//! has no symbol where only exported names are left. It belongs to the function that jumps to it,
//! if nothing else in the file refers to it.

use std::collections::{HashMap, HashSet};

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use object::LittleEndian;
use object::elf::Rela64;

use super::elf::{Elf, ORDER};
use super::machine::Machine;
use super::plt::array;

/// Maximum size of a section whose references are looked at.
const MAX_BYTES: u64 = 16 << 20;

/// Sections with pointers to functions.
const POINTERS: [&[u8]; 5] = [b".data", b".data.rel.ro", b".got", b".init_array", b".fini_array"];

/// Returns the start of each part, with the start of the function that it is a part of. `functions`
/// are sorted; those at `nameless` may be parts. Parts are found in code of x86-64.
pub(super) fn parts(file: &Elf, functions: &[(u64, u64)], nameless: &HashSet<u64>) -> HashMap<u64, u64> {
    let is_fixed = file.has_fixed_addresses();
    let mut references = References { functions, nameless, is_fixed, wholes: HashMap::new() };
    let code = file.sections().iter().filter(|section| section.is_code());
    if file.machine != Machine::X86_64 || nameless.is_empty() || code.clone().any(|code| code.size() > MAX_BYTES) {
        return HashMap::new();
    }
    for section in code {
        let Ok(code) = file.bytes(section, MAX_BYTES) else { return HashMap::new() };
        references.read(section.address(), &code);
    }
    // In other files only relocations tell addresses from numbers.
    let holds_addresses = is_fixed || file.section(b".relr.dyn").is_some();
    for section in POINTERS.into_iter().filter(|_| holds_addresses).filter_map(|name| file.section(name)) {
        let Ok(bytes) = file.bytes(section, MAX_BYTES) else { return HashMap::new() };
        for word in bytes.as_chunks().0 {
            references.note(u64::from_le_bytes(*word), None);
        }
    }
    let relocations = file.section(b".rela.dyn").and_then(|section| array::<Rela64<LittleEndian>>(file, section));
    for relocation in relocations.unwrap_or_default() {
        references.note(relocation.r_addend.get(ORDER) as u64, None);
    }
    references.wholes.into_iter().filter_map(|(part, whole)| Some((part, whole?))).collect()
}

/// The references to functions without a name.
struct References<'a> {
    functions: &'a [(u64, u64)],
    nameless: &'a HashSet<u64>,
    /// Whether numbers in the code may be addresses.
    is_fixed: bool,
    /// The start of the function that jumps to another, by the start of that; `None` if several
    /// refer to it, or one does in another way.
    wholes: HashMap<u64, Option<u64>>,
}

impl References<'_> {
    /// Notes a reference: a jump from the function that starts at `whole`, or anything else.
    fn note(&mut self, target: u64, whole: Option<u64>) {
        if self.nameless.contains(&target) && whole != Some(target) {
            let known = self.wholes.entry(target).or_insert(whole);
            *known = known.filter(|&known| whole == Some(known));
        }
    }

    /// Reads the code of a section: functions, and what lies between.
    fn read(&mut self, address: u64, code: &[u8]) {
        let mut at = address;
        let end = address.saturating_add(code.len() as u64);
        let first = self.functions.partition_point(|function| function.0 < address);
        for &(start, after) in self.functions[first..].iter().take_while(|function| function.0 < end) {
            let after = after.clamp(start, end);
            for (from, to, whole) in [(at, start, None), (start.max(at), after, Some(start))] {
                if from < to {
                    self.decode(from, &code[(from - address) as usize..(to - address) as usize], whole);
                }
            }
            at = at.max(after);
        }
        self.decode(at, &code[(at - address) as usize..], None);
    }

    fn decode(&mut self, address: u64, code: &[u8], whole: Option<u64>) {
        for instruction in &mut Decoder::with_ip(64, code, address, DecoderOptions::NONE) {
            let is_jump = instruction.mnemonic() != Mnemonic::Call;
            for operand in 0..instruction.op_count() {
                match instruction.op_kind(operand) {
                    OpKind::NearBranch64 => self.note(instruction.near_branch_target(), whole.filter(|_| is_jump)),
                    OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                        self.note(instruction.ip_rel_memory_address(), None);
                    }
                    OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 if self.is_fixed => {
                        self.note(instruction.immediate(operand), None);
                    }
                    _ => {}
                }
            }
        }
    }
}

//! Disassembles one function: its instructions, jump targets, names of called functions, and source
//! locations. The [`worker`](super::worker) reads the bytes; `tally::lines` has the weights. The
//! syntax is that of the GNU assembler, as objdump and pprof print it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Decoded, Mnemonic, OpKind};

use super::assembly_aarch64;
use super::machine::Machine;
use super::resolved::ResolvedLine;
use crate::profile::module::ModuleId;

/// Maximum number of bytes that are disassembled of one function.
pub const MAX_BYTES: u64 = 256 << 10;

/// The code of one function, from the start of its symbol to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The file that contains it.
    pub module: ModuleId,
    /// The file's path.
    pub path: Arc<str>,
    /// The symbol's full name.
    pub full: Arc<str>,
    /// The symbol's short name.
    pub short: Arc<str>,
    /// The address of the first byte in the file.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The instructions by address, without gaps.
    pub instructions: Box<[Instruction]>,
    /// The source locations that instructions refer to.
    pub places: Box<[SourceLocation]>,
    /// The state of its source lines.
    pub lines: LineState,
    /// Whether it continues after the last instruction.
    pub is_cut: bool,
    /// The time of the last change of the file, if known.
    pub modified: Option<SystemTime>,
}

/// The state of the source lines of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// They are being read; a second answer follows.
    Reading,
    /// They are known.
    Known,
    /// The file has no line table.
    Absent,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address in the file.
    pub address: u64,
    /// Its length in bytes.
    pub length: u8,
    /// Its assembly, with names of functions instead of addresses.
    pub text: Box<str>,
    /// The target of a direct jump; `None` for calls and indirect jumps.
    pub jump: Option<u64>,
    /// The index of its source location in [`Code::places`], if known.
    pub place: Option<u32>,
}

/// The source location of an instruction: functions, the innermost first. All but the last are
/// inlined into the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLocation(pub Box<[LocationLine]>);

/// A line of one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocationLine {
    /// The function's full name.
    pub full: Arc<str>,
    /// The short name.
    pub short: Arc<str>,
    /// The source file as the debug information names it; empty if unknown.
    pub file: Arc<str>,
    /// The source line; 0 if unknown.
    pub line: u32,
}

impl Code {
    /// The index of the instruction that contains the byte at an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        let index = self.instructions.partition_point(|instruction| instruction.address <= address).checked_sub(1)?;
        let instruction = &self.instructions[index];
        (address - instruction.address < instruction.length.into()).then_some(index)
    }

    /// The source location of an instruction; empty if unknown.
    pub fn place(&self, instruction: &Instruction) -> &[LocationLine] {
        instruction.place.and_then(|place| self.places.get(place as usize)).map_or(&[], |place| &place.0)
    }

    /// The first and the last line of a function in a file, among those of this code.
    pub fn range(&self, full: &str, file: &str) -> Option<(u32, u32)> {
        let lines = self.places.iter().flat_map(|place| place.0.iter());
        let lines = lines.filter(|line| line.line > 0 && &*line.file == file && &*line.full == full);
        lines.fold(None, |range, line| {
            let (first, last) = range.unwrap_or((line.line, line.line));
            Some((first.min(line.line), last.max(line.line)))
        })
    }

    /// The memory it takes, approximately.
    pub fn memory_bytes(&self) -> usize {
        let texts: usize = self.instructions.iter().map(|instruction| instruction.text.len()).sum();
        let places: usize = self.places.iter().map(|place| size_of_val(&*place.0)).sum();
        size_of_val(&*self.instructions) + texts + places
    }
}

/// The target of a call or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The code at this address.
    Address(u64),
    /// The code that the GOT slot at this address points to.
    Slot(u64),
}

/// Disassembles bytes that lie at `start`. `name` returns the name of a function outside of them.
pub(super) fn disassemble(
    machine: Machine,
    bytes: &[u8],
    start: u64,
    name: impl Fn(Target) -> Option<String>,
) -> Box<[Instruction]> {
    match machine {
        Machine::X86_64 => disassemble_x86(bytes, start, name),
        Machine::Aarch64 => assembly_aarch64::disassemble(bytes, start, name),
    }
}

fn disassemble_x86(bytes: &[u8], start: u64, name: impl Fn(Target) -> Option<String>) -> Box<[Instruction]> {
    let end = start.saturating_add(bytes.len() as u64);
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_rip_relative_addresses(true);
    options.set_space_after_operand_separator(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    let mut instructions = Vec::new();
    let mut decoded = Decoded::default();
    let mut text = String::new();
    while decoder.can_decode() {
        let position = decoder.position();
        decoder.decode_out(&mut decoded);
        let mut length = decoded.len().clamp(1, 15);
        if decoded.is_invalid() {
            // Data between code may have any length, so decoding resumes at the next byte.
            length = 1;
            decoder.set_ip(decoded.ip().wrapping_add(1));
            // The position lies before the current one, so it is valid.
            let _ = decoder.set_position(position + 1);
        }
        text.clear();
        let mut jump = None;
        let target = target(&decoded);
        let inner = matches!(target, Some(Target::Address(to)) if (start..end).contains(&to));
        match target {
            Some(Target::Address(to)) if inner && decoded.mnemonic() != Mnemonic::Call => {
                jump = Some(to);
                formatter.format_mnemonic(&decoded, &mut text);
                text.push_str(&format!(" {to:x}"));
            }
            _ if decoded.is_invalid() => text.push_str("(bad)"),
            Some(to) => match name(to) {
                Some(name) if matches!(to, Target::Slot(_)) => {
                    let word = if decoded.mnemonic() == Mnemonic::Call { "call" } else { "jmp" };
                    text.push_str(&format!("{word} *{name}@GOT"));
                }
                Some(name) => {
                    formatter.format_mnemonic(&decoded, &mut text);
                    text.push_str(&format!(" {name}"));
                }
                None => formatter.format(&decoded, &mut text),
            },
            None => formatter.format(&decoded, &mut text),
        }
        instructions.push(Instruction {
            address: decoded.ip(),
            length: length as u8,
            text: text.as_str().into(),
            jump,
            place: None,
        });
    }
    instructions.into()
}

fn target(decoded: &Decoded) -> Option<Target> {
    let branches = matches!(decoded.mnemonic(), Mnemonic::Call | Mnemonic::Jmp);
    match decoded.op0_kind() {
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 if decoded.op_count() > 0 => {
            Some(Target::Address(decoded.near_branch_target()))
        }
        OpKind::Memory if branches && decoded.is_ip_rel_memory_operand() => {
            Some(Target::Slot(decoded.ip_rel_memory_address()))
        }
        _ => None,
    }
}

/// Collects the source locations of instructions, each once.
#[derive(Default)]
pub(super) struct Places {
    places: Vec<SourceLocation>,
    ids: HashMap<SourceLocation, u32>,
    texts: HashMap<String, Arc<str>>,
}

impl Places {
    /// Returns the index of a location, and adds it if it is new. `lines` are its functions, the
    /// innermost first. Returns `None` if no line is known.
    pub(super) fn id(&mut self, lines: Vec<ResolvedLine>) -> Option<u32> {
        if lines.iter().all(|line| line.line == 0) {
            return None;
        }
        let line = |ResolvedLine { full, short, file, line, .. }| LocationLine {
            full: self.text(full),
            short: self.text(short),
            file: self.text(file),
            line,
        };
        let place = SourceLocation(lines.into_iter().map(line).collect());
        let next = self.places.len() as u32;
        Some(*self.ids.entry(place).or_insert_with_key(|place| {
            self.places.push(place.clone());
            next
        }))
    }

    fn text(&mut self, text: String) -> Arc<str> {
        Arc::clone(self.texts.entry(text).or_insert_with_key(|text| text.as_str().into()))
    }

    /// Returns all locations by index.
    pub(super) fn finish(self) -> Box<[SourceLocation]> {
        self.places.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    fn name(target: Target) -> Option<String> {
        match target {
            Target::Address(0x2000) => Some("parse".to_owned()),
            Target::Slot(0x3008) => Some("memcpy".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn jumps_have_targets_and_calls_have_names() {
        let bytes = [
            0x55, // push %rbp
            0x48, 0x89, 0xe5, // mov %rsp,%rbp
            0x74, 0xfa, // je to the first
            0xe8, 0xf5, 0x0f, 0x00, 0x00, // call 2000
            0xff, 0x15, 0xf7, 0x1f, 0x00, 0x00, // call *1ff7(%rip): slot 3008
            0xe8, 0x00, 0x01, 0x00, 0x00, // call without a name
            0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, // mov 0x10(%rip),%eax
            0x06, // invalid
            0xc3,
        ];
        let code = disassemble_x86(&bytes, 0x1000, name);
        let texts: Vec<&str> = code.iter().map(|instruction| &*instruction.text).collect();
        assert_eq!(
            texts,
            [
                "push %rbp",
                "mov %rsp,%rbp",
                "je 1000",
                "call parse",
                "call *memcpy@GOT",
                "call 0x1116",
                "mov 0x10(%rip),%eax",
                "(bad)",
                "ret"
            ]
        );
        assert_eq!(code.iter().map(|instruction| instruction.jump).nth(2), Some(Some(0x1000)));
        assert_eq!(code.iter().filter(|instruction| instruction.jump.is_some()).count(), 1);
        assert_eq!(code.iter().map(|instruction| usize::from(instruction.length)).sum::<usize>(), bytes.len());
    }

    #[test]
    fn addresses_within_an_instruction_belong_to_it() {
        let mut places = Places::default();
        let line = |line| ResolvedLine {
            full: "f()".to_owned(),
            short: "f".to_owned(),
            file: "f.c".to_owned(),
            line,
            inlined: false,
        };
        let mut instructions = disassemble_x86(&[0x90, 0xe8, 0, 0, 0, 0, 0xc3], 0x10, |_| None);
        for (instruction, number) in instructions.iter_mut().zip([7, 9, 7]) {
            instruction.place = places.id(vec![line(number)]);
        }
        let code = Code {
            module: ModuleId(0),
            path: "a".into(),
            full: "f()".into(),
            short: "f".into(),
            start: 0x10,
            end: 0x17,
            instructions,
            places: places.finish(),
            lines: LineState::Known,
            is_cut: false,
            modified: None,
        };
        let found = [0xf, 0x10, 0x11, 0x15, 0x16, 0x17].map(|address| code.at(address));
        assert_eq!(found, [None, Some(0), Some(1), Some(1), Some(2), None]);
        assert_eq!((code.places.len(), code.range("f()", "f.c")), (2, Some((7, 9))));
        assert_eq!(code.place(&code.instructions[1])[0].line, 9);
    }

    proptest! {
        #![proptest_config(property(256))]
        /// The instructions cover all bytes.
        #[test]
        fn any_bytes_are_covered(bytes in prop::collection::vec(any::<u8>(), 0..200), start in any::<u64>()) {
            let code = disassemble_x86(&bytes, start, |_| None);
            let mut at = start;
            for instruction in &code {
                prop_assert_eq!(instruction.address, at);
                prop_assert!(instruction.length > 0 && !instruction.text.is_empty());
                at = at.wrapping_add(instruction.length.into());
            }
            prop_assert_eq!(at, start.wrapping_add(bytes.len() as u64));
        }
    }
}

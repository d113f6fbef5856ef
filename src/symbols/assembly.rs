//! The machine code of one function as text: instructions, where jumps go, whom calls call, and the source line behind each.
//! Which bytes these are is the [`worker`](super::worker)'s business, and what they weigh that of `tally::lines`.
//! The syntax is the GNU assembler's, as objdump and pprof print it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Decoded, Mnemonic, OpKind};

use super::worker::ResolvedLine;
use crate::profile::module::ModuleId;

/// Bytes of one function that are taken apart; a longer one is cut.
pub const MAX_BYTES: u64 = 256 << 10;

/// The code of one function, from one symbol's start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Which file it is in.
    pub module: ModuleId,
    /// The file's path.
    pub path: Arc<str>,
    /// The symbol's full name.
    pub full: Arc<str>,
    /// The symbol's short name.
    pub short: Arc<str>,
    /// The file's own address of the first byte.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// By address, without gaps.
    pub instructions: Box<[Instruction]>,
    /// What instructions refer to.
    pub places: Box<[Place]>,
    /// What is known of its lines.
    pub lines: LineState,
    /// Whether it goes on behind the last instruction.
    pub is_cut: bool,
    /// When the file was last written, where that is known.
    pub modified: Option<SystemTime>,
}

/// What is known of the lines of some code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// They are being read: a second answer follows.
    Reading,
    /// They are there.
    Known,
    /// The file has none.
    Absent,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The file's own address.
    pub address: u64,
    /// Bytes.
    pub length: u8,
    /// As an assembler would read it, but for names of functions.
    pub text: Box<str>,
    /// Where it jumps to; none for calls and for what is not known before it runs.
    pub jump: Option<u64>,
    /// Index into [`Code::places`], where its line is known.
    pub place: Option<u32>,
}

/// Where an instruction comes from: functions, the innermost first; all but the last are inlined into the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place(pub Box<[PlaceLine]>);

/// A line of one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaceLine {
    /// The function's full name.
    pub full: Arc<str>,
    /// Its short name.
    pub short: Arc<str>,
    /// Source file, as the debug information has it; empty when unknown.
    pub file: Arc<str>,
    /// Source line; 0 when unknown.
    pub line: u32,
}

impl Code {
    /// Index of the instruction that has the byte at an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        let index = self.instructions.partition_point(|instruction| instruction.address <= address).checked_sub(1)?;
        let instruction = &self.instructions[index];
        (address - instruction.address < instruction.length.into()).then_some(index)
    }

    /// Where an instruction comes from; empty when unknown.
    pub fn place(&self, instruction: &Instruction) -> &[PlaceLine] {
        instruction.place.and_then(|place| self.places.get(place as usize)).map_or(&[], |place| &place.0)
    }

    /// The first and the last line of a function in a file, as far as this code has them.
    pub fn range(&self, full: &str, file: &str) -> Option<(u32, u32)> {
        let lines = self.places.iter().flat_map(|place| place.0.iter());
        let lines = lines.filter(|line| line.line > 0 && &*line.file == file && &*line.full == full);
        lines.fold(None, |range, line| {
            let (first, last) = range.unwrap_or((line.line, line.line));
            Some((first.min(line.line), last.max(line.line)))
        })
    }

    /// Memory it takes, about.
    pub fn memory_bytes(&self) -> usize {
        let texts: usize = self.instructions.iter().map(|instruction| instruction.text.len()).sum();
        let places: usize = self.places.iter().map(|place| size_of_val(&*place.0)).sum();
        size_of_val(&*self.instructions) + texts + places
    }
}

/// What an instruction calls or jumps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// This address.
    Address(u64),
    /// What the slot at this address is filled with.
    Slot(u64),
}

/// Takes bytes apart that lie at `start`. `name` knows functions by where they are; it is not asked for jumps within.
pub(super) fn disassemble(bytes: &[u8], start: u64, name: impl Fn(Target) -> Option<String>) -> Box<[Instruction]> {
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
            // Data between code may be of any length: the next byte is as good a start as any.
            length = 1;
            decoder.set_ip(decoded.ip().wrapping_add(1));
            // It was there before it was read.
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

/// Gathers the places of instructions, each kept once.
#[derive(Default)]
pub(super) struct Places {
    places: Vec<Place>,
    ids: HashMap<Place, u32>,
    texts: HashMap<String, Arc<str>>,
}

impl Places {
    /// The index of a place; `lines` are its functions, the innermost first. None where none is known.
    pub(super) fn id(&mut self, lines: Vec<ResolvedLine>) -> Option<u32> {
        if lines.iter().all(|line| line.line == 0) {
            return None;
        }
        let line = |ResolvedLine { full, short, file, line, .. }| PlaceLine {
            full: self.text(full),
            short: self.text(short),
            file: self.text(file),
            line,
        };
        let place = Place(lines.into_iter().map(line).collect());
        let next = self.places.len() as u32;
        Some(*self.ids.entry(place).or_insert_with_key(|place| {
            self.places.push(place.clone());
            next
        }))
    }

    fn text(&mut self, text: String) -> Arc<str> {
        Arc::clone(self.texts.entry(text).or_insert_with_key(|text| text.as_str().into()))
    }

    /// All of them, by index.
    pub(super) fn finish(self) -> Box<[Place]> {
        self.places.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(target: Target) -> Option<String> {
        match target {
            Target::Address(0x2000) => Some("parse".to_owned()),
            Target::Slot(0x3008) => Some("memcpy".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn jumps_know_where_and_calls_know_whom() {
        let bytes = [
            0x55, // push %rbp
            0x48, 0x89, 0xe5, // mov %rsp,%rbp
            0x74, 0xfa, // je to the first
            0xe8, 0xf5, 0x0f, 0x00, 0x00, // call 2000
            0xff, 0x15, 0xf7, 0x1f, 0x00, 0x00, // call *1ff7(%rip): slot 3008
            0xe8, 0x00, 0x01, 0x00, 0x00, // call nobody
            0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, // mov 0x10(%rip),%eax
            0x06, // no instruction
            0xc3,
        ];
        let code = disassemble(&bytes, 0x1000, name);
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
    fn an_address_within_an_instruction_is_its_own() {
        let mut places = Places::default();
        let line = |line| ResolvedLine {
            full: "f()".to_owned(),
            short: "f".to_owned(),
            file: "f.c".to_owned(),
            line,
            inlined: false,
        };
        let mut instructions = disassemble(&[0x90, 0xe8, 0, 0, 0, 0, 0xc3], 0x10, |_| None);
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
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Whatever the bytes are, the instructions cover them.
        #[test]
        fn any_bytes_are_covered(bytes in prop::collection::vec(any::<u8>(), 0..200), start in any::<u64>()) {
            let code = disassemble(&bytes, start, |_| None);
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

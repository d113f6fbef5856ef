//! The code of one function: its instructions, jump targets, names of called functions, and source
//! locations. The [`worker`](super::worker) reads the bytes; `tally::lines` has the weights.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

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
        let instruction =
            |(address, length)| Instruction { address, length, text: "nop".into(), jump: None, place: None };
        let mut instructions: Box<[Instruction]> = [(0x10, 1), (0x11, 5), (0x16, 1)].map(instruction).into();
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
}

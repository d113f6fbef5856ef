//! The functions of interpreters: their names, files and lines.

use std::collections::HashMap;

use crate::wire::interpreter::{InterpreterFunction, LineFormat, UNKNOWN_OFFSET};

/// Index of a function in a [`ScriptTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptFunctionId(pub u32);

/// A function of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptFunction {
    /// The qualified name.
    pub name: String,
    /// The source file as the interpreter was given it.
    pub file: String,
    /// The line at which its source begins; 0 if unknown.
    pub first_line: u32,
    /// Ends of ranges of code units, and the line of each; 0 if it has none.
    lines: Vec<(u32, u32)>,
}

impl ScriptFunction {
    fn new(function: &InterpreterFunction<Box<[u8]>>) -> ScriptFunction {
        let read_lines = match function.line_format {
            LineFormat::Locations => read_locations,
            LineFormat::Increments => read_increments,
            LineFormat::Ranges => read_ranges,
        };
        ScriptFunction {
            name: String::from_utf8_lossy(&function.name).into_owned(),
            file: String::from_utf8_lossy(&function.file).into_owned(),
            first_line: function.first_line,
            lines: read_lines(&function.line_table, function.first_line),
        }
    }

    /// The line of the instruction at an offset in code units; 0 if it is unknown.
    pub fn line(&self, offset: u32) -> u32 {
        if offset == UNKNOWN_OFFSET {
            return self.first_line;
        }
        let range = self.lines.partition_point(|&(end, _)| end <= offset);
        self.lines.get(range).map_or(0, |&(_, line)| line)
    }
}

/// Reads a location table of CPython 3.11 and later: the lines of ranges of code units. A table
/// that ends inside an entry gives the ranges before it.
fn read_locations(table: &[u8], first_line: u32) -> Vec<(u32, u32)> {
    let mut lines = Vec::new();
    let (mut rest, mut end, mut line) = (table, 0u32, i64::from(first_line));
    while let Some(has_line) = read_location(&mut rest, &mut end, &mut line) {
        push_line(&mut lines, end, has_line.then_some(line));
    }
    lines
}

/// Adds the line of the code units up to `end`.
fn push_line(lines: &mut Vec<(u32, u32)>, end: u32, line: Option<i64>) {
    let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    match lines.last_mut() {
        Some(last) if last.1 == line => last.0 = end,
        _ => lines.push((end, line)),
    }
}

/// Reads a table of CPython up to 3.9: after so many more bytes, the line has changed by so much.
fn read_increments(table: &[u8], first_line: u32) -> Vec<(u32, u32)> {
    let mut lines = Vec::new();
    let (mut bytes, mut line) = (0u32, i64::from(first_line));
    let (pairs, _) = table.as_chunks::<2>();
    for &[more, change] in pairs {
        bytes = bytes.saturating_add(more.into());
        if more > 0 {
            push_line(&mut lines, bytes / 2, Some(line));
        }
        line += i64::from(change as i8);
    }
    push_line(&mut lines, u32::MAX, Some(line));
    lines
}

/// Reads a table of CPython 3.10: the lengths of ranges in bytes, and how much the line changes
/// before each. A range whose change is -128 has no line.
fn read_ranges(table: &[u8], first_line: u32) -> Vec<(u32, u32)> {
    let mut lines = Vec::new();
    let (mut bytes, mut line) = (0u32, i64::from(first_line));
    let (pairs, _) = table.as_chunks::<2>();
    for &[more, change] in pairs {
        bytes = bytes.saturating_add(more.into());
        let has_line = change as i8 != i8::MIN;
        line += if has_line { i64::from(change as i8) } else { 0 };
        if more > 0 {
            push_line(&mut lines, bytes / 2, has_line.then_some(line));
        }
    }
    lines
}

/// Reads one entry: a byte with the kind and the length, and what the kind says. Returns whether
/// its instructions have a line; `None` at the end of the table.
fn read_location(rest: &mut &[u8], end: &mut u32, line: &mut i64) -> Option<bool> {
    let first = take_byte(rest)?;
    if first & 0x80 == 0 {
        return None;
    }
    let kind = first >> 3 & 15;
    let mut has_line = true;
    match kind {
        // The columns of an instruction on the same line.
        0..=9 => drop(take_byte(rest)?),
        // Both columns of one on the same line or one of the next two.
        10..=12 => {
            *line += i64::from(kind - 10);
            take_byte(rest)?;
            take_byte(rest)?;
        }
        13 => *line += take_signed(rest)?,
        14 => {
            *line += take_signed(rest)?;
            for _ in 0..3 {
                take_number(rest)?;
            }
        }
        _ => has_line = false,
    }
    *end = end.saturating_add(u32::from(first & 7) + 1);
    Some(has_line)
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&first, others) = rest.split_first()?;
    *rest = others;
    Some(first)
}

/// Reads a number in groups of six bits, the lowest first. Bits past 32 are ignored.
fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (mut number, mut shift) = (0u32, 0);
    loop {
        let byte = take_byte(rest)?;
        number |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        if byte & 64 == 0 {
            return Some(number);
        }
        shift = (shift + 6).min(32);
    }
}

/// Reads a number whose lowest bit is its sign.
fn take_signed(rest: &mut &[u8]) -> Option<i64> {
    let number = take_number(rest)?;
    let size = i64::from(number >> 1);
    Some(if number & 1 == 1 { -size } else { size })
}

/// Maximum number of functions. Frames of further ones are not shown.
const MAX_FUNCTIONS: usize = 1 << 17;

/// The functions of all processes. Equal functions of two processes are one.
#[derive(Default)]
pub struct ScriptTable {
    functions: Vec<ScriptFunction>,
    ids: HashMap<ScriptFunction, ScriptFunctionId>,
    /// Number of functions that did not fit.
    overflows: u64,
}

impl ScriptTable {
    /// Adds a function. Returns `None` if the table is full.
    pub(super) fn add(&mut self, function: &InterpreterFunction<Box<[u8]>>) -> Option<ScriptFunctionId> {
        let function = ScriptFunction::new(function);
        if let Some(&id) = self.ids.get(&function) {
            return Some(id);
        }
        if self.functions.len() >= MAX_FUNCTIONS {
            self.overflows += 1;
            return None;
        }
        let id = ScriptFunctionId(self.functions.len() as u32);
        self.functions.push(function.clone());
        self.ids.insert(function, id);
        Some(id)
    }

    /// Number of functions that did not fit the table.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// The function with an id.
    pub fn function(&self, id: ScriptFunctionId) -> &ScriptFunction {
        &self.functions[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, first_line: u32, table: &[u8]) -> InterpreterFunction<Box<[u8]>> {
        let (name, file) = (name.as_bytes().into(), b"/srv/app.py"[..].into());
        InterpreterFunction {
            id: 0,
            first_line,
            name,
            file,
            line_format: LineFormat::Locations,
            line_table: table.into(),
        }
    }

    /// The table of this function, at line 3 of a file, as CPython 3.11.7 compiles it:
    ///
    /// ```python
    /// def f(x):
    ///     y = x
    ///
    ///
    ///     return (y
    ///         + x)
    /// ```
    const TABLE: &[u8] =
        &[128, 0, 216, 8, 9, 128, 65, 240, 6, 0, 13, 14, 216, 10, 11, 241, 3, 1, 13, 12, 240, 0, 1, 5, 13];

    #[test]
    fn lines_are_those_of_cpython() {
        let function = ScriptFunction::new(&function("f", 3, TABLE));
        let lines: Vec<u32> = (0..8).map(|offset| function.line(offset)).collect();
        assert_eq!(lines, [3, 4, 4, 7, 8, 7, 7, 7]);
        assert_eq!((function.line(8), function.line(UNKNOWN_OFFSET)), (0, 3));
    }

    #[test]
    fn every_kind_of_entry_is_read() {
        // No columns, one line up; no location; long form, two lines down; the next line.
        let table = [0x80 | 13 << 3, 3, 0x80 | 15 << 3 | 1, 0x80 | 14 << 3, 4, 0, 1, 65, 1, 0x80 | 11 << 3, 0, 1];
        let function = ScriptFunction::new(&function("f", 10, &table));
        assert_eq!((0..6).map(|offset| function.line(offset)).collect::<Vec<_>>(), [9, 0, 0, 11, 12, 0]);
    }

    #[test]
    fn damaged_tables_do_no_harm() {
        for length in 0..TABLE.len() {
            let cut = ScriptFunction::new(&function("f", 3, &TABLE[..length]));
            assert!((0..8).all(|offset| [0, 3, 4, 7, 8].contains(&cut.line(offset))));
        }
        for byte in 0..=255u8 {
            let odd = ScriptFunction::new(&function("f", u32::MAX, &[byte; 300]));
            assert!(odd.lines.len() <= 300);
        }
    }

    /// The tables of this function, at line 1, as CPython 3.8.18 and 3.10.13 compile it:
    ///
    /// ```python
    /// def f(rows):
    ///     total = 0
    ///     for row in rows:
    ///         total += (
    ///             row
    ///         )
    ///     try:
    ///         return g(total)
    ///     finally:
    ///         total = 1
    /// ```
    #[test]
    fn lines_of_older_versions_are_those_of_cpython() {
        let minus = |change: i8| change as u8;
        let increments = [0, 1, 4, 1, 8, 1, 2, 1, 2, minus(-1), 6, 3, 2, 1, 12, 2];
        let ranges = [4, 1, 8, 1, 2, 1, 2, 1, 6, minus(-1), 2, 3, 8, 1, 12, 2];
        // The lines by offset in bytes, from `dis.findlinestarts`.
        let starts_3_8 = [(0, 2), (4, 3), (12, 4), (14, 5), (16, 4), (22, 7), (24, 8), (36, 10)];
        let starts_3_10 = [(0, 2), (4, 3), (12, 4), (14, 5), (16, 4), (22, 7), (24, 8), (32, 10)];
        for (line_format, table, starts) in
            [(LineFormat::Increments, increments, starts_3_8), (LineFormat::Ranges, ranges, starts_3_10)]
        {
            let function = ScriptFunction::new(&InterpreterFunction { line_format, ..function("f", 1, &table) });
            for (place, &(start, line)) in starts.iter().enumerate() {
                let end = starts.get(place + 1).map_or(start + 2, |&(next, _)| next);
                (start..end).for_each(|byte| assert_eq!(function.line(byte / 2), line, "{line_format:?} at {byte}"));
            }
            for length in 0..table.len() {
                let cut = InterpreterFunction { line_format, ..self::function("f", 1, &table[..length]) };
                (0..30).for_each(|offset| assert!(ScriptFunction::new(&cut).line(offset) < 11));
            }
        }
        let without = InterpreterFunction { line_format: LineFormat::Ranges, ..function("f", 7, &[2, 0x80, 2, 1]) };
        let without = ScriptFunction::new(&without);
        assert_eq!((without.line(0), without.line(1), without.line(2)), (0, 8, 0));
    }

    #[test]
    fn equal_functions_are_one() {
        let mut table = ScriptTable::default();
        let first = table.add(&function("f", 3, TABLE));
        assert_eq!(table.add(&function("f", 3, TABLE)), first);
        assert_ne!(table.add(&function("f", 4, TABLE)), first);
        assert_eq!(table.function(first.expect("room")).name, "f");
    }
}

//! The functions of one file by address, from its symbol tables. Only addresses inside a symbol
//! have a name; gaps between symbols and stripped code have none. Line tables are in
//! [`dwarf`](super::dwarf).
//!
//! A symbol ends at its size. Hand-written assembly often has no sizes. A symbol without size ends
//! at the next symbol of its section, at the next function in the unwind tables, or at the end of
//! the section. It only covers gaps between sized symbols, and only if it comes from a full symbol
//! table (`.symtab`), where everything that could follow has an entry. Exports (`.dynsym`) of a
//! stripped file without a size name nothing. Of nested symbols the innermost counts.
//!
//! Code without a symbol is in [`nameless`](super::nameless). Variables have ranges of their own:
//! they name the locks that threads wait for.

use object::elf::{self, Sym64};
use object::{LittleEndian, pod};

use super::eh_frame;
use super::eh_frame_hdr;
use super::elf::{Elf, ORDER, string_at};
use super::error::Error;
use super::function_parts;
use super::plt;

/// Maximum size of the symbol tables of one file.
pub(super) const MAX_BYTES: u64 = 512 << 20;

/// Maximum length of padding between functions.
const MAX_PADDING: u64 = 4096;
/// Maximum number of other names of one function that are counted.
const MAX_OTHERS: usize = 64;

/// The functions of one file.
pub(super) struct SymbolTable {
    /// The named ranges by address, without overlaps.
    pub(super) ranges: Box<[SymbolRange]>,
    /// The ranges of variables, in the same form.
    pub(super) data: Box<[SymbolRange]>,
    /// Pairs of names, sorted: that of a function, and one of another function that the linker has
    /// folded into it because their code is identical.
    pub(super) folded: Box<[(u32, u32)]>,
    /// The names, each terminated by a NUL.
    pub(super) names: Box<[u8]>,
    pub(super) is_full: bool,
    /// The length of the names that are symbols; those of functions without a symbol follow.
    pub(super) symbol_bytes: usize,
}

/// A range of addresses with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SymbolRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: u32,
}

/// A symbol before overlaps are resolved. `end` is 0 if it has no size.
struct RawSymbol {
    start: u64,
    end: u64,
    name: u32,
    rank: SymbolRank,
}

/// The rank of a name among several for the same code. The least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SymbolRank {
    is_label: bool,
    is_local: bool,
    /// The number of leading underscores: of two names the public one has fewer.
    underscores: u16,
    is_weak: bool,
    length: u16,
}

/// The bounds of symbols without size.
#[derive(Default)]
struct Bounds {
    /// The starts and ends of sections with code.
    sections: Vec<(u64, u64)>,
    /// The starts of all symbols in them, of any type, and of all functions in the unwind tables.
    starts: Vec<u64>,
}

impl SymbolTable {
    /// Reads the symbols of a file, and those of its debug file if it was stripped. Functions
    /// without a symbol are called by their place in `module`, the name of the file.
    pub(super) fn read(file: &Elf, debug: Option<&Elf>, module: &str) -> Result<SymbolTable, Error> {
        let mut builder = SymbolTableBuilder::default();
        let full = [Some(file), debug].into_iter().flatten().find(|elf| elf.section(b".symtab").is_some());
        if let Some(elf) = full {
            builder.read(elf, b".symtab")?;
        }
        // Damaged exports are ignored if there is a full table.
        match builder.read(file, b".dynsym") {
            Err(error) if full.is_none() => return Err(error),
            _ => {}
        }
        if full.is_some() {
            builder.bounds.starts.extend(eh_frame_hdr::function_starts(file));
        }
        let mut table = builder.finish(full.is_some());
        let stubs = plt::stubs(file, |address| table.name(address));
        table.add_stubs(stubs);
        table.symbol_bytes = table.names.len();
        // A full table leaves out what has no function, such as padding.
        if full.is_none() {
            let functions = eh_frame::functions(file);
            let is_nameless = |function: &&(u64, u64)| table.name(function.0).is_none();
            let nameless = functions.iter().filter(is_nameless).map(|function| function.0).collect();
            let parts = function_parts::parts(file, &functions, &nameless);
            table.add_nameless(&functions, &parts, module);
            if !functions.is_empty() {
                let code = file.sections().iter().filter(|section| section.is_code());
                let is_padding = |start, end| {
                    end - start <= MAX_PADDING && file.code(start, end).is_ok_and(|code| file.machine.is_padding(&code))
                };
                table.add_gaps(code.map(|section| (section.address(), section.end())), module, is_padding);
            }
        }
        Ok(table)
    }

    /// Creates a table of functions by their starts, in the order of their addresses. Each reaches
    /// to the next.
    pub(super) fn of_starts(functions: &[(u64, &[u8])]) -> SymbolTable {
        let mut names = Vec::new();
        let mut ranges = Vec::with_capacity(functions.len());
        for (index, &(start, name)) in functions.iter().enumerate() {
            let end = functions.get(index + 1).map_or(u64::MAX, |next| next.0);
            ranges.push(SymbolRange { start, end, name: names.len() as u32 });
            names.extend(name.iter().copied().filter(|&byte| byte != 0).chain([0]));
        }
        let symbol_bytes = names.len();
        SymbolTable {
            ranges: ranges.into(),
            data: Box::default(),
            folded: Box::default(),
            names: names.into(),
            is_full: true,
            symbol_bytes,
        }
    }

    /// The raw name of the function at an address.
    pub(super) fn name(&self, address: u64) -> Option<&[u8]> {
        self.function(address).map(|(_, _, name)| name)
    }

    /// The start and end of the function at an address, and its raw name. If another function is
    /// nested in it, the range ends or starts there.
    pub(super) fn function(&self, address: u64) -> Option<(u64, u64, &[u8])> {
        self.range(address).map(|range| (range.start, range.end, string_at(&self.names, range.name)))
    }

    /// The range of the function at an address.
    pub(super) fn range(&self, address: u64) -> Option<SymbolRange> {
        range_at(&self.ranges, address)
    }

    /// The raw name of the variable at an address, and the offset in it.
    pub(super) fn variable(&self, address: u64) -> Option<(&[u8], u64)> {
        let range = range_at(&self.data, address)?;
        Some((string_at(&self.names, range.name), address - range.start))
    }

    /// The raw names of other functions that have the code at an address, too.
    pub(super) fn others(&self, address: u64) -> impl Iterator<Item = &[u8]> {
        let index = self.ranges.partition_point(|range| range.start <= address).checked_sub(1);
        let name = index.map_or(u32::MAX, |index| self.ranges[index].name);
        let first = self.folded.partition_point(|&(folded, _)| folded < name);
        let pairs = self.folded[first..].iter().take_while(move |&&(folded, _)| folded == name);
        pairs.map(|&(_, other)| string_at(&self.names, other))
    }

    /// Counts the functions with a name.
    pub(super) fn functions(&self) -> usize {
        let names = self.ranges.iter().map(|range| range.name);
        let symbols = names.filter(|&name| (name as usize) < self.symbol_bytes);
        symbols.collect::<std::collections::HashSet<u32>>().len()
    }

    /// Whether the table has local functions, not only exports.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let ranges = size_of_val(&*self.ranges) + size_of_val(&*self.data);
        (ranges + size_of_val(&*self.folded) + self.names.len()) as u64
    }
}

/// The range at an address among sorted ones.
fn range_at(ranges: &[SymbolRange], address: u64) -> Option<SymbolRange> {
    let index = ranges.partition_point(|range| range.start <= address).checked_sub(1)?;
    Some(ranges[index]).filter(|range| address < range.end)
}

/// Collects the symbols of several tables.
#[derive(Default)]
struct SymbolTableBuilder {
    names: Vec<u8>,
    sized: Vec<RawSymbol>,
    endless: Vec<RawSymbol>,
    data: Vec<RawSymbol>,
    bounds: Bounds,
}

impl SymbolTableBuilder {
    fn read(&mut self, elf: &Elf, table: &[u8]) -> Result<(), Error> {
        let malformed = |what| Error::Malformed { path: elf.path.clone(), what };
        let Some(section) = elf.section(table) else { return Ok(()) };
        let strings = elf.sections().get(section.header.sh_link.get(ORDER) as usize);
        let strings = strings.ok_or_else(|| malformed("its symbols have no names"))?;
        let symbols = elf.bytes(section, MAX_BYTES)?;
        let strings = elf.bytes(strings, MAX_BYTES - symbols.len() as u64)?;
        let count = symbols.len() / size_of::<Sym64<LittleEndian>>();
        let symbols = pod::slice_from_bytes::<Sym64<LittleEndian>>(&symbols, count);
        let (symbols, _) = symbols.map_err(|()| malformed("its symbols are not aligned"))?;

        let base = self.names.len() as u32;
        self.names.extend_from_slice(&strings);
        self.names.push(0);
        let is_full = table == b".symtab";
        for symbol in symbols {
            let Some(index) = symbol.st_shndx.get(ORDER).index() else { continue };
            let home = elf.sections().get(usize::from(index));
            let Some(home) = home.filter(|section| section.is_code() || section.is_data()) else { continue };
            let (start, size) = (symbol.st_value.get(ORDER), symbol.st_size.get(ORDER));
            if !(home.address()..home.end()).contains(&start) {
                continue;
            }
            if is_full && home.is_code() {
                self.bounds.starts.push(start);
            }
            let is_label = match (home.is_code(), symbol.st_type()) {
                (true, elf::STT_FUNC | elf::STT_GNU_IFUNC) | (false, elf::STT_OBJECT) => false,
                (true, elf::STT_NOTYPE) => true,
                _ => continue,
            };
            let is_weak = symbol.st_bind() == elf::STB_WEAK;
            let is_local = !is_weak && !matches!(symbol.st_bind(), elf::STB_GLOBAL | elf::STB_GNU_UNIQUE);
            let offset = symbol.st_name.get(ORDER);
            let name = string_at(&strings, offset);
            if name.is_empty() || name.starts_with(b".L") {
                continue;
            }
            let underscores = name.iter().take_while(|&&byte| byte == b'_').count() as u16;
            let rank = SymbolRank { is_label, is_local, underscores, is_weak, length: name.len() as u16 };
            // A size beyond the end of the section is wrong; the part in the section may be right.
            let end = if size == 0 { 0 } else { start.saturating_add(size).min(home.end()) };
            let symbol = RawSymbol { start, end, name: base + offset, rank };
            match size {
                0 if is_full && home.is_code() => self.endless.push(symbol),
                0 => {}
                _ if home.is_code() => self.sized.push(symbol),
                _ => self.data.push(symbol),
            }
        }
        if is_full {
            let code = elf.sections().iter().filter(|section| section.is_code());
            self.bounds.sections = code.map(|section| (section.address(), section.end())).collect();
        }
        Ok(())
    }

    fn finish(mut self, is_full: bool) -> SymbolTable {
        let names = self.names.into_boxed_slice();
        sort(&mut self.sized, &names);
        sort(&mut self.endless, &names);
        sort(&mut self.data, &names);
        let data = flatten(&self.data).into();
        let mut ranges = flatten(&self.sized);
        fill(&mut ranges, &self.endless, self.bounds);
        let folded = folded(&self.sized, &names);
        SymbolTable { ranges: ranges.into(), data, folded, names, is_full, symbol_bytes: 0 }
    }
}

/// Sorts symbols by address, and the best name for an address last.
fn sort(symbols: &mut [RawSymbol], names: &[u8]) {
    /// The length of the prefix by which equals are sorted.
    const HEAD: usize = 64;
    let head = |symbol: &RawSymbol| {
        let name = string_at(names, symbol.name);
        &name[..name.len().min(HEAD)]
    };
    symbols.sort_unstable_by(|a, b| {
        let by_text = || head(b).cmp(head(a)).then_with(|| b.name.cmp(&a.name));
        a.start.cmp(&b.start).then_with(|| b.rank.cmp(&a.rank)).then_with(by_text)
    });
}

/// Pairs of the names of different functions that have the same code. `symbols` are sorted.
fn folded(symbols: &[RawSymbol], names: &[u8]) -> Box<[(u32, u32)]> {
    let mut pairs = Vec::new();
    for same in symbols.chunk_by(|a, b| a.start == b.start) {
        let Some((best, others)) = same.split_last() else { continue };
        let name = string_at(names, best.name);
        let mut last: &[u8] = name;
        let before = pairs.len();
        for other in others.iter().rev().filter(|other| other.end == best.end && !other.rank.is_label) {
            let text = string_at(names, other.name);
            if text != last && pairs.len() - before < MAX_OTHERS && are_different(name, text) {
                pairs.push((best.name, other.name));
            }
            last = text;
        }
    }
    pairs.sort_unstable();
    pairs.into()
}

/// Whether two names of the same code are those of different functions. Compilers give a
/// constructor two names, and libraries give their functions several plain ones.
fn are_different(a: &[u8], b: &[u8]) -> bool {
    let is_mangled = |name: &[u8]| name.starts_with(b"_Z") || name.starts_with(b"_R");
    let is_variant = |at: usize| matches!(a[..at].last(), Some(b'C' | b'D')) && a[at].is_ascii_digit();
    let mut differences = a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
    is_mangled(a) && is_mangled(b) && (a.len() != b.len() || !differences.all(is_variant))
}

/// Symbols that may nest and overlap as ranges that do not: each address goes to the symbol that
/// begins last before it.
fn flatten(symbols: &[RawSymbol]) -> Vec<SymbolRange> {
    let mut ranges: Vec<SymbolRange> = Vec::with_capacity(symbols.len());
    let mut open: Vec<&RawSymbol> = Vec::new();
    let mut cursor = 0;
    let mut emit = |cursor: &mut u64, end: u64, name: u32| {
        if *cursor >= end {
            return;
        }
        match ranges.last_mut() {
            Some(last) if last.end == *cursor && last.name == name => last.end = end,
            _ => ranges.push(SymbolRange { start: *cursor, end, name }),
        }
        *cursor = end;
    };
    for symbol in symbols {
        while let Some(top) = open.pop_if(|top| top.end <= symbol.start) {
            emit(&mut cursor, top.end, top.name);
        }
        if let Some(top) = open.last() {
            emit(&mut cursor, symbol.start, top.name);
        }
        cursor = symbol.start;
        open.push(symbol);
    }
    while let Some(top) = open.pop() {
        emit(&mut cursor, top.end, top.name);
    }
    ranges
}

/// Gives symbols without size the gap behind them.
fn fill(ranges: &mut Vec<SymbolRange>, symbols: &[RawSymbol], mut bounds: Bounds) {
    bounds.starts.sort_unstable();
    bounds.sections.sort_unstable();
    let covered = ranges.len();
    // The best name of an address comes last; only that one is asked for.
    for same in symbols.chunk_by(|a, b| a.start == b.start) {
        let Some(symbol) = same.last() else { continue };
        let start = symbol.start;
        let next_piece = ranges[..covered].partition_point(|range| range.end <= start);
        let next_piece = ranges[..covered].get(next_piece).map_or(u64::MAX, |range| range.start);
        let next_start = bounds.starts.partition_point(|&other| other <= start);
        let next_start = bounds.starts.get(next_start).copied().unwrap_or(u64::MAX);
        let section = bounds.sections.partition_point(|&(section, _)| section <= start);
        let section_end = section.checked_sub(1).map_or(start, |index| bounds.sections[index].1);
        let end = next_piece.min(next_start).min(section_end);
        if start < end {
            ranges.push(SymbolRange { start, end, name: symbol.name });
        }
    }
    ranges.sort_by_key(|range| range.start);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBAL: SymbolRank =
        SymbolRank { is_label: false, is_local: false, underscores: 0, is_weak: false, length: 1 };

    /// Pieces of symbols given as name, start and end.
    fn ranges(symbols: &[(u32, u64, u64, SymbolRank)]) -> Vec<(u64, u64, u32)> {
        let symbol = |&(name, start, end, rank): &(u32, u64, u64, SymbolRank)| RawSymbol { start, end, name, rank };
        let mut symbols: Vec<RawSymbol> = symbols.iter().map(symbol).collect();
        sort(&mut symbols, &[]);
        flatten(&symbols).iter().map(|range| (range.start, range.end, range.name)).collect()
    }

    #[test]
    fn gaps_stay_gaps() {
        assert_eq!(ranges(&[(1, 10, 20, GLOBAL), (2, 25, 30, GLOBAL)]), [(10, 20, 1), (25, 30, 2)]);
    }

    #[test]
    fn the_innermost_symbol_counts() {
        let nested = [(1, 0, 100, GLOBAL), (2, 10, 50, GLOBAL), (3, 20, 30, GLOBAL)];
        assert_eq!(ranges(&nested), [(0, 10, 1), (10, 20, 2), (20, 30, 3), (30, 50, 2), (50, 100, 1)]);
        let crossing = [(1, 0, 20, GLOBAL), (2, 10, 30, GLOBAL)];
        assert_eq!(ranges(&crossing), [(0, 10, 1), (10, 30, 2)]);
        let inside_both = [(1, 0, 50, GLOBAL), (2, 10, 20, GLOBAL), (3, 15, 60, GLOBAL)];
        assert_eq!(ranges(&inside_both), [(0, 10, 1), (10, 15, 2), (15, 60, 3)]);
    }

    #[test]
    fn of_aliases_one_is_chosen_whatever_their_order() {
        let weak = SymbolRank { is_weak: true, ..GLOBAL };
        let local = SymbolRank { is_local: true, ..GLOBAL };
        let label = SymbolRank { is_label: true, ..GLOBAL };
        let hidden = SymbolRank { underscores: 2, ..GLOBAL };
        let long = SymbolRank { length: 9, ..GLOBAL };
        for worse in [weak, local, label, hidden, long] {
            assert_eq!(ranges(&[(1, 0, 10, GLOBAL), (2, 0, 10, worse)]), [(0, 10, 1)]);
            assert_eq!(ranges(&[(2, 0, 10, worse), (1, 0, 10, GLOBAL)]), [(0, 10, 1)]);
            // The worse one is better than none.
            assert_eq!(ranges(&[(2, 0, 15, worse), (1, 0, 10, GLOBAL)]), [(0, 10, 1), (10, 15, 2)]);
        }
    }

    #[test]
    fn public_name_is_chosen_though_it_is_weak() {
        let (fwrite, io_fwrite) = (SymbolRank { is_weak: true, ..GLOBAL }, SymbolRank { underscores: 1, ..GLOBAL });
        assert_eq!(ranges(&[(1, 0, 10, fwrite), (2, 0, 10, io_fwrite)]), [(0, 10, 1)]);
        let local = SymbolRank { is_local: true, ..GLOBAL };
        assert_eq!(ranges(&[(1, 0, 10, io_fwrite), (2, 0, 10, local)]), [(0, 10, 1)]);
    }

    #[test]
    fn a_symbol_without_size_fills_the_gap_behind_it() {
        let filled = |start: u64, starts: &[u64]| {
            let mut ranges =
                vec![SymbolRange { start: 10, end: 20, name: 1 }, SymbolRange { start: 40, end: 50, name: 2 }];
            let bounds = Bounds { sections: vec![(0, 60), (70, 90)], starts: starts.to_vec() };
            fill(&mut ranges, &[RawSymbol { start, end: 0, name: 3, rank: GLOBAL }], bounds);
            ranges.iter().find(|range| range.name == 3).map(|range| (range.start, range.end))
        };
        assert_eq!(filled(20, &[10, 20, 40]), Some((20, 40)), "up to the next sized symbol");
        assert_eq!(filled(22, &[22, 30]), Some((22, 30)), "up to the next symbol of any rank");
        assert_eq!(filled(52, &[]), Some((52, 60)), "up to the end of the section");
        assert_eq!(filled(72, &[72]), Some((72, 90)));
        assert_eq!(filled(12, &[]), None, "not inside of a sized symbol");
        assert_eq!(filled(65, &[]), None, "not outside of all sections");
    }
}

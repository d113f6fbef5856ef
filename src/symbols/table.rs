//! The functions of one file by address, from its symbol tables. An address has a name only inside of a symbol: what lies
//! between symbols, or in a part that was stripped, has none. Line tables are [`dwarf`](super::dwarf)'s.
//!
//! Where a symbol ends: at its size. Hand-written assembly often gives none; such a symbol reaches
//! to the next symbol of its section, to the next function that the unwind tables have, or to the
//! section's end, in gaps that no sized symbol covers, and only when it comes from a full symbol
//! table (`.symtab`), where everything that could follow has an entry. A stripped file's exports
//! (`.dynsym`) without a size name nothing. Of nested symbols the innermost counts.

use object::elf::{self, Sym64};
use object::{LittleEndian, pod};

use super::elf::{Elf, ORDER, string_at};
use super::error::Error;
use super::frames;
use super::plt;

/// Bytes of the symbol tables of one file, in the file.
pub(super) const MAX_BYTES: u64 = 512 << 20;

/// Functions of one file.
pub(super) struct SymbolTable {
    /// By address, without overlaps.
    pieces: Box<[Piece]>,
    /// The names, each ended by a NUL.
    names: Box<[u8]>,
    is_full: bool,
}

/// Addresses that have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    name: u32,
}

/// One symbol, before overlaps are resolved. `end` is 0 when it has no size.
struct Symbol {
    start: u64,
    end: u64,
    name: u32,
    kind: Kind,
}

/// What makes one of several names for the same code the better one; the least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_label: bool,
    is_local: bool,
    /// Underscores in front: the public one of two names has fewer.
    underscores: u16,
    is_weak: bool,
    length: u16,
}

/// Where a symbol without size ends at the latest.
#[derive(Default)]
struct Bounds {
    /// Starts and ends of sections with code.
    sections: Vec<(u64, u64)>,
    /// Starts of all symbols in them, of any type, and of all functions that the unwind tables
    /// have.
    starts: Vec<u64>,
}

impl SymbolTable {
    /// Reads the symbols of a file, and of its debug file if it was stripped.
    pub(super) fn read(file: &Elf, debug: Option<&Elf>) -> Result<SymbolTable, Error> {
        let mut reader = Reader::default();
        let full = [Some(file), debug].into_iter().flatten().find(|elf| elf.section(b".symtab").is_some());
        if let Some(elf) = full {
            reader.read(elf, b".symtab")?;
        }
        // Exports can be damaged or missing without harm to the rest, and the other way round they are all there is.
        match reader.read(file, b".dynsym") {
            Err(error) if full.is_none() => return Err(error),
            _ => {}
        }
        if full.is_some() {
            reader.bounds.starts.extend(frames::starts(file));
        }
        let mut table = reader.finish(full.is_some());
        let stubs = plt::stubs(file, |address| table.name(address));
        table.add_stubs(stubs);
        Ok(table)
    }

    /// The raw name of the function at an address of the file, or none.
    pub(super) fn name(&self, address: u64) -> Option<&[u8]> {
        self.function(address).map(|(_, _, name)| name)
    }

    /// Start and end of the function at an address of the file, and its raw name. Where another is nested in it, it is the
    /// part on this side of that.
    pub(super) fn function(&self, address: u64) -> Option<(u64, u64, &[u8])> {
        let index = self.pieces.partition_point(|piece| piece.start <= address).checked_sub(1)?;
        let piece = self.pieces[index];
        (address < piece.end).then(|| (piece.start, piece.end, string_at(&self.names, piece.name)))
    }

    /// Functions with a name, each counted where it begins.
    pub(super) fn functions(&self) -> usize {
        let names = self.pieces.iter().map(|piece| piece.name);
        names.collect::<std::collections::HashSet<u32>>().len()
    }

    /// Whether local functions are in it, and not only what the file exports.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Memory it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.pieces.len() * size_of::<Piece>() + self.names.len()) as u64
    }

    /// Names stubs that no symbol covers.
    fn add_stubs(&mut self, stubs: Vec<plt::Stub>) {
        let mut names = std::mem::take(&mut self.names).into_vec();
        let mut pieces = std::mem::take(&mut self.pieces).into_vec();
        let covered = pieces.len();
        for stub in stubs {
            let next = pieces[..covered].partition_point(|piece| piece.end <= stub.start);
            let is_free = pieces[..covered].get(next).is_none_or(|piece| stub.end <= piece.start);
            let Ok(name) = u32::try_from(names.len()) else { break };
            if is_free {
                names.extend_from_slice(&stub.name);
                names.extend_from_slice(b"@plt\0");
                pieces.push(Piece { start: stub.start, end: stub.end, name });
            }
        }
        pieces.sort_by_key(|piece| piece.start);
        // Stubs of damaged files may overlap each other.
        let mut end = 0;
        pieces.retain(|piece| {
            let keep = piece.start >= end;
            end = if keep { piece.end } else { end };
            keep
        });
        self.names = names.into();
        self.pieces = pieces.into();
    }
}

/// Collects symbols of several tables.
#[derive(Default)]
struct Reader {
    names: Vec<u8>,
    sized: Vec<Symbol>,
    endless: Vec<Symbol>,
    bounds: Bounds,
}

impl Reader {
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
            let Some(home) = elf.sections().get(usize::from(index)).filter(|section| section.is_code()) else {
                continue;
            };
            let (start, size) = (symbol.st_value.get(ORDER), symbol.st_size.get(ORDER));
            if !(home.address()..home.end()).contains(&start) {
                continue;
            }
            if is_full {
                self.bounds.starts.push(start);
            }
            let is_label = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => false,
                elf::STT_NOTYPE => true,
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
            let kind = Kind { is_label, is_local, underscores, is_weak, length: name.len() as u16 };
            // A size that leaves the section is a lie; what is in the section may still be true.
            let end = if size == 0 { 0 } else { start.saturating_add(size).min(home.end()) };
            let symbol = Symbol { start, end, name: base + offset, kind };
            match size {
                0 if is_full => self.endless.push(symbol),
                0 => {}
                _ => self.sized.push(symbol),
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
        let mut pieces = flatten(&self.sized);
        fill(&mut pieces, &self.endless, self.bounds);
        SymbolTable { pieces: pieces.into(), names, is_full }
    }
}

/// By address, and the best name for an address last.
fn sort(symbols: &mut [Symbol], names: &[u8]) {
    /// Enough of a name to put equals in order.
    const HEAD: usize = 64;
    let head = |symbol: &Symbol| {
        let name = string_at(names, symbol.name);
        &name[..name.len().min(HEAD)]
    };
    symbols.sort_unstable_by(|a, b| {
        let by_text = || head(b).cmp(head(a)).then_with(|| b.name.cmp(&a.name));
        a.start.cmp(&b.start).then_with(|| b.kind.cmp(&a.kind)).then_with(by_text)
    });
}

/// Symbols that may nest and overlap as pieces that do not: each address goes to the symbol that begins last before it.
fn flatten(symbols: &[Symbol]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(symbols.len());
    let mut open: Vec<&Symbol> = Vec::new();
    let mut cursor = 0;
    let mut emit = |cursor: &mut u64, end: u64, name: u32| {
        if *cursor >= end {
            return;
        }
        match pieces.last_mut() {
            Some(last) if last.end == *cursor && last.name == name => last.end = end,
            _ => pieces.push(Piece { start: *cursor, end, name }),
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
    pieces
}

/// Gives symbols without size the gap behind them.
fn fill(pieces: &mut Vec<Piece>, symbols: &[Symbol], mut bounds: Bounds) {
    bounds.starts.sort_unstable();
    bounds.sections.sort_unstable();
    let covered = pieces.len();
    // The best name of an address comes last; only that one is asked for.
    for same in symbols.chunk_by(|a, b| a.start == b.start) {
        let Some(symbol) = same.last() else { continue };
        let start = symbol.start;
        let next_piece = pieces[..covered].partition_point(|piece| piece.end <= start);
        let next_piece = pieces[..covered].get(next_piece).map_or(u64::MAX, |piece| piece.start);
        let next_start = bounds.starts.partition_point(|&other| other <= start);
        let next_start = bounds.starts.get(next_start).copied().unwrap_or(u64::MAX);
        let section = bounds.sections.partition_point(|&(section, _)| section <= start);
        let section_end = section.checked_sub(1).map_or(start, |index| bounds.sections[index].1);
        let end = next_piece.min(next_start).min(section_end);
        if start < end {
            pieces.push(Piece { start, end, name: symbol.name });
        }
    }
    pieces.sort_by_key(|piece| piece.start);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBAL: Kind = Kind { is_label: false, is_local: false, underscores: 0, is_weak: false, length: 1 };

    /// Pieces of symbols given as name, start and end.
    fn pieces(symbols: &[(u32, u64, u64, Kind)]) -> Vec<(u64, u64, u32)> {
        let symbol = |&(name, start, end, kind): &(u32, u64, u64, Kind)| Symbol { start, end, name, kind };
        let mut symbols: Vec<Symbol> = symbols.iter().map(symbol).collect();
        sort(&mut symbols, &[]);
        flatten(&symbols).iter().map(|piece| (piece.start, piece.end, piece.name)).collect()
    }

    #[test]
    fn gaps_stay_gaps() {
        assert_eq!(pieces(&[(1, 10, 20, GLOBAL), (2, 25, 30, GLOBAL)]), [(10, 20, 1), (25, 30, 2)]);
    }

    #[test]
    fn the_innermost_symbol_counts() {
        let nested = [(1, 0, 100, GLOBAL), (2, 10, 50, GLOBAL), (3, 20, 30, GLOBAL)];
        assert_eq!(pieces(&nested), [(0, 10, 1), (10, 20, 2), (20, 30, 3), (30, 50, 2), (50, 100, 1)]);
        let crossing = [(1, 0, 20, GLOBAL), (2, 10, 30, GLOBAL)];
        assert_eq!(pieces(&crossing), [(0, 10, 1), (10, 30, 2)]);
        let inside_both = [(1, 0, 50, GLOBAL), (2, 10, 20, GLOBAL), (3, 15, 60, GLOBAL)];
        assert_eq!(pieces(&inside_both), [(0, 10, 1), (10, 15, 2), (15, 60, 3)]);
    }

    #[test]
    fn of_aliases_one_is_chosen_whatever_their_order() {
        let weak = Kind { is_weak: true, ..GLOBAL };
        let local = Kind { is_local: true, ..GLOBAL };
        let label = Kind { is_label: true, ..GLOBAL };
        let hidden = Kind { underscores: 2, ..GLOBAL };
        let long = Kind { length: 9, ..GLOBAL };
        for worse in [weak, local, label, hidden, long] {
            assert_eq!(pieces(&[(1, 0, 10, GLOBAL), (2, 0, 10, worse)]), [(0, 10, 1)]);
            assert_eq!(pieces(&[(2, 0, 10, worse), (1, 0, 10, GLOBAL)]), [(0, 10, 1)]);
            // The worse one is better than none.
            assert_eq!(pieces(&[(2, 0, 15, worse), (1, 0, 10, GLOBAL)]), [(0, 10, 1), (10, 15, 2)]);
        }
    }

    #[test]
    fn public_name_is_chosen_though_it_is_weak() {
        let (fwrite, io_fwrite) = (Kind { is_weak: true, ..GLOBAL }, Kind { underscores: 1, ..GLOBAL });
        assert_eq!(pieces(&[(1, 0, 10, fwrite), (2, 0, 10, io_fwrite)]), [(0, 10, 1)]);
        let local = Kind { is_local: true, ..GLOBAL };
        assert_eq!(pieces(&[(1, 0, 10, io_fwrite), (2, 0, 10, local)]), [(0, 10, 1)]);
    }

    #[test]
    fn a_symbol_without_size_fills_the_gap_behind_it() {
        let filled = |start: u64, starts: &[u64]| {
            let mut pieces = vec![Piece { start: 10, end: 20, name: 1 }, Piece { start: 40, end: 50, name: 2 }];
            let bounds = Bounds { sections: vec![(0, 60), (70, 90)], starts: starts.to_vec() };
            fill(&mut pieces, &[Symbol { start, end: 0, name: 3, kind: GLOBAL }], bounds);
            pieces.iter().find(|piece| piece.name == 3).map(|piece| (piece.start, piece.end))
        };
        assert_eq!(filled(20, &[10, 20, 40]), Some((20, 40)), "up to the next sized symbol");
        assert_eq!(filled(22, &[22, 30]), Some((22, 30)), "up to the next symbol of any kind");
        assert_eq!(filled(52, &[]), Some((52, 60)), "up to the end of the section");
        assert_eq!(filled(72, &[72]), Some((72, 90)));
        assert_eq!(filled(12, &[]), None, "not inside of a sized symbol");
        assert_eq!(filled(65, &[]), None, "not outside of all sections");
    }

    #[test]
    fn stubs_are_named_where_no_symbol_is() {
        let pieces = Box::new([Piece { start: 16, end: 32, name: 0 }]);
        let mut table = SymbolTable { pieces, names: Box::new(*b"real\0"), is_full: true };
        let stub = |start: u64, name: &[u8]| plt::Stub { start, end: start + 16, name: name.into() };
        table.add_stubs(vec![stub(0, b"puts"), stub(16, b"exit"), stub(8, b"crossing"), stub(32, b"read")]);
        let names: Vec<&[u8]> = [0, 15, 16, 31, 32, 47].into_iter().filter_map(|address| table.name(address)).collect();
        assert_eq!(names, [&b"puts@plt"[..], b"puts@plt", b"real", b"real", b"read@plt", b"read@plt"]);
        assert_eq!(table.name(48), None);
    }
}

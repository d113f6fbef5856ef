//! Code without a symbol in a table of functions: stubs that call other libraries, functions that
//! only the unwind tables of a stripped file know, and what lies between those.
//!
//! Functions are called by the place where they start, `libc.so.6+0x1050`, so that each is one row.
//! Assembly has no entry in unwind tables; what lies between two functions is one row, too.

use std::collections::HashMap;

use super::plt::PltStub;
use super::table::{SymbolRange, SymbolTable};

/// Alignment of functions in files.
const FUNCTION_ALIGNMENT: u64 = 16;

impl SymbolTable {
    /// Adds names for stubs that no symbol covers.
    pub(super) fn add_stubs(&mut self, stubs: Vec<PltStub>) {
        let mut names = std::mem::take(&mut self.names).into_vec();
        let mut added = Vec::new();
        for stub in stubs {
            let next = self.ranges.partition_point(|range| range.end <= stub.start);
            let is_free = self.ranges.get(next).is_none_or(|range| stub.end <= range.start);
            let Ok(name) = u32::try_from(names.len()) else { break };
            if is_free {
                names.extend_from_slice(&stub.name);
                names.extend_from_slice(b"@plt\0");
                added.push(SymbolRange { start: stub.start, end: stub.end, name });
            }
        }
        self.add(names, added);
    }

    /// Adds functions without a symbol, where no symbol covers their start. `functions` are sorted.
    /// `parts` has the starts of those that are parts of others: they have the names of these.
    pub(super) fn add_nameless(&mut self, functions: &[(u64, u64)], parts: &HashMap<u64, u64>, module: &str) {
        let mut names = std::mem::take(&mut self.names).into_vec();
        let (mut added, mut last) = (Vec::new(), 0);
        for (index, &(start, end)) in functions.iter().enumerate() {
            let next = self.ranges.partition_point(|range| range.end <= start);
            let next = self.ranges.get(next).map_or(u64::MAX, |range| range.start);
            let following = functions.get(index + 1).map_or(u64::MAX, |next| next.0);
            let end = end.min(next).min(following);
            let Ok(name) = u32::try_from(names.len()) else { break };
            if start < end && start >= last {
                let whole = parts.get(&start).and_then(|&whole| self.range(whole));
                if whole.is_none() {
                    names.extend(format!("{module}+{start:#x}\0").into_bytes());
                }
                added.push(SymbolRange { start, end, name: whole.map_or(name, |whole| whole.name) });
                last = end;
            }
        }
        self.add(names, added);
    }

    /// Adds the code between functions of the unwind tables, in these sections: assembly without
    /// tables. Each gap is called by its first aligned address. What is shorter is padding.
    pub(super) fn add_gaps(
        &mut self,
        sections: impl Iterator<Item = (u64, u64)>,
        module: &str,
        is_padding: impl Fn(u64, u64) -> bool,
    ) {
        let mut names = std::mem::take(&mut self.names).into_vec();
        let mut added = Vec::new();
        for (start, end) in sections {
            let first = self.ranges.partition_point(|range| range.end <= start);
            let inside = self.ranges[first..].iter().take_while(|range| range.start < end);
            let mut cursor = start;
            for (next, after) in inside.map(|range| (range.start, range.end)).chain([(end, end)]) {
                let aligned = cursor.checked_next_multiple_of(FUNCTION_ALIGNMENT).unwrap_or(u64::MAX);
                let Ok(name) = u32::try_from(names.len()) else { break };
                let is_long = aligned.checked_add(FUNCTION_ALIGNMENT).is_some_and(|least| least <= next);
                if is_long && !is_padding(cursor, next) {
                    names.extend(format!("{module}+{aligned:#x}\0").into_bytes());
                    added.push(SymbolRange { start: cursor, end: next, name });
                }
                cursor = cursor.max(after);
            }
        }
        self.add(names, added);
    }

    /// Adds ranges whose names are in `names`, which takes the place of the table's.
    fn add(&mut self, names: Vec<u8>, added: Vec<SymbolRange>) {
        let mut ranges = [std::mem::take(&mut self.ranges).into_vec(), added].concat();
        ranges.sort_by_key(|range| range.start);
        // The stubs and sections of a damaged file may overlap.
        let mut end = 0;
        ranges.retain(|range| {
            let keep = range.start >= end;
            end = if keep { range.end } else { end };
            keep
        });
        (self.names, self.ranges) = (names.into(), ranges.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: each address of assembly in a stripped file was a row of its own.
    #[test]
    fn code_between_functions_is_one_row() {
        let range = |start, end| SymbolRange { start, end, name: 0 };
        let ranges = Box::new([range(0x1000, 0x1035), range(0x1040, 0x1044), range(0x1100, 0x1120)]);
        let names = Box::new(*b"real\0");
        let mut table = SymbolTable {
            ranges,
            data: Box::default(),
            folded: Box::default(),
            names,
            is_full: false,
            symbol_bytes: 5,
        };
        table.add_gaps([(0x1000, 0x1200), (0x3000, 0x3010), (0x4000, 0x4040)].into_iter(), "a", |start, _| {
            start == 0x4000
        });
        let name = |address| table.name(address).map(|name| String::from_utf8_lossy(name).into_owned());
        let found = [0x1034, 0x1038, 0x1044, 0x10ff, 0x1100, 0x1120, 0x11ff, 0x1200, 0x3004, 0x4010].map(name);
        let (real, first, second, third) = (Some("real"), Some("a+0x1050"), Some("a+0x1120"), Some("a+0x3000"));
        let expected = [real, None, first, first, real, second, second, None, third, None];
        assert_eq!(found.each_ref().map(|name| name.as_deref()), expected);
        assert_eq!(table.functions(), 1);
    }

    #[test]
    fn stubs_are_named_where_no_symbol_is() {
        let ranges = Box::new([SymbolRange { start: 16, end: 32, name: 0 }]);
        let mut table = SymbolTable {
            ranges,
            data: Box::default(),
            folded: Box::default(),
            names: Box::new(*b"real\0"),
            is_full: true,
            symbol_bytes: 5,
        };
        let stub = |start: u64, name: &[u8]| PltStub { start, end: start + 16, name: name.into() };
        table.add_stubs(vec![stub(0, b"puts"), stub(16, b"exit"), stub(8, b"crossing"), stub(32, b"read")]);
        let names: Vec<&[u8]> = [0, 15, 16, 31, 32, 47].into_iter().filter_map(|address| table.name(address)).collect();
        assert_eq!(names, [&b"puts@plt"[..], b"puts@plt", b"real", b"real", b"read@plt", b"read@plt"]);
        assert_eq!(table.name(48), None);
    }

    #[test]
    fn functions_without_symbol_are_called_by_their_start() {
        let ranges = Box::new([SymbolRange { start: 0x20, end: 0x30, name: 0 }]);
        let mut table = SymbolTable {
            ranges,
            data: Box::default(),
            folded: Box::default(),
            names: Box::new(*b"real\0"),
            is_full: false,
            symbol_bytes: 5,
        };
        let functions = [(0x10, 0x28), (0x20, 0x30), (0x2c, 0x40), (0x40, 0x60), (0x50, 0x60)];
        table.add_nameless(&functions, &HashMap::new(), "a.so");
        let name = |address| table.name(address).map(|name| String::from_utf8_lossy(name).into_owned());
        let names = [0xf, 0x10, 0x1f, 0x20, 0x2f, 0x30, 0x4f, 0x50, 0x5f, 0x60].map(name);
        let names = names.each_ref().map(|name| name.as_deref());
        let [a, c, d] = ["a.so+0x10", "a.so+0x40", "a.so+0x50"].map(Some);
        let real = Some("real");
        assert_eq!(names, [None, a, a, real, real, None, c, d, d, None]);
        assert_eq!(table.functions(), 1);
    }
}

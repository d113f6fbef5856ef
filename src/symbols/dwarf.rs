//! Line tables and inlined calls of one file, read by addr2line. The caller finds the file and
//! looks up the symbol. Where the file has an index of its units, only those of the addresses are
//! parsed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use addr2line::gimli::{self, AbbreviationsCacheStrategy, Dwarf, DwarfSections, SectionId};

use super::demangle::Demangler;
use super::dropped_code::CodeRanges;
use super::elf::Elf;
use super::error::Error;
use super::resolved::{KnownSymbol, ResolvedLine};
use super::section::{DebugSection, SectionLimits, SectionReader};
use super::split_dwarf::SplitDwarf;
use super::unit_index::{UnitIndex, UnitMatch, UnitSpan};
use super::unit_lines::UnitLines;

/// Maximum size of debug information of one file that is read.
pub(super) const MAX_BYTES: u64 = 2 << 30;

/// Whether a file has debug information.
pub(super) fn is_in(elf: &Elf) -> bool {
    elf.section(SectionId::DebugInfo.name().as_bytes()).is_some()
}

/// Returns whether the debug information of a file has line tables. Nothing is unpacked.
///
/// # Errors
/// A section is too large, so nothing of it is read.
pub(super) fn has_line_tables(elf: &Elf) -> Result<bool, Error> {
    let mut packed_bytes = 0;
    for section in NEEDED.iter().filter_map(|id| elf.section(id.name().as_bytes())) {
        let (is_packed, bytes) = elf.size(section)?;
        packed_bytes += if is_packed { bytes } else { 0 };
        let bytes = bytes.max(packed_bytes);
        if bytes > MAX_BYTES {
            return Err(Error::TooLarge { path: elf.path.clone(), bytes, limit_bytes: MAX_BYTES });
        }
    }
    Ok(elf.section(SectionId::DebugLine.name().as_bytes()).is_some())
}

/// The debug sections of one file.
pub(super) struct DebugSections {
    own: DwarfSections<DebugSection>,
    /// The sections of the file with shared debug information.
    shared: Option<DwarfSections<DebugSection>>,
    /// The parts in other files.
    split: SplitDwarf,
    limits: Rc<SectionLimits>,
}

impl DebugSections {
    /// Opens the sections of a file, and of the one with its shared debug information. Those that
    /// are packed may have `room_bytes`. Process `pid` knows the file by `name`.
    pub(super) fn open(
        elf: &Elf,
        shared: Option<&Elf>,
        (name, pid): (&Path, u32),
        room_bytes: u64,
    ) -> Result<DebugSections, Error> {
        let limits = Rc::new(SectionLimits::new(room_bytes, CodeRanges::of(elf)));
        let own = open_all(elf, &limits)?;
        let shared = shared.map(|elf| open_all(elf, &limits)).transpose()?;
        limits.set_room(MAX_BYTES);
        let split = SplitDwarf::new(elf, name, pid, &limits);
        Ok(DebugSections { own, shared, split, limits })
    }

    fn dwarf(&self) -> Dwarf<SectionReader<'_>> {
        self.own.borrow_with_sup(self.shared.as_ref(), DebugSection::reader)
    }

    /// The memory of what was read, and of its tables.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.limits.used_bytes()
    }
}

fn open_all(elf: &Elf, limits: &Rc<SectionLimits>) -> Result<DwarfSections<DebugSection>, Error> {
    let mut file = None;
    DwarfSections::load(|id| match elf.section(id.name().as_bytes()) {
        Some(section) if NEEDED.contains(&id) => DebugSection::open(elf, &mut file, (id, section), limits),
        _ => Ok(DebugSection::default()),
    })
}

/// The sections that have lines or inlined calls; others have types and variables.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The lines of one file by address.
pub(super) struct DwarfLines<'a> {
    sections: &'a DebugSections,
    /// The units by address, if the file tells.
    index: Option<UnitIndex>,
    /// The units that were parsed alone, by their offset, and those that refer to others.
    units: RefCell<HashMap<u32, Rc<UnitLines<'a>>>>,
    /// All units; `None` if they are malformed.
    whole: OnceCell<Option<Rc<UnitLines<'a>>>>,
    names: Rc<Demangler>,
}

impl<'a> DwarfLines<'a> {
    /// Reads the index of the units, or indexes them.
    pub(super) fn new(sections: &'a DebugSections) -> Result<DwarfLines<'a>, gimli::Error> {
        sections.limits.budget.start();
        let index = match sections.shared {
            None => UnitIndex::read(&sections.dwarf(), &sections.limits.code).ok().flatten(),
            // Units refer to the shared debug information, which is parsed whole.
            Some(_) => None,
        };
        let (units, whole, names) = (RefCell::default(), OnceCell::new(), Rc::default());
        let lines = DwarfLines { sections, index, units, whole, names };
        if lines.index.is_none() {
            let whole = lines.parse_whole()?;
            let _ = lines.whole.set(Some(Rc::new(whole)));
        }
        Ok(lines)
    }

    /// Whether the work budget is spent. Later lookups fail.
    pub(super) fn is_exhausted(&self) -> bool {
        self.sections.limits.budget.is_empty()
    }

    /// Returns the functions at an address of the file, innermost first; none if unknown. `symbol`
    /// is the name from the symbol table.
    pub(super) fn at(&self, address: u64, symbol: Option<&KnownSymbol>) -> Vec<ResolvedLine> {
        // addr2line requires that the next address exists. There is no code at the last one.
        if address == u64::MAX {
            return Vec::new();
        }
        self.sections.limits.budget.start();
        // After an error the outermost function is missing, so the frames before it are dropped.
        let frames = |lines: Option<Rc<UnitLines<'a>>>| {
            lines.and_then(|lines| lines.frames(address, symbol).ok()).unwrap_or_default()
        };
        match self.index.as_ref().map_or(UnitMatch::Several, |index| index.find(address)) {
            UnitMatch::One(unit) => frames(self.unit(unit)),
            UnitMatch::Several => frames(self.whole()),
            UnitMatch::None { unlisted } => {
                let found = unlisted.iter().map(|&unit| frames(self.unit(unit)));
                found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
            }
        }
    }

    /// Returns the lines of one unit, or of all if it refers to others.
    fn unit(&self, unit: UnitSpan) -> Option<Rc<UnitLines<'a>>> {
        if let Some(known) = self.units.borrow().get(&unit.start) {
            return Some(Rc::clone(known));
        }
        let alone = unit.alone(self.sections.dwarf(), &self.sections.limits.code).ok().flatten();
        let alone = alone.and_then(|dwarf| UnitLines::new(dwarf, &self.names, &self.sections.split).ok());
        let lines = alone.map(Rc::new).or_else(|| self.whole())?;
        self.units.borrow_mut().insert(unit.start, Rc::clone(&lines));
        Some(lines)
    }

    fn whole(&self) -> Option<Rc<UnitLines<'a>>> {
        self.whole.get_or_init(|| self.parse_whole().ok().map(Rc::new)).clone()
    }

    fn parse_whole(&self) -> gimli::Result<UnitLines<'a>> {
        let mut dwarf = self.sections.dwarf();
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        self.sections.limits.code.note_bases(&dwarf, 0)?;
        UnitLines::new(dwarf, &self.names, &self.sections.split)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::profile::module::ModuleFile;
    use crate::symbols::object;

    const UNITS: [(&str, &str); 2] = [
        (
            "main.c",
            "int far(int);\nstatic inline int near(int x) {\n  return x * far(x);\n}\nint main(int count, char **words) {\n  \
             (void)words;\n  return near(count) + 7 * near(count + 1);\n}\n",
        ),
        (
            "far.c",
            "static inline int farther(int x) {\n  return x * x;\n}\nint far(int x) {\n  return farther(x) + 3;\n}\n",
        ),
    ];

    /// Calls `check` with the lines of a program of two units, and its addresses.
    fn with_lines(name: &str, flags: &[&str], check: impl FnOnce(&DwarfLines<'_>, std::ops::Range<u64>)) {
        let directory = std::env::temp_dir().join(format!("sigtop-units-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        UNITS.iter().for_each(|(file, text)| fs::write(directory.join(file), text).expect("a source"));
        let path = directory.join("program");
        let sources = UNITS.map(|(file, _)| directory.join(file));
        let built = Command::new("gcc").args(["-g", "-O2"]).args(flags).arg("-o").arg(&path).args(sources).status();
        assert!(built.expect("gcc runs").success());
        let file = ModuleFile { path, build_id: Box::default(), device: 0, inode: 0 };
        let elf = object::open(&file, std::process::id()).expect("a program");
        let sections = DebugSections::open(&elf, None, (&file.path, std::process::id()), MAX_BYTES).expect("sections");
        let size = fs::metadata(&file.path).expect("a file").len();
        check(&DwarfLines::new(&sections).expect("lines"), 0..size);
        fs::remove_dir_all(&directory).expect("ours");
    }

    /// Compares all addresses with those that all units give, and returns how many have lines.
    fn compare(lines: &DwarfLines<'_>, addresses: std::ops::Range<u64>) -> usize {
        let whole = lines.parse_whole().expect("units");
        let has_lines = |&address: &u64| {
            let found = lines.at(address, None);
            let expected = whole.frames(address, None).unwrap_or_default();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{address:#x}");
            !found.is_empty()
        };
        addresses.filter(has_lines).count()
    }

    #[test]
    fn units_alone_have_the_lines_of_all() {
        with_lines("alone", &[], |lines, addresses| {
            assert!(lines.index.is_some(), "gcc writes an index");
            assert!(compare(lines, addresses) > 20);
            assert!(lines.whole.get().is_none() && lines.units.borrow().len() == 2);
        });
    }

    #[test]
    fn a_unit_that_refers_to_others_is_parsed_with_them() {
        with_lines("together", &["-flto"], |lines, addresses| {
            assert!(compare(lines, addresses) > 20);
            assert!(lines.whole.get().is_some());
        });
    }
}

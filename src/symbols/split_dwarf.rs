//! Split debug information: a file has the line tables and a skeleton of each unit, and the rest is
//! in a `.dwo` file beside each object file, or in one `.dwp` package. Its identity is the unit's
//! id, which both parts have.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use addr2line::gimli::{self, Dwarf, DwarfPackageSections, DwarfSections, Reader, ReaderOffsetId, SectionId};

use super::elf::{Elf, MAX_STRING_BYTES};
use super::object::{roots, under};
use super::section::{DebugSection, SectionLimits, SectionReader};

/// Maximum number of `.dwo` files of one file.
const MAX_UNITS: usize = 16_384;

/// Where the split parts of a file are, and those that were read.
pub(super) struct SplitDwarf {
    pid: u32,
    /// The paths of the file, whose packages have the same and `.dwp`.
    files: Vec<PathBuf>,
    package: OnceCell<Option<DwarfPackageSections<DebugSection>>>,
    /// The units do not move, so that parsers can refer to them.
    units: OnceCell<Box<[UnitPlace]>>,
    limits: Rc<SectionLimits>,
    /// The section that a package has instead of one that it lacks.
    empty: DebugSection,
}

/// A place for the sections of one unit.
type UnitPlace = OnceCell<Box<DwarfSections<DebugSection>>>;
type SplitUnit<'a> = Arc<Dwarf<SectionReader<'a>>>;

impl SplitDwarf {
    /// The split parts of a file that process `pid` knows by `name`, and that was opened as `elf`.
    pub(super) fn new(elf: &Elf, name: &Path, pid: u32, limits: &Rc<SectionLimits>) -> SplitDwarf {
        let mut files = vec![elf.path.clone()];
        files.extend(roots(pid).map(|root| under(&root, name)));
        let (package, units) = (OnceCell::new(), OnceCell::new());
        SplitDwarf { pid, files, package, units, limits: Rc::clone(limits), empty: DebugSection::default() }
    }

    /// Returns the split part of a unit, if it is found. The parser demands an `Arc`, but all stays
    /// on one thread.
    #[allow(clippy::arc_with_non_send_sync)]
    pub(super) fn load<'a>(&'a self, load: &SplitDwarfLoad<SectionReader<'a>>) -> Option<SplitUnit<'a>> {
        let package = self.package.get_or_init(|| self.read_package());
        if let Some(package) = package {
            let package = package.borrow(DebugSection::reader, self.empty.reader()).ok()?;
            if let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent) {
                return Some(Arc::new(unit));
            }
        }
        let paths = self.unit_paths(load)?;
        let sections = paths.iter().find_map(|path| {
            let sections = self.read_unit(path)?;
            let dwarf = sections.borrow(DebugSection::reader);
            let header = dwarf.units().next().ok()??;
            let is_sought = dwarf.unit(header).ok()?.dwo_id == Some(load.dwo_id);
            is_sought.then_some(sections)
        })?;
        let places = self.units.get_or_init(|| (0..MAX_UNITS).map(|_| OnceCell::new()).collect());
        let place = places.iter().find(|place| place.get().is_none())?;
        let mut unit = place.get_or_init(|| Box::new(sections)).borrow(DebugSection::reader);
        unit.make_dwo(&load.parent);
        Some(Arc::new(unit))
    }

    /// The paths where a unit's file may be: where the compiler wrote it, and beside the program.
    fn unit_paths(&self, load: &SplitDwarfLoad<SectionReader<'_>>) -> Option<Vec<PathBuf>> {
        let path = |reader: &SectionReader<'_>| {
            let bytes = reader.bytes().ok()?;
            Some(PathBuf::from(OsStr::from_bytes(&bytes)))
        };
        let is_short = |reader: &&SectionReader<'_>| reader.len() < MAX_STRING_BYTES;
        let name = path(load.path.as_ref().filter(is_short)?)?;
        let directory = load.comp_dir.as_ref().filter(is_short).and_then(path).unwrap_or_default();
        let whole = directory.join(&name);
        let mut paths: Vec<PathBuf> = roots(self.pid).map(|root| under(&root, &whole)).collect();
        if let Some(name) = name.file_name() {
            paths.extend(self.files.iter().filter_map(|file| Some(file.parent()?.join(name))));
        }
        paths.retain(|path| path.is_absolute());
        Some(paths)
    }

    fn read_unit(&self, path: &Path) -> Option<DwarfSections<DebugSection>> {
        let elf = Elf::open(path).ok()?;
        DwarfSections::load(|id| match is_needed(id) {
            true => self.section(&elf, id),
            false => Ok(DebugSection::default()),
        })
        .ok()
    }

    fn read_package(&self) -> Option<DwarfPackageSections<DebugSection>> {
        let package = |file: &PathBuf| {
            let mut path = OsString::from(file);
            path.push(".dwp");
            Elf::open(Path::new(&path)).ok()
        };
        let elf = self.files.iter().find_map(package)?;
        // The index of a package refers to every section.
        let mut file = None;
        let section = |id: SectionId| match id.dwo_name().and_then(|name| elf.section(name.as_bytes())) {
            Some(section) => DebugSection::open(&elf, &mut file, (id, section), &self.limits)
                .map_err(|_| gimli::Error::UnexpectedEof(ReaderOffsetId(0))),
            None => Ok(DebugSection::default()),
        };
        DwarfPackageSections::load(section).ok()
    }

    /// Reads a section; an empty one if there is none.
    fn section(&self, elf: &Elf, id: SectionId) -> gimli::Result<DebugSection> {
        let section = id.dwo_name().and_then(|name| elf.section(name.as_bytes()));
        let Some(section) = section else { return Ok(DebugSection::default()) };
        let bytes = elf.bytes(section, self.limits.left_bytes());
        let bytes = bytes.map_err(|_| gimli::Error::UnexpectedEof(ReaderOffsetId(0)))?;
        Ok(DebugSection::whole(bytes, id, &self.limits))
    }
}

/// Whether a section has lines or inlined calls.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugRngLists
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
    )
}

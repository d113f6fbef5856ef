//! Line tables and inlined calls, by addr2line. What is read here is the debug information of one file; where the file is
//! and which symbol stands at an address are known before. Split debug information (`.dwo`) is not read: such files have
//! lines, but no inlined calls.

use std::cell::RefCell;
use std::collections::HashMap;

use addr2line::Context;
use addr2line::gimli::{self, AbbreviationsCacheStrategy, DwarfSections, SectionId, UnitRef};

use super::demangle::{Demangler, Name, is_fortran, plain};
use super::elf::{Elf, MAX_STRING_BYTES};
use super::error::Error;
use super::fuel::{Metered, Tank};
use super::scope::Scopes;
use super::worker::ResolvedLine;

/// Bytes of debug information, unpacked, that are kept, of one file or of all together. What addr2line makes of the units
/// that samples fall into comes on top.
pub(super) const MAX_BYTES: u64 = 2 << 30;

/// Inlined calls at one address.
const MAX_INLINED: usize = 256;

/// Whether a file has debug information.
pub(super) fn is_in(elf: &Elf) -> bool {
    elf.section(SectionId::DebugInfo.name().as_bytes()).is_some()
}

/// The debug sections of one file, unpacked, in memory.
pub(super) struct Sections {
    own: DwarfSections<Vec<u8>>,
    /// Those of the file that it shares with others.
    shared: Option<DwarfSections<Vec<u8>>>,
    tank: Tank,
    bytes: u64,
}

impl Sections {
    /// Reads them from a file, and from the one with its shared debug information, if they have at most `room_bytes`.
    pub(super) fn read(elf: &Elf, shared: Option<&Elf>, room_bytes: u64) -> Result<Sections, Error> {
        let mut left = room_bytes;
        let own = read_all(elf, &mut left)?;
        let shared = shared.map(|elf| read_all(elf, &mut left)).transpose()?;
        let bytes = room_bytes - left;
        Ok(Sections { own, shared, tank: Tank::new(bytes), bytes })
    }

    /// Memory they take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }
}

fn read_all(elf: &Elf, left: &mut u64) -> Result<DwarfSections<Vec<u8>>, Error> {
    DwarfSections::load(|id| match elf.section(id.name().as_bytes()) {
        Some(section) if is_needed(id) => {
            let bytes = elf.bytes(section, *left)?;
            *left -= bytes.len() as u64;
            Ok(bytes)
        }
        _ => Ok(Vec::new()),
    })
}

/// Whether lines and inlined calls are in a section, and not types and variables.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugAranges
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
    )
}

/// Lines of one file, by address.
pub(super) struct Lines<'a> {
    context: Context<Metered<'a>>,
    /// By offset of the unit. `None` where the unit could not be read.
    scopes: RefCell<HashMap<usize, Option<Scopes<'a>>>>,
    names: Demangler,
    tank: &'a Tank,
}

impl<'a> Lines<'a> {
    /// Makes an index of the units of a file.
    pub(super) fn new(sections: &'a Sections) -> Result<Lines<'a>, gimli::Error> {
        sections.tank.start();
        let reader = |bytes: &'a Vec<u8>| Metered::new(bytes, &sections.tank);
        let mut dwarf = sections.own.borrow_with_sup(sections.shared.as_ref(), reader);
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        Ok(Lines {
            context: Context::from_dwarf(dwarf)?,
            scopes: RefCell::default(),
            names: Demangler::default(),
            tank: &sections.tank,
        })
    }

    /// Whether the file's tables took more work than tables can: it has nothing more to say.
    pub(super) fn is_exhausted(&self) -> bool {
        self.tank.is_empty()
    }

    /// The functions at an address of the file, innermost first. `symbol` is the name that the symbol table has there.
    /// Empty when nothing is known.
    pub(super) fn at(&self, address: u64, symbol: Option<&Name>) -> Vec<ResolvedLine> {
        // The last address has no next one, which addr2line does not expect. No code is there.
        if address == u64::MAX {
            return Vec::new();
        }
        self.tank.start();
        // What was found before an error is true, but without the outermost function it is of no use.
        self.frames(address, symbol).unwrap_or_default()
    }

    fn frames(&self, address: u64, symbol: Option<&Name>) -> gimli::Result<Vec<ResolvedLine>> {
        let mut frames = self.context.find_frames(address).skip_all_loads()?;
        let mut lines = Vec::new();
        let mut next = frames.next()?;
        while let Some(frame) = next {
            next = frames.next()?;
            let is_outermost = next.is_none();
            let known = frame.function.as_ref().filter(|function| !function.name.bytes().is_empty());
            let name = match known {
                Some(function) => {
                    let is_cpp = function.language.is_some_and(is_cpp);
                    let is_rust = function.language == Some(gimli::DW_LANG_Rust);
                    let name = self.name(address, function.name.bytes(), is_cpp, frame.dw_die_offset);
                    let symbol = symbol.filter(|_| is_outermost);
                    Some(match symbol {
                        Some(symbol) if is_internal_alias(&name, symbol) => symbol.clone(),
                        _ => agreed(name, symbol.filter(|_| is_cpp || is_rust), is_rust),
                    })
                }
                // The line table knows the place, and nobody but the symbol table the function.
                None if is_outermost => symbol.cloned(),
                None => None,
            };
            let Some(Name { full, short, .. }) = name else { continue };
            let location = frame.location.as_ref();
            let file = super::clean::clean(location.and_then(|location| location.file).unwrap_or_default());
            let line = location.and_then(|location| location.line).unwrap_or(0);
            lines.push(ResolvedLine { full, short, file, line, inlined: !is_outermost });
            if lines.len() > MAX_INLINED {
                return Ok(Vec::new());
            }
        }
        // An outermost frame without any name leaves calls that are inlined into nothing.
        let is_whole = lines.last().is_some_and(|line| !line.inlined);
        Ok(if is_whole { lines } else { Vec::new() })
    }

    fn name(&self, address: u64, raw: &[u8], is_cpp: bool, entry: Option<gimli::UnitOffset>) -> Name {
        let raw = &raw[..raw.len().min(MAX_STRING_BYTES)];
        if raw.starts_with(b"_Z") || raw.starts_with(b"_R") || is_fortran(raw) {
            return self.names.name(raw);
        }
        let text = String::from_utf8_lossy(raw);
        let qualified = entry.filter(|_| is_cpp).and_then(|entry| self.qualified(address, entry, &text));
        plain(qualified.as_deref().unwrap_or(&text), is_cpp)
    }

    /// The name with namespace and class, from the entries around the function's.
    fn qualified(&self, address: u64, entry: gimli::UnitOffset, name: &str) -> Option<String> {
        let unit: UnitRef<'_, _> = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        let offset = unit.header.debug_info_offset()?.0;
        let mut scopes = self.scopes.borrow_mut();
        let scopes = scopes.entry(offset).or_insert_with(|| Scopes::read(unit).ok());
        Some(scopes.as_ref()?.qualify(unit, entry, name))
    }
}

/// A name that debug information has without its parameters, in the symbol table's words if that means the same function.
/// Rust's line tables alone have not even its path, but its generic arguments.
fn agreed(name: Name, symbol: Option<&Name>, is_rust: bool) -> Name {
    let end = if is_rust { name.short.find('<').unwrap_or(name.short.len()) } else { name.short.len() };
    match symbol {
        Some(symbol) if !name.is_mangled && symbol.is_mangled && is_same(&name.short[..end], &symbol.short) => {
            symbol.clone()
        }
        _ => name,
    }
}

/// Whether a C name from debug information is the one that a library calls its own function by, and
/// `symbol` the name that programs call it by: `__GI_abort` and `abort`, `_IO_fwrite` and `fwrite`.
fn is_internal_alias(name: &Name, symbol: &Name) -> bool {
    let is_plain = !name.is_mangled && !symbol.is_mangled && symbol.full == symbol.short;
    let is_alias = name.full.starts_with("__GI_") || name.full.starts_with('_') && name.full.ends_with(&symbol.full);
    is_plain && is_alias
}

/// Whether two short names end in the same part.
fn is_same(a: &str, b: &str) -> bool {
    a.rsplit("::").next() == b.rsplit("::").next()
}

fn is_cpp(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
    )
}

//! Finds the declaration of a function that has no name of its own: a lambda or a closure.

use addr2line::gimli::{self, AttributeValue, DebugInfoOffset, UnitOffset, UnitRef};

use super::cxx_scope::MAX_STEPS;
use super::sanitize::sanitize;
use super::section::SectionReader;

/// The declaration of a function.
#[derive(Clone, Default)]
pub(super) struct Declaration {
    /// Its name without its path: `operator()`, `{closure#0}`, `{async_fn#0}`.
    pub(super) name: String,
    /// The last component of the file's path, and the line; empty if unknown.
    pub(super) place: String,
    /// The entry in another unit that has what is missing here, if there is one: code that was
    /// inlined refers to the function in the unit of its own crate.
    pub(super) elsewhere: Option<DebugInfoOffset>,
}

/// Reads the declaration of the function at an entry, which may refer to others of its unit.
pub(super) fn read(unit: UnitRef<'_, SectionReader<'_>>, entry: UnitOffset) -> gimli::Result<Declaration> {
    let mut declaration = Declaration::default();
    let (mut file, mut line) = (None, None);
    let mut next = Some(entry);
    for _ in 0..MAX_STEPS {
        let Some(offset) = next.take() else { break };
        let mut entries = unit.entries_raw(Some(offset))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { break };
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_name, value) if declaration.name.is_empty() => {
                    let name = unit.attr_string(value)?;
                    declaration.name = String::from_utf8_lossy(&name.bytes()?).into_owned();
                }
                (gimli::DW_AT_decl_file, AttributeValue::FileIndex(index)) => file = file.or(Some(index)),
                (gimli::DW_AT_decl_line, value) => line = line.or(value.udata_value()),
                (gimli::DW_AT_abstract_origin | gimli::DW_AT_specification, AttributeValue::UnitRef(origin)) => {
                    next = Some(origin)
                }
                (gimli::DW_AT_abstract_origin | gimli::DW_AT_specification, AttributeValue::DebugInfoRef(origin)) => {
                    declaration.elsewhere = Some(origin)
                }
                _ => {}
            }
        }
    }
    if let (Some(program), Some(file), Some(line)) = (&unit.line_program, file, line.filter(|&line| line > 0))
        && let Some(file) = program.header().file(file)
    {
        let path = unit.attr_string(file.path_name())?;
        let path = path.bytes()?;
        let path = String::from_utf8_lossy(&path);
        declaration.place = sanitize(&format!("{}:{line}", path.rsplit('/').next().unwrap_or_default()));
    }
    Ok(declaration)
}

/// Reads the declaration of the function at an entry of any unit of the same file as `unit`. It
/// does not refer to further units.
pub(super) fn read_elsewhere(
    unit: UnitRef<'_, SectionReader<'_>>,
    entry: DebugInfoOffset,
) -> gimli::Result<Declaration> {
    let mut headers = unit.dwarf.units();
    while let Some(header) = headers.next()? {
        if let Some(entry) = entry.to_unit_offset(&header) {
            let home = unit.dwarf.unit(header)?;
            return read(UnitRef::new(unit.dwarf, &home), entry);
        }
    }
    Ok(Declaration::default())
}

//! The units of a file by address, from `.debug_aranges`, which GCC and rustc write. The C library
//! has four thousand units: to parse all of them takes most of the time that sigtop needs for a
//! short recording, and of most files a few are asked for.

use std::collections::HashMap;

use addr2line::gimli::{self, DebugInfo, Dwarf, Reader, Section, UnitHeader, UnitType};

use super::dropped_code::CodeRanges;
use super::section::SectionReader;

/// Maximum number of units without addresses in the index. Each is searched for an address that is
/// not in it.
const MAX_UNLISTED: usize = 64;
/// Maximum number of ranges that are compared with an address.
const MAX_OVERLAPS: usize = 64;

/// The place of a unit in `.debug_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitSpan {
    /// The offset of its header.
    pub(super) start: u32,
    len: u32,
}

/// The units at an address.
pub(super) enum UnitMatch<'a> {
    /// The only one.
    One(UnitSpan),
    /// There may be several.
    Several,
    /// None, but for these whose addresses are unknown.
    None { unlisted: &'a [UnitSpan] },
}

/// The units of a file by address.
pub(super) struct UnitIndex {
    /// Ranges by their start.
    ranges: Box<[UnitRange]>,
    /// Units without addresses in the index.
    unlisted: Box<[UnitSpan]>,
}

struct UnitRange {
    start: u64,
    end: u64,
    /// The latest end of this range and those before it.
    latest_end: u64,
    unit: UnitSpan,
}

impl UnitIndex {
    /// Reads the index of a file. Returns `None` if it lacks many units.
    pub(super) fn read(dwarf: &Dwarf<SectionReader<'_>>, code: &CodeRanges) -> gimli::Result<Option<UnitIndex>> {
        let mut spans = HashMap::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let Some(offset) = header.debug_info_offset() else { continue };
            if !matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial) {
                // Sections are smaller than 4 GiB.
                let unit = UnitSpan { start: offset.0 as u32, len: header.length_including_self() as u32 };
                spans.insert(offset.0, (unit, false));
            }
        }
        let mut ranges = Vec::new();
        let mut sets = dwarf.debug_aranges.headers();
        while let Some(set) = sets.next()? {
            let Some((unit, is_listed)) = spans.get_mut(&set.debug_info_offset().0) else { continue };
            let mut entries = set.entries();
            *is_listed = loop {
                match entries.next() {
                    Ok(Some(entry)) if code.contains(entry.address()) && entry.length() > 0 => {
                        let (start, end) = (entry.address(), entry.address().saturating_add(entry.length()));
                        ranges.push(UnitRange { start, end, latest_end: end, unit: *unit });
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
        }
        let mut unlisted: Vec<UnitSpan> =
            spans.into_values().filter(|(_, is_listed)| !is_listed).map(|(unit, _)| unit).collect();
        if unlisted.len() > MAX_UNLISTED {
            return Ok(None);
        }
        unlisted.sort_unstable_by_key(|unit| unit.start);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut latest_end = 0;
        for range in &mut ranges {
            latest_end = range.end.max(latest_end);
            range.latest_end = latest_end;
        }
        Ok(Some(UnitIndex { ranges: ranges.into(), unlisted: unlisted.into() }))
    }

    /// Returns the units at an address.
    pub(super) fn find(&self, address: u64) -> UnitMatch<'_> {
        let mut found = None;
        let before = &self.ranges[..self.ranges.partition_point(|range| range.start <= address)];
        for (count, range) in before.iter().rev().take_while(|range| address < range.latest_end).enumerate() {
            let is_other = address < range.end && found.is_some_and(|unit| unit != range.unit);
            if is_other || count == MAX_OVERLAPS {
                return UnitMatch::Several;
            }
            found = found.or((address < range.end).then_some(range.unit));
        }
        found.map_or(UnitMatch::None { unlisted: &self.unlisted }, UnitMatch::One)
    }
}

impl UnitSpan {
    /// Returns debug information with this unit alone; `None` if the unit refers to others.
    pub(super) fn alone<'a>(
        self,
        mut dwarf: Dwarf<SectionReader<'a>>,
        code: &CodeRanges,
    ) -> gimli::Result<Option<Dwarf<SectionReader<'a>>>> {
        let mut section = *dwarf.debug_info.reader();
        section.skip(self.start as usize)?;
        section.truncate(self.len as usize)?;
        dwarf.debug_info = DebugInfo::from(section);
        // Its offsets are those of the whole section. The unit has its addresses itself.
        let mut none = *dwarf.debug_aranges.reader();
        none.empty();
        dwarf.debug_aranges = none.into();
        let Some(header) = dwarf.units().next()? else { return Ok(None) };
        code.note_bases(&dwarf, self.start)?;
        Ok((!refers_to_others(&dwarf, &header)?).then_some(dwarf))
    }
}

/// Returns whether a unit has attributes that refer to other units, or may have.
fn refers_to_others(dwarf: &Dwarf<SectionReader<'_>>, header: &UnitHeader<SectionReader<'_>>) -> gimli::Result<bool> {
    let mut reader = *dwarf.debug_abbrev.reader();
    reader.skip(header.debug_abbrev_offset().0)?;
    // Code, tag, whether there are children, and attributes, of which the last is empty.
    while reader.read_uleb128()? != 0 {
        reader.read_uleb128()?;
        reader.read_u8()?;
        loop {
            let (name, form) = (reader.read_uleb128()?, reader.read_uleb128_u16()?);
            match gimli::DwForm(form) {
                gimli::DW_FORM_ref_addr
                | gimli::DW_FORM_ref_sup4
                | gimli::DW_FORM_ref_sup8
                | gimli::DW_FORM_GNU_ref_alt
                | gimli::DW_FORM_indirect => return Ok(true),
                gimli::DW_FORM_implicit_const => {
                    reader.read_sleb128()?;
                }
                _ if name == 0 && form == 0 => break,
                _ => {}
            }
        }
    }
    Ok(false)
}

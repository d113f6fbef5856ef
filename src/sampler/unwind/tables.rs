//! The unwind tables of one image.

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindContext, UnwindSection};

use super::expressions::Expressions;
use super::frame_section::{FrameSection, FrameSectionKind, TableBytes};
use super::header_table::{EntryBytes, HeaderTable};
use super::mapped_file::MappedFile;
use crate::process::unwind::{FrameRule, table_row};

/// Result of looking up an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableLookup {
    /// A rule, and the first address (of the file) of the function.
    Rule { rule: FrameRule, function: u64 },
    /// The tables describe the function, but not in a way that can be followed.
    Broken,
    /// The tables do not describe the address.
    Missing,
}

/// The tables of one image. They are opened when they are first needed.
#[derive(Default)]
pub(super) struct ImageTables {
    opened: bool,
    header: Option<HeaderTable>,
    /// `.eh_frame` of an image without a header.
    loaded: Option<FrameSection>,
    /// `.debug_frame`, once an address was not found elsewhere; `None` in it if there is none.
    debug: Option<Option<FrameSection>>,
}

/// The working memory of lookups, for all tables of a process.
#[derive(Default)]
pub(super) struct TableReader {
    context: UnwindContext<usize>,
    /// The expressions to which rules refer.
    pub(super) expressions: Expressions,
}

impl ImageTables {
    /// Looks up an address of the file.
    pub(super) fn find(&mut self, image: &MappedFile, address: u64, reader: &mut TableReader) -> TableLookup {
        self.open(image);
        let entry = self.header.as_mut().and_then(|header| header.entry(image, address));
        let mut found = match (&entry, &self.loaded) {
            (Some(entry), _) => reader.compile_entry(entry, address),
            (None, Some(section)) => reader.compile_in(section, address),
            (None, None) => TableLookup::Missing,
        };
        if found == TableLookup::Missing
            && let Some(section) = self.debug_section(image)
        {
            found = reader.compile_in(section, address);
        }
        found
    }

    fn open(&mut self, image: &MappedFile) {
        if !std::mem::replace(&mut self.opened, true) {
            self.header = image.frame_header.and_then(|(address, size)| HeaderTable::open(image, address, size));
            if self.header.is_none() {
                self.loaded = image.file().and_then(|file| FrameSection::read(file, FrameSectionKind::Loaded));
            }
        }
    }

    fn debug_section(&mut self, image: &MappedFile) -> Option<&FrameSection> {
        self.debug
            .get_or_insert_with(|| image.file().and_then(|file| FrameSection::read(file, FrameSectionKind::Debug)))
            .as_ref()
    }
}

impl TableReader {
    fn compile_entry(&mut self, entry: &EntryBytes, address: u64) -> TableLookup {
        let mut section = EhFrame::new(&entry.bytes, LittleEndian);
        section.set_vendor(table_row::VENDOR);
        section.set_address_size(8);
        let bases = BaseAddresses::default().set_eh_frame(entry.address);
        self.compile(&section, &bases, gimli::EhFrameOffset(entry.entry), address)
    }

    pub(super) fn compile_in(&mut self, section: &FrameSection, address: u64) -> TableLookup {
        let Some(offset) = section.entry(address) else { return TableLookup::Missing };
        let bases = section.bases();
        match section.kind() {
            FrameSectionKind::Loaded => self.compile(&section.loaded(), &bases, offset.into(), address),
            FrameSectionKind::Debug => self.compile(&section.debug(), &bases, offset.into(), address),
        }
    }

    fn compile<'a, S: UnwindSection<TableBytes<'a>>>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        offset: S::Offset,
        address: u64,
    ) -> TableLookup {
        let Ok(entry) = section.fde_from_offset(bases, offset, S::cie_from_offset) else {
            return TableLookup::Broken;
        };
        if !entry.contains(address) {
            return TableLookup::Missing;
        }
        let TableReader { context, expressions } = self;
        let row = entry.unwind_info_for_address(section, bases, context, address);
        let rule = row.ok().and_then(|row| {
            let return_register = entry.cie().return_address_register();
            table_row::frame_rule(row, section, return_register, address, &mut |bytes| expressions.add(bytes))
        });
        rule.map_or(TableLookup::Broken, |rule| TableLookup::Rule { rule, function: entry.initial_address() })
    }
}

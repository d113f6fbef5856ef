//! The unwind tables of one image, and their translation to rules.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Operation, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow,
};

use super::arch::{CALLEE_SAVED, INSTRUCTION_POINTER};
use super::expressions::Expressions;
use super::frame_section::{FrameSection, FrameSectionKind, TableBytes};
use super::header_table::{EntryBytes, HeaderTable};
use super::mapped_file::MappedFile;
use super::rule::{CallerValue, FrameRule};

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
            let mut translation = Translation { section, expressions };
            translation.rule(row, entry.cie().return_address_register())
        });
        rule.map_or(TableLookup::Broken, |rule| TableLookup::Rule { rule, function: entry.initial_address() })
    }
}

/// The translation of a row of the tables.
struct Translation<'a, S> {
    section: &'a S,
    expressions: &'a mut Expressions,
}

impl<'a, S: UnwindSection<TableBytes<'a>>> Translation<'_, S> {
    fn rule(&mut self, row: &UnwindTableRow<usize>, return_register: Register) -> Option<FrameRule> {
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                CallerValue::Register(number(*register)?, i32::try_from(*offset).ok()?)
            }
            CfaRule::Expression(expression) => CallerValue::Expression(self.expression(expression)?),
        };
        let return_address = match row.register(return_register) {
            None => CallerValue::Undefined,
            Some(rule) => self.value(rule)?,
        };
        let mut saved = [CallerValue::Same; CALLEE_SAVED.len()];
        for (value, &register) in saved.iter_mut().zip(&CALLEE_SAVED) {
            if let Some(rule) = row.register(Register(register as u16)) {
                // A register that cannot be recovered ends the walk only where it is needed.
                *value = self.value(rule).unwrap_or(CallerValue::Undefined);
            }
        }
        Some(FrameRule { cfa, return_address, saved })
    }

    fn value(&mut self, rule: RegisterRule<usize>) -> Option<CallerValue> {
        Some(match rule {
            RegisterRule::Undefined => CallerValue::Undefined,
            RegisterRule::SameValue => CallerValue::Same,
            RegisterRule::Offset(offset) => CallerValue::AtCfa(i32::try_from(offset).ok()?),
            RegisterRule::ValOffset(offset) => CallerValue::CfaPlus(i32::try_from(offset).ok()?),
            RegisterRule::Register(register) => CallerValue::Register(number(register)?, 0),
            RegisterRule::Expression(expression) => match self.register_and_offset(&expression) {
                Some((register, offset)) => CallerValue::AtRegister(register, offset),
                None => CallerValue::AtExpression(self.expression(&expression)?),
            },
            RegisterRule::ValExpression(expression) => CallerValue::Expression(self.expression(&expression)?),
            _ => return None,
        })
    }

    /// Returns the register and the offset of an expression that adds them and does nothing else.
    fn register_and_offset(&self, expression: &UnwindExpression<usize>) -> Option<(u8, i32)> {
        let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 8 };
        let mut operations = expression.get(self.section).ok()?.operations(encoding);
        match (operations.next(), operations.next()) {
            (Ok(Some(Operation::RegisterOffset { register, offset, .. })), Ok(None)) => {
                Some((number(register)?, i32::try_from(offset).ok()?))
            }
            _ => None,
        }
    }

    fn expression(&mut self, expression: &UnwindExpression<usize>) -> Option<u32> {
        self.expressions.add(expression.get(self.section).ok()?.0.slice())
    }
}

/// Returns the DWARF number of a general register.
fn number(register: Register) -> Option<u8> {
    u8::try_from(register.0).ok().filter(|&number| usize::from(number) < INSTRUCTION_POINTER)
}

//! Unwind rules: the information that the tables have about one address, in a form that is quick to
//! follow, and one handler's cache of them.
//!
//! A rule is exact or does not exist: where the tables say something that a rule cannot express,
//! the walk ends and reports that.

use alloc::boxed::Box;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr,
    Register, UnwindContext, UnwindSection as _, UnwindTableRow,
};

use crate::agent::unwind::eh_index::Section;
use crate::process::unwind::{CallerValue, PackedRule, table_row};

/// Sizes of gimli's tables: everything fits on the handler's stack, takes a third of gimli's
/// default size, and is faster with cold caches.
pub(crate) struct SmallStorage;

impl<R: gimli::ReaderOffset> gimli::UnwindContextStorage<R> for SmallStorage {
    type Rules = [(gimli::Register, gimli::RegisterRule<R>); 24];
    type Stack = [gimli::UnwindTableRow<R, Self>; 4];
}

type Slice = EndianSlice<'static, LittleEndian>;

/// The parsed unwind tables of one module.
pub(crate) struct UnwindTables {
    header: ParsedEhFrameHdr<Slice>,
    frames: EhFrame<Slice>,
    bases: BaseAddresses,
    /// Tables of functions that these do not have.
    others: Option<Box<UnwindTables>>,
}

/// Working memory for gimli.
pub(crate) type TableContext = UnwindContext<usize, SmallStorage>;

/// Result of looking up an address in the unwind tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleLookup {
    /// A rule.
    Rule(PackedRule),
    /// The tables have a row that a rule cannot express.
    Inexpressible,
    /// The tables have no row.
    Missing,
}

impl UnwindTables {
    /// Parses a module's `.eh_frame_hdr` and `.eh_frame`, each with its address in the file.
    pub(crate) fn new(header: (u64, Section), frames: (u64, Section)) -> Option<UnwindTables> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(header.0).set_eh_frame(frames.0);
        let parsed = EhFrameHdr::new(header.1, LittleEndian).parse(&bases, 8).ok()?;
        let mut frames = EhFrame::new(frames.1, LittleEndian);
        frames.set_vendor(table_row::VENDOR);
        frames.set_address_size(8);
        parsed.table()?;
        Some(UnwindTables { header: parsed, frames, bases, others: None })
    }

    /// Joins the tables of a module. The first ones are asked first.
    pub(crate) fn join(first: Option<UnwindTables>, second: Option<UnwindTables>) -> Option<UnwindTables> {
        match (first, second) {
            (Some(first), second) => Some(UnwindTables { others: second.map(Box::new), ..first }),
            (None, second) => second,
        }
    }

    /// Returns the address in the file and the bytes of `.eh_frame`.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> (u64, Section) {
        (self.bases.eh_frame.section.unwrap_or(0), gimli::Section::reader(&self.frames).slice())
    }

    /// Returns the entry of the function that contains an address of the file, and the tables that
    /// have it.
    fn entry(&self, address: u64) -> Option<(&UnwindTables, FrameDescriptionEntry<Slice>)> {
        let mut tables = self;
        loop {
            let table = tables.header.table()?;
            let entry = table
                .lookup(address, &tables.bases)
                .and_then(|pointer| table.pointer_to_offset(pointer))
                .and_then(|offset| tables.frames.fde_from_offset(&tables.bases, offset, EhFrame::cie_from_offset));
            if let Some(entry) = entry.ok().filter(|entry| entry.contains(address)) {
                return Some((tables, entry));
            }
            tables = tables.others.as_deref()?;
        }
    }

    /// Returns whether an address of the file is in a function of the tables.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.entry(address).is_some()
    }

    /// Returns whether no function of the tables covers or lies between two addresses of the file.
    pub(crate) fn are_in_one_gap(&self, a: u64, b: u64) -> bool {
        let before = |tables: &UnwindTables, address| tables.header.table()?.lookup(address, &tables.bases).ok();
        let is_gap =
            |tables: &UnwindTables| matches!((before(tables, a), before(tables, b)), (Some(a), Some(b)) if a == b);
        let mut tables = Some(self);
        while let Some(some) = tables {
            if !is_gap(some) {
                return false;
            }
            tables = some.others.as_deref();
        }
        !self.covers(a) && !self.covers(b)
    }

    /// Returns whether an address of the file is the first one of a function.
    pub(crate) fn starts_function(&self, address: u64) -> bool {
        self.function_start(address) == Some(address)
    }

    /// Returns the first address of the function that holds an address of the file.
    pub(crate) fn function_start(&self, address: u64) -> Option<u64> {
        self.entry(address).map(|(_, entry)| entry.initial_address())
    }

    /// Calls `each` with every row of the function that holds an address of the file (its first
    /// address, the one past its last, and what holds between), until it returns false. A row that
    /// depends on the address itself is left out.
    pub(crate) fn function(
        &self,
        address: u64,
        context: &mut TableContext,
        each: &mut impl FnMut(u64, u64, RuleLookup) -> bool,
    ) {
        let Some((tables, entry)) = self.entry(address) else { return };
        let return_register = entry.cie().return_address_register();
        let Ok(mut rows) = entry.rows(&tables.frames, &tables.bases, context) else { return };
        while let Ok(Some(row)) = rows.next_row() {
            let (start, end) = (row.start_address(), row.end_address().min(entry.end_address()));
            let found = tables.compile(row, return_register, start);
            let follows_address = matches!(row.cfa(), CfaRule::Expression(_))
                && matches!(
                    found,
                    RuleLookup::Inexpressible | RuleLookup::Rule(PackedRule { cfa: CallerValue::Register(..), .. })
                );
            if !follows_address && start < end && !each(start, end, found) {
                return;
            }
        }
    }

    /// Looks up an address of the file.
    pub(crate) fn find(&self, address: u64, context: &mut TableContext) -> RuleLookup {
        let Some((tables, entry)) = self.entry(address) else { return RuleLookup::Missing };
        let return_register = entry.cie().return_address_register();
        match entry.unwind_info_for_address(&tables.frames, &tables.bases, context, address) {
            Ok(row) => tables.compile(row, return_register, address),
            Err(_) => RuleLookup::Inexpressible,
        }
    }

    fn compile(&self, row: &UnwindTableRow<usize, SmallStorage>, return_register: Register, pc: u64) -> RuleLookup {
        let rule = table_row::frame_rule(row, &self.frames, return_register, pc, &mut |_| None);
        rule.map_or(RuleLookup::Inexpressible, |rule| RuleLookup::Rule(rule.pack()))
    }
}

/// Makes working memory for a thread that compiles rules.
pub(crate) fn new_context() -> TableContext {
    TableContext::new_in()
}

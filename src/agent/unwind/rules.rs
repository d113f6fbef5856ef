//! Unwind rules: the information that the tables have about one address, in a form that is quick to
//! follow, and one handler's cache of them.
//!
//! A rule is exact or does not exist: where the tables say something that a rule cannot express,
//! the walk ends and reports that.

use alloc::boxed::Box;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Expression, FrameDescriptionEntry, LittleEndian,
    Operation, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _,
    UnwindTableRow,
};

use crate::agent::unwind::eh_index::Section;
use crate::arch::{EH_RETURN_DATA, FRAME_POINTER, PROGRAM_COUNTER};

/// DWARF number of the instruction pointer, in the type that [`DwarfOp`] uses.
const PROGRAM_COUNTER_NUMBER: u8 = PROGRAM_COUNTER as u8;
/// Sizes of gimli's tables: everything fits on the handler's stack, takes a third of gimli's
/// default size, and is faster with cold caches.
pub(crate) struct SmallStorage;

impl<R: gimli::ReaderOffset> gimli::UnwindContextStorage<R> for SmallStorage {
    type Rules = [(gimli::Register, gimli::RegisterRule<R>); 24];
    type Stack = [gimli::UnwindTableRow<R, Self>; 4];
}

type Slice = EndianSlice<'static, LittleEndian>;

/// The step from a frame to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) cfa: Cfa,
    pub(crate) bp: SavedRegister,
    pub(crate) ra: SavedRegister,
}

/// The canonical frame address: the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// Register (by DWARF number) + offset.
    Register(u8, i32),
    /// The word at register + offset, plus a constant.
    At { register: u8, plus: u8, offset: i32 },
    /// The word at register + 8 × index register + offset, plus a constant.
    AtIndexed { register: u8, index: u8, plus: u8, offset: i32 },
}

const _: () = assert!(size_of::<Cfa>() == 8 && size_of::<Rule>() == 24);

/// The location where a register of the caller is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavedRegister {
    /// The register itself, which is unchanged.
    Same,
    /// The word at the canonical frame address + offset.
    AtCfa(i32),
    /// The same in a function that replaces the word on its way to a landing pad (see
    /// [`eh_return`](super::eh_return)). Only return addresses are so.
    Replaced(i32),
    /// The word at register + offset.
    At(u8, i32),
    /// Nowhere. For a return address this means the end of the stack.
    Undefined,
}

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
    Rule(Rule),
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
        let encoding = entry.cie().encoding();
        let Ok(mut rows) = entry.rows(&tables.frames, &tables.bases, context) else { return };
        while let Ok(Some(row)) = rows.next_row() {
            let (start, end) = (row.start_address(), row.end_address().min(entry.end_address()));
            let found = tables.compile(row, encoding, start).map_or(RuleLookup::Inexpressible, RuleLookup::Rule);
            let follows_address = matches!(row.cfa(), CfaRule::Expression(_))
                && !matches!(found, RuleLookup::Rule(Rule { cfa: Cfa::At { .. } | Cfa::AtIndexed { .. }, .. }));
            if !follows_address && start < end && !each(start, end, found) {
                return;
            }
        }
    }

    /// Looks up an address of the file.
    pub(crate) fn find(&self, address: u64, context: &mut TableContext) -> RuleLookup {
        let Some((tables, entry)) = self.entry(address) else { return RuleLookup::Missing };
        let encoding = entry.cie().encoding();
        match entry.unwind_info_for_address(&tables.frames, &tables.bases, context, address) {
            Ok(row) => tables.compile(row, encoding, address).map_or(RuleLookup::Inexpressible, RuleLookup::Rule),
            Err(_) => RuleLookup::Inexpressible,
        }
    }

    fn compile(&self, row: &UnwindTableRow<usize, SmallStorage>, encoding: gimli::Encoding, pc: u64) -> Option<Rule> {
        let ra = self.saved(row.register(Register(PROGRAM_COUNTER as u16)), encoding, SavedRegister::Undefined)?;
        if ra == SavedRegister::Undefined {
            return Some(Rule { cfa: Cfa::Register(0, 0), bp: SavedRegister::Same, ra });
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Cfa::Register(number(*register)?, i32::try_from(*offset).ok()?)
            }
            CfaRule::Expression(expression) => self.cfa_of(expression, encoding, pc)?,
        };
        let is_saved = |register: usize| {
            let rule = row.register(Register(register as u16));
            matches!(rule, Some(RegisterRule::Offset(_)))
        };
        let ra = match ra {
            SavedRegister::AtCfa(offset) if EH_RETURN_DATA.into_iter().all(is_saved) => SavedRegister::Replaced(offset),
            ra => ra,
        };
        Some(Rule {
            cfa,
            bp: self.saved(row.register(Register(FRAME_POINTER as u16)), encoding, SavedRegister::Same)?,
            ra,
        })
    }

    fn saved(
        &self,
        rule: Option<RegisterRule<usize>>,
        encoding: gimli::Encoding,
        unsaid: SavedRegister,
    ) -> Option<SavedRegister> {
        match rule {
            None => Some(unsaid),
            Some(RegisterRule::Undefined) => Some(SavedRegister::Undefined),
            Some(RegisterRule::SameValue) => Some(SavedRegister::Same),
            Some(RegisterRule::Offset(offset)) => Some(SavedRegister::AtCfa(i32::try_from(offset).ok()?)),
            Some(RegisterRule::Expression(expression)) => match self.operations(&expression, encoding)?.as_slice() {
                &[DwarfOp::Register(register, offset)] => Some(SavedRegister::At(register, offset)),
                _ => None,
            },
            _ => None,
        }
    }

    fn cfa_of(&self, expression: &UnwindExpression<usize>, encoding: gimli::Encoding, pc: u64) -> Option<Cfa> {
        match *self.operations(expression, encoding)?.as_slice() {
            // A function that aligns its stack keeps the address in its frame.
            [DwarfOp::Register(register, offset), DwarfOp::Deref] => Some(Cfa::At { register, plus: 0, offset }),
            // Hand-written assembly that aligns its stack keeps the old stack pointer there.
            [DwarfOp::Register(register, offset), DwarfOp::Deref, DwarfOp::PlusConstant(plus)] => {
                Some(Cfa::At { register, plus: u8::try_from(plus).ok()?, offset })
            }
            // The same above an array whose length is in a register.
            [
                DwarfOp::Register(register, offset),
                DwarfOp::Register(index, 0),
                DwarfOp::Literal(8),
                DwarfOp::Mul,
                DwarfOp::Plus,
                DwarfOp::Deref,
                DwarfOp::PlusConstant(plus),
            ] => Some(Cfa::AtIndexed { register, index, plus: u8::try_from(plus).ok()?, offset }),
            [DwarfOp::Register(register, offset)] => Some(Cfa::Register(register, offset)),
            // A lazy stub of a linkage table: behind its push instruction it has pushed a word.
            [
                DwarfOp::Register(register, offset),
                DwarfOp::Register(PROGRAM_COUNTER_NUMBER, 0),
                DwarfOp::Literal(mask),
                DwarfOp::And,
                DwarfOp::Literal(at),
                DwarfOp::Ge,
                DwarfOp::Literal(3),
                DwarfOp::Shl,
                DwarfOp::Plus,
            ] => {
                let pushed = i32::from(pc & mask >= at) << 3;
                Some(Cfa::Register(register, offset + pushed))
            }
            _ => None,
        }
    }

    fn operations(&self, expression: &UnwindExpression<usize>, encoding: gimli::Encoding) -> Option<DwarfOps> {
        let Expression(bytes) = expression.get(&self.frames).ok()?;
        let mut operations = Expression(bytes).operations(encoding);
        let mut steps = DwarfOps { steps: [DwarfOp::Plus; MAX_STEPS], count: 0 };
        while let Some(operation) = operations.next().ok()? {
            let step = match operation {
                Operation::RegisterOffset { register, offset, .. } => {
                    DwarfOp::Register(number(register)?, i32::try_from(offset).ok()?)
                }
                Operation::Deref { space: false, size: 8, .. } => DwarfOp::Deref,
                Operation::UnsignedConstant { value } => DwarfOp::Literal(value),
                Operation::And => DwarfOp::And,
                Operation::Ge => DwarfOp::Ge,
                Operation::Shl => DwarfOp::Shl,
                Operation::Plus => DwarfOp::Plus,
                Operation::Mul => DwarfOp::Mul,
                Operation::PlusConstant { value } => DwarfOp::PlusConstant(value),
                _ => return None,
            };
            *steps.steps.get_mut(steps.count)? = step;
            steps.count += 1;
        }
        Some(steps)
    }
}

/// Number of operations of the longest supported expression.
const MAX_STEPS: usize = 9;

struct DwarfOps {
    steps: [DwarfOp; MAX_STEPS],
    count: usize,
}

impl DwarfOps {
    fn as_slice(&self) -> &[DwarfOp] {
        &self.steps[..self.count]
    }
}

#[derive(Clone, Copy)]
enum DwarfOp {
    Register(u8, i32),
    Literal(u64),
    Deref,
    And,
    Ge,
    Shl,
    Plus,
    Mul,
    PlusConstant(u64),
}

/// Returns the DWARF number of a general register or the instruction pointer.
fn number(register: Register) -> Option<u8> {
    (register.0 <= PROGRAM_COUNTER as u16).then_some(register.0 as u8)
}

/// Makes working memory for a thread that compiles rules.
pub(crate) fn new_context() -> TableContext {
    TableContext::new_in()
}

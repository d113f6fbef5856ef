//! Unwind rules: what the tables say of one address, in a form that is quick to follow, and one handler's cache of them.
//!
//! A rule is exact or it is not made: where the tables say something that it cannot hold, the walk ends there and says so.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Expression, FrameDescriptionEntry, LittleEndian,
    Operation, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _,
    UnwindTableRow, X86_64,
};

use super::learned::{self, Learned};
use super::unwind::{Section, SmallStorage};
#[cfg(sigtop_timed)]
use crate::link::wire::ring::word;

/// Entries of a cache; some 20 KiB of a slot.
const ENTRIES: usize = 512;

type Slice = EndianSlice<'static, LittleEndian>;

/// How to step from one frame to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) cfa: Cfa,
    pub(super) bp: Saved,
    pub(super) ra: Saved,
}

/// The canonical frame address: the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// Register (DWARF's number) + offset.
    Register(u8, i32),
    /// What memory holds at register + offset, and a constant more.
    At { register: u8, plus: u8, offset: i32 },
    /// What memory holds at register + 8 × index register + offset, and a constant more.
    AtIndexed { register: u8, index: u8, plus: u8, offset: i32 },
}

const _: () = assert!(size_of::<Cfa>() == 8 && size_of::<Rule>() == 24);

/// Where a register of the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// As it is.
    Same,
    /// In memory, at the canonical frame address + offset.
    AtCfa(i32),
    /// In memory, at register + offset.
    At(u8, i32),
    /// Nowhere: for a return address, the end of the stack.
    Undefined,
}

/// The unwind tables of one module, ready to be asked.
pub(super) struct Lookup {
    header: ParsedEhFrameHdr<Slice>,
    frames: EhFrame<Slice>,
    bases: BaseAddresses,
}

/// Room for gimli's work.
pub(super) type Context = UnwindContext<usize, SmallStorage>;

/// What the tables say of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A rule.
    Rule(Rule),
    /// Something that a rule cannot hold.
    Inexpressible,
    /// Nothing.
    Nothing,
}

impl Lookup {
    /// Of a module's `.eh_frame_hdr` and `.eh_frame`, each with its address in the file.
    pub(super) fn new(header: (u64, Section), frames: (u64, Section)) -> Option<Lookup> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(header.0).set_eh_frame(frames.0);
        let parsed = EhFrameHdr::new(header.1, LittleEndian).parse(&bases, 8).ok()?;
        let mut frames = EhFrame::new(frames.1, LittleEndian);
        frames.set_address_size(8);
        parsed.table()?;
        Some(Lookup { header: parsed, frames, bases })
    }

    /// Address in the file and bytes of `.eh_frame`.
    #[cfg(test)]
    pub(super) fn frames(&self) -> (u64, Section) {
        (self.bases.eh_frame.section.unwrap_or(0), gimli::Section::reader(&self.frames).slice())
    }

    /// The entry of the function that holds an address of the file.
    fn entry(&self, address: u64) -> Option<FrameDescriptionEntry<Slice>> {
        let table = self.header.table()?;
        let entry = table
            .lookup(address, &self.bases)
            .and_then(|pointer| table.pointer_to_offset(pointer))
            .and_then(|offset| self.frames.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset));
        entry.ok().filter(|entry| entry.contains(address))
    }

    /// Whether an address of the file is the first one of a function.
    pub(super) fn starts_function(&self, address: u64) -> bool {
        self.entry(address).is_some_and(|entry| entry.initial_address() == address)
    }

    /// Calls `each` with every row of the function that holds an address of the file (its first address, the one past its last, and what
    /// holds between), until it returns false. A row that depends on the address itself is left out.
    pub(super) fn function(&self, address: u64, context: &mut Context, each: &mut impl FnMut(u64, u64, Found) -> bool) {
        let Some(entry) = self.entry(address) else { return };
        let encoding = entry.cie().encoding();
        let Ok(mut rows) = entry.rows(&self.frames, &self.bases, context) else { return };
        while let Ok(Some(row)) = rows.next_row() {
            let (start, end) = (row.start_address(), row.end_address().min(entry.end_address()));
            let found = self.compile(row, encoding, start).map_or(Found::Inexpressible, Found::Rule);
            let follows_address = matches!(row.cfa(), CfaRule::Expression(_))
                && !matches!(found, Found::Rule(Rule { cfa: Cfa::At { .. } | Cfa::AtIndexed { .. }, .. }));
            if !follows_address && start < end && !each(start, end, found) {
                return;
            }
        }
    }

    /// What they say of an address of the file.
    pub(super) fn find(&self, address: u64, context: &mut Context) -> Found {
        let Some(entry) = self.entry(address) else { return Found::Nothing };
        let encoding = entry.cie().encoding();
        match entry.unwind_info_for_address(&self.frames, &self.bases, context, address) {
            Ok(row) => self.compile(row, encoding, address).map_or(Found::Inexpressible, Found::Rule),
            Err(_) => Found::Inexpressible,
        }
    }

    fn compile(&self, row: &UnwindTableRow<usize, SmallStorage>, encoding: gimli::Encoding, pc: u64) -> Option<Rule> {
        let ra = self.saved(row.register(X86_64::RA), encoding, Saved::Undefined)?;
        if ra == Saved::Undefined {
            return Some(Rule { cfa: Cfa::Register(0, 0), bp: Saved::Same, ra });
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Cfa::Register(number(*register)?, i32::try_from(*offset).ok()?)
            }
            CfaRule::Expression(expression) => self.cfa_of(expression, encoding, pc)?,
        };
        Some(Rule { cfa, bp: self.saved(row.register(X86_64::RBP), encoding, Saved::Same)?, ra })
    }

    fn saved(&self, rule: Option<RegisterRule<usize>>, encoding: gimli::Encoding, unsaid: Saved) -> Option<Saved> {
        match rule {
            None => Some(unsaid),
            Some(RegisterRule::Undefined) => Some(Saved::Undefined),
            Some(RegisterRule::SameValue) => Some(Saved::Same),
            Some(RegisterRule::Offset(offset)) => Some(Saved::AtCfa(i32::try_from(offset).ok()?)),
            Some(RegisterRule::Expression(expression)) => match self.operations(&expression, encoding)?.as_slice() {
                &[Step::Register(register, offset)] => Some(Saved::At(register, offset)),
                _ => None,
            },
            _ => None,
        }
    }

    fn cfa_of(&self, expression: &UnwindExpression<usize>, encoding: gimli::Encoding, pc: u64) -> Option<Cfa> {
        match *self.operations(expression, encoding)?.as_slice() {
            // A function that aligns its stack keeps the address in its frame.
            [Step::Register(register, offset), Step::Deref] => Some(Cfa::At { register, plus: 0, offset }),
            // Hand-written assembly that aligns its stack keeps its stack pointer there.
            [Step::Register(register, offset), Step::Deref, Step::PlusConstant(plus)] => {
                Some(Cfa::At { register, plus: u8::try_from(plus).ok()?, offset })
            }
            // The same above an array as long as a register says.
            [
                Step::Register(register, offset),
                Step::Register(index, 0),
                Step::Literal(8),
                Step::Mul,
                Step::Plus,
                Step::Deref,
                Step::PlusConstant(plus),
            ] => Some(Cfa::AtIndexed { register, index, plus: u8::try_from(plus).ok()?, offset }),
            [Step::Register(register, offset)] => Some(Cfa::Register(register, offset)),
            // A lazy stub of a linkage table: it has pushed a word if it is past its push.
            [
                Step::Register(register, offset),
                Step::Register(16, 0),
                Step::Literal(mask),
                Step::And,
                Step::Literal(at),
                Step::Ge,
                Step::Literal(3),
                Step::Shl,
                Step::Plus,
            ] => {
                let pushed = i32::from(pc & mask >= at) << 3;
                Some(Cfa::Register(register, offset + pushed))
            }
            _ => None,
        }
    }

    fn operations(&self, expression: &UnwindExpression<usize>, encoding: gimli::Encoding) -> Option<Steps> {
        let Expression(bytes) = expression.get(&self.frames).ok()?;
        let mut operations = Expression(bytes).operations(encoding);
        let mut steps = Steps { steps: [Step::Plus; MAX_STEPS], count: 0 };
        while let Some(operation) = operations.next().ok()? {
            let step = match operation {
                Operation::RegisterOffset { register, offset, .. } => {
                    Step::Register(number(register)?, i32::try_from(offset).ok()?)
                }
                Operation::Deref { space: false, size: 8, .. } => Step::Deref,
                Operation::UnsignedConstant { value } => Step::Literal(value),
                Operation::And => Step::And,
                Operation::Ge => Step::Ge,
                Operation::Shl => Step::Shl,
                Operation::Plus => Step::Plus,
                Operation::Mul => Step::Mul,
                Operation::PlusConstant { value } => Step::PlusConstant(value),
                _ => return None,
            };
            *steps.steps.get_mut(steps.count)? = step;
            steps.count += 1;
        }
        Some(steps)
    }
}

/// Operations of the longest expression that is understood.
const MAX_STEPS: usize = 9;

struct Steps {
    steps: [Step; MAX_STEPS],
    count: usize,
}

impl Steps {
    fn as_slice(&self) -> &[Step] {
        &self.steps[..self.count]
    }
}

#[derive(Clone, Copy)]
enum Step {
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

/// DWARF's number of a general register or the instruction pointer.
fn number(register: Register) -> Option<u8> {
    (register.0 <= X86_64::RA.0).then_some(register.0 as u8)
}

/// One handler's rules by exact address: direct-mapped, and empty in another edition of the modules.
pub(super) struct RuleCache {
    edition: u32,
    entries: [(u64, Found); ENTRIES],
    context: Context,
}

impl RuleCache {
    /// An empty cache.
    pub(super) fn new() -> RuleCache {
        RuleCache { edition: 0, entries: [(0, Found::Nothing); ENTRIES], context: Context::new_in() }
    }

    /// Forgets what it knows of another edition.
    pub(super) fn turn_to(&mut self, edition: u32) {
        if edition != self.edition {
            self.entries.fill((0, Found::Nothing));
            self.edition = edition;
        }
    }

    /// The rule for an address of the process, if it is remembered.
    #[inline]
    pub(super) fn known(&self, pc: u64) -> Option<Found> {
        let entry = &self.entries[(pc ^ pc >> 9) as usize % ENTRIES];
        (entry.0 == pc).then_some(entry.1)
    }

    /// The rule for an address of the process that is not remembered: from the shared table, or looked up and noted; and kept.
    pub(super) fn rule(&mut self, pc: u64, learned: &Learned, lookup: Option<(&Lookup, u64)>) -> Found {
        let found = match (learned.find(pc), lookup) {
            (Some(found), _) => {
                #[cfg(sigtop_timed)]
                super::state::count(word::RULES + 1, 1);
                found
            }
            (None, None) => Found::Nothing,
            (None, Some((lookup, address))) => {
                #[cfg(sigtop_timed)]
                super::state::count(word::RULES + 2, 1);
                learned::note(pc);
                lookup.find(address, &mut self.context)
            }
        };
        self.entries[(pc ^ pc >> 9) as usize % ENTRIES] = (pc, found);
        found
    }
}

/// Room for a thread that compiles.
pub(super) fn context() -> Context {
    Context::new_in()
}

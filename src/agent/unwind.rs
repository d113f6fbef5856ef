//! From registers to frames, with a reader of the stack that cannot fault.
//!
//! Code that has unwind tables is stepped through by their rules, exactly; code that has none (made at run time, or assembly without
//! annotations) by frame pointers, as long as they lead to code. A walk is bounded by depth; the stack
//! pointer must grow, but for a step from a signal handler back to the code it interrupted. Where a walk cannot go on before
//! the thread's first frame, it says so: [`flag::TRUNCATED`].

mod deep;
mod roots;

use super::modules::{Place, Snapshot};
use super::rules::{Cfa, Found, Rule, RuleCache, Saved};
use super::sys;
use super::trail::{Followed, Mark, Trail};
use crate::link::wire::{FRAMES_LEFT_OUT, FrameAddress, MAX_FRAMES, flag};

/// Sections of tables: in the agent's own mappings, which outlive every snapshot that names them.
pub(super) type Section = &'static [u8];

/// Sizes for gimli's tables: everything on the handler's stack, a third of the stock size, and quicker when cold.
pub(super) struct SmallStorage;

impl<R: gimli::ReaderOffset> gimli::UnwindContextStorage<R> for SmallStorage {
    type Rules = [(gimli::Register, gimli::RegisterRule<R>); 24];
    type Stack = [gimli::UnwindTableRow<R, Self>; 4];
}

/// What one handler remembers of unwinding.
pub(super) struct Cache {
    rules: RuleCache,
    trail: Trail,
}

impl Cache {
    /// An empty cache.
    pub(super) fn new() -> Cache {
        Cache { rules: RuleCache::new(), trail: Trail::new() }
    }
}

/// Registers by DWARF's numbers; the last is the instruction pointer.
const REGISTERS: usize = 17;
const BP: usize = 6;
const SP: usize = 7;
const IP: usize = 16;

/// The registers that a walk begins with, or goes on with after a signal's frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    values: [u64; REGISTERS],
    /// All of them are known, and not only instruction and stack pointer.
    whole: bool,
}

/// A frame that waits for a call to return: what is known of its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// Where the call returns to.
    pub(super) ip: u64,
    /// The stack pointer there.
    pub(super) sp: u64,
    /// The base pointer; 0 where it is not known.
    pub(super) bp: u64,
    /// Whether that is known: not of a caller of a sleeper, before some frame has given it.
    pub(super) knows_bp: bool,
}

impl Caller {
    fn new(ip: u64, sp: u64, bp: Option<u64>) -> Caller {
        Caller { ip, sp, bp: bp.unwrap_or(0), knows_bp: bp.is_some() }
    }
}

/// Words of a `ucontext` that hold the registers, by DWARF's numbers (rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 …). The kernel's
/// order is r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, from the sixth word on.
const CONTEXT_WORDS: [u64; REGISTERS] = [18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12, 21];

impl Registers {
    /// Of the code that a signal interrupted.
    ///
    /// # Safety
    /// `context` must be the third argument of a signal handler.
    pub(super) unsafe fn of(context: *const u64) -> Registers {
        // SAFETY: a ucontext holds these words.
        let values = CONTEXT_WORDS.map(|word| unsafe { *context.add(word as usize) });
        Registers { values, whole: true }
    }

    /// Of a function that calls the agent: its registers by DWARF's numbers, with the address that the call returns to.
    pub(super) fn by_hand(mut values: [u64; REGISTERS]) -> Registers {
        // Within the call, whose line it is.
        values[IP] = values[IP].wrapping_sub(1);
        Registers { values, whole: true }
    }

    /// Of a thread that sleeps in the kernel.
    pub(super) fn asleep(ip: u64, sp: u64) -> Registers {
        let mut values = [0; REGISTERS];
        (values[IP], values[SP]) = (ip, sp);
        Registers { values, whole: false }
    }

    /// Instruction pointer.
    pub(super) fn ip(&self) -> u64 {
        self.values[IP]
    }

    /// Stack pointer.
    pub(super) fn sp(&self) -> u64 {
        self.values[SP]
    }

    /// Base pointer of interrupted code.
    #[cfg(test)]
    pub(super) fn bp(&self) -> u64 {
        self.values[BP]
    }
}

/// A source of stack words.
pub(super) trait Stack {
    /// The word at an address, if it can be read.
    fn read(&mut self, address: u64) -> Option<u64>;
    /// The walk goes on at `sp`, in code that no table covers (so that what follows may be garbage) or not.
    fn moved(&mut self, sp: u64, covered: bool);
}

/// Bytes below the stack pointer that a leaf may use without moving it.
const RED_ZONE: u64 = 128;
const PAGE: u64 = 4096;
/// Pages probed in one walk, at most: 256 KiB of stack.
const PROBES: u32 = 64;

/// The stack that the handler stands beside: plain loads inside a mapping that the snapshot knows (and while every frame is
/// covered by tables), else only pages that were probed, else nothing.
pub(super) struct LiveStack<'a> {
    snapshot: &'a Snapshot,
    /// Readable without asking.
    low: u64,
    high: u64,
    /// Probes left; 0 where system calls are forbidden.
    probes: u32,
}

impl<'a> LiveStack<'a> {
    /// The stack around `sp`.
    pub(super) fn new(snapshot: &'a Snapshot, sp: u64, may_call: bool) -> LiveStack<'a> {
        let mut stack = LiveStack { snapshot, low: 0, high: 0, probes: if may_call { PROBES } else { 0 } };
        stack.enter(sp);
        stack
    }

    fn enter(&mut self, sp: u64) {
        self.low = sp.saturating_sub(RED_ZONE);
        self.high = self.snapshot.stack_end(sp).unwrap_or(self.low);
    }
}

impl Stack for LiveStack<'_> {
    #[inline]
    fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) || address < self.low {
            return None;
        }
        while address >= self.high {
            // Only upwards, page by page: what lies between was mapped too, or the walk has gone astray.
            self.probes = self.probes.checked_sub(1)?;
            if !sys::readable(self.high as usize & !7) {
                return None;
            }
            self.high = (self.high & !(PAGE - 1)) + PAGE;
        }
        // SAFETY: mapped: inside the mapping that holds the live stack pointer, or probed just now. Only this thread
        // takes its own stack away, and it is in this handler.
        Some(unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() })
    }

    fn moved(&mut self, sp: u64, covered: bool) {
        if !(self.low..self.high).contains(&sp) {
            self.enter(sp);
        }
        if !covered {
            self.high = self.high.min((sp & !(PAGE - 1)) + PAGE);
        }
    }
}

/// What came of a walk.
pub(super) struct Walk {
    /// Frames written.
    pub(super) depth: usize,
    /// Bits of [`flag`].
    pub(super) flags: u32,
    /// Whether an address lay in no module of the snapshot: it may be stale.
    pub(super) uncovered: bool,
    /// Frames between the leaf side and the root side that were left out.
    left_out: usize,
}

/// Writes the frames of a stack, packed and leaf first.
pub(super) fn walk(
    snapshot: &Snapshot,
    cache: &mut Cache,
    start: Registers,
    stack: &mut impl Stack,
    frames: &mut [u64; MAX_FRAMES],
) -> Walk {
    cache.rules.turn_to(snapshot.edition());
    cache.trail.begin(snapshot.edition());
    let mut walk = Walk { depth: 0, flags: 0, uncovered: false, left_out: 0 };
    let is_whole = follow_to_root(snapshot, cache, start, stack, frames, &mut walk);
    if !is_whole {
        walk.flags |= flag::TRUNCATED;
    }
    deep::finish(frames, &mut walk, is_whole);
    cache.trail.end();
    walk
}

/// Whether the walk came to the thread's first frame.
fn follow_to_root(
    snapshot: &Snapshot,
    cache: &mut Cache,
    start: Registers,
    stack: &mut impl Stack,
    frames: &mut [u64; MAX_FRAMES],
    walk: &mut Walk,
) -> bool {
    let mut registers = start;
    let mut frame = Frame::Interrupted(&registers);
    loop {
        if let Frame::Calling(caller) = frame {
            match cache.trail.follow(caller, stack, frames, &mut walk.depth) {
                Followed::Root => return true,
                Followed::To(caller) => frame = Frame::Calling(caller),
            }
        }
        if walk.depth == MAX_FRAMES && !deep::make_room(frames, walk) {
            return false;
        }
        let (address, sp) = (frame.address(), frame.sp());
        let Some(found) = rule_of(snapshot, cache, &frame, stack, walk) else { return false };
        frames[walk.depth] = address.pack();
        walk.depth += 1;
        let step = match found {
            Found::Rule(rule) => by_rule(rule, &frame, stack).unwrap_or(Step::Lost),
            Found::Inexpressible => Step::Lost,
            Found::Nothing => {
                if let Frame::Calling(caller) = frame
                    && roots::is_handmade(snapshot, caller)
                {
                    frames[walk.depth - 1] = FrameAddress::Instruction(caller.ip).pack();
                    cache.trail.note(Mark::unknown(caller));
                    return true;
                }
                just_called(snapshot, &frame, stack)
                    .or_else(|| roots::called_from_start(snapshot, cache, &frame, stack, walk))
                    .or_else(|| by_frame_pointer(&frame, stack))
                    .unwrap_or(Step::Lost)
            }
        };
        let next = match step {
            Step::Caller(caller, _) if caller.sp > sp => Some(caller),
            _ => None,
        };
        let returns_to_signal = next.is_some_and(|caller| snapshot.is_restorer(caller.ip));
        if let Frame::Calling(caller) = frame {
            cache.trail.note(match step {
                Step::Caller(_, reads) if next.is_some() && !returns_to_signal => reads.mark(caller),
                Step::Root(reads) => reads.mark_root(caller),
                _ => Mark::unknown(caller),
            });
        }
        let Some(caller) = next else { return matches!(step, Step::Root(_)) };
        frame = if returns_to_signal {
            // The context of what the signal interrupted lies at the stack pointer.
            let Some(interrupted) = interrupted(caller.sp, stack) else { return false };
            walk.flags |= flag::SIGNAL_FRAME;
            stack.moved(interrupted.sp(), true);
            registers = interrupted;
            Frame::Interrupted(&registers)
        } else {
            Frame::Calling(caller)
        };
    }
}

/// One frame of a walk.
enum Frame<'a> {
    /// Interrupted, or asleep: its address is that of an instruction.
    Interrupted(&'a Registers),
    /// Its address is the one that a call returns to.
    Calling(Caller),
}

impl Frame<'_> {
    fn address(&self) -> FrameAddress {
        match self {
            Frame::Interrupted(registers) => FrameAddress::Instruction(registers.ip()),
            Frame::Calling(caller) => FrameAddress::Return(caller.ip),
        }
    }

    fn sp(&self) -> u64 {
        match self {
            Frame::Interrupted(registers) => registers.sp(),
            Frame::Calling(caller) => caller.sp,
        }
    }

    fn bp(&self) -> Option<u64> {
        self.get(BP as u8)
    }

    /// A register by DWARF's number, if it is known.
    #[inline]
    fn get(&self, number: u8) -> Option<u64> {
        let number = usize::from(number);
        match self {
            _ if number == SP => Some(self.sp()),
            Frame::Calling(caller) if number == BP && caller.knows_bp => Some(caller.bp),
            Frame::Interrupted(registers) if registers.whole => registers.values.get(number).copied(),
            _ => None,
        }
    }
}

/// What comes of stepping from a frame.
enum Step {
    Caller(Caller, Reads),
    Root(Reads),
    Lost,
}

/// Where a step has read what it went by.
#[derive(Clone, Copy)]
enum Reads {
    /// It cannot be told by these alone.
    More,
    /// A return address and a base pointer, each if it was read.
    These { return_at: Option<u64>, base_at: Option<u64> },
}

impl Reads {
    fn mark(self, frame: Caller) -> Mark {
        match self {
            Reads::More => Mark::unknown(frame),
            Reads::These { return_at, base_at } => Mark::leads(frame, return_at, base_at),
        }
    }

    fn mark_root(self, frame: Caller) -> Mark {
        match self {
            Reads::More => Mark::unknown(frame),
            Reads::These { return_at, .. } => Mark::root(frame, return_at),
        }
    }
}

/// What the tables say of a frame; `None` for a caller in no code at all.
#[inline]
fn rule_of(
    snapshot: &Snapshot,
    cache: &mut Cache,
    frame: &Frame<'_>,
    stack: &mut impl Stack,
    walk: &mut Walk,
) -> Option<Found> {
    let pc = frame.address().lookup();
    // What is remembered as a rule lies in a module with tables.
    if let Some(found @ (Found::Rule(_) | Found::Inexpressible)) = cache.rules.known(pc) {
        #[cfg(sigtop_timed)]
        super::state::count(crate::link::wire::ring::word::RULES, 1);
        return Some(found);
    }
    let place = snapshot.place(pc);
    if place == Place::Nowhere {
        walk.uncovered = true;
        if matches!(frame, Frame::Calling(_)) {
            return None;
        }
    }
    let lookup = match place {
        Place::Module(index) => snapshot.lookup(index, pc),
        Place::Code | Place::Nowhere => {
            stack.moved(frame.sp(), false);
            None
        }
    };
    Some(cache.rules.rule(pc, snapshot.learned(), lookup))
}

#[inline]
fn by_rule(rule: Rule, frame: &Frame<'_>, stack: &mut impl Stack) -> Option<Step> {
    if rule.ra == Saved::Undefined {
        return Some(Step::Root(Reads::These { return_at: None, base_at: None }));
    }
    let plus = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
    let (cfa, more) = match rule.cfa {
        Cfa::Register(number, offset) => (plus(frame.get(number)?, offset), false),
        Cfa::At { register, plus: more, offset } => {
            (stack.read(plus(frame.get(register)?, offset))?.wrapping_add(more.into()), true)
        }
        Cfa::AtIndexed { register, index, plus: more, offset } => {
            let base = frame.get(register)?.wrapping_add(frame.get(index)?.wrapping_mul(8));
            (stack.read(plus(base, offset))?.wrapping_add(more.into()), true)
        }
    };
    let place = |saved: Saved| match saved {
        Saved::AtCfa(offset) => Some(plus(cfa, offset)),
        Saved::At(number, offset) => Some(plus(frame.get(number)?, offset)),
        Saved::Same | Saved::Undefined => None,
    };
    let return_at = place(rule.ra)?;
    let ip = stack.read(return_at)?;
    if ip == 0 {
        let reads = if more { Reads::More } else { Reads::These { return_at: Some(return_at), base_at: None } };
        return Some(Step::Root(reads));
    }
    let (bp, base_at) = match rule.bp {
        Saved::Same => (frame.bp(), None),
        Saved::Undefined => (None, None),
        // A function that aligns its stack has its base pointer within its frame, but for the last two instructions: the tables forget
        // that the caller's is back by then.
        Saved::At(number, _)
            if usize::from(number) == BP && !frame.bp().is_some_and(|bp| (frame.sp()..cfa).contains(&bp)) =>
        {
            (frame.bp(), None)
        }
        saved => {
            let at = place(saved);
            (at.and_then(|at| stack.read(at)), at)
        }
    };
    // What cannot be read is missed only by a caller that needs it.
    let unread = base_at.is_some() && bp.is_none();
    let reads = if more || unread { Reads::More } else { Reads::These { return_at: Some(return_at), base_at } };
    Some(Step::Caller(Caller::new(ip, cfa, bp), reads))
}

/// Interrupted code of a file that the file's tables leave out is a stub more often than not (of the procedure linkage table): it has just
/// been called and has pushed nothing, if what lies on top of the stack is an address of code.
fn just_called(snapshot: &Snapshot, frame: &Frame<'_>, stack: &mut impl Stack) -> Option<Step> {
    let Frame::Interrupted(registers) = frame else { return None };
    let is_code = |address| matches!(snapshot.place(address), Place::Module(_));
    if !is_code(registers.ip()) {
        return None;
    }
    let ip = stack.read(registers.sp()).filter(|&ip| is_code(ip.wrapping_sub(1)))?;
    Some(Step::Caller(Caller::new(ip, registers.sp() + 8, frame.bp()), Reads::More))
}

/// The base pointer leads to the caller's, above which is the return address. Whether the caller keeps to that too is not known:
/// what it leads to is looked at when it is used.
fn by_frame_pointer(frame: &Frame<'_>, stack: &mut impl Stack) -> Option<Step> {
    let bp = frame.bp()?;
    if bp == 0 {
        return Some(Step::Root(Reads::More));
    }
    let sp = bp.checked_add(16).filter(|&sp| sp > frame.sp())?;
    let caller_bp = stack.read(bp)?;
    match stack.read(bp + 8)? {
        0 => Some(Step::Root(Reads::More)),
        ip => Some(Step::Caller(Caller::new(ip, sp, Some(caller_bp)), Reads::More)),
    }
}

fn interrupted(context: u64, stack: &mut impl Stack) -> Option<Registers> {
    let mut values = [0; REGISTERS];
    for (value, word) in values.iter_mut().zip(CONTEXT_WORDS) {
        *value = stack.read(context.checked_add(8 * word)?)?;
    }
    Some(Registers { values, whole: true })
}

#[cfg(test)]
mod tests {
    use super::super::asleep::CopiedStack;
    use super::super::modules::Modules;
    use super::super::slot::Pool;
    use super::*;

    fn registers(ip: u64, sp: u64, bp: u64) -> Registers {
        let mut registers = Registers::asleep(ip, sp);
        (registers.values[BP], registers.whole) = (bp, true);
        registers
    }

    #[test]
    fn a_base_pointer_that_is_the_callers_again_is_kept() {
        let words = [0x9_0000u64, 0x5555, 0, 0];
        let bytes = words.map(u64::to_ne_bytes).concat();
        let mut stack = CopiedStack { low: 0x7000, bytes: &bytes };
        let rule = Rule { cfa: Cfa::Register(10, 0), bp: Saved::At(6, 0), ra: Saved::AtCfa(-8) };
        let mut caller_of = |bp: u64| {
            let mut registers = Registers::by_hand([0; REGISTERS]);
            (registers.values[SP], registers.values[BP], registers.values[10]) = (0x7000, bp, 0x7010);
            match by_rule(rule, &Frame::Interrupted(&registers), &mut stack) {
                Some(Step::Caller(caller, _)) => (caller.ip, caller.knows_bp.then_some(caller.bp)),
                _ => panic!("it has a caller"),
            }
        };
        assert_eq!(
            caller_of(0x7000),
            (0x5555, Some(0x9_0000)),
            "it is in the frame: the caller's lies where it points to"
        );
        assert_eq!(caller_of(0x9_0000), (0x5555, Some(0x9_0000)));
        assert_eq!(caller_of(3), (0x5555, Some(3)), "a caller's that is no pointer");
    }

    #[test]
    fn a_live_stack_is_walked_to_its_root_and_a_cut_one_says_so() {
        let pool = Box::leak(Box::new(Pool::new().expect("memory")));
        let mut modules = Modules::new(pool);
        assert!(modules.refresh());
        let snapshot = &modules.snapshot();
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads registers only.
        unsafe {
            core::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp)
        };
        let start = registers(ip, sp, bp);
        let (mut cache, mut frames) = (Cache::new(), [0; MAX_FRAMES]);

        let whole = walk(snapshot, &mut cache, start, &mut LiveStack::new(snapshot, sp, true), &mut frames);
        assert!(whole.flags == 0 && !whole.uncovered && whole.depth > 4, "depth {}", whole.depth);
        for &frame in &frames[..whole.depth] {
            assert!(matches!(snapshot.place(FrameAddress::unpack(frame).lookup()), Place::Module(_)));
        }
        let again = walk(snapshot, &mut cache, start, &mut LiveStack::new(snapshot, sp, true), &mut [0; MAX_FRAMES]);
        assert_eq!(again.depth, whole.depth, "by rules that are remembered");

        struct Nothing;
        impl Stack for Nothing {
            fn read(&mut self, _address: u64) -> Option<u64> {
                None
            }
            fn moved(&mut self, _sp: u64, _covered: bool) {}
        }
        let cut = walk(snapshot, &mut cache, start, &mut Nothing, &mut frames);
        assert_eq!((cut.depth, cut.flags), (1, flag::TRUNCATED));
    }

    #[test]
    fn a_stack_that_leads_in_a_circle_ends() {
        let pool = Box::leak(Box::new(Pool::new().expect("memory")));
        // A snapshot without modules: every address is unknown code, followed by base pointers.
        let modules = Modules::new(pool);
        let snapshot = modules.snapshot();
        struct Circle;
        impl Stack for Circle {
            fn read(&mut self, _address: u64) -> Option<u64> {
                Some(0x1000)
            }
            fn moved(&mut self, _sp: u64, _covered: bool) {}
        }
        let start = registers(0x40_0000, 0x1000, 0x2000);
        let walk = walk(&snapshot, &mut Cache::new(), start, &mut Circle, &mut [0; MAX_FRAMES]);
        assert_eq!(walk.flags, flag::TRUNCATED);
        assert!(walk.depth < 3 && walk.uncovered);
    }
}

//! From registers to frames, with a reader of the stack that cannot fault.
//!
//! Code that has unwind tables is stepped through by their rules, exactly; code that has none (made at run time, or assembly without
//! annotations) by frame pointers, as long as they lead to code. A walk is bounded by depth; the stack
//! pointer must grow, but for a step from a signal handler back to the code it interrupted. Where a walk cannot go on before
//! the thread's first frame, it says so: [`flag::TRUNCATED`].

use super::modules::{Place, Snapshot};
use super::rules::{Cfa, Found, Rule, RuleCache, Saved};
use super::sys;
use crate::link::wire::{FrameAddress, MAX_FRAMES, flag};

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
}

impl Cache {
    /// An empty cache.
    pub(super) fn new() -> Cache {
        Cache { rules: RuleCache::new() }
    }
}

/// Registers by DWARF's numbers; the last is the instruction pointer.
const REGISTERS: usize = 17;
const AX: usize = 0;
const BP: usize = 6;
const SP: usize = 7;
const IP: usize = 16;

/// The registers of one frame, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    values: [u64; REGISTERS],
    known: Known,
}

/// Which registers are known besides instruction and stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// All of them: of interrupted code.
    All,
    /// The base pointer: of a caller.
    BasePointer,
    /// None: of a caller of a sleeper.
    Nothing,
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
        Registers { values, known: Known::All }
    }

    /// Of a function that calls the agent: its registers by DWARF's numbers, with the address that the call returns to.
    pub(super) fn by_hand(mut values: [u64; REGISTERS]) -> Registers {
        // Within the call, whose line it is.
        values[IP] = values[IP].wrapping_sub(1);
        Registers { values, known: Known::All }
    }

    /// Of a thread that sleeps in the kernel.
    pub(super) fn asleep(ip: u64, sp: u64) -> Registers {
        Registers::of_caller(ip, sp, None)
    }

    fn of_caller(ip: u64, sp: u64, bp: Option<u64>) -> Registers {
        let mut values = [0; REGISTERS];
        (values[IP], values[SP], values[BP]) = (ip, sp, bp.unwrap_or(0));
        Registers { values, known: if bp.is_some() { Known::BasePointer } else { Known::Nothing } }
    }

    fn get(&self, number: u8) -> Option<u64> {
        let number = usize::from(number);
        let known = match self.known {
            Known::All => true,
            Known::BasePointer => [BP, SP].contains(&number),
            Known::Nothing => number == SP,
        };
        if known { self.values.get(number).copied() } else { None }
    }

    /// Instruction pointer.
    pub(super) fn ip(&self) -> u64 {
        self.values[IP]
    }

    /// Stack pointer.
    pub(super) fn sp(&self) -> u64 {
        self.values[SP]
    }

    /// Whether a signal broke a system call off: it has failed with EINTR, or is about to be made anew. signal(7)
    pub(super) fn in_broken_off_call(&self, is_call: impl Fn(u64) -> bool) -> bool {
        const SIZE: u64 = 2;
        let failed = self.values[AX] as i64 == -i64::from(libc::EINTR);
        is_call(self.ip()) || failed && is_call(self.ip().wrapping_sub(SIZE))
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
}

/// Writes the frames of a stack, packed and leaf first.
pub(super) fn walk(
    snapshot: &Snapshot,
    cache: &mut Cache,
    start: Registers,
    stack: &mut impl Stack,
    frames: &mut [u64; MAX_FRAMES],
) -> Walk {
    cache.rules.turn_to(snapshot.generation());
    let mut frame = Frame { registers: start, is_exact: true };
    let mut walk = Walk { depth: 0, flags: 0, uncovered: false };
    loop {
        let ip = frame.registers.ip();
        let address = if frame.is_exact { FrameAddress::Instruction(ip) } else { FrameAddress::Return(ip) };
        if walk.depth == MAX_FRAMES {
            return truncated(walk);
        }
        let (pc, sp) = (address.lookup(), frame.registers.sp());
        let found = match cache.rules.known(pc) {
            // Then a module with tables holds it.
            Some(found @ (Found::Rule(_) | Found::Inexpressible)) => {
                #[cfg(sigtop_timed)]
                super::state::count(crate::link::wire::ring::word::RULES, 1);
                found
            }
            Some(Found::Nothing) | None => {
                let place = snapshot.place(pc);
                if place == Place::Nowhere {
                    walk.uncovered = true;
                    if !frame.is_exact {
                        return truncated(walk);
                    }
                }
                let lookup = match place {
                    Place::Module(index) => snapshot.lookup(index, pc),
                    Place::Code | Place::Nowhere => {
                        stack.moved(sp, false);
                        None
                    }
                };
                cache.rules.rule(pc, snapshot.learned(), lookup)
            }
        };
        frames[walk.depth] = address.pack();
        walk.depth += 1;
        let step = match found {
            Found::Rule(rule) => follow(rule, &frame, stack).unwrap_or(Step::Lost),
            Found::Inexpressible => Step::Lost,
            Found::Nothing => {
                just_called(snapshot, &frame, stack).or_else(|| by_frame_pointer(&frame, stack)).unwrap_or(Step::Lost)
            }
        };
        match step {
            Step::Root => return walk,
            Step::Lost => return truncated(walk),
            Step::Caller(caller) if caller.sp() <= sp => return truncated(walk),
            Step::Caller(caller) if snapshot.is_restorer(caller.ip()) => {
                // A signal handler returns here: the context of what it interrupted lies at the stack pointer.
                let Some(registers) = interrupted(caller.sp(), stack) else { return truncated(walk) };
                walk.flags |= flag::SIGNAL_FRAME;
                stack.moved(registers.sp(), true);
                frame = Frame { registers, is_exact: true };
            }
            Step::Caller(registers) => frame = Frame { registers, is_exact: false },
        }
    }
}

struct Frame {
    registers: Registers,
    /// Interrupted (or asleep), not calling: its address is that of an instruction.
    is_exact: bool,
}

enum Step {
    Caller(Registers),
    Root,
    Lost,
}

#[inline]
fn follow(rule: Rule, frame: &Frame, stack: &mut impl Stack) -> Option<Step> {
    if rule.ra == Saved::Undefined {
        return Some(Step::Root);
    }
    let plus = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
    let cfa = match rule.cfa {
        Cfa::Register(number, offset) => plus(frame.registers.get(number)?, offset),
        Cfa::At(number, offset) => stack.read(plus(frame.registers.get(number)?, offset))?,
    };
    let mut read = |saved: Saved| match saved {
        Saved::AtCfa(offset) => stack.read(plus(cfa, offset)),
        Saved::At(number, offset) => stack.read(plus(frame.registers.get(number)?, offset)),
        Saved::Same | Saved::Undefined => None,
    };
    let ip = read(rule.ra)?;
    if ip == 0 {
        return Some(Step::Root);
    }
    let present = frame.registers.get(BP as u8);
    let bp = match rule.bp {
        Saved::Same => present,
        Saved::Undefined => None,
        // A function that aligns its stack has its base pointer within its frame, but for the last two instructions: the tables forget
        // that the caller's is back by then.
        Saved::At(number, _)
            if usize::from(number) == BP && !present.is_some_and(|bp| (frame.registers.sp()..cfa).contains(&bp)) =>
        {
            present
        }
        // What cannot be read is missed only by a caller that needs it.
        saved => read(saved),
    };
    Some(Step::Caller(Registers::of_caller(ip, cfa, bp)))
}

/// Interrupted code of a file that the file's tables leave out is a stub more often than not (of the procedure linkage table): it has just
/// been called and has pushed nothing, if what lies on top of the stack is an address of code.
fn just_called(snapshot: &Snapshot, frame: &Frame, stack: &mut impl Stack) -> Option<Step> {
    let registers = &frame.registers;
    let is_code = |address| matches!(snapshot.place(address), Place::Module(_));
    if !frame.is_exact || !is_code(registers.ip()) {
        return None;
    }
    let ip = stack.read(registers.sp()).filter(|&ip| is_code(ip.wrapping_sub(1)))?;
    Some(Step::Caller(Registers::of_caller(ip, registers.sp() + 8, registers.get(BP as u8))))
}

/// The base pointer leads to the caller's, above which is the return address. Whether the caller keeps to that too is not known:
/// what it leads to is looked at when it is used.
fn by_frame_pointer(frame: &Frame, stack: &mut impl Stack) -> Option<Step> {
    let bp = frame.registers.get(BP as u8)?;
    if bp == 0 {
        return Some(Step::Root);
    }
    let sp = bp.checked_add(16).filter(|&sp| sp > frame.registers.sp())?;
    let caller_bp = stack.read(bp)?;
    match stack.read(bp + 8)? {
        0 => Some(Step::Root),
        ip => Some(Step::Caller(Registers::of_caller(ip, sp, Some(caller_bp)))),
    }
}

fn truncated(mut walk: Walk) -> Walk {
    walk.flags |= flag::TRUNCATED;
    walk
}

fn interrupted(context: u64, stack: &mut impl Stack) -> Option<Registers> {
    let mut values = [0; REGISTERS];
    for (value, word) in values.iter_mut().zip(CONTEXT_WORDS) {
        *value = stack.read(context.checked_add(8 * word)?)?;
    }
    Some(Registers { values, known: Known::All })
}

#[cfg(test)]
mod tests {
    use super::super::asleep::CopiedStack;
    use super::super::modules::Modules;
    use super::super::slot::Pool;
    use super::*;

    #[test]
    fn a_call_that_a_signal_broke_off_is_known() {
        let call = 0x1000;
        let at = |ip, ax| {
            let mut registers = Registers::asleep(ip, 0);
            registers.values[AX] = ax;
            registers.in_broken_off_call(|address| address == call)
        };
        assert!(at(call, libc::SYS_futex as u64), "it will be made anew");
        assert!(at(call + 2, -i64::from(libc::EINTR) as u64), "it has failed");
        assert!(!at(call + 2, 0) && !at(call + 2, 4096), "it came to its end");
        assert!(!at(call + 9, -i64::from(libc::EINTR) as u64));
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
            match follow(rule, &Frame { registers, is_exact: true }, &mut stack) {
                Some(Step::Caller(caller)) => (caller.ip(), caller.get(6)),
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
        let start = Registers::of_caller(ip, sp, Some(bp));
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
        let start = Registers::of_caller(0x40_0000, 0x1000, Some(0x2000));
        let walk = walk(&snapshot, &mut Cache::new(), start, &mut Circle, &mut [0; MAX_FRAMES]);
        assert_eq!(walk.flags, flag::TRUNCATED);
        assert!(walk.depth < 3 && walk.uncovered);
    }
}

//! Walks a stack: from the registers of the interrupted code to the thread's first frame.
//!
//! Code with unwind tables is unwound exactly, by their rules. Code without (made at run time, or
//! assembly without annotations) is unwound by the call that names it ([`gaps`]), and by frame
//! pointers as long as they lead to code and past no caller ([`generated`]). The depth of a walk is
//! limited, and the stack pointer must grow, except in the step from a signal handler to the
//! interrupted code. A walk that does not reach the thread's first frame sets [`flag::TRUNCATED`].

use alloc::boxed::Box;

use crate::agent::os::memory;
use crate::agent::unwind::frame_size::by_frame_size;
use crate::agent::unwind::last_walk::{CachedFrame, LastWalk, Replayed};
use crate::agent::unwind::modules::Snapshot;
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::rule_cache::RuleCache;
use crate::agent::unwind::rules::RuleLookup;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::step::{Step, Walk, WalkFrame, by_frame_pointer, by_rule, just_called, rule_of};
use crate::agent::unwind::{deep, gaps, generated, leaf_caller, roots};
use crate::arch::{CONTEXT_AT_RETURN, PUSHED_BY_CALL};
use crate::wire::{FrameAddress, MAX_FRAMES, flag};

/// A handler's caches between walks: unwind rules, and the previous walk.
pub(crate) struct WalkCache {
    rules: RuleCache,
    last_walk: LastWalk,
}

impl WalkCache {
    /// Makes an empty cache of memory that is all zero. It leaves most of it untouched, so that a
    /// process has pages only for what it uses.
    ///
    /// # Safety
    /// The memory must be zero, aligned and writable.
    pub(crate) unsafe fn init(place: *mut WalkCache) {
        // SAFETY: the caller vouches. All bytes zero are a valid last walk.
        unsafe { RuleCache::init(&raw mut (*place).rules) };
    }

    /// Allocates an empty cache.
    pub(crate) fn boxed() -> Box<WalkCache> {
        // SAFETY: zero bytes, which `init` makes a cache.
        unsafe {
            let mut cache = memory::zeroed();
            WalkCache::init(&raw mut *cache);
            cache
        }
    }

    /// Returns the rules, to look one up without a walk.
    #[cfg(test)]
    pub(crate) fn rules(&mut self) -> &mut RuleCache {
        &mut self.rules
    }

    /// Returns the walk that has ended last.
    pub(crate) fn last_walk(&self) -> &LastWalk {
        &self.last_walk
    }

    /// Returns the number of rule lookups so far, by the place where the rule was found: the cache,
    /// the rule table, the file's tables.
    #[cfg(sigtop_timed)]
    pub(crate) fn lookups(&mut self) -> &mut [u64; 3] {
        &mut self.rules.lookups
    }
}

/// Writes the frames of a stack, packed, leaf first.
pub(crate) fn walk(
    snapshot: &Snapshot,
    cache: &mut WalkCache,
    start: Registers,
    stack: &mut impl Stack,
    frames: &mut [u64; MAX_FRAMES],
) -> Walk {
    cache.rules.set_edition(snapshot.edition());
    cache.last_walk.begin(snapshot.edition());
    let mut walk = Walk { depth: 0, flags: 0, uncovered: false, left_out: 0 };
    let is_whole = walk_to_root(snapshot, cache, start, stack, frames, &mut walk);
    if !is_whole {
        walk.flags |= flag::TRUNCATED;
    }
    deep::finish(frames, &mut walk, is_whole);
    cache.last_walk.end();
    remove_own(|address| snapshot.is_own(address), frames, &mut walk.depth);
    walk
}

/// Removes the frames of the agent's own functions: what an interposed function does counts with
/// its caller. The last frame stays if there is nothing else, because a sample has at least one
/// frame.
fn remove_own(is_own: impl Fn(u64) -> bool, frames: &mut [u64; MAX_FRAMES], depth: &mut usize) {
    let mut kept = 0;
    for at in 0..*depth {
        let frame = frames[at];
        if !is_own(FrameAddress::unpack(frame).lookup()) || kept == 0 && at + 1 == *depth {
            frames[kept] = frame;
            kept += 1;
        }
    }
    *depth = kept;
}

/// Walks to the thread's first frame. Returns whether it was reached.
fn walk_to_root(
    snapshot: &Snapshot,
    cache: &mut WalkCache,
    start: Registers,
    stack: &mut impl Stack,
    frames: &mut [u64; MAX_FRAMES],
    walk: &mut Walk,
) -> bool {
    let mut registers = start;
    let mut frame = WalkFrame::Interrupted(&registers);
    // The address by which the next frame is shown, if it is another one.
    let mut shown = None;
    loop {
        if let (WalkFrame::Calling(caller), None) = (&frame, shown) {
            let caller = *caller;
            match cache.last_walk.replay(caller, stack, frames, &mut walk.depth) {
                Replayed::Root => return true,
                Replayed::To(caller) => frame = WalkFrame::Calling(caller),
            }
        }
        if walk.depth == MAX_FRAMES && !deep::make_room(frames, walk) {
            return false;
        }
        let (address, sp) = (frame.address(), frame.sp());
        let Some(found) = rule_of(snapshot, &mut cache.rules, &frame, stack, walk) else { return false };
        frames[walk.depth] = shown.take().unwrap_or(address).pack();
        walk.depth += 1;
        let mut step = match found {
            RuleLookup::Rule(rule) => by_rule(rule, &frame, stack)
                .or_else(|| by_frame_size(snapshot, rule, &frame, stack))
                .or_else(|| if frame.is_stack_bound() { by_frame_pointer(&frame, stack) } else { None })
                .unwrap_or(Step::Lost),
            RuleLookup::Inexpressible => Step::Lost,
            RuleLookup::Missing => {
                if let WalkFrame::Calling(caller) = frame
                    && roots::is_handmade(snapshot, caller)
                {
                    frames[walk.depth - 1] = FrameAddress::Instruction(caller.ip).pack();
                    cache.last_walk.record(CachedFrame::unknown(caller));
                    return true;
                }
                gaps::step_to_caller(snapshot, &frame, stack)
                    .or_else(|| just_called(snapshot, &frame, stack))
                    .or_else(|| roots::called_from_start(snapshot, &mut cache.rules, &frame, stack, walk))
                    .or_else(|| generated::step_to_caller(snapshot, &mut cache.rules, &frame, stack, walk))
                    .or_else(|| by_frame_pointer(&frame, stack))
                    .filter(|step| {
                        let is_zero = matches!(step, Step::Root(_)) && frame.bp() == Some(0);
                        !is_zero || roots::is_first(snapshot, &frame, stack)
                    })
                    .unwrap_or(Step::Lost)
            }
        };
        if let Step::Lost = step
            && let Some((to_caller, by)) =
                leaf_caller::step_to_caller(snapshot, &mut cache.rules, found, &frame, stack, walk)
        {
            (step, shown) = (to_caller, Some(by));
        }
        let next = match step {
            Step::Caller(caller, _) if caller.sp > sp => Some(caller),
            // A leaf may have put nothing on the stack where calls do not do so.
            Step::Caller(caller, _)
                if PUSHED_BY_CALL == 0 && caller.sp == sp && matches!(frame, WalkFrame::Interrupted(_)) =>
            {
                Some(caller)
            }
            _ => None,
        };
        let returns_to_signal = next.is_some_and(|caller| snapshot.is_restorer(caller.ip));
        if let WalkFrame::Calling(caller) = frame {
            cache.last_walk.record(match step {
                Step::Caller(_, reads) if next.is_some() && !returns_to_signal => reads.mark(caller),
                Step::Root(reads) => reads.mark_root(caller),
                _ => CachedFrame::unknown(caller),
            });
        }
        let Some(caller) = next else { return matches!(step, Step::Root(_)) };
        frame = if returns_to_signal {
            let context = caller.sp.wrapping_add(CONTEXT_AT_RETURN);
            let Some(interrupted) = Registers::read_context(context, stack) else { return false };
            walk.flags |= flag::SIGNAL_FRAME;
            stack.moved(interrupted.sp(), true);
            registers = interrupted;
            WalkFrame::Interrupted(&registers)
        } else {
            WalkFrame::Calling(caller)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::modules::{CodeLocation, Modules};
    use crate::agent::unwind::stack::LiveStack;
    use crate::arch::current_registers;

    #[test]
    fn the_agents_own_frames_count_with_their_caller_and_no_stack_becomes_empty() {
        let without_own = |stack: &[u64]| {
            let (mut frames, mut depth) = ([0; MAX_FRAMES], stack.len());
            frames[..depth].copy_from_slice(stack);
            remove_own(|address| (0x1000..0x2000).contains(&address), &mut frames, &mut depth);
            frames[..depth].to_vec()
        };
        let frame = |address| FrameAddress::Instruction(address).pack();
        let (own, first, second) = (frame(0x1800), frame(0x2000), frame(0x3000));
        assert_eq!(without_own(&[own, own, first, own, second, own]), [first, second]);
        assert_eq!(without_own(&[own, frame(0x1000)]), [frame(0x1000)]);
        // A function of the agent that ends with a call returns to the next address.
        assert_eq!(without_own(&[first, FrameAddress::Return(0x2000).pack()]), [first]);
        assert_eq!(
            without_own(&[first, FrameAddress::Return(0x1000).pack()]),
            [first, FrameAddress::Return(0x1000).pack()]
        );
        assert!(without_own(&[]).is_empty());
    }

    #[test]
    fn a_live_stack_is_walked_to_its_root_and_a_cut_one_says_so() {
        let mut modules = Modules::new();
        assert!(modules.refresh().is_some_and(|update| update.has_new_code));
        let snapshot = &modules.snapshot();
        let (ip, sp, bp) = current_registers();
        let start = Registers::with_base(ip, sp, bp);
        let (mut cache, mut frames) = (WalkCache::boxed(), [0; MAX_FRAMES]);

        let whole = walk(snapshot, &mut cache, start, &mut LiveStack::new(snapshot, sp, true), &mut frames);
        assert!(whole.flags == 0 && !whole.uncovered && whole.depth > 4, "depth {}", whole.depth);
        for &frame in &frames[..whole.depth] {
            assert!(matches!(snapshot.locate(FrameAddress::unpack(frame).lookup()), CodeLocation::Module(_)));
        }
        let again = walk(snapshot, &mut cache, start, &mut LiveStack::new(snapshot, sp, true), &mut [0; MAX_FRAMES]);
        assert_eq!(again.depth, whole.depth, "by rules that are remembered");

        struct Nothing;
        impl Stack for Nothing {
            fn read(&mut self, _address: u64) -> Option<u64> {
                None
            }
            fn moved(&mut self, _sp: u64, _covered: bool) {}
            fn read_code(&mut self, _address: u64, _code: &mut [u8]) -> Option<()> {
                None
            }
        }
        let cut = walk(snapshot, &mut cache, start, &mut Nothing, &mut frames);
        assert_eq!((cut.depth, cut.flags), (1, flag::TRUNCATED));
    }

    #[test]
    fn a_stack_that_leads_in_a_circle_ends() {
        // A snapshot without modules: every address is unknown code, followed by base pointers.
        let modules = Modules::new();
        let snapshot = modules.snapshot();
        struct Circle;
        impl Stack for Circle {
            fn read(&mut self, _address: u64) -> Option<u64> {
                Some(0x1000)
            }
            fn moved(&mut self, _sp: u64, _covered: bool) {}
            fn read_code(&mut self, _address: u64, _code: &mut [u8]) -> Option<()> {
                None
            }
        }
        let start = Registers::with_base(0x40_0000, 0x1000, 0x2000);
        let walk = walk(&snapshot, &mut WalkCache::boxed(), start, &mut Circle, &mut [0; MAX_FRAMES]);
        assert_eq!(walk.flags, flag::TRUNCATED);
        assert!(walk.depth < 3 && walk.uncovered);
    }
}

//! Cache of the previous stack walk in a slot. The next walk reuses its frames for as long as every
//! stack word that produced them is unchanged.
//!
//! The step from a caller's frame to the next follows from that frame (its instruction, stack and
//! base pointer) and from the words that the step reads. So when a walk reaches a frame that the
//! previous walk reached too, it needs no rules: it reads the same words, and while each holds what
//! it held then, the frames are the same. The addresses of the words are known beforehand, so the
//! reads do not wait for each other, as they do where every frame only tells where the next one is.

use crate::agent::unwind::registers::Caller;
use crate::agent::unwind::stack::Stack;
use crate::arch::strip_signature;
use crate::wire::{FrameAddress, MAX_FRAMES};

/// Maximum number of cached frames: those next to the root.
pub(crate) const MAX_FRAMES_CACHED: usize = 128;
/// Number of callers that are kept next to the leaf of a deeper walk, for its frame sizes.
pub(crate) const LEAF_CALLERS: usize = 32;
/// Size of a word on the stack, in bytes.
const WORD: u64 = 8;

/// Result of the step from a cached frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum CallerLink {
    /// It has to be found by rules.
    Unknown = 0,
    /// The caller, as long as the words are unchanged.
    Caller,
    /// None: this is the thread's first frame.
    Root,
}

/// A caller's frame, and the words that the step from it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedFrame {
    frame: Caller,
    /// Positions of the return address and of the saved base pointer, in words above the stack
    /// pointer; [`UNREAD`] for a word that was not read.
    return_at: u16,
    base_at: u16,
    lead: CallerLink,
}

const UNREAD: u16 = u16::MAX;

const _: () = assert!(size_of::<CachedFrame>() <= 40);

impl CachedFrame {
    /// A frame whose step has to be found by rules.
    pub(crate) fn unknown(frame: Caller) -> CachedFrame {
        CachedFrame { frame, return_at: UNREAD, base_at: UNREAD, lead: CallerLink::Unknown }
    }

    /// A frame whose step reads a return address (or none) and a base pointer (or none) at these
    /// addresses, and leads to a caller.
    pub(crate) fn leads(frame: Caller, return_at: Option<u64>, base_at: Option<u64>) -> CachedFrame {
        CachedFrame::with(frame, return_at, base_at, CallerLink::Caller)
    }

    /// The thread's first frame, identified by the tables or by a return address of 0.
    pub(crate) fn root(frame: Caller, return_at: Option<u64>) -> CachedFrame {
        CachedFrame::with(frame, return_at, None, CallerLink::Root)
    }

    fn with(frame: Caller, return_at: Option<u64>, base_at: Option<u64>, lead: CallerLink) -> CachedFrame {
        match (place(frame, return_at), place(frame, base_at)) {
            (Some(return_at), Some(base_at)) => CachedFrame { frame, return_at, base_at, lead },
            _ => CachedFrame::unknown(frame),
        }
    }

    /// Returns whether the step still has the same result.
    #[inline]
    fn still_leads(&self, next: Option<&CachedFrame>, stack: &mut impl Stack) -> bool {
        let mut says = |at: u16, word: u64, plain: fn(u64) -> u64| {
            at == UNREAD || stack.read(self.frame.sp.wrapping_add(WORD * u64::from(at))).map(plain) == Some(word)
        };
        match (self.lead, next) {
            (CallerLink::Caller, Some(next)) => {
                says(self.return_at, next.frame.ip, strip_signature) && says(self.base_at, next.frame.bp, |word| word)
            }
            (CallerLink::Root, _) => says(self.return_at, 0, |word| word),
            _ => false,
        }
    }
}

/// Returns the number of words from a frame's stack pointer to an address; `None` if it is out of
/// range.
fn place(frame: Caller, address: Option<u64>) -> Option<u16> {
    let Some(address) = address else { return Some(UNREAD) };
    let distance = address.checked_sub(frame.sp).filter(|distance| distance.is_multiple_of(WORD))? / WORD;
    u16::try_from(distance).ok().filter(|&words| words != UNREAD)
}

/// The end of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replayed {
    /// It ended at this frame, whose step has to be found by rules.
    To(Caller),
    /// It reached the root.
    Root,
}

/// The frames of the previous walk of a slot, and those of the present one. All bytes zero are a
/// valid, empty one.
pub(crate) struct LastWalk {
    /// Edition of the modules that it went through.
    edition: u32,
    /// Frames of the previous walk, root first, so that those that stay keep their index.
    cached: [CachedFrame; MAX_FRAMES_CACHED],
    count: usize,
    /// Number of them that the present walk, which comes from the leaf, has not passed yet.
    ahead: usize,
    /// Number of them with which the present walk ends.
    kept: usize,
    /// Frames of the present walk before those, leaf first; the last ones if there are too many.
    fresh: [CachedFrame; MAX_FRAMES_CACHED],
    noted: usize,
    /// Return address and stack pointer of the first of them.
    leaf_callers: [(u64, u64); LEAF_CALLERS],
    /// Number of them that had no room in `cached`.
    dropped: usize,
}

impl LastWalk {
    /// Begins a walk through modules of this edition.
    pub(crate) fn begin(&mut self, edition: u32) {
        if edition != self.edition {
            (self.edition, self.count) = (edition, 0);
        }
        (self.ahead, self.kept, self.noted) = (self.count, 0, 0);
    }

    /// Replays the previous walk from a caller's frame on: writes the frames that it passes,
    /// packed, and advances `depth`.
    #[inline]
    pub(crate) fn replay(
        &mut self,
        from: Caller,
        stack: &mut impl Stack,
        frames: &mut [u64; MAX_FRAMES],
        depth: &mut usize,
    ) -> Replayed {
        while self.ahead > 0 && self.cached[self.ahead - 1].frame.sp < from.sp {
            self.ahead -= 1;
        }
        let joined = self.ahead;
        if !self.cached[..joined].last().is_some_and(|mark| mark.frame == from) {
            return Replayed::To(from);
        }
        while let Some((mark, before)) = self.cached[..self.ahead].split_last() {
            if *depth == MAX_FRAMES || !mark.still_leads(before.last(), stack) {
                break;
            }
            frames[*depth] = FrameAddress::Return(mark.frame.ip).pack();
            *depth += 1;
            self.ahead -= 1;
            if mark.lead == CallerLink::Root {
                self.kept = joined;
                return Replayed::Root;
            }
        }
        let end = self.cached[self.ahead - 1].frame;
        for at in (self.ahead..joined).rev() {
            self.record(self.cached[at]);
        }
        Replayed::To(end)
    }

    /// Records a caller's frame of the present walk. Every frame that [`replay`](Self::replay) has
    /// not passed is recorded, in order.
    #[inline]
    pub(crate) fn record(&mut self, mark: CachedFrame) {
        if let Some(caller) = self.leaf_callers.get_mut(self.noted) {
            *caller = (mark.frame.ip, mark.frame.sp);
        }
        self.fresh[self.noted % MAX_FRAMES_CACHED] = mark;
        self.noted += 1;
    }

    /// Ends the walk, which becomes the previous one.
    pub(crate) fn end(&mut self) {
        let room = (MAX_FRAMES_CACHED - self.kept).min(self.noted);
        for back in 1..=room {
            self.cached[self.kept + back - 1] = self.fresh[(self.noted - back) % MAX_FRAMES_CACHED];
        }
        self.count = self.kept + room;
        self.dropped = self.noted - room;
    }

    /// Returns the outermost frame of the walk that has ended; `None` if it had no caller.
    pub(crate) fn outermost(&self) -> Option<Caller> {
        self.cached[..self.count].first().map(|mark| mark.frame)
    }

    /// Returns return address and stack pointer of each caller of the walk that has ended, the one
    /// next to the leaf first; `None` stands for callers in the middle of a deep walk.
    pub(crate) fn callers(&self) -> impl Iterator<Item = Option<(u64, u64)>> {
        let leaf_side = self.leaf_callers[..self.dropped.min(LEAF_CALLERS)].iter().map(|&caller| Some(caller));
        let gap = (self.dropped > LEAF_CALLERS).then_some(None);
        let root_side = self.cached[..self.count].iter().rev().map(|mark| Some((mark.frame.ip, mark.frame.sp)));
        leaf_side.chain(gap).chain(root_side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::unwind::modules::{Modules, Snapshot};
    use crate::agent::unwind::registers::Registers;
    use crate::agent::unwind::stack::{CopiedStack, LiveStack};
    use crate::agent::unwind::walk::{WalkCache, walk};
    use crate::arch::current_registers;
    use std::hint::black_box;

    /// Instruction, stack and base pointer.
    type Start = (u64, u64, Option<u64>);

    /// Frames and flags of a walk over a copied stack.
    fn walked(
        snapshot: &Snapshot,
        cache: &mut WalkCache,
        start: Start,
        stack: &mut CopiedStack<'_>,
    ) -> (Vec<u64>, u32) {
        let mut frames = [0; MAX_FRAMES];
        let registers = match start {
            (ip, sp, None) => Registers::of_sleeper(ip, sp),
            (ip, sp, Some(bp)) => Registers::with_base(ip, sp, bp),
        };
        let walk = walk(snapshot, cache, registers, stack, &mut frames);
        (frames[..walk.depth].to_vec(), walk.flags)
    }

    /// Calls `body` with a place in a function that nothing inlines, so many calls deep.
    #[inline(never)]
    fn at_depth(depth: u32, body: &mut dyn FnMut(Start)) -> u32 {
        if depth > 0 {
            return black_box(at_depth(depth - 1, body)) ^ depth;
        }
        let (ip, sp, bp) = current_registers();
        body((ip, sp, Some(bp)));
        black_box(depth)
    }

    #[test]
    fn a_way_that_is_taken_again_is_the_one_that_rules_would_take() {
        let mut modules = Modules::new();
        assert!(modules.refresh().is_some_and(|update| update.has_new_code));
        let snapshot = modules.snapshot();
        let (mut bytes, mut low, mut starts) = (Vec::new(), 0, Vec::new());
        at_depth(40, &mut |start| {
            let (_, sp, _) = start;
            (low, starts) = (sp, vec![start]);
            let top = snapshot.stack_end(sp).expect("a stack");
            // SAFETY: this thread's own stack, from its pointer to its end.
            bytes = unsafe { core::slice::from_raw_parts(sp as *const u8, (top - sp) as usize) }.to_vec();
        });
        let whole = bytes.clone();
        let word =
            |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let (frames, flags) =
            walked(&snapshot, &mut WalkCache::boxed(), starts[0], &mut CopiedStack { low, bytes: &bytes });
        assert!(flags == 0 && frames.len() > 40, "{flags} after {} frames", frames.len());
        // Where return addresses lie, in order: walks may begin behind each.
        let returns: Vec<u64> = frames[1..].iter().map(|&frame| FrameAddress::unpack(frame).lookup() + 1).collect();
        let mut places = Vec::new();
        for at in 0..bytes.len() / 8 {
            if returns.get(places.len()) == Some(&word(&bytes, at)) {
                places.push(at);
                starts.push((word(&bytes, at), low + 8 * (at as u64 + 1), None));
            }
        }
        assert_eq!(places.len(), returns.len());

        let mut cache = WalkCache::boxed();
        let mut random = 88_172_645_463_325_252u64;
        let mut below = |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % limit as u64) as usize
        };
        let (mut complete, mut cut) = (0, 0);
        for _ in 0..20_000 {
            match below(4) {
                // Another call was made, or nothing that is a call; and the stack as it was.
                0 => {
                    let (to, from) = (places[below(places.len())], places[below(places.len())]);
                    let other = word(&whole, from);
                    bytes[8 * to..8 * to + 8].copy_from_slice(&other.to_ne_bytes());
                }
                1 => {
                    let to = below(bytes.len() / 8);
                    bytes[8 * to..8 * to + 8].copy_from_slice(&(below(3) as u64).to_ne_bytes());
                }
                2 => bytes.copy_from_slice(&whole),
                _ => {}
            }
            let start = starts[below(2) * below(starts.len())];
            // Sometimes the stack ends early.
            let length = if below(8) == 0 { 8 * below(bytes.len() / 8) } else { bytes.len() };
            let stack = || CopiedStack { low, bytes: &bytes[..length] };
            let by_rules = walked(&snapshot, &mut WalkCache::boxed(), start, &mut stack());
            assert_eq!(walked(&snapshot, &mut cache, start, &mut stack()), by_rules);
            *(if by_rules.1 == 0 { &mut complete } else { &mut cut }) += 1;
        }
        assert!(complete > 1_000 && cut > 1_000, "{complete} came to the root, {cut} did not");
    }

    #[test]
    fn frames_are_passed_as_long_as_their_words_say_the_same() {
        let frame = |ip, sp| Caller::new(ip, sp, Some(7));
        let (leaf, middle, root) = (frame(0x10, 0x100), frame(0x20, 0x200), frame(0x30, 0x300));
        let mut words = vec![0u64; 0x400 / 8];
        words[0x180 / 8] = 0x20;
        words[0x280 / 8] = 0x30;
        words[0x288 / 8] = 7;
        // SAFETY: all bytes zero are a valid one.
        let mut last_walk: LastWalk = unsafe { core::mem::zeroed() };
        let follow = |last_walk: &mut LastWalk, words: &[u64], from| {
            last_walk.begin(1);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let (mut frames, mut depth) = ([0; MAX_FRAMES], 0);
            let stack = &mut CopiedStack { low: 0, bytes: &bytes };
            let followed = last_walk.replay(from, stack, &mut frames, &mut depth);
            (followed, depth)
        };
        let walk = |last_walk: &mut LastWalk| {
            last_walk.begin(1);
            last_walk.record(CachedFrame::leads(leaf, Some(0x180), None));
            last_walk.record(CachedFrame::leads(middle, Some(0x280), Some(0x288)));
            last_walk.record(CachedFrame::root(root, None));
            last_walk.end();
        };
        assert_eq!(follow(&mut last_walk, &words, leaf), (Replayed::To(leaf), 0), "nothing is remembered");
        walk(&mut last_walk);
        assert_eq!(follow(&mut last_walk, &words, leaf), (Replayed::Root, 3));
        last_walk.end();
        assert_eq!(follow(&mut last_walk, &words, middle), (Replayed::Root, 2), "what was followed is remembered too");
        walk(&mut last_walk);
        let other = Caller { bp: 8, ..leaf };
        assert_eq!(follow(&mut last_walk, &words, other), (Replayed::To(other), 0), "another base pointer");
        words[0x288 / 8] = 9;
        assert_eq!(follow(&mut last_walk, &words, leaf), (Replayed::To(middle), 1), "the base pointer that is saved");
        last_walk.begin(2);
        assert_eq!(last_walk.count, 0, "other modules");
    }

    #[test]
    fn of_a_deep_walk_the_frames_next_to_the_root_are_remembered() {
        let frame = |at: u64| Caller::new(1000 - at, 16 * at, None);
        // SAFETY: all bytes zero are a valid one.
        let mut last_walk: LastWalk = unsafe { core::mem::zeroed() };
        last_walk.begin(1);
        let deep = 2 * MAX_FRAMES_CACHED as u64 + 5;
        (0..deep).for_each(|at| last_walk.record(CachedFrame::leads(frame(at), None, None)));
        last_walk.end();
        assert_eq!(last_walk.count, MAX_FRAMES_CACHED);
        assert_eq!(
            (last_walk.cached[0].frame, last_walk.cached[MAX_FRAMES_CACHED - 1].frame),
            (frame(deep - 1), frame(deep - MAX_FRAMES_CACHED as u64))
        );
    }

    #[test]
    fn callers_of_a_deep_walk_are_known_at_both_ends() {
        let mut modules = Modules::new();
        assert!(modules.refresh().is_some_and(|update| update.has_new_code));
        let snapshot = modules.snapshot();
        for (depth, has_gap) in [(20, false), (200, true)] {
            at_depth(depth, &mut |(ip, sp, bp)| {
                let (mut cache, mut frames) = (WalkCache::boxed(), [0; MAX_FRAMES]);
                let start = Registers::with_base(ip, sp, bp.unwrap_or(0));
                let mut stack = LiveStack::new(&snapshot, sp, true);
                // The second walk replays the first one.
                for _ in 0..2 {
                    let walk = walk(&snapshot, &mut cache, start, &mut stack, &mut frames);
                    let callers: Vec<_> = cache.last_walk().callers().collect();
                    assert_eq!(callers.contains(&None), has_gap, "{depth}");
                    let known: Vec<(u64, u64)> = callers.iter().flatten().copied().collect();
                    assert!(known.is_sorted_by_key(|&(_, sp)| sp) && known[0].1 > sp);
                    assert_eq!(
                        known.last().map(|caller| caller.1),
                        cache.last_walk().outermost().map(|frame| frame.sp)
                    );
                    let address = |frame: u64| match FrameAddress::unpack(frame) {
                        FrameAddress::Return(address) | FrameAddress::Instruction(address) => address,
                    };
                    assert_eq!(known[0].0, address(frames[1]));
                    assert_eq!(known[known.len() - 1].0, address(frames[walk.depth - 1]));
                    assert_eq!(known.len(), if has_gap { LEAF_CALLERS + MAX_FRAMES_CACHED } else { walk.depth - 1 });
                }
            });
        }
    }
}

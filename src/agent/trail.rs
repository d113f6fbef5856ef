//! The way that the last walk of a slot went: the next one takes it again as far as nothing on it has changed.
//!
//! A step from a caller's frame to the next follows from that frame (its instruction, stack and base pointer) and from the words it reads.
//! So where a walk comes to a frame that the last one came to, it needs no rules: it reads the same words, and as long as each says
//! what it said then, the frames are the same. Their addresses are known beforehand: the reads do not wait for each other, as they do
//! where every frame tells only where the next one is.

use super::unwind::{Caller, Stack};
use crate::link::wire::{FrameAddress, MAX_FRAMES};

/// Frames remembered, at most: those next to the root.
const MARKS: usize = 128;
/// Bytes of a word on the stack.
const WORD: u64 = 8;

/// Where a step leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// That has to be found out.
    Unknown,
    /// To the caller, as long as the words say so.
    Caller,
    /// Nowhere: it is the thread's first frame.
    Root,
}

/// A caller's frame, and what the step from it has read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    frame: Caller,
    /// Words above the stack pointer: of the return address, and of the base pointer; [`UNREAD`] if that was not read.
    return_at: u16,
    base_at: u16,
    lead: Lead,
}

const UNREAD: u16 = u16::MAX;

const _: () = assert!(size_of::<Mark>() <= 40);

impl Mark {
    /// A frame from which the way has to be found anew.
    pub(super) fn unknown(frame: Caller) -> Mark {
        Mark { frame, return_at: UNREAD, base_at: UNREAD, lead: Lead::Unknown }
    }

    /// A frame whose step reads a return address there (or nothing) and a base pointer there (or none), and leads to a caller.
    pub(super) fn leads(frame: Caller, return_at: Option<u64>, base_at: Option<u64>) -> Mark {
        Mark::with(frame, return_at, base_at, Lead::Caller)
    }

    /// The thread's first frame, known by the tables, or by the 0 that it returns to.
    pub(super) fn root(frame: Caller, return_at: Option<u64>) -> Mark {
        Mark::with(frame, return_at, None, Lead::Root)
    }

    fn with(frame: Caller, return_at: Option<u64>, base_at: Option<u64>, lead: Lead) -> Mark {
        match (place(frame, return_at), place(frame, base_at)) {
            (Some(return_at), Some(base_at)) => Mark { frame, return_at, base_at, lead },
            _ => Mark::unknown(frame),
        }
    }

    /// Whether its step would go where it went.
    #[inline]
    fn still_leads(&self, next: Option<&Mark>, stack: &mut impl Stack) -> bool {
        let mut says = |at: u16, word: u64| {
            at == UNREAD || stack.read(self.frame.sp.wrapping_add(WORD * u64::from(at))) == Some(word)
        };
        match (self.lead, next) {
            (Lead::Caller, Some(next)) => says(self.return_at, next.frame.ip) && says(self.base_at, next.frame.bp),
            (Lead::Root, _) => says(self.return_at, 0),
            _ => false,
        }
    }
}

/// Words from a frame's stack pointer to an address; `None` if that is out of reach.
fn place(frame: Caller, address: Option<u64>) -> Option<u16> {
    let Some(address) = address else { return Some(UNREAD) };
    let distance = address.checked_sub(frame.sp).filter(|distance| distance.is_multiple_of(WORD))? / WORD;
    u16::try_from(distance).ok().filter(|&words| words != UNREAD)
}

/// Where following the last walk's way has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// At this frame, from which the way has to be found.
    To(Caller),
    /// At the root.
    Root,
}

/// What a slot remembers of its last walk, and notes of the present one.
pub(super) struct Trail {
    /// Of the modules that it went through.
    edition: u32,
    /// The last walk's frames, root first, so that those that stay keep their place.
    marks: [Mark; MARKS],
    count: usize,
    /// How many of them the present walk has not passed yet: it comes from the other end.
    ahead: usize,
    /// How many of them the present walk ends with.
    kept: usize,
    /// The present walk's frames before those, leaf first; of more than fit the last.
    fresh: [Mark; MARKS],
    noted: usize,
}

impl Trail {
    /// Without a past.
    pub(super) fn new() -> Trail {
        let none = Mark::unknown(Caller { ip: 0, sp: 0, bp: 0, knows_bp: false });
        Trail { edition: 0, marks: [none; MARKS], count: 0, ahead: 0, kept: 0, fresh: [none; MARKS], noted: 0 }
    }

    /// A walk begins, through modules of this edition.
    pub(super) fn begin(&mut self, edition: u32) {
        if edition != self.edition {
            (self.edition, self.count) = (edition, 0);
        }
        (self.ahead, self.kept, self.noted) = (self.count, 0, 0);
    }

    /// Goes from a caller's frame on where the last walk went, writes the frames that it leaves behind, packed, and moves `depth`.
    #[inline]
    pub(super) fn follow(
        &mut self,
        from: Caller,
        stack: &mut impl Stack,
        frames: &mut [u64; MAX_FRAMES],
        depth: &mut usize,
    ) -> Followed {
        while self.ahead > 0 && self.marks[self.ahead - 1].frame.sp < from.sp {
            self.ahead -= 1;
        }
        let joined = self.ahead;
        if !self.marks[..joined].last().is_some_and(|mark| mark.frame == from) {
            return Followed::To(from);
        }
        while let Some((mark, before)) = self.marks[..self.ahead].split_last() {
            if *depth == MAX_FRAMES || !mark.still_leads(before.last(), stack) {
                break;
            }
            frames[*depth] = FrameAddress::Return(mark.frame.ip).pack();
            *depth += 1;
            self.ahead -= 1;
            if mark.lead == Lead::Root {
                self.kept = joined;
                return Followed::Root;
            }
        }
        let end = self.marks[self.ahead - 1].frame;
        for at in (self.ahead..joined).rev() {
            self.note(self.marks[at]);
        }
        Followed::To(end)
    }

    /// Notes a caller's frame of the present walk. Every one that [`follow`](Self::follow) has not passed is noted, in order.
    #[inline]
    pub(super) fn note(&mut self, mark: Mark) {
        self.fresh[self.noted % MARKS] = mark;
        self.noted += 1;
    }

    /// The walk has ended: it is the last one now.
    pub(super) fn end(&mut self) {
        let room = (MARKS - self.kept).min(self.noted);
        for back in 1..=room {
            self.marks[self.kept + back - 1] = self.fresh[(self.noted - back) % MARKS];
        }
        self.count = self.kept + room;
    }
}

#[cfg(test)]
mod tests {
    use super::super::asleep::CopiedStack;
    use super::super::modules::{Modules, Snapshot};
    use super::super::slot::Pool;
    use super::super::unwind::{Cache, Registers, walk};
    use super::*;
    use std::hint::black_box;

    /// Instruction, stack and base pointer.
    type Start = (u64, u64, Option<u64>);

    /// Frames and flags of a walk over a copied stack.
    fn walked(snapshot: &Snapshot, cache: &mut Cache, start: Start, stack: &mut CopiedStack<'_>) -> (Vec<u64>, u32) {
        let mut frames = [0; MAX_FRAMES];
        let registers = match start {
            (ip, sp, None) => Registers::asleep(ip, sp),
            (ip, sp, Some(bp)) => Registers::by_hand([0, 0, 0, 0, 0, 0, bp, sp, 0, 0, 0, 0, 0, 0, 0, 0, ip + 1]),
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
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads registers only.
        unsafe {
            core::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp)
        };
        body((ip, sp, Some(bp)));
        black_box(depth)
    }

    #[test]
    fn a_way_that_is_taken_again_is_the_one_that_rules_would_take() {
        let pool = Box::leak(Box::new(Pool::new().expect("memory")));
        let mut modules = Modules::new(pool);
        assert!(modules.refresh());
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
        let (frames, flags) = walked(&snapshot, &mut Cache::new(), starts[0], &mut CopiedStack { low, bytes: &bytes });
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

        let mut cache = Cache::new();
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
            let by_rules = walked(&snapshot, &mut Cache::new(), start, &mut stack());
            assert_eq!(walked(&snapshot, &mut cache, start, &mut stack()), by_rules);
            *(if by_rules.1 == 0 { &mut complete } else { &mut cut }) += 1;
        }
        assert!(complete > 1_000 && cut > 1_000, "{complete} came to the root, {cut} did not");
    }

    #[test]
    fn frames_are_passed_as_long_as_their_words_say_the_same() {
        let frame = |ip, sp| Caller { ip, sp, bp: 7, knows_bp: true };
        let (leaf, middle, root) = (frame(0x10, 0x100), frame(0x20, 0x200), frame(0x30, 0x300));
        let mut words = vec![0u64; 0x400 / 8];
        words[0x180 / 8] = 0x20;
        words[0x280 / 8] = 0x30;
        words[0x288 / 8] = 7;
        let mut trail = Trail::new();
        let follow = |trail: &mut Trail, words: &[u64], from| {
            trail.begin(1);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let (mut frames, mut depth) = ([0; MAX_FRAMES], 0);
            let stack = &mut CopiedStack { low: 0, bytes: &bytes };
            let followed = trail.follow(from, stack, &mut frames, &mut depth);
            (followed, depth)
        };
        let walk = |trail: &mut Trail| {
            trail.begin(1);
            trail.note(Mark::leads(leaf, Some(0x180), None));
            trail.note(Mark::leads(middle, Some(0x280), Some(0x288)));
            trail.note(Mark::root(root, None));
            trail.end();
        };
        assert_eq!(follow(&mut trail, &words, leaf), (Followed::To(leaf), 0), "nothing is remembered");
        walk(&mut trail);
        assert_eq!(follow(&mut trail, &words, leaf), (Followed::Root, 3));
        trail.end();
        assert_eq!(follow(&mut trail, &words, middle), (Followed::Root, 2), "what was followed is remembered too");
        walk(&mut trail);
        let other = Caller { bp: 8, ..leaf };
        assert_eq!(follow(&mut trail, &words, other), (Followed::To(other), 0), "another base pointer");
        words[0x288 / 8] = 9;
        assert_eq!(follow(&mut trail, &words, leaf), (Followed::To(middle), 1), "the base pointer that is saved");
        trail.begin(2);
        assert_eq!(trail.count, 0, "other modules");
    }

    #[test]
    fn of_a_deep_walk_the_frames_next_to_the_root_are_remembered() {
        let frame = |at: u64| Caller { ip: 1000 - at, sp: 16 * at, bp: 0, knows_bp: false };
        let mut trail = Trail::new();
        trail.begin(1);
        let deep = 2 * MARKS as u64 + 5;
        (0..deep).for_each(|at| trail.note(Mark::leads(frame(at), None, None)));
        trail.end();
        assert_eq!(trail.count, MARKS);
        assert_eq!((trail.marks[0].frame, trail.marks[MARKS - 1].frame), (frame(deep - 1), frame(deep - MARKS as u64)));
    }
}

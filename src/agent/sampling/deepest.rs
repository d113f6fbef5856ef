//! The deepest stack of each thread, with the size of each frame.
//!
//! A walk knows the stack pointer of each frame. When a stack is deeper than every earlier one of
//! its thread, the handler copies the stack pointers of the walk into one of a few mailboxes, from
//! which the agent thread sends them. Other samples pay for a comparison.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::agent::os::memory::PageAligned;
use crate::agent::os::syscall;
use crate::agent::state;
use crate::agent::unwind::last_walk::{LEAF_CALLERS, LastWalk, MAX_FRAMES_CACHED};
use crate::agent::unwind::modules::Snapshot;
use crate::agent::unwind::step::Walk;
use crate::arch::page_size;
use crate::wire::{DeepestStack, FRAMES_LEFT_OUT, FrameAddress, StackFrame, flag};

/// Number of threads that are remembered at a time. Of two with the same place, the later replaces
/// the earlier, and both are measured anew.
const THREADS: usize = 512;
/// Number of stacks that can wait for the agent thread.
const MAILBOXES: usize = 4;
/// A stack is deeper than another if it is larger by more than this fraction of it.
const DEEPER: u32 = 64;
/// Frames of a mailbox: the leaf, and the callers of a walk. One of them may stand for several.
const FRAMES: usize = 1 + LEAF_CALLERS + MAX_FRAMES_CACHED;
/// The end of a stack of a thread that uses several stacks.
const SEVERAL: u64 = u64::MAX;
/// Bit of a base: the maps did not have the memory of the deepest stack yet. It is measured again
/// once they have.
const UNMAPPED: u64 = 1;

/// The deepest stack of one thread so far.
struct Seen {
    /// `tid << 32 | words`: the thread, and the depth of its deepest stack in words of 8 bytes.
    depth: AtomicU64,
    /// The stack pointer of its first frame, with which its stack begins; 0 if that is unknown. It
    /// may have the bit [`UNMAPPED`].
    base: AtomicU64,
}

#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static SEEN: PageAligned<[Seen; THREADS]> =
    PageAligned([const { Seen { depth: AtomicU64::new(0), base: AtomicU64::new(0) } }; THREADS]);

/// A measured stack.
struct Measured {
    tid: u32,
    generation: u32,
    /// Stack pointers of the leaf and of the first frame.
    sp: u64,
    base: u64,
    /// Whether the thread was never seen on another stack.
    has_one_stack: bool,
    frames: [StackFrame; FRAMES],
    count: usize,
}

/// State of a mailbox. In all states but FREE it belongs to its owner: the handler that claimed it,
/// then the agent thread.
const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const READY: u32 = 2;

/// Room for one stack on its way to the agent thread.
struct Mailbox {
    state: AtomicU32,
    stack: UnsafeCell<Measured>,
}

// SAFETY: the cell is its owner's (see the states).
unsafe impl Sync for Mailbox {}

#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static OUTGOING: PageAligned<[Mailbox; MAILBOXES]> = PageAligned(
    [const {
        let frames = [StackFrame { address: 0, bytes: 0 }; FRAMES];
        let stack = Measured { tid: 0, generation: 0, sp: 0, base: 0, has_one_stack: false, frames, count: 0 };
        Mailbox { state: AtomicU32::new(FREE), stack: UnsafeCell::new(stack) }
    }; MAILBOXES],
);

fn seen(tid: u32) -> &'static Seen {
    &SEEN[tid as usize % THREADS]
}

/// Measures the stack of a walk that has just ended, from `sp` on, if it is deeper than every
/// earlier one of its thread. `leaf` is the first frame, packed. Stacks with a signal handler are
/// left out, because the handler may have a stack of its own.
pub(crate) fn note(tid: u32, sp: u64, snapshot: &Snapshot, last: &LastWalk, walk: &Walk, leaf: u64) {
    if tid == 0 || walk.flags & (flag::SIGNAL_FRAME | flag::UNREADABLE) != 0 {
        return;
    }
    let seen = seen(tid);
    let known = seen.depth.load(Ordering::Relaxed);
    if (known >> 32) as u32 != tid {
        seen.base.store(0, Ordering::Relaxed);
        seen.depth.store(u64::from(tid) << 32, Ordering::Relaxed);
    }
    let words_before = if (known >> 32) as u32 == tid { known as u32 } else { 0 };
    let (base_before, was_unmapped) = match seen.base.load(Ordering::Relaxed) {
        SEVERAL => (SEVERAL, 0),
        base => (base & !UNMAPPED, base & UNMAPPED),
    };
    let is_whole = walk.flags & flag::TRUNCATED == 0;
    let base = match last.outermost().filter(|_| is_whole) {
        Some(first) => first.sp,
        // A stack that is too deep to be walked to its end has the base of earlier ones.
        None if base_before != SEVERAL && (sp..snapshot.stack_end(sp).unwrap_or(0)).contains(&base_before) => {
            base_before
        }
        None => return,
    };
    let has_one_stack = base_before == 0 || base_before == base;
    let keep_base = |bit: u64| seen.base.store(if has_one_stack { base | bit } else { SEVERAL }, Ordering::Relaxed);
    keep_base(was_unmapped);
    let Ok(words) = u32::try_from(base.saturating_sub(sp) / 8) else { return };
    let is_mapped = snapshot.stack_end(sp).is_some();
    let is_as_deep = was_unmapped != 0 && is_mapped && words >= words_before;
    if words <= words_before.saturating_add(words_before / DEEPER) && !is_as_deep {
        return;
    }
    let claim = |mailbox: &&Mailbox| {
        mailbox.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(mailbox) = OUTGOING.iter().find(claim) else { return };
    // SAFETY: this handler alone claimed it.
    let measured = unsafe { &mut *mailbox.stack.get() };
    (measured.tid, measured.generation) = (tid, snapshot.generation());
    (measured.sp, measured.base, measured.has_one_stack) = (sp, base, has_one_stack);
    measured.fill(snapshot, last, leaf);
    seen.depth.store(u64::from(tid) << 32 | u64::from(words), Ordering::Relaxed);
    keep_base(if is_mapped { 0 } else { UNMAPPED });
    if !is_mapped {
        state::WANT_MODULES.store(true, Ordering::Relaxed);
    }
    mailbox.state.store(READY, Ordering::Release);
}

impl Measured {
    /// Takes the frames of a walk and their sizes. Those of the agent's own code are left out.
    fn fill(&mut self, snapshot: &Snapshot, last: &LastWalk, leaf: u64) {
        self.count = 0;
        let (mut address, mut sp) = (leaf, self.sp);
        for caller in last.callers() {
            let Some((caller_ip, caller_sp)) = caller else {
                // Nothing tells where this frame ends: it counts with those that follow.
                address = FRAMES_LEFT_OUT;
                continue;
            };
            self.push(snapshot, address, caller_sp.wrapping_sub(sp));
            (address, sp) = (FrameAddress::Return(caller_ip).pack(), caller_sp);
        }
        self.push(snapshot, address, 0);
    }

    fn push(&mut self, snapshot: &Snapshot, address: u64, bytes: u64) {
        let is_own = address != FRAMES_LEFT_OUT && snapshot.is_own(FrameAddress::unpack(address).lookup());
        if !is_own && let Some(frame) = self.frames.get_mut(self.count) {
            *frame = StackFrame { address, bytes };
            self.count += 1;
        }
    }

    /// Returns the message. `snapshot` tells how large the stack may become.
    fn message<'a>(&'a self, snapshot: &Snapshot) -> DeepestStack<&'a [StackFrame]> {
        let own_mapping =
            || snapshot.writable_around(self.sp).filter(|_| self.has_one_stack && self.tid != syscall::getpid());
        let (end, size) = match (snapshot.is_on_first_stack(self.sp), own_mapping()) {
            // The rest of the first thread's stack has arguments and environment.
            (true, _) => (snapshot.stack_end(self.sp).unwrap_or(self.base), growth_limit()),
            // Above the first frame are the thread's own data, and then perhaps other memory.
            (false, Some((start, _))) => {
                let end = self.base.next_multiple_of(page_size() as u64);
                (end, end.saturating_sub(start))
            }
            (false, None) => (self.base, 0),
        };
        let used = end.saturating_sub(self.sp);
        let frames = &self.frames[..self.count];
        DeepestStack { tid: self.tid, generation: self.generation, used, size, frames }
    }
}

/// Returns the size to which the first thread's stack may grow, in bytes; 0 if there is no limit.
/// getrlimit(2)
fn growth_limit() -> u64 {
    match syscall::limit(libc::RLIMIT_STACK as i32) {
        libc::RLIM_INFINITY => 0,
        limit => limit,
    }
}

/// Calls `send` with every stack that waits. One that it does not take is offered again. For the
/// agent thread only.
pub(crate) fn drain(snapshot: &Snapshot, mut send: impl FnMut(&DeepestStack<&[StackFrame]>) -> bool) {
    for mailbox in OUTGOING.iter().filter(|mailbox| mailbox.state.load(Ordering::Acquire) == READY) {
        // SAFETY: written completely, and nobody's but this thread's until it is free.
        let measured = unsafe { &*mailbox.stack.get() };
        if send(&measured.message(snapshot)) {
            mailbox.state.store(FREE, Ordering::Release);
        }
    }
}

/// Forgets the stacks of every thread: a new viewer knows none.
pub(crate) fn forget_all() {
    SEEN.iter().for_each(|seen| seen.depth.store(0, Ordering::Relaxed));
}

/// Forgets the stacks of a thread that has ended. Another may get its id.
pub(crate) fn forget(tid: u32) {
    let depth = &seen(tid).depth;
    if (depth.load(Ordering::Relaxed) >> 32) as u32 == tid {
        depth.store(0, Ordering::Relaxed);
    }
}

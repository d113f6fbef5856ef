//! The agent's own alternate signal stacks, one per thread, so that the kernel writes the frame of
//! a tick there and never below the stack pointer of the program.
//!
//! A stack belongs to one thread until that thread has ended. Its owner is looked up by thread id,
//! because the kernel forgets the setting with the thread and tells nobody. The memory stays: a
//! program with `n` threads at once has at most `2 n` stacks, of which two pages each are touched.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::memory;
use super::sys::{self, syscall};

/// Bytes of address space per stack: a guard page, the stack, and its [`Header`] at the top. A tick
/// needs two pages. The rest is for handlers that the program installed by a raw system call: those
/// run here when they have `SA_ONSTACK` and their thread has no alternate stack of its own.
const SIZE: usize = 64 * 1024;
const GUARD: usize = 4096;
const HEADER: usize = 128;
/// Chunks of memory: one stack, and then each time as many as there are.
const CHUNKS: usize = 11;
/// Maximum number of stacks. Threads beyond get ticks on their own stack.
const CAPACITY: usize = 1 << (CHUNKS - 1);
/// Owner of a stack that waits for its thread to start.
const PENDING: u32 = u32::MAX;
const MADV_DOFORK: i32 = 11;

const _: () = assert!(size_of::<Header>() <= HEADER);

/// First address of each chunk, or 0. Written once, by compare-exchange.
static STARTS: [AtomicUsize; CHUNKS] = [const { AtomicUsize::new(0) }; CHUNKS];
/// Number of stacks in the chunks that exist.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Thread id of each stack's owner; 0 if it is free, or [`PENDING`].
static OWNERS: [AtomicU32; CAPACITY] = [const { AtomicU32::new(0) }; CAPACITY];
/// A handler found no free stack. Cleared when there may be one again.
static EXHAUSTED: AtomicBool = AtomicBool::new(false);

/// What the agent keeps at the top of a stack. The owner reads and writes it; the thread that
/// creates the owner writes it before.
#[derive(Default)]
struct Header {
    /// The alternate stack that the program set for this thread: address, size (0: none).
    program: [AtomicUsize; 2],
    /// Address of the last frame that was copied to a stack of the program's; 0 when that stack is
    /// another now.
    last_frame: AtomicUsize,
    /// A signal frame is being copied from this stack to one of the program's.
    moving: AtomicBool,
    /// Start routine of the thread that is being created, and its argument.
    start: [AtomicUsize; 2],
    /// Signals that this thread inherits as blocked, but the program's own mask does not have.
    blocked_for_parent: AtomicU64,
}

/// An alternate stack as the program sets it. A size of 0 means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramStack {
    /// Lowest address.
    pub(super) start: usize,
    /// Bytes.
    pub(super) size: usize,
}

impl ProgramStack {
    /// Whether the kernel would say that a thread with this stack pointer runs on it.
    pub(super) fn holds(self, sp: usize) -> bool {
        sp > self.start && sp - self.start <= self.size
    }
}

/// One of the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignalStack {
    index: usize,
    region: usize,
}

impl SignalStack {
    fn at(index: usize) -> SignalStack {
        let chunk = if index == 0 { 0 } else { index.ilog2() as usize + 1 };
        let first = if chunk == 0 { 0 } else { 1 << (chunk - 1) };
        SignalStack { index, region: STARTS[chunk].load(Ordering::Acquire) + (index - first) * SIZE }
    }

    /// The stack that an address lies on, if it is one of the agent's.
    pub(super) fn containing(address: usize) -> Option<SignalStack> {
        let mut first = 0;
        for (chunk, start) in STARTS.iter().enumerate() {
            let start = start.load(Ordering::Acquire);
            let stacks = if chunk == 0 { 1 } else { 1 << (chunk - 1) };
            if start != 0 && (start..start + stacks * SIZE).contains(&address) {
                let step = (address - start) / SIZE;
                return Some(SignalStack { index: first + step, region: start + step * SIZE });
            }
            first += stacks;
        }
        None
    }

    /// The lowest address that the kernel may use.
    pub(super) fn start(self) -> usize {
        self.region + GUARD
    }

    /// Bytes that the kernel may use.
    pub(super) fn size(self) -> usize {
        SIZE - GUARD - HEADER
    }

    /// First address above.
    pub(super) fn top(self) -> usize {
        self.start() + self.size()
    }

    fn header(self) -> &'static Header {
        // SAFETY: the top of a region that was mapped for good; zero is valid, and all fields are
        // atomic.
        unsafe { &*(self.top() as *const Header) }
    }

    /// What the program believes to be this thread's alternate stack.
    pub(super) fn program(self) -> ProgramStack {
        let [start, size] = &self.header().program;
        ProgramStack { start: start.load(Ordering::Relaxed), size: size.load(Ordering::Relaxed) }
    }

    /// Records what the program set.
    pub(super) fn set_program(self, stack: ProgramStack) {
        let [start, size] = &self.header().program;
        start.store(stack.start, Ordering::Relaxed);
        size.store(stack.size, Ordering::Relaxed);
        self.last_frame().store(0, Ordering::Relaxed);
    }

    /// Address of the last frame that was copied from here, which can be written again.
    pub(super) fn last_frame(self) -> &'static AtomicUsize {
        &self.header().last_frame
    }

    /// Whether a signal frame is being copied from here.
    pub(super) fn moving(self) -> &'static AtomicBool {
        &self.header().moving
    }

    /// Start routine and argument of the thread that is being created with this stack.
    pub(super) fn start_routine(self) -> &'static [AtomicUsize; 2] {
        &self.header().start
    }

    /// Signals that the thread inherits as blocked, but should not.
    pub(super) fn blocked_for_parent(self) -> u64 {
        self.header().blocked_for_parent.load(Ordering::Relaxed)
    }

    /// Records them.
    pub(super) fn set_blocked_for_parent(self, signals: u64) {
        self.header().blocked_for_parent.store(signals, Ordering::Relaxed);
    }

    /// The stack belongs to this thread from now on.
    pub(super) fn set_owner(self, tid: u32) {
        OWNERS[self.index].store(tid, Ordering::Release);
    }

    /// Makes the stack free. The kernel must not know it as anybody's alternate stack.
    pub(super) fn release(self) {
        self.set_owner(0);
        EXHAUSTED.store(false, Ordering::Relaxed);
    }

    /// Makes it the calling thread's alternate stack; false when the thread runs on the present
    /// one. sigaltstack(2)
    pub(super) fn install(self) -> bool {
        let stack = libc::stack_t {
            ss_sp: core::ptr::with_exposed_provenance_mut(self.start()),
            ss_flags: 0,
            ss_size: self.size(),
        };
        // SAFETY: memory that is mapped for good, and only this thread's while it lives.
        unsafe { syscall!(libc::SYS_sigaltstack, &raw const stack, 0usize) == 0 }
    }
}

/// A free stack for a thread, or the one it has had before; makes no system call. For handlers.
pub(super) fn claim(tid: u32) -> Option<SignalStack> {
    if EXHAUSTED.load(Ordering::Relaxed) {
        return None;
    }
    let owners = &OWNERS[..COUNT.load(Ordering::Acquire)];
    let had = owners.iter().position(|owner| owner.load(Ordering::Relaxed) == tid);
    let free =
        || owners.iter().position(|owner| owner.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    let index = had.filter(|_| tid != PENDING).or_else(free);
    if index.is_none() {
        EXHAUSTED.store(true, Ordering::Relaxed);
    }
    index.map(SignalStack::at)
}

/// The same where system calls may be made: takes back what ended threads had, or maps more.
pub(super) fn claim_or_grow(tid: u32) -> Option<SignalStack> {
    claim(tid).or_else(|| {
        let count = COUNT.load(Ordering::Acquire);
        // With so many threads only the agent thread has the time to ask for each whether it has
        // ended.
        if count == CAPACITY {
            return None;
        }
        provide(count + 1);
        claim(tid)
    })
}

/// A stack for a thread that does not exist yet. The thread becomes its owner, or it is released.
pub(super) fn claim_for_new_thread() -> Option<SignalStack> {
    claim_or_grow(PENDING)
}

/// Sees to it that so many threads find a stack. For threads that may make system calls.
pub(super) fn provide(threads: usize) {
    let count = COUNT.load(Ordering::Acquire);
    if threads.min(CAPACITY) <= count && !EXHAUSTED.load(Ordering::Relaxed) {
        return;
    }
    // Where half of them belonged to ended threads there is no need for more.
    if sweep() * 2 <= count {
        grow();
    }
    EXHAUSTED.store(false, Ordering::Relaxed);
}

/// Takes back the stacks of threads that have ended, and returns how many.
fn sweep() -> usize {
    let owners = &OWNERS[..COUNT.load(Ordering::Acquire)];
    let is_taken_back = |owner: &&AtomicU32| {
        let tid = owner.load(Ordering::Relaxed);
        let ended = !matches!(tid, 0 | PENDING) && !sys::has_thread(tid);
        ended && owner.compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    owners.iter().filter(is_taken_back).count()
}

/// Maps as many as there are.
fn grow() {
    let before = COUNT.load(Ordering::Acquire);
    let chunk = if before == 0 { 0 } else { before.ilog2() as usize + 1 };
    let stacks = before.max(1);
    let Some(start) = STARTS.get(chunk) else { return };
    let region = memory::pages(stacks * SIZE);
    if region.is_null() {
        return;
    }
    // A fork child goes on with the stack of the thread that forked.
    // SAFETY: fresh pages of the agent's own, whose guards nobody uses.
    unsafe {
        syscall!(libc::SYS_madvise, region, stacks * SIZE, MADV_DOFORK);
        (0..stacks).for_each(|step| {
            syscall!(libc::SYS_mprotect, region.add(step * SIZE), GUARD, libc::PROT_NONE);
        });
    }
    match start.compare_exchange(0, region as usize, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => COUNT.store(before + stacks, Ordering::Release),
        // SAFETY: mapped just now and shown to nobody.
        Err(_) => unsafe { memory::release(region, stacks * SIZE) },
    }
}

/// In a fork child only the thread that forked is left, with a new id and its stack (if it has
/// one).
pub(super) fn keep_only(stack: Option<SignalStack>, tid: u32) {
    for owner in &OWNERS[..COUNT.load(Ordering::Acquire)] {
        owner.store(0, Ordering::Relaxed);
    }
    if let Some(stack) = stack {
        stack.set_owner(tid);
    }
    EXHAUSTED.store(false, Ordering::Relaxed);
}

/// Whether there is any stack, so that one may be in use.
pub(super) fn is_in_use() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_ended_threads_are_used_again() {
        for _ in 0..200 {
            let thread = std::thread::spawn(|| {
                let tid = sys::gettid();
                let stack = claim_or_grow(tid).expect("memory");
                assert_eq!(claim(tid), Some(stack), "a thread has one stack");
                assert_eq!(SignalStack::containing(stack.start()), Some(stack));
                assert_eq!(SignalStack::containing(stack.top() - 1), Some(stack));
                assert_eq!(SignalStack::at(stack.index), stack);
            });
            thread.join().expect("no panic");
        }
        // A thread that has been joined may take a moment to end, and other tests have some.
        assert!(COUNT.load(Ordering::Relaxed) <= 32, "{} stacks", COUNT.load(Ordering::Relaxed));
        assert_eq!(SignalStack::containing(8), None);
    }
}

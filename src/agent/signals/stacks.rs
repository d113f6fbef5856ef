//! The agent's alternate signal stacks, one per thread. The kernel writes the frame of a tick there
//! and never below the program's stack pointer.
//!
//! A stack belongs to one thread until that thread has ended. The owner is checked by thread id,
//! because the kernel does not report that a thread has ended. Memory is never unmapped: a program
//! with `n` simultaneous threads has at most `2 n` stacks, of which two pages each are touched.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::agent::os::memory::{self, PageAligned};
use crate::agent::os::syscall::{self, syscall};
use crate::arch::{LARGEST_PAGE, UC_STACK_FLAGS, UC_STACK_SIZE, UC_STACK_START};

/// Bytes of address space per stack: a guard page, the stack, and its [`StackHeader`] at the top. A
/// tick needs two pages. The rest is for handlers that the program installed by a raw system call:
/// those run here when they have `SA_ONSTACK` and their thread has no alternate stack of its own.
const SIZE: usize = if LARGEST_PAGE > 16 * 1024 { 128 * 1024 } else { 64 * 1024 };
const GUARD: usize = LARGEST_PAGE;
const HEADER: usize = 128;
/// Number of chunks of memory. The first has one stack, and each further one as many as all before.
const CHUNKS: usize = 11;
/// Maximum number of stacks. Threads beyond get ticks on their own stack.
const CAPACITY: usize = 1 << (CHUNKS - 1);
/// The owner of a stack whose thread has not started yet.
const PENDING: u32 = u32::MAX;

/// Minimum size of a stack of the program's that has room for the frame of a tick in addition to
/// the handler that it interrupts, and the part of it for the functions of that handler, in bytes.
const ROOMY: usize = 16 * 1024;
const HANDLER: usize = 8 * 1024;

const _: () = assert!(size_of::<StackHeader>() <= HEADER);

/// Size of the largest signal frame, in bytes; 0 if it is unknown. Written while constructors run.
static FRAME_SIZE: AtomicUsize = AtomicUsize::new(0);

/// Start address of each chunk, or 0. Written once, by compare-exchange.
static STARTS: [AtomicUsize; CHUNKS] = [const { AtomicUsize::new(0) }; CHUNKS];
/// Number of stacks in the chunks that exist.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Thread id of the first stack's owner; 0 if it is free, or [`PENDING`]. Most processes have one
/// thread and do not use the table.
static FIRST_OWNER: AtomicU32 = AtomicU32::new(0);
/// Thread ids of the further stacks' owners.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static OWNERS: PageAligned<[AtomicU32; CAPACITY - 1]> = PageAligned([const { AtomicU32::new(0) }; CAPACITY - 1]);
/// Whether a handler found no free stack. Cleared when there may be one again.
static EXHAUSTED: AtomicBool = AtomicBool::new(false);

/// The data at the top of a stack. The owner reads and writes it; the thread that creates the owner
/// writes it before.
#[derive(Default)]
struct StackHeader {
    /// The alternate stack that the program set for this thread: address, size (0: none).
    program: [AtomicUsize; 2],
    /// Address of the last frame that was copied to a stack of the program's; 0 after the program
    /// has set another stack.
    last_frame: AtomicUsize,
    /// Whether a signal frame is being copied from this stack to one of the program's.
    moving: AtomicBool,
    /// Start routine and argument of the thread that is being created.
    start: [AtomicUsize; 2],
    /// Signals that this thread inherits as blocked although the program's own mask does not have
    /// them.
    blocked_for_parent: AtomicU64,
}

/// An alternate stack as the program sets it. A size of 0 means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramStack {
    /// Start address.
    pub(crate) start: usize,
    /// Size in bytes.
    pub(crate) size: usize,
}

/// Sets the size of the largest signal frame in bytes, as the kernel gives it (AT_MINSIGSTKSZ):
/// AVX-512, AMX and SVE make frames large.
pub(crate) fn set_frame_size(bytes: usize) {
    FRAME_SIZE.store(bytes, Ordering::Relaxed);
}

/// Returns whether a stack of this size has no room for a tick.
pub(crate) fn is_small(size: usize) -> bool {
    size < roomy_size(FRAME_SIZE.load(Ordering::Relaxed))
}

/// Returns the minimum size of a stack that has room for a tick, by the size of a signal frame.
fn roomy_size(frame: usize) -> usize {
    frame.saturating_mul(2).saturating_add(HANDLER).max(ROOMY)
}

impl ProgramStack {
    /// Returns whether a thread with this stack pointer runs on the stack, by the kernel's rule.
    pub(crate) fn holds(self, sp: usize) -> bool {
        sp > self.start && sp - self.start <= self.size
    }
}

/// One of the agent's stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalStack {
    index: usize,
    region: usize,
}

impl SignalStack {
    fn at(index: usize) -> SignalStack {
        let chunk = if index == 0 { 0 } else { index.ilog2() as usize + 1 };
        let first = if chunk == 0 { 0 } else { 1 << (chunk - 1) };
        SignalStack { index, region: STARTS[chunk].load(Ordering::Acquire) + (index - first) * SIZE }
    }

    /// Returns the stack that contains an address, if it is one of the agent's.
    pub(crate) fn containing(address: usize) -> Option<SignalStack> {
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

    /// Start address of the part that the kernel may use.
    pub(crate) fn start(self) -> usize {
        self.region + GUARD
    }

    /// Size of that part in bytes.
    pub(crate) fn size(self) -> usize {
        SIZE - GUARD - HEADER
    }

    /// End address of that part.
    pub(crate) fn top(self) -> usize {
        self.start() + self.size()
    }

    fn header(self) -> &'static StackHeader {
        // SAFETY: the top of a region that is never unmapped. All bytes zero are valid, and all
        // fields are atomic.
        unsafe { &*(self.top() as *const StackHeader) }
    }

    /// The alternate stack that the program has set for this thread.
    pub(crate) fn program(self) -> ProgramStack {
        let [start, size] = &self.header().program;
        ProgramStack { start: start.load(Ordering::Relaxed), size: size.load(Ordering::Relaxed) }
    }

    /// Records the alternate stack that the program has set.
    pub(crate) fn set_program(self, stack: ProgramStack) {
        let [start, size] = &self.header().program;
        start.store(stack.start, Ordering::Relaxed);
        size.store(stack.size, Ordering::Relaxed);
        self.last_frame().store(0, Ordering::Relaxed);
    }

    /// Address of the last frame that was copied from here. That place is known to be writable.
    pub(crate) fn last_frame(self) -> &'static AtomicUsize {
        &self.header().last_frame
    }

    /// Whether a signal frame is being copied from this stack.
    pub(crate) fn moving(self) -> &'static AtomicBool {
        &self.header().moving
    }

    /// Start routine and argument of the thread that is being created with this stack.
    pub(crate) fn start_routine(self) -> &'static [AtomicUsize; 2] {
        &self.header().start
    }

    /// Signals that the thread inherits as blocked and has to unblock.
    pub(crate) fn blocked_for_parent(self) -> u64 {
        self.header().blocked_for_parent.load(Ordering::Relaxed)
    }

    /// Records the signals that the thread has to unblock.
    pub(crate) fn set_blocked_for_parent(self, signals: u64) {
        self.header().blocked_for_parent.store(signals, Ordering::Relaxed);
    }

    /// Assigns the stack to a thread.
    pub(crate) fn set_owner(self, tid: u32) {
        match self.index {
            0 => FIRST_OWNER.store(tid, Ordering::Release),
            index => OWNERS[index - 1].store(tid, Ordering::Release),
        }
    }

    /// Frees the stack. It must not be any thread's alternate stack.
    pub(crate) fn release(self) {
        self.set_owner(0);
        EXHAUSTED.store(false, Ordering::Relaxed);
    }

    /// Makes it the calling thread's alternate stack. Returns false if the thread runs on its
    /// current one. sigaltstack(2)
    pub(crate) fn install(self) -> bool {
        let stack = libc::stack_t {
            ss_sp: core::ptr::with_exposed_provenance_mut(self.start()),
            ss_flags: 0,
            ss_size: self.size(),
        };
        // SAFETY: memory that is never unmapped, and belongs to this thread while it lives.
        unsafe { syscall!(libc::SYS_sigaltstack, &raw const stack, 0usize) == 0 }
    }
}

/// Returns the owners of all stacks, in their order.
fn owners() -> impl Iterator<Item = &'static AtomicU32> {
    core::iter::once(&FIRST_OWNER).chain(OWNERS.iter()).take(COUNT.load(Ordering::Acquire))
}

/// Returns a free stack for a thread, or the one that it had before. Makes no system call. For
/// handlers.
pub(crate) fn claim(tid: u32) -> Option<SignalStack> {
    if EXHAUSTED.load(Ordering::Relaxed) {
        return None;
    }
    let previous = owners().position(|owner| owner.load(Ordering::Relaxed) == tid);
    let free =
        || owners().position(|owner| owner.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    let index = previous.filter(|_| tid != PENDING).or_else(free);
    if index.is_none() {
        EXHAUSTED.store(true, Ordering::Relaxed);
    }
    index.map(SignalStack::at)
}

/// Like [`claim`], but frees stacks of ended threads or maps more, which takes system calls.
pub(crate) fn claim_or_grow(tid: u32) -> Option<SignalStack> {
    claim(tid).or_else(|| {
        let count = COUNT.load(Ordering::Acquire);
        // With so many threads, only the agent thread has the time to check each of them.
        if count == CAPACITY {
            return None;
        }
        provide(count + 1);
        claim(tid)
    })
}

/// Returns a stack for a thread that does not exist yet. The thread becomes its owner, or the
/// caller releases it.
pub(crate) fn claim_for_new_thread() -> Option<SignalStack> {
    claim_or_grow(PENDING)
}

/// Provides stacks for a number of threads. For threads that may make system calls.
pub(crate) fn provide(threads: usize) {
    let count = COUNT.load(Ordering::Acquire);
    if threads.min(CAPACITY) <= count && !EXHAUSTED.load(Ordering::Relaxed) {
        return;
    }
    // If half of the stacks belonged to ended threads, there are enough.
    if sweep() * 2 <= count {
        grow();
    }
    EXHAUSTED.store(false, Ordering::Relaxed);
}

/// Frees the stacks of ended threads, and returns their number.
fn sweep() -> usize {
    let is_freed = |owner: &&AtomicU32| {
        let tid = owner.load(Ordering::Relaxed);
        let ended = !matches!(tid, 0 | PENDING) && !syscall::has_thread(tid);
        ended && owner.compare_exchange(tid, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    owners().filter(is_freed).count()
}

/// Doubles the number of stacks.
fn grow() {
    let before = COUNT.load(Ordering::Acquire);
    let chunk = if before == 0 { 0 } else { before.ilog2() as usize + 1 };
    let stacks = before.max(1);
    let Some(start) = STARTS.get(chunk) else { return };
    let Some(region) = map_stacks(stacks) else { return };
    match start.compare_exchange(0, region as usize, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => COUNT.store(before + stacks, Ordering::Release),
        // SAFETY: mapped just now and not published.
        Err(_) => unsafe { memory::unmap(region, stacks * SIZE) },
    }
}

/// Maps memory for stacks, each with a guard page at its start. A fork child continues on the stack
/// of the thread that forked, so it inherits them.
fn map_stacks(stacks: usize) -> Option<*mut u8> {
    // Every process has the first one, and few use it.
    if stacks == 1
        && let Some(start) = memory::map_behind_gap(GUARD, SIZE - GUARD)
    {
        return Some(start.wrapping_sub(GUARD));
    }
    let region = memory::map_inherited(stacks * SIZE);
    if region.is_null() {
        return None;
    }
    // SAFETY: new pages of the agent's. The guard pages are not used.
    unsafe {
        (0..stacks).for_each(|step| {
            syscall!(libc::SYS_mprotect, region.add(step * SIZE), GUARD, libc::PROT_NONE);
        });
    }
    Some(region)
}

/// Frees all stacks but one, which belongs to the thread that forked, now with a new id. For a fork
/// child.
pub(crate) fn keep_only(stack: Option<SignalStack>, tid: u32) {
    owners().for_each(|owner| owner.store(0, Ordering::Relaxed));
    if let Some(stack) = stack {
        stack.set_owner(tid);
    }
    EXHAUSTED.store(false, Ordering::Relaxed);
}

/// Returns whether there is such a thread. Signals that are sent to the process must not be taken
/// into use then.
pub(crate) fn is_in_use() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

/// Gives the interrupted thread an alternate stack if it has none. Makes no system call. For
/// handlers.
///
/// # Safety
/// `context` is the ucontext that the kernel passed to a handler that will return.
#[inline(always)]
pub(crate) unsafe fn lend(context: *mut u64, tid: u32) {
    // SAFETY: the caller vouches.
    unsafe {
        if *context.add(UC_STACK_SIZE) == 0 && tid != 0 {
            lend_to(context, tid);
        }
    }
}

#[cold]
unsafe fn lend_to(context: *mut u64, tid: u32) {
    let Some(stack) = claim(tid) else { return };
    stack.set_program(ProgramStack::default());
    // SAFETY: the caller vouches.
    unsafe {
        *context.add(UC_STACK_START) = stack.start() as u64;
        *context.add(UC_STACK_FLAGS) = 0;
        *context.add(UC_STACK_SIZE) = stack.size() as u64;
    }
}

/// Gives the calling thread an alternate stack if it has none. For the constructor of a watched
/// process.
pub(crate) fn lend_to_own_thread() {
    // The first of all stacks is fresh: to write to it would take pages in every process.
    let is_fresh = !is_in_use();
    if kernel_stack().ss_size == 0
        && let Some(stack) = claim_or_grow(syscall::gettid())
    {
        if !is_fresh {
            stack.set_program(ProgramStack::default());
        }
        stack.install();
    }
}

/// Frees the stacks of the parent's other threads. For a fork child.
pub(crate) fn forget_other_threads() {
    if is_in_use() {
        keep_only(own_stack(&kernel_stack()), syscall::gettid());
    }
}

pub(crate) const NONE: libc::stack_t =
    libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

/// Returns the kernel's alternate stack of the calling thread. sigaltstack(2)
pub(crate) fn kernel_stack() -> libc::stack_t {
    let mut stack = NONE;
    // SAFETY: one structure out.
    unsafe { syscall!(libc::SYS_sigaltstack, 0usize, &raw mut stack) };
    stack
}

/// Returns the stack of the agent's that the kernel has, if it has one.
pub(crate) fn own_stack(stack: &libc::stack_t) -> Option<SignalStack> {
    if stack.ss_size == 0 { None } else { SignalStack::containing(stack.ss_sp.addr()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_with_room_holds_two_signal_frames() {
        assert_eq!([0, 3376].map(roomy_size), [16 * 1024; 2], "the size is unknown, and frames with AVX-512");
        assert_eq!(roomy_size(11 * 1024), 30 * 1024, "frames with AMX");
    }

    #[test]
    fn stacks_of_ended_threads_are_reused() {
        for _ in 0..200 {
            let thread = std::thread::spawn(|| {
                let tid = syscall::gettid();
                let stack = claim_or_grow(tid).expect("memory");
                assert_eq!(claim(tid), Some(stack), "a thread has one stack");
                assert_eq!(SignalStack::containing(stack.start()), Some(stack));
                assert_eq!(SignalStack::containing(stack.top() - 1), Some(stack));
                assert_eq!(SignalStack::at(stack.index), stack);
            });
            thread.join().expect("no panic");
        }
        // A joined thread may take a moment to end, and other tests use stacks too.
        assert!(COUNT.load(Ordering::Relaxed) <= 32, "{} stacks", COUNT.load(Ordering::Relaxed));
        assert_eq!(SignalStack::containing(8), None);
    }
}

//! The interpreter (CPython) of this process: [`cpython`](crate::process::cpython) for its handlers and its
//! agent thread.
//!
//! The agent thread finds the interpreter among the loaded modules ([`finder`]) and publishes where
//! it is. When a handler has walked a native stack and found the interpreter's loop on it, it reads
//! the thread's own list of frames and merges it into the stack.

pub(crate) mod finder;

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::agent::os::memory::PageAligned;
use crate::agent::os::process_memory::{OwnMemory, ProcessMemory};
use crate::agent::sampling::counters;
use crate::agent::state;
use crate::process::cpython::frames::{CPython, FrameList};
use crate::process::cpython::memory::TargetMemory;
use crate::process::cpython::merge;
use crate::wire::MAX_FRAMES;
use crate::wire::interpreter::FrameAccess;
use crate::wire::ring::word;

/// Cost of a system call that reads the interpreter's frames, and of each address that it reads
/// from, as a number of native frames. A call that reads 8 to 2048 bytes from one address took 0.84
/// µs, and one that reads 144 bytes from each of 16 took 6.4 µs.
const CALL_IN_FRAMES: u64 = 11;
const ADDRESS_IN_FRAMES: u64 = 10;

/// The published interpreter.
static PUBLISHED: PublishedInterpreter =
    PublishedInterpreter { state: AtomicU32::new(EMPTY), interpreter: UnsafeCell::new(MaybeUninit::uninit()) };

/// No interpreter was found yet.
const EMPTY: u32 = 0;
/// Handlers may read the interpreter.
const READY: u32 = 1;
/// The interpreter was unloaded, or cannot be read in this process.
const WITHDRAWN: u32 = 2;

/// The interpreter for the handlers. It lies in the library's own data, which a fork child has,
/// too.
struct PublishedInterpreter {
    /// Written by the agent thread (release), read by handlers (acquire).
    state: AtomicU32,
    /// Written once by the agent thread, before the state becomes `READY`.
    interpreter: UnsafeCell<MaybeUninit<CPython>>,
}

// SAFETY: the cell is written once, before the state lets anyone read it.
unsafe impl Sync for PublishedInterpreter {}

impl PublishedInterpreter {
    /// Publishes an interpreter. Only the first one of a process is; for the agent thread.
    fn publish(&self, interpreter: CPython) {
        match self.state.load(Ordering::Acquire) {
            EMPTY => {
                // SAFETY: no one reads it in this state, and only one agent thread exists.
                unsafe { (*self.interpreter.get()).write(interpreter) };
                self.state.store(READY, Ordering::Release);
            }
            _ if self.get() == Some(&interpreter) => {}
            _ => self.withdraw(),
        }
    }

    /// Withdraws the interpreter for good.
    fn withdraw(&self) {
        self.state.store(WITHDRAWN, Ordering::Release);
    }

    fn get(&self) -> Option<&CPython> {
        // SAFETY: written before the state became READY, and never again.
        (self.state.load(Ordering::Acquire) == READY).then(|| unsafe { (*self.interpreter.get()).assume_init_ref() })
    }
}

/// Returns the interpreter of this process, if its frames can be read.
pub(crate) fn published() -> Option<&'static CPython> {
    PUBLISHED.get()
}

/// Returns the threads whose frames are read now. `is_readable` says that those of the interpreter's
/// version can be.
pub(crate) fn access(is_readable: bool) -> FrameAccess {
    match state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
        _ if !is_readable => FrameAccess::Nobody,
        true => FrameAccess::All,
        false => FrameAccess::Sleeping,
    }
}

/// Addresses of thread states by thread id. Ids of one process are mostly consecutive, so threads
/// seldom share a slot. An address is used only if the state is still the thread's. Handlers and
/// the agent thread read and write it.
#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
static STATES: PageAligned<[AtomicU64; 2048]> = PageAligned([const { AtomicU64::new(0) }; 2048]);

/// Merges the frames of a thread, which is interrupted, into the first `depth` frames of its native
/// stack. `is_whole` says that the stack reaches the thread's first frame. Returns the new depth,
/// which is `depth` if there is nothing to merge.
///
/// It runs in the handler: it makes system calls only where they are allowed, and else reads
/// nothing. No other way is safe. The frames lie in memory that another thread may unmap at any
/// instant, as the thread that ends the interpreter does with the states of all others, and the
/// handler has no other means than a system call to read it without the risk of a fault.
pub(crate) fn merge_frames(tid: u32, frames: &mut [u64; MAX_FRAMES], depth: usize, is_whole: bool) -> usize {
    let has_loop =
        || PUBLISHED.get().is_some_and(|cpython| frames[..depth].iter().any(|&frame| cpython.is_loop(frame)));
    if !has_loop() || !state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
        return depth;
    }
    let memory = OwnMemory::default();
    let merged = merge_from(&memory, tid, frames, depth, is_whole);
    counters::count(word::FRAMES, memory.calls.get() * CALL_IN_FRAMES + memory.addresses.get() * ADDRESS_IN_FRAMES);
    merged
}

/// The same for a thread that sleeps; for the agent thread.
pub(crate) fn merge_frames_of_sleeper(
    memory: &ProcessMemory,
    tid: u32,
    frames: &mut [u64; MAX_FRAMES],
    depth: usize,
    is_whole: bool,
) -> usize {
    merge_from(memory, tid, frames, depth, is_whole)
}

fn merge_from(
    memory: &impl TargetMemory,
    tid: u32,
    frames: &mut [u64; MAX_FRAMES],
    depth: usize,
    is_whole: bool,
) -> usize {
    let Some(cpython) = PUBLISHED.get() else { return depth };
    if tid == 0 || !frames[..depth].iter().any(|&frame| cpython.is_loop(frame)) {
        return depth;
    }
    let slot = &STATES[tid as usize % STATES.len()];
    let known = slot.load(Ordering::Relaxed);
    let mut state = known;
    let mut list = FrameList::new();
    let merged = cpython
        .read_frames(memory, tid, &mut state, &mut list)
        .and_then(|()| merge::merge(frames, depth, is_whole, &list, |frame| cpython.loop_offset(frame)));
    if state != known {
        slot.store(state, Ordering::Relaxed);
    }
    merged.unwrap_or(depth)
}

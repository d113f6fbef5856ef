//! The frames of an interpreter (CPython) on the stacks of its threads.
//!
//! The agent thread finds the interpreter among the loaded modules ([`finder`]) and publishes where
//! it is. When a handler has walked a native stack and found the interpreter's loop on it, it reads
//! the thread's own list of frames ([`cpython`], by the [`layout`] of the version) and merges it
//! into the stack ([`merge`]). It writes addresses and hashes of code objects ([`sighting`]). The
//! agent thread replaces them by numbers of functions ([`functions`]), each of which it has
//! announced to the viewer with its name, its file and its lines. A stack that cannot be merged or
//! named keeps its native frames alone and is counted.

mod cpython;
mod dynamic_symbols;
pub(crate) mod finder;
pub(crate) mod functions;
mod layout;
mod merge;
mod sighting;

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::agent::interpreter::cpython::{CPython, FrameList};
use crate::agent::state;
use crate::link::wire::{FrameAddress, MAX_FRAMES};

/// Estimated cost of reading the interpreter's frames, as a number of native frames: about six
/// system calls of half a microsecond.
pub(crate) const COST_IN_FRAMES: u64 = 75;

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

impl CPython {
    /// Returns whether a native frame is the interpreter's loop.
    fn is_loop(&self, frame: u64) -> bool {
        (self.loop_start..self.loop_end).contains(&FrameAddress::unpack(frame).lookup())
    }
}

/// Merges the interpreter's frames of a thread, which is interrupted or sleeps, into the first
/// `depth` frames of its native stack. `is_whole` says that the stack reaches the thread's first
/// frame. Returns the new depth, which is `depth` if there is nothing to merge.
///
/// It may run in the handler: it makes system calls only where they are allowed, and else reads
/// nothing.
pub(crate) fn merge_frames(tid: u32, frames: &mut [u64; MAX_FRAMES], depth: usize, is_whole: bool) -> usize {
    let Some(cpython) = PUBLISHED.get() else { return depth };
    let has_loop = frames[..depth].iter().any(|&frame| cpython.is_loop(frame));
    if !has_loop || tid == 0 || !state::SYSCALLS_ALLOWED.load(Ordering::Relaxed) {
        return depth;
    }
    let mut list = FrameList::new();
    let merged = cpython
        .read_frames(tid, &mut list)
        .and_then(|()| merge::merge(frames, depth, is_whole, &list, |frame| cpython.is_loop(frame)));
    merged.unwrap_or(depth)
}

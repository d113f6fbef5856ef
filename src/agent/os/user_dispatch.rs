//! The threads that have turned Syscall User Dispatch on (`prctl(2)`).
//!
//! While its selector says so, such a thread cannot make a system call: not even the one that
//! returns from a handler. See
//! `interpose/prctl.rs`.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::agent::os::memory::PageAligned;
use crate::agent::os::syscall::{self, syscall};
use crate::arch;

pub(crate) const ALLOW: u8 = 0;
/// Maximum number of such threads. Further ones block the signals of ticks too, but see them in
/// their mask.
const THREADS: usize = 1024;

/// A thread that has dispatch turned on. The thread writes its own entry; the agent thread frees
/// entries of threads that have ended.
pub(crate) struct Dispatched {
    /// The thread's id; 0 if the entry is free.
    pub(crate) tid: AtomicU32,
    /// Its thread pointer, by which the thread finds its entry without a system call; 0 while the
    /// entry is being written.
    pub(crate) pointer: AtomicUsize,
    /// Address of its selector; 0 if calls are always dispatched.
    pub(crate) selector: AtomicUsize,
    /// Signals of ticks that the agent blocks.
    pub(crate) hidden: AtomicU64,
    pub(crate) blocked_by_program: AtomicU64,
}

#[cfg_attr(sigtop_agent, unsafe(link_section = ".bss.tables"))]
pub(crate) static DISPATCHED: PageAligned<[Dispatched; THREADS]> = PageAligned(
    [const {
        Dispatched {
            tid: AtomicU32::new(0),
            pointer: AtomicUsize::new(0),
            selector: AtomicUsize::new(0),
            hidden: AtomicU64::new(0),
            blocked_by_program: AtomicU64::new(0),
        }
    }; THREADS],
);
/// Whether there has ever been such a thread in this process.
pub(crate) static IN_USE: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn own_entry() -> Option<&'static Dispatched> {
    if IN_USE.load(Ordering::Relaxed) { find_own_entry() } else { None }
}

#[cold]
fn find_own_entry() -> Option<&'static Dispatched> {
    let own = arch::thread_pointer();
    DISPATCHED.iter().find(|thread| thread.pointer.load(Ordering::Relaxed) == own)
}

impl Dispatched {
    pub(crate) fn allows_calls(&self) -> bool {
        let selector = self.selector.load(Ordering::Relaxed);
        // SAFETY: the kernel reads the selector at every system call of this thread, and kills the
        // process if it cannot.
        selector != 0 && unsafe { (selector as *const u8).read_volatile() } == ALLOW
    }

    pub(crate) fn free(&self) {
        self.pointer.store(0, Ordering::Relaxed);
        self.tid.store(0, Ordering::Release);
    }
}

/// Returns whether the calling thread's system calls would be dispatched now.
#[inline]
pub(crate) fn forbids_calls() -> bool {
    own_entry().is_some_and(|thread| !thread.allows_calls())
}

/// Returns whether a thread gets no ticks, because it has dispatch turned on.
pub(crate) fn excludes(tid: u32) -> bool {
    IN_USE.load(Ordering::Acquire) && DISPATCHED.iter().any(|thread| thread.tid.load(Ordering::Acquire) == tid)
}

/// Returns whether there is such a thread. Signals that are sent to the process must not be taken
/// into use then.
pub(crate) fn is_in_use() -> bool {
    IN_USE.load(Ordering::Acquire) && DISPATCHED.iter().any(|thread| thread.tid.load(Ordering::Acquire) != 0)
}

/// Frees the entries of threads that have ended.
pub(crate) fn sweep() {
    if IN_USE.load(Ordering::Acquire) {
        for thread in DISPATCHED.iter() {
            let tid = thread.tid.load(Ordering::Acquire);
            if tid != 0 && !syscall::has_thread(tid) {
                thread.free();
            }
        }
    }
}

/// The signals that the calling thread blocks because of the agent alone.
pub(crate) fn hidden_signals() -> u64 {
    own_entry()
        .map_or(0, |thread| thread.hidden.load(Ordering::Relaxed) & !thread.blocked_by_program.load(Ordering::Relaxed))
}

/// Returns whether the calling thread has dispatch turned on.
pub(crate) fn is_here() -> bool {
    own_entry().is_some()
}

/// The signals of a set that the calling thread may unblock.
pub(crate) fn unblockable(set: u64) -> u64 {
    own_entry().map_or(set, |thread| set & !thread.hidden.load(Ordering::Relaxed))
}

/// Translates a mask that the program sets for the kernel.
pub(crate) fn with_hidden(mask: u64) -> u64 {
    let Some(thread) = own_entry() else { return mask };
    let hidden = thread.hidden.load(Ordering::Relaxed);
    thread.blocked_by_program.store(mask & hidden, Ordering::Relaxed);
    mask | hidden
}

/// Unblocks signals that the calling thread's parent (or the thread before exec) blocked because of
/// the agent. rt_sigprocmask(2)
pub(crate) fn unblock(signals: u64) {
    if signals != 0 {
        // SAFETY: one mask in.
        unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const signals, 0usize, 8) };
    }
}

/// Clears all entries in a fork child, which does not inherit dispatch.
pub(crate) fn forget() {
    if IN_USE.swap(false, Ordering::Relaxed) {
        let own = arch::thread_pointer();
        let own = DISPATCHED.iter().find(|thread| thread.pointer.load(Ordering::Relaxed) == own);
        unblock(own.map_or(0, |thread| {
            thread.hidden.load(Ordering::Relaxed) & !thread.blocked_by_program.load(Ordering::Relaxed)
        }));
        DISPATCHED.iter().for_each(Dispatched::free);
    }
}

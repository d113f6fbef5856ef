//! Syscall User Dispatch: a thread whose system calls come back to it as SIGSYS, by `prctl(2)`.
//!
//! While its selector says so, such a thread cannot even return from a handler of the agent's: that
//! is a system call too. So it gets no tick. From before the call that turns dispatch on, the
//! thread blocks the signals of ticks, and the agent thread takes its timer away; its CPU time is
//! counted as unseen. Its mask is shown to the program without these signals. As long as the
//! selector forbids calls, nothing of the agent's makes any on this thread. When dispatch is turned
//! off again, ticks that wait are dropped, and the thread gets a timer as any other.
//!
//! A raw system call for the same is not noticed.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::sys::{self, syscall};
use super::{guard, state, timer};

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const OFF: usize = 0;
const ALLOW: u8 = 0;
/// Maximum number of such threads. One beyond blocks the signals of ticks too, and its mask shows
/// them.
const THREADS: usize = 1024;

/// A thread that has dispatch turned on. It writes its own entry; the agent thread frees those of
/// threads that have ended.
struct Dispatched {
    /// The thread's id; 0 if the entry is free.
    tid: AtomicU32,
    /// Its thread pointer, by which it finds itself without a system call; 0 while it is written.
    pointer: AtomicUsize,
    /// Address of its selector, or 0: then calls are always dispatched.
    selector: AtomicUsize,
    /// Signals of ticks that the agent blocks, and those of them that the program blocks too.
    hidden: AtomicU64,
    wanted: AtomicU64,
}

static DISPATCHED: [Dispatched; THREADS] = [const {
    Dispatched {
        tid: AtomicU32::new(0),
        pointer: AtomicUsize::new(0),
        selector: AtomicUsize::new(0),
        hidden: AtomicU64::new(0),
        wanted: AtomicU64::new(0),
    }
}; THREADS];
/// Whether there has ever been such a thread.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// The calling thread's pointer: the first word of its control block, which points to itself.
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a word that the ABI for thread-local storage demands.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

#[inline]
fn own_entry() -> Option<&'static Dispatched> {
    if IN_USE.load(Ordering::Relaxed) { find_own_entry() } else { None }
}

#[cold]
fn find_own_entry() -> Option<&'static Dispatched> {
    let own = thread_pointer();
    DISPATCHED.iter().find(|thread| thread.pointer.load(Ordering::Relaxed) == own)
}

impl Dispatched {
    fn allows_calls(&self) -> bool {
        let selector = self.selector.load(Ordering::Relaxed);
        // SAFETY: the kernel reads it at every system call of this thread, and would end the
        // process if it could not.
        selector != 0 && unsafe { (selector as *const u8).read_volatile() } == ALLOW
    }

    fn free(&self) {
        self.pointer.store(0, Ordering::Relaxed);
        self.tid.store(0, Ordering::Release);
    }
}

/// Whether the calling thread's system calls would be dispatched now.
#[inline]
pub(super) fn forbids_calls() -> bool {
    own_entry().is_some_and(|thread| !thread.allows_calls())
}

/// Whether a thread gets no ticks, because it has dispatch turned on.
pub(super) fn excludes(tid: u32) -> bool {
    IN_USE.load(Ordering::Acquire) && DISPATCHED.iter().any(|thread| thread.tid.load(Ordering::Acquire) == tid)
}

/// Whether there is such a thread: signals that are sent to the process may not be taken into use
/// now.
pub(super) fn is_in_use() -> bool {
    IN_USE.load(Ordering::Acquire) && DISPATCHED.iter().any(|thread| thread.tid.load(Ordering::Acquire) != 0)
}

/// Forgets threads that have ended.
pub(super) fn sweep() {
    if IN_USE.load(Ordering::Acquire) {
        for thread in &DISPATCHED {
            let tid = thread.tid.load(Ordering::Acquire);
            if tid != 0 && !sys::has_thread(tid) {
                thread.free();
            }
        }
    }
}

/// Signals that the calling thread blocks on the agent's account.
pub(super) fn hidden_signals() -> u64 {
    own_entry().map_or(0, |thread| thread.hidden.load(Ordering::Relaxed) & !thread.wanted.load(Ordering::Relaxed))
}

/// Whether the calling thread has dispatch turned on.
pub(super) fn is_here() -> bool {
    own_entry().is_some()
}

/// Signals of a set that the calling thread may unblock.
pub(super) fn unblockable(set: u64) -> u64 {
    own_entry().map_or(set, |thread| set & !thread.hidden.load(Ordering::Relaxed))
}

/// The mask that the kernel is to have when the program sets `mask`.
pub(super) fn with_hidden(mask: u64) -> u64 {
    let Some(thread) = own_entry() else { return mask };
    let hidden = thread.hidden.load(Ordering::Relaxed);
    thread.wanted.store(mask & hidden, Ordering::Relaxed);
    mask | hidden
}

/// Lets the signals through that the calling thread's parent (or the thread before exec) blocked on
/// the agent's account. rt_sigprocmask(2)
pub(super) fn unblock(signals: u64) {
    if signals != 0 {
        // SAFETY: one mask in.
        unsafe { syscall!(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const signals, 0usize, 8) };
    }
}

/// In a fork child, which does not inherit dispatch.
pub(super) fn forget() {
    if IN_USE.swap(false, Ordering::Relaxed) {
        let own = thread_pointer();
        let own = DISPATCHED.iter().find(|thread| thread.pointer.load(Ordering::Relaxed) == own);
        unblock(own.map_or(0, |thread| thread.hidden.load(Ordering::Relaxed) & !thread.wanted.load(Ordering::Relaxed)));
        DISPATCHED.iter().for_each(Dispatched::free);
    }
}

/// Makes a call of `prctl(2)` with these arguments, by `call`, which returns 0 when it succeeded.
/// Where it turns dispatch on or off, the thread loses or gets back its ticks.
pub(super) fn around_prctl<T: PartialEq + From<i8>>(option: i32, arguments: [usize; 4], call: impl FnOnce() -> T) -> T {
    if option != PR_SET_SYSCALL_USER_DISPATCH || state::FILTERED.load(Ordering::Relaxed) {
        return call();
    }
    let [mode, _, _, selector] = arguments;
    match own_entry() {
        Some(thread) if mode == OFF => turn_off(thread, call),
        None if mode == OFF => call(),
        // Other addresses, or another selector.
        Some(thread) => {
            let before = thread.selector.swap(selector, Ordering::Relaxed);
            let result = call();
            if result != T::from(0) {
                thread.selector.store(before, Ordering::Relaxed);
            }
            result
        }
        None if !state::is_at_home() => call(),
        None => turn_on(selector, call),
    }
}

fn turn_on<T: PartialEq + From<i8>>(selector: usize, call: impl FnOnce() -> T) -> T {
    let tid = sys::gettid();
    let is_free =
        |thread: &&Dispatched| thread.tid.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // A thread that had the same id, and ended with dispatch on, is not swept as long as this one
    // lives.
    DISPATCHED.iter().filter(|thread| thread.tid.load(Ordering::Relaxed) == tid).for_each(Dispatched::free);
    let thread = DISPATCHED.iter().find(is_free).or_else(|| {
        sweep();
        DISPATCHED.iter().find(is_free)
    });
    let signals = guard::tick_signals();
    let mut before = 0u64;
    // SAFETY: one mask in, one out.
    unsafe {
        syscall!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const signals, &raw mut before, 8);
    }
    let Some(thread) = thread else { return call() };
    thread.selector.store(selector, Ordering::Relaxed);
    thread.hidden.store(signals, Ordering::Relaxed);
    thread.wanted.store(before & signals, Ordering::Relaxed);
    IN_USE.store(true, Ordering::SeqCst);
    // The agent thread takes the timer away: what it sends until then waits, blocked.
    look_again();
    // From here on nothing of the agent's makes a system call, unless the selector allows it.
    thread.pointer.store(thread_pointer(), Ordering::Relaxed);
    let result = call();
    if result != T::from(0) {
        give_ticks_back(thread);
    }
    result
}

fn turn_off<T: PartialEq + From<i8>>(thread: &Dispatched, call: impl FnOnce() -> T) -> T {
    // One that is itself dispatched turns nothing off, whatever comes of it.
    let is_made = thread.allows_calls();
    let result = call();
    if is_made && result == T::from(0) {
        give_ticks_back(thread);
    }
    result
}

fn give_ticks_back(thread: &Dispatched) {
    let signals = thread.hidden.load(Ordering::Relaxed) & !thread.wanted.load(Ordering::Relaxed);
    thread.free();
    look_again();
    drop_ticks(signals);
    unblock(signals);
}

/// Has the agent thread look which threads are to have a timer.
fn look_again() {
    state::WANT_THREADS.store(true, Ordering::SeqCst);
    state::wake();
}

/// Drops ticks that wait for the calling thread: they have come while it was not to be seen. Other
/// signals of the same numbers are sent again. rt_sigtimedwait(2), rt_tgsigqueueinfo(2)
fn drop_ticks(signals: u64) {
    const KEPT: usize = 8;
    let (now, mut kept, mut count) = ([0u64; 2], [[0u64; 16]; KEPT], 0);
    while count < KEPT {
        let info = &mut kept[count];
        // SAFETY: a mask and a timeout in, a siginfo of 128 bytes out.
        let signal =
            unsafe { syscall!(libc::SYS_rt_sigtimedwait, &raw const signals, info.as_mut_ptr(), now.as_ptr(), 8) };
        if signal <= 0 {
            break;
        }
        // Signal, code and value of a siginfo.
        let code = info[1] as i32;
        count += usize::from(!timer::is_tick(signal as i32, code, info[3]));
    }
    for info in &kept[..count] {
        // SAFETY: a siginfo as the kernel gave it; to this very thread it may carry any code.
        unsafe {
            syscall!(libc::SYS_rt_tgsigqueueinfo, sys::getpid(), sys::gettid(), info[0] as i32, info.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_with_dispatch_is_known_until_it_is_turned_off() {
        state::OWNER.store(sys::getpid(), Ordering::Relaxed);
        std::thread::spawn(|| {
            static SELECTOR: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(ALLOW);
            let tid = sys::gettid();
            let prctl = |mode, result: i32| {
                around_prctl(PR_SET_SYSCALL_USER_DISPATCH, [mode, 0, 0, SELECTOR.as_ptr() as usize], || result)
            };
            let urgent = 1 << (libc::SIGURG - 1);
            assert_eq!(prctl(1, -1), -1);
            assert!(!excludes(tid), "it has failed");
            assert_eq!(prctl(1, 0), 0);
            assert!(excludes(tid) && !forbids_calls());
            assert_eq!((with_hidden(1) & urgent, hidden_signals() & urgent), (urgent, urgent));
            assert_eq!((with_hidden(urgent) & urgent, hidden_signals() & urgent), (urgent, 0), "it blocks it itself");
            with_hidden(0);
            SELECTOR.store(1, Ordering::Relaxed);
            assert!(forbids_calls());
            assert_eq!(prctl(OFF, 0), 0);
            assert!(excludes(tid), "that was an answer of its own");
            SELECTOR.store(ALLOW, Ordering::Relaxed);
            assert_eq!(prctl(OFF, 0), 0);
            assert!(!excludes(tid) && !forbids_calls() && hidden_signals() == 0);
        })
        .join()
        .expect("no panic");
    }
}

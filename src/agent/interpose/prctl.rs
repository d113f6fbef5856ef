//! Syscall User Dispatch (`prctl(2)`): threads whose system calls are delivered to them as SIGSYS.
//!
//! While its selector says so, such a thread cannot even return from a handler of the agent's,
//! because that is a system call too. So it gets no ticks. Before the call that turns dispatch on,
//! the thread blocks the signals of ticks, and the agent thread deletes its timer; its CPU time is
//! counted as unaccounted. Its mask is shown to the program without these signals. As long as the
//! selector forbids calls, the agent makes none on this thread. When dispatch is turned off,
//! pending ticks are dropped, and the thread gets a timer again.
//!
//! Dispatch that is turned on by a raw system call is not noticed.

use core::sync::atomic::Ordering;

use crate::agent::os::syscall::{self, syscall};
use crate::agent::os::user_dispatch::{self, DISPATCHED, Dispatched, IN_USE};
use crate::agent::signals::{actions, tick_signal};
use crate::agent::state;
use crate::agent::timers::interval_timer;
use crate::arch;

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const OFF: usize = 0;

/// Makes a call of `prctl(2)` with these arguments, by `call`, which returns 0 when it succeeded.
/// Where it turns dispatch on or off, the thread loses or gets back its ticks.
pub(crate) fn around_prctl<T: PartialEq + From<i8>>(option: i32, arguments: [usize; 4], call: impl FnOnce() -> T) -> T {
    if option != PR_SET_SYSCALL_USER_DISPATCH || state::FILTERED.load(Ordering::Relaxed) {
        return call();
    }
    let [mode, _, _, selector] = arguments;
    match user_dispatch::own_entry() {
        Some(thread) if mode == OFF => turn_off(thread, call),
        None if mode == OFF => call(),
        // The range of addresses or the selector changes.
        Some(thread) => {
            let before = thread.selector.swap(selector, Ordering::Relaxed);
            let result = call();
            if result != T::from(0) {
                thread.selector.store(before, Ordering::Relaxed);
            }
            result
        }
        None if !state::in_own_process() => call(),
        None => turn_on(selector, call),
    }
}

/// The mask of all signals that ticks use now or may use later.
fn tick_signals() -> u64 {
    let others = [actions::additional_signal(), interval_timer::classic_signal()];
    others.into_iter().fold(tick_signal::hidden(), |all, signal| all | tick_signal::bit(signal))
}

fn turn_on<T: PartialEq + From<i8>>(selector: usize, call: impl FnOnce() -> T) -> T {
    let tid = syscall::gettid();
    let is_free =
        |thread: &&Dispatched| thread.tid.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // The entry of an ended thread that had the same id is not swept as long as this thread lives.
    DISPATCHED.iter().filter(|thread| thread.tid.load(Ordering::Relaxed) == tid).for_each(Dispatched::free);
    let thread = DISPATCHED.iter().find(is_free).or_else(|| {
        user_dispatch::sweep();
        DISPATCHED.iter().find(is_free)
    });
    let signals = tick_signals();
    let mut before = 0u64;
    // SAFETY: one mask in, one out.
    unsafe {
        syscall!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const signals, &raw mut before, 8);
    }
    let Some(thread) = thread else { return call() };
    thread.selector.store(selector, Ordering::Relaxed);
    thread.hidden.store(signals, Ordering::Relaxed);
    thread.blocked_by_program.store(before & signals, Ordering::Relaxed);
    IN_USE.store(true, Ordering::SeqCst);
    // The agent thread takes the timer away: what it sends until then waits, blocked.
    look_again();
    // From here on the agent makes no system call on this thread unless the selector allows it.
    thread.pointer.store(arch::thread_pointer(), Ordering::Relaxed);
    let result = call();
    if result != T::from(0) {
        give_ticks_back(thread);
    }
    result
}

fn turn_off<T: PartialEq + From<i8>>(thread: &Dispatched, call: impl FnOnce() -> T) -> T {
    // A call that is itself dispatched turns nothing off, whatever its result is.
    let is_made = thread.allows_calls();
    let result = call();
    if is_made && result == T::from(0) {
        give_ticks_back(thread);
    }
    result
}

fn give_ticks_back(thread: &Dispatched) {
    let signals = thread.hidden.load(Ordering::Relaxed) & !thread.blocked_by_program.load(Ordering::Relaxed);
    thread.free();
    look_again();
    drop_ticks(signals);
    user_dispatch::unblock(signals);
}

/// Has the agent thread look which threads are to have a timer.
fn look_again() {
    state::WANT_THREADS.store(true, Ordering::SeqCst);
    state::wake();
}

/// Drops pending ticks of the calling thread, which came while it was not to be sampled. Other
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
        // The signal, code and value of a siginfo.
        let code = info[1] as i32;
        count += usize::from(!interval_timer::is_tick(signal as i32, code, info[3]));
    }
    for info in &kept[..count] {
        // SAFETY: a siginfo as the kernel gave it; to this very thread it may carry any code.
        unsafe {
            syscall!(libc::SYS_rt_tgsigqueueinfo, syscall::getpid(), syscall::gettid(), info[0] as i32, info.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::os::user_dispatch::ALLOW;

    #[test]
    fn a_thread_with_dispatch_is_known_until_it_is_turned_off() {
        state::OWNER.store(syscall::getpid(), Ordering::Relaxed);
        std::thread::spawn(|| {
            static SELECTOR: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(ALLOW);
            let tid = syscall::gettid();
            let prctl = |mode, result: i32| {
                around_prctl(PR_SET_SYSCALL_USER_DISPATCH, [mode, 0, 0, SELECTOR.as_ptr() as usize], || result)
            };
            let urgent = 1 << (libc::SIGURG - 1);
            assert_eq!(prctl(1, -1), -1);
            assert!(!user_dispatch::excludes(tid), "it has failed");
            assert_eq!(prctl(1, 0), 0);
            assert!(user_dispatch::excludes(tid) && !user_dispatch::forbids_calls());
            assert_eq!(
                (user_dispatch::with_hidden(1) & urgent, user_dispatch::hidden_signals() & urgent),
                (urgent, urgent)
            );
            assert_eq!(
                (user_dispatch::with_hidden(urgent) & urgent, user_dispatch::hidden_signals() & urgent),
                (urgent, 0),
                "it blocks it itself"
            );
            user_dispatch::with_hidden(0);
            SELECTOR.store(1, Ordering::Relaxed);
            assert!(user_dispatch::forbids_calls());
            assert_eq!(prctl(OFF, 0), 0);
            assert!(user_dispatch::excludes(tid), "that was an answer of its own");
            SELECTOR.store(ALLOW, Ordering::Relaxed);
            assert_eq!(prctl(OFF, 0), 0);
            assert!(
                !user_dispatch::excludes(tid)
                    && !user_dispatch::forbids_calls()
                    && user_dispatch::hidden_signals() == 0
            );
        })
        .join()
        .expect("no panic");
    }
}

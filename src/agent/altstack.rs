//! Handlers of the target that run on a stack of their own (`SA_ONSTACK`): a tick that comes meanwhile puts a second frame there, and
//! where there is no room for it the kernel ends the program. Such a handler is installed with the signals of our ticks blocked, unless
//! whoever installs it has a stack that is large enough: ticks then wait until it has returned. The target finds the mask it set.
//!
//! A handler with `SA_NODEFER` is left alone: those are left by jumping out or throwing, and what they block would stay blocked.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::loader::weak_address;
use super::state;
use super::sys::syscall;

/// Signals, as a mask has them.
const SIGNALS: usize = 64;
/// What a handler is taken to need on its stack besides two frames of signals: the target's own calls and ours.
const CALLS: usize = 4096;
/// A signal's frame where the kernel does not say how large it is: with AVX-512.
const USUAL_FRAME: usize = 3632;
const AT_MINSIGSTKSZ: u64 = 51;

/// Signals blocked on our account while the handler of each signal runs. Written by whoever installs that handler.
static BLOCKED: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
/// Bytes of a signal's frame, at most. Written by the constructor.
static FRAME: AtomicUsize = AtomicUsize::new(USUAL_FRAME);

/// Asks how large frames are. For the constructor.
pub(super) fn look_up() {
    let address = weak_address!("getauxval");
    if address != 0 {
        // SAFETY: libc's function of this name and type.
        let getauxval = unsafe { core::mem::transmute::<usize, extern "C" fn(u64) -> u64>(address) };
        match getauxval(AT_MINSIGSTKSZ) {
            0 => {}
            frame => FRAME.store(frame as usize, Ordering::Relaxed),
        }
    }
}

/// Which of the signals of our ticks are to be blocked besides, while a handler that is about to be installed runs, if the target
/// blocks `mask`.
pub(super) fn to_block(flags: i32, mask: u64, ticks: u64) -> u64 {
    let runs_on_its_own = flags & (libc::SA_ONSTACK | libc::SA_NODEFER) == libc::SA_ONSTACK;
    if runs_on_its_own && state::is_at_home() && !has_room() { ticks & !mask } else { 0 }
}

/// They are, by the handler of `signal`.
pub(super) fn note(signal: i32, blocked: u64) {
    if let Some(place) = place(signal).filter(|_| state::is_at_home()) {
        place.store(blocked, Ordering::Relaxed);
    }
}

/// What is blocked on our account alone while the handler of `signal` runs.
pub(super) fn blocked(signal: i32) -> u64 {
    place(signal).map_or(0, |place| place.load(Ordering::Relaxed))
}

fn place(signal: i32) -> Option<&'static AtomicU64> {
    BLOCKED.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// Whether the calling thread's stack for handlers is large enough; false where it has none yet, or may not be asked.
fn has_room() -> bool {
    if state::FILTERED.load(Ordering::Relaxed) {
        return false;
    }
    let mut stack = core::mem::MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: one structure out, for which all zeros are valid.
    let stack = unsafe {
        if syscall!(libc::SYS_sigaltstack, 0usize, stack.as_mut_ptr()) != 0 {
            return false;
        }
        stack.assume_init()
    };
    stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size >= 2 * FRAME.load(Ordering::Relaxed) + CALLS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the calling thread a stack for handlers.
    fn with_stack<T>(size: usize, body: impl FnOnce() -> T) -> T {
        let mut bytes = vec![0u8; size];
        let stack = libc::stack_t { ss_sp: bytes.as_mut_ptr().cast(), ss_flags: 0, ss_size: size };
        let mut before = core::mem::MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: no handler runs on it before it is taken away again, with its bytes alive.
        unsafe {
            assert_eq!(libc::sigaltstack(&stack, before.as_mut_ptr()), 0);
            let result = body();
            assert_eq!(libc::sigaltstack(before.as_ptr(), core::ptr::null_mut()), 0);
            result
        }
    }

    #[test]
    fn ticks_wait_for_handlers_on_small_stacks() {
        const TICKS: u64 = 1 << (libc::SIGURG - 1);
        state::OWNER.store(super::super::sys::getpid(), Ordering::Relaxed);
        look_up();
        let (small, on_stack, own) = (2 * FRAME.load(Ordering::Relaxed), libc::SA_ONSTACK, 1 << 20);
        with_stack(small, || {
            assert_eq!(to_block(0, own, TICKS), 0, "it runs wherever the thread is");
            assert_eq!(to_block(on_stack, own, TICKS), TICKS);
            assert_eq!(to_block(on_stack, TICKS, TICKS), 0, "the target's own wish");
            assert_eq!(to_block(on_stack | libc::SA_NODEFER, own, TICKS), 0, "it may be left by a jump");
        });
        with_stack(small + CALLS, || assert_eq!(to_block(on_stack, own, TICKS), 0));
    }

    #[test]
    fn what_is_no_signal_is_nothing() {
        for signal in [-1, 0, 65, i32::MAX] {
            note(signal, 1);
            assert_eq!(blocked(signal), 0);
        }
        note(libc::SIGUSR2, 5);
        assert_eq!(blocked(libc::SIGUSR2), 5);
    }
}

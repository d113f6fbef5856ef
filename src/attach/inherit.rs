//! What sigtop was started with and hands on: signal mask, dispositions, closed descriptors. The target must get them as if
//! there were no sigtop between it and the shell, but Rust's runtime ignores SIGPIPE and opens closed standard descriptors
//! before main, so the first look is taken by a constructor, before the runtime.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};

/// Of [`AT_START`]: SIGPIPE was ignored.
const PIPE_IGNORED: u8 = 8;

/// Written once, before main: bits 0 to 2 say which standard descriptors were closed.
static AT_START: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: the section holds pointers to functions that libc calls once before main; this is one, and it needs nothing that
// is not there by then (it takes three arguments less than it is given, which the C calling convention allows).
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut found = 0;
    for descriptor in 0..3 {
        // SAFETY: F_GETFD on any number only asks.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            found |= 1 << descriptor;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= PIPE_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed); // there is one thread
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, all zeros is a value of it, and with a null second argument the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Which standard descriptors were closed when sigtop started.
pub(super) fn closed_at_start() -> impl Iterator<Item = RawFd> {
    let found = AT_START.load(Ordering::Relaxed);
    (0..3).filter(move |descriptor| found & 1 << descriptor != 0)
}

/// Signals held back around a fork, and how they were before.
pub(super) struct Held {
    mask: SigSet,
    child_ignored: bool,
    /// Of [`INTERRUPTS`].
    interrupts_ignored: [bool; 2],
}

/// What a terminal sends to everybody before it: under a target with our own stdio, sigtop ignores them.
pub(super) const INTERRUPTS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

impl Held {
    /// Blocks every signal, and makes sure that the status of a child will be kept for us.
    pub(super) fn hold() -> nix::Result<Held> {
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let child_ignored = is_ignored(libc::SIGCHLD);
        if child_ignored {
            set(Signal::SIGCHLD, SigHandler::SigDfl)?;
        }
        let interrupts_ignored = INTERRUPTS.map(|signal| is_ignored(signal as i32));
        Ok(Held { mask, child_ignored, interrupts_ignored })
    }

    /// Puts the mask back, in sigtop itself.
    pub(super) fn release(&self) -> nix::Result<()> {
        self.mask.thread_set_mask()
    }

    /// Puts everything back, in a child that is about to execute the target.
    pub(super) fn hand_on(&self) -> nix::Result<()> {
        let was = |ignored| if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
        set(Signal::SIGPIPE, was(AT_START.load(Ordering::Relaxed) & PIPE_IGNORED != 0))?;
        if self.child_ignored {
            set(Signal::SIGCHLD, SigHandler::SigIgn)?;
        }
        for (signal, ignored) in INTERRUPTS.into_iter().zip(self.interrupts_ignored) {
            set(signal, was(ignored))?;
        }
        self.mask.thread_set_mask()
    }
}

/// Ignores SIGHUP from now on. What sigtop starts later begins with the disposition that sigtop was
/// started with.
pub fn ignore_hangups() {
    // Nothing but an unknown signal can fail here.
    let _ = set(Signal::SIGHUP, SigHandler::SigIgn);
}

/// Sets a disposition to ignored or default.
pub(super) fn set(number: Signal, disposition: SigHandler) -> nix::Result<()> {
    // SAFETY: no handler is installed, so no code of ours will run in a signal's context.
    unsafe { signal(number, disposition) }.map(drop)
}

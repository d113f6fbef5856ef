//! Passes on the signal mask, dispositions and closed descriptors that sigtop was started with. The
//! target must get them as if the shell had started it. Rust's runtime ignores SIGPIPE and opens
//! closed standard descriptors before main, so a constructor reads the state before the runtime
//! changes it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};

/// The bit of [`AT_START`] for an ignored SIGPIPE.
const PIPE_IGNORED: u8 = 8;

/// The state at the start, written once before main: bits 0 to 2 say which standard descriptors
/// were closed.
static AT_START: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: the section holds pointers to functions that libc calls once before main. This function
// needs nothing that is not initialised by then. (It takes three arguments fewer than it is given,
// which the C calling convention allows.)
#[unsafe(link_section = ".init_array")]
static READ_STATE: extern "C" fn() = read_state;

extern "C" fn read_state() {
    let mut found = 0;
    for descriptor in 0..3 {
        // SAFETY: F_GETFD changes nothing, whatever the number.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            found |= 1 << descriptor;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= PIPE_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed); // there is one thread
}

/// Returns whether sigtop ignores a signal now.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, all zeros is a value of it, and with a null second argument
    // the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Returns which standard descriptors were closed when sigtop started.
pub(super) fn closed_at_start() -> impl Iterator<Item = RawFd> {
    let found = AT_START.load(Ordering::Relaxed);
    (0..3).filter(move |descriptor| found & 1 << descriptor != 0)
}

/// The signal state from before a fork: mask and dispositions.
pub(super) struct SignalState {
    mask: SigSet,
    child_ignored: bool,
    /// Whether each of [`INTERRUPTS`] was ignored.
    interrupts_ignored: [bool; 2],
}

/// Signals that a terminal sends to its foreground group. Sigtop ignores them while a target shares
/// its terminal.
pub(super) const INTERRUPTS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

impl SignalState {
    /// Blocks every signal, and ensures that the status of a child will be kept.
    pub(super) fn block_all() -> nix::Result<SignalState> {
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let child_ignored = is_ignored(libc::SIGCHLD);
        if child_ignored {
            set(Signal::SIGCHLD, SigHandler::SigDfl)?;
        }
        let interrupts_ignored = INTERRUPTS.map(|signal| is_ignored(signal as i32));
        Ok(SignalState { mask, child_ignored, interrupts_ignored })
    }

    /// Restores the mask, in sigtop itself.
    pub(super) fn restore(&self) -> nix::Result<()> {
        self.mask.thread_set_mask()
    }

    /// Restores everything, in a child that is about to execute the target.
    pub(super) fn restore_in_child(&self) -> nix::Result<()> {
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

/// Ignores SIGHUP from now on. Programs that sigtop starts later get the disposition that sigtop
/// was started with.
pub fn ignore_hangups() {
    // Only an unknown signal could fail.
    let _ = set(Signal::SIGHUP, SigHandler::SigIgn);
}

/// Sets the disposition of a signal to ignored or default.
pub(super) fn set(number: Signal, disposition: SigHandler) -> nix::Result<()> {
    // SAFETY: no handler is installed, so no code of ours will run in a signal's context.
    unsafe { signal(number, disposition) }.map(drop)
}

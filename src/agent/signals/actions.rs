//! The actions of the signals that the agent takes: its own action, which the kernel has, and the
//! one that the target believes to be installed.

use crate::agent::os::syscall::{self, KernelAction, syscall};
use crate::agent::signals::frame;
use crate::arch::{SA_RESTORER, UC_SIGMASK, restorer};
use crate::wire::TICK_SIGNALS;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Address of the handler of the agent's signals. Written once, before the first signal is taken.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Sets the handler of the agent's signals.
pub(crate) fn set_handler(address: usize) {
    HANDLER.store(address, Ordering::Relaxed);
}

/// The agent's own action: it restarts what a tick interrupts, runs on the alternate stack (Go
/// insists), and blocks every signal.
pub(crate) fn action() -> KernelAction {
    const FLAGS: u64 = libc::SA_SIGINFO as u64 | libc::SA_RESTART as u64 | libc::SA_ONSTACK as u64 | SA_RESTORER;
    KernelAction { handler: HANDLER.load(Ordering::Relaxed), flags: FLAGS, restorer: restorer(), mask: !0 }
}

/// Whether an action is the agent's own.
pub(crate) fn is_ours(action: &KernelAction) -> bool {
    action.handler != 0 && action.handler == HANDLER.load(Ordering::Relaxed)
}

/// Whether the target ignores a signal that the agent may claim.
pub(crate) fn is_ignored(signal: i32) -> bool {
    ShadowAction::find(signal).is_some_and(|shadow| shadow.load().handler == libc::SIG_IGN)
}

/// The additional signal that ticks may come by, or 0.
pub(crate) fn additional_signal() -> i32 {
    ADDITIONAL.load(Ordering::Relaxed)
}

/// Signals that the agent may claim: those of interval timers and those of ticks.
pub(crate) const OURS: [i32; 7] = {
    let [first, second, third, fourth] = TICK_SIGNALS;
    [libc::SIGPROF, libc::SIGALRM, libc::SIGVTALRM, first, second, third, fourth]
};
/// An additional signal for ticks (`CPUPROFILE_TIMER_SIGNAL`); 0 if there is none. Only the
/// constructor writes it.
static ADDITIONAL: AtomicI32 = AtomicI32::new(0);

/// Allows the agent to claim another signal.
pub(crate) fn allow_signal(signal: i32) {
    if !OURS.contains(&signal) {
        ADDITIONAL.store(signal, Ordering::Relaxed);
    }
}

/// The target's action of a signal that the agent uses. Threads of the target write it field by
/// field, so two threads that set the same signal simultaneously may get a mixture, as they might
/// without the agent. Handlers that forward a signal read it.
pub(crate) struct ShadowAction {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

static SHADOWS: [ShadowAction; OURS.len() + 1] =
    [const { ShadowAction { handler: AtomicUsize::new(0), flags: AtomicU64::new(0), mask: AtomicU64::new(0) } };
        OURS.len() + 1];

impl ShadowAction {
    /// The shadow of a signal, if it is one that the agent may claim.
    pub(crate) fn find(signal: i32) -> Option<&'static ShadowAction> {
        let more = ADDITIONAL.load(Ordering::Relaxed);
        let place = OURS.iter().position(|&ours| ours == signal);
        place.or((signal != 0 && signal == more).then_some(OURS.len())).map(|index| &SHADOWS[index])
    }

    /// The action that the target set.
    pub(crate) fn load(&self) -> KernelAction {
        KernelAction {
            handler: self.handler.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: 0,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    /// Records an action that the target set.
    pub(crate) fn store(&self, action: &KernelAction) {
        self.flags.store(action.flags, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Relaxed);
    }
}

/// Installs the agent's handler for a signal unless the target has a handler for it. SIGURG is
/// claimed even then, because its default action is to be ignored; the target's handler is called
/// for all signals that are not ticks. Returns whether the agent's handler is installed.
pub(crate) fn claim(signal: i32) -> bool {
    let Some(shadow) = ShadowAction::find(signal) else { return false };
    let old = syscall::signal_action(signal);
    if is_ours(&old) {
        return true;
    }
    if old.handler > libc::SIG_IGN && signal != libc::SIGURG {
        return false;
    }
    shadow.store(&frame::action_to_target(signal, &old));
    // SAFETY: the agent's handler and restorer; the library is never unmapped (-z nodelete).
    unsafe { syscall::set_signal_action(signal, &action()) };
    true
}

/// Restores the target's action of a signal if that is to ignore it or its default.
pub(crate) fn release(signal: i32) {
    let Some(shadow) = ShadowAction::find(signal) else { return };
    let action = shadow.load();
    if action.handler <= libc::SIG_IGN && is_ours(&syscall::signal_action(signal)) {
        // SAFETY: the action has no handler.
        unsafe { syscall::set_signal_action(signal, &KernelAction { flags: 0, mask: 0, ..action }) };
    }
}

/// Claims the signal that starts and stops a profile (`CPUPROFILESIGNAL`), unless it has a handler.
/// Returns whether the agent's handler is installed.
pub(crate) fn claim_toggle(signal: i32) -> bool {
    if ShadowAction::find(signal).is_some() {
        return claim(signal);
    }
    let old = syscall::signal_action(signal);
    if old.handler > libc::SIG_IGN {
        return false;
    }
    // SAFETY: the agent's handler and restorer; the library is never unmapped (-z nodelete).
    unsafe { syscall::set_signal_action(signal, &action()) };
    is_ours(&syscall::signal_action(signal))
}

/// Handles a signal that is not a tick as the target's action says.
///
/// # Safety
/// The arguments are those of the signal handler that calls this.
pub(crate) unsafe fn forward(signal: i32, info: *mut (), context: *mut u64) {
    let Some(shadow) = ShadowAction::find(signal) else { return };
    let action = shadow.load();
    match action.handler {
        libc::SIG_IGN => {}
        libc::SIG_DFL if signal == libc::SIGURG => {}
        libc::SIG_DFL => {
            // The default is to end the process: it is sent again, and delivered when this handler
            // returns. SAFETY: plain values; the signal is sent to this very thread.
            unsafe {
                syscall::set_signal_action(signal, &KernelAction::default());
                syscall!(libc::SYS_tgkill, syscall::getpid(), syscall::gettid(), signal);
            }
        }
        address => {
            if action.flags & libc::SA_RESETHAND as u64 != 0 {
                shadow.handler.store(libc::SIG_DFL, Ordering::Relaxed);
            }
            let own = if action.flags & libc::SA_NODEFER as u64 == 0 { 1 << (signal - 1) } else { 0 };
            // SAFETY: the ucontext holds the mask of the interrupted code, and the target's handler
            // takes these arguments (or the first of them). Should it jump away, nothing of ours is
            // left undone.
            unsafe {
                syscall::set_mask(*context.add(UC_SIGMASK) | action.mask | own);
                let target = frame::HandlerStack::from_flags(action.flags);
                frame::call(address, signal, info.expose_provenance(), context.expose_provenance(), target);
            }
            syscall::block_all();
        }
    }
}

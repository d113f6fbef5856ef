//! The few libc calls that the agent stands before, for its own signals only, and straight through in a vfork child:
//! `sigaction` and `signal`, so that a program that resets every handler is not killed by the next tick and finds what it
//! set; and the exec family, because an interval timer survives exec and would kill the next program.
//!
//! posix_spawn is left alone: its child has no interval timers (they are not inherited), so there is nothing to disarm.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use super::hook::{self, hooks};
use super::loader::{self, weak_address};
use super::sys::{self, KernelAction, syscall};
use super::{
    aside, handler, mask, modules, order, pthread, sigaltstack, signal_frame, signals, start, state, timer,
    user_dispatch,
};
use crate::link::wire::TICK_SIGNALS;

/// Signals that the agent may take: those of interval timers, and those that ticks may come by.
const OURS: [i32; 7] = {
    let [first, second, third, fourth] = TICK_SIGNALS;
    [libc::SIGPROF, libc::SIGALRM, libc::SIGVTALRM, first, second, third, fourth]
};
/// One more that ticks are to come by, if it was asked for; else 0. Written by the constructor, and by it alone.
static ONE_MORE: AtomicI32 = AtomicI32::new(0);

/// From now on the agent may take this signal too.
pub(super) fn allow(signal: i32) {
    if !OURS.contains(&signal) {
        ONE_MORE.store(signal, Ordering::Relaxed);
    }
}

/// What the target believes to be the action of one of our signals. Written by whoever sets it, field by field (a target that sets
/// one signal from two threads at once gets a mixture, as it might without us); read by handlers that pass a signal on.
struct Shadow {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

static SHADOWS: [Shadow; OURS.len() + 1] =
    [const { Shadow { handler: AtomicUsize::new(0), flags: AtomicU64::new(0), mask: AtomicU64::new(0) } };
        OURS.len() + 1];

impl Shadow {
    fn of(signal: i32) -> Option<&'static Shadow> {
        let more = ONE_MORE.load(Ordering::Relaxed);
        let place = OURS.iter().position(|&ours| ours == signal);
        place.or((signal != 0 && signal == more).then_some(OURS.len())).map(|index| &SHADOWS[index])
    }

    fn load(&self) -> KernelAction {
        KernelAction {
            handler: self.handler.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: 0,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    fn store(&self, action: &KernelAction) {
        self.flags.store(action.flags, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Relaxed);
    }
}

/// Makes a signal ours, if the target has no handler of its own for it (SIGURG is taken even then: its default is to be
/// ignored, and the target's handler is called for what is not ours). False when it was not taken.
pub(super) fn take(signal: i32) -> bool {
    let Some(shadow) = Shadow::of(signal) else { return false };
    let old = sys::action_of(signal);
    if handler::is_ours(&old) {
        return true;
    }
    if old.handler > libc::SIG_IGN && signal != libc::SIGURG {
        return false;
    }
    shadow.store(&signal_frame::shown_action(signal, &old));
    // SAFETY: our handler and restorer; the library is never unmapped (-z nodelete).
    unsafe { sys::set_action(signal, &handler::action()) };
    true
}

/// Gives a signal back to the target, which ignores it or leaves it at its default.
pub(super) fn release(signal: i32) {
    let Some(shadow) = Shadow::of(signal) else { return };
    let action = shadow.load();
    if action.handler <= libc::SIG_IGN && handler::is_ours(&sys::action_of(signal)) {
        // SAFETY: no handler of anyone's.
        unsafe { sys::set_action(signal, &KernelAction { flags: 0, mask: 0, ..action }) };
    }
}

/// Makes the signal that starts and stops a profile ours, if nobody has a handler for it.
pub(super) fn take_switch(signal: i32) -> bool {
    if Shadow::of(signal).is_some() {
        return take(signal);
    }
    let old = sys::action_of(signal);
    if old.handler > libc::SIG_IGN {
        return false;
    }
    // SAFETY: our handler and restorer; the library is never unmapped (-z nodelete).
    unsafe { sys::set_action(signal, &handler::action()) };
    handler::is_ours(&sys::action_of(signal))
}

/// Word of `uc_sigmask` in a ucontext: behind flags, link, stack and the machine context.
const UC_SIGMASK: usize = 37;

/// Does with a signal that is not ours what the target wants.
///
/// # Safety
/// The arguments are those of the signal handler that calls this.
pub(super) unsafe fn pass_on(signal: i32, info: *mut (), context: *mut u64) {
    let Some(shadow) = Shadow::of(signal) else { return };
    let action = shadow.load();
    match action.handler {
        libc::SIG_IGN => {}
        libc::SIG_DFL if signal == libc::SIGURG => {}
        libc::SIG_DFL => {
            // The default is to end the process: it is sent again, and delivered when this handler returns.
            // SAFETY: plain values; the signal is sent to this very thread.
            unsafe {
                sys::set_action(signal, &KernelAction::default());
                syscall!(libc::SYS_tgkill, sys::getpid(), sys::gettid(), signal);
            }
        }
        address => {
            if action.flags & libc::SA_RESETHAND as u64 != 0 {
                shadow.handler.store(libc::SIG_DFL, Ordering::Relaxed);
            }
            let own = if action.flags & libc::SA_NODEFER as u64 == 0 { 1 << (signal - 1) } else { 0 };
            // SAFETY: the ucontext holds the mask of the interrupted code, and the target's handler takes these arguments
            // (or the first of them). Should it jump away, nothing of ours is left undone.
            unsafe {
                sys::set_mask(*context.add(UC_SIGMASK) | action.mask | own);
                let target = signal_frame::Target::of(action.flags);
                signal_frame::call(address, signal, info.expose_provenance(), context.expose_provenance(), target);
            }
            sys::block_all();
        }
    }
}

/// The shadow of a signal that is ours now; `None` also in a vfork child, whose actions are its own.
fn guarded(signal: i32) -> Option<&'static Shadow> {
    let shadow = Shadow::of(signal)?;
    if user_dispatch::forbids_calls() {
        return (signal == libc::SIGURG).then_some(shadow);
    }
    let taken = handler::is_ours(&sys::action_of(signal)) && state::is_at_home();
    taken.then_some(shadow)
}

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, usize) -> usize;

/// `sigaction(2)` for the target.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller's pointers are valid or null, as libc demands.
    unsafe {
        start::prepare();
        if !new.is_null() && (*new).sa_sigaction > libc::SIG_IGN {
            signals::give_up(signals::bit(signal));
        }
        let Some(shadow) = guarded(signal) else { return real_sigaction(signal, new, old) };
        let before = shadow.load();
        if !new.is_null() {
            if (*new).sa_flags & libc::SA_ONSTACK != 0 {
                signal_frame::has_go();
            }
            let mask = *(&raw const (*new).sa_mask).cast::<u64>();
            shadow.store(&KernelAction {
                handler: (*new).sa_sigaction,
                flags: (*new).sa_flags as u64,
                restorer: 0,
                mask,
            });
        }
        if !old.is_null() {
            old.write_bytes(0, 1);
            (*old).sa_sigaction = before.handler;
            (*old).sa_flags = before.flags as c_int;
            *(&raw mut (*old).sa_mask).cast::<u64>() = before.mask;
        }
    }
    0
}

unsafe fn real_sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    let real = match (weak_address!("__sigaction"), REAL_SIGACTION.load(Ordering::Relaxed)) {
        (0, 0) => return -1,
        (0, next) => next,
        (alias, _) => alias,
    };
    // SAFETY: libc's own, with the caller's arguments, which are valid or null; what a handler blocks is a mask like any other.
    unsafe {
        let word = |action: *const libc::sigaction| (&raw const (*action).sa_mask).cast::<u64>();
        let program = signal_frame::program_handler(signal);
        let mut copy = core::mem::MaybeUninit::<libc::sigaction>::uninit();
        let changed = if new.is_null() {
            new
        } else {
            new.copy_to(copy.as_mut_ptr(), 1);
            word(copy.as_ptr()).cast_mut().write(mask::veiled(*word(new)));
            let handler = signal_frame::installed(signal, (*new).sa_flags, (*new).sa_sigaction);
            (&raw mut (*copy.as_mut_ptr()).sa_sigaction).write(handler);
            copy.as_ptr()
        };
        let result = core::mem::transmute::<usize, Sigaction>(real)(signal, changed, old);
        if result == 0 && !new.is_null() {
            was_installed(signal, (*new).sa_sigaction);
        }
        if result == 0 && !old.is_null() {
            word(old).cast_mut().write(mask::unveiled(*word(old)));
            (*old).sa_sigaction = signal_frame::shown((*old).sa_sigaction, program);
        }
        result
    }
}

/// libc has set this handler, or none, for the target.
fn was_installed(signal: i32, handler: usize) {
    if handler > libc::SIG_IGN && !user_dispatch::forbids_calls() {
        modules::note_restorer(signal);
    }
}

/// Signals that ticks come by now, or may come by later, as a mask has them.
pub(super) fn tick_signals() -> u64 {
    let others = [ONE_MORE.load(Ordering::Relaxed), timer::classic_signal()];
    others.into_iter().fold(signals::hidden(), |all, signal| all | signals::bit(signal))
}

/// `signal(2)` for the target, with BSD's meaning: restarting, and staying.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn signal(signal: c_int, new: usize) -> usize {
    // SAFETY: plain values, or libc's own function.
    unsafe { plain_signal(signal, new, libc::SA_RESTART as u64, &REAL_SIGNAL) }
}

/// `signal(2)` with System V's meaning: once, and not restarting.
///
/// # Safety
/// As libc's.
#[cfg_attr(sigtop_agent, unsafe(no_mangle))]
unsafe extern "C" fn __sysv_signal(signal: c_int, new: usize) -> usize {
    // SAFETY: plain values, or libc's own function.
    unsafe { plain_signal(signal, new, (libc::SA_RESETHAND | libc::SA_NODEFER) as u64, &REAL_SYSV_SIGNAL) }
}

unsafe fn plain_signal(signal: c_int, new: usize, flags: u64, real: &AtomicUsize) -> usize {
    start::prepare();
    if new > libc::SIG_IGN {
        signals::give_up(signals::bit(signal));
    }
    match (guarded(signal), real.load(Ordering::Relaxed)) {
        (Some(shadow), _) => {
            let old = shadow.load().handler;
            shadow.store(&KernelAction { handler: new, flags, restorer: 0, mask: 0 });
            old
        }
        (None, 0) => libc::SIG_ERR,
        // SAFETY: libc's own, with the caller's arguments.
        (None, real) => unsafe {
            let program = signal_frame::program_handler(signal);
            let old = core::mem::transmute::<usize, Signal>(real)(signal, new);
            if old != libc::SIG_ERR {
                was_installed(signal, new);
            }
            signal_frame::shown(old, program)
        },
    }
}

/// What libc calls these; looked up by the constructor, before any other code of the program runs.
static REAL_SIGACTION: AtomicUsize = AtomicUsize::new(0);
static REAL_SIGNAL: AtomicUsize = AtomicUsize::new(0);
static REAL_SYSV_SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Makes the process fit for another program: no interval timer of ours, no tick of it pending, and a signal that the
/// target ignores ignored indeed, since that is inherited.
pub(super) extern "C" fn before_exec() {
    start::prepare();
    if user_dispatch::forbids_calls() {
        return;
    }
    // The next program inherits the mask.
    user_dispatch::unblock(user_dispatch::hidden_signals());
    order::flush();
    let ignored = |signal: i32| Shadow::of(signal).is_some_and(|shadow| shadow.load().handler == libc::SIG_IGN);
    // Timers end with this program; all else needs system calls, which are made where there is
    // cause.
    if timer::classic_signal() == 0 && !OURS.into_iter().any(ignored) || !state::is_at_home() {
        return;
    }
    timer::leave();
    let classic = timer::disarm_classic();
    for signal in OURS.into_iter().filter(|&signal| handler::is_ours(&sys::action_of(signal))) {
        let (ignore, ours) = (KernelAction { handler: libc::SIG_IGN, ..Default::default() }, handler::action());
        // SAFETY: to ignore a signal drops the ones that are pending; then ours again, which exec resets.
        unsafe {
            if ignored(signal) {
                sys::set_action(signal, &ignore);
            } else if signal == classic {
                sys::set_action(signal, &ignore);
                sys::set_action(signal, &ours);
            }
        }
    }
}

/// The target is about to name a signal in a call of System V's.
extern "C" fn before_naming(signal: c_int) {
    start::prepare();
    if (1..=64).contains(&signal) {
        signals::give_up(signals::bit(signal));
    }
}

hooks! { EXECS, before_exec:
    execve, REAL_EXECVE;
    execv, REAL_EXECV;
    execvp, REAL_EXECVP;
    execvpe, REAL_EXECVPE;
    execl, REAL_EXECL;
    execlp, REAL_EXECLP;
    execle, REAL_EXECLE;
    fexecve, REAL_FEXECVE;
}

hooks! { NAMING, before_naming:
    sigset, REAL_SIGSET;
    sighold, REAL_SIGHOLD;
    sigrelse, REAL_SIGRELSE;
    sigignore, REAL_SIGIGNORE;
    sigpause, REAL_SIGPAUSE;
}

unsafe extern "C" {
    /// The dynamic section of this library.
    #[link_name = "_DYNAMIC"]
    static OWN_DYNAMIC: c_char;
}

/// Address of this library's dynamic section, by which the loader's list tells it from others.
pub(super) fn own_dynamic() -> usize {
    &raw const OWN_DYNAMIC as usize
}

/// Looks up what is called behind the guard. For the constructor.
pub(super) fn look_up() {
    let here = own_dynamic();
    pthread::look_up(here);
    sigaltstack::look_up(here);
    aside::look_up(here);
    mask::look_up(here);
    hook::look_up(EXECS, here);
    hook::look_up(NAMING, here);
    for (name, real) in
        [(c"sigaction", &REAL_SIGACTION), (c"signal", &REAL_SIGNAL), (c"__sysv_signal", &REAL_SYSV_SIGNAL)]
    {
        real.store(loader::next(name, here), Ordering::Relaxed);
    }
}

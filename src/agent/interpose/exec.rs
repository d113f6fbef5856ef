//! The exec family. An interval timer survives exec and its signal would kill the next program, so
//! the agent disarms it before. posix_spawn is not interposed: interval timers are not inherited by
//! its child.

use crate::agent::cpuprofile::control;
use crate::agent::interpose::hook::hooks;
use crate::agent::os::syscall::{self, KernelAction};
use crate::agent::os::{libc_functions, user_dispatch};
use crate::agent::signals::actions;
use crate::agent::timers::interval_timer;
use crate::agent::{start, state};

hooks! { before_exec:
    execve, libc_functions::EXECVE;
    execv, libc_functions::EXECV;
    execvp, libc_functions::EXECVP;
    execvpe, libc_functions::EXECVPE;
    execl, libc_functions::EXECL;
    execlp, libc_functions::EXECLP;
    execle, libc_functions::EXECLE;
    fexecve, libc_functions::FEXECVE;
}

/// Prepares the process for another program: no interval timer of the agent's is armed and no tick
/// of it is pending, and signals that the target ignores are really ignored, because that is
/// inherited.
pub(crate) extern "C" fn before_exec() {
    start::prepare();
    if user_dispatch::forbids_calls() {
        return;
    }
    // The next program inherits the mask.
    user_dispatch::unblock(user_dispatch::hidden_signals());
    control::flush();
    // Timers end with this program; all else needs system calls, which are made where there is
    // cause.
    if interval_timer::classic_signal() == 0 && !actions::OURS.into_iter().any(actions::is_ignored)
        || !state::in_own_process()
    {
        return;
    }
    interval_timer::leave();
    let classic = interval_timer::disarm_classic();
    for signal in actions::OURS.into_iter().filter(|&signal| actions::is_ours(&syscall::signal_action(signal))) {
        let (ignore, ours) = (KernelAction { handler: libc::SIG_IGN, ..Default::default() }, actions::action());
        // SAFETY: to ignore a signal drops the ones that are pending; then ours again, which exec
        // resets.
        unsafe {
            if actions::is_ignored(signal) {
                syscall::set_signal_action(signal, &ignore);
            } else if signal == classic {
                syscall::set_signal_action(signal, &ignore);
                syscall::set_signal_action(signal, &ours);
            }
        }
    }
}

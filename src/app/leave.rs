//! The fate of a launched program when a watch without a screen ends before it.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::failure::Failure;
use crate::attach::proc::ProcStat;
use crate::session::{Command, Notice, Session, TargetExit};
use crate::tui::OnQuit;

/// Maximum time to wait for a target that was asked to terminate. It is killed after two seconds.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(10);

/// Maximum time that a program takes to end of a signal where it cannot be watched, and the time
/// between two looks at it.
const MAX_TERMINATION: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// Waits until a target that was asked to terminate has ended.
pub(super) fn wait_for_exit(session: &Session) -> Option<TargetExit> {
    let deadline = Instant::now() + MAX_EXIT_WAIT;
    while let Ok(notice) = session.notices.recv_deadline(deadline) {
        if let Notice::Ended(exit) = notice {
            return Some(exit);
        }
    }
    None
}

/// Terminates the launched program `pid` if `on_quit` says so. Otherwise returns a sentence that it
/// still runs, if it does.
pub(super) fn leave_program(session: &Session, pid: u32, on_quit: OnQuit) -> Option<String> {
    if on_quit == OnQuit::End && session.commands.send(Command::End).is_ok() && wait_for_exit(session).is_some() {
        return None;
    }
    ProcStat::of(pid).ok().filter(|stat| !stat.is_dead())?;
    let remedy = if on_quit == OnQuit::Ask { "; with --on-quit end, sigtop terminates it" } else { "" };
    Some(format!("the program still runs as process {pid}{remedy}"))
}

/// Terminates the launched program of a watch that could not begin, unless it is to be left
/// running. Returns the failure with what became of the program.
pub(super) fn give_up(failure: Failure, launched: Option<u32>, on_quit: OnQuit) -> Failure {
    let Some(pid) = launched else { return failure };
    let fate = match on_quit != OnQuit::LetRun && terminate(pid) {
        true => "the program was terminated".to_owned(),
        false => format!("the program still runs as process {pid}"),
    };
    Failure::new(failure.status, format!("{}; {fate}", failure.message))
}

/// Sends SIGTERM to a child, and returns whether it ends soon. The thread that waits for it may not
/// have been started.
fn terminate(pid: u32) -> bool {
    let child = Pid::from_raw(pid as i32);
    let deadline = Instant::now() + MAX_TERMINATION;
    let _ = kill(child, Signal::SIGTERM);
    while Instant::now() < deadline {
        let _ = waitpid(child, Some(WaitPidFlag::WNOHANG));
        if ProcStat::of(pid).map_or(true, |stat| stat.is_dead()) {
            return true;
        }
        std::thread::sleep(POLL);
    }
    false
}

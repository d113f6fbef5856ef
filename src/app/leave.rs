//! The fate of a launched program when a watch without a screen ends before it.

use std::time::{Duration, Instant};

use crate::attach::proc::ProcStat;
use crate::session::{Command, Notice, Session, TargetExit};
use crate::tui::OnQuit;

/// Maximum time to wait for a target that was asked to terminate. It is killed after two seconds.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(10);

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

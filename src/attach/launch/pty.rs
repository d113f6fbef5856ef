//! Creates a terminal for the target, with the settings of the one that sigtop runs on, and makes
//! it the controlling terminal of a session.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};

/// Both ends of a terminal, closed on exec.
pub(super) struct Pty {
    /// The master, which does not block.
    pub(super) master: OwnedFd,
    /// The slave, for the target.
    pub(super) slave: OwnedFd,
}

/// Settings of the terminal that sigtop runs on, for the new one.
pub(super) struct TerminalSettings {
    /// The standard descriptors that are a terminal.
    pub(super) terminals: Vec<RawFd>,
    settings: Option<Termios>,
}

impl TerminalSettings {
    /// Reads them from the standard descriptors, or from `/dev/tty` if none of those is a terminal.
    pub(super) fn of_ours() -> TerminalSettings {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let standard: [BorrowedFd<'_>; 3] = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let terminals: Vec<BorrowedFd<'_>> = standard.into_iter().filter(IsTerminal::is_terminal).collect();
        let settings = match terminals.first() {
            Some(terminal) => tcgetattr(terminal).ok(),
            None => File::open("/dev/tty").ok().and_then(|terminal| tcgetattr(terminal).ok()),
        };
        TerminalSettings { terminals: terminals.iter().map(AsRawFd::as_raw_fd).collect(), settings }
    }
}

/// Returns the ioctl's argument.
pub(super) fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Opens a terminal and makes it the controlling one of the calling process, which leads a session
/// without one. For a process with one thread: a concurrent exec could inherit the descriptors
/// before they are marked.
pub(super) fn open(model: &TerminalSettings, size: Winsize) -> nix::Result<Pty> {
    let pair = openpty(&size, model.settings.as_ref())?;
    for end in [&pair.master, &pair.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    fcntl(&pair.master, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK))?;
    // SAFETY: TIOCSCTTY takes an integer (0: do not steal) and a descriptor that lives through the
    // call.
    Errno::result(unsafe { libc::ioctl(pair.slave.as_raw_fd(), libc::TIOCSCTTY, 0) })?;
    Ok(Pty { master: pair.master, slave: pair.slave })
}

/// Sets the terminal's size; its foreground group gets SIGWINCH.
pub(super) fn resize(master: BorrowedFd<'_>, size: Winsize) -> nix::Result<()> {
    // SAFETY: TIOCSWINSZ reads one winsize, which lives through the call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &size) }).map(drop)
}

//! A terminal for the target: made like the one sigtop was started on, and taken as the controlling terminal of a session.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};

/// Both ends, neither inherited by anything executed.
pub(super) struct Pty {
    /// Ours, non-blocking.
    pub(super) master: OwnedFd,
    /// The target's.
    pub(super) slave: OwnedFd,
}

/// What the new terminal copies from the one sigtop runs on.
pub(super) struct Model {
    /// Which of the standard descriptors are a terminal.
    pub(super) terminals: Vec<RawFd>,
    settings: Option<Termios>,
}

impl Model {
    /// Looks at the standard descriptors, and for the settings at `/dev/tty` if none of them is a terminal.
    pub(super) fn of_ours() -> Model {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let standard: [BorrowedFd<'_>; 3] = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let terminals: Vec<BorrowedFd<'_>> = standard.into_iter().filter(IsTerminal::is_terminal).collect();
        let settings = match terminals.first() {
            Some(terminal) => tcgetattr(terminal).ok(),
            None => File::open("/dev/tty").ok().and_then(|terminal| tcgetattr(terminal).ok()),
        };
        Model { terminals: terminals.iter().map(AsRawFd::as_raw_fd).collect(), settings }
    }
}

/// The ioctl's argument.
pub(super) fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Makes the terminal the controlling one of the calling process, which leads a session without one. For a process with one
/// thread: between their making and marking, an exec elsewhere could inherit the descriptors.
pub(super) fn open(model: &Model, size: Winsize) -> nix::Result<Pty> {
    let pair = openpty(&size, model.settings.as_ref())?;
    for end in [&pair.master, &pair.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    fcntl(&pair.master, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK))?;
    // SAFETY: TIOCSCTTY takes an integer (0: do not steal) and a descriptor that lives through the call.
    Errno::result(unsafe { libc::ioctl(pair.slave.as_raw_fd(), libc::TIOCSCTTY, 0) })?;
    Ok(Pty { master: pair.master, slave: pair.slave })
}

/// Tells the terminal its size; its foreground group gets SIGWINCH.
pub(super) fn resize(master: BorrowedFd<'_>, size: Winsize) -> nix::Result<()> {
    // SAFETY: TIOCSWINSZ reads one winsize, which lives through the call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &size) }).map(drop)
}

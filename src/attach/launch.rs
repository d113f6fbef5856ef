//! Starts a command with the agent preloaded, and follows it to its end.
//!
//! There are two ways. [`Stdio::Inherit`], for batch: the target is a plain child with sigtop's own descriptors and process
//! group, and nothing of sigtop's is needed for it to run on. [`Stdio::Terminal`], under a screen: each standard descriptor that
//! is a terminal becomes one of the target's own, held by a [`keeper`](super::keeper) that outlives sigtop.
//!
//! In both, the target gets what sigtop was started with (mask, dispositions, descriptors, directory) and two variables.
//! [`launch`] forks, so it wants to be called while sigtop has one thread; [`Launched::follow`] starts one, later.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::Winsize;
use nix::sys::signal::SigHandler;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};

use super::backlog::Backlog;
use super::image::{self, Failure, Image, Reaped};
use super::inherit::{self, Held};
use super::packet::{MAX_INPUT, MAX_PACKET, Order, Report};
use super::program::Program;
use super::{AttachError, keeper, pty};

/// How often to look whether more output is wanted, while some waits and none comes, ms.
const LOOK_MS: u8 = 5;
/// How long the keeper may take to make room for the news that the terminal is gone, ms.
const HANG_UP_MS: u16 = 1000;
/// Between two parts of a flood that lines are left out of: nobody reads them faster, and showing them takes CPU time that
/// the target may want.
const FLOOD: Duration = Duration::from_millis(100);

/// What to start.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// What [`program::of_command`](super::program::of_command) found.
    pub program: &'a Program,
    /// The words, with the name as typed.
    pub words: &'a [OsString],
    /// The agent's file.
    pub library: &'a Path,
    /// Value of [`LINK_VARIABLE`](crate::link::wire::LINK_VARIABLE).
    pub link: &'a OsStr,
}

/// Where the target's input comes from and its output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Sigtop's own. Sigtop itself ignores SIGINT and SIGQUIT from then on: they are the target's, as under time(1).
    Inherit,
    /// A terminal of its own in place of each of sigtop's; what is redirected passes through.
    Terminal {
        /// Its size.
        rows: u16,
        /// Its size.
        columns: u16,
    },
}

/// What is heard of a target. After [`Ended`](Event::Ended) only news of output may follow, of processes it left behind; the
/// sender is dropped when they too have closed its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This much output, in bytes, is missing here, because it was not read for seconds.
    OutputLost(u64),
    /// This much input, in bytes, was dropped, because the target does not read.
    InputLost(u64),
    /// It was stopped by a signal.
    Stopped {
        /// Which.
        signal: i32,
    },
    /// It goes on.
    Continued,
    /// It ended.
    Ended(Ended),
}

/// How a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub how: Ending,
    /// User CPU time of it and the children it waited for, ns.
    pub user_ns: u64,
    /// System CPU time, likewise.
    pub system_ns: u64,
    /// CPU time of it alone, ns; 0 if it is not known.
    pub own_ns: u64,
}

/// By itself or by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status.
    Exited(u8),
    /// By this signal.
    Killed {
        /// Which.
        signal: i32,
        /// A core was dumped.
        core: bool,
    },
    /// Nobody knows: its keeper was killed.
    Unknown,
}

impl Ending {
    /// What a shell makes of it: the status, or 128 and the signal; 125 where nobody knows.
    pub fn exit_status(self) -> u8 {
        match self {
            Ending::Exited(status) => status,
            Ending::Killed { signal, .. } => 128u8.saturating_add(signal as u8),
            Ending::Unknown => 125,
        }
    }

    fn of_wait_status(status: i32) -> Ending {
        if libc::WIFSIGNALED(status) {
            Ending::Killed { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
        } else {
            Ending::Exited(libc::WEXITSTATUS(status) as u8)
        }
    }
}

/// A target that was started.
#[derive(Debug)]
pub struct Launched {
    /// Of the target. It is not reused before its end was told.
    pub pid: u32,
    line: Line,
}

#[derive(Debug)]
enum Line {
    Keeper {
        socket: OwnedFd,
        keeper: Pid,
    },
    /// The descriptor is a pidfd; kernels before 5.3 have none.
    Child {
        target: Pid,
        handle: Option<OwnedFd>,
    },
}

/// Starts a target.
///
/// # Errors
/// [`AttachError::Exec`] if it cannot be executed, [`AttachError::System`] if sigtop cannot fork and the like.
pub fn launch(command: &Command<'_>, stdio: Stdio) -> Result<Launched, AttachError> {
    let image = Image::new(command)?;
    match stdio {
        Stdio::Inherit => launch_child(&image),
        Stdio::Terminal { rows, columns } => launch_kept(&image, pty::size(rows, columns)),
    }
}

fn launch_child(image: &Image) -> Result<Launched, AttachError> {
    let held = Held::hold().map_err(|error| AttachError::system("cannot block signals", error))?;
    // Before the target is there: what is typed at it must not end us.
    for signal in inherit::INTERRUPTS {
        inherit::set(signal, SigHandler::SigIgn)
            .map_err(|error| AttachError::system("cannot ignore a signal", error))?;
    }
    let started = image.start(&held, || Ok(()));
    held.release().map_err(|error| AttachError::system("cannot unblock signals", error))?;
    let target = started.map_err(|failure| failure.into_error(image))?;
    // SAFETY: pidfd_open takes two integers; a descriptor that it returns is new and ours, and closed on exec.
    let handle = unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, target.as_raw(), 0) as i32;
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    };
    Ok(Launched { pid: target.as_raw() as u32, line: Line::Child { target, handle } })
}

fn launch_kept(image: &Image, size: Winsize) -> Result<Launched, AttachError> {
    let model = pty::Model::of_ours();
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|error| AttachError::system("cannot make a pair of sockets", error))?;
    let held = Held::hold().map_err(|error| AttachError::system("cannot block signals", error))?;
    // SAFETY: sigtop has one thread here, so the child finds every lock free; it never returns from `keep`. (In tests there
    // are more threads: then it relies on libc making malloc usable in the child, as glibc and musl do.)
    let keeper = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(ours);
            keeper::keep(theirs, image, &held, &model, size)
        }
        Ok(ForkResult::Parent { child }) => Ok(child),
        Err(error) => Err(AttachError::system("cannot fork", error)),
    };
    drop(theirs);
    held.release().map_err(|error| AttachError::system("cannot unblock signals", error))?;
    let keeper = keeper?;
    let mut buffer = vec![0; MAX_PACKET];
    let report = receive(ours.as_raw_fd(), &mut buffer, MsgFlags::empty());
    let error = match report.ok().flatten().and_then(Report::decode) {
        Some(Report::Started { pid }) => return Ok(Launched { pid, line: Line::Keeper { socket: ours, keeper } }),
        Some(Report::Failed { errno, ours }) => Failure { errno: Errno::from_raw(errno), ours }.into_error(image),
        _ => AttachError::system("cannot start the target", io::Error::other("its keeper died")),
    };
    let _ = waitpid(keeper, None);
    Err(error)
}

impl Launched {
    /// Starts the thread that tells `events` what happens to the target, and `output` what it writes to its terminal, until
    /// the senders are dropped at the end of it all. What was written before an event is sent before it. While `output` is
    /// full, lines that nobody will see are left out ([`backlog`](super::backlog)). It reads on when nobody listens, so that
    /// the target is not held up.
    pub fn follow(&self, events: Sender<Event>, output: Sender<Vec<u8>>) -> Result<JoinHandle<()>, AttachError> {
        let thread = thread::Builder::new().name("target".to_owned());
        match &self.line {
            &Line::Child { target, .. } => thread.spawn(move || drop(events.send(Event::Ended(wait(target))))),
            Line::Keeper { socket, keeper } => {
                let (socket, keeper) = (socket.try_clone(), *keeper);
                socket.and_then(|socket| thread.spawn(move || listen(&socket, keeper, &events, &output)))
            }
        }
        .map_err(|error| AttachError::system("cannot follow the target", error))
    }

    /// Types into the target's terminal; never waits. Gives the number of bytes taken, fewer when the keeper is behind. Without
    /// a terminal of its own it takes none.
    pub fn input(&self, bytes: &[u8]) -> Result<usize, AttachError> {
        let Line::Keeper { socket, .. } = &self.line else { return Ok(0) };
        let mut taken = 0;
        for part in bytes.chunks(MAX_INPUT) {
            match tell(socket, &Order::Input(part.to_vec())) {
                Ok(()) => taken += part.len(),
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(AttachError::system("cannot type into the target", error)),
            }
        }
        Ok(taken)
    }

    /// Tells the target's terminal its size; nothing without one.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<(), AttachError> {
        let Line::Keeper { socket, .. } = &self.line else { return Ok(()) };
        tell(socket, &Order::Resize { rows, columns })
            .map_err(|error| AttachError::system("cannot resize the target's terminal", error))
    }

    /// Sends a signal: to the target's process group where it has a terminal of its own, else (the group being sigtop's too)
    /// to the target alone. After its end nothing is sent.
    pub fn signal(&self, signal: i32) -> Result<(), AttachError> {
        let sent = match &self.line {
            Line::Keeper { socket, .. } => tell(socket, &Order::Signal { signal }),
            Line::Child { handle: Some(handle), .. } => {
                // SAFETY: pidfd_send_signal takes a pidfd that lives through the call, integers, and no siginfo (null).
                let done = unsafe {
                    libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, std::ptr::null::<u8>(), 0)
                };
                match Errno::result(done) {
                    Err(Errno::ESRCH) => Ok(()),
                    done => done.map(drop),
                }
            }
            Line::Child { handle: None, .. } => Err(Errno::ENOSYS),
        };
        sent.map_err(|error| AttachError::system("cannot send a signal to the target", error))
    }

    /// Hangs up on a target with a terminal of its own, as that terminal would if it went away with
    /// sigtop's. Without one it shares sigtop's terminal and group, and has its SIGHUP from the
    /// kernel.
    pub fn hang_up(&self) -> Result<(), AttachError> {
        let Line::Keeper { socket, .. } = &self.line else { return Ok(()) };
        let cannot = |error| AttachError::system("cannot hang up on the target", error);
        // The keeper may still have much input to take.
        poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], HANG_UP_MS).map_err(cannot)?;
        tell(socket, &Order::HangUp).map_err(cannot)
    }
}

fn tell(socket: &OwnedFd, order: &Order) -> Result<(), Errno> {
    send(socket.as_raw_fd(), &order.encode(), MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).map(drop)
}

/// The keeper's next packet; `None` when it is gone.
fn receive(socket: RawFd, buffer: &mut [u8], flags: MsgFlags) -> Result<Option<&[u8]>, Errno> {
    loop {
        match recv(socket, buffer, flags) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
            Ok(0) | Err(_) => return Ok(None),
            Ok(count) => return Ok(Some(&buffer[..count])),
        }
    }
}

fn listen(socket: &OwnedFd, keeper: Pid, events: &Sender<Event>, output: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; MAX_PACKET];
    let mut backlog = Backlog::default();
    let (mut ended, mut rest) = (false, None);
    loop {
        if !backlog.is_empty() {
            let rests = rest.is_some_and(|until| Instant::now() < until);
            if backlog.is_full() || !rests && !output.is_full() {
                let (bytes, shorter) = backlog.take();
                rest = shorter.then(|| Instant::now() + FLOOD);
                // Nobody there: then it is not shown anywhere.
                drop(output.send(bytes));
            } else {
                backlog.wait();
                let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], LOOK_MS);
            }
        }
        let flags = if backlog.is_empty() { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
        let report = match receive(socket.as_raw_fd(), &mut buffer, flags) {
            Err(_) => continue,
            Ok(None) => break,
            Ok(Some(packet)) if Report::is_output(packet) => {
                backlog.push(&packet[1..]);
                continue;
            }
            Ok(Some(packet)) => Report::decode(packet),
        };
        if !backlog.is_empty() {
            drop(output.send(backlog.take().0));
        }
        let event = match report {
            Some(Report::OutputLost(count)) => Event::OutputLost(count),
            Some(Report::InputLost(count)) => Event::InputLost(count),
            Some(Report::Stopped { signal }) => Event::Stopped { signal },
            Some(Report::Continued) => Event::Continued,
            Some(Report::Ended { status, user_ns, system_ns, own_ns }) => {
                ended = true;
                Event::Ended(Ended { how: Ending::of_wait_status(status), user_ns, system_ns, own_ns })
            }
            Some(Report::Started { .. } | Report::Failed { .. } | Report::Output(_)) => continue,
            None => break,
        };
        drop(events.send(event));
    }
    if !backlog.is_empty() {
        drop(output.send(backlog.take().0));
    }
    if !ended {
        drop(events.send(Event::Ended(Ended { how: Ending::Unknown, user_ns: 0, system_ns: 0, own_ns: 0 })));
    }
    let _ = waitpid(keeper, None);
}

/// Waits for a child of our own.
fn wait(target: Pid) -> Ended {
    loop {
        match image::reap(target, 0) {
            Ok(Some(Reaped { status, user_ns, system_ns, own_ns })) => {
                return Ended { how: Ending::of_wait_status(status), user_ns, system_ns, own_ns };
            }
            Ok(None) | Err(Errno::EINTR) => {}
            Err(_) => return Ended { how: Ending::Unknown, user_ns: 0, system_ns: 0, own_ns: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_becomes_the_status_a_shell_would_show() {
        assert_eq!(Ending::of_wait_status(3 << 8).exit_status(), 3);
        assert_eq!(Ending::of_wait_status(9), Ending::Killed { signal: 9, core: false });
        assert_eq!(Ending::of_wait_status(0x80 | 6), Ending::Killed { signal: 6, core: true });
        assert_eq!(Ending::Killed { signal: 11, core: true }.exit_status(), 139);
    }
}

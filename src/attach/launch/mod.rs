//! Starts a command with the agent preloaded and follows it to its end.
//!
//! There are two ways. With [`Stdio::Inherit`], for batch mode, the target is a plain child with
//! sigtop's own descriptors and process group, and runs on without sigtop. With
//! [`Stdio::Terminal`], under the screen, a terminal of the target's own replaces each standard
//! descriptor that is a terminal; a [`keeper`](keeper) process that outlives sigtop holds it.
//!
//! In both, the target gets the signal mask, dispositions, descriptors and directory that sigtop
//! was started with, and two more variables. [`launch`] forks, so it should be called while sigtop
//! has one thread; [`LaunchedTarget::follow`] starts one later.

mod exec;
pub(super) mod inherit;
mod keeper;
mod outgoing_queue;
pub mod output_queue;
mod protocol;
mod pty;

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
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

use self::exec::{ExecImage, ReapedChild, StartError};
pub use self::exec::{LaunchCommand, Preload};
use self::inherit::SignalState;
use self::output_queue::PtyOutputQueue;
use self::protocol::{KeeperCommand, KeeperReport, MAX_INPUT, MAX_PACKET};
use super::error::AttachError;
use super::find::WatchMethod;

/// Polling interval while output waits for a slow reader and none arrives, in ms.
const POLL_MS: u8 = 5;
/// Maximum time for the keeper to accept the news that the terminal is gone, in ms.
const HANG_UP_MS: u16 = 1000;
/// Pause after output from which lines were dropped. Nobody reads faster, and drawing takes CPU
/// time that the target may need.
const FLOOD_PAUSE: Duration = Duration::from_millis(100);

/// The target's standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// The target inherits sigtop's streams. Sigtop ignores SIGINT and SIGQUIT from then on: they
    /// are meant for the target, as under time(1).
    Inherit,
    /// A terminal of the target's own replaces each of sigtop's; redirected streams are passed
    /// through.
    Terminal {
        /// The size in cells.
        rows: u16,
        /// The size in cells.
        columns: u16,
    },
}

/// Events in the life of a target. After [`Ended`](TargetEvent::Ended) only events about output
/// follow, from processes that the target left behind; the sender is dropped when they too have
/// closed its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// This number of bytes of output is missing, because it was not read for seconds.
    OutputLost(u64),
    /// This number of bytes of input was dropped, because the target does not read.
    InputLost(u64),
    /// A signal stopped the target.
    Stopped {
        /// The signal.
        signal: i32,
    },
    /// The target continues.
    Continued,
    /// The target ended.
    Ended(TargetEnd),
}

/// The end of a target: its reason and CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetEnd {
    /// The reason.
    pub how: ExitReason,
    /// User CPU time of the target and the children it waited for, in ns.
    pub user_ns: u64,
    /// System CPU time of the same, in ns.
    pub system_ns: u64,
    /// CPU time of the target alone, in ns; 0 if unknown.
    pub own_ns: u64,
}

/// The reason why a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It exited with this status.
    Exited(u8),
    /// A signal killed it.
    Killed {
        /// The signal.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
    /// The reason is unknown, because the keeper was killed.
    Unknown,
}

impl ExitReason {
    /// Returns the exit status as a shell reports it: the status, or 128 plus the signal; 125 if
    /// unknown.
    pub fn exit_status(self) -> u8 {
        match self {
            ExitReason::Exited(status) => status,
            ExitReason::Killed { signal, .. } => 128u8.saturating_add(signal as u8),
            ExitReason::Unknown => 125,
        }
    }

    fn of_wait_status(status: i32) -> ExitReason {
        if libc::WIFSIGNALED(status) {
            ExitReason::Killed { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
        } else {
            ExitReason::Exited(libc::WEXITSTATUS(status) as u8)
        }
    }
}

/// A target that was launched.
#[derive(Debug)]
pub struct LaunchedTarget {
    /// The target's pid. It is not reused before the end was reported.
    pub pid: u32,
    /// Whether the target was given the agent.
    pub method: WatchMethod,
    line: TargetHandle,
}

#[derive(Debug)]
enum TargetHandle {
    Keeper {
        socket: OwnedFd,
        keeper: Pid,
    },
    /// The descriptor is the child's pidfd; kernels before 5.3 have none.
    Child {
        target: Pid,
        handle: Option<OwnedFd>,
    },
}

/// Launches a target.
///
/// # Errors
/// [`AttachError::Exec`] if the program cannot be executed, [`AttachError::System`] if sigtop
/// itself fails, for example to fork.
pub fn launch(command: &LaunchCommand<'_>, stdio: Stdio) -> Result<LaunchedTarget, AttachError> {
    let image = ExecImage::new(command)?;
    let method = if command.preload.is_some() { WatchMethod::Agent } else { WatchMethod::External };
    let (pid, line) = match stdio {
        Stdio::Inherit => launch_child(&image),
        Stdio::Terminal { rows, columns } => launch_with_keeper(&image, pty::size(rows, columns)),
    }?;
    Ok(LaunchedTarget { pid, method, line })
}

fn launch_child(image: &ExecImage) -> Result<(u32, TargetHandle), AttachError> {
    let signals = SignalState::block_all().map_err(|error| AttachError::system("cannot block signals", error))?;
    // Set before the target runs: keys typed at the target must not end sigtop.
    for signal in inherit::INTERRUPTS {
        inherit::set(signal, SigHandler::SigIgn)
            .map_err(|error| AttachError::system("cannot ignore a signal", error))?;
    }
    let started = image.start(&signals, || Ok(()));
    signals.restore().map_err(|error| AttachError::system("cannot unblock signals", error))?;
    let target = started.map_err(|failure| failure.into_error(image))?;
    // SAFETY: pidfd_open takes two integers. The descriptor that it returns is new, owned by
    // nothing else, and closed on exec.
    let handle = unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, target.as_raw(), 0) as i32;
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    };
    Ok((target.as_raw() as u32, TargetHandle::Child { target, handle }))
}

fn launch_with_keeper(image: &ExecImage, size: Winsize) -> Result<(u32, TargetHandle), AttachError> {
    let model = pty::TerminalSettings::of_ours();
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|error| AttachError::system("cannot make a pair of sockets", error))?;
    let signals = SignalState::block_all().map_err(|error| AttachError::system("cannot block signals", error))?;
    // SAFETY: sigtop has one thread here, so the child finds every lock free; it never returns from
    // `keep`. (Tests have more threads: there it relies on libc making malloc usable in the child,
    // as glibc and musl do.)
    let keeper = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(ours);
            keeper::keep(theirs, image, &signals, &model, size)
        }
        Ok(ForkResult::Parent { child }) => Ok(child),
        Err(error) => Err(AttachError::system("cannot fork", error)),
    };
    drop(theirs);
    signals.restore().map_err(|error| AttachError::system("cannot unblock signals", error))?;
    let keeper = keeper?;
    let mut buffer = vec![0; MAX_PACKET];
    let report = receive(ours.as_raw_fd(), &mut buffer, MsgFlags::empty());
    let error = match report.ok().flatten().and_then(KeeperReport::decode) {
        Some(KeeperReport::Started { pid }) => {
            return Ok((pid, TargetHandle::Keeper { socket: ours, keeper }));
        }
        Some(KeeperReport::Failed { errno, ours }) => {
            StartError { errno: Errno::from_raw(errno), ours }.into_error(image)
        }
        _ => AttachError::system("cannot start the target", io::Error::other("its keeper died")),
    };
    let _ = waitpid(keeper, None);
    Err(error)
}

impl LaunchedTarget {
    /// Starts the thread that sends what happens to the target to `events`, and what it writes to
    /// its terminal to `output`, until the end of it all drops the senders. Output that precedes an
    /// event is sent before it. While `output` is full, lines that will scroll off anyway are
    /// dropped ([`output_queue`](output_queue)). The thread keeps reading without a receiver, so
    /// the target is never blocked.
    pub fn follow(&self, events: Sender<TargetEvent>, output: Sender<Vec<u8>>) -> Result<JoinHandle<()>, AttachError> {
        let thread = thread::Builder::new().name("target".to_owned());
        match &self.line {
            &TargetHandle::Child { target, .. } => {
                thread.spawn(move || drop(events.send(TargetEvent::Ended(wait(target)))))
            }
            TargetHandle::Keeper { socket, keeper } => {
                let (socket, keeper) = (socket.try_clone(), *keeper);
                socket.and_then(|socket| thread.spawn(move || forward_reports(&socket, keeper, &events, &output)))
            }
        }
        .map_err(|error| AttachError::system("cannot follow the target", error))
    }

    /// Types into the target's terminal without waiting. Returns the number of bytes accepted,
    /// fewer if the keeper is behind; 0 if the target has no terminal of its own.
    pub fn input(&self, bytes: &[u8]) -> Result<usize, AttachError> {
        let TargetHandle::Keeper { socket, .. } = &self.line else { return Ok(0) };
        let mut taken = 0;
        for part in bytes.chunks(MAX_INPUT) {
            match send_command(socket, &KeeperCommand::Input(part.to_vec())) {
                Ok(()) => taken += part.len(),
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(AttachError::system("cannot type into the target", error)),
            }
        }
        Ok(taken)
    }

    /// Sets the size of the target's terminal, if it has one of its own.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<(), AttachError> {
        let TargetHandle::Keeper { socket, .. } = &self.line else { return Ok(()) };
        send_command(socket, &KeeperCommand::Resize { rows, columns })
            .map_err(|error| AttachError::system("cannot resize the target's terminal", error))
    }

    /// Sends a signal to the target's process group if the target has a terminal of its own;
    /// otherwise, as it shares sigtop's group, to the target alone. Sends nothing after its end.
    pub fn signal(&self, signal: i32) -> Result<(), AttachError> {
        let sent = match &self.line {
            TargetHandle::Keeper { socket, .. } => send_command(socket, &KeeperCommand::Signal { signal }),
            TargetHandle::Child { handle: Some(handle), .. } => {
                // SAFETY: pidfd_send_signal takes a pidfd that lives through the call, integers,
                // and no siginfo (null).
                let done = unsafe {
                    libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, std::ptr::null::<u8>(), 0)
                };
                match Errno::result(done) {
                    Err(Errno::ESRCH) => Ok(()),
                    done => done.map(drop),
                }
            }
            TargetHandle::Child { handle: None, .. } => Err(Errno::ENOSYS),
        };
        sent.map_err(|error| AttachError::system("cannot send a signal to the target", error))
    }

    /// Hangs up the target's own terminal, as happens when sigtop's goes away. A target without one
    /// shares sigtop's terminal and group, and the kernel sends it SIGHUP.
    pub fn hang_up(&self) -> Result<(), AttachError> {
        let TargetHandle::Keeper { socket, .. } = &self.line else { return Ok(()) };
        let cannot = |error| AttachError::system("cannot hang up on the target", error);
        // The keeper may still have much input to read.
        poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], HANG_UP_MS).map_err(cannot)?;
        send_command(socket, &KeeperCommand::HangUp).map_err(cannot)
    }
}

fn send_command(socket: &OwnedFd, order: &KeeperCommand) -> Result<(), Errno> {
    send(socket.as_raw_fd(), &order.encode(), MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).map(drop)
}

/// Receives the keeper's next packet; `None` when the keeper has ended.
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

fn forward_reports(socket: &OwnedFd, keeper: Pid, events: &Sender<TargetEvent>, output: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; MAX_PACKET];
    let mut queue = PtyOutputQueue::default();
    let (mut ended, mut rest) = (false, None);
    loop {
        if !queue.is_empty() {
            let rests = rest.is_some_and(|until| Instant::now() < until);
            if queue.is_full() || !rests && !output.is_full() {
                let (bytes, shorter) = queue.take();
                rest = shorter.then(|| Instant::now() + FLOOD_PAUSE);
                // Without a receiver the output is not shown.
                drop(output.send(bytes));
            } else {
                queue.set_behind();
                let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], POLL_MS);
            }
        }
        let flags = if queue.is_empty() { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
        let report = match receive(socket.as_raw_fd(), &mut buffer, flags) {
            Err(_) => continue,
            Ok(None) => break,
            Ok(Some(packet)) if KeeperReport::is_output(packet) => {
                queue.push(&packet[1..]);
                continue;
            }
            Ok(Some(packet)) => KeeperReport::decode(packet),
        };
        if !queue.is_empty() {
            drop(output.send(queue.take().0));
        }
        let event = match report {
            Some(KeeperReport::OutputLost(count)) => TargetEvent::OutputLost(count),
            Some(KeeperReport::InputLost(count)) => TargetEvent::InputLost(count),
            Some(KeeperReport::Stopped { signal }) => TargetEvent::Stopped { signal },
            Some(KeeperReport::Continued) => TargetEvent::Continued,
            Some(KeeperReport::Ended { status, user_ns, system_ns, own_ns }) => {
                ended = true;
                TargetEvent::Ended(TargetEnd { how: ExitReason::of_wait_status(status), user_ns, system_ns, own_ns })
            }
            Some(KeeperReport::Started { .. } | KeeperReport::Failed { .. } | KeeperReport::Output(_)) => continue,
            None => break,
        };
        drop(events.send(event));
    }
    if !queue.is_empty() {
        drop(output.send(queue.take().0));
    }
    if !ended {
        drop(events.send(TargetEvent::Ended(TargetEnd {
            how: ExitReason::Unknown,
            user_ns: 0,
            system_ns: 0,
            own_ns: 0,
        })));
    }
    let _ = waitpid(keeper, None);
}

/// Waits for a child of this process.
fn wait(target: Pid) -> TargetEnd {
    loop {
        match exec::reap(target, 0) {
            Ok(Some(ReapedChild { status, user_ns, system_ns, own_ns })) => {
                return TargetEnd { how: ExitReason::of_wait_status(status), user_ns, system_ns, own_ns };
            }
            Ok(None) | Err(Errno::EINTR) => {}
            Err(_) => return TargetEnd { how: ExitReason::Unknown, user_ns: 0, system_ns: 0, own_ns: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_reasons_map_to_shell_statuses() {
        assert_eq!(ExitReason::of_wait_status(3 << 8).exit_status(), 3);
        assert_eq!(ExitReason::of_wait_status(9), ExitReason::Killed { signal: 9, core: false });
        assert_eq!(ExitReason::of_wait_status(0x80 | 6), ExitReason::Killed { signal: 6, core: true });
        assert_eq!(ExitReason::Killed { signal: 11, core: true }.exit_status(), 139);
    }
}

//! The keeper: the process between the viewer and a target with a terminal of its own. It is a fork
//! of sigtop that leads a new session, holds the terminal's master, and is the target's parent.
//! When the viewer quits or is killed, the target keeps its terminal and its parent, and its output
//! is still read (and dropped), so that it neither dies nor blocks. When the viewer loses its own
//! terminal, it tells the keeper, which sends the target the SIGHUP that it would have got from
//! that terminal; if it ignores the signal it runs on as above.
//!
//! The target does not lead the session but, as under a shell, leads the foreground group: when it
//! ends, the kernel sends no SIGHUP to the processes that it leaves behind. The keeper stays until
//! all of them have closed the terminal.
//!
//! Up to [`MAX_WAITING`] bytes of the target's output wait here for the viewer. Past that the
//! target waits too, as it would for a slow terminal, but only for ten seconds; then the
//! oldest output is dropped and counted until the viewer reads again. Input that the target does
//! not read is dropped and counted past [`MAX_INPUT_QUEUE`] bytes, as by a terminal.
//!
//! All signals are blocked here, so the keeper ends with the target, or by SIGKILL.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::Winsize;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{MsgFlags, recv, send};
use nix::unistd::{Pid, chdir, getpgrp, read, setpgid, setsid, tcgetpgrp, tcsetpgrp, write};

use super::exec::{ExecImage, ReapedChild, StartError, reap};
use super::inherit::SignalState;
use super::outgoing_queue::{MAX_LAST_OUTPUT, MAX_WAITING, OutgoingQueue};
use super::protocol::{KeeperCommand, KeeperReport, MAX_OUTPUT, MAX_PACKET};
use super::pty::{self, Pty, TerminalSettings};

/// Maximum number of bytes of input that wait for the target.
const MAX_INPUT_QUEUE: usize = 64 * 1024;
/// Largest descriptor that is closed where the kernel (before 5.9) cannot close a range.
const MAX_DESCRIPTOR: RawFd = 65_535;

/// Runs the keeper, in the child of a fork.
pub(super) fn keep(
    socket: OwnedFd,
    image: &ExecImage,
    signals: &SignalState,
    model: &TerminalSettings,
    size: Winsize,
) -> ! {
    let lived = catch_unwind(AssertUnwindSafe(|| match Keeper::start(socket, image, signals, model, size) {
        Some(keeper) => keeper.run(),
        None => Ok(()),
    }));
    // SAFETY: ends the process immediately: the destructors and buffers here are copies of the
    // parent's and must not run.
    unsafe { libc::_exit(if matches!(lived, Ok(Ok(()))) { 0 } else { 1 }) }
}

struct Keeper {
    /// The socket to the viewer, while there is one.
    socket: Option<OwnedFd>,
    /// The terminal's master, until every process has closed the slave.
    master: Option<OwnedFd>,
    /// The terminal's slave, open while the target lives, so that a target that closes all of its
    /// own does not look like the end.
    slave: Option<OwnedFd>,
    children: SignalFd,
    target: Pid,
    stopped: bool,
    waiting: OutgoingQueue,
    typed: VecDeque<u8>,
    buffer: Vec<u8>,
}

impl Keeper {
    /// Starts the target and reports the result to the viewer; `None` if there is nothing to keep.
    fn start(
        socket: OwnedFd,
        image: &ExecImage,
        signals: &SignalState,
        model: &TerminalSettings,
        size: Winsize,
    ) -> Option<Keeper> {
        let send_report = |report: KeeperReport| send(socket.as_raw_fd(), &report.encode(), MsgFlags::MSG_NOSIGNAL);
        let started =
            prepare(model, size).map_err(|errno| StartError { errno, ours: true }).and_then(|(pty, children)| {
                let target = image.start(signals, || give_terminal(&pty, model))?;
                Ok((pty, children, target))
            });
        match started {
            Ok((Pty { master, slave }, children, target)) => {
                let kept = [socket.as_raw_fd(), master.as_raw_fd(), slave.as_raw_fd(), children.as_fd().as_raw_fd()];
                close_inherited(kept);
                let _ = send_report(KeeperReport::Started { pid: target.as_raw() as u32 });
                Some(Keeper {
                    socket: Some(socket),
                    master: Some(master),
                    slave: Some(slave),
                    children,
                    target,
                    stopped: false,
                    waiting: OutgoingQueue::default(),
                    typed: VecDeque::new(),
                    buffer: vec![0; MAX_PACKET],
                })
            }
            Err(StartError { errno, ours }) => {
                let _ = send_report(KeeperReport::Failed { errno: errno as i32, ours });
                None
            }
        }
    }

    fn run(mut self) -> nix::Result<()> {
        loop {
            let ended = self.slave.is_none();
            if ended && self.master.is_none() && (self.socket.is_none() || self.waiting.is_empty()) {
                return Ok(());
            }
            let (children, master, socket) = self.wait()?;
            if children {
                while self.children.read_signal()?.is_some() {}
                self.check_target()?;
            }
            if socket {
                self.receive_commands()?;
            }
            if master {
                self.write_input();
                self.read_output(MAX_OUTPUT);
            }
            self.send_packets();
        }
    }

    /// Waits until the target's state, its terminal or the viewer needs attention.
    fn wait(&mut self) -> nix::Result<(bool, bool, bool)> {
        let full = self.socket.is_some() && self.waiting.size >= MAX_WAITING;
        let patience = self.waiting.patience(Instant::now());
        let may_read = !full || patience.is_zero();
        let mut sources = vec![PollFd::new(self.children.as_fd(), PollFlags::POLLIN)];
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, may_read);
        flags.set(PollFlags::POLLOUT, !self.typed.is_empty());
        // Not polled at all when nothing is wanted of it: a hang-up would be reported again and
        // again.
        let master = self.master.as_ref().filter(|_| !flags.is_empty());
        sources.extend(master.map(|master| PollFd::new(master.as_fd(), flags)));
        let mut flags = PollFlags::POLLIN;
        let gathering = self.waiting.gathering(Instant::now());
        flags.set(PollFlags::POLLOUT, !self.waiting.is_empty() && gathering.is_none());
        sources.extend(self.socket.as_ref().map(|socket| PollFd::new(socket.as_fd(), flags)));
        let timeout = gathering.or_else(|| (!may_read).then_some(patience)).map_or(PollTimeout::NONE, |time| {
            // Rounded up: a time that is nearly over must not cause a busy loop.
            PollTimeout::try_from(time + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut sources, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let mut ready = sources.iter().map(|source| source.any().unwrap_or(true));
        let children = ready.next().unwrap_or_default();
        let has_master = master.is_some() && ready.next().unwrap_or_default();
        Ok((children, has_master, ready.next().unwrap_or_default()))
    }

    fn check_target(&mut self) -> nix::Result<()> {
        if self.slave.is_none() {
            return Ok(());
        }
        while let Some(ReapedChild { status, user_ns, system_ns, own_ns }) =
            reap(self.target, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED)?
        {
            if libc::WIFSTOPPED(status) {
                self.stopped = true;
                self.report(KeeperReport::Stopped { signal: libc::WSTOPSIG(status) });
                self.continue_without_viewer();
            } else if libc::WIFCONTINUED(status) {
                self.stopped = false;
                self.report(KeeperReport::Continued);
            } else {
                self.read_output(MAX_LAST_OUTPUT);
                self.report(KeeperReport::Ended { status, user_ns, system_ns, own_ns });
                // The processes that it leaves behind are in the background now, and the end of the
                // keeper will not hang up on them.
                if let Some(slave) = self.slave.take() {
                    let _ = tcsetpgrp(&slave, getpgrp());
                }
                break;
            }
        }
        self.send_packets();
        Ok(())
    }

    /// Continues a target that was stopped from the keyboard and has no viewer left to continue it.
    fn continue_without_viewer(&mut self) {
        if self.stopped && self.socket.is_none() && self.slave.is_some() {
            let _ = killpg(self.target, Signal::SIGCONT);
        }
    }

    fn read_output(&mut self, mut limit: usize) {
        let Some(master) = &self.master else { return };
        while limit > 0 {
            let want = limit.min(MAX_OUTPUT);
            match read(master, &mut self.buffer[..want]) {
                Ok(count) if count > 0 => {
                    if self.socket.is_some() {
                        self.waiting.output(&self.buffer[..count], Instant::now());
                    }
                    limit -= count;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // EIO: no process has the slave open any more.
                Ok(_) | Err(_) => {
                    self.master = None;
                    return;
                }
            }
        }
    }

    fn write_input(&mut self) {
        let Some(master) = &self.master else { return };
        while !self.typed.is_empty() {
            match write(master, self.typed.as_slices().0) {
                Ok(count) => drop(self.typed.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(_) => return, // full, or its end is read next
            }
        }
    }

    /// Executes the viewer's commands.
    fn receive_commands(&mut self) -> nix::Result<()> {
        while let Some(socket) = &self.socket {
            match recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EAGAIN) => break,
                // ECONNRESET: the viewer ended and left output unread. Its last commands come after
                // this error.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                Ok(0) | Err(_) => self.drop_viewer(),
                Ok(count) => match KeeperCommand::decode(&self.buffer[..count]) {
                    Some(KeeperCommand::Input(bytes)) => self.queue_input(&bytes),
                    Some(KeeperCommand::Resize { rows, columns }) => {
                        if let Some(master) = &self.master {
                            let _ = pty::resize(master.as_fd(), pty::size(rows, columns));
                        }
                    }
                    Some(KeeperCommand::Signal { signal }) => self.send_signal(signal),
                    Some(KeeperCommand::HangUp) => self.hang_up(),
                    None => {}
                },
            }
        }
        Ok(())
    }

    fn queue_input(&mut self, bytes: &[u8]) {
        let room = if self.master.is_some() { MAX_INPUT_QUEUE - self.typed.len() } else { 0 };
        let (taken, lost) = bytes.split_at(room.min(bytes.len()));
        self.typed.extend(taken);
        if !lost.is_empty() {
            self.report(KeeperReport::InputLost(lost.len() as u64));
        }
        self.write_input();
    }

    /// Sends a signal to the target's group, or to the target if it has left its group. Until the
    /// target is reaped its pid is not reused.
    fn send_signal(&mut self, signal: i32) {
        let Ok(signal) = Signal::try_from(signal) else { return };
        if self.slave.is_none() {
            return;
        }
        if killpg(self.target, signal).is_err() {
            let _ = kill(self.target, signal);
        }
        if self.stopped && [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT].contains(&signal) {
            let _ = killpg(self.target, Signal::SIGCONT);
        }
    }

    /// Does what the kernel does when a terminal hangs up: sends SIGHUP and SIGCONT to the target,
    /// as to a session's leader, and to the foreground group, which is another one if the target is
    /// a shell.
    fn hang_up(&mut self) {
        let Some(slave) = &self.slave else { return };
        let foreground = tcgetpgrp(slave).ok().filter(|&group| group != self.target && group != getpgrp());
        self.send_signal(Signal::SIGHUP as i32);
        self.send_signal(Signal::SIGCONT as i32);
        for signal in [Signal::SIGHUP, Signal::SIGCONT] {
            // The first signal may have ended the group.
            let _ = foreground.map(|group| killpg(group, signal));
        }
    }

    fn report(&mut self, report: KeeperReport) {
        if self.socket.is_some() {
            self.waiting.push(report.encode(), Instant::now());
        }
    }

    /// Sends packets while the viewer accepts them without waiting.
    fn send_packets(&mut self) {
        while let Some(socket) = &self.socket {
            if self.waiting.gathering(Instant::now()).is_some() {
                return;
            }
            let Some(packet) = self.waiting.first() else { return };
            match send(socket.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(_) => self.waiting.sent(Instant::now()),
                Err(Errno::EINTR) => {}
                // EPIPE and similar: `receive_commands` finds the end of the viewer too, after its
                // last commands.
                Err(_) => return,
            }
        }
    }

    fn drop_viewer(&mut self) {
        self.socket = None;
        self.waiting = OutgoingQueue::default();
        self.continue_without_viewer();
    }
}

/// Creates a session, its terminal, and a descriptor that reports children.
fn prepare(model: &TerminalSettings, size: Winsize) -> nix::Result<(Pty, SignalFd)> {
    prctl::set_name(c"sigtop-keeper")?;
    setsid()?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    Ok((pty::open(model, size)?, children))
}

/// Gives the target a group of its own in the foreground, and the terminal for its streams. Runs in
/// the target's process before it executes.
fn give_terminal(pty: &Pty, model: &TerminalSettings) -> nix::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    tcsetpgrp(&pty.slave, getpgrp())?;
    for &descriptor in &model.terminals {
        // SAFETY: replaces a standard descriptor, which this process is about to pass on, by an
        // open one.
        Errno::result(unsafe { libc::dup2(pty.slave.as_raw_fd(), descriptor) })?;
    }
    Ok(())
}

/// Closes all inherited descriptors that the keeper does not need: a pipe that it held open
/// would never end for its reader.
fn close_inherited(mut kept: [RawFd; 4]) {
    let _ = chdir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: replaces a standard descriptor; all descriptors used from here on have higher
            // numbers.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    kept.sort_unstable();
    let ends = kept.iter().map(|&descriptor| descriptor - 1).chain([i32::MAX]);
    let starts = [3].into_iter().chain(kept.iter().map(|&descriptor| descriptor + 1));
    for (first, last) in starts.zip(ends).filter(|(first, last)| first <= last) {
        // SAFETY: closes descriptors whose owners are copies of the parent's and are never used or
        // dropped in this process.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            for descriptor in first..=last.min(MAX_DESCRIPTOR) {
                // SAFETY: as above.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

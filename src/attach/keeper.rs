//! The process between the viewer and a target with a terminal of its own. It is a fork of sigtop
//! that leads a new session, holds the terminal's master, and is the target's parent: when the
//! viewer quits or is killed, the target keeps its terminal and its parent, and its output is read
//! on (and dropped), so that it neither dies nor waits. When the viewer loses its own terminal it
//! says so, and the target gets the SIGHUP that it would have got from that terminal; if it ignores
//! the signal it runs on as above.
//!
//! The target is not the session's leader but, as under a shell, leads the foreground group: when it ends, the kernel sends
//! no SIGHUP to what it leaves behind. The keeper stays until all of them have closed the terminal.
//!
//! What the target writes waits here, at most [`MAX_WAITING`] bytes, for a viewer that reads. Past that the target waits too,
//! as it would for a slow terminal, but only [`PATIENCE`]: then the oldest output is dropped, and counted, until the viewer reads
//! again. Input that the target does not read is dropped past [`MAX_TYPED`] bytes, and counted, as a terminal would.
//!
//! All signals are blocked here, so it ends with the target, or by SIGKILL.

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

use super::image::{Failure, Image, Reaped, reap};
use super::inherit::Held;
use super::packet::{MAX_OUTPUT, MAX_PACKET, Order, Report};
use super::pty::{self, Model, Pty};

/// Bytes of packets that wait for the viewer before the target has to wait.
const MAX_WAITING: usize = 4 * MAX_OUTPUT;
/// Bytes that wait for the target to read its terminal.
const MAX_TYPED: usize = 64 * 1024;
/// Output follows output to the viewer at this distance at least, so that small pieces travel together.
const GATHER: Duration = Duration::from_millis(4);
/// How long a target waits for a viewer that does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes read for a target that has ended before its end is told: more than a terminal holds.
const MAX_LAST_WORDS: usize = 2 * MAX_OUTPUT;
/// Bytes that wait at most: past the limit a read under way, and the last words.
const MAX_KEPT: usize = MAX_WAITING + MAX_PACKET + OVERHEAD + MAX_LAST_WORDS + 4 * OVERHEAD;
/// Counted for each packet that waits, so that many empty ones have a limit too, bytes.
const OVERHEAD: usize = 64;
/// Closed one by one up to here where the kernel (before 5.9) cannot close a range.
const MAX_DESCRIPTOR: RawFd = 65_535;

/// Becomes the keeper: for the child of a fork.
pub(super) fn keep(socket: OwnedFd, image: &Image, held: &Held, model: &Model, size: Winsize) -> ! {
    let lived = catch_unwind(AssertUnwindSafe(|| match Keeper::start(socket, image, held, model, size) {
        Some(keeper) => keeper.run(),
        None => Ok(()),
    }));
    // SAFETY: ends the process at once: destructors and buffers here are copies of the parent's, and not for us to run.
    unsafe { libc::_exit(if matches!(lived, Ok(Ok(()))) { 0 } else { 1 }) }
}

struct Keeper {
    /// To the viewer, while there is one.
    socket: Option<OwnedFd>,
    /// Until everybody has closed the other end.
    master: Option<OwnedFd>,
    /// Open while the target lives, so that its closing all of its own does not look like the end.
    slave: Option<OwnedFd>,
    children: SignalFd,
    target: Pid,
    stopped: bool,
    waiting: Waiting,
    typed: VecDeque<u8>,
    buffer: Vec<u8>,
}

impl Keeper {
    /// Starts the target and tells the viewer how that went; `None` if there is nothing to keep.
    fn start(socket: OwnedFd, image: &Image, held: &Held, model: &Model, size: Winsize) -> Option<Keeper> {
        let tell = |report: Report| send(socket.as_raw_fd(), &report.encode(), MsgFlags::MSG_NOSIGNAL);
        let started =
            prepare(model, size).map_err(|errno| Failure { errno, ours: true }).and_then(|(pty, children)| {
                let target = image.start(held, || give_terminal(&pty, model))?;
                Ok((pty, children, target))
            });
        match started {
            Ok((Pty { master, slave }, children, target)) => {
                let kept = [socket.as_raw_fd(), master.as_raw_fd(), slave.as_raw_fd(), children.as_fd().as_raw_fd()];
                forget_the_rest(kept);
                let _ = tell(Report::Started { pid: target.as_raw() as u32 });
                Some(Keeper {
                    socket: Some(socket),
                    master: Some(master),
                    slave: Some(slave),
                    children,
                    target,
                    stopped: false,
                    waiting: Waiting::default(),
                    typed: VecDeque::new(),
                    buffer: vec![0; MAX_PACKET],
                })
            }
            Err(Failure { errno, ours }) => {
                let _ = tell(Report::Failed { errno: errno as i32, ours });
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
                self.look_at_target()?;
            }
            if socket {
                self.hear()?;
            }
            if master {
                self.type_in();
                self.read_output(MAX_OUTPUT);
            }
            self.speak();
        }
    }

    /// Sleeps until something can be done: for the target's state, its terminal, the viewer.
    fn wait(&mut self) -> nix::Result<(bool, bool, bool)> {
        let full = self.socket.is_some() && self.waiting.size >= MAX_WAITING;
        let patience = self.waiting.patience(Instant::now());
        let may_read = !full || patience.is_zero();
        let mut sources = vec![PollFd::new(self.children.as_fd(), PollFlags::POLLIN)];
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, may_read);
        flags.set(PollFlags::POLLOUT, !self.typed.is_empty());
        // Left out entirely when nothing is wanted of it: a hang-up would be reported all the same, again and again.
        let master = self.master.as_ref().filter(|_| !flags.is_empty());
        sources.extend(master.map(|master| PollFd::new(master.as_fd(), flags)));
        let mut flags = PollFlags::POLLIN;
        let gathering = self.waiting.gathering(Instant::now());
        flags.set(PollFlags::POLLOUT, !self.waiting.is_empty() && gathering.is_none());
        sources.extend(self.socket.as_ref().map(|socket| PollFd::new(socket.as_fd(), flags)));
        let timeout = gathering.or_else(|| (!may_read).then_some(patience)).map_or(PollTimeout::NONE, |time| {
            // Rounded up: a time that is nearly over must not spin.
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

    fn look_at_target(&mut self) -> nix::Result<()> {
        if self.slave.is_none() {
            return Ok(());
        }
        while let Some(Reaped { status, user_ns, system_ns, own_ns }) =
            reap(self.target, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED)?
        {
            if libc::WIFSTOPPED(status) {
                self.stopped = true;
                self.report(Report::Stopped { signal: libc::WSTOPSIG(status) });
                self.wake_if_alone();
            } else if libc::WIFCONTINUED(status) {
                self.stopped = false;
                self.report(Report::Continued);
            } else {
                self.read_output(MAX_LAST_WORDS);
                self.report(Report::Ended { status, user_ns, system_ns, own_ns });
                // What it leaves behind is in the background now, and our own end will not hang up on it.
                if let Some(slave) = self.slave.take() {
                    let _ = tcsetpgrp(&slave, getpgrp());
                }
                break;
            }
        }
        self.speak();
        Ok(())
    }

    /// With nobody left to type, a target stopped from the keyboard would stay so for ever.
    fn wake_if_alone(&mut self) {
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
                // EIO: nobody has the other end open any more.
                Ok(_) | Err(_) => {
                    self.master = None;
                    return;
                }
            }
        }
    }

    fn type_in(&mut self) {
        let Some(master) = &self.master else { return };
        while !self.typed.is_empty() {
            match write(master, self.typed.as_slices().0) {
                Ok(count) => drop(self.typed.drain(..count)),
                Err(Errno::EINTR) => {}
                Err(_) => return, // full, or its end is read next
            }
        }
    }

    /// Takes the viewer's orders.
    fn hear(&mut self) -> nix::Result<()> {
        while let Some(socket) = &self.socket {
            match recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EAGAIN) => break,
                // ECONNRESET: the viewer ended and left output unread. Its last orders come after
                // this error.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                Ok(0) | Err(_) => self.forget_viewer(),
                Ok(count) => match Order::decode(&self.buffer[..count]) {
                    Some(Order::Input(bytes)) => self.take_typed(&bytes),
                    Some(Order::Resize { rows, columns }) => {
                        if let Some(master) = &self.master {
                            let _ = pty::resize(master.as_fd(), pty::size(rows, columns));
                        }
                    }
                    Some(Order::Signal { signal }) => self.send_signal(signal),
                    Some(Order::HangUp) => self.hang_up(),
                    None => {}
                },
            }
        }
        Ok(())
    }

    fn take_typed(&mut self, bytes: &[u8]) {
        let room = if self.master.is_some() { MAX_TYPED - self.typed.len() } else { 0 };
        let (taken, lost) = bytes.split_at(room.min(bytes.len()));
        self.typed.extend(taken);
        if !lost.is_empty() {
            self.report(Report::InputLost(lost.len() as u64));
        }
        self.type_in();
    }

    /// While it is not reaped its pid is its own; its group may be one that it has left.
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

    /// Does what the kernel does when a terminal hangs up: SIGHUP and SIGCONT to the target, which
    /// has the place of the session's leader, and to the foreground group, which is another one if
    /// the target is a shell.
    fn hang_up(&mut self) {
        let Some(slave) = &self.slave else { return };
        let foreground = tcgetpgrp(slave).ok().filter(|&group| group != self.target && group != getpgrp());
        self.send_signal(Signal::SIGHUP as i32);
        self.send_signal(Signal::SIGCONT as i32);
        for signal in [Signal::SIGHUP, Signal::SIGCONT] {
            // The group may have ended by the first signal.
            let _ = foreground.map(|group| killpg(group, signal));
        }
    }

    fn report(&mut self, report: Report) {
        if self.socket.is_some() {
            self.waiting.push(report.encode(), Instant::now());
        }
    }

    /// Sends what the viewer takes without waiting.
    fn speak(&mut self) {
        while let Some(socket) = &self.socket {
            if self.waiting.gathering(Instant::now()).is_some() {
                return;
            }
            let Some(packet) = self.waiting.first() else { return };
            match send(socket.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(_) => self.waiting.sent(Instant::now()),
                Err(Errno::EINTR) => {}
                // EPIPE and the like: `hear` finds the end of the viewer too, behind its last
                // orders.
                Err(_) => return,
            }
        }
    }

    fn forget_viewer(&mut self) {
        self.socket = None;
        self.waiting = Waiting::default();
        self.wake_if_alone();
    }
}

/// A session and a terminal for it, and the news of children as a descriptor.
fn prepare(model: &Model, size: Winsize) -> nix::Result<(Pty, SignalFd)> {
    prctl::set_name(c"sigtop-keeper")?;
    setsid()?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    Ok((pty::open(model, size)?, children))
}

/// In the target's process before it executes: a group of its own, in the foreground, and the terminal where it belongs.
fn give_terminal(pty: &Pty, model: &Model) -> nix::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    tcsetpgrp(&pty.slave, getpgrp())?;
    for &descriptor in &model.terminals {
        // SAFETY: replaces one of the standard descriptors, which this process is about to hand on, by an open one.
        Errno::result(unsafe { libc::dup2(pty.slave.as_raw_fd(), descriptor) })?;
    }
    Ok(())
}

/// Lets go of all that the keeper inherited and does not need: a pipe that it held open would never end for its reader.
fn forget_the_rest(mut kept: [RawFd; 4]) {
    let _ = chdir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: replaces a standard descriptor; all that is used from here on has higher numbers.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    kept.sort_unstable();
    let ends = kept.iter().map(|&descriptor| descriptor - 1).chain([i32::MAX]);
    let starts = [3].into_iter().chain(kept.iter().map(|&descriptor| descriptor + 1));
    for (first, last) in starts.zip(ends).filter(|(first, last)| first <= last) {
        // SAFETY: closes descriptors whose owners are copies of the parent's, never to be used or dropped in this process.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            for descriptor in first..=last.min(MAX_DESCRIPTOR) {
                // SAFETY: as above.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

/// Packets for the viewer, oldest first.
#[derive(Default)]
struct Waiting {
    packets: VecDeque<Vec<u8>>,
    /// Bytes of all of them, with [`OVERHEAD`].
    size: usize,
    /// Bytes of output dropped before the first of them.
    lost: u64,
    /// When the viewer last took one, while some wait.
    since: Option<Instant>,
    /// When the last one was sent.
    sent: Option<Instant>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.lost == 0
    }

    /// How long the target still has to wait when there is no room.
    fn patience(&self, now: Instant) -> Duration {
        self.since.map_or(PATIENCE, |since| PATIENCE.saturating_sub(now.duration_since(since)))
    }

    /// How long a lone piece of output still waits for more of it.
    fn gathering(&self, now: Instant) -> Option<Duration> {
        let lone = self.packets.front().filter(|_| self.packets.len() == 1 && self.lost == 0)?;
        let left = GATHER.checked_sub(now.duration_since(self.sent?)).filter(|left| !left.is_zero())?;
        (Report::is_output(lone) && lone.len() < MAX_OUTPUT / 2).then_some(left)
    }

    fn push(&mut self, packet: Vec<u8>, now: Instant) {
        self.since.get_or_insert(now);
        self.size += packet.len() + OVERHEAD;
        self.packets.push_back(packet);
        self.trim();
    }

    /// Makes room. All but the last one may go: the end of the target comes last, and once.
    fn trim(&mut self) {
        while self.size > MAX_KEPT {
            let at = self.packets.iter().take(self.packets.len() - 1).position(|packet| Report::is_output(packet));
            let Some(packet) = self.packets.remove(at.unwrap_or(0)) else { break };
            self.size -= packet.len() + OVERHEAD;
            self.lost += if Report::is_output(&packet) { packet.len() as u64 - 1 } else { 0 };
        }
    }

    /// Small pieces grow together.
    fn output(&mut self, bytes: &[u8], now: Instant) {
        match self.packets.back_mut() {
            Some(last) if Report::is_output(last) && last.len() + bytes.len() <= MAX_PACKET => {
                last.extend_from_slice(bytes);
                self.size += bytes.len();
                self.trim();
            }
            _ => self.push(Report::Output(bytes.to_vec()).encode(), now),
        }
    }

    /// What is to be sent now.
    fn first(&mut self) -> Option<&[u8]> {
        if self.lost > 0 {
            let packet = Report::OutputLost(std::mem::take(&mut self.lost)).encode();
            self.size += packet.len() + OVERHEAD;
            self.packets.push_front(packet);
        }
        self.packets.front().map(Vec::as_slice)
    }

    fn sent(&mut self, now: Instant) {
        if let Some(packet) = self.packets.pop_front() {
            self.size -= packet.len() + OVERHEAD;
        }
        self.since = if self.packets.is_empty() { None } else { Some(now) };
        self.sent = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(waiting: &mut Waiting, now: Instant) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Some(packet) = waiting.first() {
            reports.extend(Report::decode(packet));
            waiting.sent(now);
        }
        reports
    }

    #[test]
    fn output_keeps_its_order_and_small_pieces_travel_together() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.output(b"one ", now);
        waiting.output(b"two", now);
        waiting.push(Report::Continued.encode(), now);
        waiting.output(b"three", now);
        let expected = [Report::Output(b"one two".to_vec()), Report::Continued, Report::Output(b"three".to_vec())];
        assert_eq!(taken(&mut waiting, now), expected);
        assert!(waiting.is_empty() && waiting.size == 0 && waiting.since.is_none());
    }

    #[test]
    fn the_viewer_has_so_long_from_its_last_sign_of_life() {
        let (mut waiting, start) = (Waiting::default(), Instant::now());
        assert_eq!(waiting.patience(start), PATIENCE);
        waiting.output(b"x", start);
        waiting.push(Report::Continued.encode(), start + PATIENCE / 2);
        assert_eq!(waiting.patience(start + PATIENCE / 2), PATIENCE / 2);
        assert_eq!(waiting.patience(start + 2 * PATIENCE), Duration::ZERO);
        waiting.sent(start + PATIENCE / 2);
        assert_eq!(waiting.patience(start + PATIENCE), PATIENCE / 2);
    }

    #[test]
    fn small_pieces_are_sent_a_while_apart_and_the_end_at_once() {
        let (mut waiting, start) = (Waiting::default(), Instant::now());
        waiting.output(b"echo", start);
        assert_eq!(waiting.gathering(start), None, "the first goes at once");
        waiting.sent(start);
        waiting.output(b"more", start);
        assert_eq!(waiting.gathering(start), Some(GATHER));
        assert_eq!(waiting.gathering(start + GATHER), None);
        waiting.push(Report::Ended { status: 0, user_ns: 0, system_ns: 0, own_ns: 0 }.encode(), start);
        assert_eq!(waiting.gathering(start), None);
        let mut waiting = Waiting { sent: Some(start), ..Waiting::default() };
        waiting.output(&[b'x'; MAX_OUTPUT], start);
        assert_eq!(waiting.gathering(start), None, "a large piece too");
    }

    #[test]
    fn past_the_limit_the_oldest_output_goes_and_is_counted() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.push(Report::Stopped { signal: 19 }.encode(), now);
        let total = 2 * (MAX_KEPT as u64).next_multiple_of(1024);
        for piece in 0..total / 1024 {
            waiting.output(&[piece as u8; 1024], now);
            assert!(waiting.size <= MAX_KEPT);
        }
        let end = Report::Ended { status: 0, user_ns: 0, system_ns: 0, own_ns: 0 };
        waiting.push(end.encode(), now);
        let reports = taken(&mut waiting, now);
        assert_eq!(reports.last(), Some(&end));
        let (mut lost, mut kept) = (0, 0);
        for report in &reports {
            match report {
                Report::OutputLost(count) => lost += count,
                Report::Output(bytes) => kept += bytes.len() as u64,
                _ => {}
            }
        }
        assert_eq!(lost + kept, total);
        assert!(lost > 0 && kept > 0);
    }
}

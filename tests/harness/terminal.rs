//! A terminal for tests: a pty, a model of its screen, key input, and waits for conditions. Nothing
//! here sleeps; every wait has a deadline, and shows the screen when it is missed.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use vt100::{Parser, Screen};

use super::children::{lead_session, with_default_signals};
use super::escapes::Guard;
use super::quiet::beside_others;
use super::run::SIGTOP;

/// Maximum duration of a test's wait. It is long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The largest screen that is modelled (columns, rows). A terminal may report a larger size; the
/// rest is ignored.
const MODELLED: (u16, u16) = (1100, 600);

/// A terminal and the program that runs in it.
pub(crate) struct Terminal {
    master: File,
    slave: OwnedFd,
    pid: Pid,
    ended: mpsc::Receiver<ExitStatus>,
    /// A stream that becomes readable (at its end) once the program has ended.
    end: UnixStream,
    status: Option<ExitStatus>,
    model: Parser,
    /// Checks the output as it is read, where only sigtop writes.
    guard: Option<Guard>,
    /// The terminal's settings before the program was started.
    before: Termios,
    /// Time when the program was started.
    pub(crate) started: Instant,
    /// Bytes that the program has written so far.
    pub(crate) received: u64,
    /// The colour that it says its background is, as `rgb:ffff/ffff/ffff`; it may not know the
    /// question.
    pub(crate) background: Option<&'static str>,
}

impl Terminal {
    /// Starts `command` as the leader of a session of its own on a new terminal.
    pub(crate) fn start(columns: u16, rows: u16, command: &Command) -> Terminal {
        beside_others();
        // Closed at exec from the start: a target of a concurrent test must not inherit them.
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a pty");
        grantpt(&master).expect("a pty");
        unlockpt(&master).expect("a pty");
        let path = ptsname_r(&master).expect("a pty");
        let slave = OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(path);
        let slave = OwnedFd::from(slave.expect("a pty"));
        set_size(&slave, columns, rows);
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut leader = Command::new(command.get_program());
        leader.args(command.get_args());
        leader
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env("COLORTERM", "truecolor")
            .env_remove("NO_COLOR");
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(key, value),
                None => leader.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            leader.current_dir(directory);
        }
        let before = tcgetattr(&slave).expect("a terminal");
        let started = Instant::now();
        lead_session(with_default_signals(&mut leader));
        let mut child = leader.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
        let pid = Pid::from_raw(child.id() as i32);
        let (mine, theirs) = UnixStream::pair().expect("a socket pair");
        let (tell, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let status = child.wait().expect("a child");
            // The receiver is gone after a test has ended.
            tell.send(status).ok();
            drop(theirs);
        });
        let model = Parser::new(cells(rows.min(MODELLED.1)), cells(columns.min(MODELLED.0)), 0);
        let master = File::from(OwnedFd::from(master));
        let guard = (command.get_program() == SIGTOP).then(Guard::default);
        Terminal {
            master,
            slave,
            pid,
            ended,
            end: mine,
            status: None,
            model,
            guard,
            before,
            started,
            received: 0,
            background: None,
        }
    }

    /// Returns the program's pid.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// Types keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid, signal).expect("a process");
    }

    /// Changes the size, and the program receives SIGWINCH.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.model.set_size(cells(rows.min(MODELLED.1)), cells(columns.min(MODELLED.0)));
        set_size(&self.slave, columns, rows);
    }

    /// Returns whether the terminal's settings, those that `stty -g` shows, are the same as before
    /// the program was started.
    pub(crate) fn is_as_before(&self) -> bool {
        tcgetattr(&self.slave).expect("a terminal") == self.before
    }

    /// Returns the screen as text.
    pub(crate) fn text(&self) -> String {
        self.model.screen().contents()
    }

    /// Returns the screen.
    pub(crate) fn screen(&self) -> &Screen {
        self.model.screen()
    }

    /// Reads until the screen contains `text`.
    pub(crate) fn see(&mut self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    /// Reads until the screen satisfies `condition`; `what` names it in a failure.
    pub(crate) fn wait(&mut self, what: &str, condition: impl FnMut(&Screen) -> bool) {
        if !self.wait_up_to(LIMIT, condition) {
            let ended = self.status.map_or("running".to_owned(), |status| status.to_string());
            panic!("never on the screen: {what} (program: {ended})\n{}", framed(&self.text()));
        }
    }

    /// Reads until the screen satisfies `condition`, for at most `limit` and not past the program's
    /// end. Returns whether it was satisfied.
    pub(crate) fn wait_up_to(&mut self, limit: Duration, mut condition: impl FnMut(&Screen) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if condition(self.model.screen()) {
                return true;
            }
            if !self.step(deadline) {
                return condition(self.model.screen());
            }
        }
    }

    /// Reads until the program ends, and returns its exit status.
    pub(crate) fn finish(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        while self.step(deadline) {}
        let shown = framed(&self.text());
        self.status.unwrap_or_else(|| panic!("the program does not end\n{shown}"))
    }

    /// Closes the terminal, which hangs up. Returns the program's exit status.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        let closed = || File::open("/dev/null").expect("/dev/null");
        self.master = closed();
        self.slave = closed().into();
        let status = self.ended.recv_timeout(LIMIT).expect("a program whose terminal is gone ends");
        self.status = Some(status);
        status
    }

    /// Answers what every terminal answers: its attributes (DA1), and before them its background.
    fn answer_questions(&mut self, written: &[u8]) {
        let asks = |question: &[u8]| written.windows(question.len()).any(|bytes| bytes == question);
        if let Some(colour) = self.background.filter(|_| asks(b"\x1b]11;?\x07")) {
            self.keys(&format!("\x1b]11;{colour}\x1b\\"));
        }
        if asks(b"\x1b[c") {
            self.keys("\x1b[?62;22c");
        }
    }

    /// Waits for output or for the program's end, and processes it. Returns false if the deadline
    /// has passed, or if the program has ended and everything that it wrote has been read.
    fn step(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = if self.status.is_some() { Duration::ZERO } else { left };
        let wait = PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        let wait = if left.is_zero() { PollTimeout::ZERO } else { wait };
        let (output, end) = {
            let mut polled =
                [PollFd::new(self.master.as_fd(), PollFlags::POLLIN), PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, wait) {
                Ok(0) => return false,
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
            (polled[0].any().unwrap_or(false), polled[1].any().unwrap_or(false))
        };
        if output {
            let mut bytes = [0; 65536];
            let count = self.master.read(&mut bytes).unwrap_or(0);
            if let Some(Err(fault)) = self.guard.as_mut().map(|guard| guard.read(&bytes[..count])) {
                panic!("never to a terminal: {fault}, in {}", bytes[..count].escape_ascii());
            }
            self.answer_questions(&bytes[..count]);
            self.model.process(&bytes[..count]);
            self.received += count as u64;
            return count > 0;
        }
        if end && self.status.is_none() {
            self.status = self.ended.recv().ok();
            return true;
        }
        false
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The program was not waited for yet, so its pid is still its own.
        if self.status.is_none() && self.ended.try_recv().is_err() {
            kill(self.pid, Signal::SIGKILL).ok();
        }
    }
}

fn set_size(terminal: &OwnedFd, columns: u16, rows: u16) {
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, size).expect("a terminal");
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a size")
}

fn framed(text: &str) -> String {
    text.lines().map(|line| format!("    │{line}\n")).collect()
}

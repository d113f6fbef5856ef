//! The real screen on a pseudo-terminal: the terminal is restored after every way to leave.
//!
//! The program under test is this test itself: [`child`] shows a screen with a fake session behind
//! it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};
use sigtop::session::{Command as Wish, Notice, TargetExit};
use sigtop::tui::action::Departure;
use sigtop::tui::app::App;
use sigtop::tui::surface::Surface;
use sigtop::tui::term::signals;
use sigtop::tui::term::terminal::Console;
use sigtop::tui::{Device, Options, run};

use crate::children::{lead_session, with_default_signals};
use crate::session::Session;
use crate::skips::are_installed;
use crate::stage::{SCREEN, options};

const ROLE: &str = "SIGTOP_TEST_SCREEN";
const PATIENCE: Duration = Duration::from_secs(30);
const LEFT: &str = "\x1b[?1049l";

/// The program under test, if the environment requests it; otherwise a test that passes.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let device = if role == "tty" { Device::Tty } else { Device::Stdout };
    let options = Options { device, ..options() };
    if role == "panic" {
        let (mut console, _keys) = Console::open(device, true).expect("a terminal");
        Surface::draw(&mut console, &App::new(options)).expect("a frame");
        panic!("asked to panic");
    }
    let (to_session, wishes) = crossbeam_channel::unbounded();
    let (to_screen, notices) = crossbeam_channel::unbounded();
    let worker = std::thread::Builder::new().name("session".to_owned()).spawn(move || {
        let mut session = Session::new(SCREEN);
        for wish in wishes {
            if wish == Wish::End {
                let _ = to_screen.send(Notice::Ended(TargetExit::Killed(15)));
            }
            if role == "thread" && wish == Wish::Reset {
                panic!("a worker panics");
            }
            let _ = session.obey(wish).map(|answer| to_screen.send(Notice::Answer(answer)));
        }
    });
    let outcome = run(options, to_session, notices, None).expect("a screen");
    // Some of these tests provoke a panic of a worker thread.
    let _ = worker.expect("a thread").join();
    if let Departure::Signal(signal) = outcome.departure {
        signals::die_by_signal(signal);
    }
    println!("departure: {:?}, answer: {}", outcome.departure, outcome.answer.is_some());
}

static SPAWNING: Mutex<()> = Mutex::new(());

struct Pty {
    master: File,
    slave: OwnedFd,
    before: Termios,
    /// All bytes that were written to the terminal.
    said: Vec<u8>,
    screen: vt100::Parser,
    process: Child,
}

impl Pty {
    fn start(role: &str) -> Pty {
        let test = std::env::current_exe().expect("this test");
        let mut command = Command::new(test);
        command.args(["terminal::child", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role);
        Pty::run(command, |slave| slave.try_clone().expect("a descriptor").into())
    }

    fn run(mut command: Command, stdio: impl Fn(&OwnedFd) -> Stdio) -> Pty {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        // No other test's child may inherit the descriptor: it would keep the terminal open.
        let _alone = SPAWNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let pty = openpty(&size, None).expect("a pseudo-terminal");
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag");
        }
        let before = tcgetattr(&pty.slave).expect("its modes");
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("NO_COLOR").env("RUST_BACKTRACE", "0");
        lead_session(with_default_signals(&mut command));
        let process = command.stdin(stdio(&pty.slave)).stdout(stdio(&pty.slave)).stderr(stdio(&pty.slave)).spawn();
        let (rows, columns) = (24.try_into().expect("rows"), 80.try_into().expect("columns"));
        Pty {
            master: pty.master.into(),
            slave: pty.slave,
            before,
            said: Vec::new(),
            screen: vt100::Parser::new(rows, columns, 100),
            process: process.expect("a process"),
        }
    }

    /// Reads until `is_there` accepts the output and the screen.
    fn until(&mut self, what: &str, is_there: impl Fn(&str, &str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0; 65536];
        loop {
            let (said, shown) = (String::from_utf8_lossy(&self.said), self.screen.screen().contents());
            if is_there(&said, &shown) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} in\n{shown}\nsaid {}", said.escape_debug());
            let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, left.as_millis().min(1000) as u16).is_ok_and(|ready| ready > 0) {
                let count = self.master.read(&mut buffer).expect("bytes");
                self.said.extend_from_slice(&buffer[..count]);
                self.screen.process(&buffer[..count]);
            }
        }
    }

    fn shows(&mut self, words: &str) {
        self.until(words, |_, shown| shown.contains(words));
    }

    fn says(&mut self, words: &str) {
        self.until(words, |said, _| said.contains(words));
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("room for keys");
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id() as i32), signal).expect("a process");
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.process.try_wait().expect("a child");
            if let Some(status) = ended {
                // The child's last output is still in the terminal.
                while self.hear(0) {}
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            self.hear(20);
        }
    }

    /// Reads what arrives within this many ms; returns `false` if nothing does.
    fn hear(&mut self, timeout_ms: u16) -> bool {
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, timeout_ms);
        if !fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN)) {
            return false;
        }
        let mut buffer = [0; 65536];
        let count = self.master.read(&mut buffer).unwrap_or(0);
        self.said.extend_from_slice(&buffer[..count]);
        count > 0
    }

    /// Asserts that the terminal is restored: its modes, its screen, its cursor.
    fn is_restored(&self) {
        assert!(tcgetattr(&self.slave).expect("its modes") == self.before, "the terminal's modes are not as they were");
        let said = String::from_utf8_lossy(&self.said);
        let (entered, left) = (said.rfind("\x1b[?1049h").expect("a screen"), said.rfind(LEFT).expect("its end"));
        assert!(left > entered);
        for mode in ["?25h", "?2004l", "?1000l", "?1006l"] {
            assert!(said[entered..].contains(&format!("\x1b[{mode}")), "{mode} is missing");
        }
        assert!(!said[left + LEFT.len()..].contains('\x1b'), "something is drawn after the end");
    }
}

#[test]
fn quitting_gives_the_terminal_back() {
    let mut pty = Pty::start("plain");
    pty.shows("sha256_block_data_order_avx2");
    assert!(tcgetattr(&pty.slave).expect("its modes") != pty.before, "keys come one by one");
    pty.press("jjq");
    pty.shows("[e] end it  [l] leave it running");
    pty.press("l");
    pty.says("departure: Left, answer: true");
    assert!(pty.wait().success());
    pty.is_restored();
}

#[test]
fn ctrl_c_twice_ends_the_target() {
    let mut pty = Pty::start("plain");
    pty.shows("1 Top");
    pty.press("\x03\x03");
    pty.says("departure: Ended");
    assert!(pty.wait().success());
    pty.is_restored();
}

#[test]
fn signals_give_the_terminal_back_and_end_it_truly() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let mut pty = Pty::start("plain");
        pty.shows("sha256");
        pty.signal(signal);
        assert_eq!(pty.wait().signal(), Some(signal as i32));
        pty.is_restored();
    }
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_is_told() {
    let mut pty = Pty::start("panic");
    pty.says("asked to panic");
    let said = String::from_utf8_lossy(&pty.said).into_owned();
    assert!(said.find(LEFT) < said.find("asked to panic"));
    assert!(!pty.wait().success());
    pty.is_restored();
}

#[test]
fn a_panic_of_another_thread_is_told_in_the_end() {
    let mut pty = Pty::start("thread");
    pty.shows("sha256");
    pty.press("R");
    pty.shows("session has ended");
    assert!(!String::from_utf8_lossy(&pty.said).contains("a worker panics"));
    pty.press("q");
    pty.says("departure: Left");
    pty.wait();
    let said = String::from_utf8_lossy(&pty.said).into_owned();
    assert!(said.contains("session: ") && said.contains("a worker panics"), "{said}");
    pty.is_restored();
}

#[test]
fn a_terminal_that_goes_away_ends_the_screen() {
    let Pty { master, slave, mut process, .. } = {
        let mut pty = Pty::start("plain");
        pty.shows("sha256");
        pty
    };
    drop((master, slave));
    let deadline = Instant::now() + PATIENCE;
    while process.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::yield_now();
    }
}

#[test]
fn sizes_are_followed() {
    let mut pty = Pty::start("plain");
    pty.shows("sha256");
    let name = ttyname(&pty.slave).expect("its name");
    for (columns, rows) in [(1, 1), (140, 45), (39, 7), (500, 200), (60, 12), (2, 50), (100, 30), (41, 9), (80, 24)] {
        let size = ["rows", &rows.to_string(), "cols", &columns.to_string()].map(str::to_owned);
        let status = Command::new("stty").arg("-F").arg(&name).args(size).status();
        assert!(status.expect("stty").success());
        // A frame of another size begins with an empty screen.
        let emptied = |said: &str| said.matches("\x1b[2J").count();
        let before = emptied(&String::from_utf8_lossy(&pty.said));
        let (rows, columns) = (rows.try_into().expect("rows"), columns.try_into().expect("columns"));
        pty.screen.set_size(rows, columns);
        pty.until("a frame", |all, _| emptied(all) > before);
    }
    pty.shows("q quit");
    pty.press("ql");
    pty.says("departure: Left");
    assert!(pty.wait().success());
    pty.is_restored();
}

#[test]
fn the_other_way_in_leaves_stdin_and_stdout_alone() {
    let test = std::env::current_exe().expect("this test");
    let mut command = Command::new("sh");
    let directory = std::env::temp_dir().join(format!("sigtop-screen-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let output = directory.join("stdout");
    // The shell has the terminal as its controlling one, and gives the program something else.
    command.args(["-c", r#"exec "$0" terminal::child --exact --nocapture <"$1" >"$1" 2>&1"#]);
    command.arg(test).arg(&output).env(ROLE, "tty");
    std::fs::write(&output, "").expect("a file");
    let mut pty = Pty::run(command, |slave| slave.try_clone().expect("a descriptor").into());
    pty.shows("sha256");
    pty.press("ql");
    assert!(pty.wait().success());
    pty.is_restored();
    let written = std::fs::read_to_string(&output).expect("what was written");
    assert!(written.contains("departure: Left") && !written.contains('\x1b'), "{written}");
    std::fs::remove_dir_all(&directory).expect("a directory");
}

#[test]
fn a_shell_can_stop_it_and_go_on() {
    if !are_installed(&["bash"]) {
        return;
    }
    let mut command = Command::new("bash");
    command.args(["--norc", "--noediting", "-i"]).env("PS1", "prompt> ").env(ROLE, "plain");
    let mut pty = Pty::run(command, |slave| slave.try_clone().expect("a descriptor").into());
    pty.says("prompt> ");
    pty.before = tcgetattr(&pty.slave).expect("its modes");
    let test = std::env::current_exe().expect("this test");
    pty.press(&format!("{} terminal::child --exact --nocapture\n", test.display()));
    for round in 0..3 {
        pty.shows("sha256");
        pty.press(if round == 1 { "j" } else { "\x0cj" });
        pty.press("\x1a");
        pty.until("a stopped job", |said, _| said.matches("Stopped").count() > round);
        pty.until("a prompt", |said, _| said.rfind("prompt> ") > said.rfind("Stopped"));
        pty.is_restored_for_now();
        pty.press("fg\n");
        pty.until("the screen again", |said, shown| {
            said.rfind("?1049h") > said.rfind(LEFT) && shown.contains("sha256")
        });
    }
    pty.press("ql");
    pty.says("departure: Left");
    pty.press("exit\n");
    pty.wait();
}

impl Pty {
    fn is_restored_for_now(&self) {
        assert!(
            tcgetattr(&self.slave).expect("its modes") == self.before,
            "a stopped job leaves the modes as they were"
        );
        let said = String::from_utf8_lossy(&self.said);
        assert!(said.rfind(LEFT) > said.rfind("\x1b[?1049h"), "a stopped job is not on the screen");
    }
}

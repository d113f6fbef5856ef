//! Starts processes with the signal dispositions and the terminal that a program expects, and ends
//! them when a test takes too long.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::{Pid, setsid};

/// Makes a command start with the default actions of the signals that `nohup` and a shell's `&`
/// make it ignore. A shell cannot trap a signal that was ignored at its start, and a program does
/// not die of one.
pub(crate) fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for number in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            // SAFETY: the default action is no handler, so that none is called in a state it does
            // not expect.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only sigaction(2) is called, which is safe there.
    unsafe { command.pre_exec(reset) }
}

/// Makes a command the leader of a session of its own, on the terminal that is its stdin.
#[allow(dead_code, reason = "not every test binary has a use for it")]
pub(crate) fn lead_session(command: &mut Command) -> &mut Command {
    let lead = || {
        setsid()?;
        // SAFETY: makes the terminal at descriptor 0 the session's own.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec only setsid(2) and ioctl(2) are called, which are safe there.
    unsafe { command.pre_exec(lead) }
}

/// A time limit. If it expires before the value is dropped, the processes that were started with an
/// environment variable are killed with their children, so that a test that waits for them
/// continues, and fails.
#[allow(dead_code, reason = "not every test binary has a use for it")]
pub(crate) struct Limit {
    over: Option<Sender<()>>,
    watchdog: Option<JoinHandle<()>>,
}

#[allow(dead_code, reason = "not every test binary has a use for it")]
impl Limit {
    /// Limits the processes that have `NAME=VALUE` in their environment. A test that waits at a
    /// FIFO in `directory` continues then, too.
    pub(crate) fn new(limit: Duration, variable: String, directory: &Path) -> Limit {
        let (over, waits) = channel();
        let directory = directory.to_owned();
        let watchdog = std::thread::spawn(move || {
            while waits.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("over {limit:?}: what was started with {variable} is killed");
                started_with(&variable).into_iter().for_each(kill_tree);
                open_fifos(&directory);
            }
        });
        Limit { over: Some(over), watchdog: Some(watchdog) }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.over.take();
        if let Some(watchdog) = self.watchdog.take() {
            // The panic was already printed.
            let _ = watchdog.join();
        }
    }
}

/// The children of a program. They are killed when this is dropped: a target that a test lets run
/// on would compute beside the next ones.
#[allow(dead_code, reason = "not every test binary has a use for it")]
pub(crate) struct Started(Vec<u32>);

#[allow(dead_code, reason = "not every test binary has a use for it")]
impl Started {
    pub(crate) fn by(pid: u32) -> Started {
        Started(children(pid))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.drain(..).for_each(kill_tree);
    }
}

/// Opens every FIFO of a directory at both ends and closes it again, so that a process that waits
/// for the other end continues.
fn open_fifos(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_fifo()) {
            let _ = fs::File::options().read(true).write(true).open(entry.path());
        }
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn started_with(variable: &str) -> Vec<u32> {
    let has_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|one| one == variable.as_bytes())
    };
    pids().filter(has_it).collect()
}

/// Returns the parent's pid: the fourth field of `/proc/PID/stat`.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    pids().filter(|other| parent(*other) == Some(pid)).collect()
}

fn kill_tree(pid: u32) {
    // The process is stopped first, so that it starts no more children meanwhile.
    let pid_t = Pid::from_raw(pid as i32);
    let _it_may_be_gone = kill(pid_t, Signal::SIGSTOP);
    children(pid).into_iter().for_each(kill_tree);
    let _it_may_be_gone = kill(pid_t, Signal::SIGKILL);
}

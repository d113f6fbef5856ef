//! The viewer of a test, in a process of its own, and its terminal.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use nix::pty::openpty;
use sigtop::attach::launch::{self, LaunchedTarget, TargetEvent, launch};
use sigtop::attach::library::AgentDirectories;
use sigtop::attach::program::resolve_command;

use super::children::{Limit, with_default_signals};
use super::{LINK, LONG};

/// The part of a test that runs in another process: it launches the words of `COMMAND` in the
/// requested `WAY`, follows the `SCRIPT`, and leaves its observations in `DIRECTORY`.
#[test]
fn the_viewer() {
    let Some(directory) = std::env::var_os("SIGTOP_TEST_DIRECTORY").map(PathBuf::from) else { return };
    let variable = |name: &str| std::env::var(format!("SIGTOP_TEST_{name}")).unwrap();
    let (way, script, command) = (variable("WAY"), variable("SCRIPT"), variable("COMMAND"));
    if directory.join("stdout").exists() {
        // This program's test harness has written to its own stdout already.
        nix::unistd::dup2_stdout(File::options().append(true).open(directory.join("stdout")).unwrap()).unwrap();
    }
    let words: Vec<OsString> = command.split('\x1f').map(OsString::from).collect();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SIGTOP_TEST_")) {
        // SAFETY: the other threads of this process sleep, and read no variables.
        unsafe { std::env::remove_var(name) };
    }
    let program = resolve_command(&words).unwrap();
    let library = AgentDirectories::of_user().library().unwrap();
    let command = launch::LaunchCommand {
        program: &program,
        words: &words,
        preload: Some(launch::Preload { library: &library, link: Some(LINK.as_ref()) }),
        variables: &[],
        gate: None,
    };
    let stdio =
        if way == "inherit" { launch::Stdio::Inherit } else { launch::Stdio::Terminal { rows: 33, columns: 77 } };
    let target = launch(&command, stdio).unwrap();
    let ((tell, events), (write, output)) = (unbounded(), unbounded());
    let thread = target.follow(tell, write).unwrap();
    let seen = play(&target, &Ears { events, output }, &script);
    thread.join().unwrap();
    fs::write(directory.join("output"), &seen.output).unwrap();
    fs::write(directory.join("events"), seen.events.join(" ")).unwrap();
    std::process::exit(seen.status.into());
}

/// The receivers of a target's events and output.
struct Ears {
    events: Receiver<TargetEvent>,
    output: Receiver<Vec<u8>>,
}

impl Ears {
    /// Receives the next event or output; `false` when both have ended.
    fn hear(&self, seen: &mut Seen) -> bool {
        crossbeam_channel::select! {
            recv(self.output) -> bytes => match bytes {
                Ok(bytes) => seen.output.extend(bytes),
                // The end of the output precedes the end of the events.
                Err(_) => match self.events.recv_timeout(LONG) {
                    Ok(event) => seen.take(event),
                    Err(RecvTimeoutError::Disconnected) => return false,
                    Err(RecvTimeoutError::Timeout) => panic!("no end: {:?}", seen.events),
                },
            },
            recv(self.events) -> event => {
                seen.output.extend(self.output.try_iter().flatten());
                let Ok(event) = event else { return false };
                seen.take(event);
            }
            default(LONG) => panic!("nothing comes any more: {:?}", seen.events),
        }
        true
    }
}

#[derive(Default)]
struct Seen {
    output: Vec<u8>,
    events: Vec<String>,
    status: u8,
}

impl Seen {
    fn take(&mut self, event: TargetEvent) {
        match event {
            TargetEvent::Ended(ended) => {
                self.status = ended.how.exit_status();
                self.events.push("ended".to_owned());
                self.events.push(format!("after-{}-bytes", self.output.len()));
            }
            TargetEvent::Stopped { signal } => self.events.push(format!("stopped-{signal}")),
            TargetEvent::Continued => self.events.push("continued".to_owned()),
            lost => self.events.push(format!("{lost:?}")),
        }
    }
}

/// Runs a script with lines of `await TEXT`, `await-event NAME`, `type TEXT`, `resize ROWS COLUMNS`
/// and `signal NUMBER`; then reads everything that is left.
fn play(target: &LaunchedTarget, ears: &Ears, script: &str) -> Seen {
    let mut seen = Seen::default();
    for line in script.lines() {
        let (verb, rest) = line.split_once(' ').unwrap();
        match verb {
            "await" => {
                while !String::from_utf8_lossy(&seen.output).contains(rest) {
                    assert!(ears.hear(&mut seen));
                }
            }
            "await-event" => {
                while !seen.events.iter().any(|event| event == rest) {
                    assert!(ears.hear(&mut seen));
                }
            }
            "type" => {
                let text = rest.replace("^C", "\x03").replace("^D", "\x04").replace("^Z", "\x1a").replace("^M", "\n");
                assert_eq!(target.input(text.as_bytes()).unwrap(), text.len());
            }
            "resize" => {
                let (rows, columns) = rest.split_once(' ').unwrap();
                target.resize(rows.parse().unwrap(), columns.parse().unwrap()).unwrap();
            }
            "signal" => target.signal(rest.parse().unwrap()).unwrap(),
            other => panic!("no such verb: {other}"),
        }
    }
    while ears.hear(&mut seen) {}
    seen
}

/// A directory that is removed at the end of its test. It also ends viewers of the test that take
/// too long.
pub(super) struct Scratch(pub(super) PathBuf, #[expect(dead_code, reason = "it acts when it is dropped")] Limit);

impl Scratch {
    pub(super) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sigtop-launch-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        let variable = format!("SIGTOP_TEST_DIRECTORY={}", path.display());
        let limit = Limit::new(2 * LONG, variable, &path);
        Scratch(path, limit)
    }

    pub(super) fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.0.join(name)).unwrap()).unwrap()
    }

    /// Returns the viewer's command line; `through` may put a program before it.
    pub(super) fn viewer(&self, through: &[&str], way: &str, words: &[&str], script: &str) -> Command {
        let own = std::env::current_exe().unwrap();
        let arguments = ["--exact", "viewer::the_viewer", "--nocapture", "--test-threads=1"];
        let mut command = match through.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(own);
                command
            }
            None => Command::new(own),
        };
        command.args(arguments).env("SIGTOP_TEST_DIRECTORY", &self.0).env("SIGTOP_TEST_WAY", way);
        command.env("SIGTOP_TEST_COMMAND", words.join("\x1f")).env("SIGTOP_TEST_SCRIPT", script);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        with_default_signals(&mut command);
        command
    }

    /// Runs a viewer whose stdin, stdout and stderr are a terminal. Returns its exit status.
    pub(super) fn on_terminal(&self, words: &[&str], script: &str) -> i32 {
        let terminal = Terminal::new();
        let mut viewer = terminal.attach(&mut self.viewer(&[], "terminal", words, script));
        let status = viewer.wait().unwrap();
        status.code().unwrap_or_else(|| panic!("viewer: {status}"))
    }

    /// Runs a viewer whose descriptors are files. Returns its exit status and what the target wrote
    /// to its stdout.
    pub(super) fn redirected(&self, through: &[&str], way: &str, words: &[&str]) -> (i32, String) {
        fs::write(self.0.join("stdout"), b"").unwrap();
        let status = self.viewer(through, way, words, "").stderr(Stdio::null()).status().unwrap();
        (status.code().unwrap(), self.read("stdout"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The terminal of the user.
pub(super) struct Terminal {
    pub(super) master: OwnedFd,
    slave: OwnedFd,
}

impl Terminal {
    pub(super) fn new() -> Terminal {
        let pair = openpty(None, None).unwrap();
        for end in [&pair.master, &pair.slave] {
            nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC)).unwrap();
        }
        Terminal { master: pair.master, slave: pair.slave }
    }

    pub(super) fn attach(&self, command: &mut Command) -> Child {
        let end = || Stdio::from(self.slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
    }
}

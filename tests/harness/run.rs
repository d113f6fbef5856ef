//! Runs programs to their end under a time limit, and sigtop in batch mode around a target.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::children::with_default_signals;
use super::quiet::{alone, beside_others};
use super::raw::Raw;
use super::skips::skip;
use super::table::Table;
use super::targets;

/// The binary under test.
pub(crate) const SIGTOP: &str = env!("CARGO_BIN_EXE_sigtop");
/// The time limit of a run, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The result of a run.
pub(crate) struct Ran {
    /// The exit status.
    pub(crate) status: ExitStatus,
    /// All of its stdout.
    pub(crate) stdout: Vec<u8>,
    /// All of its stderr.
    pub(crate) stderr: Vec<u8>,
}

impl Ran {
    /// Returns the exit status as a shell reports it: 128 + n for signal n.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Stdout as text.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Stderr as text.
    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns the value of a line `name number` on stdout.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let out = self.out();
        let value = out.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no `{name} NUMBER` in {out:?}; stderr: {}", self.err()))
    }
}

/// Runs `command` without stdin in a process group of its own. After [`LIMIT`] the group is killed
/// and the test fails.
pub(crate) fn run(command: &mut Command) -> Ran {
    run_within(command, LIMIT)
}

/// Like [`run`], with another time limit.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Ran {
    beside_others();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let what = format!("{command:?}");
    let mut child = with_default_signals(command).spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
    let group = Pid::from_raw(child.id() as i32);
    let mut out = child.stdout.take().expect("piped");
    let mut err = child.stderr.take().expect("piped");
    let (over, waits) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let late = waits.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            killpg(group, Signal::SIGKILL).ok();
        }
        late
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut stdout = Vec::new();
    out.read_to_end(&mut stdout).expect("a pipe");
    let stderr = errors.join().expect("no panic").expect("a pipe");
    let status = child.wait().expect("a child");
    drop(over);
    assert!(!watchdog.join().expect("no panic"), "over {limit:?}: {what}\n{}", String::from_utf8_lossy(&stderr));
    Ran { status, stdout, stderr }
}

/// Does something with each of these at the same time, for programs that mostly wait, while no
/// other test runs. Returns the results in their order.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], action: impl Fn(&T) -> R + Sync) -> Vec<R> {
    alone();
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(|| action(item))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// sigtop in batch mode around a command. Its tables go to a file, so that stdout and stderr are
/// the target's own.
pub(crate) struct Batch {
    options: Vec<String>,
    directory: PathBuf,
}

/// The result of a batch run: the target's and sigtop's output.
pub(crate) struct Watched {
    /// The result of the target.
    pub(crate) ran: Ran,
    /// The content of the table file.
    pub(crate) tables: String,
    /// The raw dump.
    pub(crate) raw: Raw,
}

impl Watched {
    /// Returns the last table, which covers the complete run.
    pub(crate) fn last(&self) -> Table {
        Table::last(&self.tables).unwrap_or_else(|| panic!("no table in {:?}; stderr: {}", self.tables, self.ran.err()))
    }
}

impl Batch {
    /// Takes options such as `--clock real`, split at spaces.
    pub(crate) fn new(options: &str) -> Batch {
        Batch { options: options.split_whitespace().map(str::to_owned).collect(), directory: targets::scratch("batch") }
    }

    /// Returns the command line around `command`.
    pub(crate) fn command(&self, command: &[&str]) -> Command {
        let mut sigtop = Command::new(SIGTOP);
        sigtop.args(&self.options).arg("--table").arg(self.table_file()).arg("--raw").arg(self.raw_file());
        sigtop.arg("--").args(command);
        sigtop
    }

    /// Runs `command` under sigtop, with the machine for itself: samples and times are judged.
    pub(crate) fn run(&self, command: &[&str]) -> Watched {
        alone();
        let ran = run(&mut self.command(command));
        let text = |path: &Path| {
            let text = fs::read_to_string(path);
            text.unwrap_or_else(|error| {
                panic!("{}: {error}; status {}, stderr: {}", path.display(), ran.code(), ran.err())
            })
        };
        let (tables, raw) = (text(&self.table_file()), text(&self.raw_file()));
        let raw = Raw::parse(&raw).unwrap_or_else(|error| panic!("{error}"));
        Watched { ran, tables, raw }
    }

    fn table_file(&self) -> PathBuf {
        self.directory.join("table")
    }

    fn raw_file(&self) -> PathBuf {
        self.directory.join("raw")
    }
}

/// Returns a path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Returns the path of a program that is on the PATH, that of the system if there are several; if
/// there is none, reports a skip and returns `None`. In CI that is a failure, as CI installs its
/// tools.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let of_the_system = Some(Path::new("/usr/bin").join(name)).filter(|file| file.is_file());
    let found = installed(name).map(|first| of_the_system.unwrap_or(first));
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "{name} is not installed");
    if found.is_none() {
        skip(&format!("{name} is not installed"));
    }
    found
}

/// Returns the path of an optional program.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

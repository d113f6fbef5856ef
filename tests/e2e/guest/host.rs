//! Runs a target alone, under sigtop, or with a library that does what a careless profiler does.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::run::{Batch, Ran, SIGTOP, Watched, run};
use crate::harness::targets;
use crate::harness::terminal::Terminal;

/// The library in the target's process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guest {
    /// No library.
    Nobody,
    /// sigtop in batch mode with these options.
    Batch(&'static str),
    /// sigtop's screen.
    Screen,
    /// A bad preload.
    Bad(&'static str),
}

/// Both clocks of time by both engines, and allocations, many of them sampled. The first is the
/// default: its samples serve tests that judge them.
pub(crate) const WAYS: [Guest; 5] = [
    Guest::Batch("--clock prof --engine threads --hz 250"),
    Guest::Batch("--clock prof --engine itimer --hz 250"),
    Guest::Batch("--clock real --engine threads --hz 250"),
    Guest::Batch("--clock real --engine itimer --hz 250"),
    Guest::Batch("--clock alloc --bytes 16k"),
];

/// The output and status of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Exit status.
    pub(crate) code: i32,
    /// All of stdout.
    pub(crate) stdout: String,
    /// All of stderr.
    pub(crate) stderr: String,
}

impl From<Ran> for Shown {
    fn from(ran: Ran) -> Shown {
        Shown { code: ran.code(), stdout: ran.out(), stderr: ran.err() }
    }
}

/// Runs a command with a guest. Its stdout and stderr are pipes (files under the screen), its stdin
/// is /dev/null.
pub(crate) fn host(guest: Guest, command: &[&str]) -> Shown {
    match guest {
        Guest::Nobody => run(Command::new(command[0]).args(&command[1..])).into(),
        Guest::Bad(name) => {
            run(Command::new(command[0]).args(&command[1..]).env("LD_PRELOAD", targets::preload(name))).into()
        }
        Guest::Batch(options) => Batch::new(options).run(command).ran.into(),
        Guest::Screen => {
            let directory = targets::scratch("screen");
            let line = "exec \"$0\" --tui --quiet -- \"$@\" < /dev/null > out 2> err";
            let mut shell = Command::new("sh");
            shell.args(["-c", line, SIGTOP]).args(command).current_dir(&directory);
            let mut terminal = Terminal::start(120, 30, &shell);
            terminal.wait("the target's end", |screen| {
                let text = screen.contents();
                text.contains("exited with status")
                    || text.contains("was killed by")
                    || text.contains("ended with status")
            });
            terminal.keys("q");
            let code = terminal.finish().code().unwrap_or(-1);
            let read = |name: &str| fs::read_to_string(directory.join(name)).expect("the shell made it");
            Shown { code, stdout: read("out"), stderr: read("err") }
        }
    }
}

/// Asserts that `check` passes for each of sigtop's guests and fails for a bad one.
pub(crate) fn prove(guests: &[Guest], bad: &[&'static str], check: impl Fn(Guest) -> Result<(), String>) {
    for guest in guests {
        if let Err(error) = check(*guest) {
            panic!("{guest:?}: {error}");
        }
    }
    for name in bad {
        assert!(check(Guest::Bad(name)).is_err(), "the check does not object to {name}");
    }
}

/// Asserts that a command prints the same and ends the same under sigtop with each of these options
/// as alone. Returns the run with the first of them, whose samples can be judged.
pub(crate) fn watch_unharmed(ways: &[Guest], command: &[&str], alone: &Shown) -> Watched {
    let mut first = None;
    for way in ways {
        let Guest::Batch(options) = way else { panic!("{way:?} has no samples") };
        let watched = Batch::new(options).run(command);
        let shown = Shown { code: watched.ran.code(), stdout: watched.ran.out(), stderr: watched.ran.err() };
        same(shown, alone.clone()).unwrap_or_else(|error| panic!("{way:?}: {error}"));
        first.get_or_insert(watched);
    }
    first.expect("there are ways")
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(seen: T, expected: T) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen:?}\n    expected {expected:?}")) }
}

/// Polls a condition until it holds.
pub(crate) fn eventually(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// The agent's file.
pub(crate) fn agent() -> std::path::PathBuf {
    let ran = run(Command::new(SIGTOP).args(["env", "--path"]));
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out().trim().into()
}

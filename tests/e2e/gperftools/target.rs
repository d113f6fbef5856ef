//! The program that is profiled, with or without the agent, and its files.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::legacy::Legacy;
use crate::harness::run::{Ran, SIGTOP, run};
use crate::harness::targets;

pub(super) static AGENT: LazyLock<String> =
    LazyLock::new(|| run(Command::new(SIGTOP).args(["env", "--path"])).out().trim().to_owned());

/// Variables that control a profile.
pub(super) const VARIABLES: [&str; 8] = [
    "CPUPROFILE",
    "CPUPROFILE_FREQUENCY",
    "CPUPROFILE_REALTIME",
    "CPUPROFILE_PER_THREAD_TIMERS",
    "CPUPROFILE_TIMER_SIGNAL",
    "CPUPROFILESIGNAL",
    "CPUPROFILE_USE_PID",
    "LD_PRELOAD",
];

pub(super) fn binary() -> PathBuf {
    targets::c("profiler").canonicalize().expect("compiled")
}

/// The target with the agent preloaded, in its own directory.
pub(super) struct Target {
    pub(super) binary: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Target {
    pub(super) fn new(variables: &[(&'static str, &str)]) -> Target {
        Target::of(binary(), variables, true)
    }

    pub(super) fn of(binary: PathBuf, variables: &[(&'static str, &str)], preloaded: bool) -> Target {
        let preload = preloaded.then(|| ("LD_PRELOAD", AGENT.clone()));
        let variables = variables.iter().map(|&(name, value)| (name, value.to_owned())).chain(preload).collect();
        Target { binary, directory: targets::scratch("gperftools").canonicalize().expect("made"), variables }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).args(arguments);
        command.current_dir(&self.directory);
        command
    }

    /// Runs the target to its end and checks that stderr is empty.
    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        let ran = run(&mut self.command(arguments));
        assert_eq!(ran.err(), "", "{arguments:?}");
        ran
    }

    pub(super) fn profile(&self, name: &str) -> Legacy {
        Legacy::of(&self.directory.join(name))
    }

    /// Returns the profile, if its file is whole. While it is written, it may be empty or have a
    /// damaged last line.
    pub(super) fn whole_profile(&self, name: &str) -> Option<Legacy> {
        Legacy::parse(&fs::read(self.directory.join(name)).ok()?).ok()
    }

    pub(super) fn with(&self, profile: &Legacy, function: &str) -> u64 {
        profile.with(&self.binary, function)
    }

    /// The names of the files in the directory, sorted.
    pub(super) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).expect("ours");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("ours").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Starts the target, which uses CPU time for each line of input, and waits until it is ready.
    pub(super) fn forever(&self, seconds: &str) -> Forever {
        self.start(&["forever", seconds])
    }

    pub(super) fn start(&self, arguments: &[&str]) -> Forever {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let mut forever = Forever { child, out };
        forever.says("ready\n");
        forever
    }
}

pub(super) struct Forever {
    pub(super) child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Forever {
    pub(super) fn says(&mut self, words: &str) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a pipe");
        assert_eq!(line, words);
    }

    pub(super) fn burn(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
        self.says("done\n");
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("ours");
    }

    pub(super) fn end(mut self) -> std::process::ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("ours")
    }
}

/// Checks a number of ticks against the expected number. The target uses at least the requested CPU
/// time, and a little more.
pub(super) fn is_about(ticks: u64, expected: f64) {
    let ticks = ticks as f64;
    assert!(ticks >= expected * 0.9 - 2.0 && ticks <= expected * 1.15 + 5.0, "{ticks} ticks of about {expected}");
}

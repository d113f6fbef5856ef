//! Diagnoses why a process uses CPU time and sends no samples, as far as `/proc` tells: either no
//! agent reports from it, or the signal of its ticks does not reach the agent.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::proc::{
    ProcStat, ProcStatus, command_line, environment, is_secure, maps_hold, sees_proc, signal_name, threads,
};
use super::program::elf::{self, ElfKind};
use super::{find, network_namespace, quote};
use crate::wire::{LINK_VARIABLE, TICK_SIGNALS};

/// Maximum number of threads of a process whose signal mask is read.
const MAX_THREADS: usize = 256;
/// The name of the agent's thread, which blocks every signal.
const AGENT_THREAD: &str = "sigtop";

/// The reason why a process sends no samples.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Diagnosis {
    /// No agent reports from the process.
    NoAgent {
        /// The process's name.
        process: String,
        /// The reason and its remedy, as a clause about `it`.
        reason: String,
    },
    /// An agent reports, but its ticks do not arrive: the whole sentence.
    NoTicks(String),
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(1))
    }
}

impl Diagnosis {
    /// One sentence for this process and others with the same reason, `count` processes in all.
    pub fn describe(&self, count: usize) -> String {
        match self {
            Diagnosis::NoTicks(sentence) => sentence.clone(),
            Diagnosis::NoAgent { process, reason } if count <= 1 => {
                format!("no agent reported from {process}: {reason}")
            }
            Diagnosis::NoAgent { process, reason } => {
                let others = if count == 2 { "process" } else { "processes" };
                format!("no agent reported from {process} and {} other {others}: {reason}", count - 1)
            }
        }
    }

    /// Returns whether another process is in the same situation.
    pub fn has_same_reason(&self, other: &Diagnosis) -> bool {
        match (self, other) {
            (Diagnosis::NoAgent { reason, .. }, Diagnosis::NoAgent { reason: others, .. }) => reason == others,
            _ => false,
        }
    }
}

/// Returns whether a process has mapped the agent's library; `None` if its mappings cannot be read.
pub fn carries_agent(pid: u32) -> Option<bool> {
    maps_hold(pid, find::is_agent).ok()
}

/// Returns whether a process without the agent can be sampled from outside instead: its code is for
/// this machine, and not Valgrind's.
pub fn can_be_a_stranger(pid: u32) -> bool {
    let image = File::open(format!("/proc/{pid}/exe")).and_then(|file| elf::inspect(&file));
    let is_native = matches!(image, Ok(ElfKind::Program { .. }));
    is_native && carries_agent(pid) == Some(false) && !is_valgrind(pid)
}

/// Diagnoses a process that is sampled from outside; `None` if it could have an agent, or has
/// ended.
pub fn sampled_late(pid: u32) -> Option<Diagnosis> {
    if !can_be_a_stranger(pid) {
        return None;
    }
    let process = quote::name(&ProcStat::of(pid).ok()?.comm);
    Some(Diagnosis::NoTicks(format!("{process} had run before it was sampled from outside")))
}

/// Diagnoses a process that the kernel does not let be sampled from outside. `reason` is a clause
/// about it.
pub fn refused(pid: u32, reason: &str) -> Diagnosis {
    let name = ProcStat::of(pid).map_or_else(|_| format!("process {pid}"), |stat| quote::name(&stat.comm));
    Diagnosis::NoTicks(format!("{name} {reason}"))
}

/// Diagnoses a process whose agent has reported or not, and ticks by this signal, or by one that is
/// not known (0). Returns `None` if nothing is found, or the process has ended.
pub fn diagnose(pid: u32, signal: u32, has_reported: bool) -> Option<Diagnosis> {
    // A program that is just started or ending has neither arguments nor an environment.
    let has_memory = || !command_line(pid).is_empty();
    has_memory().then(|| inspect(pid, signal, has_reported)).flatten().filter(|_| has_memory())
}

fn inspect(pid: u32, signal: u32, has_reported: bool) -> Option<Diagnosis> {
    let stat = ProcStat::of(pid).ok()?;
    let process = quote::name(&stat.comm);
    if stat.has_lost_first_thread() {
        return Some(Diagnosis::NoTicks(format!("the first thread of {process} has ended, and the agent left it")));
    }
    let status = ProcStatus::of(pid).ok()?;
    let signal = if signal == 0 { likely_signal(&status) } else { signal };
    let reason = match carries_agent(pid) {
        _ if is_valgrind(pid) => {
            Some("it runs under Valgrind, whose threads and signals are not the kernel's".to_owned())
        }
        None => Some(format!("it belongs to user {}, and cannot be inspected", status.users[1])),
        Some(false) => Some(explain_not_loaded(pid, &status)),
        Some(true) => match explain_no_ticks(pid, &process, signal) {
            Some(sentence) => return Some(Diagnosis::NoTicks(sentence)),
            None if has_reported => None,
            None => explain_not_connected(pid, &status),
        },
    };
    reason.map(|reason| Diagnosis::NoAgent { process, reason })
}

/// Returns whether the program is one of Valgrind's tools, such as `memcheck-amd64-linux`.
fn is_valgrind(pid: u32) -> bool {
    let Ok(executable) = fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    let is_tool = executable.file_name().is_some_and(|name| name.as_bytes().ends_with(b"-amd64-linux"));
    is_tool && executable.components().any(|part| part.as_os_str() == "valgrind")
}

/// Explains why the loader has not mapped the agent's library.
fn explain_not_loaded(pid: u32, status: &ProcStatus) -> String {
    let executable = format!("/proc/{pid}/exe");
    let image = File::open(&executable).and_then(|file| elf::inspect(&file));
    // A loader that was run by its own name has no interpreter, and preloads.
    let is_loader = fs::read_link(&executable)
        .is_ok_and(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-")));
    match image {
        Ok(ElfKind::Program { interpreter: None, .. }) if !is_loader => return "it is statically linked".to_owned(),
        Ok(ElfKind::Bits32) => return "it is a 32-bit program".to_owned(),
        Ok(ElfKind::Foreign(_)) => return "it is a program for another architecture".to_owned(),
        _ => {}
    }
    if is_secure(pid) {
        return "it is setuid, setgid or has file capabilities, so the loader ignores LD_PRELOAD".to_owned();
    }
    let preload = environment(pid, "LD_PRELOAD").unwrap_or_default();
    let entries =
        preload.as_bytes().split(|byte| b" :".contains(byte)).map(|entry| Path::new(OsStr::from_bytes(entry)));
    let Some(library) = entries.into_iter().find(|path| is_library(path)) else {
        return "it was started without LD_PRELOAD in its environment".to_owned();
    };
    match access(pid, library, status) {
        Access::Missing => explain_missing("the agent's library", library),
        Access::Forbidden => format!("user {} may not read {}", status.users[1], quote::name(library)),
        Access::Allowed => format!("its loader did not load {}", quote::name(library)),
    }
}

/// Returns whether a path in LD_PRELOAD names the agent's library: by its name, or by a descriptor
/// of a viewer that holds it in memory.
fn is_library(path: &Path) -> bool {
    find::is_agent(path.as_os_str().as_bytes()) || path.starts_with("/proc") && path.is_absolute()
}

fn explain_missing(what: &str, path: &Path) -> String {
    let directory = match path.parent() {
        Some(directory) if !path.starts_with("/proc") => directory,
        _ => Path::new("/proc"),
    };
    format!("{what} is not visible in its root directory; bind-mount {} there", quote::name(directory))
}

/// Returns the signal of the ticks of a process whose agent has not reported one: the last of those
/// that have a handler, in the order in which agents try them, since the program may handle those
/// before it; the first one if none has a handler.
fn likely_signal(status: &ProcStatus) -> u32 {
    let is_caught = |&&signal: &&i32| status.caught & 1 << (signal - 1) != 0;
    TICK_SIGNALS.iter().rev().find(is_caught).copied().unwrap_or(TICK_SIGNALS[0]) as u32
}

/// Explains why ticks by a signal do not reach the agent's handler; `None` if nothing prevents it.
fn explain_no_ticks(pid: u32, process: &str, signal: u32) -> Option<String> {
    if !sees_proc(pid) {
        return Some(format!("{process} sees no /proc, where its agent finds threads; mount it in its root directory"));
    }
    let bit = 1 << signal.checked_sub(1).filter(|&bit| bit < 64)?;
    let stats =
        threads(pid).into_iter().take(MAX_THREADS).filter_map(|tid| Some((tid, ProcStat::of_thread(pid, tid).ok()?)));
    let targets: Vec<(u32, ProcStat)> = stats.filter(|(_, stat)| stat.comm != AGENT_THREAD).collect();
    // Those block every signal.
    let (workers, others): (Vec<_>, Vec<_>) = targets.into_iter().partition(|(_, stat)| stat.is_io_worker());
    let statuses: Vec<ProcStatus> =
        others.iter().filter_map(|&(tid, _)| ProcStatus::of_thread(pid, tid).ok()).collect();
    let signal = signal_name(signal as i32);
    if statuses.iter().any(|status| status.caught & bit == 0) {
        return Some(format!("{process} has no handler for {signal} any more"));
    }
    match statuses.iter().filter(|status| status.blocked & bit != 0).count() {
        0 if workers.iter().any(|(_, stat)| stat.system_ticks > 0) => {
            let all = workers.len() + others.len();
            Some(format!("{} of {all} threads of {process} are io_uring's, in the kernel", workers.len()))
        }
        0 => None,
        all if all == statuses.len() => Some(format!("{signal} is blocked in {process}")),
        some => Some(format!("{signal} is blocked in {some} of {} threads of {process}", statuses.len())),
    }
}

/// Explains why the agent of a launched process cannot connect; `None` if nothing prevents it.
fn explain_not_connected(pid: u32, status: &ProcStatus) -> Option<String> {
    let (viewer, user) = (geteuid(), status.users[1]);
    if !viewer.is_root() && viewer.as_raw() != user {
        return Some(format!("its agent runs as user {user}, and trusts only that user and root"));
    }
    let link = environment(pid, LINK_VARIABLE)?;
    let path = PathBuf::from(OsStr::from_bytes(link.as_bytes().splitn(5, |&byte| byte == b':').nth(4)?));
    let is_reachable = path.is_absolute() && matches!(access(pid, &path, status), Access::Allowed);
    if is_reachable || !network_namespace::is_other(pid) {
        return None;
    }
    Some(match path.is_absolute() {
        true => explain_missing("sigtop's socket", &path),
        false => "it is in another network namespace; sigtop needs a writable directory that both can see".to_owned(),
    })
}

/// The access of a process to a file.
enum Access {
    Allowed,
    Forbidden,
    Missing,
}

/// Looks for a file in the root directory of a process. Permissions are those of a process that
/// neither owns the file nor is in its group.
fn access(pid: u32, path: &Path, status: &ProcStatus) -> Access {
    let in_root = |path: &Path| {
        let mut rooted = PathBuf::from(format!("/proc/{pid}/root"));
        rooted.push(path.strip_prefix("/").unwrap_or(path));
        fs::metadata(rooted)
    };
    match in_root(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Access::Missing,
        Err(_) => return Access::Forbidden,
        Ok(_) => {}
    }
    let user = status.users[3];
    let is_closed =
        |above: &Path| in_root(above).is_ok_and(|directory| directory.uid() != user && directory.mode() & 0o001 == 0);
    let is_forbidden = user != 0 && path.ancestors().skip(1).any(is_closed);
    if is_forbidden { Access::Forbidden } else { Access::Allowed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn diagnose_child(command: &mut Command) -> String {
        let mut child = command.spawn().unwrap();
        // The kernel lets the parent go on before arguments and environment are in place.
        let executes = |path: PathBuf| path.ends_with("sleep") && !command_line(child.id()).is_empty();
        while !fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(executes) {
            std::thread::yield_now();
        }
        let diagnosis = diagnose(child.id(), libc::SIGURG as u32, false);
        child.kill().unwrap();
        child.wait().unwrap();
        diagnosis.unwrap().to_string()
    }

    #[test]
    fn the_signal_of_an_agent_that_has_not_reported_is_one_with_a_handler() {
        let likely = |caught| likely_signal(&ProcStatus { caught, ..ProcStatus::default() });
        let [urgent, next] = [23, 59].map(|signal| 1u64 << (signal - 1));
        assert_eq!([0, urgent, next, urgent | next, 1 | next].map(likely), [23, 23, 59, 59, 59]);
    }

    #[test]
    fn a_process_without_the_library_is_explained_by_its_environment() {
        let sleep = || {
            let mut command = Command::new("sleep");
            command.arg("60").env_remove("LD_PRELOAD");
            command
        };
        assert_eq!(
            diagnose_child(&mut sleep()),
            "no agent reported from sleep: it was started without LD_PRELOAD in its environment"
        );
        let missing = "/nowhere/libsigtop-agent-00ff.so";
        assert_eq!(
            diagnose_child(sleep().env("LD_PRELOAD", missing).stderr(std::process::Stdio::null())),
            "no agent reported from sleep: the agent's library is not visible in its root directory; \
             bind-mount /nowhere there"
        );
        assert_eq!(diagnose(u32::MAX, libc::SIGURG as u32, false), None);
    }

    #[test]
    fn a_process_that_has_ended_is_not_explained() {
        let mut child = Command::new("true").spawn().unwrap();
        while ProcStat::of(child.id()).unwrap().state != b'Z' {
            std::thread::yield_now();
        }
        assert_eq!(diagnose(child.id(), libc::SIGURG as u32, false), None);
        child.wait().unwrap();
    }

    #[test]
    fn processes_with_one_reason_are_one_sentence() {
        let of = |process: &str, reason: &str| Diagnosis::NoAgent { process: process.into(), reason: reason.into() };
        let diagnosis = of("a", "it is statically linked");
        assert_eq!(diagnosis.describe(1), "no agent reported from a: it is statically linked");
        assert_eq!(diagnosis.describe(2), "no agent reported from a and 1 other process: it is statically linked");
        assert_eq!(diagnosis.describe(3), "no agent reported from a and 2 other processes: it is statically linked");
        assert!(diagnosis.has_same_reason(&of("b", "it is statically linked")));
        assert!(!diagnosis.has_same_reason(&of("a", "it is a 32-bit program")));
        assert!(!diagnosis.has_same_reason(&Diagnosis::NoTicks(String::new())));
    }
}

//! The program of the sampler process: reads the viewer's commands and runs tracer and walker.
//!
//! Standard input is a socket to the viewer; standard output is the memory file of the heartbeat.
//! The first line is `follow` or `alone`, the engine, and the link variable that agents get. Each further line
//! is a process to watch, by pid and start time, and what is sampled of it ([`WatchScope`]). The
//! sampler answers with lines that name processes that it may not watch. It ends with its standard
//! input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded, unbounded};
use nix::unistd::{SysconfVar, sysconf};

use super::connection::ViewerAddress;
use super::events::{MAX_QUEUED, SamplerConfig};
use super::heartbeat::Heartbeat;
use super::ptrace;
use super::scope::WatchScope;
use super::tracer::{Tracer, TracerCommand, TracerLinks, TracerReport};
use super::walker::Walker;
use crate::arch;
use crate::attach::launch_gate;
use crate::attach::proc::ProcessIdentity;
use crate::attach::rights;
use crate::wire::{Clock, Engine, PERIODS_NS};

/// Maximum length of a line of the viewer, bytes.
const MAX_LINE: u64 = 8192;
/// Maximum time for the last messages to the viewer.
const LAST_MESSAGES: Duration = Duration::from_millis(500);
/// The nice value that the sampler takes where it may.
const NICE: i32 = -11;

/// The first line of the viewer.
#[derive(Debug, PartialEq, Eq)]
struct Setup {
    token: u64,
    config: (Clock, u64),
    path: PathBuf,
    follow: bool,
    engine: Engine,
}

/// Parses `follow external TOKEN:VIEWER_PID:PERIOD_NS:CLOCK:PATH`, or `alone …`, and other engines.
fn parse_setup(line: &[u8]) -> Option<Setup> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let follow = match words.next()? {
        b"follow" => true,
        b"alone" => false,
        _ => return None,
    };
    let engine = match words.next()? {
        b"external" => Engine::External,
        b"events" => Engine::Events,
        b"ptrace" => Engine::Ptrace,
        _ => return None,
    };
    let link = words.next()?;
    let mut parts = link.splitn(5, |&byte| byte == b':');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (token, _, period_ns, clock) = (number()?, number()?, number()?, number()?);
    let clock = Clock::from_wire(u8::try_from(clock).ok()?).ok()?;
    let path = PathBuf::from(OsStr::from_bytes(parts.next().filter(|path| !path.is_empty())?));
    PERIODS_NS.contains(&period_ns).then_some(Setup { token, config: (clock, period_ns), path, follow, engine })
}

/// Parses `PID START_TICKS SCOPE`, or `prepare PID`.
fn parse_command(line: &[u8]) -> Option<TracerCommand> {
    let text = std::str::from_utf8(line).ok()?;
    if let Some(pid) = text.strip_prefix(launch_gate::COMMAND) {
        return Some(TracerCommand::Prepare { pid: pid.trim().parse().ok()? });
    }
    let mut words = text.split_ascii_whitespace();
    let pid = words.next()?.parse().ok().filter(|&pid| pid > 0)?;
    let start_ticks = words.next()?.parse().ok()?;
    Some(TracerCommand::Watch { process: ProcessIdentity { pid, start_ticks }, scope: WatchScope::parse(words)? })
}

/// Runs the sampler until its standard input ends.
///
/// # Errors
/// If standard input is not a viewer's.
pub fn run() -> io::Result<()> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the sampler is started by sigtop itself");
    let owned = |descriptor: io::Result<OwnedFd>| descriptor;
    let control = UnixStream::from(owned(io::stdin().as_fd().try_clone_to_owned())?);
    let heartbeat = Heartbeat::new(File::from(owned(io::stdout().as_fd().try_clone_to_owned())?));
    let mut answers = control.try_clone()?;
    let mut lines = BufReader::new(control);
    let setup = read_line(&mut lines)?.and_then(|line| parse_setup(&line)).ok_or_else(invalid)?;
    raise_limits();
    if let Ok(Some(bytes)) = sysconf(SysconfVar::PAGE_SIZE) {
        arch::set_page_size(bytes as usize);
    }
    // Before any thread starts, so that all of them have it blocked.
    ptrace::block_events()?;
    let (tell, commands) = unbounded();
    // These allocate nothing later: tracer and walker must not share the locks of an allocator.
    let (ask, requests) = bounded(MAX_QUEUED);
    let (give_back, spare) = bounded(MAX_QUEUED);
    let (send, events) = bounded(MAX_QUEUED);
    let (report, reports) = unbounded();
    let config = SamplerConfig { clock: setup.config.0, period_ns: setup.config.1 };
    let viewer = ViewerAddress { path: setup.path, token: setup.token };
    thread::Builder::new().name("commands".to_owned()).spawn(move || read_commands(&mut lines, &tell))?;
    let walker = thread::Builder::new()
        .name("walker".to_owned())
        .spawn(move || Walker::new(viewer, ask, give_back).run(&events))?;
    thread::Builder::new().name("answers".to_owned()).spawn(move || {
        for report in reports {
            let line = match report {
                // The process may have ended by the time that the viewer reads this.
                TracerReport::Refused { pid } => format!("refused {pid} {}\n", rights::tracer(pid).unwrap_or(0)),
                TracerReport::TooManyThreads { pid } => format!("crowded {pid}\n"),
                TracerReport::TakeTurns { pid } => format!("turns {pid}\n"),
                TracerReport::Throttled => "throttled\n".to_owned(),
                TracerReport::Supervised { pid } => format!("supervised {pid}\n"),
            };
            if answers.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    })?;
    let links = TracerLinks { commands, requests, spare, events: send, reports: report, follow: setup.follow };
    become_urgent();
    // The tracer is dropped at the end of its statement, so that the walker ends too.
    Tracer::new(links, config, setup.engine, heartbeat).run();
    let until = Instant::now() + LAST_MESSAGES;
    while !walker.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn read_line(lines: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = io::Read::take(lines, MAX_LINE).read_until(b'\n', &mut line)?;
    Ok((count > 0).then(|| line.strip_suffix(b"\n").unwrap_or(&line).to_vec()))
}

fn read_commands(lines: &mut impl BufRead, tell: &Sender<TracerCommand>) {
    while let Ok(Some(line)) = read_line(lines) {
        if parse_command(&line).is_some_and(|command| tell.send(command).is_err()) {
            break;
        }
    }
}

/// Takes what the sampler needs and may have: descriptors for all threads, and a place before
/// ordinary processes, because threads stand still while it waits for a processor.
fn raise_limits() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    // SAFETY: takes integers alone. Without the right to it, nothing changes.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Puts this thread before all ordinary ones where it may: a stopped thread waits for it.
fn become_urgent() {
    let (policy, priority) = (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1_i32);
    // SAFETY: the kernel reads one integer that lives through the call, its whole `sched_param`: musl
    // has another one, and does not make this call. Without the right to it, nothing changes.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_viewer_are_read_or_refused() {
        let setup = parse_setup(b"follow events 77:41:10101010:1:/run/user/0/a:b c.sock").unwrap();
        let path = PathBuf::from("/run/user/0/a:b c.sock");
        assert_eq!(
            setup,
            Setup { token: 77, config: (Clock::Real, 10_101_010), path, follow: true, engine: Engine::Events }
        );
        for line in [
            "",
            "follow",
            "follow external 1:2:3:0:/x",
            "later external 77:41:10101010:1:/x",
            "alone events 77:41:10101010:9:/x",
            "follow 77:41:10101010:1:/x",
        ] {
            assert_eq!(parse_setup(line.as_bytes()), None, "{line}");
        }
        let asleep = WatchScope::Asleep { missed_since_ns: 7 };
        for scope in [WatchScope::FromNow, WatchScope::FromStart, WatchScope::Alone, asleep] {
            let line = format!("41 77 {scope}");
            let process = ProcessIdentity { pid: 41, start_ticks: 77 };
            assert_eq!(parse_command(line.as_bytes()), Some(TracerCommand::Watch { process, scope }));
        }
        assert_eq!(parse_command(b"prepare 41"), Some(TracerCommand::Prepare { pid: 41 }));
        for line in [
            "prepare",
            "prepare x",
            "",
            "0 1 new",
            "-1 1 new",
            "x 1 new",
            "41",
            "41 new",
            "41 1",
            "41 1 later",
            "41 1 asleep",
        ] {
            assert_eq!(parse_command(line.as_bytes()), None, "{line}");
        }
    }
}

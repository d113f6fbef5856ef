//! The viewer's side: starts the sampler as a process of its own and watches over it.
//!
//! The sampler has its own session, so that no key typed at the viewer stops it while a thread of
//! the target stands still. It is ended when it hangs during a stop; the kernel then lets the
//! threads run on, and another sampler takes its place ([`watchdog`](super::watchdog)).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::setsid;

use super::scope::WatchScope;
use super::watchdog::{LOOK, Watchdog};
use crate::attach::AttachError;
use crate::attach::launch_gate::LaunchGate;
use crate::attach::proc::ProcessIdentity;
use crate::wire::Engine;

/// The hidden subcommand that runs the sampler.
pub const SUBCOMMAND: &str = "sampler";
/// Maximum number of samplers in [`RESTART_TIME`].
const MAX_RESTARTS: usize = 30;
const RESTART_TIME: Duration = Duration::from_secs(60);
/// Maximum time that the viewer waits for a sampler that was asked to end. One that takes longer
/// serves stops of threads that have no CPU, and ends by itself.
const MAX_EXIT: Duration = Duration::from_millis(1500);

/// A report of the sampler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplerReport {
    /// The kernel does not let the sampler stop threads of this process.
    Refused {
        /// The process.
        pid: u32,
        /// The tracer that it had, which it may have left since.
        tracer: Option<u32>,
    },
    /// A process has too many threads for perf events.
    TooManyThreads {
        /// The process.
        pid: u32,
    },
    /// Not all threads of a process have perf events at a time.
    TakeTurns {
        /// The process.
        pid: u32,
    },
    /// The kernel takes fewer samples than it is asked for, because they cost too much.
    Throttled,
    /// System calls of a process wait for a supervisor (seccomp), so that its threads are stopped
    /// only while they compute.
    Supervised {
        /// The process.
        pid: u32,
    },
    /// The sampler has failed too often and is not started again.
    Failed,
}

/// The assignment of a sampler, also of one that takes the place of another.
#[derive(Debug)]
struct Assignment {
    /// The first line.
    setup: Vec<u8>,
    /// The processes to watch, and what is sampled of them.
    processes: Vec<(ProcessIdentity, WatchScope)>,
}

/// A running sampler process.
#[derive(Debug)]
struct SamplerProcess {
    child: Child,
    control: UnixStream,
    watchdog: Watchdog,
}

impl SamplerProcess {
    /// Returns whether this process hangs during a stop. To be asked once in [`LOOK`].
    fn hangs(&mut self) -> bool {
        self.watchdog.finds_hanging(self.child.id())
    }
}

/// The sampler of a session, which is started when it has something to do. Dropping it ends the
/// sampler, which serves the stops that are under way first.
#[derive(Debug)]
pub struct Sampler {
    link: OsString,
    follow: bool,
    engine: Engine,
    shared: Option<Arc<Mutex<SamplerState>>>,
    is_closing: Arc<AtomicBool>,
    reports: Receiver<SamplerReport>,
    report: Sender<SamplerReport>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SamplerState {
    assignment: Assignment,
    process: SamplerProcess,
}

impl Sampler {
    /// Prepares a sampler that connects by this link variable.
    pub fn new(link: &OsStr, follow: bool, engine: Engine) -> Sampler {
        let (report, reports) = unbounded();
        let (shared, thread) = (None, None);
        Sampler { link: link.to_owned(), follow, engine, shared, is_closing: Arc::default(), reports, report, thread }
    }

    /// Selects the engine of the next process of this sampler.
    pub fn select_engine(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// Starts the process of the sampler ahead of time, so that it is ready for a short target.
    ///
    /// # Errors
    /// [`AttachError::System`] if the process cannot be started.
    pub fn start(&mut self) -> Result<(), AttachError> {
        if self.shared.is_none() {
            let assignment =
                Assignment { setup: setup_line(&self.link, self.follow, self.engine), processes: Vec::new() };
            let process = spawn(&assignment).map_err(|error| AttachError::system("cannot start the sampler", error))?;
            self.shared = Some(Arc::new(Mutex::new(SamplerState { assignment, process })));
        }
        Ok(())
    }

    /// The gate through which a program is launched, once this sampler is started.
    pub fn gate(&self) -> Option<LaunchGate> {
        let state = lock(self.shared.as_ref()?);
        let process = &state.process;
        Some(LaunchGate { commands: process.control.as_raw_fd(), answers: process.watchdog.heartbeat().as_raw_fd() })
    }

    /// Samples a process from now on. `is_new` if it was just started by the viewer. Does nothing
    /// if the process is sampled already, or has ended.
    ///
    /// # Errors
    /// [`AttachError::System`] if the process of the sampler cannot be started.
    pub fn watch(&mut self, process: ProcessIdentity, is_new: bool) -> Result<(), AttachError> {
        let scope = if is_new { WatchScope::FromStart } else { WatchScope::FromNow };
        self.command(|state| {
            if state.assignment.processes.iter().all(|(known, _)| *known != process) {
                state.assignment.processes.push((process, scope));
                // A sampler that cannot be reached is about to be replaced by one that learns
                // everything.
                let _ = tell(&mut state.process.control, process, scope);
            }
        })
    }

    /// Samples a process that carries an agent while its threads sleep, until its agent connects.
    /// Time before is lost from a time on `CLOCK_MONOTONIC` on, ns; none is lost if that is 0. To
    /// be called again while nobody samples the process: another sampler does not learn of it.
    ///
    /// # Errors
    /// [`AttachError::System`] if the process of the sampler cannot be started.
    pub fn watch_asleep(&mut self, process: ProcessIdentity, missed_since_ns: u64) -> Result<(), AttachError> {
        self.command_once(process, WatchScope::Asleep { missed_since_ns })
    }

    /// Samples a process until it executes another program, without its children. To be called
    /// again while nobody samples the process: another sampler does not learn of it.
    ///
    /// # Errors
    /// [`AttachError::System`] if the process of the sampler cannot be started.
    pub fn watch_alone(&mut self, process: ProcessIdentity) -> Result<(), AttachError> {
        self.command_once(process, WatchScope::Alone)
    }

    /// Gives a command that another sampler does not learn of.
    fn command_once(&mut self, process: ProcessIdentity, scope: WatchScope) -> Result<(), AttachError> {
        self.command(|state| {
            // A sampler that cannot be reached is about to be replaced.
            let _ = tell(&mut state.process.control, process, scope);
        })
    }

    /// Gives a command to the sampler, which is started if it does not run.
    fn command(&mut self, command: impl FnOnce(&mut SamplerState)) -> Result<(), AttachError> {
        self.start()?;
        let Some(shared) = &self.shared else { return Ok(()) };
        command(&mut lock(shared));
        if self.thread.is_none() {
            let (shared, is_closing, report) = (Arc::clone(shared), Arc::clone(&self.is_closing), self.report.clone());
            let guard = thread::Builder::new().name("sampler".to_owned());
            self.thread = guard.spawn(move || watch_over(&shared, &is_closing, &report)).ok();
        }
        Ok(())
    }

    /// Returns the next report, without waiting.
    pub fn report(&self) -> Option<SamplerReport> {
        self.reports.try_recv().ok()
    }

    /// Ends the sampler, after the stops that are under way.
    pub fn stop(&mut self) {
        self.is_closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.is_closing.store(false, Ordering::Release);
        let Some(shared) = self.shared.take() else { return };
        let mut state = lock(&shared);
        let _ = state.process.control.shutdown(std::net::Shutdown::Both);
        let until = Instant::now() + MAX_EXIT;
        let mut looked = Instant::now();
        while matches!(state.process.child.try_wait(), Ok(None)) && Instant::now() < until {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if state.process.hangs() {
                    let _ = state.process.child.kill();
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes the first line that a sampler reads.
fn setup_line(link: &OsStr, follow: bool, engine: Engine) -> Vec<u8> {
    let engine = match engine {
        Engine::Events => "events",
        Engine::Ptrace => "ptrace",
        Engine::External | Engine::Threads | Engine::Itimer => "external",
    };
    let words = [if follow { "follow" } else { "alone" }, engine, ""].join(" ");
    [words.as_bytes(), link.as_encoded_bytes()].concat()
}

fn lock(shared: &Mutex<SamplerState>) -> std::sync::MutexGuard<'_, SamplerState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(control: &mut UnixStream, process: ProcessIdentity, scope: WatchScope) -> io::Result<()> {
    let ProcessIdentity { pid, start_ticks } = process;
    control.write_all(format!("{pid} {start_ticks} {scope}\n").as_bytes())
}

/// Starts a sampler and tells it what to do.
fn spawn(assignment: &Assignment) -> io::Result<SamplerProcess> {
    let (mut control, theirs) = UnixStream::pair()?;
    let heartbeat = File::from(memfd_create(c"sigtop-sampler", MFdFlags::MFD_CLOEXEC)?);
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).stdin(std::os::fd::OwnedFd::from(theirs)).stdout(heartbeat.try_clone()?);
    command.stderr(Stdio::null()).env_clear();
    // SAFETY: setsid is a system call that touches no memory.
    unsafe { command.pre_exec(|| setsid().map(drop).map_err(io::Error::from)) };
    let child = command.spawn()?;
    control.set_read_timeout(Some(LOOK))?;
    control.write_all(&[&assignment.setup[..], b"\n"].concat())?;
    for &(process, scope) in &assignment.processes {
        tell(&mut control, process, scope)?;
    }
    Ok(SamplerProcess { child, control, watchdog: Watchdog::new(heartbeat) })
}

/// Forwards reports, and replaces a sampler that has ended or hangs inside a stop.
fn watch_over(shared: &Mutex<SamplerState>, is_closing: &AtomicBool, report: &Sender<SamplerReport>) {
    let mut received = Vec::new();
    let mut restarts: Vec<Instant> = Vec::new();
    let mut control = lock(shared).process.control.try_clone();
    let mut looked = Instant::now();
    while !is_closing.load(Ordering::Acquire) {
        let Ok(stream) = &mut control else {
            let _ = report.send(SamplerReport::Failed);
            break;
        };
        let has_ended = read_reports(stream, &mut received, report).is_err();
        if !has_ended && looked.elapsed() < LOOK {
            continue;
        }
        looked = Instant::now();
        let mut state = lock(shared);
        if !has_ended && !state.process.hangs() {
            continue;
        }
        let _ = state.process.child.kill();
        let _ = state.process.child.wait();
        restarts.retain(|at| at.elapsed() < RESTART_TIME);
        restarts.push(Instant::now());
        // A process that was new is not new to the second sampler.
        state.assignment.processes.iter_mut().for_each(|(_, scope)| *scope = scope.again().unwrap_or(*scope));
        let next = if restarts.len() > MAX_RESTARTS { None } else { spawn(&state.assignment).ok() };
        let Some(next) = next else {
            let _ = report.send(SamplerReport::Failed);
            break;
        };
        state.process = next;
        received.clear();
        control = state.process.control.try_clone();
    }
}

/// Parses `refused PID TRACER`, where a tracer of 0 is none, `crowded PID`, `turns PID`,
/// `supervised PID`, or `throttled`.
fn parse_report(line: &str) -> Option<SamplerReport> {
    if line.trim() == "throttled" {
        return Some(SamplerReport::Throttled);
    }
    if let Some(pid) = line.trim().strip_prefix("crowded ") {
        return Some(SamplerReport::TooManyThreads { pid: pid.parse().ok()? });
    }
    if let Some(pid) = line.trim().strip_prefix("turns ") {
        return Some(SamplerReport::TakeTurns { pid: pid.parse().ok()? });
    }
    if let Some(pid) = line.trim().strip_prefix("supervised ") {
        return Some(SamplerReport::Supervised { pid: pid.parse().ok()? });
    }
    let (pid, tracer) = line.trim().strip_prefix("refused ")?.split_once(' ')?;
    let tracer: u32 = tracer.parse().ok()?;
    Some(SamplerReport::Refused { pid: pid.parse().ok()?, tracer: (tracer != 0).then_some(tracer) })
}

/// Reads what the sampler has to say, for at most [`LOOK`].
///
/// # Errors
/// If the sampler has ended.
fn read_reports(stream: &mut UnixStream, received: &mut Vec<u8>, report: &Sender<SamplerReport>) -> io::Result<()> {
    let mut bytes = [0; 1024];
    match stream.read(&mut bytes) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => received.extend_from_slice(&bytes[..count]),
        Err(error)
            if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut, io::ErrorKind::Interrupted]
                .contains(&error.kind()) => {}
        Err(error) => return Err(error),
    }
    while let Some(end) = received.iter().position(|&byte| byte == b'\n') {
        let line: Vec<u8> = received.drain(..=end).collect();
        if let Some(refused) = std::str::from_utf8(&line).ok().and_then(parse_report) {
            let _ = report.send(refused);
        }
    }
    Ok(())
}

//! The target and the settings of a session.

use std::time::Duration;

use super::protocol::Question;
use crate::attach::find::{AttachableProcess, WatchMethod};
use crate::attach::launch::LaunchedTarget;
use crate::attach::proc::{self, ProcessIdentity};
use crate::profile::interpreter_view::InterpreterView;
use crate::symbols::source::SourceFinder;
use crate::symbols::worker::SymbolOptions;
use crate::wire::{Clock, Engine, Request};

/// Capacity of the channels for notices and commands. If the screen does not read its notices, the
/// session thread waits, the agents' sockets fill up, and the agents count what they cannot send.
pub(super) const NOTICES: usize = 1024;

/// The target of a session.
pub enum WatchTarget {
    /// A process that sigtop has launched, with the agent if it can carry it.
    Launched(LaunchedTarget),
    /// Running processes that sigtop has attached to.
    Attached(Vec<AttachableProcess>),
}

impl WatchTarget {
    /// The pid of the first process in the viewer's pid namespace.
    pub fn pid(&self) -> u32 {
        match self {
            WatchTarget::Launched(launched) => launched.pid,
            WatchTarget::Attached(carriers) => carriers.first().map_or(0, |carrier| carrier.pid),
        }
    }

    /// The pids of the launched process, or of all processes attached to.
    pub fn pids(&self) -> Vec<u32> {
        match self {
            WatchTarget::Launched(launched) => vec![launched.pid],
            WatchTarget::Attached(carriers) => carriers.iter().map(|carrier| carrier.pid).collect(),
        }
    }

    /// The process of the target that has this pid; `None` if there is none any more.
    pub(super) fn process(&self, pid: u32) -> Option<ProcessIdentity> {
        match self {
            WatchTarget::Launched(_) => ProcessIdentity::of(pid).ok(),
            WatchTarget::Attached(carriers) => {
                let carrier = carriers.iter().find(|carrier| carrier.pid == pid)?;
                Some(ProcessIdentity { pid, start_ticks: carrier.start_ticks })
            }
        }
    }

    /// The time since the start of the oldest of the processes attached to.
    pub(super) fn age(&self) -> Option<Duration> {
        match self {
            WatchTarget::Launched(_) => None,
            WatchTarget::Attached(carriers) => {
                proc::time_since(carriers.iter().map(|carrier| carrier.start_ticks).min()?)
            }
        }
    }

    /// The pids of those processes that are sampled from outside, because they carry no agent.
    pub(super) fn external_pids(&self) -> Vec<u32> {
        self.pids_by(WatchMethod::External)
    }

    /// The pids of those processes that have the agent.
    pub(super) fn agent_pids(&self) -> Vec<u32> {
        self.pids_by(WatchMethod::Agent)
    }

    fn pids_by(&self, method: WatchMethod) -> Vec<u32> {
        match self {
            WatchTarget::Launched(launched) if launched.method == method => vec![launched.pid],
            WatchTarget::Launched(_) => Vec::new(),
            WatchTarget::Attached(processes) => {
                processes.iter().filter(|process| process.method == method).map(|process| process.pid).collect()
            }
        }
    }
}

/// The CPU time of an allocation that is sampled, with cold caches and with its part of the agent
/// thread's time, in seconds. Warm, it is a third of that.
const ALLOCATION_COST_S: f64 = 10e-6;

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The command line in the header.
    pub command: String,
    /// Minimum time between two answers with new data, ns.
    pub answer_ns: u64,
    /// The name of the target in messages: the command, or the file that is played.
    pub name: String,
    /// The first clock.
    pub clock: Clock,
    /// The first engine.
    pub engine: Engine,
    /// The first period, ns.
    pub period_ns: u64,
    /// Mean bytes between two samples of a clock of memory.
    pub interval_bytes: u64,
    /// The first question.
    pub question: Question,
    /// Whether child processes are watched, too.
    pub follow: bool,
    /// The finder of source files.
    pub sources: SourceFinder,
    /// Options of the symbols thread.
    pub symbols: SymbolOptions,
    /// Maximum CPU time of the handlers as a fraction of the target's CPU time.
    pub budget: f64,
    /// Memory limit for stacks and history, in bytes.
    pub memory_bytes: u64,
    /// The frames that are shown of threads that run an interpreter.
    pub interpreter_view: InterpreterView,
    /// Whether stacks keep the functions of the kernel. The question may hide them.
    pub keeps_kernel: bool,
    /// Name of the file that is the baseline of a recording.
    pub base: Option<String>,
    /// Whether to keep the time of every sample, for file formats with a time axis.
    pub sample_times: bool,
}

impl Settings {
    /// The engine in use: the selected one, except that the user clock needs `setitimer`.
    pub fn engine_in_use(&self) -> Engine {
        match self.engine {
            external if external.is_external() => external,
            _ if self.clock == Clock::Virtual => Engine::Itimer,
            engine => engine,
        }
    }

    /// The request to agents when they connect.
    pub fn request(&self) -> Request {
        let (clock, engine, period_ns) = (self.clock.sampled(), self.engine_in_use(), self.period());
        let per_second = self.allocations_per_second();
        Request::Engage { clock, engine, period_ns, per_second, is_continued: false }
    }

    /// The number of allocations of a thread that may be sampled in a second; 0 if there is no
    /// limit.
    fn allocations_per_second(&self) -> u32 {
        if self.budget < 1.0 { (self.budget / ALLOCATION_COST_S).max(1.0) as u32 } else { 0 }
    }

    /// The period of the clock, in ns or bytes.
    pub fn period(&self) -> u64 {
        if self.clock.is_memory() { self.interval_bytes } else { self.period_ns }
    }

    /// Sets the period of the clock, in ns or bytes.
    pub fn set_period(&mut self, period: u64) {
        if self.clock.is_memory() { self.interval_bytes = period } else { self.period_ns = period }
    }
}

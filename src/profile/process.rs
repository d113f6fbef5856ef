//! One image of a watched process: its identity, mappings, and totals by clock. An `execve` keeps
//! the pid and starts a new image.

use super::by_clock::ByClock;
use super::hash::IdMap;
pub use super::ids::ProcessId;
use super::ids::{RecordingId, ThreadId, TitleId, WaitId};
use super::module::Mappings;
use super::sample_cache::SampleCache;
use super::sampling_interval::SamplingIntervals;
use super::script::ScriptFunctionId;
use super::stack::StackId;
use super::totals::{ThreadStack, Totals, Weight};
use crate::wire::interpreter::Interpreter;
use crate::wire::{AgentCounters, Clock, Engaged, Hello, SourceId};

/// The present wait of a thread.
#[derive(Clone, Copy)]
pub(super) struct CurrentWait {
    pub(super) wait: WaitId,
    /// Time of its first sample in this wait on the viewer's clock, ns, if it has not run since.
    pub(super) since_ns: Option<u64>,
    /// Time of its last sample in this wait on the viewer's clock, ns; `None` if it has run since.
    pub(super) seen_ns: Option<u64>,
    /// The stack of that sample; `None` before the first.
    pub(super) stack: Option<StackId>,
}

/// A sampled allocation that is in the totals of [`Clock::Live`].
#[derive(Clone, Copy)]
pub(super) struct LiveAllocation {
    pub(super) key: ThreadStack,
    /// Number of the history bucket.
    pub(super) bucket: u64,
    /// The weight that is in the totals.
    pub(super) weight: Weight,
    /// The weight of the whole allocation, ns.
    pub(super) whole_ns: u64,
}

/// One image of one process, from its Hello on.
pub struct Process {
    /// The agent's connection.
    pub source: SourceId,
    /// The recording that it comes from, if several are merged.
    pub recording: Option<RecordingId>,
    /// Process id in the viewer's pid namespace.
    pub pid: u32,
    /// Process id as the target sees it.
    pub own_pid: u32,
    /// Parent process id as the target sees it.
    pub parent: u32,
    /// Arrival time of the Hello on the viewer's clock, ns.
    pub since_ns: u64,
    /// Start time of the process. Together with the pid it identifies a process even if the pid is
    /// reused.
    pub start_ticks: u64,
    /// Number of earlier images of this process.
    pub image: u32,
    /// Target of `/proc/self/exe`.
    pub executable: String,
    /// Command line at the time of the Hello.
    pub argv: Vec<String>,
    /// The command line since, which servers use as a title; empty if it was not read again.
    pub title: Vec<String>,
    /// That title, if it is another than the command line at the time of the Hello.
    pub(super) title_id: Option<TitleId>,
    /// The command line at the time of the Hello as a title, once titles are shown.
    pub first_title: Option<TitleId>,
    /// The name that it has given to itself, if its parent runs the same program under another one.
    pub own_name: Option<String>,
    /// Viewer's clock minus target's clock, ns.
    pub clock_offset_ns: i64,
    /// Whether the agent is connected.
    pub connected: bool,
    /// The agent's latest counters.
    pub account: AgentCounters,
    /// The counters before the latest ones, for rates.
    pub earlier_account: AgentCounters,
    /// Weight of all samples of the CPU clock, ns. A reset does not change it.
    pub sampled_ns: u64,
    /// Number of all samples, by any clock. A reset does not change it.
    pub samples: u64,
    /// The sampling that the agent has started.
    pub engaged: Option<Engaged>,
    /// The interpreter that the agent found in the process.
    pub interpreter: Option<Interpreter>,
    /// The versions of generated code by address, where it was replaced by other code.
    pub(super) code_versions: IdMap<u64, u16>,
    pub(super) mappings: Mappings,
    /// The functions of its interpreter, by their ids on the wire.
    pub(super) scripts: IdMap<u32, ScriptFunctionId>,
    pub(super) cache: SampleCache,
    pub(super) threads: IdMap<u32, ThreadId>,
    /// The sampled allocations that are not freed, by their ids.
    pub(super) live: IdMap<u32, LiveAllocation>,
    /// The mean bytes between its samples of memory.
    pub(super) intervals: SamplingIntervals,
    /// The wait of each sleeping thread.
    pub(super) waits: IdMap<u32, CurrentWait>,
    pub(super) totals: ByClock<Totals>,
}

impl Process {
    /// A process image that has introduced itself at `at_ns` on the viewer's clock.
    pub(super) fn new(source: SourceId, pid: u32, image: u32, at_ns: u64, hello: &Hello<Box<[u8]>>) -> Process {
        Process {
            source,
            recording: None,
            pid,
            own_pid: hello.pid,
            parent: hello.parent,
            since_ns: at_ns,
            start_ticks: hello.start_ticks,
            image,
            executable: String::from_utf8_lossy(&hello.executable).into_owned(),
            argv: split_arguments(&hello.argv),
            title: Vec::new(),
            title_id: None,
            first_title: None,
            own_name: None,
            clock_offset_ns: offset_ns(at_ns, hello.monotonic_ns),
            connected: true,
            account: AgentCounters::default(),
            earlier_account: AgentCounters::default(),
            sampled_ns: 0,
            samples: 0,
            engaged: None,
            interpreter: None,
            code_versions: IdMap::default(),
            mappings: Mappings::default(),
            scripts: IdMap::default(),
            cache: SampleCache::default(),
            threads: IdMap::default(),
            live: IdMap::default(),
            intervals: SamplingIntervals::default(),
            waits: IdMap::default(),
            totals: ByClock::default(),
        }
    }

    /// Frees the memory that only further samples would need.
    pub(super) fn disconnect(&mut self) {
        self.connected = false;
        self.mappings = Mappings::default();
        self.scripts = IdMap::default();
        self.cache = SampleCache::default();
        self.threads = IdMap::default();
        self.live = IdMap::default();
        self.waits = IdMap::default();
        self.code_versions = IdMap::default();
    }

    /// Improves the clock offset with a message that was sent at `monotonic_ns` on the target's
    /// clock. No message arrives before it is sent, so the smallest difference is the best
    /// estimate.
    pub(super) fn update_clock_offset(&mut self, arrived_ns: u64, monotonic_ns: u64) {
        self.clock_offset_ns = self.clock_offset_ns.min(offset_ns(arrived_ns, monotonic_ns));
    }

    /// The name of the program: as it was typed, which may be a link to the executable. A title
    /// that the program has written over its arguments is not a name.
    pub fn name(&self) -> &str {
        if let Some(name) = &self.own_name {
            return name;
        }
        let is_name = |name: &&str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'+' | b'-');
            !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain)
        };
        let typed = self.argv.first().map(|word| file_name(word));
        typed.filter(is_name).unwrap_or_else(|| file_name(&self.executable))
    }

    /// The totals of a clock, if it ever ticked in this process.
    pub fn totals(&self, clock: Clock) -> Option<&Totals> {
        self.totals.get(clock)
    }
}

/// The last component of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The viewer's clock minus the agent's clock, as estimated from one message.
fn offset_ns(arrived_ns: u64, monotonic_ns: u64) -> i64 {
    (arrived_ns as i64).wrapping_sub(monotonic_ns as i64)
}

/// Splits NUL-terminated arguments.
fn split_arguments(argv: &[u8]) -> Vec<String> {
    let argv = argv.strip_suffix(&[0]).unwrap_or(argv);
    argv.split(|&byte| byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SpawnCause;

    #[test]
    fn a_process_is_called_as_it_was_typed() {
        for (executable, argv, name) in [
            ("/usr/bin/redis-check-rdb", "redis-server\0--save\0\0", "redis-server"),
            ("/usr/bin/python3.11", "/usr/bin/python3\0a.py\0", "python3"),
            ("/usr/sbin/nginx", "nginx: worker process\0", "nginx"),
            ("/usr/bin/bash", "-bash\0", "bash"),
            ("/usr/bin/app", "", "app"),
        ] {
            let hello = Hello {
                token: 0,
                pid: 7,
                parent: 1,
                start_ticks: 0,
                monotonic_ns: 0,
                cpu_ns: 0,
                spawn_cause: SpawnCause::Tick,
                executable: executable.as_bytes().into(),
                argv: argv.as_bytes().into(),
            };
            assert_eq!(Process::new(SourceId(1), 7, 0, 0, &hello).name(), name);
        }
    }
}

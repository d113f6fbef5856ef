//! The profile and how received messages change it. `read` has the functions that read it.

mod sample;

use std::collections::VecDeque;
use std::hint::black_box;

use super::by_clock::ByClock;
use super::change_log::ChangeLog;
use super::hash::IdMap;
use super::ids::RecordingId;
use super::interpreter_view::InterpreterView;
use super::loss::Overflows;
use super::memory::MemoryLimit;
use super::module::ModuleTable;
use super::process::{CurrentWait, Process, ProcessId};
use super::sample_cache::StackIdentity;
use super::sample_times::SampleTimes;
use super::script::ScriptTable;
use super::stack::StackTable;
use super::thread::{Thread, ThreadId, ThreadState};
use super::titles::TitleTable;
use super::totals::Totals;
use super::waits::{KnownWait, WaitTable};
use crate::wire::{Arrival, Clock, ConnectionEvent, EngineState, Message, SourceId, StackHash, StackHasher};

/// Maximum number of threads with a name and totals of their own. The samples of further threads
/// are added to [`OTHER_THREADS`] of their process.
pub(super) const MAX_THREADS: usize = 131_072;
/// The name that stands for threads beyond [`MAX_THREADS`].
pub(super) const OTHER_THREADS: &str = "[other threads]";
/// Maximum number of addresses of one process whose generated code was replaced.
const MAX_REPLACED: usize = 1 << 19;
/// Number of messages whose memory is prefetched before they are applied. What is loaded for them
/// fits the nearest cache.
const PREFETCH_BATCH: usize = 64;

/// Everything received in a session.
#[derive(Default)]
pub struct Profile {
    /// Frames and stacks of all processes.
    pub stacks: StackTable,
    /// Files of all processes.
    pub modules: ModuleTable,
    /// The waits of all threads.
    pub waits: WaitTable,
    /// The titles of processes.
    pub titles: TitleTable,
    /// Functions of interpreters of all processes.
    pub scripts: ScriptTable,
    /// The frames that are shown of threads that run an interpreter.
    pub interpreter_view: InterpreterView,
    /// Whether functions of the kernel are left out of stacks.
    pub leaves_out_kernel: bool,
    pub(super) processes: Vec<Process>,
    pub(super) threads: Vec<Thread>,
    /// Number of times that a thread got a name.
    pub(super) name_changes: u64,
    /// Numbers of threads and processes that have an owner frame.
    pub(super) owner_frames: (usize, usize),
    /// Number of threads whose deepest stack has frames.
    pub(super) deepest_with_frames: usize,
    pub(super) sources: IdMap<SourceId, ProcessId>,
    /// Disconnected processes that may still have a history, with the time when they disconnected,
    /// oldest first.
    pub(super) disconnected: VecDeque<(ProcessId, u64)>,
    /// The names of the recordings that are merged.
    pub(super) recordings: Vec<String>,
    /// The recordings of connections whose processes have not introduced themselves yet.
    pub(super) recording_of: IdMap<SourceId, RecordingId>,
    pub(super) stack_quality: StackQuality,
    /// The totals at the time of the freeze, by process. While they exist, queries read them.
    pub(super) frozen: Option<Vec<ByClock<Totals>>>,
    /// The totals that numbers are compared with, by process.
    pub(super) baseline: Vec<ByClock<Totals>>,
    /// The latest samples of each clock.
    pub(super) change_logs: ByClock<ChangeLog>,
    /// The time of every sample, if [`keep_sample_times`](Self::keep_sample_times) was called.
    pub(super) times: Option<SampleTimes>,
    /// The shortest period with which each clock was sampled.
    pub(super) shortest_periods: ByClock<u64>,
    pub(super) overflows: Overflows,
    pub(super) memory: MemoryLimit,
    hasher: StackHasher,
}

/// Numbers of samples by how complete their stacks are, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackQuality {
    /// All samples.
    pub samples: u64,
    /// Samples whose stack does not reach the thread's first frame.
    pub truncated: u64,
    /// Truncated samples of which only the leaf frame could be read.
    pub unreadable: u64,
}

impl Profile {
    /// Applies messages in order.
    ///
    /// The totals that a sample is added to lie anywhere in memory. They are prefetched for a batch
    /// of samples, so that the cache misses overlap.
    pub fn apply_all(&mut self, arrivals: Vec<Arrival>) {
        let mut rest = arrivals.into_iter();
        while !rest.as_slice().is_empty() {
            let count = rest.len().min(PREFETCH_BATCH);
            let hashes = self.prefetch(&rest.as_slice()[..count]);
            rest.by_ref().take(count).zip(hashes).for_each(|(arrival, hash)| self.apply_hashed(arrival, hash));
        }
    }

    /// Applies one message. A source has to introduce itself with a Hello; `link` enforces that,
    /// and other messages have no effect here.
    pub fn apply(&mut self, arrival: Arrival) {
        self.apply_hashed(arrival, None);
    }

    /// Loads the memory that [`apply_hashed`](Self::apply_hashed) will access, and returns the hash
    /// of each sample's stack.
    fn prefetch(&self, arrivals: &[Arrival]) -> Vec<Option<StackHash>> {
        let hash = |arrival: &Arrival| match &arrival.event {
            ConnectionEvent::Received(Message::Sample(_, frames)) => Some(self.hasher.hash(frames)),
            _ => None,
        };
        let hashes: Vec<_> = arrivals.iter().map(hash).collect();
        let key = |(arrival, &hash): (&Arrival, &Option<StackHash>)| {
            let ConnectionEvent::Received(Message::Sample(sample, frames)) = &arrival.event else { return None };
            let process = &self.processes[self.sources.get(&arrival.source)?.0 as usize];
            let thread = *process.threads.get(&sample.tid)?;
            let stack = process.receive_stack(sample, StackIdentity::Hash(hash?), frames);
            Some((process, sample.clock, process.cache.key(thread, sample.clock, &stack)))
        };
        let keys: Vec<_> = arrivals.iter().zip(&hashes).filter_map(key).collect();
        let found: Vec<_> =
            keys.iter().map(|&(process, clock, key)| (process, clock, process.cache.find(key))).collect();
        let totals = found
            .into_iter()
            .filter_map(|(process, clock, found)| Some(process.totals.get(clock)?.prefetch(found?.index)));
        black_box(totals.fold(0, |all, ns| all ^ ns));
        hashes
    }

    /// Applies one message. `hash` is the hash of its stack, if it is known.
    fn apply_hashed(&mut self, arrival: Arrival, hash: Option<StackHash>) {
        let Arrival { source, pid, at_ns, event } = arrival;
        self.expire_disconnected(at_ns);
        match event {
            ConnectionEvent::Received(Message::Hello(hello)) => {
                self.disconnect(source, at_ns);
                self.add_process(source, pid, at_ns, &hello);
            }
            ConnectionEvent::Received(message) => {
                let Some(&id) = self.sources.get(&source) else { return };
                match message {
                    Message::Sample(sample, frames) => {
                        let hash = hash.unwrap_or_else(|| self.hasher.hash(&frames));
                        let process = &self.processes[id.0 as usize];
                        let stack = process.receive_stack(&sample, StackIdentity::Hash(hash), &frames);
                        self.add_sample(id, at_ns, &sample, stack);
                    }
                    message => self.apply_message(id, at_ns, message),
                }
            }
            ConnectionEvent::Closed | ConnectionEvent::Aborted(_) => self.disconnect(source, at_ns),
        }
    }

    /// Notes that an address of generated code in a process has other code from now on. Frames of
    /// later samples there are new ones, so that the earlier keep their names.
    pub fn set_code_version(&mut self, id: ProcessId, address: u64, code_version: u16) {
        let Some(process) = self.processes.get_mut(id.0 as usize).filter(|process| process.connected) else { return };
        let known = process.code_versions.len();
        let version = process.code_versions.entry(address).or_default();
        // The number of sampled addresses is limited, but that of a recording may not be.
        if code_version > *version && known < MAX_REPLACED {
            *version = code_version;
            process.cache.clear();
        }
    }

    /// Notes the name that a process, or a child of it, has given to itself, when its first thread
    /// has got a name. Programs that are executed often name their first thread by what it does, so
    /// only fork children count.
    fn name_process(&mut self, id: ProcessId, tid: u32) {
        let own_pid = self.processes[id.0 as usize].own_pid;
        if tid != own_pid {
            return;
        }
        let children = self.processes.iter().zip(0..).filter(|(process, _)| process.parent == own_pid);
        let children: Vec<u32> = children.map(|(_, index)| index).collect();
        for index in [&[id.0], &children[..]].concat() {
            self.processes[index as usize].own_name = self.find_own_name(&self.processes[index as usize]);
        }
    }

    fn find_own_name(&self, process: &Process) -> Option<String> {
        let runs_the_same = |other: &&Process| {
            other.own_pid == process.parent && (&other.executable, &other.argv) == (&process.executable, &process.argv)
        };
        let first_thread = |of: &Process| of.threads.get(&of.own_pid).map(|id| &self.threads[id.0 as usize].name);
        let of_parent = first_thread(self.processes.iter().rev().find(runs_the_same)?)?;
        first_thread(process).filter(|name| !name.is_empty() && *name != of_parent).cloned()
    }

    /// Applies any message but a Hello and a sample.
    fn apply_message(&mut self, id: ProcessId, at_ns: u64, message: Message) {
        let process = &mut self.processes[id.0 as usize];
        match message {
            Message::Module(module) => {
                process.cache.clear();
                process.mappings.load(&module, &mut self.modules, process.pid);
            }
            Message::Unload(unload) => {
                process.cache.clear();
                process.mappings.unload(&unload);
            }
            Message::Thread(named) => {
                let thread = self.thread_id(id, named.tid);
                let thread = &mut self.threads[thread.0 as usize];
                if thread.tid == named.tid {
                    thread.name = String::from_utf8_lossy(&named.name).into_owned();
                    self.name_changes += 1;
                    self.name_process(id, named.tid);
                }
            }
            Message::ThreadEnd { tid } => {
                process.waits.remove(&tid);
                if let Some(thread) = process.threads.remove(&tid) {
                    self.threads[thread.0 as usize].ended = true;
                }
            }
            Message::Wait(wait) => {
                // A number that belongs to no known thread names no holder.
                let holder = process.threads.get(&wait.holder).copied().filter(|_| wait.holder != 0);
                if process.threads.contains_key(&wait.tid) {
                    let data = wait.call.futex().and_then(|address| process.mappings.find_data(address));
                    let id = self.waits.intern(KnownWait::new(&wait, holder, data));
                    // The holder of a lock may change during one wait.
                    let since_ns = process.waits.get(&wait.tid).and_then(|known| known.since_ns);
                    let wait_now = CurrentWait { wait: id, since_ns, seen_ns: Some(at_ns), stack: None };
                    process.waits.insert(wait.tid, wait_now);
                }
            }
            Message::Counters(counters) => {
                process.update_clock_offset(at_ns, counters.monotonic_ns);
                process.earlier_account = std::mem::replace(&mut process.account, counters);
            }
            Message::Engaged(engaged) => {
                let restarts = engaged.clock == Clock::Alloc;
                if engaged.state == EngineState::Running && engaged.period_ns > 0 {
                    let shortest = self.shortest_periods.get_or_default(engaged.clock);
                    *shortest = if *shortest == 0 { engaged.period_ns } else { engaged.period_ns.min(*shortest) };
                }
                process.engaged = Some(engaged);
                // The ticks before are no measure of the rate from now on.
                (process.account.monotonic_ns, process.earlier_account.monotonic_ns) = (0, 0);
                if restarts {
                    self.restart_live(id);
                }
            }
            Message::Freed { id: allocation, left } => self.shrink_live(id, allocation, left),
            Message::Function(function) => {
                if let Some(id) = self.scripts.add(&function) {
                    process.scripts.insert(function.id, id);
                }
            }
            Message::DeepestStack(stack) => self.set_deepest_stack(id, &stack),
            Message::Interpreter(interpreter) => process.interpreter = Some(interpreter),
            Message::Hello(_) | Message::Sample(..) | Message::Busy { .. } => {}
        }
    }

    fn thread_id(&mut self, process: ProcessId, tid: u32) -> ThreadId {
        let threads = &mut self.processes[process.0 as usize].threads;
        if let Some(&id) = threads.get(&tid) {
            return id;
        }
        let full = self.threads.len() >= MAX_THREADS;
        let (tid, name) = if full { (0, OTHER_THREADS.to_owned()) } else { (tid, String::new()) };
        *threads.entry(tid).or_insert_with(|| {
            self.threads.push(Thread {
                process,
                tid,
                name,
                ended: false,
                state: ThreadState::default(),
                deepest: None,
            });
            ThreadId(self.threads.len() as u32 - 1)
        })
    }
}

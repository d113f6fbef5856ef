//! The tracer thread: at a random instant in each period it looks at threads, asks those that run
//! to stop, copies their registers and stacks, and lets them run on.
//!
//! Nothing but the reading of registers, one copy of the stack, the reading of an interpreter's
//! frames and the repair of an interrupted system call happens while a thread is stopped. A thread
//! is traced for that time alone: as long as it is traced, each of its signals would stop it, and a
//! debugger could not attach.

mod coverage;
mod images;
mod kernel_samples;
mod links;
mod looks;
mod outbox;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use crossbeam_channel::TryRecvError;

use super::children::{ChildSchedule, SEARCH_NS};
use super::clock::{monotonic_ns, thread_cpu_ns};
use super::cut_short::{self, is_repeatable};
use super::events::{ImageId, SampledStack, SampledState, SamplerConfig, TracerEvent, UnwalkedSample, WalkerRequest};
use super::heartbeat::Heartbeat;
use super::perf::{KernelSampler, ThreadNumbers};
use super::process::WatchedProcess;
use super::ptrace::{self, ThreadEvent};
use super::restart;
use super::stack_copy::StackCopy;
use crate::arch::{self, RED_ZONE, StoppedRegisters};
use crate::attach::proc::{ProcStat, ProcessIdentity};
use crate::process::unwind::ThreadRegisters;
use crate::wire::{Clock, Engine};
pub(super) use links::{TracerCommand, TracerLinks, TracerReport};

/// Longest wait, so that commands are read and children are found.
const MAX_WAIT: Duration = Duration::from_nanos(SEARCH_NS);
/// Longest wait while a stop is under way, so that the heartbeat goes on.
const MAX_STOP_WAIT: Duration = Duration::from_millis(5);
/// Maximum time for stops that are under way when the tracer ends.
const LAST_STOPS: Duration = Duration::from_secs(10);
/// Maximum time for the last messages.
const LAST_MESSAGES: Duration = Duration::from_secs(1);
/// The time that a thread is taken to stand still before its stop is noticed, ns, at most.
const NOTICE_NS: u64 = 20_000;
/// Minimum time between two ticks, in multiples of the CPU time that the last one took: this
/// thread, which goes before all ordinary ones, takes at most a quarter of a CPU.
const REST: u64 = 4;
/// Time in which this thread, when it wakes, takes the CPU from another one and reads the clock,
/// ns. The other one did not wait for a CPU before that.
const PREEMPTION_NS: u64 = 100_000;
/// Maximum number of watched processes.
const MAX_PROCESSES: usize = 4096;
/// Maximum number of bytes of stacks that wait for the walker.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// The state of the tracer thread.
pub(super) struct Tracer {
    links: TracerLinks,
    config: SamplerConfig,
    heartbeat: Heartbeat,
    processes: HashMap<u32, WatchedProcess>,
    /// Threads that were asked to stop, with their process.
    asked: HashMap<u32, u32>,
    /// Processes and threads that were found running in this tick.
    running: Vec<(u32, u32)>,
    /// Events that wait for room in the channel.
    outbox: VecDeque<(ImageId, TracerEvent)>,
    /// CPU time of processes of which all events were dropped, ns.
    dropped_ns: u64,
    next_image: u32,
    /// Processes that the viewer has named.
    roots: HashSet<ProcessIdentity>,
    /// Time of the last search for roots that are not watched, ns.
    roots_ns: u64,
    /// Processes that cannot be watched.
    given_up: HashSet<ProcessIdentity>,
    scratch: StackCopy,
    /// Number of stacks of sleeping threads that were copied in this tick.
    sleeping_copies: usize,
    tick: u64,
    /// The time of this tick, ns: threads that ran then are sampled.
    tick_ns: u64,
    children: ChildSchedule,
    random: u64,
    engine: Engine,
    /// Whether the viewer knows that the kernel takes fewer samples.
    is_throttled: bool,
    /// The rings and events of processes that the kernel samples, once there is one.
    kernel: Option<KernelSampler>,
    /// Threads with events that had not run for a while when they were looked at.
    idle: Vec<ThreadNumbers>,
    /// Whether the viewer knows that threads take turns to have events.
    is_turn_told: bool,
    /// Processes with events that are about to execute a program.
    prepared: HashSet<u32>,
    /// Whether the viewer knows that there is a process with a supervisor.
    is_supervision_told: bool,
    /// Processes in which an interpreter was found whose frames are to be read.
    interpreted: HashSet<ProcessIdentity>,
}

impl Tracer {
    pub(super) fn new(links: TracerLinks, config: SamplerConfig, engine: Engine, heartbeat: Heartbeat) -> Tracer {
        Tracer {
            links,
            config,
            heartbeat,
            processes: HashMap::new(),
            asked: HashMap::new(),
            running: Vec::new(),
            outbox: VecDeque::new(),
            dropped_ns: 0,
            next_image: 0,
            roots: HashSet::new(),
            roots_ns: 0,
            given_up: HashSet::new(),
            scratch: StackCopy::default(),
            sleeping_copies: 0,
            tick: 0,
            tick_ns: 0,
            children: ChildSchedule::new(),
            // Any number but 0 does.
            random: monotonic_ns() | 1,
            engine,
            is_throttled: false,
            kernel: None,
            idle: Vec::new(),
            is_turn_told: false,
            prepared: HashSet::new(),
            is_supervision_told: false,
            interpreted: HashSet::new(),
        }
    }

    /// Samples until the viewer is gone. Stops that were asked for are served to the end.
    pub(super) fn run(&mut self) {
        let mut base_ns = monotonic_ns();
        let (mut ticked_ns, mut used_ns) = (0, thread_cpu_ns());
        while self.read_commands() {
            let period_ns = self.config.period_ns;
            let rest_ns = REST * (thread_cpu_ns() - std::mem::replace(&mut used_ns, thread_cpu_ns()));
            let at_ns = (base_ns + self.random_below(period_ns)).max(ticked_ns + rest_ns);
            base_ns += period_ns;
            // After a pause, such as that of a suspended machine, ticks are not made up for.
            base_ns = base_ns.max(monotonic_ns().saturating_sub(4 * period_ns));
            if !self.serve_until(at_ns, period_ns) {
                break;
            }
            ticked_ns = monotonic_ns();
            self.tick(ticked_ns);
            self.flush();
        }
        let end_ns = monotonic_ns() + LAST_STOPS.as_nanos() as u64;
        while !self.asked.is_empty() && monotonic_ns() < end_ns {
            self.serve_stops();
            self.forget_ended_threads();
            self.heartbeat.beat(!self.asked.is_empty());
            ptrace::wait_for_event(MAX_STOP_WAIT);
        }
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.end_image(pid));
        self.flush_within(LAST_MESSAGES);
    }

    /// Reads commands and requests. Returns whether the viewer is still there.
    fn read_commands(&mut self) -> bool {
        loop {
            match self.links.commands.try_recv() {
                Ok(TracerCommand::Prepare { pid }) => self.prepare(pid),
                Ok(TracerCommand::Watch { process, scope }) => {
                    if self.prepared.contains(&process.pid) {
                        // It has executed the program, and the record of that is there.
                        self.read_events();
                        self.prepared.remove(&process.pid);
                    }
                    self.given_up.remove(&process);
                    // The viewer asks for the others again if their connections are lost.
                    if scope.has_children() {
                        // The agents of children may have left.
                        self.given_up.clear();
                        self.roots.insert(process);
                        self.children.search_all(monotonic_ns());
                    }
                    self.watch(process, scope);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        while let Ok(request) = self.links.requests.try_recv() {
            match request {
                WalkerRequest::Configure(config) => self.configure(config),
                WalkerRequest::Leave(image) => {
                    let left = self.processes.values().find(|process| process.image == image);
                    if let Some(process) = left.map(WatchedProcess::identity) {
                        self.given_up.insert(process);
                        self.roots.remove(&process);
                        self.read_events();
                        self.leave_image(process.pid);
                    }
                }
                WalkerRequest::Reconnect(image) => self.processes.retain(|_, process| process.image != image),
                WalkerRequest::Interpret { image, cpython } => {
                    let process = self.processes.values_mut().find(|process| process.image == image);
                    let mut stopped = None;
                    if let Some(process) = process {
                        process.cpython = cpython;
                        // Stacks of threads that sleep already are copied again, with frames.
                        process.threads.values_mut().for_each(|thread| thread.is_stack_known = false);
                        let is_read = self.engine == Engine::External && cpython.is_some() && process.has_events();
                        stopped = is_read.then(|| process.identity());
                    }
                    if let Some(identity) = stopped {
                        // Its frames are read while its threads stand still.
                        self.interpreted.insert(identity);
                        self.close_events(identity.pid);
                        self.restart_image(identity.pid);
                    }
                }
                WalkerRequest::CopyMore { image, tid, around } => {
                    let mut process = self.processes.values_mut().find(|process| process.image == image);
                    let has_events = process.as_ref().is_some_and(|process| process.has_events());
                    if let Some(thread) = process.as_mut().and_then(|process| process.threads.get_mut(&tid)) {
                        let is_more = match around {
                            Some(address) => thread.extent.reach(address),
                            None => thread.extent.extend(),
                        };
                        thread.is_stack_known &= !is_more;
                    }
                    if has_events && around.is_none() {
                        self.copy_more_by_events();
                    }
                }
            }
        }
        true
    }

    fn configure(&mut self, config: SamplerConfig) {
        if config.clock != self.config.clock {
            let now_ns = monotonic_ns();
            self.processes.values_mut().for_each(|process| process.restart(now_ns));
        }
        self.config = config;
        self.change_events_period();
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit.max(1)
    }

    /// Serves stops until a time. Returns whether the viewer is still there.
    fn serve_until(&mut self, at_ns: u64, period_ns: u64) -> bool {
        self.tick_ns = at_ns;
        loop {
            self.serve_stops();
            self.heartbeat.beat(!self.asked.is_empty());
            self.flush();
            // No thread stands still meanwhile.
            if self.links.follow && self.asked.is_empty() {
                self.watch_children(monotonic_ns());
            }
            let left_ns = at_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return true;
            }
            let longest = if self.asked.is_empty() { MAX_WAIT } else { MAX_STOP_WAIT };
            self.wait(Duration::from_nanos(left_ns).min(longest));
            self.read_events();
            self.tick_ns = at_ns.max(monotonic_ns().saturating_sub(PREEMPTION_NS));
            // Commands are read once a period, or more often in long periods.
            if period_ns > MAX_WAIT.as_nanos() as u64 && !self.read_commands() {
                return false;
            }
            if self.config.period_ns != period_ns {
                return true;
            }
        }
    }

    fn serve_stops(&mut self) {
        while let Some((tid, event)) = ptrace::next_event() {
            let pid = self.asked.remove(&tid);
            match event {
                ThreadEvent::Stopped { signal } => self.serve_stop(pid, tid, signal),
                // The process stays stopped, and SIGCONT works as usual.
                ThreadEvent::GroupStopped => {
                    let _ = ptrace::detach(tid, 0);
                }
                ThreadEvent::Ended => {
                    pid.into_iter().for_each(|pid| self.end_thread(pid, tid, monotonic_ns(), true));
                    continue;
                }
            }
            let thread = pid.and_then(|pid| self.processes.get_mut(&pid)?.threads.get_mut(&tid));
            if let Some(thread) = thread {
                (thread.stop_request, thread.is_seized) = (None, false);
            }
        }
    }

    /// Forgets the stops of threads that will not report one. A thread that executes a program
    /// takes the number of the first thread and reports its stop by that; the first thread then
    /// vanishes without a report. One that has ended before the others is reported after them.
    fn forget_ended_threads(&mut self) {
        let is_running = |tid, pid| ProcStat::of_thread(pid, tid).is_ok_and(|stat| !stat.is_ended_thread());
        self.asked.retain(|&tid, &mut pid| is_running(tid, pid));
    }

    /// Takes a sample of a stopped thread and lets it run on.
    fn serve_stop(&mut self, pid: Option<u32>, tid: u32, signal: i32) {
        let noticed_ns = monotonic_ns();
        let mut process = pid.and_then(|pid| self.processes.get_mut(&pid));
        let registers = StoppedRegisters::read(tid);
        let mut list = None;
        let extent = process.as_ref().and_then(|it| it.threads.get(&tid)).map(|thread| thread.extent);
        self.scratch.clear();
        if let (Ok(registers), Some(extent)) = (&registers, extent) {
            extent.copy(&mut self.scratch, tid, registers.stack_pointer().saturating_sub(RED_ZONE), false);
            let ip = registers.instruction_pointer();
            list = process.as_mut().and_then(|process| process.read_frames(tid, ip, &self.scratch));
        }
        let call = registers.as_ref().ok().and_then(StoppedRegisters::system_call);
        let is_interrupted = |registers: &StoppedRegisters| match call {
            Some(call) if signal == 0 && registers.is_interrupted() => {
                restart::is_restartable(call, registers.arguments())
            }
            _ => registers.is_continued() && restart::is_filtered(tid),
        };
        let registers_at_call = registers.as_ref().ok().filter(|_| call.is_some());
        let is_cut_short = |registers| signal == 0 && pid.is_some_and(|pid| is_repeatable(pid, tid, registers));
        let is_cut_short = registers_at_call.is_some_and(is_cut_short);
        let is_repeated =
            (is_cut_short || registers_at_call.is_some_and(is_interrupted)) && arch::repeat_system_call(tid).is_ok();
        let is_made_whole = is_cut_short && is_repeated;
        // While it stands still, its times are exact.
        let has_ended = process.as_mut().is_none_or(|process| process.update_thread(tid, self.tick).is_none());
        let _ = ptrace::detach(tid, signal);
        let now_ns = monotonic_ns();
        let has_lost_rest = |registers| pid.is_some_and(|pid| cut_short::has_lost_rest(pid, tid, registers));
        let has_lost_rest =
            is_cut_short && !is_made_whole || signal == 0 && registers_at_call.is_some_and(has_lost_rest);
        let Some(process) = process else { return };
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        let (is_late, period_ns) = (thread.patience.take_late(), self.config.period_ns);
        match (is_made_whole, has_lost_rest) {
            (true, _) => thread.patience.note_repetition(cut_short::reads(tid), now_ns, period_ns),
            (_, true) => thread.patience.note_loss(now_ns, period_ns),
            _ => thread.patience.note_harmless(),
        }
        let has_waited = thread.note_stop(noticed_ns);
        let asked_ns = thread.stop_request.map_or(noticed_ns, |request| request.at_ns);
        let held_ns = now_ns - noticed_ns;
        process.counters.stopped_ns += held_ns + noticed_ns.saturating_sub(asked_ns).min(NOTICE_NS);
        let Ok(registers) = registers else { return };
        let image = process.image;
        if !has_ended {
            thread.is_stack_known = false;
        }
        // The CPU time for which it was left alone is that of the sample before and of this one.
        let clock = self.config.clock;
        let earlier_ns = if is_late && clock != Clock::Real { thread.take_half() } else { 0 };
        // Where a thread lost its CPU is no fair sample of where it spends time: what it did there
        // may have been the reason.
        let (weight_ns, delayed_ns, state) = match (clock, has_waited) {
            (Clock::Real, true) => (0, thread.take_delay(now_ns), SampledState::Running),
            (Clock::Real, false) => {
                let wall_ns = thread.take_wall_time(now_ns, period_ns);
                let delayed_ns = thread.take_delay_within(wall_ns);
                (wall_ns - delayed_ns, delayed_ns, SampledState::Running)
            }
            (_, true) => (0, 0, SampledState::Running),
            (_, false) => {
                let (weight_ns, state) = thread.system_share.weigh(&mut thread.unsampled_ns, period_ns, call.is_some());
                (weight_ns, 0, state)
            }
        };
        self.send_sample(image, tid, earlier_ns, now_ns, (SampledStack::Repeated, SampledState::Running));
        let registers = ThreadRegisters::of_all(registers.registers());
        let stack = SampledStack::Copied(registers, self.links.copy_of(&self.scratch), list);
        if weight_ns == 0 {
            return self.send_sample(image, tid, delayed_ns, now_ns, (stack, SampledState::Runnable));
        }
        self.send_sample(image, tid, weight_ns, now_ns, (stack, state));
        self.send_sample(image, tid, delayed_ns, now_ns, (SampledStack::Repeated, SampledState::Runnable));
    }

    fn send_sample(
        &mut self,
        image: ImageId,
        tid: u32,
        weight_ns: u64,
        now_ns: u64,
        (stack, state): (SampledStack, SampledState),
    ) {
        if weight_ns == 0 {
            return;
        }
        let clock = self.config.clock;
        let kernel = Vec::new();
        let sample = UnwalkedSample { tid, clock, weight_ns, monotonic_ns: now_ns, stack, kernel, state };
        self.outbox.push_back((image, TracerEvent::Sample(sample)));
    }
}

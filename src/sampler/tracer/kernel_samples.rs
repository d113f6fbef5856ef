//! Samples that the kernel has taken: which processes have them, and what becomes of its records.

use std::collections::HashSet;
use std::time::Duration;

use super::{Tracer, TracerReport};
use crate::arch::STACK_POINTER;
use crate::attach::proc::{self, ProcStat, ProcessIdentity};
use crate::sampler::clock::monotonic_ns;
use crate::sampler::events::{SampledStack, SampledState, TracerEvent, UnwalkedSample};
use crate::sampler::interpreter;
use crate::sampler::perf::{Events, KernelSampler, OpenError, Record, SampleRecord, ThreadNumbers, WatchedTid};
use crate::sampler::process::WatchedProcess;
use crate::sampler::ptrace;
use crate::sampler::scope::WatchScope;
use crate::wire::{Clock, Engine, LossCause};

/// CPU time that a sample takes from its thread, ns: the interrupt, and the copy of the stack. On a
/// virtual machine it was 10 to 20 µs.
const SAMPLE_COST_NS: u64 = 15_000;
/// Maximum number of listings of the threads of a process that is to be watched.
const LISTINGS: usize = 3;

impl Tracer {
    /// Waits until there may be something to do, at most this long.
    pub(super) fn wait(&self, at_most: Duration) {
        match &self.kernel {
            Some(kernel) => kernel.wait(at_most),
            None => ptrace::wait_for_event(at_most),
        }
    }

    /// Has the kernel sample a process, if it may and does so for this user.
    ///
    /// # Errors
    /// If it does not.
    pub(super) fn open_events(&mut self, identity: ProcessIdentity, scope: WatchScope) -> Result<(), OpenError> {
        let pid = identity.pid;
        if self.engine == Engine::Ptrace || scope.is_asleep() {
            return Err(OpenError::Refused);
        }
        let is_interpreted = || self.interpreted.contains(&identity) || interpreter::is_likely(pid);
        if self.engine == Engine::External && is_interpreted() {
            // The frames of an interpreter can be read of a thread that stands still alone.
            return Err(OpenError::Refused);
        }
        if self.kernel.is_none() {
            self.kernel = KernelSampler::new(self.config.period_ns);
        }
        let Some(kernel) = &mut self.kernel else { return Err(OpenError::Refused) };
        let has_children = scope.has_children() && self.links.follow;
        let mut opened = Err(OpenError::Ended);
        let mut known = HashSet::new();
        // Threads may begin meanwhile; those that are made by a thread with events inherit them.
        for _ in 0..LISTINGS {
            let mut new: Vec<u32> = proc::threads(pid).into_iter().filter(|&tid| known.insert(tid)).collect();
            if new.is_empty() {
                break;
            }
            if !kernel.events.has_room_for(new.len()) {
                // Those that run come first.
                new.sort_by_cached_key(|&tid| std::cmp::Reverse(activity_of(pid, tid)));
            }
            for tid in new {
                let watched = WatchedTid { thread: ThreadNumbers { pid, tid }, has_children };
                match kernel.events.watch(&kernel.rings, watched) {
                    // Threads without events have their turn once they run.
                    Ok(()) | Err(OpenError::Full) => opened = Ok(()),
                    Err(OpenError::Ended) => {}
                    Err(error) => {
                        kernel.events.forget_process(pid);
                        return Err(error);
                    }
                }
            }
        }
        opened
    }

    /// Opens the events of a process that is about to execute a program, if that is allowed, and
    /// lets it go on.
    pub(super) fn prepare(&mut self, pid: u32) {
        if let Ok(identity) = ProcessIdentity::of(pid)
            && self.open_events(identity, WatchScope::FromStart).is_ok()
        {
            self.prepared.insert(pid);
        }
        self.heartbeat.open_gate(pid);
    }

    /// Samples a process by stops from now on.
    pub(super) fn close_events(&mut self, pid: u32) {
        if let Some(kernel) = &mut self.kernel {
            kernel.events.forget_process(pid);
        }
    }

    /// All threads that the kernel samples.
    fn threads_with_events(&self) -> Vec<WatchedTid> {
        let follow = self.links.follow;
        let of_process = |process: &WatchedProcess| {
            let (pid, has_children) = (process.pid, process.scope.has_children() && follow);
            let tids: Vec<u32> = process.threads.keys().copied().collect();
            tids.into_iter().map(move |tid| WatchedTid { thread: ThreadNumbers { pid, tid }, has_children })
        };
        self.processes.values().filter(|process| process.has_events()).flat_map(of_process).collect()
    }

    /// Has the kernel sample with another period.
    pub(super) fn change_events_period(&mut self) {
        let threads = self.threads_with_events();
        if let Some(KernelSampler { rings, events, .. }) = &mut self.kernel {
            events.set_period(rings, self.config.period_ns, &threads, monotonic_ns());
        }
        self.note_coverage();
    }

    /// Has the kernel copy more of each stack.
    pub(super) fn copy_more_by_events(&mut self) {
        let threads = self.threads_with_events();
        if let Some(KernelSampler { rings, events, .. }) = &mut self.kernel {
            events.copy_more(rings, &threads, monotonic_ns());
        }
        self.note_coverage();
    }

    /// Gives threads of frequent births events of their own, if that is due. To be called in each
    /// tick.
    pub(super) fn settle_events(&mut self, now_ns: u64) {
        if self.kernel.as_mut().is_some_and(|kernel| kernel.events.are_to_be_settled(now_ns)) {
            let threads = self.threads_with_events();
            if let Some(KernelSampler { rings, events, .. }) = &mut self.kernel
                && events.has_room_for(threads.len())
            {
                events.settle(rings, &threads, now_ns);
            }
            self.note_coverage();
        }
        self.watch_listed_threads();
        self.take_turns(now_ns);
    }

    /// Opens events for threads that were listed and are not known by their birth.
    fn watch_listed_threads(&mut self) {
        let Some(KernelSampler { rings, events, .. }) = &mut self.kernel else { return };
        for process in self.processes.values_mut().filter(|process| process.has_events()) {
            for tid in std::mem::take(&mut process.listed) {
                let thread = ThreadNumbers { pid: process.pid, tid };
                let has_children = process.scope.has_children() && self.links.follow;
                let is_watched = events.is_watched(tid)
                    || events.watch(rings, WatchedTid { thread, has_children }) != Err(OpenError::Full);
                if let Some(thread) = process.threads.get_mut(&tid) {
                    thread.has_events = is_watched;
                }
            }
        }
    }

    /// Handles the records that are there.
    pub(super) fn read_events(&mut self) {
        let Some(mut kernel) = self.kernel.take() else { return };
        // Records of other CPUs may still be on their way.
        let until_ns = monotonic_ns();
        let mut is_read = HashSet::new();
        loop {
            let KernelSampler { rings, events, missed, .. } = &mut kernel;
            let Some((ring, at_ns, record)) = rings.peek(until_ns) else { break };
            if let Record::Sample(sample) = &record
                && is_read.insert(sample.thread.pid)
                && let Some(process) = self.processes.get_mut(&sample.thread.pid)
            {
                process.read_cpu_time(until_ns);
            }
            let mut executed = None;
            match record {
                Record::Sample(sample) => self.take_event(events, &sample, at_ns, until_ns),
                Record::Started { thread, maker } => {
                    events.note_birth(rings, thread, maker, until_ns);
                    if !self.note_birth(thread, maker, until_ns) {
                        missed.insert(thread.pid, maker.pid);
                    }
                }
                Record::Ended(thread) => {
                    events.forget_thread(thread.tid);
                    missed.remove(&thread.pid);
                    self.prepared.remove(&thread.tid);
                    if let Some(process) = self.processes.get_mut(&thread.pid).filter(|process| process.has_events()) {
                        process.read_cpu_time(u64::MAX);
                        self.end_thread(thread.pid, thread.tid, at_ns, true);
                    }
                }
                Record::Used { thread, cpu_ns } => {
                    if let Some(process) = self.processes.get_mut(&thread.pid) {
                        process.note_ended_thread(cpu_ns);
                    } else if let Some(maker) = missed.get(&thread.pid)
                        && let Some(process) = self.processes.get_mut(maker)
                    {
                        process.lose(LossCause::Unaccounted, cpu_ns);
                    }
                }
                Record::Named { thread, name } => {
                    if let Some(process) = self.processes.get(&thread.pid) {
                        self.outbox.push_back((process.image, TracerEvent::ThreadNamed { tid: thread.tid, name }));
                    }
                }
                Record::Executed(thread) => executed = Some(thread.pid),
                Record::Mapped(thread) => {
                    if let Some(process) = self.processes.get(&thread.pid) {
                        self.outbox.push_back((process.image, TracerEvent::Mapped));
                    }
                }
                Record::Lost { thread, records } => {
                    let period_ns = self.config.period_ns;
                    let process = match self.processes.get_mut(&thread.pid) {
                        Some(process) => Some(process),
                        None => self.processes.values_mut().find(|process| process.has_events()),
                    };
                    if let Some(process) = process {
                        process.lose_events(records, period_ns);
                    }
                }
                Record::Throttled => {
                    if !std::mem::replace(&mut self.is_throttled, true) {
                        let _ = self.links.reports.send(TracerReport::Throttled);
                    }
                }
                Record::Other => {}
            }
            kernel.rings.advance(ring);
            if let Some(pid) = executed {
                kernel.events.forget_process(pid);
                self.kernel = Some(kernel);
                if self.prepared.remove(&pid) {
                    if let Ok(identity) = ProcessIdentity::of(pid) {
                        self.roots.insert(identity);
                        self.watch(identity, WatchScope::FromStart);
                    }
                } else {
                    self.restart_image(pid);
                }
                let Some(taken) = self.kernel.take() else { return };
                kernel = taken;
            }
        }
        self.kernel = Some(kernel);
    }

    /// Notes a new thread, or watches a new process. Returns false if that has ended already.
    fn note_birth(&mut self, thread: ThreadNumbers, maker: ThreadNumbers, now_ns: u64) -> bool {
        let Some(process) = self.processes.get_mut(&maker.pid).filter(|process| process.has_events()) else {
            return true;
        };
        if thread.pid == maker.pid {
            process.add_thread(thread.tid, true, now_ns, self.tick, &mut self.outbox);
            return true;
        }
        if !process.scope.has_children() || !self.links.follow {
            return true;
        }
        let carried_ns = std::mem::take(&mut process.carried_ns);
        let Ok(identity) = ProcessIdentity::of(thread.pid) else { return false };
        self.watch_born(identity);
        match self.processes.get_mut(&thread.pid) {
            Some(child) => child.carried_ns = carried_ns,
            None => {
                if let Some(process) = self.processes.get_mut(&maker.pid) {
                    process.carried_ns = carried_ns;
                }
                return false;
            }
        }
        true
    }

    /// Sends a sample that the kernel has taken at a time, ns.
    fn take_event(&mut self, events: &mut Events, sample: &SampleRecord<'_>, at_ns: u64, now_ns: u64) {
        let ThreadNumbers { pid, tid } = sample.thread;
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.has_events()) else { return };
        let Some(due_ns) = events.weigh(sample, at_ns, now_ns) else { return };
        let (image, period_ns) = (process.image, self.config.period_ns);
        process.counters.stopped_ns += SAMPLE_COST_NS;
        let weight_ns = process.take_event_weight(due_ns, period_ns, events.cpus());
        let (weight_ns, delayed_ns) = match (self.config.clock, process.threads.get_mut(&tid)) {
            (Clock::Real, Some(thread)) => {
                thread.is_stack_known = false;
                thread.take_event(weight_ns, at_ns)
            }
            _ => (weight_ns, 0),
        };
        let Some(registers) = sample.registers else { return };
        let mut copy = self.links.spare_copy();
        let sp = registers.get(STACK_POINTER).unwrap_or(0);
        copy.add(sp, sample.stack_length(), |buffer| sample.copy_stack(buffer));
        if let Some(thread) = process.threads.get_mut(&tid) {
            thread.steady_parts.copy(&thread.extent, &mut copy, pid, sp);
        }
        let sample = UnwalkedSample {
            tid,
            clock: self.config.clock,
            weight_ns,
            monotonic_ns: at_ns,
            stack: SampledStack::Copied(registers, copy, None),
            kernel: sample.kernel.clone(),
            state: SampledState::Running,
        };
        if weight_ns > 0 {
            self.outbox.push_back((image, TracerEvent::Sample(sample)));
        }
        self.send_sample(image, tid, delayed_ns, at_ns, (SampledStack::Repeated, SampledState::Runnable));
    }

    /// Sends the system time of processes whose user may not look into the kernel: samples of them
    /// are in user code alone.
    pub(super) fn send_system_time(&mut self, pid: u32, now_ns: u64) {
        if self.kernel.as_ref().is_none_or(|kernel| kernel.events.sees_kernel()) {
            return;
        }
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.has_events()) else { return };
        let image = process.image;
        for (tid, system_ns) in process.take_system_time() {
            let weight_ns = match (self.config.clock, process.threads.get_mut(&tid)) {
                (Clock::Real, Some(thread)) => {
                    thread.is_stack_known = false;
                    thread.take_event(system_ns, now_ns).0
                }
                _ => system_ns,
            };
            if weight_ns > 0 {
                let (clock, kernel) = (self.config.clock, Vec::new());
                let (stack, state) = (SampledStack::Kernel, SampledState::Running);
                let sample = UnwalkedSample { tid, clock, weight_ns, monotonic_ns: now_ns, stack, kernel, state };
                self.outbox.push_back((image, TracerEvent::Sample(sample)));
            }
        }
    }
}

/// Returns whether a thread runs, and its CPU time, clock ticks: that of the busiest is largest.
fn activity_of(pid: u32, tid: u32) -> (bool, u64) {
    ProcStat::of_thread(pid, tid).map_or((false, 0), |stat| (stat.state == b'R', stat.user_ticks + stat.system_ticks))
}

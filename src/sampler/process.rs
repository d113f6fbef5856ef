//! One watched process image: its threads and its CPU time.
//!
//! [`turns`] chooses the threads that are looked at in a tick, and [`balance`] accounts for the CPU
//! time. The kernel adds up the times of all threads to tell that of the process, so it is asked
//! less often where there are thousands.

mod balance;
mod turns;

use std::collections::{BTreeMap, VecDeque};

use super::clock::{monotonic_ns, started_ns};
use super::events::{ImageId, TracerCounters, TracerEvent};
use super::interpreter;
use super::scope::WatchScope;
use super::stack_copy::StackCopy;
use super::supervision::Supervision;
use super::threads::WatchedThread;
use crate::attach::proc::{self, ProcStat, ProcessIdentity};
use crate::process::cpython::frames::{CPython, FrameList};
use crate::wire::{Engine, LossCause};

/// Minimum time between two readings of the process's CPU time, in multiples of what the last one
/// took: they take at most a third of a percent of a processor.
const CPU_REST: u64 = 300;
/// Maximum time between two readings of it, ns.
const MAX_CPU_REST_NS: u64 = 500_000_000;
/// Time between two looks at the process as a whole, ns.
const CHECK_NS: u64 = 50_000_000;
/// Minimum time between two listings of the threads, ns.
const LIST_NS: u64 = 20_000_000;
/// Maximum number of new threads in one listing. The next tick continues, as stops are served
/// between ticks.
const MAX_NEW_THREADS: usize = 256;

/// CPU time that a process uses before a stop may meet it, unless it has executed a program, ns. A
/// process that is made to execute one does so within this time, and a stop would take the rights
/// of a setuid program from it.
const LEFT_ALONE_NS: u64 = 10_000_000;
/// Time that the kernel takes at most from the record of an execution to the program's stack, ns.
const EXECUTION_NS: u64 = 200_000_000;

/// A change of a process since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessChange {
    /// The process is the same.
    None,
    /// The process has ended.
    Ended,
    /// The process has executed another program.
    Executed,
}

/// A process image that is watched.
pub(super) struct WatchedProcess {
    pub(super) image: ImageId,
    pub(super) scope: WatchScope,
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) start_ticks: u64,
    stack_start: u64,
    /// Whether it has begun as a copy of its parent and has not executed a program since.
    is_copy: bool,
    /// Time from which on it is watched, ns.
    began_ns: u64,
    pub(super) threads: BTreeMap<u32, WatchedThread>,
    /// Threads that were found since the last tick.
    pub(super) listed: Vec<u32>,
    /// Threads that are looked at in each tick.
    active: Vec<u32>,
    /// Maximum number of threads so far.
    most_threads: usize,
    /// Number of threads that have no sample by the wall clock yet.
    unsampled: usize,
    /// The sleeping thread that is looked at next.
    next_sleeper: u32,
    /// The thread that is looked at next where not all of them have events.
    next_in_turn: u32,
    /// CPU time from which on it is sampled, ns.
    base_ns: u64,
    /// CPU time when it was last read, ns.
    pub(super) cpu_ns: u64,
    /// Time from which on the CPU time is read again, ns.
    next_cpu_ns: u64,
    /// CPU time since the base that was found in threads or given up, ns.
    accounted_ns: u64,
    /// Whether CPU time was missing at the last tick.
    is_searching: bool,
    /// Number of sleeping threads that were searched since CPU time is missing.
    searched: usize,
    checked_ns: u64,
    listed_ns: u64,
    /// Whether all threads that were there at the start are known.
    is_listed: bool,
    /// Number of threads at the last check.
    thread_count: u64,
    /// The interpreter whose frames are read.
    pub(super) cpython: Option<CPython>,
    pub(super) counters: TracerCounters,
    pub(super) counted_ns: u64,
    /// Time at which the user and system times of its threads were read, ns.
    pub(super) shares_ns: u64,
    /// The engine that samples it: events or ptrace.
    pub(super) engine: Engine,
    /// Whether it has begun while its parent was watched.
    is_born: bool,
    /// CPU time, ns, that samples of this process are to stand for because those of processes that
    /// have ended did not; less than 0 if they stood for too much.
    pub(super) carried_ns: i64,
    /// CPU time of threads that have ended, as their events have counted it, ns.
    counted_by_events_ns: u64,
    /// System time that samples stand for, clock ticks.
    system_ticks: u64,
    /// Whether its system calls wait for a supervisor.
    pub(super) supervision: Supervision,
    /// Number of times in a row that the kernel has refused to stop a thread.
    pub(super) refusals: u32,
    /// Whether the viewer knows that.
    pub(super) is_refused: bool,
}

impl WatchedProcess {
    /// Begins to watch a process. There is nothing to watch if it has ended.
    pub(super) fn new(image: ImageId, process: ProcessIdentity, scope: WatchScope) -> Option<WatchedProcess> {
        let pid = process.pid;
        let (stat, cpu_ns) = (ProcStat::of(pid).ok()?, proc::cpu_ns(pid)?);
        if stat.start_ticks != process.start_ticks || stat.is_dead() || stat.is_kernel_thread() {
            return None;
        }
        let is_like_parent = || ProcStat::of(stat.parent).is_ok_and(|parent| parent.stack_start == stat.stack_start);
        Some(WatchedProcess {
            image,
            scope,
            pid,
            parent: stat.parent,
            start_ticks: stat.start_ticks,
            stack_start: stat.stack_start,
            is_copy: scope == WatchScope::FromStart && is_like_parent(),
            began_ns: monotonic_ns(),
            threads: BTreeMap::new(),
            listed: Vec::new(),
            active: Vec::new(),
            most_threads: 0,
            unsampled: 0,
            next_sleeper: 0,
            next_in_turn: 0,
            base_ns: if scope == WatchScope::FromStart { 0 } else { cpu_ns },
            cpu_ns,
            next_cpu_ns: 0,
            accounted_ns: 0,
            is_searching: false,
            searched: 0,
            checked_ns: 0,
            listed_ns: 0,
            is_listed: false,
            thread_count: 0,
            cpython: None,
            counters: TracerCounters::default(),
            counted_ns: 0,
            shares_ns: 0,
            engine: Engine::Ptrace,
            is_born: false,
            carried_ns: 0,
            counted_by_events_ns: 0,
            system_ticks: if scope == WatchScope::FromStart { 0 } else { stat.system_ticks },
            supervision: Supervision::default(),
            refusals: 0,
            is_refused: false,
        })
    }

    /// The process, and not a later one with its pid.
    pub(super) fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// Whether it has begun while its parent was watched.
    pub(super) fn is_born(&self) -> bool {
        self.is_born
    }

    /// Takes over the place of an earlier image of the process.
    pub(super) fn follow(&mut self, is_born: bool, carried_ns: i64) {
        (self.is_born, self.carried_ns) = (is_born, carried_ns);
    }

    /// Whether it is too young to be stopped: it may be about to execute a program.
    pub(super) fn is_left_alone(&self) -> bool {
        self.is_copy && self.cpu_ns < LEFT_ALONE_NS
    }

    /// Whether the kernel samples it.
    pub(super) fn has_events(&self) -> bool {
        self.engine == Engine::Events
    }

    /// Reads the interpreter's frames of a thread, whose stack was copied.
    pub(super) fn read_frames(&mut self, tid: u32, ip: u64, stack: &StackCopy) -> Option<Box<FrameList>> {
        let (cpython, thread) = (self.cpython.as_ref()?, self.threads.get_mut(&tid)?);
        interpreter::read_frames(cpython, (self.pid, thread.inner_tid), &mut thread.interpreter_state, ip, stack)
    }

    /// Reads the CPU time, and at intervals the state of the process and its threads. Listing
    /// thousands of threads takes long, so the caller may put it off.
    pub(super) fn check(
        &mut self,
        now_ns: u64,
        tick: u64,
        may_list: bool,
        events: &mut VecDeque<(ImageId, TracerEvent)>,
    ) -> ProcessChange {
        if self.read_cpu_time(now_ns).is_none() {
            return ProcessChange::Ended;
        }
        let is_due = now_ns.saturating_sub(self.checked_ns) >= CHECK_NS;
        if is_due {
            self.checked_ns = now_ns;
            // That of the first thread, as the one of the process has sums over all threads.
            let Ok(stat) = ProcStat::of_thread(self.pid, self.pid) else { return ProcessChange::Ended };
            if stat.is_dead() || stat.start_ticks != self.start_ticks {
                return ProcessChange::Ended;
            }
            if stat.stack_start != self.stack_start {
                // The kernel reports that a program is executed before that has its stack.
                let is_reported = self.has_events() && now_ns.saturating_sub(self.began_ns) < EXECUTION_NS;
                if !is_reported {
                    return ProcessChange::Executed;
                }
                self.stack_start = stat.stack_start;
            }
            self.parent = stat.parent;
            if stat.threads != self.thread_count && may_list {
                self.thread_count = stat.threads;
                self.list_threads(now_ns, tick, events);
            }
        }
        if may_list && self.is_searching && now_ns.saturating_sub(self.listed_ns) >= LIST_NS {
            self.list_threads(now_ns, tick, events);
        }
        ProcessChange::None
    }

    /// Reads the CPU time, if that is due. Returns `None` if the process has ended.
    pub(super) fn read_cpu_time(&mut self, now_ns: u64) -> Option<()> {
        if now_ns >= self.next_cpu_ns {
            let before_ns = monotonic_ns();
            let cpu_ns = proc::cpu_ns(self.pid)?;
            // The clock of another process with the same pid may be behind.
            self.cpu_ns = self.cpu_ns.max(cpu_ns);
            let after_ns = monotonic_ns();
            self.next_cpu_ns = after_ns + (CPU_REST * (after_ns - before_ns)).min(MAX_CPU_REST_NS);
        }
        Some(())
    }

    fn list_threads(&mut self, now_ns: u64, tick: u64, events: &mut VecDeque<(ImageId, TracerEvent)>) {
        // Threads of the first listing were there before.
        let is_new = self.is_listed || self.base_ns == 0;
        self.listed_ns = now_ns;
        let tids: Vec<u32> =
            proc::threads(self.pid).into_iter().filter(|tid| !self.threads.contains_key(tid)).collect();
        self.is_listed |= tids.len() <= MAX_NEW_THREADS;
        if tids.len() > MAX_NEW_THREADS {
            (self.checked_ns, self.thread_count) = (0, 0);
        }
        for tid in tids.into_iter().take(MAX_NEW_THREADS) {
            self.add_thread(tid, is_new, now_ns, tick, events);
        }
    }

    /// Adds a thread, unless it has ended. `is_new` says that it has started since its process is
    /// watched.
    pub(super) fn add_thread(
        &mut self,
        tid: u32,
        is_new: bool,
        now_ns: u64,
        tick: u64,
        events: &mut VecDeque<(ImageId, TracerEvent)>,
    ) {
        if let Ok(mut thread) = WatchedThread::open(self.pid, tid, is_new, now_ns, tick) {
            if self.scope.is_asleep() {
                self.count_missed(tid, now_ns);
            } else if is_new && let Ok(stat) = ProcStat::of_thread(self.pid, tid) {
                // Its first sample has all its wall-clock time, too.
                thread.wall_ns = started_ns(stat.start_ticks).min(now_ns);
            } else if !is_new && self.is_crowd() {
                // It was there before, and a crowd is not listed at once.
                thread.wall_ns = self.began_ns.min(now_ns);
            }
            self.unsampled += 1;
            self.threads.insert(tid, thread);
            self.most_threads = self.most_threads.max(self.threads.len());
            self.listed.push(tid);
            self.activate(tid);
            events.push_back((self.image, TracerEvent::Thread { tid }));
        }
    }

    /// Counts wall-clock time of a thread that was found asleep as lost.
    fn count_missed(&mut self, tid: u32, now_ns: u64) {
        if let WatchScope::Asleep { missed_since_ns: since_ns @ 1.. } = self.scope
            && let Ok(stat) = ProcStat::of_thread(self.pid, tid)
        {
            self.lose(LossCause::NotReady, now_ns.saturating_sub(since_ns.max(started_ns(stat.start_ticks))));
        }
    }

    /// Notes that a thread has a sample by the wall clock.
    pub(super) fn note_sampled(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && !std::mem::replace(&mut thread.is_sampled, true)
        {
            self.unsampled = self.unsampled.saturating_sub(1);
        }
    }

    /// Takes the wall-clock time of threads that is in no sample when the process ends, or is no
    /// longer watched: for samples of those that sleep, with their weights, ns. The rest is lost.
    pub(super) fn take_last_sleeps(&mut self, now_ns: u64, period_ns: u64) -> Vec<(u32, u64)> {
        let mut sleeps = Vec::new();
        let mut lost_ns = 0;
        for (&tid, thread) in &mut self.threads {
            let weight_ns = now_ns.saturating_sub(std::mem::replace(&mut thread.wall_ns, now_ns));
            match thread.is_asleep && thread.is_sampled {
                true => sleeps.push((tid, weight_ns)),
                // One that runs has less than that in no sample.
                false if weight_ns > 2 * period_ns => lost_ns += weight_ns,
                false => {}
            }
        }
        self.lose(LossCause::NotReady, lost_ns);
        sleeps
    }

    /// Looks at a thread: reads its CPU time. Returns whether it has run since the last look, or
    /// `None` if it has ended.
    pub(super) fn update_thread(&mut self, tid: u32, tick: u64) -> Option<bool> {
        let thread = self.threads.get_mut(&tid)?;
        let (used_ns, has_run) = thread.update_run_time().ok()?;
        if self.scope.is_asleep() {
            thread.leave_run_time(used_ns);
        }
        let is_lost = self.engine == Engine::Events && !thread.has_events;
        if is_lost {
            thread.leave_run_time(used_ns);
        } else if self.engine == Engine::Events {
            thread.leave_to_events(used_ns);
        }
        if is_lost || self.engine != Engine::Events {
            self.accounted_ns += used_ns;
        }
        if has_run {
            (thread.ran_at, thread.ran_ns) = (tick, monotonic_ns());
            self.activate(tid);
        }
        if is_lost {
            self.lose(LossCause::NoTimer, used_ns);
        }
        Some(has_run)
    }

    /// Removes a thread that has ended. What it had used since its last sample is unaccounted.
    pub(super) fn remove_thread(&mut self, tid: u32) {
        if let Some(thread) = self.threads.remove(&tid) {
            // Another one may have begun, so that their number is the same.
            self.thread_count = 0;
            self.unsampled = self.unsampled.saturating_sub(usize::from(!thread.is_sampled));
            self.lose(LossCause::Unaccounted, thread.unsampled_ns);
        }
    }

    /// Samples the whole process from now on.
    pub(super) fn widen(&mut self, now_ns: u64) {
        if self.scope.is_asleep() {
            self.restart(now_ns);
        }
        if !self.scope.has_children() {
            self.scope = WatchScope::FromNow;
        }
    }

    /// Begins to sample anew, by another clock.
    pub(super) fn restart(&mut self, now_ns: u64) {
        self.base_ns = self.cpu_ns;
        (self.accounted_ns, self.carried_ns) = (0, 0);
        for thread in self.threads.values_mut() {
            (thread.unsampled_ns, thread.wall_ns) = (0, now_ns);
            // What it has used meanwhile is not to be sampled either.
            let _ = thread.update_run_time();
            thread.unsampled_ns = 0;
            thread.leave_to_events(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: once a process had ended, the sampler took a later one with its pid for it.
    #[test]
    fn a_later_process_with_the_pid_is_not_watched() {
        let own = ProcessIdentity::of(std::process::id()).unwrap();
        let watch = |process| WatchedProcess::new(ImageId(0), process, WatchScope::FromNow);
        assert!(watch(own).is_some_and(|process| process.identity() == own));
        assert!(watch(ProcessIdentity { start_ticks: own.start_ticks - 1, ..own }).is_none());
    }
}

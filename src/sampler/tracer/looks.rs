//! One tick: looks at processes and their threads, samples those that sleep, and asks those that
//! run to stop.

use std::io::ErrorKind;
use std::time::Duration;

use nix::errno::Errno;

use super::{Tracer, TracerReport};
use crate::attach::proc::{self, ProcStat, ProcStatus, ProcessIdentity};
use crate::process::unwind::ThreadRegisters;
use crate::process::waits::SleepLocation;
use crate::sampler::children::ChildSearch;
use crate::sampler::clock::{monotonic_ns, thread_cpu_ns};
use crate::sampler::events::{SampledStack, SampledState, TracerEvent};
use crate::sampler::process::{ProcessChange, WatchedProcess};
use crate::sampler::ptrace;
use crate::sampler::scope::WatchScope;
use crate::sampler::supervision::waits_for_supervisor;
use crate::sampler::threads::Activity;
use crate::wire::{Clock, LossCause};

/// Maximum number of samples of sleeping threads per second and process. More threads take turns.
const SLEEPERS_PER_SECOND: u64 = 2_000;
/// Time between two messages with counters, ns.
const COUNTERS_NS: u64 = 1_000_000_000;
/// Time between two readings of the user and system times of threads, ns.
const SHARES_NS: u64 = 250_000_000;
/// Time between two searches for named processes that are not watched, ns.
const ROOTS_NS: u64 = 500_000_000;
/// Number of threads that are looked at before stops are served.
const LOOKS: usize = 32;
/// Number of ticks after which threads are listed although stops are under way.
const LISTS_ANYWAY: u64 = 64;
/// Maximum number of stacks of sleeping threads that are copied in one tick. The others have their
/// turn in the next one.
const MAX_SLEEPING_COPIES: usize = 32;
/// Number of last samples that wait for the walker, and the time for which they do.
const MAX_OUTBOX: usize = 1024;
const LAST_SAMPLES: Duration = Duration::from_millis(500);
/// Number of refusals in a row after which a process is reported as one that cannot be traced.
const REFUSALS: u32 = 2;
/// Maximum number of threads that are asked whether their process ends.
const MAX_ASKED: usize = 8;

impl Tracer {
    pub(super) fn tick(&mut self, now_ns: u64) {
        self.tick += 1;
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        for pid in pids {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            // No thread stands still meanwhile.
            let may_list = self.asked.is_empty() || self.tick.is_multiple_of(LISTS_ANYWAY);
            match process.check(now_ns, self.tick, may_list, &mut self.outbox) {
                ProcessChange::None => self.sample_process(pid, now_ns),
                ProcessChange::Ended => self.end_image(pid),
                ProcessChange::Executed => {
                    self.close_events(pid);
                    self.restart_image(pid);
                }
            }
        }
        if now_ns.saturating_sub(self.roots_ns) >= ROOTS_NS {
            self.roots_ns = now_ns;
            // A connection may have been lost.
            for process in self.roots.clone() {
                self.watch(process, WatchScope::FromNow);
            }
        }
        self.settle_events(now_ns);
        if self.tick.is_multiple_of(LISTS_ANYWAY) {
            self.forget_ended_threads();
            // Threads that wait for a processor may keep stops under way for long.
            if self.links.follow {
                self.watch_children(now_ns);
            }
        }
        // Nothing that takes long comes after the first of these.
        for (pid, tid) in std::mem::take(&mut self.running) {
            self.ask_to_stop(pid, tid, now_ns);
        }
    }

    fn sample_process(&mut self, pid: u32, now_ns: u64) {
        let (tick, clock) = (self.tick, self.config.clock);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let sleepers = match clock {
            Clock::Real => (SLEEPERS_PER_SECOND * self.config.period_ns).div_ceil(1_000_000_000) as usize,
            _ => 0,
        };
        self.sleeping_copies = 0;
        // The kernel samples threads that run.
        if !process.has_events() || clock == Clock::Real {
            let active = process.active_threads(tick);
            self.look_at_all(pid, &active, now_ns, false);
            let Some(process) = self.processes.get_mut(&pid) else { return };
            let (sleeping, is_crowd) = (process.sleeping_threads(sleepers, self.config.period_ns), process.is_crowd());
            self.look_at_all(pid, &sleeping, now_ns, is_crowd && clock == Clock::Real);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if now_ns.saturating_sub(process.counted_ns) >= COUNTERS_NS {
            process.counted_ns = now_ns;
            let counters = process.counters(self.config.period_ns);
            self.outbox.push_back((process.image, TracerEvent::Counters(counters)));
        }
        if now_ns.saturating_sub(process.shares_ns) >= SHARES_NS {
            process.shares_ns = now_ns;
            if process.has_events() {
                self.send_system_time(pid, now_ns);
            } else {
                update_system_shares(process);
            }
        }
    }

    /// Looks at threads, and serves stops meanwhile. Those that have run are left to the next ticks
    /// if they `may_wait`.
    fn look_at_all(&mut self, pid: u32, tids: &[u32], now_ns: u64, may_wait: bool) {
        for group in tids.chunks(LOOKS) {
            group.iter().for_each(|&tid| self.look_at(pid, tid, now_ns, may_wait));
            self.serve_stops();
            self.heartbeat.beat(!self.asked.is_empty());
        }
    }

    /// Looks at one thread: samples it where it sleeps, or asks it to stop.
    fn look_at(&mut self, pid: u32, tid: u32, now_ns: u64, may_wait: bool) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let updated = process.update_thread(tid, self.tick);
        let (is_interpreted, is_young) = (process.cpython.is_some(), process.is_left_alone());
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        if is_interpreted {
            thread.read_inner_tid();
        }
        if self.asked.contains_key(&tid) {
            // It waits for a processor, or stands still until its stop is served. It may have been
            // asked before it executed this program.
            return;
        }
        if updated.is_some() && !thread.is_asleep && !thread.has_run_since_stop {
            // It waits for a processor. There is nothing to sample until it gets one.
            return;
        }
        if may_wait && updated.is_some() && !thread.is_stack_known {
            process.activate(tid);
            return;
        }
        let activity = match updated {
            Some(false) if thread.is_asleep && thread.is_stack_known => Ok(Activity::Sleeping(None)),
            Some(false) if thread.is_asleep && self.config.clock != Clock::Real => return,
            Some(_) => thread.read_activity(),
            None => Err(ErrorKind::NotFound.into()),
        };
        match activity {
            Ok(Activity::Running) => {
                thread.is_asleep = false;
                let is_left_alone = thread.patience.lasts(now_ns) || thread.waits_for_cpu(now_ns) || is_young;
                let is_stopped = !process.scope.is_asleep() && !process.has_events() && !is_left_alone;
                if is_stopped && self.is_not_supervised(pid, tid, now_ns) {
                    self.running.push((pid, tid));
                }
            }
            Ok(Activity::Sleeping(location)) => {
                thread.is_asleep = true;
                let may_be_supervised = process.supervision.filters > 0 && !process.supervision.is_supervised;
                process.supervision.is_supervised |=
                    location.is_some() && may_be_supervised && waits_for_supervisor(pid, tid);
                if self.config.clock == Clock::Real {
                    self.sample_sleeper(pid, tid, location, now_ns);
                }
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied && process.scope.is_asleep() => {
                let process = process.identity();
                self.end_image(pid);
                self.give_up(process);
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.note_refusal(pid, tid, now_ns),
            Err(_) => self.end_thread(pid, tid, now_ns, false),
        }
    }

    /// Returns whether a thread that runs may be stopped because its system calls do not wait for a
    /// supervisor. The time of one that may not is lost.
    fn is_not_supervised(&mut self, pid: u32, tid: u32, now_ns: u64) -> bool {
        let Some(process) = self.processes.get(&pid) else { return false };
        let of_parent = self.processes.get(&process.parent).map(|parent| parent.supervision);
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        let Some(thread) = process.threads.get_mut(&tid) else { return false };
        thread.filters.update((pid, tid), process.supervision.is_supervised, now_ns);
        let filters = thread.filters;
        if filters.count > 0 && process.supervision.is_unknown(filters.count) {
            if !self.asked.is_empty() {
                // The search takes long, and no thread stands still meanwhile.
                return false;
            }
            process.supervision.find(pid, filters.count, of_parent);
        }
        if filters.count == 0 || !process.supervision.is_supervised {
            return true;
        }
        if !std::mem::replace(&mut self.is_supervision_told, true) {
            let _ = self.links.reports.send(TracerReport::Supervised { pid });
        }
        if !filters.computes() {
            self.lose_unsampled(pid, tid, now_ns);
        }
        filters.computes()
    }

    fn ask_to_stop(&mut self, pid: u32, tid: u32, now_ns: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        // It may have begun to wait since it was looked at, and a stop would end that.
        if !matches!(thread.read_activity(), Ok(Activity::Running)) {
            return;
        }
        // The watchdog must not miss a stop that is noticed late, or never. A thread that is only
        // seized stops at its next signal.
        if self.asked.is_empty() {
            self.heartbeat.beat(true);
        }
        if !thread.is_seized {
            match ptrace::seize(tid) {
                Ok(()) => thread.is_seized = true,
                Err(Errno::EPERM) => return self.note_refusal(pid, tid, now_ns),
                // It is just ending.
                Err(_) => return self.lose_unsampled(pid, tid, now_ns),
            }
        }
        process.refusals = 0;
        if ptrace::interrupt(tid).is_ok() {
            thread.request_stop(now_ns, self.tick_ns);
            self.asked.insert(tid, pid);
        }
    }

    /// Notes that the kernel does not let a thread be stopped or read. The viewer learns of that
    /// once, at the second time unless another tracer is the reason: threads that end are refused,
    /// too.
    fn note_refusal(&mut self, pid: u32, tid: u32, now_ns: u64) {
        let tracer = ProcStatus::of_thread(pid, tid).map_or(0, |status| status.tracer);
        if tracer == std::process::id() {
            // It has executed a program since it was asked, and has the number of the first thread
            // now.
            return;
        }
        self.lose_unsampled(pid, tid, now_ns);
        let is_alive = ProcStat::of_thread(pid, tid).is_ok_and(|stat| !stat.is_ended_thread());
        let Some(process) = self.processes.get_mut(&pid).filter(|_| is_alive) else { return };
        process.refusals += if tracer == 0 { 1 } else { REFUSALS };
        if process.refusals >= REFUSALS && !std::mem::replace(&mut process.is_refused, true) {
            let _ = self.links.reports.send(TracerReport::Refused { pid });
        }
    }

    /// Counts the time of a thread that cannot be stopped as lost.
    fn lose_unsampled(&mut self, pid: u32, tid: u32, now_ns: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        let unsampled_ns = match self.config.clock {
            Clock::Real => now_ns.saturating_sub(std::mem::replace(&mut thread.wall_ns, now_ns)),
            _ => std::mem::take(&mut thread.unsampled_ns),
        };
        process.lose(LossCause::Unaccounted, unsampled_ns);
    }

    /// Samples a thread where it sleeps, without stopping it.
    fn sample_sleeper(&mut self, pid: u32, tid: u32, location: Option<SleepLocation>, now_ns: u64) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let (image, has_events, is_crowd) = (process.image, process.has_events(), process.is_crowd());
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        if !thread.has_wall_time(now_ns) {
            // It was found in this tick. Without a weight, its stack would not be sent.
            return;
        }
        let stack = match location {
            _ if thread.is_stack_known => SampledStack::Repeated,
            None => return,
            Some(_) if self.sleeping_copies >= MAX_SLEEPING_COPIES && !is_crowd => return,
            Some(SleepLocation { ip, sp, .. }) => {
                self.sleeping_copies += 1;
                self.scratch.clear();
                thread.extent.copy(&mut self.scratch, tid, sp, true);
                let list = process.read_frames(tid, ip, &self.scratch);
                // A thread that ran meanwhile may have changed its stack and its frames.
                let Some(false) = process.update_thread(tid, self.tick) else { return };
                let Some(thread) = process.threads.get_mut(&tid) else { return };
                thread.is_stack_known = true;
                SampledStack::Copied(ThreadRegisters::of_sleeper(ip, sp), self.links.copy_of(&self.scratch), list)
            }
        };
        process.note_sampled(tid);
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        let has_run = matches!(stack, SampledStack::Copied(..));
        let weight_ns = if has_events {
            thread.take_sleep_beside_events(now_ns, self.config.period_ns)
        } else {
            thread.take_sleep(now_ns, self.config.period_ns, has_run)
        };
        self.send_sample(image, tid, weight_ns, now_ns, (stack, SampledState::Asleep(location.and_then(|it| it.call))));
    }

    /// Sends samples of the time up to now for which threads have slept, where they were last found
    /// to: the process ends, or is no longer watched.
    pub(super) fn sample_last_sleeps(&mut self, pid: u32) {
        let now_ns = monotonic_ns();
        let is_judged = |process: &&mut WatchedProcess| process.was_crowd() && !process.scope.is_asleep();
        let Some(process) = self.processes.get_mut(&pid).filter(is_judged) else { return };
        let image = process.image;
        for (tid, weight_ns) in process.take_last_sleeps(now_ns, self.config.period_ns) {
            self.send_sample(image, tid, weight_ns, now_ns, (SampledStack::Repeated, SampledState::Asleep(None)));
            if self.outbox.len() >= MAX_OUTBOX {
                self.flush_within(LAST_SAMPLES);
            }
        }
    }

    /// Forgets a thread that ended before `until_ns`, or just then if that `is_exact`.
    pub(super) fn end_thread(&mut self, pid: u32, tid: u32, until_ns: u64, is_exact: bool) {
        self.sample_last_sleep(pid, tid, until_ns, is_exact);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.remove_thread(tid);
        self.outbox.push_back((process.image, TracerEvent::ThreadEnded { tid }));
        if self.outbox.len() >= MAX_OUTBOX {
            self.flush_within(LAST_SAMPLES);
        }
    }

    /// Samples a thread of a crowd where it slept until it ended. With its process, it has just
    /// ended; alone, on average in the middle of the time since it was looked at.
    fn sample_last_sleep(&mut self, pid: u32, tid: u32, until_ns: u64, is_exact: bool) {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.was_crowd()) else { return };
        if self.config.clock != Clock::Real || process.scope.is_asleep() {
            return;
        }
        let others = process.threads.keys().copied().filter(|&other| other != tid && other != pid);
        let (image, part) = (process.image, if is_exact || is_ending(pid, others.take(MAX_ASKED)) { 1 } else { 2 });
        let Some(thread) = process.threads.get_mut(&tid) else { return };
        let weight_ns = until_ns.saturating_sub(std::mem::replace(&mut thread.wall_ns, until_ns)) / part;
        match thread.is_asleep && thread.is_sampled {
            true => {
                self.send_sample(image, tid, weight_ns, until_ns, (SampledStack::Repeated, SampledState::Asleep(None)))
            }
            false => process.lose(LossCause::NotReady, weight_ns),
        }
    }

    /// Watches the children of watched processes, if a search for them is due.
    pub(super) fn watch_children(&mut self, now_ns: u64) {
        let Some(search) = self.children.due(now_ns) else { return };
        let used_ns = thread_cpu_ns();
        let children: Vec<u32> = match search {
            ChildSearch::OfActiveThreads => {
                let with_children = |process: &&WatchedProcess| process.scope.has_children();
                let parents = self.processes.values().filter(with_children);
                parents.flat_map(WatchedProcess::children_of_active_threads).collect()
            }
            ChildSearch::OfAllThreads => {
                self.given_up.retain(|process| process.exists());
                let is_top = |process: &&WatchedProcess| {
                    process.scope.has_children() && !self.processes.contains_key(&process.parent)
                };
                self.processes.values().filter(is_top).flat_map(|top| proc::descendants(top.pid)).collect()
            }
        };
        // To watch what was found is no part of the search.
        self.children.plan(search, monotonic_ns(), thread_cpu_ns() - used_ns);
        for pid in children {
            if let (false, Ok(process)) = (self.processes.contains_key(&pid), ProcessIdentity::of(pid)) {
                let is_new = self.children.is_new(process.start_ticks);
                self.watch(process, if is_new { WatchScope::FromStart } else { WatchScope::FromNow });
            }
        }
    }
}

/// Returns whether a process ends, by its first thread and one of the others that exist. Threads of
/// a crowd vanish while the first one waits for its turn to end.
fn is_ending(pid: u32, others: impl Iterator<Item = u32>) -> bool {
    let ends = |tid: u32| ProcStat::of_thread(pid, tid).ok().map(|stat| stat.is_ending());
    let mut others = others.peekable();
    ends(pid).unwrap_or(true) || others.peek().is_some() && others.find_map(ends).unwrap_or(true)
}

/// Reads the user and system times of threads that do not sleep.
fn update_system_shares(process: &mut WatchedProcess) {
    let pid = process.pid;
    for (&tid, thread) in &mut process.threads {
        if !thread.is_asleep
            && let Ok(stat) = ProcStat::of_thread(pid, tid)
        {
            thread.system_share.update(stat.user_ticks, stat.system_ticks);
        }
    }
}

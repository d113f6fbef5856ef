//! A running target: its processes, their agents, and what is read from `/proc`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::attach_retry::{AttachRetry, KnockResult};
use super::cpu_meter::{self, CpuMeter};
use super::process_trees::ProcessTrees;
use super::settings::{Settings, WatchTarget};
use super::thread_states;
use super::unsampled_time::{Ledger, Sampling};
use super::without_agent::OutsideProcesses;
use crate::attach::find::{self, WatchMethod};
use crate::attach::network_namespace::{self, NamespaceListener};
use crate::attach::proc::{self, ProcessIdentity};
use crate::attach::rights;
use crate::attach::watch_claim::WatchClaim;
use crate::link::listener::ListenerHandle;
use crate::profile::Profile;
use crate::sampler::clock::thread_cpu_ns;
use crate::sampler::engines;
use crate::sampler::supervisor::{Sampler, SamplerReport};
use crate::wire::{Clock, Engine};

/// Time between two readings of the CPU meter, ns.
const METER_NS: u64 = 1_000_000_000;
/// Minimum time between two looks for silent processes, in multiples of the CPU time of the
/// last one: they take at most a fiftieth of a CPU.
const REACH_REST: u64 = 50;
/// CPU time that a launched process uses before its agent is awaited no longer, ns and in periods
/// of sampling, and the time between two looks at it, ns.
const OVERDUE_NS: u64 = 100_000_000;
const OVERDUE_PERIODS: u64 = 5;
/// The warning about sampling by ptrace.
const STOPS: &str = "ptrace: large reads and writes may return early";
/// Time between SIGTERM and SIGKILL, ns.
const PATIENCE_NS: u64 = 2_000_000_000;

/// The target of a live session.
pub(super) struct LiveTarget {
    pub(super) target: WatchTarget,
    pub(super) agents: ListenerHandle,
    pub(super) meter: CpuMeter,
    /// CPU time of the target while it is watched.
    pub(super) cpu_used: Duration,
    /// CPU time of the target before it was watched.
    cpu_before: Duration,
    /// CPU time without samples.
    pub(super) ledger: Ledger,
    /// Samples processes that carry no agent.
    sampler: Sampler,
    /// Whether agents were asked to leave, because their processes were sampled from outside.
    has_dismissed_agents: bool,
    /// Whether the user knows what stops may do.
    has_warned_of_stops: bool,
    attach_retry: AttachRetry,
    trees: ProcessTrees,
    outside: OutsideProcesses,
    /// Processes that other viewers watch.
    taken: HashSet<ProcessIdentity>,
    /// The claims of those that are sampled from outside, or the sigtops that have claimed them.
    claims: HashMap<u32, Result<WatchClaim, u32>>,
    /// Time of the next look for silent processes, ns.
    next_reach_ns: u64,
    /// Time of the next look for launched processes whose agents are overdue, ns.
    next_overdue_ns: u64,
    /// Network namespaces of processes in which this viewer listens, besides its own.
    namespaces: HashSet<(u64, u64)>,
    metered_ns: u64,
    /// Time of the last reading of thread states, ns.
    states_ns: u64,
    /// CPU time of the launched process alone at its end, ns. It is 0 before.
    own_cpu_ns: u64,
    /// Time to send SIGKILL after a SIGTERM, ns.
    kill_at_ns: Option<u64>,
}

impl LiveTarget {
    pub(super) fn new(target: WatchTarget, agents: ListenerHandle, sampler: Sampler, now_ns: u64) -> LiveTarget {
        let is_attached = matches!(target, WatchTarget::Attached(_));
        LiveTarget {
            cpu_before: if is_attached { cpu_total(&target) } else { Duration::ZERO },
            target,
            agents,
            meter: CpuMeter::new(),
            cpu_used: Duration::ZERO,
            ledger: Ledger::new(is_attached, now_ns),
            sampler,
            has_dismissed_agents: false,
            has_warned_of_stops: false,
            attach_retry: AttachRetry::default(),
            trees: ProcessTrees::default(),
            outside: OutsideProcesses::new(now_ns),
            taken: HashSet::new(),
            claims: HashMap::new(),
            next_reach_ns: 0,
            next_overdue_ns: 0,
            namespaces: HashSet::new(),
            metered_ns: 0,
            states_ns: 0,
            own_cpu_ns: 0,
            kill_at_ns: None,
        }
    }

    /// Compares the CPU time of the processes with their samples, if that is due. Returns whether
    /// the result changed.
    pub(super) fn read_ledger(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) -> bool {
        if !self.ledger.is_due(now_ns) {
            return false;
        }
        let connected = profile.processes().iter().filter(|process| process.connected);
        let mut pids: Vec<u32> = connected.map(|process| process.pid).collect();
        if let WatchTarget::Launched(launched) = &self.target {
            let mut tree = vec![launched.pid];
            if settings.follow {
                tree.extend(self.trees.descendants(launched.pid, now_ns));
                let used_ns = tree.iter().filter_map(|&pid| proc::cpu_with_reaped_ns(pid)).sum();
                self.ledger.read_tree(used_ns, profile, sampling(settings), now_ns);
            }
            pids.extend(tree);
        }
        pids.sort_unstable();
        pids.dedup();
        let before = self.ledger.outside_ns;
        self.ledger.is_external = settings.engine.is_external();
        self.ledger.read(&pids, profile, sampling(settings), now_ns);
        self.ledger.outside_ns != before
    }

    /// Compares a last time, after the target has ended and all samples have arrived.
    pub(super) fn close_ledger(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) {
        let (pid, own_ns) = (self.target.pid(), self.own_cpu_ns);
        if settings.follow && self.own_cpu_ns > 0 {
            let used_ns = self.cpu_used.as_nanos() as u64;
            self.ledger.read_tree(used_ns, profile, sampling(settings), now_ns);
        }
        self.ledger.close(pid, own_ns, profile, sampling(settings), now_ns);
    }

    /// Writes to a launched target's terminal. Returns a warning if that failed.
    pub(super) fn input(&self, bytes: &[u8]) -> Option<String> {
        let WatchTarget::Launched(launched) = &self.target else { return None };
        let is_cut = launched.input(bytes).is_ok_and(|taken| taken < bytes.len());
        is_cut.then(|| "the target does not read its input".to_owned())
    }

    /// Sets the size of a launched target's terminal.
    pub(super) fn resize(&self, columns: u16, rows: u16) {
        if let WatchTarget::Launched(launched) = &self.target {
            // This fails if the target has ended, which is reported separately.
            let _ = launched.resize(rows, columns);
        }
    }

    /// Sends SIGTERM, and SIGKILL if it is called again. Returns a warning if that failed.
    pub(super) fn end(&mut self, now_ns: u64) -> Option<String> {
        let WatchTarget::Launched(launched) = &self.target else { return None };
        const SIGKILL: i32 = nix::sys::signal::Signal::SIGKILL as i32;
        const SIGTERM: i32 = nix::sys::signal::Signal::SIGTERM as i32;
        let signal = if self.kill_at_ns.is_some() { SIGKILL } else { SIGTERM };
        self.kill_at_ns = Some(now_ns + PATIENCE_NS);
        launched.signal(signal).err().map(|error| error.to_string())
    }

    /// Hangs up a launched target's terminal, because the user's terminal is gone.
    pub(super) fn hang_up(&self) {
        if let WatchTarget::Launched(launched) = &self.target {
            // This fails if the target has ended, and there is no terminal left to report it on.
            let _ = launched.hang_up();
        }
    }

    /// Whether SIGKILL is due.
    pub(super) fn is_to_be_killed(&self, now_ns: u64) -> bool {
        self.kill_at_ns.is_some_and(|at_ns| now_ns >= at_ns)
    }

    /// Notes that the target has ended, with its CPU time including and excluding children. Both
    /// are 0 if unknown.
    pub(super) fn ended(&mut self, cpu_ns: u64, own_ns: u64) {
        self.own_cpu_ns = own_ns;
        if cpu_ns > 0 {
            self.cpu_used = Duration::from_nanos(cpu_ns);
        }
        self.kill_at_ns = None;
    }

    /// Reads CPU times that are due: that of the target once per second, or always while there is
    /// no agent, and that of all processes once per second. Returns whether the latter was read.
    pub(super) fn read_meters(&mut self, profile: &Profile, ended: bool, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.metered_ns) >= METER_NS;
        if is_due {
            let named = self.target.pids();
            let mut pids: Vec<u32> = named.iter().flat_map(|&pid| self.trees.descendants(pid, now_ns)).collect();
            pids.extend(named);
            pids.extend(profile.processes().iter().filter(|process| process.connected).map(|process| process.pid));
            pids.sort_unstable();
            pids.dedup();
            self.meter.read(&pids, now_ns);
            self.metered_ns = now_ns;
        }
        if !ended && (is_due || profile.processes().is_empty()) {
            // It falls when one of several processes ends.
            self.cpu_used = self.cpu_used.max(cpu_total(&self.target).saturating_sub(self.cpu_before));
        }
        is_due
    }

    /// Leaves a process to the viewer that watches it, and does not wake it again. Returns whether
    /// nothing is left to watch.
    pub(super) fn leave_to_other_viewer(&mut self, pid: u32) -> bool {
        self.taken.extend(ProcessIdentity::of(pid));
        matches!(self.target, WatchTarget::Attached(_)) && self.target.pids().into_iter().all(|pid| self.is_taken(pid))
    }

    fn is_taken(&self, pid: u32) -> bool {
        !self.taken.is_empty() && ProcessIdentity::of(pid).is_ok_and(|process| self.taken.contains(&process))
    }

    /// Reads the states of threads, if that is due.
    pub(super) fn look_at_threads(&mut self, profile: &mut Profile, now_ns: u64) {
        if now_ns.saturating_sub(self.states_ns) >= thread_states::READ_NS {
            thread_states::update(profile);
            self.states_ns = now_ns;
        }
    }

    /// Knocks at processes whose agent should have connected: those attached to, and launched ones
    /// that have used CPU time by threads that the agent does not know (a raw clone, another libc),
    /// while its first thread sleeps. If the wall clock is sampled, other launched ones that sleep
    /// are sampled from outside until their agents connect, and woken only where the kernel forbids
    /// that. Returns an error if nothing can be watched.
    pub(super) fn reach_silent_processes(
        &mut self,
        profile: &Profile,
        settings: &Settings,
        now_ns: u64,
    ) -> Option<String> {
        if now_ns < self.next_reach_ns {
            return None;
        }
        let used_ns = thread_cpu_ns();
        let problem = self.reach_all_silent(profile, settings, now_ns);
        self.next_reach_ns = now_ns + REACH_REST * (thread_cpu_ns() - used_ns);
        problem
    }

    fn reach_all_silent(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) -> Option<String> {
        // What the sampler says of an overdue process is of its sleeping threads alone.
        let is_sampled = |pid: u32, is_overdue: bool| {
            profile.processes().iter().filter(|process| process.pid == pid && process.connected).any(|process| {
                !is_overdue || !process.engaged.as_ref().is_some_and(|engaged| engaged.engine.is_external())
            })
        };
        if settings.engine.is_external() {
            return None;
        }
        let named = self.target.agent_pids();
        if settings.clock != Clock::Real && self.outside.end_wall(now_ns) && self.target.external_pids().is_empty() {
            self.sampler.stop();
        }
        let attached = matches!(self.target, WatchTarget::Attached(_));
        let waiting_counts = settings.clock == Clock::Real;
        let is_woken = attached || self.has_dismissed_agents;
        if !is_woken && !waiting_counts && now_ns < self.next_overdue_ns {
            return None;
        }
        self.next_overdue_ns = now_ns + OVERDUE_NS;
        let mut pids = named.clone();
        if settings.follow {
            pids.extend(named.iter().flat_map(|&pid| self.trees.descendants(pid, now_ns)));
            pids.sort_unstable();
            pids.dedup();
        }
        // An error of the only watched process ends the session. Of several processes, the others
        // remain.
        let all = self.target.pids();
        let is_all = |silent: u32| attached && all == [silent];
        let carries_agent = |pid| find::check(pid).is_ok_and(|process| process.method == WatchMethod::Agent);
        let overdue_ns = settings.period_ns.saturating_mul(OVERDUE_PERIODS).max(OVERDUE_NS);
        let is_overdue = |pid| proc::cpu_ns(pid) >= Some(overdue_ns);
        let has_no_agent = |pid| proc::ProcStat::of(pid).is_ok_and(|stat| stat.has_lost_first_thread());
        pids.retain(|&silent| {
            let is_overdue = is_overdue(silent);
            !is_sampled(silent, is_overdue)
                && !self.is_taken(silent)
                && (is_woken || waiting_counts || is_overdue)
                && (is_all(silent) || carries_agent(silent))
                && !has_no_agent(silent)
        });
        for silent in pids {
            self.agents.expect_process(silent);
            if !is_woken
                && !is_overdue(silent)
                && (self.outside.sample_asleep(silent, &mut self.sampler, now_ns)
                    || self.attach_retry.may_tick_soon(silent, now_ns))
            {
                continue;
            }
            if let Err(sentence) = self.listen_in_namespace_of(silent)
                && is_all(silent)
            {
                return Some(sentence);
            }
            match self.attach_retry.knock(silent, is_woken, now_ns) {
                KnockResult::Wait => {}
                KnockResult::Failed(error) if is_all(silent) => return Some(error.to_string()),
                KnockResult::GivenUp if is_all(silent) => {
                    return Some(format!("process {silent} carries the agent, but it does not answer"));
                }
                KnockResult::Failed(_) | KnockResult::GivenUp => {}
            }
        }
        None
    }
}

impl LiveTarget {
    /// Has programs with the agent sampled that cannot carry it any more, and descendants of theirs
    /// that cannot carry it.
    pub(super) fn sample_strangers(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) {
        let roots = self.target.agent_pids();
        let is_possible = !settings.engine.is_external() && !settings.clock.is_memory();
        if is_possible && !roots.is_empty() {
            let connected: HashSet<u32> =
                profile.processes().iter().filter(|process| process.connected).map(|process| process.pid).collect();
            let is_connected = |pid| connected.contains(&pid);
            let trees = settings.follow.then_some(&mut self.trees);
            self.outside.sample_strangers(&roots, trees, is_connected, &mut self.sampler, now_ns);
        }
    }

    /// Has processes sampled from outside: those without the agent, and all with the external
    /// engine. Returns a warning, and whether nothing can be watched.
    pub(super) fn sample_from_outside(&mut self, settings: &Settings) -> Option<(String, bool)> {
        let is_launched = matches!(self.target, WatchTarget::Launched(_));
        // A launched program that has the agent has been sampled through it before.
        let is_new = is_launched && self.target.agent_pids().is_empty();
        let pids = if settings.engine.is_external() { self.target.pids() } else { self.target.external_pids() };
        // The user knows before the first stop.
        let is_first = !std::mem::replace(&mut self.has_warned_of_stops, !pids.is_empty());
        let why_stopped = |&pid: &u32| engines::why_stopped(pid, outside_engine(settings));
        let remedy = pids.iter().filter(|_| is_first).find_map(why_stopped);
        let mut rival = None;
        for pid in pids {
            if let Some(viewer) = self.claim(pid) {
                let sentence = format!("process {pid} is already watched by sigtop pid {viewer}");
                rival = Some((sentence, self.leave_to_other_viewer(pid)));
                continue;
            }
            if let Some(process) = self.target.process(pid)
                && let Err(error) = self.sampler.watch(process, is_new)
            {
                return Some((error.to_string(), false));
            }
        }
        while let Some(report) = self.sampler.report() {
            let (pid, tracer) = match report {
                SamplerReport::Refused { pid, tracer } => (pid, tracer),
                SamplerReport::TooManyThreads { pid } => {
                    let sentence = format!("process {pid} has too many threads for perf events; leave out --engine");
                    return Some((sentence, false));
                }
                SamplerReport::TakeTurns { pid } => {
                    let sentence = format!(
                        "process {pid} has more threads than perf events sample at a time: those that run take \
                         turns, and what others use is counted as lost"
                    );
                    return Some((sentence, false));
                }
                SamplerReport::Supervised { pid } => {
                    let sentence = format!(
                        "system calls of process {pid} wait for a supervisor (seccomp): it is sampled only while it \
                         computes; sudo or --cap-add PERFMON avoids that"
                    );
                    return Some((sentence, false));
                }
                SamplerReport::Throttled => {
                    let sentence = "the kernel takes fewer samples than asked for, because they cost too much \
                                    (kernel.perf_cpu_time_max_percent); a lower rate costs less";
                    return Some((sentence.to_owned(), false));
                }
                SamplerReport::Failed => {
                    self.outside.give_up();
                    return Some(("the sampler has ended too often and is not started again".to_owned(), false));
                }
            };
            if self.outside.refuse(pid) {
                continue;
            }
            let tracer = tracer.or_else(|| rights::tracer(pid));
            let without_events = || engines::check_events(pid).err().filter(|_| settings.engine == Engine::Events);
            let reason = without_events().or_else(|| rights::explain_refusal(pid, tracer, is_launched));
            let Some(reason) = reason else { continue };
            self.ledger.explain(pid, &reason);
            if tracer.is_none_or(|tracer| self.outside.note_tracer(tracer)) {
                let is_all = !is_launched && self.target.pids() == [pid];
                let is_over = is_all && tracer.is_none() && rights::check(pid).is_err();
                return Some((format!("process {pid} {reason}"), is_over));
            }
        }
        rival.or_else(|| remedy.map(|remedy| (format!("{STOPS}; {remedy}"), false)))
    }

    /// Claims a process that is sampled from outside, unless that was done. Returns the sigtop that
    /// watches it already.
    fn claim(&mut self, pid: u32) -> Option<u32> {
        let claim = match self.claims.entry(pid) {
            Entry::Occupied(claimed) => claimed.into_mut(),
            Entry::Vacant(free) => free.insert(WatchClaim::new(ProcessIdentity::of(pid).ok()?)),
        };
        claim.as_ref().err().copied()
    }

    /// Selects the engine.
    ///
    /// # Errors
    /// If the target cannot be sampled by this engine: one sentence.
    pub(super) fn select_engine(&mut self, engine: Engine) -> Result<(), String> {
        match engine {
            Engine::External | Engine::Events | Engine::Ptrace => {
                for pid in self.target.pids() {
                    rights::check(pid).map_err(|cause| format!("process {pid} {cause}"))?;
                    if engine == Engine::Events {
                        engines::check_events(pid).map_err(|cause| format!("process {pid} {cause}"))?;
                    }
                }
                self.has_warned_of_stops = false;
                // Their timers are disarmed, and they have to be woken again.
                self.has_dismissed_agents = true;
                // The next one takes up the same processes.
                self.sampler.stop();
                self.outside.forget();
                self.sampler.select_engine(engine);
            }
            Engine::Threads | Engine::Itimer => {
                if self.target.external_pids() == self.target.pids() {
                    return Err("the target carries no agent: it is sampled from outside".to_owned());
                }
                self.sampler.stop();
                self.outside.forget();
            }
        }
        Ok(())
    }

    /// Listens in the network namespace of a process, if it is another one.
    ///
    /// # Errors
    /// If the agent cannot reach this viewer: one sentence.
    fn listen_in_namespace_of(&mut self, pid: u32) -> Result<(), String> {
        let id = network_namespace::id(pid).filter(|_| network_namespace::is_other(pid));
        let Some(id) = id.filter(|id| !self.namespaces.contains(id)) else { return Ok(()) };
        let NamespaceListener { listener, file } = network_namespace::listen_for(pid).map_err(|error| {
            format!(
                "process {pid} is in another network namespace, and sigtop cannot listen in its /tmp ({error}): \
                 run sigtop as root"
            )
        })?;
        self.agents.listen_at(listener, file);
        self.namespaces.insert(id);
        Ok(())
    }
}

/// The engine of samplers: the selected one, or the best for processes that carry no agent.
fn outside_engine(settings: &Settings) -> Engine {
    if settings.engine.is_external() { settings.engine } else { Engine::External }
}

/// Returns the CPU time that the processes of a target have used since their start.
fn cpu_total(target: &WatchTarget) -> Duration {
    target.pids().into_iter().map(cpu_meter::cpu_used).sum()
}

/// The sampling that CPU times are compared with.
fn sampling(settings: &Settings) -> Sampling {
    Sampling { is_on: settings.clock == Clock::Prof, period_ns: settings.period_ns }
}

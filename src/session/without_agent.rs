//! Processes below a program with the agent that are sampled from outside: those that cannot carry
//! the agent, such as static programs, those whose agents have left because their first threads
//! have ended, and on the wall clock launched ones that have kept sleeping, until they have used a
//! period of CPU time and their agents connect. The listener then lets the sampler leave them.

use std::collections::{HashMap, HashSet};

use super::process_trees::ProcessTrees;
use crate::attach::diagnose;
use crate::attach::proc::{self, ProcStat, ProcessIdentity};
use crate::sampler::clock::thread_cpu_ns;
use crate::sampler::supervisor::Sampler;

/// Time after which a process that is in no sample is named to the sampler again, ns.
const AGAIN_NS: u64 = 1_000_000_000;
/// Time between two looks at the processes without an agent, ns, and in multiples of the CPU time
/// of the last one: they take at most a hundredth of a CPU.
const LOOK_NS: u64 = 50_000_000;
const REST: u64 = 100;
/// Maximum time between two looks at a process that rests, ns: some kernels count CPU time in
/// coarse steps.
const MAX_REST_NS: u64 = 1_000_000_000;

/// Time, and CPU time, in which a program has loaded its libraries, ns. A busy machine may keep it
/// waiting for a CPU. Until then, the agent would count the same time again.
const LOADING_NS: u64 = 500_000_000;
const LOADING_CPU_NS: u64 = 20_000_000;

/// The present knowledge about the program of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Candidate {
    /// It had not loaded the agent when it was looked at first, at this time, ns. Its loader may be
    /// about to.
    Young { since_ns: u64 },
    /// It lacks the agent.
    Stranger,
    /// It carries the agent, or is not to be sampled.
    Other,
}

/// The program of a process when it was looked at last.
struct KnownProgram {
    /// The start of its stack, which tells programs of one process apart.
    stack_start: u64,
    candidate: Candidate,
    /// The time of the look, and the CPU time that the process had used before it, ns.
    seen_ns: u64,
    used_ns: Option<u64>,
}

impl KnownProgram {
    /// Returns whether a process with the agent that has used this CPU time is as it was: it
    /// becomes another program, and its first thread ends, in CPU time of its own.
    fn rests(&self, used_ns: Option<u64>, now_ns: u64) -> bool {
        let is_recent = now_ns.saturating_sub(self.seen_ns) < MAX_REST_NS;
        self.candidate == Candidate::Other && is_recent && used_ns.is_some() && self.used_ns == used_ns
    }
}

/// The processes that are sampled from outside beside those with agents.
pub(super) struct OutsideProcesses {
    /// Time from which on the wall clock is sampled, ns.
    since_ns: u64,
    /// Whether processes are sampled while they sleep.
    has_sleepers: bool,
    /// The time at which each was last named to the sampler, ns.
    named: HashMap<ProcessIdentity, u64>,
    /// Those that the kernel does not let the sampler look into.
    refused: HashSet<ProcessIdentity>,
    /// Other tracers of processes that were reported.
    tracers: HashSet<u32>,
    /// Programs by pid.
    programs: HashMap<u32, KnownProgram>,
    /// Time of the next look at them, ns.
    next_look_ns: u64,
    /// Whether no sampler can be started.
    has_failed: bool,
}

impl OutsideProcesses {
    /// Creates the state of a session that starts now.
    pub(super) fn new(now_ns: u64) -> OutsideProcesses {
        OutsideProcesses {
            since_ns: now_ns,
            has_sleepers: false,
            named: HashMap::new(),
            refused: HashSet::new(),
            tracers: HashSet::new(),
            programs: HashMap::new(),
            next_look_ns: 0,
            has_failed: false,
        }
    }

    /// Has a process sampled while it sleeps, which nobody samples. Returns whether that may be
    /// possible.
    pub(super) fn sample_asleep(&mut self, pid: u32, sampler: &mut Sampler, now_ns: u64) -> bool {
        let Ok(process) = ProcessIdentity::of(pid) else { return false };
        if self.has_failed || self.refused.contains(&process) {
            return false;
        }
        let last = self.named.get(&process).copied();
        if last.is_none_or(|named_ns| now_ns.saturating_sub(named_ns) >= AGAIN_NS) {
            self.named.insert(process, now_ns);
            let missed_since_ns = if last.is_some() { 0 } else { self.since_ns };
            self.has_sleepers = true;
            self.has_failed = sampler.watch_asleep(process, missed_since_ns).is_err();
        }
        !self.has_failed
    }

    /// Has processes, and with `trees` their descendants, sampled that cannot carry the agent, if a
    /// look at them is due. `connected` returns whether a process is sampled already.
    pub(super) fn sample_strangers(
        &mut self,
        roots: &[u32],
        trees: Option<&mut ProcessTrees>,
        connected: impl Fn(u32) -> bool,
        sampler: &mut Sampler,
        now_ns: u64,
    ) {
        if self.has_failed || now_ns < self.next_look_ns {
            return;
        }
        let before_ns = thread_cpu_ns();
        let mut pids: HashSet<u32> = roots.iter().copied().collect();
        if let Some(trees) = trees {
            pids.extend(roots.iter().flat_map(|&root| trees.descendants(root, now_ns)));
        }
        pids.retain(|&pid| !connected(pid));
        self.programs.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let used_ns = proc::cpu_ns(pid);
            let known = self.programs.get(&pid);
            if known.is_some_and(|program| program.rests(used_ns, now_ns)) {
                continue;
            }
            let Ok(stat) = ProcStat::of(pid) else { continue };
            let known = known.filter(|program| program.stack_start == stat.stack_start);
            let known = known.map(|program| program.candidate);
            let candidate = match known {
                // Its agent has left, and /proc says nothing about its memory any more.
                _ if stat.has_lost_first_thread() => Candidate::Stranger,
                Some(Candidate::Other) => Candidate::Other,
                Some(Candidate::Stranger) => Candidate::Stranger,
                Some(Candidate::Young { since_ns }) if diagnose::can_be_a_stranger(pid) => {
                    match now_ns.saturating_sub(since_ns) >= LOADING_NS || used_ns >= Some(LOADING_CPU_NS) {
                        true => Candidate::Stranger,
                        false => Candidate::Young { since_ns },
                    }
                }
                Some(Candidate::Young { .. }) => Candidate::Other,
                None if diagnose::carries_agent(pid) == Some(false) => Candidate::Young { since_ns: now_ns },
                None => Candidate::Other,
            };
            let stack_start = stat.stack_start;
            self.programs.insert(pid, KnownProgram { stack_start, candidate, seen_ns: now_ns, used_ns });
            let process = ProcessIdentity { pid, start_ticks: stat.start_ticks };
            let is_due = |named_ns: &u64| now_ns.saturating_sub(*named_ns) >= AGAIN_NS;
            if candidate == Candidate::Stranger
                && self.named.get(&process).is_none_or(is_due)
                && !self.refused.contains(&process)
            {
                self.named.insert(process, now_ns);
                self.has_failed = sampler.watch_alone(process).is_err();
            }
        }
        self.next_look_ns = now_ns + LOOK_NS.max(REST * (thread_cpu_ns() - before_ns));
    }

    /// Notes that the kernel does not let the sampler look into a process. Returns whether it is
    /// one of these that has the agent, and is sampled by that as soon as it runs.
    pub(super) fn refuse(&mut self, pid: u32) -> bool {
        let named = self.named.keys().chain(&self.refused).copied().filter(|process| process.pid == pid);
        // The sampler speaks of the last one.
        let Some(process) = named.max_by_key(|process| process.start_ticks) else { return false };
        self.refused.insert(process);
        let is_stranger = self.programs.get(&pid).is_some_and(|program| program.candidate == Candidate::Stranger);
        !is_stranger
    }

    /// Notes that a process has another tracer. Returns whether that tracer is new: it may have
    /// many short children.
    pub(super) fn note_tracer(&mut self, tracer: u32) -> bool {
        self.tracers.insert(tracer)
    }

    /// Notes that no sampler can be started.
    pub(super) fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Notes that the wall clock is not sampled now. Returns whether it has just ended, and the
    /// sampler is to be stopped: sleeping processes have no samples of another clock.
    pub(super) fn end_wall(&mut self, now_ns: u64) -> bool {
        self.since_ns = now_ns;
        let had_sleepers = std::mem::take(&mut self.has_sleepers);
        if had_sleepers {
            self.forget();
        }
        had_sleepers
    }

    /// Forgets which processes are sampled, as the sampler is stopped.
    pub(super) fn forget(&mut self) {
        self.named.clear();
    }
}

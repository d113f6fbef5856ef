//! A target that runs: its process, the agents in it, and what is read of them from outside.

use std::time::Duration;

use super::caller::{Caller, Knocked};
use super::meter::{self, Meter};
use super::session::{Settings, Target};
use super::states;
use super::unsampled::{Ledger, Sampling};
use crate::attach::find;
use crate::attach::proc;
use crate::link::receive::Post;
use crate::link::wire::Clock;
use crate::profile::Profile;

/// Between two readings of meters, ns.
const METER_NS: u64 = 1_000_000_000;
/// A launched target that is told to end and does not: SIGKILL after this, ns.
const PATIENCE_NS: u64 = 2_000_000_000;

/// The running end of a watch.
pub(super) struct Live {
    pub(super) target: Target,
    pub(super) agents: Post,
    pub(super) meter: Meter,
    /// CPU time that the target has used so far.
    pub(super) cpu_used: Duration,
    /// CPU time without samples.
    pub(super) ledger: Ledger,
    caller: Caller,
    metered_ns: u64,
    /// When states of threads were read.
    states_ns: u64,
    /// What the target alone had used at its end, ns; 0 before.
    own_cpu_ns: u64,
    /// When SIGKILL follows SIGTERM.
    kill_at_ns: Option<u64>,
}

impl Live {
    pub(super) fn new(target: Target, agents: Post, now_ns: u64) -> Live {
        let is_attached = matches!(target, Target::Attached(_));
        Live {
            target,
            agents,
            meter: Meter::new(),
            cpu_used: Duration::ZERO,
            ledger: Ledger::new(is_attached, now_ns),
            caller: Caller::default(),
            metered_ns: 0,
            states_ns: 0,
            own_cpu_ns: 0,
            kill_at_ns: None,
        }
    }

    /// Compares the CPU time of the processes with their samples, if that is due; says whether
    /// something new came of it.
    pub(super) fn read_ledger(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) -> bool {
        if !self.ledger.is_due(now_ns) {
            return false;
        }
        let connected = profile.processes().iter().filter(|process| process.connected);
        let mut pids: Vec<u32> = connected.map(|process| process.pid).collect();
        let mut root = None;
        if let Target::Launched(launched) = &self.target {
            root = Some(launched.pid);
            pids.push(launched.pid);
            pids.extend(settings.follow.then(|| proc::descendants(launched.pid)).into_iter().flatten());
        }
        pids.sort_unstable();
        pids.dedup();
        let before = self.ledger.outside_ns;
        self.ledger.read(&pids, root, profile, sampling(settings), now_ns);
        self.ledger.outside_ns != before
    }

    /// The same a last time, when the target has ended and everything has come.
    pub(super) fn close_ledger(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) {
        let (pid, own_ns) = (self.target.pid(), self.own_cpu_ns);
        self.ledger.close(pid, own_ns, profile, sampling(settings), now_ns);
    }

    /// Types into a launched target; says what went wrong.
    pub(super) fn input(&self, bytes: &[u8]) -> Option<String> {
        let Target::Launched(launched) = &self.target else { return None };
        let is_cut = launched.input(bytes).is_ok_and(|taken| taken < bytes.len());
        is_cut.then(|| "the target does not read its input".to_owned())
    }

    /// Tells a launched target the size of its terminal.
    pub(super) fn resize(&self, columns: u16, rows: u16) {
        if let Target::Launched(launched) = &self.target {
            // Gone is gone: the end of the target is told elsewhere.
            let _ = launched.resize(rows, columns);
        }
    }

    /// SIGTERM; asked twice, or after a while, SIGKILL. Says what went wrong.
    pub(super) fn end(&mut self, now_ns: u64) -> Option<String> {
        let Target::Launched(launched) = &self.target else { return None };
        const SIGKILL: i32 = nix::sys::signal::Signal::SIGKILL as i32;
        const SIGTERM: i32 = nix::sys::signal::Signal::SIGTERM as i32;
        let signal = if self.kill_at_ns.is_some() { SIGKILL } else { SIGTERM };
        self.kill_at_ns = Some(now_ns + PATIENCE_NS);
        launched.signal(signal).err().map(|error| error.to_string())
    }

    /// The user's terminal is gone, and with it a launched target's.
    pub(super) fn hang_up(&self) {
        if let Target::Launched(launched) = &self.target {
            // It fails where the target has ended, and there is nobody left to tell.
            let _ = launched.hang_up();
        }
    }

    /// Whether the patience with a target that was told to end is over.
    pub(super) fn is_to_be_killed(&self, now_ns: u64) -> bool {
        self.kill_at_ns.is_some_and(|at_ns| now_ns >= at_ns)
    }

    /// The target has ended, and has used so much CPU time, with its children and alone, if anybody
    /// knows.
    pub(super) fn ended(&mut self, cpu_ns: u64, own_ns: u64) {
        self.own_cpu_ns = own_ns;
        if cpu_ns > 0 {
            self.cpu_used = Duration::from_nanos(cpu_ns);
        }
        self.kill_at_ns = None;
    }

    /// Reads what is due: the CPU time while no agent is there or once a second, and once a second that of all processes,
    /// which is news.
    pub(super) fn read_meters(&mut self, profile: &Profile, ended: bool, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.metered_ns) >= METER_NS;
        if is_due {
            let named = self.target.pids();
            let mut pids: Vec<u32> = named.iter().flat_map(|&pid| proc::descendants(pid)).collect();
            pids.extend(named);
            pids.extend(profile.processes().iter().filter(|process| process.connected).map(|process| process.pid));
            pids.sort_unstable();
            pids.dedup();
            self.meter.read(&pids, now_ns);
            self.metered_ns = now_ns;
        }
        if !ended && (is_due || profile.processes().is_empty()) {
            self.cpu_used = self.target.pids().into_iter().map(meter::cpu_used).sum();
        }
        is_due
    }

    /// Looks what threads do, if that is due.
    pub(super) fn look_at_threads(&mut self, profile: &mut Profile, now_ns: u64) {
        if now_ns.saturating_sub(self.states_ns) >= states::READ_NS {
            states::read(profile);
            self.states_ns = now_ns;
        }
    }

    /// Knocks at who should call and has not: a process attached to, and idle ones when waiting counts. Says why there is
    /// nothing to watch.
    pub(super) fn knock(&mut self, profile: &Profile, settings: &Settings, now_ns: u64) -> Option<String> {
        let connected = |pid: u32| profile.processes().iter().any(|process| process.pid == pid && process.connected);
        let named = self.target.pids();
        let attached = matches!(self.target, Target::Attached(_));
        let waiting_counts = settings.clock == Clock::Real;
        if !(attached || waiting_counts) {
            return None;
        }
        let mut pids = named.clone();
        if settings.follow && (waiting_counts || attached) {
            pids.extend(named.iter().flat_map(|&pid| proc::descendants(pid)));
            pids.sort_unstable();
            pids.dedup();
        }
        // The only one that is watched says why it cannot be; of several, the others remain.
        let is_all = |silent: u32| attached && named == [silent];
        pids.retain(|&silent| !connected(silent) && (is_all(silent) || find::check(silent).is_ok()));
        for silent in pids {
            self.agents.expect(silent);
            if !attached && self.caller.is_stirring(silent, now_ns) {
                continue;
            }
            match self.caller.call(silent, now_ns) {
                Knocked::Wait => {}
                Knocked::Failed(error) if is_all(silent) => return Some(error.to_string()),
                Knocked::GivenUp if is_all(silent) => {
                    return Some(format!("process {silent} carries the agent, but it does not answer"));
                }
                Knocked::Failed(_) | Knocked::GivenUp => {}
            }
        }
        None
    }
}

/// What the settings mean for the account of CPU time.
fn sampling(settings: &Settings) -> Sampling {
    Sampling { is_on: settings.clock == Clock::Prof, period_ns: settings.period_ns }
}

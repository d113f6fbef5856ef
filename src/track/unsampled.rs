//! CPU time that no sample stands for, seen from outside: the CPU clock of each process against its
//! samples and counted losses. The agent keeps such an account too ([`Loss::Unseen`]), but an agent
//! that never had a tick was never spawned.
//!
//! Only what cannot be chance is counted: each thread may owe a period and a tick of the scheduler,
//! and so may each program that a process executed and each change of the sampling. A reading is
//! compared with the samples that have come [`LAG_NS`] later, as they are on their way for a while.

use std::collections::{HashMap, VecDeque};

use crate::attach::proc::{self, Stat};
use crate::attach::silent;
use crate::link::wire::TICK_SIGNALS;
use crate::profile::Profile;
use crate::profile::loss::Loss;

/// Between two readings, ns; shorter while the watch is young, as many programs are over soon.
const READ_NS: u64 = 1_000_000_000;
const EARLY_READ_NS: u64 = 100_000_000;
const EARLY_NS: u64 = 2_000_000_000;
/// How long samples may be on their way, ns.
const LAG_NS: u64 = 2_000_000_000;
/// The longest tick of a scheduler in use (100 Hz), ns.
const SCHEDULER_TICK_NS: u64 = 10_000_000;
/// Less than this is not worth a sentence, ns, and as a part of the CPU time.
const LEAST_NS: u64 = 100_000_000;
const LEAST_SHARE: f64 = 0.01;
/// The signal of the first tick of a process whose agent has said nothing yet.
const FIRST_SIGNAL: u32 = TICK_SIGNALS[0] as u32;
/// Why agents count time without ticks, as a rule.
const ENDED_EARLY: &str = "threads ended before their first tick, or blocked its signal";
/// Processes in the account, at most. Those beyond are not judged.
const MAX_PROCESSES: usize = 4096;

/// How much of the CPU time was not sampled, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsampled {
    /// CPU time without a tick, ns.
    pub ns: u64,
    /// As a part of all CPU time.
    pub share: f64,
    /// Why, where it could be seen.
    pub why: Option<String>,
}

impl std::fmt::Display for Unsampled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} % of CPU time not sampled{}", self.percent(), self.reason())
    }
}

impl Unsampled {
    /// What it is, for where it is said that it was not sampled.
    pub fn share_of_cpu_time(&self) -> String {
        format!("{} % of CPU time{}", self.percent(), self.reason())
    }

    fn reason(&self) -> String {
        self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
    }

    /// The share in whole percent. What is not all is not called 100.
    pub fn percent(&self) -> u32 {
        let percent = (self.share * 100.0).round() as u32;
        if self.share < 1.0 { percent.min(99) } else { 100 }
    }
}

/// The CPU time of one process, from outside.
#[derive(Debug, Default)]
struct Account {
    /// Used before it was to be sampled, ns.
    before_ns: u64,
    /// When its clock was read and what it said, ns, oldest first: none older than needed.
    readings: VecDeque<(u64, u64)>,
    /// The most threads that it had.
    threads: u64,
    /// Whether it has, or had, the agent's library. The launched process is taken in any case.
    is_known: bool,
    why: Option<String>,
}

/// What is to be known of the sampling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    /// Whether the CPU clock ticks.
    pub(super) is_on: bool,
    /// Of the clock, ns.
    pub(super) period_ns: u64,
}

/// The accounts of all processes.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: HashMap<(u32, u64), Account>,
    /// Whether processes were running before the watch began.
    is_attached: bool,
    read_ns: u64,
    since_ns: u64,
    /// How often the sampling was changed.
    changes: u64,
    /// Whether it was changed since the last reading.
    has_changed: bool,
    /// The longest period so far, ns.
    period_ns: u64,
    /// CPU time without a tick that no agent counts, ns.
    pub(super) outside_ns: u64,
    /// What is to be said.
    pub(super) found: Option<Unsampled>,
}

/// What has come of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    ns: u64,
    images: u64,
    signal: u32,
}

impl Ledger {
    pub(super) fn new(is_attached: bool, since_ns: u64) -> Ledger {
        Ledger {
            accounts: HashMap::new(),
            is_attached,
            read_ns: 0,
            since_ns,
            changes: 0,
            has_changed: false,
            period_ns: 0,
            outside_ns: 0,
            found: None,
        }
    }

    /// Whether it is time for a reading.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        let is_early = now_ns.saturating_sub(self.since_ns) < EARLY_NS;
        now_ns.saturating_sub(self.read_ns) >= if is_early { EARLY_READ_NS } else { READ_NS }
    }

    /// The sampling changes. What is used around the change is not judged.
    pub(super) fn change(&mut self) {
        self.changes += 1;
        self.has_changed = true;
        self.read_ns = 0;
    }

    /// Reads the clocks of these processes; `root` is counted whether or not it carries the agent.
    pub(super) fn read(&mut self, pids: &[u32], root: Option<u32>, profile: &Profile, sampling: Sampling, now_ns: u64) {
        self.read_ns = now_ns;
        self.period_ns = self.period_ns.max(sampling.period_ns);
        let is_on = sampling.is_on && !std::mem::take(&mut self.has_changed);
        let shown = shown_by_pid(profile);
        for &pid in pids {
            let Some((stat, used_ns)) = Stat::of(pid).ok().zip(proc::cpu_ns(pid)) else { continue };
            let key = (pid, stat.start_ticks);
            if self.accounts.len() >= MAX_PROCESSES && !self.accounts.contains_key(&key) {
                continue;
            }
            let is_attached = self.is_attached;
            let account = self
                .accounts
                .entry(key)
                .or_insert_with(|| Account { before_ns: if is_attached { used_ns } else { 0 }, ..Account::default() });
            account.note(now_ns, used_ns, stat.threads, is_on);
            let shown = shown.get(&pid).copied().unwrap_or_default();
            account.is_known |= root == Some(pid) || shown.images > 0;
            // Looked at closely only where it is called for: it takes a while.
            let owed_ns = account.used_ns(now_ns).saturating_sub(shown.ns);
            if owed_ns > account.allowance_ns(shown.images, self.changes, self.period_ns) + LEAST_NS {
                account.is_known = account.is_known || silent::carries_agent(pid) == Some(true);
                if account.is_known {
                    let signal = if shown.signal == 0 { FIRST_SIGNAL } else { shown.signal };
                    account.why = silent::why(pid, signal).or(account.why.take());
                }
            }
        }
        self.judge(profile, |_| now_ns.saturating_sub(LAG_NS));
    }

    /// The launched process has ended with so much CPU time, and all samples have come.
    pub(super) fn close(&mut self, pid: u32, own_ns: u64, profile: &Profile, sampling: Sampling, now_ns: u64) {
        self.period_ns = self.period_ns.max(sampling.period_ns);
        let last = self.accounts.iter_mut().filter(|((of, _), _)| *of == pid).max_by_key(|((_, start), _)| *start);
        match last {
            _ if own_ns == 0 => {}
            Some((_, account)) => account.note(now_ns, own_ns, 0, sampling.is_on),
            None if sampling.is_on => {
                let mut account = Account { is_known: true, ..Account::default() };
                account.note(now_ns, own_ns, 1, true);
                self.accounts.insert((pid, 0), account);
            }
            None => {}
        }
        // Samples of a process that runs on may be on their way. All others have come.
        let is_alive = |&(pid, start): &(u32, u64)| Stat::of(pid).is_ok_and(|stat| stat.start_ticks == start);
        self.judge(profile, |process| if is_alive(process) { now_ns.saturating_sub(LAG_NS) } else { now_ns });
    }

    /// Adds up what each process had used by a time of its own and has not come as samples or
    /// losses by now.
    fn judge(&mut self, profile: &Profile, until_ns: impl Fn(&(u32, u64)) -> u64) {
        let shown = shown_by_pid(profile);
        let (mut used_ns, mut outside_ns, mut worst) = (0u64, 0u64, (0, None));
        for (process, account) in self.accounts.iter().filter(|(_, account)| account.is_known) {
            let shown = shown.get(&process.0).copied().unwrap_or_default();
            let used = account.used_ns(until_ns(process));
            used_ns += used;
            let allowance_ns = account.allowance_ns(shown.images, self.changes, self.period_ns);
            let owed_ns = used.saturating_sub(shown.ns);
            if owed_ns > allowance_ns {
                outside_ns += owed_ns;
                worst = worst.max((owed_ns, account.why.clone()));
            }
        }
        self.outside_ns = outside_ns;
        let unseen_ns = profile.losses().lost_ns[Loss::Unseen as usize];
        let ns = outside_ns.saturating_add(unseen_ns);
        let share = (ns as f64 / used_ns.max(1) as f64).min(1.0);
        let is_worth_it = ns >= LEAST_NS && share >= LEAST_SHARE;
        // Of a process that no tick reaches its agent, if there is one, counts nothing.
        let why = worst.1.or_else(|| (unseen_ns > outside_ns).then(|| ENDED_EARLY.to_owned()));
        self.found = is_worth_it.then_some(Unsampled { ns, share, why });
    }
}

impl Account {
    fn note(&mut self, now_ns: u64, used_ns: u64, threads: u64, is_on: bool) {
        self.threads = self.threads.max(threads);
        if !is_on {
            // Another clock ticks: what is used meanwhile is not to be sampled.
            let last_ns = self.readings.back().map_or(self.before_ns, |&(_, used_ns)| used_ns);
            self.before_ns += used_ns.saturating_sub(last_ns);
            self.readings.iter_mut().for_each(|(_, reading)| *reading += used_ns.saturating_sub(last_ns));
        }
        self.readings.push_back((now_ns, used_ns));
        // One reading older than the lag is enough.
        while self.readings.get(1).is_some_and(|&(at_ns, _)| at_ns + LAG_NS <= now_ns) {
            self.readings.pop_front();
        }
    }

    /// CPU time that was to be sampled, as of the last reading until then, ns.
    fn used_ns(&self, until_ns: u64) -> u64 {
        let reading = self.readings.iter().rev().find(|&&(at_ns, _)| at_ns <= until_ns);
        reading.map_or(0, |&(_, used_ns)| used_ns.saturating_sub(self.before_ns))
    }

    /// What may be owed, ns.
    fn allowance_ns(&self, images: u64, changes: u64, period_ns: u64) -> u64 {
        let owing = self.threads.max(1) + images + changes + 1;
        owing.saturating_mul(period_ns + SCHEDULER_TICK_NS)
    }
}

/// Samples of the CPU clock, counted losses and the agents' own time, by pid.
fn shown_by_pid(profile: &Profile) -> HashMap<u32, Shown> {
    let mut shown: HashMap<u32, Shown> = HashMap::new();
    for process in profile.processes() {
        let of = shown.entry(process.pid).or_default();
        let lost_ns = process.account.lost_ns.iter().fold(0u64, |sum, &ns| sum.saturating_add(ns));
        let parts = [process.sampled_ns, lost_ns, process.account.agent_cpu_ns];
        of.ns = parts.into_iter().fold(of.ns, u64::saturating_add);
        of.images += 1;
        of.signal = process.engaged.as_ref().map_or(0, |engaged| engaged.signal);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_another_clock_saw_is_not_judged() {
        let mut account = Account::default();
        account.note(S, S, 1, true);
        assert_eq!((account.used_ns(S - 1), account.used_ns(S)), (0, S));
        account.note(2 * S, 2 * S, 1, false);
        assert_eq!((account.used_ns(S), account.used_ns(2 * S)), (S, S), "the second while the wall clock ticked");
        account.note(3 * S, 3 * S, 1, true);
        assert_eq!(account.used_ns(3 * S), 2 * S);
    }

    #[test]
    fn readings_are_kept_as_long_as_samples_may_be_on_their_way() {
        let mut account = Account::default();
        for second in 1..100 {
            account.note(second * S, second * S, 1, true);
            assert!(account.readings.len() as u64 <= 2 + LAG_NS / S);
            assert_eq!(account.used_ns((second * S).saturating_sub(LAG_NS)), (second * S).saturating_sub(LAG_NS));
        }
    }

    #[test]
    fn each_thread_program_and_change_may_owe_a_period_and_a_tick() {
        let account = Account { threads: 4, ..Account::default() };
        assert_eq!(account.allowance_ns(2, 1, 10_000_000), 8 * 20_000_000);
        assert_eq!(Account::default().allowance_ns(0, 0, 10_000_000), 2 * 20_000_000);
    }

    #[test]
    fn the_sentence_has_whole_percents_and_the_reason() {
        let unsampled = |share, why: Option<&str>| Unsampled { ns: S, share, why: why.map(str::to_owned) };
        assert_eq!(unsampled(0.174, None).to_string(), "17 % of CPU time not sampled");
        let why = Some("SIGURG is blocked in app");
        assert_eq!(unsampled(0.999, why).to_string(), "99 % of CPU time not sampled: SIGURG is blocked in app");
        assert_eq!(unsampled(1.0, why).share_of_cpu_time(), "100 % of CPU time: SIGURG is blocked in app");
    }
}

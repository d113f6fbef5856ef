//! CPU time without samples, as seen by the viewer: compares the CPU clock of each process with its
//! samples and counted losses. The agent does the same ([`LossCause::Unaccounted`]), but an agent
//! that never had a tick was never spawned.
//!
//! Only significant differences are counted: each thread, each executed program and each change of
//! the sampling may account for one period and one scheduler tick, and the agent for half of the
//! CPU time that it reported. A reading is compared with the samples that have arrived [`LAG_NS`]
//! later, because samples need some time.
//!
//! Many processes are too short to be looked at. The kernel adds their CPU time to that of the
//! parent that reaps them, so the tree of a launched program is compared as a whole, too. Its
//! samples are at random times, so their total differs by chance, by [`Chance`] at most.

use std::collections::{HashMap, VecDeque};

use super::sampling_error::Chance;
use crate::attach::diagnose::{self, Diagnosis, diagnose};
use crate::attach::proc::{self, ProcStat};
use crate::profile::Profile;
use crate::profile::loss::LossCause;
use crate::wire::SCHEDULER_TICK_NS;

/// Time between two readings, ns. It is shorter at the start of a session, because many programs
/// end soon.
const READ_NS: u64 = 1_000_000_000;
const EARLY_READ_NS: u64 = 100_000_000;
const EARLY_NS: u64 = 2_000_000_000;
/// Maximum time that samples take to arrive, ns.
const LAG_NS: u64 = 2_000_000_000;
/// Smaller differences are not reported: in ns, and as a fraction of the CPU time.
const LEAST_NS: u64 = 100_000_000;
const LEAST_SHARE: f64 = 0.01;
/// The reason for CPU time of processes that were gone before they could be looked at.
const NEVER_REPORTED: &str = "processes ended before their next tick";
/// The usual reason for CPU time that agents count as unaccounted.
const ENDED_EARLY: &str = "threads ended before their first tick, or blocked its signal";
/// The usual reason for CPU time that the sampler counts as unaccounted.
const ENDED_UNSEEN: &str = "threads ran or ended between two samples";
/// Maximum number of processes. Further ones are not checked.
const MAX_PROCESSES: usize = 4096;

/// CPU time without samples, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsampled {
    /// CPU time without samples, ns.
    pub ns: u64,
    /// Fraction of all CPU time.
    pub share: f64,
    /// The reason, if it is known.
    pub why: Option<String>,
}

impl std::fmt::Display for Unsampled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} % of CPU time not sampled{}", self.percent(), self.reason())
    }
}

impl Unsampled {
    /// The share and the reason, for texts that say already that the time was not sampled.
    pub fn share_of_cpu_time(&self) -> String {
        format!("{} % of CPU time{}", self.percent(), self.reason())
    }

    fn reason(&self) -> String {
        self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
    }

    /// The share in whole percent. It is 100 only if all CPU time lacks samples.
    pub fn percent(&self) -> u32 {
        let percent = (self.share * 100.0).round() as u32;
        if self.share < 1.0 { percent.min(99) } else { 100 }
    }
}

/// The CPU time of one process, read from `/proc`.
#[derive(Debug, Default)]
struct Account {
    /// CPU time that was not to be sampled, ns.
    before_ns: u64,
    /// Time and CPU time of each reading that is still needed, ns, oldest first.
    readings: VecDeque<(u64, u64)>,
    /// Maximum number of threads so far.
    threads: u64,
    /// Whether it has, or had, the agent's library, or was launched.
    is_known: bool,
    /// Number of images that had reported, and CPU time when the last of them first had, ns.
    images: u64,
    reported_at_ns: u64,
    /// CPU time since then, if the agent has sent no sample, ns.
    silent_ns: u64,
    why: Option<Diagnosis>,
    /// CPU time that its agent counted as unsampled at the last diagnosis, ns.
    diagnosed_unaccounted_ns: u64,
}

/// The sampling that is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    /// Whether the CPU clock ticks.
    pub(super) is_on: bool,
    /// The sampling period, ns.
    pub(super) period_ns: u64,
}

/// The CPU times of all processes.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: HashMap<(u32, u64), Account>,
    /// The reasons why processes cannot be sampled from outside.
    refused: HashMap<(u32, u64), Diagnosis>,
    /// The launched program with all its descendants, also those that have ended.
    tree: Account,
    /// Whether processes were running before the session started.
    is_attached: bool,
    /// Whether a sampler watches from outside: then the absence of an agent explains nothing.
    pub(super) is_external: bool,
    read_ns: u64,
    since_ns: u64,
    /// Number of changes of the sampling.
    changes: u64,
    /// Whether it was changed since the last reading.
    has_changed: bool,
    /// The longest period so far, ns.
    period_ns: u64,
    /// Time that agents and samplers counted as unaccounted so far, ns, and the part of it that was
    /// counted while another than the CPU clock ticked.
    unaccounted_ns: u64,
    other_clocks_ns: u64,
    /// CPU time without samples that no agent counts, ns.
    pub(super) outside_ns: u64,
    /// The finding to report to the user.
    pub(super) found: Option<Unsampled>,
}

/// The values received from one process so far.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    ns: u64,
    /// CPU time without a tick that the agent counted, ns.
    unaccounted_ns: u64,
    /// The agents' own CPU time, as they reported it, ns.
    agent_ns: u64,
    images: u64,
    /// Whether it is, or was, sampled from outside.
    is_external: bool,
    /// Whether an agent has reported its last image and sent no sample of that, by any clock.
    is_silent: bool,
    signal: u32,
}

impl Ledger {
    pub(super) fn new(is_attached: bool, since_ns: u64) -> Ledger {
        Ledger {
            accounts: HashMap::new(),
            refused: HashMap::new(),
            tree: Account::default(),
            is_attached,
            is_external: false,
            read_ns: 0,
            since_ns,
            changes: 0,
            has_changed: false,
            period_ns: 0,
            unaccounted_ns: 0,
            other_clocks_ns: 0,
            outside_ns: 0,
            found: None,
        }
    }

    /// Notes why the kernel does not let a process be sampled, as a clause about it.
    pub(super) fn explain(&mut self, pid: u32, reason: &str) {
        let start_ticks = ProcStat::of(pid).map_or(0, |stat| stat.start_ticks);
        self.refused.insert((pid, start_ticks), diagnose::refused(pid, reason));
    }

    /// Whether a reading is due.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        let is_early = now_ns.saturating_sub(self.since_ns) < EARLY_NS;
        now_ns.saturating_sub(self.read_ns) >= if is_early { EARLY_READ_NS } else { READ_NS }
    }

    /// Notes that the sampling changes. CPU time around the change is not checked.
    pub(super) fn change(&mut self) {
        self.changes += 1;
        self.has_changed = true;
        self.read_ns = 0;
    }

    /// Notes the CPU time of the launched program and all its descendants, before
    /// [`read`](Self::read) or [`close`](Self::close).
    pub(super) fn read_tree(&mut self, used_ns: u64, profile: &Profile, sampling: Sampling, now_ns: u64) {
        let is_on = is_judged(profile, sampling) && !self.has_changed;
        // Descendants that lost their parent take their CPU time with them.
        let last_ns = self.tree.readings.back().map_or(0, |&(_, used_ns)| used_ns);
        self.tree.note(now_ns, used_ns.max(last_ns), 0, is_on);
    }

    /// Reads the clocks of these processes. Launched ones are counted whether or not they carry the
    /// agent.
    pub(super) fn read(&mut self, pids: &[u32], profile: &Profile, sampling: Sampling, now_ns: u64) {
        self.read_ns = now_ns;
        self.note_sampling(profile, sampling);
        let is_on = is_judged(profile, sampling) && !std::mem::take(&mut self.has_changed);
        let shown = shown_by_pid(profile);
        for &pid in pids {
            let Some((stat, used_ns)) = ProcStat::of(pid).ok().zip(proc::cpu_ns(pid)) else { continue };
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
            account.is_known |= !is_attached || shown.images > 0;
            account.why = account.why.take().filter(|_| !self.is_external);
            // The reason is only looked for if there is something to explain, because it takes a
            // while.
            let has_reported = shown.images > 0;
            let owed_ns = account.used_ns(now_ns).saturating_sub(shown.ns);
            let least_ns = if has_reported { LEAST_NS } else { 0 };
            let has_new_unaccounted = shown.unaccounted_ns > account.diagnosed_unaccounted_ns + LEAST_NS;
            let is_owing = owed_ns > account.allowance_ns(&shown, self.changes, self.period_ns) + least_ns;
            if std::mem::replace(&mut account.images, shown.images) != shown.images {
                account.reported_at_ns = used_ns;
            }
            account.silent_ns = if shown.is_silent { used_ns.saturating_sub(account.reported_at_ns) } else { 0 };
            let is_empty = has_reported && used_ns >= LEAST_NS && profile.stack_quality().samples == 0;
            let is_silent = is_empty || account.silent_ns >= LEAST_NS;
            if (is_owing || has_new_unaccounted || is_silent) && !self.is_external {
                account.diagnosed_unaccounted_ns = shown.unaccounted_ns;
                account.is_known = account.is_known || diagnose::carries_agent(pid) == Some(true);
                if account.is_known {
                    let late = shown.is_external.then(|| diagnose::sampled_late(pid)).flatten();
                    let found = late.or_else(|| diagnose(pid, shown.signal, has_reported));
                    account.why = found.or(account.why.take());
                }
            }
        }
        let until_ns = now_ns.saturating_sub(LAG_NS);
        self.judge(profile, until_ns, |_| until_ns);
    }

    /// Checks a last time after the launched process has ended and all samples have arrived.
    /// `own_ns` is its CPU time.
    pub(super) fn close(&mut self, pid: u32, own_ns: u64, profile: &Profile, sampling: Sampling, now_ns: u64) {
        self.note_sampling(profile, sampling);
        let is_on = is_judged(profile, sampling);
        let last = self.accounts.iter_mut().filter(|((of, _), _)| *of == pid).max_by_key(|((_, start), _)| *start);
        match last {
            _ if own_ns == 0 => {}
            Some((_, account)) => account.note(now_ns, own_ns, 0, is_on),
            None if is_on => {
                let mut account = Account { is_known: true, ..Account::default() };
                account.note(now_ns, own_ns, 1, true);
                self.accounts.insert((pid, 0), account);
            }
            None => {}
        }
        // Samples of a process that still runs may be on their way.
        let is_alive = |&(pid, start): &(u32, u64)| ProcStat::of(pid).is_ok_and(|stat| stat.start_ticks == start);
        let until_ns = |process: &_| if is_alive(process) { now_ns.saturating_sub(LAG_NS) } else { now_ns };
        self.judge(profile, now_ns, until_ns);
    }

    fn note_sampling(&mut self, profile: &Profile, sampling: Sampling) {
        self.period_ns = self.period_ns.max(sampling.period_ns);
        let unaccounted_ns = profile.losses().lost_ns[LossCause::Unaccounted as usize];
        if !sampling.is_on {
            self.other_clocks_ns += unaccounted_ns.saturating_sub(self.unaccounted_ns);
        }
        self.unaccounted_ns = unaccounted_ns;
    }

    /// Sums the CPU time that each process had used until a given time and that has not arrived as
    /// samples or losses by now, and what the tree had used beyond that until `tree_ns`.
    fn judge(&mut self, profile: &Profile, tree_ns: u64, until_ns: impl Fn(&(u32, u64)) -> u64) {
        let shown = shown_by_pid(profile);
        let (mut outside_ns, mut worst) = (0u64, (0, None));
        let mut reasons = Vec::new();
        for (process, account) in self.accounts.iter().filter(|(_, account)| account.is_known) {
            let shown = shown.get(&process.0).copied().unwrap_or_default();
            let used = account.used_ns(until_ns(process));
            let allowance_ns = account.allowance_ns(&shown, self.changes, self.period_ns);
            let owed_ns = used.saturating_sub(shown.ns);
            let owed_ns = if owed_ns > allowance_ns { owed_ns } else { 0 };
            outside_ns += owed_ns;
            if owed_ns + shown.unaccounted_ns > 0 {
                let why = self.refused.get(process).or(account.why.as_ref());
                worst = worst.max((owed_ns + shown.unaccounted_ns, why));
                reasons.extend(why);
            }
        }
        let tree_used_ns = self.tree.used_ns(tree_ns);
        let unaccounted_ns = self.unaccounted_ns.saturating_sub(self.other_clocks_ns);
        let all_shown_ns = shown.values().fold(0u64, |sum, shown| sum.saturating_add(shown.ns));
        let (unsampled_ns, sampled_ns) =
            (outside_ns.saturating_add(unaccounted_ns), all_shown_ns.saturating_sub(unaccounted_ns));
        let chance = Chance::of(profile, self.period_ns);
        let never_reported_ns = chance.never_reported_ns(tree_used_ns, unsampled_ns, sampled_ns);
        outside_ns += never_reported_ns;
        self.outside_ns = outside_ns;
        let agents_ns = shown.values().fold(0u64, |sum, shown| sum.saturating_add(shown.agent_ns));
        let counted_ns = all_shown_ns.saturating_sub(agents_ns);
        let ns = outside_ns.saturating_add(unaccounted_ns);
        let share = missing_share(ns, outside_ns, counted_ns);
        let is_worth_it = ns >= LEAST_NS && share >= LEAST_SHARE;
        // The agent of a process that gets no ticks, if there is one, counts nothing.
        let count = |why: &Diagnosis| reasons.iter().filter(|reason| why.has_same_reason(reason)).count();
        let why = worst.1.map(|why| why.describe(count(why)));
        let is_most = never_reported_ns > worst.0.max(unaccounted_ns);
        let why = if is_most { Some(NEVER_REPORTED.to_owned()) } else { why };
        let ended_early = if self.is_external { ENDED_UNSEEN } else { ENDED_EARLY };
        let why = why.or_else(|| (unaccounted_ns > outside_ns).then(|| ended_early.to_owned()));
        let found = is_worth_it.then_some(Unsampled { ns, share, why });
        self.found = found.or_else(|| self.find_silent(profile));
    }

    /// Returns why no samples come from the process that has used most, by any clock: among
    /// those whose agents send none, or among all if nothing at all has been sampled.
    fn find_silent(&self, profile: &Profile) -> Option<Unsampled> {
        let is_empty = profile.stack_quality().samples == 0;
        let used_ns = |account: &Account| account.readings.back().map_or(0, |&(_, used_ns)| used_ns);
        let silent_ns = |account: &Account| if is_empty { used_ns(account) } else { account.silent_ns };
        let silent = self.accounts.values().filter(|account| is_empty || account.silent_ns >= LEAST_NS);
        let explained = silent.filter_map(|account| Some((silent_ns(account), account.why.as_ref()?)));
        let (ns, why) = explained.max_by_key(|&(ns, _)| ns)?;
        let all_ns = self.accounts.values().map(used_ns).sum::<u64>().max(1);
        let share = if is_empty { 1.0 } else { ns as f64 / all_ns as f64 };
        Some(Unsampled { ns, share, why: Some(why.describe(1)) })
    }
}

impl Account {
    fn note(&mut self, now_ns: u64, used_ns: u64, threads: u64, is_on: bool) {
        self.threads = self.threads.max(threads);
        if !is_on {
            // CPU time that is used while another clock ticks is not to be sampled.
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

    /// CPU time that was to be sampled, at the last reading until `until_ns`, ns.
    fn used_ns(&self, until_ns: u64) -> u64 {
        let reading = self.readings.iter().rev().find(|&&(at_ns, _)| at_ns <= until_ns);
        reading.map_or(0, |&(_, used_ns)| used_ns.saturating_sub(self.before_ns))
    }

    /// CPU time that may lack samples by chance, or that the agent used since its last report, ns.
    /// An agent on a busy machine may be cut off before it has reported at the end of its process.
    fn allowance_ns(&self, shown: &Shown, changes: u64, period_ns: u64) -> u64 {
        let owing = self.threads.max(1) + shown.images + changes + 1;
        owing.saturating_mul(period_ns + SCHEDULER_TICK_NS).saturating_add(shown.agent_ns / 2)
    }
}

/// The fraction of all CPU time that `missing_ns` are: of what has arrived as samples and losses,
/// and of what has not. Both are of now, as in a miss rate; the processes' clocks are older.
fn missing_share(missing_ns: u64, outside_ns: u64, counted_ns: u64) -> f64 {
    (missing_ns as f64 / outside_ns.saturating_add(counted_ns).max(1) as f64).min(1.0)
}

/// Whether CPU time is to be sampled now: while the CPU clock ticks, and under every clock while no
/// agent has reported, as an agent is spawned by CPU time.
fn is_judged(profile: &Profile, sampling: Sampling) -> bool {
    sampling.is_on || profile.processes().is_empty()
}

/// Samples of the CPU clock, counted losses and the agents' own time, by pid.
fn shown_by_pid(profile: &Profile) -> HashMap<u32, Shown> {
    let mut shown: HashMap<u32, Shown> = HashMap::new();
    for process in profile.processes() {
        let of = shown.entry(process.pid).or_default();
        let lost_ns = process.account.lost_ns.iter().fold(0u64, |sum, &ns| sum.saturating_add(ns));
        let is_external = process.engaged.as_ref().is_some_and(|engaged| engaged.engine.is_external());
        // The time of a sampler is not that of the process.
        let agent_ns = if is_external { 0 } else { process.account.agent_cpu_ns };
        let parts = [process.sampled_ns, lost_ns, agent_ns];
        of.ns = parts.into_iter().fold(of.ns, u64::saturating_add);
        of.agent_ns = of.agent_ns.saturating_add(agent_ns);
        of.unaccounted_ns = of.unaccounted_ns.saturating_add(process.account.lost_ns[LossCause::Unaccounted as usize]);
        of.images += 1;
        of.is_external |= is_external;
        of.is_silent = !is_external && process.samples == 0;
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
        let mut shown = Shown { images: 2, ..Shown::default() };
        assert_eq!(account.allowance_ns(&shown, 1, 10_000_000), 8 * 20_000_000);
        shown.agent_ns = 30_000_000;
        assert_eq!(account.allowance_ns(&shown, 1, 10_000_000), 8 * 20_000_000 + 15_000_000, "since its last report");
        assert_eq!(Account::default().allowance_ns(&Shown::default(), 0, 10_000_000), 2 * 20_000_000);
    }

    #[test]
    fn the_tree_owes_what_no_process_shows_beyond_chance() {
        let found = |used_ns, period_ns| {
            let mut ledger = Ledger::new(false, 0);
            ledger.period_ns = period_ns;
            let sampling = Sampling { is_on: true, period_ns };
            ledger.read_tree(used_ns, &Profile::default(), sampling, S);
            ledger.close(7, 0, &Profile::default(), sampling, 2 * S);
            (ledger.outside_ns, ledger.found.and_then(|found| found.why))
        };
        let period_ns = 10_000_000;
        assert_eq!(found(S, period_ns), (S, Some(NEVER_REPORTED.to_owned())));
        assert_eq!(found(S / 10, period_ns), (0, None));
        assert_eq!(found(S / 10, period_ns / 100).0, S / 10);
    }

    #[test]
    fn what_is_missing_is_compared_with_what_has_arrived_by_the_same_time() {
        // One second of three was lost by the sampler; clocks were read when one was used.
        assert_eq!(missing_share(S, 0, 3 * S), 1.0 / 3.0);
        // Half a second more has not arrived at all.
        assert_eq!(missing_share(3 * S / 2, S / 2, 5 * S / 2), 0.5);
        assert_eq!((missing_share(S, S, 0), missing_share(0, 0, 0)), (1.0, 0.0));
    }

    #[test]
    fn a_tree_whose_descendants_leave_it_owes_nothing_twice() {
        let mut ledger = Ledger::new(false, 0);
        let sampling = Sampling { is_on: true, period_ns: 1_000_000 };
        for (at_ns, used_ns) in [(S, 5 * S), (2 * S, S), (3 * S, 2 * S)] {
            ledger.read_tree(used_ns, &Profile::default(), sampling, at_ns);
        }
        assert_eq!(ledger.tree.used_ns(3 * S), 5 * S);
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

//! What was lost, by cause, and what the agents cost: sums over processes, each cumulative since its Hello. And what did
//! not fit into the profile itself.

pub use crate::link::wire::Loss;

use crate::link::wire::Account;

/// Sum of the accounts of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Ticks that were to become samples.
    pub ticks: u64,
    /// Ticks lost, by [`Loss`].
    pub lost_ticks: [u64; Loss::ALL.len()],
    /// Their weight, ns.
    pub lost_ns: [u64; Loss::ALL.len()],
    /// CPU time of the agent threads, ns.
    pub agent_cpu_ns: u64,
    /// CPU time of the handlers, ns (estimated by the agent).
    pub handler_cpu_ns: u64,
    /// CPU time of the processes, ns.
    pub process_cpu_ns: u64,
    /// Signals passed on.
    pub foreign_signals: u64,
}

impl Losses {
    /// Adds one process. An agent may say anything: sums stay at their largest rather than wrap.
    pub fn add(&mut self, account: &Account) {
        let add = |sum: &mut u64, said: u64| *sum = sum.saturating_add(said);
        add(&mut self.ticks, account.ticks);
        for index in 0..Loss::ALL.len() {
            add(&mut self.lost_ticks[index], account.lost_ticks[index]);
            add(&mut self.lost_ns[index], account.lost_ns[index]);
        }
        add(&mut self.agent_cpu_ns, account.agent_cpu_ns);
        add(&mut self.handler_cpu_ns, account.handler_cpu_ns);
        add(&mut self.process_cpu_ns, account.process_cpu_ns);
        add(&mut self.foreign_signals, account.foreign_signals);
    }

    /// Adds CPU time that no tick stood for and no agent counts.
    pub fn add_unseen(&mut self, ns: u64, period_ns: u64) {
        let (ticks, index) = (ns / period_ns.max(1), Loss::Unseen as usize);
        self.ticks = self.ticks.saturating_add(ticks);
        self.lost_ticks[index] = self.lost_ticks[index].saturating_add(ticks);
        self.lost_ns[index] = self.lost_ns[index].saturating_add(ns);
    }

    /// All ticks lost.
    pub fn lost(&self) -> u64 {
        self.lost_ticks.iter().fold(0, |sum, &ticks| sum.saturating_add(ticks))
    }
}

/// What found the profile full. The weight of a sample is never lost by this, but something about it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflows {
    /// Processes turned away: nothing of them is known.
    pub processes: u64,
    /// Samples of threads that are known only as their process's other threads.
    pub threads: u64,
    /// Mappings of files that are known only as other files.
    pub modules: u64,
    /// Samples whose stack was cut down.
    pub stacks: u64,
    /// Entries that left a window before their time.
    pub window: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_summed_and_never_wrap() {
        let mut losses = Losses::default();
        let account =
            Account { ticks: 5, lost_ticks: [1, 0, 2, 0, 0, 0], lost_ns: [u64::MAX; 6], ..Account::default() };
        losses.add(&account);
        losses.add(&account);
        assert_eq!((losses.ticks, losses.lost(), losses.lost_ns[4]), (10, 6, u64::MAX));
    }
}

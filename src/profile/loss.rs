//! Lost ticks by cause, the cost of sampling, and what did not fit the limits of the profile.

pub use crate::wire::LossCause;

use crate::wire::{AgentCounters, Clock};

/// The counters of all agents, summed. Each counts from its Hello on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of ticks, sampled or lost.
    pub ticks: u64,
    /// Number of lost ticks, by [`LossCause`].
    pub lost_ticks: [u64; LossCause::ALL.len()],
    /// Weight of the lost ticks in ns, by [`LossCause`].
    pub lost_ns: [u64; LossCause::ALL.len()],
    /// Weight of the lost samples of memory in bytes, by [`LossCause`].
    pub lost_bytes: [u64; LossCause::ALL.len()],
    /// CPU time of the agent threads, ns.
    pub agent_cpu_ns: u64,
    /// CPU time of the signal handlers in ns, as estimated by the agents.
    pub handler_cpu_ns: u64,
    /// CPU time of the processes, including agents and handlers, ns.
    pub process_cpu_ns: u64,
    /// Number of signals that were passed on to handlers of the target.
    pub foreign_signals: u64,
}

impl Losses {
    /// The weight that was lost on a clock, ns or, on a clock of memory, bytes, by [`LossCause`].
    pub fn lost_weight(&self, clock: Clock) -> [u64; LossCause::ALL.len()] {
        if clock.is_memory() { self.lost_bytes } else { self.lost_ns }
    }

    /// Adds the counters of one agent. They are not trusted: sums saturate instead of wrapping.
    pub fn add(&mut self, account: &AgentCounters) {
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        add(&mut self.ticks, account.ticks);
        for index in 0..LossCause::ALL.len() {
            add(&mut self.lost_ticks[index], account.lost_ticks[index]);
            add(&mut self.lost_ns[index], account.lost_ns[index]);
            add(&mut self.lost_bytes[index], account.lost_bytes[index]);
        }
        add(&mut self.agent_cpu_ns, account.agent_cpu_ns);
        add(&mut self.handler_cpu_ns, account.handler_cpu_ns);
        add(&mut self.process_cpu_ns, account.process_cpu_ns);
        add(&mut self.foreign_signals, account.foreign_signals);
    }

    /// Adds CPU time that the viewer found to have neither samples nor counted losses.
    pub fn add_unaccounted(&mut self, ns: u64, period_ns: u64) {
        let (ticks, index) = (ns / period_ns.max(1), LossCause::Unaccounted as usize);
        self.ticks = self.ticks.saturating_add(ticks);
        self.lost_ticks[index] = self.lost_ticks[index].saturating_add(ticks);
        self.lost_ns[index] = self.lost_ns[index].saturating_add(ns);
    }

    /// Number of lost ticks, of all causes.
    pub fn lost(&self) -> u64 {
        self.lost_ticks.iter().fold(0, |sum, &ticks| sum.saturating_add(ticks))
    }
}

/// Counts of what did not fit the limits of the profile. The weight of a sample is never lost this
/// way, but its thread, file, callers or time may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflows {
    /// Number of processes that were ignored.
    pub processes: u64,
    /// Number of samples that were added to the other threads of their process.
    pub threads: u64,
    /// Number of mappings whose file became `[other files]`.
    pub modules: u64,
    /// Number of samples whose stack was cut to its leaf frame.
    pub stacks: u64,
    /// Number of history entries that were dropped early.
    pub window: u64,
    /// Number of functions of interpreters that were ignored.
    pub scripts: u64,
    /// Number of sampled allocations whose end is not watched: they are not in the memory in use.
    pub allocations: u64,
    /// Bytes for which these stand.
    pub allocated_bytes: u64,
    /// Number of samples whose stack was cut to stay below the memory limit.
    pub memory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_and_saturate() {
        let mut losses = Losses::default();
        let account = AgentCounters {
            ticks: 5,
            lost_ticks: std::array::from_fn(|cause| [1, 0, 2].get(cause).copied().unwrap_or_default()),
            lost_ns: [u64::MAX; LossCause::ALL.len()],
            lost_bytes: [3; LossCause::ALL.len()],
            ..AgentCounters::default()
        };
        losses.add(&account);
        losses.add(&account);
        assert_eq!((losses.ticks, losses.lost(), losses.lost_ns[4]), (10, 6, u64::MAX));
        assert_eq!((losses.lost_weight(Clock::Live)[4], losses.lost_weight(Clock::Real)[4]), (6, u64::MAX));
    }
}

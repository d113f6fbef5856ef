//! The cost of sampling during the window: what the target loses, as a share of its CPU time, and
//! what sigtop and its samplers take beside it, as shares of one CPU.

use std::collections::VecDeque;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::profile::Profile;
use crate::profile::process::Process;

/// Minimum time between two readings, ns.
const STEP_NS: u64 = 1_000_000_000;
/// Maximum number of readings: slightly more than the longest window of a minute.
const READINGS: usize = 64;
/// Minimum time that a fraction is computed over, ns.
const LEAST_NS: u64 = 1_000_000_000;
/// Minimum CPU time of its own that a target uses for its loss to be a share of that, ns, and as a
/// share of one CPU. A share of what a target that sleeps uses says nothing: most of that may be
/// the agent's.
const LEAST_CPU_NS: u64 = 50_000_000;
const LEAST_CPU: f64 = 0.02;

/// CPU time that has been used so far, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostReading {
    /// That of the target.
    pub(super) target_ns: u64,
    /// The part of it that sampling took: signal handlers, agent threads, and stops from outside.
    pub(super) lost_ns: u64,
    /// That of samplers outside.
    pub(super) samplers_ns: u64,
    /// That of sigtop itself.
    pub(super) sigtop_ns: u64,
}

impl CostReading {
    /// Reads the counters of a profile, and of sigtop if it `is_live`.
    pub(super) fn new(profile: &Profile, is_live: bool) -> CostReading {
        let losses = profile.losses();
        let is_outside =
            |process: &&Process| process.engaged.as_ref().is_some_and(|engaged| engaged.engine.is_external());
        let outside = profile.processes().iter().filter(is_outside);
        let samplers_ns = outside.fold(0u64, |sum, process| sum.saturating_add(process.account.agent_cpu_ns));
        let inside_ns = losses.agent_cpu_ns.saturating_sub(samplers_ns);
        let sigtop_ns = if is_live { own_cpu_ns() } else { 0 };
        let lost_ns = losses.handler_cpu_ns.saturating_add(inside_ns);
        CostReading { target_ns: losses.process_cpu_ns, lost_ns, samplers_ns, sigtop_ns }
    }
}

/// The CPU time that this process has used, ns.
fn own_cpu_ns() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    let ns = usage.map_or(0, |usage| usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds());
    u64::try_from(ns).unwrap_or(0)
}

/// The cost in a window; `None` where it is not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WindowCost {
    /// The target's loss, as a share of its CPU time; `None` if it sleeps.
    pub(super) of_target: Option<f64>,
    /// CPU time of samplers outside, as a share of one CPU.
    pub(super) of_samplers: Option<f64>,
    /// The same with sigtop itself, and with the loss of a target that sleeps.
    pub(super) of_sigtop: Option<f64>,
}

/// Readings of the CPU time that was used so far.
pub(super) struct SamplingCost {
    /// Readings with their times, ns, oldest first.
    readings: VecDeque<(u64, CostReading)>,
    first: (u64, CostReading),
}

impl SamplingCost {
    /// Starts at a time, with no CPU time used.
    pub(super) fn new(since_ns: u64) -> SamplingCost {
        SamplingCost { readings: VecDeque::new(), first: (since_ns, CostReading::default()) }
    }

    /// Adds a reading if the last one is old enough.
    pub(super) fn read(&mut self, now: CostReading, now_ns: u64) {
        let last_ns = self.readings.back().map_or(self.first.0, |reading| reading.0);
        if now_ns.saturating_sub(last_ns) >= STEP_NS {
            self.readings.push_back((now_ns, now));
            if self.readings.len() > READINGS {
                self.readings.pop_front();
            }
        }
    }

    /// The cost in the window, or since the start if it is `None`.
    pub(super) fn within(&self, now: CostReading, window_ns: Option<u64>, now_ns: u64) -> WindowCost {
        let since_ns = window_ns.map_or(0, |window_ns| now_ns.saturating_sub(window_ns));
        let readings = [self.first].into_iter().chain(self.readings.iter().copied());
        let (at_ns, then) = readings.take_while(|reading| reading.0 <= since_ns).last().unwrap_or(self.first);
        let passed_ns = now_ns.saturating_sub(at_ns);
        if passed_ns < LEAST_NS {
            return WindowCost::default();
        }
        let since = |now_ns: u64, then_ns: u64| now_ns.saturating_sub(then_ns) as f64;
        let (target, lost) = (since(now.target_ns, then.target_ns), since(now.lost_ns, then.lost_ns));
        let samplers = since(now.samplers_ns, then.samplers_ns);
        let sleeps = target - lost < (LEAST_CPU_NS as f64).max(LEAST_CPU * passed_ns as f64);
        let beside = samplers + since(now.sigtop_ns, then.sigtop_ns) + if sleeps { lost } else { 0.0 };
        WindowCost {
            of_target: (!sleeps).then(|| lost / target),
            of_samplers: Some(samplers / passed_ns as f64),
            of_sigtop: Some(beside / passed_ns as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn used(target_ns: u64, lost_ns: u64) -> CostReading {
        CostReading { target_ns, lost_ns, samplers_ns: lost_ns, sigtop_ns: 2 * lost_ns }
    }

    #[test]
    fn the_loss_is_of_the_targets_time_and_the_rest_of_one_cpu() {
        let mut cost = SamplingCost::new(100 * SECOND_NS);
        assert_eq!(cost.within(used(0, 0), None, 100 * SECOND_NS), WindowCost::default());
        // The target has half a CPU.
        let at = |second: u64| used(second * SECOND_NS / 2, second * 1_000_000);
        for second in 1..=100 {
            cost.read(at(second), (100 + second) * SECOND_NS);
        }
        let close = |part: Option<f64>, to: f64| part.is_some_and(|part| (part - to).abs() < to / 1000.0);
        for window_ns in [Some(10 * SECOND_NS), None] {
            let cost = cost.within(at(100), window_ns, 200 * SECOND_NS);
            assert!(close(cost.of_target, 0.002) && close(cost.of_samplers, 0.001) && close(cost.of_sigtop, 0.003));
        }
        // CPU time before the window does not count.
        let burst = CostReading { lost_ns: 110_000_000, ..at(100) };
        assert!(close(cost.within(burst, Some(10 * SECOND_NS), 200 * SECOND_NS).of_target, 0.004));
    }

    #[test]
    fn an_idle_target_has_no_share() {
        let cost = SamplingCost::new(0);
        let idle = cost.within(used(10_000_000, 1_000_000), None, 10 * SECOND_NS);
        assert_eq!((idle.of_target, idle.of_sigtop), (None, Some(0.0004)));
        // Most of what it uses is the agent's.
        let idle = cost.within(used(500_000_000, 360_000_000), None, 10 * SECOND_NS);
        assert_eq!((idle.of_target, idle.of_sigtop), (None, Some(0.144)));
    }
}

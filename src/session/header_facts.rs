//! The facts in the header, collected for one answer. A number that is not known yet is `None` and
//! shown as `–`.

use std::time::Duration;

use super::java_advice::JavaAdvice;
use super::unsampled_time::Unsampled;
use crate::attach::proc::signal_name;
pub use crate::link::recording::TargetExit;
pub use crate::profile::StackQuality;
use crate::profile::loss::{Losses, Overflows};
use crate::symbols::coverage::NameCoverage;
use crate::symbols::download::DownloadProgress;
use crate::symbols::sanitize::sanitize;
use crate::symbols::worker::SymbolState;
use crate::tally::measure;
use crate::wire::interpreter::Interpreter;
use crate::wire::{Clock, Engine, EngineState};

/// Maximum length of [`Facts::files`], which is computed for every answer.
pub(super) const MAX_FILES: usize = 64;

/// A rate is low below this fraction of the requested one.
const LOW_RATE: f64 = 0.9;
/// The fraction of a CPU from which on a sampler may have reached its limit of a quarter: a tick
/// that is due while it rests waits, and the readings of its clock are a second apart.
const BUSY_SAMPLER: f64 = 0.2;

impl Facts {
    /// Creates the facts of a session of which only the clock is known.
    pub fn unknown(clock: Clock) -> Facts {
        Facts {
            command: String::new(),
            title: None,
            pids: Vec::new(),
            processes: 0,
            threads: None,
            up: Duration::ZERO,
            ended: None,
            clock,
            engine: Engine::Threads,
            sampler: None,
            engine_state: None,
            refusal: None,
            period_ns: 0,
            interval_bytes: 0,
            origin: None,
            effective_hz: None,
            window_ns: None,
            losses: Losses::default(),
            unsampled: None,
            stacks: StackQuality::default(),
            overflows: Overflows::default(),
            interpreters: Vec::new(),
            files: Vec::new(),
            coverage: Vec::new(),
            overhead: None,
            samplers_of_a_cpu: None,
            sigtop_of_a_cpu: None,
            halved_for: None,
            age: None,
            cpu_history: Vec::new(),
            cpu_now: None,
            cpu_used: Duration::ZERO,
            symbolizing: (0, 0),
            waits_for_names: false,
            download: None,
            deadlock: Vec::new(),
            own_allocator: None,
            java: None,
            clock_unix_ns: 0,
            waiting: None,
            merged: 0,
        }
    }
}

/// A sentence about an interpreter whose frames nobody reads.
pub fn unread_reason(interpreter: &Interpreter) -> &'static str {
    match (interpreter.major, interpreter.minor) {
        (3, 8..=14) => {
            "this build is not read: it is free-threaded (without the GIL), or of an unknown layout; native frames only"
        }
        _ => "frames of this version are not read: native frames only",
    }
}

/// The facts in the header.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The command as launched, or the command line of the process attached to.
    pub command: String,
    /// The text that the process attached to has written over its arguments, if it is the only one.
    pub title: Option<String>,
    /// The launched process, or the processes attached to.
    pub pids: Vec<u32>,
    /// Number of processes with a connected agent.
    pub processes: usize,
    /// Number of their threads, or `None` until an agent has counted them.
    pub threads: Option<u32>,
    /// Time since the launch or the attach.
    pub up: Duration,
    /// The target's exit and the time until then, if it has ended.
    pub ended: Option<(TargetExit, Duration)>,
    /// The selected clock.
    pub clock: Clock,
    /// The selected engine.
    pub engine: Engine,
    /// The engine of the samplers outside, where there are any.
    pub sampler: Option<Engine>,
    /// The state of the agents' engines, or `None` before the first has answered.
    pub engine_state: Option<EngineState>,
    /// The reason why an agent could not start its engine, if that ever happened.
    pub refusal: Option<EngineState>,
    /// The selected period in ns, or 0 if it is unknown.
    pub period_ns: u64,
    /// The mean bytes between two samples of memory, which is more than the period where threads
    /// allocate very quickly; 0 if memory is not sampled.
    pub interval_bytes: u64,
    /// The origin of an imported profile, as far as the file tells. `engine` has no meaning if this
    /// is set.
    pub origin: Option<String>,
    /// Number of signals that reached a handler per second of the clock (CPU time of the process or
    /// wall time of a thread), or `None` until it is known.
    pub effective_hz: Option<f64>,
    /// Length of the window in ns, or `None` for the total.
    pub window_ns: Option<u64>,
    /// Losses and costs.
    pub losses: Losses,
    /// CPU time without samples, if it is significant.
    pub unsampled: Option<Unsampled>,
    /// Numbers of samples since the start, by how complete their stacks are.
    pub stacks: StackQuality,
    /// Counts of what did not fit the limits of the profile.
    pub overflows: Overflows,
    /// The interpreters of the processes, by version.
    pub interpreters: Vec<Interpreter>,
    /// Names of the target's files and the state of their symbols, those without symbols first, at
    /// most [`MAX_FILES`].
    pub files: Vec<(String, SymbolState)>,
    /// The weight of the samples with names in each file, since the start. It is updated once a
    /// second.
    pub coverage: Vec<NameCoverage>,
    /// The share of the target's CPU time in the window that sampling takes: handlers, agent
    /// threads, and stops from outside. `None` until it is known, and of an idle target.
    pub overhead: Option<f64>,
    /// CPU time of samplers outside in the window as a fraction of one CPU, or `None` until a
    /// second has passed.
    pub samplers_of_a_cpu: Option<f64>,
    /// The same with sigtop itself.
    pub sigtop_of_a_cpu: Option<f64>,
    /// The budget for which the sampling frequency was halved, if it was, and the user has not set
    /// another since.
    pub halved_for: Option<f64>,
    /// Time since the start of a process that was attached to, the oldest of several.
    pub age: Option<Duration>,
    /// CPU use of the watched processes in each of the last seconds, at most 60, oldest first, in
    /// percent of one core.
    pub cpu_history: Vec<f32>,
    /// User and system time of the last second in percent of one core, or `None` until a second has
    /// passed.
    pub cpu_now: Option<(f32, f32)>,
    /// CPU time of the target while it is watched.
    pub cpu_used: Duration,
    /// Number of frames that have no name yet, and of all frames.
    pub symbolizing: (usize, usize),
    /// Whether more than a twentieth of the frames have had no name for more than a second.
    pub waits_for_names: bool,
    /// The download of debug information that is running.
    pub download: Option<DownloadProgress>,
    /// The names of threads that wait for each other's locks; empty without a deadlock.
    pub deadlock: Vec<String>,
    /// The function of an allocator that a program is linked with: its allocations are not seen.
    pub own_allocator: Option<&'static str>,
    /// The advice for Java, if its stacks lack something.
    pub java: Option<JavaAdvice>,
    /// The time in UTC at which the viewer's clock was 0, ns since 1970, or 0 if it is unknown.
    pub clock_unix_ns: u64,
    /// Number of samples since the freeze, or `None` while not frozen.
    pub waiting: Option<u64>,
    /// Number of recordings that are shown as one, or 0 for a single one.
    pub merged: usize,
}

impl Facts {
    /// Whether there is no sample although the target used CPU time that should have been sampled.
    pub fn has_failed_to_sample(&self) -> bool {
        let has_used_cpu = self.refusal.is_some() && !self.cpu_used.is_zero();
        self.stacks.samples == 0 && (self.unsampled.is_some() || has_used_cpu)
    }

    /// A sentence about a target without samples: how it ended, how much CPU time it used, and why
    /// there is no sample.
    pub fn explain_no_samples(&self) -> String {
        let program = sanitize(self.command.split_whitespace().next().unwrap_or("the target"));
        let cpu = measure::duration(self.cpu_used);
        let how = match self.ended {
            Some((TargetExit::Exited(status), _)) => format!("ended with status {status} after"),
            Some((TargetExit::Killed(signal), _)) => format!("was killed by {} after", signal_name(signal)),
            Some((TargetExit::Gone, _)) => "ended after".to_owned(),
            None => "has used".to_owned(),
        };
        format!("{program} {how} {cpu} of CPU time: no samples ({})", self.explain_no_ticks())
    }

    /// Returns the facts for a user who has read these warnings: the reason why CPU time was not
    /// sampled is left out if it is in one of them.
    pub fn without_reasons_in(&self, warnings: &[String]) -> Facts {
        let mut facts = self.clone();
        if let Some(Unsampled { why: why @ Some(_), .. }) = &mut facts.unsampled {
            why.take_if(|why| warnings.iter().any(|warning| has_same_reason(warning, why)));
        }
        facts
    }

    /// Returns the sampling frequency that was reached, if it is below the one that was requested.
    /// By wall-clock time, a process in which no thread runs needs fewer samples.
    pub fn low_rate(&self) -> Option<f64> {
        let got = self.effective_hz.filter(|_| self.period_ns > 0)?;
        let is_reason = self.clock != Clock::Real || self.rate_limit().is_some();
        (is_reason && got * (self.period_ns as f64) < LOW_RATE * 1e9).then_some(got)
    }

    /// Returns why there are fewer samples than requested, if the sampler is the reason.
    pub fn rate_limit(&self) -> Option<&'static str> {
        let got = self.effective_hz.filter(|_| self.period_ns > 0 && self.engine.is_external())?;
        let is_low = got * (self.period_ns as f64) < LOW_RATE * 1e9;
        let is_busy = self.samplers_of_a_cpu.is_some_and(|share| share >= BUSY_SAMPLER);
        let words =
            "the sampler rests, so that it takes at most a quarter of a CPU; a lower rate, or fewer threads, cost less";
        (is_low && is_busy).then_some(words)
    }

    /// The mean bytes between two samples of memory if that is more than was asked for, because
    /// threads allocate very quickly.
    pub fn longer_interval(&self) -> Option<u64> {
        let is_longer = self.clock.is_memory() && self.interval_bytes / 5 > self.period_ns / 4;
        is_longer.then_some(self.interval_bytes)
    }

    fn explain_no_ticks(&self) -> String {
        match self.refusal {
            Some(EngineState::SignalTaken) => "the target has a handler of its own for the signal".to_owned(),
            Some(EngineState::TimerTaken) => "the target uses this interval timer itself".to_owned(),
            Some(EngineState::Unsupported) => "this clock cannot be had with this engine".to_owned(),
            Some(EngineState::TimerRefused) => "the kernel refuses timers: ulimit -i, or seccomp".to_owned(),
            Some(EngineState::ClockTaken) => "a profile was being written into a file by another clock".to_owned(),
            None | Some(EngineState::Off | EngineState::Running) => match &self.unsampled {
                Some(unsampled) => unsampled.to_string(),
                None if self.clock.is_memory() => {
                    format!("one sample in {} of allocated memory", measure::interval(self.period_ns))
                }
                None => {
                    format!("the sampling period is {}", measure::duration(Duration::from_nanos(self.period_ns)))
                }
            },
        }
    }
}

/// Returns whether `process 41 is traced …` and `app is traced …` give the same reason.
fn has_same_reason(warning: &str, why: &str) -> bool {
    let reason = warning.strip_prefix("process ").and_then(|of_process| of_process.split_once(' '));
    reason.is_some_and(|(_, reason)| why.ends_with(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: `--batch` gave the reason twice.
    #[test]
    fn a_reason_is_given_once() {
        let why = Some("an app is traced by process 7".to_owned());
        let unsampled = Some(Unsampled { ns: 1, share: 1.0, why });
        let facts = Facts { unsampled, ..Facts::unknown(Clock::Prof) };
        let left = |warning: &str| facts.without_reasons_in(&[warning.to_owned()]).unsampled.map(|it| it.to_string());
        assert_eq!(left("process 41 is traced by process 7").as_deref(), Some("100 % of CPU time not sampled"));
        for other in ["process 41 is traced by process 8", "process 41", "an app is traced by process 7"] {
            assert!(left(other).is_some_and(|sentence| sentence.ends_with("traced by process 7")), "{other}");
        }
    }

    #[test]
    fn an_interval_is_longer_if_it_is_by_a_quarter() {
        let longer = |clock, interval_bytes| {
            Facts { period_ns: 4000, interval_bytes, ..Facts::unknown(clock) }.longer_interval()
        };
        let intervals = [4000, 5000, 5010].map(|interval| longer(Clock::Alloc, interval));
        assert_eq!(intervals, [None, None, Some(5010)]);
        assert_eq!(longer(Clock::Real, 5010), None);
    }

    #[test]
    fn a_low_rate_is_explained_where_the_sampler_is_busy() {
        let facts = |engine, got: f64, share| Facts {
            engine,
            period_ns: 10_000_000,
            effective_hz: Some(got),
            samplers_of_a_cpu: Some(share),
            ..Facts::unknown(Clock::Prof)
        };
        let limit = |engine, got, share| facts(engine, got, share).rate_limit().is_some();
        assert!(limit(Engine::External, 41.0, 0.24));
        assert!(!limit(Engine::External, 95.0, 0.24), "the rate is reached");
        assert!(!limit(Engine::External, 41.0, 0.05), "it is not the sampler");
        assert!(!limit(Engine::Threads, 41.0, 0.24), "an agent has no such limit");
    }
}

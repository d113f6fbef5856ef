//! What the header says, collected for one answer. A number not known yet is `None`, and shown as `–`.

use std::time::Duration;

use crate::link::wire::{Clock, Engine, EngineState};
use crate::profile::loss::{Losses, Overflows};
use crate::symbols::worker::SymbolState;
use crate::tally::measure;
use crate::track::Unsampled;

/// How a launched target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It was not ours to wait for: nobody knows.
    Gone,
}

impl Ending {
    /// What a shell makes of it: the status, 128 and the signal, or 0 where it was not ours to know.
    pub fn exit_status(self) -> u8 {
        match self {
            Ending::Exited(status) => status as u8,
            Ending::Killed(signal) => 128u8.saturating_add(signal as u8),
            Ending::Gone => 0,
        }
    }
}

/// Files in [`Facts::files`], at most: it is made anew for every answer.
pub const MAX_FILES: usize = 64;

/// How whole the stacks are: numbers of samples since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// All that were received.
    pub samples: u64,
    /// Those that do not reach the thread's first frame.
    pub truncated: u64,
    /// Of these, those of which nothing but the leaf could be read.
    pub unreadable: u64,
}

impl Facts {
    /// Nothing is known but what is asked for.
    pub fn unknown(clock: Clock) -> Facts {
        Facts {
            command: String::new(),
            pids: Vec::new(),
            processes: 0,
            threads: None,
            up: Duration::ZERO,
            ended: None,
            clock,
            engine: Engine::Threads,
            engine_state: None,
            refusal: None,
            period_ns: 0,
            origin: None,
            effective_hz: None,
            window_ns: None,
            losses: Losses::default(),
            unsampled: None,
            stacks: Stacks::default(),
            overflows: Overflows::default(),
            files: Vec::new(),
            agent_share: None,
            agent_of_a_cpu: None,
            cpu_history: Vec::new(),
            cpu_now: None,
            cpu_used: Duration::ZERO,
            symbolizing: (0, 0),
            waiting: None,
        }
    }
}

/// The header's material.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The command as launched, or the command line of the process attached to.
    pub command: String,
    /// Process launched, or processes attached to.
    pub pids: Vec<u32>,
    /// Processes with an agent now.
    pub processes: usize,
    /// Their threads; `None` until an agent counted them.
    pub threads: Option<u32>,
    /// Since the launch (attached: since the attach).
    pub up: Duration,
    /// How a launched target ended, and after how long.
    pub ended: Option<(Ending, Duration)>,
    /// Clock asked for.
    pub clock: Clock,
    /// Engine asked for.
    pub engine: Engine,
    /// What the agents made of it; `None` before the first answered.
    pub engine_state: Option<EngineState>,
    /// Why nothing is armed, or was at a process's end, if that was ever so.
    pub refusal: Option<EngineState>,
    /// Period asked for, ns; 0 when nobody knows.
    pub period_ns: u64,
    /// What a profile of somebody else's says of its own making; of such a one `engine` means nothing.
    pub origin: Option<String>,
    /// Signals that reached a handler, a second of the clock (CPU second or wall second of a thread); `None` until known.
    pub effective_hz: Option<f64>,
    /// Length of the window, ns; `None` is all.
    pub window_ns: Option<u64>,
    /// Losses and costs.
    pub losses: Losses,
    /// CPU time without a tick, once it is worth a sentence.
    pub unsampled: Option<Unsampled>,
    /// Samples received, whose stack was cut short, and of which nothing but the leaf could be read, since the start.
    pub stacks: Stacks,
    /// What did not fit into the profile.
    pub overflows: Overflows,
    /// What was found of the files of the target, by name; those without names first, at most [`MAX_FILES`].
    pub files: Vec<(String, SymbolState)>,
    /// (handler time + agent threads' CPU) ÷ processes' CPU; `None` until known.
    pub agent_share: Option<f64>,
    /// (handler time + agent threads' CPU) in the window ÷ its length: a part of one CPU; `None`
    /// until a second has passed.
    pub agent_of_a_cpu: Option<f64>,
    /// CPU of the watched processes for each of the last seconds, oldest first, percent of one core; at most 60.
    pub cpu_history: Vec<f32>,
    /// The last second's CPU, percent of one core: user and system; `None` until a second has passed.
    pub cpu_now: Option<(f32, f32)>,
    /// CPU time that the target has used so far.
    pub cpu_used: Duration,
    /// Frames without a name yet, of all frames.
    pub symbolizing: (usize, usize),
    /// Samples that came since the screen was frozen; `None` when it is not.
    pub waiting: Option<u64>,
}

impl Facts {
    /// Why a target ended without a sample.
    pub fn why_no_sample(&self) -> String {
        if let (Some(why), None) = (self.unsampled.as_ref().and_then(|unsampled| unsampled.why.clone()), self.refusal) {
            return why;
        }
        match self.refusal {
            Some(EngineState::SignalTaken) => "the target has a handler of its own for the signal".to_owned(),
            Some(EngineState::TimerTaken) => "the target uses this interval timer itself".to_owned(),
            Some(EngineState::Unsupported) => "this clock cannot be had with this engine".to_owned(),
            Some(EngineState::TimerRefused) => "the kernel refused every timer (ulimit -i, or seccomp)".to_owned(),
            Some(EngineState::ClockTaken) => "a profile was being written into a file by another clock".to_owned(),
            None | Some(EngineState::Off | EngineState::Running) => {
                format!("a sample takes {}", measure::duration(Duration::from_nanos(self.period_ns)))
            }
        }
    }
}

//! The screen's copy of the session's state: the newest answer, the settings that were requested,
//! and the way in which the target or the session ended.

use std::sync::Arc;

use super::Options;
use super::pending::Pending;
use crate::session::{Answer, TargetExit};
use crate::tally::measure::ValueUnit;
use crate::wire::{Clock, Engine};

/// Total for which the unit of values is chosen, ns. Few sessions are shorter, and the unit must
/// not change during a session.
const UNIT_TOTAL_NS: u64 = 60_000_000_000;

/// The shortest period for which the unit is chosen: values are in seconds, also at a higher rate.
const UNIT_PERIOD_NS: u64 = 10_000_000;

/// The same total for bytes.
const UNIT_TOTAL_BYTES: u64 = 1 << 40;

/// The screen's copy of the session's state.
#[derive(Clone, Debug)]
pub struct SessionMirror {
    /// The newest answer; `None` before the first.
    pub answer: Option<Arc<Answer>>,
    pub clock: Pending<Clock>,
    pub engine: Pending<Engine>,
    /// The sampling period in ns, or the sampling interval in bytes.
    pub period_ns: Pending<u64>,
    /// Whether values are differences from a baseline.
    pub is_diff: bool,
    /// Whether the user has confirmed the use of setitimer.
    pub itimer_confirmed: bool,
    /// Whether a message has said why CPU time is not sampled.
    warned_unsampled: bool,
    /// The unit of times, which is the same for the whole session.
    time_unit: ValueUnit,
    /// The target's exit, if it has ended.
    pub ended: Option<TargetExit>,
    /// The pid of a new process with the name of the ended target.
    pub successor: Option<u32>,
    /// Whether the session has ended and answers no more.
    pub is_over: bool,
}

impl SessionMirror {
    /// The state before the first answer.
    pub fn new(options: &Options) -> SessionMirror {
        SessionMirror {
            answer: None,
            clock: Pending::new(options.clock),
            engine: Pending::new(options.engine),
            period_ns: Pending::new(options.period_ns),
            is_diff: options.base.is_some(),
            itimer_confirmed: options.engine == Engine::Itimer || options.clock == Clock::Virtual,
            warned_unsampled: false,
            time_unit: ValueUnit::for_report(Clock::Prof, options.period_ns.max(UNIT_PERIOD_NS), UNIT_TOTAL_NS),
            ended: None,
            successor: None,
            is_over: false,
        }
    }

    /// Takes a new answer. Returns the reason why CPU time is not sampled, the first time.
    pub fn apply_answer(&mut self, answer: &Arc<Answer>) -> Option<String> {
        let facts = &answer.facts;
        self.clock.confirm(facts.clock);
        self.engine.confirm(facts.engine);
        self.period_ns.confirm(facts.period_ns);
        if let Some((ending, _)) = facts.ended {
            self.ended = Some(ending);
        }
        self.answer = Some(Arc::clone(answer));
        let why = facts.unsampled.as_ref()?.why.as_ref()?;
        (!std::mem::replace(&mut self.warned_unsampled, true)).then(|| why.clone())
    }

    /// Whether the target runs, as far as the session knows.
    pub fn is_running(&self) -> bool {
        self.ended.is_none() && !self.is_over
    }

    /// The unit of values. It is the same during a session, for one kind of clock.
    pub fn unit(&self) -> ValueUnit {
        match self.answer.as_ref().map_or(self.clock.value(), |answer| answer.facts.clock) {
            clock if clock.is_memory() => ValueUnit::for_report(clock, self.period_ns.value(), UNIT_TOTAL_BYTES),
            _ => self.time_unit,
        }
    }
}

//! The conditions of `sigtop record --when`, and whether an answer of the session fulfils them. The
//! figures are those that the screen shows of the last second.

use std::time::Duration;

use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::profile::waits::WaitReason;
use crate::session::Answer;
use crate::tally::measure;
use crate::tally::query::Pattern;
use crate::tui::command::options::duration;

/// The window of the answers that triggers read, ns.
pub(super) const WINDOW_NS: u64 = 1_000_000_000;
/// Minimum number of samples in the window for a share of them to mean anything.
const MIN_SAMPLES: u64 = 10;
/// The signals that can be a trigger.
const SIGNALS: [(&str, i32); 2] = [("USR1", SIGUSR1), ("USR2", SIGUSR2)];

/// A condition under which a file is written.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The condition as the user typed it.
    pub text: String,
    /// The condition.
    pub condition: TriggerCondition,
    /// The time for which it has to hold.
    pub hold: Duration,
}

/// The figure that a trigger watches.
#[derive(Clone, Debug)]
pub enum TriggerCondition {
    /// CPU time of all watched processes, percent of one CPU.
    Cpu(f64),
    /// The share of a function and its callees in all samples, percent.
    Function(Pattern, f64),
    /// The share of the threads' time in which they wait for this reason, percent.
    Wait(WaitReason, f64),
    /// A signal that sigtop receives.
    Signal(i32),
}

impl Trigger {
    /// Parses `cpu>90%,5s`, `FUNCTION>40%`, `wait=lock>30%` or `signal=USR1`.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is expected.
    pub fn parse(text: &str) -> Result<Trigger, String> {
        let new = |condition, hold| Trigger { text: text.to_owned(), condition, hold };
        if let Some(name) = text.strip_prefix("signal=") {
            let bare = name.trim_start_matches("SIG");
            let signal = SIGNALS.iter().find(|(word, _)| *word == bare).map(|&(_, signal)| signal);
            let signal = signal.ok_or_else(|| format!("signal `{name}` cannot be a trigger: use USR1 or USR2"))?;
            return Ok(new(TriggerCondition::Signal(signal), Duration::ZERO));
        }
        let Some((subject, limit)) = text.rsplit_once('>') else {
            let examples = "'cpu>90%,5s', 'parse>40%', 'wait=lock>30%' or signal=USR1";
            return Err(format!("expected a subject, `>` and a limit, such as {examples}"));
        };
        let (percent, hold) = match limit.split_once(',') {
            Some((percent, hold)) => (percent, duration(hold.trim()).map_err(|error| format!("`{hold}`: {error}"))?),
            None => (limit, Duration::ZERO),
        };
        let percent = parse_percent(percent)?;
        let condition = match subject.trim() {
            "" => return Err("expected cpu, wait=REASON or a function before `>`".to_owned()),
            "cpu" => TriggerCondition::Cpu(percent),
            subject => match subject.strip_prefix("wait=") {
                Some(word) => TriggerCondition::Wait(parse_reason(word)?, percent),
                None => TriggerCondition::Function(Pattern::parse(subject)?, percent),
            },
        };
        if percent >= 100.0 && !matches!(condition, TriggerCondition::Cpu(_)) {
            return Err(format!("a share is never above 100 %, and the limit is {percent} %"));
        }
        Ok(new(condition, hold))
    }

    /// The signal that is the trigger, if it is one.
    pub fn signal(&self) -> Option<i32> {
        match self.condition {
            TriggerCondition::Signal(signal) => Some(signal),
            _ => None,
        }
    }

    /// Whether it reads waits, of which samples of wall-clock time tell.
    pub fn reads_waits(&self) -> bool {
        matches!(self.condition, TriggerCondition::Wait(..))
    }

    /// The watched figure and its limit, both in percent. Returns `None` while it is not known.
    fn measure(&self, answer: &Answer) -> Option<(f64, f64)> {
        let table = &answer.window;
        let has_samples = table.samples >= MIN_SAMPLES;
        let share = |ns: u64| measure::percent_of(ns, table.total_ns);
        match &self.condition {
            TriggerCondition::Cpu(limit) => {
                answer.facts.cpu_now.map(|(user, system)| (f64::from(user + system), *limit))
            }
            TriggerCondition::Function(pattern, limit) => {
                let rows = table.rows.iter().filter(|row| pattern.matches(&row.full));
                has_samples.then(|| (share(rows.map(|row| row.cum_ns).max().unwrap_or(0)), *limit))
            }
            TriggerCondition::Wait(reason, limit) => {
                let waits = answer.waits.iter().filter(|wait| wait.reason == *reason);
                let ns = waits.fold(0u64, |sum, wait| sum.saturating_add(wait.weight_ns));
                has_samples.then(|| (share(ns), *limit))
            }
            TriggerCondition::Signal(_) => None,
        }
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..1e6).contains(percent))
        .ok_or_else(|| format!("`{text}` is not a limit in percent, such as 40%"))
}

fn parse_reason(word: &str) -> Result<WaitReason, String> {
    WaitReason::all().find(|reason| reason.word() == word).ok_or_else(|| {
        let words: Vec<&str> = WaitReason::all().map(WaitReason::word).collect();
        format!("unknown reason to wait `{word}`: use {}", words.join(", "))
    })
}

/// A trigger and what it has seen.
#[derive(Debug)]
pub(super) struct TriggerState {
    pub(super) trigger: Trigger,
    /// The time since which it holds, ns.
    since_ns: Option<u64>,
    /// Whether it has fired and held ever since.
    has_fired: bool,
}

/// The moment at which a trigger fires.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Firing {
    /// The condition and the figure.
    pub(super) cause: String,
    /// The time since which the condition holds, ns: the start of the first window in which it did.
    pub(super) onset_ns: u64,
}

impl TriggerState {
    pub(super) fn new(trigger: Trigger) -> TriggerState {
        TriggerState { trigger, since_ns: None, has_fired: false }
    }

    /// Looks at an answer. A trigger fires once for as long as its condition holds.
    pub(super) fn update(&mut self, answer: &Answer) -> Option<Firing> {
        let (percent, limit) = self.trigger.measure(answer)?;
        if percent <= limit {
            (self.since_ns, self.has_fired) = (None, false);
            return None;
        }
        let since_ns = *self.since_ns.get_or_insert(answer.now_ns);
        let is_due = answer.now_ns.saturating_sub(since_ns) >= self.trigger.hold.as_nanos() as u64;
        if !is_due || self.has_fired {
            return None;
        }
        self.has_fired = true;
        let cause = format!("{} ({})", self.trigger.text, measure::percent(percent));
        Some(Firing { cause, onset_ns: since_ns.saturating_sub(WINDOW_NS) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed() {
        let parsed = |text: &str| Trigger::parse(text).map(|trigger| (trigger.condition, trigger.hold));
        assert!(matches!(parsed("cpu>90%,5s"), Ok((TriggerCondition::Cpu(90.0), hold)) if hold.as_secs() == 5));
        assert!(matches!(parsed("cpu > 150 %"), Ok((TriggerCondition::Cpu(150.0), Duration::ZERO))));
        assert!(matches!(parsed("wait=lock>30%"), Ok((TriggerCondition::Wait(WaitReason::Lock, 30.0), _))));
        assert!(matches!(parsed("signal=SIGUSR1"), Ok((TriggerCondition::Signal(SIGUSR1), _))));
        let Ok((TriggerCondition::Function(pattern, 2.5), _)) = parsed("operator->>2.5%") else { panic!("a function") };
        assert!(pattern.matches("T::operator->"));
    }

    #[test]
    fn errors_name_the_fault_and_the_remedy() {
        for (text, words) in [
            ("cpu", "such as 'cpu>90%,5s'"),
            ("cpu>90", "`90` is not a limit in percent"),
            ("cpu>90%,soon", "`soon`: unknown unit"),
            ("cpu>90%,", "expected a number"),
            (">90%", "expected cpu, wait=REASON or a function"),
            ("parse>100%", "never above 100 %"),
            ("(>10%", "unclosed group"),
            ("wait=luck>10%", "unknown reason to wait `luck`: use lock, condvar"),
            ("signal=TERM", "signal `TERM` cannot be a trigger: use USR1 or USR2"),
        ] {
            let error = Trigger::parse(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}

//! The time that is shown: freezing, stepping through the history, and the baseline of a diff.

use super::App;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::profile::totals::{BUCKET_NS, BUCKETS};
use crate::session::Command;
use crate::tui::action::{Effect, StepSize};
use crate::tui::command::colon_command::TimePoint;
use crate::tui::pane::labels::length;
use crate::tui::pane::mode::Mode;
use crate::tui::pane::timeline::state::TimelineState;

/// Maximum number of steps at a time; the history is shorter.
const MAX_STEPS: u64 = 9999;

impl App {
    pub(super) fn freeze(&mut self, frozen: bool) -> Vec<Effect> {
        let was_frozen = self.panes.timeline.is_frozen();
        self.panes.timeline = if frozen { TimelineState::frozen() } else { TimelineState::default() };
        match frozen == was_frozen {
            true => Vec::new(),
            false => vec![Effect::Send(if frozen { Command::Freeze } else { Command::Thaw })],
        }
    }

    /// Freezes the display if it is not frozen: the history can be viewed only then.
    fn ensure_frozen(&mut self) -> Vec<Effect> {
        if self.panes.timeline.is_frozen() { Vec::new() } else { self.freeze(true) }
    }

    /// The age of the oldest history, in ticks of 0.1 s; an upper bound before the first answer.
    fn oldest(&self) -> u64 {
        let timeline = self.session.answer.as_ref().and_then(|answer| answer.timeline.as_ref());
        timeline.map_or(BUCKETS as u64, |timeline| timeline.ticks_ns.len() as u64).saturating_sub(1)
    }

    /// Notes a digit that is typed while the display is frozen. It shows a pane, as always, and is
    /// also a digit of the count of a step that may follow.
    pub(super) fn note_digit(&mut self, digit: Option<u32>) {
        let digit = digit.filter(|_| self.panes.timeline.is_frozen() && matches!(self.screen.mode, Mode::Panes));
        self.screen.step_count = digit.map(|digit| match self.screen.step_count {
            Some((count, view, pane)) => ((count * 10 + u64::from(digit)).min(MAX_STEPS), view, pane),
            None => (digit.into(), self.screen.view, self.screen.pane),
        });
    }

    /// Steps through the history. If digits precede the key, the step is repeated, and the panes
    /// are those from before the digits.
    pub(super) fn step_time(&mut self, newer: bool, size: StepSize) -> Vec<Effect> {
        let effects = self.ensure_frozen();
        let before = self.panes.timeline;
        let count = self.screen.step_count.take().map_or(1, |(count, view, pane)| {
            (self.screen.view, self.screen.pane) = (view, pane);
            count.max(1)
        });
        self.panes.timeline.step(newer, (size, count), self.question.window_ns, self.oldest());
        if self.panes.timeline == before {
            self.screen.note(if newer { "this is the newest time" } else { "no older history" });
        }
        effects
    }

    /// Shows the window that ends so many ticks before the freeze.
    pub(super) fn show_time(&mut self, back: u64) {
        let oldest = self.oldest();
        if !self.panes.timeline.go_to(back, oldest) {
            self.screen.note(format!("the history begins {} ago", length(oldest)));
        }
    }

    /// Shows the window that ends at a time.
    pub(super) fn go_to_time(&mut self, time: TimePoint) -> Vec<Effect> {
        let back_ns = match time {
            TimePoint::Ago(ns) => Some(ns),
            TimePoint::OfDay(time) => {
                let answer = self.session.answer.as_ref().filter(|answer| answer.facts.clock_unix_ns > 0);
                answer.and_then(|answer| {
                    let now_ns = answer.facts.clock_unix_ns.saturating_add(answer.now_ns);
                    since_time_of_day(time, now_ns, TimeZone::system())
                })
            }
        };
        let Some(back_ns) = back_ns else {
            self.screen.note("the time of day is not known here; :at -3m goes back by a duration");
            return Vec::new();
        };
        let effects = self.ensure_frozen();
        self.show_time(back_ns / BUCKET_NS);
        effects
    }

    pub(super) fn set_span_end(&mut self) -> Vec<Effect> {
        let effects = self.ensure_frozen();
        self.panes.timeline.set_span_end();
        // The timeline shows the rest; a message would hide it.
        if self.panes.timeline.anchor().is_none() && !self.panes.timeline.has_span() {
            self.screen.note("showing the window again");
        }
        effects
    }

    pub(super) fn toggle_diff(&mut self) -> Vec<Effect> {
        self.session.is_diff = !self.session.is_diff;
        self.screen.note(match (self.session.is_diff, &self.options.base) {
            (true, None) => "diff against the current view; d ends it".to_owned(),
            (true, Some(base)) => format!("diff against {base}; d ends it"),
            (false, None) => "diff off".to_owned(),
            (false, Some(base)) => format!("diff off; d compares with {base} again"),
        });
        vec![Effect::Send(Command::Baseline(self.session.is_diff))]
    }
}

/// The time since the clock last showed this time of day, ns. `now_ns` is in UTC, since 1970.
fn since_time_of_day(time: Time, now_ns: u64, zone: TimeZone) -> Option<u64> {
    let now = Timestamp::from_nanosecond(now_ns.into()).ok()?.to_zoned(zone);
    let today = now.with().time(time).build().ok()?;
    let last = if today > now { today.checked_sub(1.day()).ok()? } else { today };
    u64::try_from(now.timestamp().as_nanosecond() - last.timestamp().as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_last_one() {
        // 22:13:20 in UTC.
        let since = |hour, minute, zone| {
            let time = Time::new(hour, minute, 0, 0).expect("a time");
            since_time_of_day(time, 1_700_000_000_000_000_000, zone).map(|ns| ns / 1_000_000_000)
        };
        assert_eq!(since(22, 13, TimeZone::UTC), Some(20));
        assert_eq!(since(22, 14, TimeZone::UTC), Some(24 * 3600 - 40), "it was yesterday");
        assert_eq!(since(0, 10, TimeZone::fixed(jiff::tz::offset(2))), Some(200));
    }
}

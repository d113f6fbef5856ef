//! Position in the history while the display is frozen: the end of the window, counted in ticks of
//! 0.1 s before the freeze, and a span that the user has set.

use crate::profile::totals::{BUCKET_NS, BUCKETS};
use crate::session::HistoryWindow;
use crate::tui::action::StepSize;

/// Length in ticks of the window that is moved if the window is the whole session.
const USUAL_TICKS: u64 = 100;
/// Steps per window length.
const STEPS: u64 = 10;

/// Position in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineState {
    is_frozen: bool,
    back: u64,
    /// The first end of a span, while the other is not set.
    anchor: Option<u64>,
    /// A complete span: ticks since its start, and since its end.
    span: Option<(u64, u64)>,
}

fn ticks(window_ns: Option<u64>) -> u64 {
    window_ns.map_or(USUAL_TICKS, |ns| ns.div_ceil(BUCKET_NS)).max(1)
}

impl TimelineState {
    /// The newest time of a display that is frozen now.
    pub fn frozen() -> TimelineState {
        TimelineState { is_frozen: true, ..TimelineState::default() }
    }

    pub fn is_frozen(self) -> bool {
        self.is_frozen
    }

    /// Ticks since the end of the shown time.
    pub fn back(self) -> u64 {
        self.span.map_or(self.back, |(_, newer)| newer)
    }

    /// The first end of a span, while the other is not set.
    pub fn anchor(self) -> Option<u64> {
        self.anchor
    }

    /// Whether a span is shown, complete or not.
    pub fn has_span(self) -> bool {
        self.anchor.is_some() || self.span.is_some()
    }

    /// The shown time, if it is not the last window before the freeze.
    pub fn past(self, window_ns: Option<u64>) -> Option<HistoryWindow> {
        let of = |(older, newer): (u64, u64)| HistoryWindow { back: newer, buckets: older - newer + 1 };
        match (self.span, self.anchor) {
            (Some(span), _) => Some(of(span)),
            (None, Some(anchor)) => Some(of((anchor.max(self.back), anchor.min(self.back)))),
            (None, None) => (self.back > 0).then_some(HistoryWindow { back: self.back, buckets: ticks(window_ns) }),
        }
    }

    /// Makes this number of steps to older or newer times, at most to `oldest`. A span moves as a
    /// whole.
    pub fn step(&mut self, newer: bool, (size, count): (StepSize, u64), window_ns: Option<u64>, oldest: u64) {
        let by = TimelineState::step_ticks(size, window_ns).saturating_mul(count);
        let oldest = oldest.min(BUCKETS as u64 - 1);
        let moved = |back: u64, most: u64| match newer {
            true => back.saturating_sub(by),
            false => back.saturating_add(by).min(most.max(back)),
        };
        match &mut self.span {
            Some((older, end)) => {
                let long = *older - *end;
                *end = moved(*end, oldest.saturating_sub(long));
                *older = *end + long;
            }
            None => self.back = moved(self.back, oldest),
        }
    }

    /// Shows the window that ends so many ticks before the freeze, at most at `oldest`. Returns
    /// whether the history goes back so far. A complete span is cleared.
    pub fn go_to(&mut self, back: u64, oldest: u64) -> bool {
        let oldest = oldest.min(BUCKETS as u64 - 1);
        (self.back, self.span) = (back.min(oldest), None);
        back <= oldest
    }

    /// The ticks of one step.
    pub fn step_ticks(size: StepSize, window_ns: Option<u64>) -> u64 {
        match size {
            StepSize::Tick => 1,
            StepSize::Tenth => (ticks(window_ns) / STEPS).max(1),
            StepSize::Window => ticks(window_ns),
        }
    }

    /// Sets the first or the second end of a span. If both are set, clears the span.
    pub fn set_span_end(&mut self) {
        *self = match (self.span, self.anchor) {
            (Some((_, newer)), _) => TimelineState { back: newer, span: None, anchor: None, ..*self },
            (None, Some(anchor)) => {
                TimelineState { span: Some((anchor.max(self.back), anchor.min(self.back))), anchor: None, ..*self }
            }
            (None, None) => TimelineState { anchor: Some(self.back), ..*self },
        };
    }

    /// Clears the span, else returns to the newest time; returns whether anything changed.
    pub fn leave(&mut self) -> bool {
        let before = *self;
        *self = match self.has_span() {
            true => TimelineState { back: self.back(), span: None, anchor: None, ..*self },
            false => TimelineState { back: 0, ..*self },
        };
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Option<u64> = Some(2_000_000_000);

    #[test]
    fn steps_are_a_tenth_of_the_window_within_the_history() {
        let mut walk = TimelineState::default();
        assert_eq!(walk.past(WINDOW), None);
        walk.step(false, (StepSize::Tenth, 1), WINDOW, 100);
        assert_eq!(walk.past(WINDOW), Some(HistoryWindow { back: 2, buckets: 20 }));
        walk.step(false, (StepSize::Tick, 1), WINDOW, 100);
        assert_eq!(walk.back(), 3);
        walk.step(false, (StepSize::Tenth, 1), None, 100);
        assert_eq!(walk.past(None), Some(HistoryWindow { back: 13, buckets: 100 }));
        walk.step(false, (StepSize::Window, 2), WINDOW, 100);
        assert_eq!(walk.back(), 53);
        walk.step(true, (StepSize::Tenth, 20), WINDOW, 100);
        assert_eq!(walk.back(), 13);
        (0..100).for_each(|_| walk.step(false, (StepSize::Tenth, 1), WINDOW, 100));
        assert_eq!(walk.back(), 100);
        (0..100).for_each(|_| walk.step(true, (StepSize::Tenth, 1), WINDOW, 100));
        assert_eq!(walk.past(WINDOW), None);
    }

    #[test]
    fn a_span_is_set_moved_and_cleared() {
        let mut walk = TimelineState::default();
        (0..7).for_each(|_| walk.step(false, (StepSize::Tick, 1), WINDOW, 100));
        walk.set_span_end();
        assert_eq!(walk.past(WINDOW), Some(HistoryWindow { back: 7, buckets: 1 }));
        (0..3).for_each(|_| walk.step(true, (StepSize::Tick, 1), WINDOW, 100));
        assert_eq!(walk.past(WINDOW), Some(HistoryWindow { back: 4, buckets: 4 }));
        walk.set_span_end();
        walk.step(false, (StepSize::Tenth, 1), WINDOW, 100);
        assert_eq!(walk.past(WINDOW), Some(HistoryWindow { back: 6, buckets: 4 }));
        (0..100).for_each(|_| walk.step(false, (StepSize::Tenth, 1), WINDOW, 100));
        assert_eq!(walk.past(WINDOW), Some(HistoryWindow { back: 97, buckets: 4 }));
        assert!(walk.leave() && !walk.has_span() && walk.back() == 97);
        assert!(walk.leave() && walk == TimelineState::default() && !walk.leave());
    }
}

//! Where in the past a frozen screen stands: the end of its window, counted in ticks (a tenth of a second each) before the freeze, and
//! the span that was marked there.

use crate::profile::window::{BUCKET_NS, BUCKETS};
use crate::track::Past;

/// Ticks of the window that is moved where the window is all.
const USUAL_TICKS: u64 = 100;
/// Parts of a window that a step is.
const STEPS: u64 = 10;

/// The place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    back: u64,
    /// Where one end of a span was marked.
    mark: Option<u64>,
    /// A span whose both ends were marked: how long ago it began, and ended.
    span: Option<(u64, u64)>,
}

fn ticks(window_ns: Option<u64>) -> u64 {
    window_ns.map_or(USUAL_TICKS, |ns| ns.div_ceil(BUCKET_NS)).max(1)
}

impl Walk {
    /// How long ago the last tick that is looked at was.
    pub fn back(self) -> u64 {
        self.span.map_or(self.back, |(_, newer)| newer)
    }

    /// The end of a span that was marked, while the other is not.
    pub fn mark(self) -> Option<u64> {
        self.mark
    }

    /// Whether a span is looked at.
    pub fn has_span(self) -> bool {
        self.mark.is_some() || self.span.is_some()
    }

    /// What is looked at, if it is not the last window before the freeze.
    pub fn past(self, window_ns: Option<u64>) -> Option<Past> {
        let of = |(older, newer): (u64, u64)| Past { back: newer, ticks: older - newer + 1 };
        match (self.span, self.mark) {
            (Some(span), _) => Some(of(span)),
            (None, Some(mark)) => Some(of((mark.max(self.back), mark.min(self.back)))),
            (None, None) => (self.back > 0).then_some(Past { back: self.back, ticks: ticks(window_ns) }),
        }
    }

    /// Steps to older or newer times: by a tenth of the window, or by a tick; no further than `oldest`. A span moves as a whole.
    pub fn step(&mut self, newer: bool, fine: bool, window_ns: Option<u64>, oldest: u64) {
        let by = if fine { 1 } else { (ticks(window_ns) / STEPS).max(1) };
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

    /// Marks an end of a span; with both marked, there is none any more.
    pub fn set_mark(&mut self) {
        *self = match (self.span, self.mark) {
            (Some((_, newer)), _) => Walk { back: newer, ..Walk::default() },
            (None, Some(mark)) => Walk { span: Some((mark.max(self.back), mark.min(self.back))), mark: None, ..*self },
            (None, None) => Walk { mark: Some(self.back), ..*self },
        };
    }

    /// Gives up the innermost: the span, then the place. Says whether there was one.
    pub fn leave(&mut self) -> bool {
        let before = *self;
        *self = match self.has_span() {
            true => Walk { back: self.back(), ..Walk::default() },
            false => Walk::default(),
        };
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Option<u64> = Some(2_000_000_000);

    #[test]
    fn steps_are_a_tenth_of_the_window_and_stay_in_what_is_kept() {
        let mut walk = Walk::default();
        assert_eq!(walk.past(WINDOW), None);
        walk.step(false, false, WINDOW, 100);
        assert_eq!(walk.past(WINDOW), Some(Past { back: 2, ticks: 20 }));
        walk.step(false, true, WINDOW, 100);
        assert_eq!(walk.back(), 3);
        walk.step(false, false, None, 100);
        assert_eq!(walk.past(None), Some(Past { back: 13, ticks: 100 }));
        (0..100).for_each(|_| walk.step(false, false, WINDOW, 100));
        assert_eq!(walk.back(), 100);
        (0..100).for_each(|_| walk.step(true, false, WINDOW, 100));
        assert_eq!(walk.past(WINDOW), None);
    }

    #[test]
    fn a_span_is_marked_at_both_ends_moved_and_given_up() {
        let mut walk = Walk::default();
        (0..7).for_each(|_| walk.step(false, true, WINDOW, 100));
        walk.set_mark();
        assert_eq!(walk.past(WINDOW), Some(Past { back: 7, ticks: 1 }));
        (0..3).for_each(|_| walk.step(true, true, WINDOW, 100));
        assert_eq!(walk.past(WINDOW), Some(Past { back: 4, ticks: 4 }));
        walk.set_mark();
        walk.step(false, false, WINDOW, 100);
        assert_eq!(walk.past(WINDOW), Some(Past { back: 6, ticks: 4 }));
        (0..100).for_each(|_| walk.step(false, false, WINDOW, 100));
        assert_eq!(walk.past(WINDOW), Some(Past { back: 97, ticks: 4 }));
        assert!(walk.leave() && !walk.has_span() && walk.back() == 97);
        assert!(walk.leave() && walk == Walk::default() && !walk.leave());
    }
}

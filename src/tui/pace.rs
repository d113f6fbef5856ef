//! How often the screen is drawn: soon after something changed, never more often than the eye can see, and not at all
//! while nothing changes.

use std::time::{Duration, Instant};

/// Time between two frames at least: 30 a second.
const FRAME: Duration = Duration::from_millis(33);
/// The same where somebody touched a key and waits for what it does.
const TOUCHED_FRAME: Duration = Duration::from_millis(8);
/// A change waits this long for more of its kind, so that a burst is one frame.
const GATHER: Duration = Duration::from_millis(2);

/// When to draw next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Pace {
    /// Something changed.
    pub fn changed(&mut self, now: Instant) {
        self.wish(now, FRAME);
    }

    /// Somebody touched a key or the mouse.
    pub fn touched(&mut self, now: Instant) {
        self.wish(now, TOUCHED_FRAME);
    }

    fn wish(&mut self, now: Instant, least: Duration) {
        let soon = now + GATHER;
        let frame = self.last.map_or(soon, |last| (last + least).max(soon));
        self.due = Some(self.due.map_or(frame, |due| due.min(frame)));
    }

    /// When to draw; never if nothing changed.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it is time; it is drawn then.
    pub fn take(&mut self, now: Instant) -> bool {
        let due = self.due.is_some_and(|due| due <= now);
        if due {
            *self = Pace { last: Some(now), due: None };
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_frames_a_second_and_none_without_a_change() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.due(), None);
        let mut frames = 0;
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            pace.changed(now);
            frames += u32::from(pace.take(now));
        }
        assert!((28..=31).contains(&frames), "{frames}");
        let later = start + Duration::from_secs(2);
        assert!(pace.take(later) && !pace.take(later + FRAME));
        pace.changed(later + FRAME * 9);
        assert_eq!(pace.due(), Some(later + FRAME * 9 + GATHER), "a change after a pause is shown at once");
        assert!(pace.take(later + FRAME * 9 + GATHER));
        pace.changed(later + FRAME * 9 + GATHER);
        pace.touched(later + FRAME * 9 + GATHER);
        assert_eq!(pace.due(), Some(later + FRAME * 9 + GATHER + TOUCHED_FRAME), "who waits is shown sooner");
    }
}

//! Decides when to draw a frame: soon after a change, at most 30 times a second (120 after a key),
//! and never without a change.

use std::time::{Duration, Instant};

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// Minimum time between two frames after a key press or a click.
const INPUT_FRAME: Duration = Duration::from_millis(8);
/// Time that a change waits for others, so that a burst is one frame.
const COALESCE: Duration = Duration::from_millis(2);

/// The time of the next frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramePacer {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl FramePacer {
    /// Schedules a frame for a change.
    pub fn schedule(&mut self, now: Instant) {
        self.schedule_after(now, FRAME);
    }

    /// Schedules a frame for a key press or a click.
    pub fn schedule_input(&mut self, now: Instant) {
        self.schedule_after(now, INPUT_FRAME);
    }

    fn schedule_after(&mut self, now: Instant, least: Duration) {
        let soon = now + COALESCE;
        let frame = self.last.map_or(soon, |last| (last + least).max(soon));
        self.due = Some(self.due.map_or(frame, |due| due.min(frame)));
    }

    /// The time of the next frame; `None` if nothing changed.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether a frame is due, and assumes that it is drawn then.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let due = self.due.is_some_and(|due| due <= now);
        if due {
            *self = FramePacer { last: Some(now), due: None };
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_30_frames_per_second_and_none_without_a_change() {
        let start = Instant::now();
        let mut pacer = FramePacer::default();
        assert_eq!(pacer.due(), None);
        let mut frames = 0;
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            pacer.schedule(now);
            frames += u32::from(pacer.take_due(now));
        }
        assert!((28..=31).contains(&frames), "{frames}");
        let later = start + Duration::from_secs(2);
        assert!(pacer.take_due(later) && !pacer.take_due(later + FRAME));
        pacer.schedule(later + FRAME * 9);
        assert_eq!(pacer.due(), Some(later + FRAME * 9 + COALESCE), "a change after a pause is shown immediately");
        assert!(pacer.take_due(later + FRAME * 9 + COALESCE));
        pacer.schedule(later + FRAME * 9 + COALESCE);
        pacer.schedule_input(later + FRAME * 9 + COALESCE);
        assert_eq!(pacer.due(), Some(later + FRAME * 9 + COALESCE + INPUT_FRAME), "a key press is shown sooner");
    }
}

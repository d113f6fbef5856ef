//! Decides when to draw a frame: soon after a change, at most 30 times a second, and never without
//! a change. A key press is drawn at once, whatever was drawn before it, but at most 120 times a
//! second.

use std::time::{Duration, Instant};

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// Minimum time between two frames for key presses or clicks.
const INPUT_FRAME: Duration = Duration::from_millis(8);
/// Time that another change waits for more, so that a burst is one frame.
const COALESCE: Duration = Duration::from_millis(2);

/// The time of the next frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramePacer {
    last: Option<Instant>,
    /// The last frame that was scheduled for input.
    last_input: Option<Instant>,
    due: Option<Instant>,
    /// Whether the next frame is for input.
    is_for_input: bool,
}

impl FramePacer {
    /// Schedules a frame for a change.
    pub fn schedule(&mut self, now: Instant) {
        let soon = now + COALESCE;
        self.schedule_at(self.last.map_or(soon, |last| (last + FRAME).max(soon)));
    }

    /// Schedules a frame for a key press or a click.
    pub fn schedule_input(&mut self, now: Instant) {
        self.is_for_input = true;
        self.schedule_at(self.last_input.map_or(now, |last| (last + INPUT_FRAME).max(now)));
    }

    fn schedule_at(&mut self, frame: Instant) {
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
            let last_input = if self.is_for_input { Some(now) } else { self.last_input };
            *self = FramePacer { last: Some(now), last_input, due: None, is_for_input: false };
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
        let frame = later + FRAME * 9 + COALESCE;
        pacer.schedule(frame);
        assert_eq!(pacer.due(), Some(frame + FRAME));
        pacer.schedule_input(frame);
        assert_eq!(pacer.due(), Some(frame), "a key press is shown at once, even right after a frame");
        assert!(pacer.take_due(frame));
        pacer.schedule_input(frame);
        assert_eq!(pacer.due(), Some(frame + INPUT_FRAME), "the next one waits for the screen");
        assert!(pacer.take_due(frame + INPUT_FRAME));
        pacer.schedule(frame + INPUT_FRAME);
        assert_eq!(pacer.due(), Some(frame + INPUT_FRAME + FRAME));
    }
}

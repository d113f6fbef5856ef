//! Which time is shown: the freeze, the walk through what was before it, and what it is compared with.

use super::App;
use crate::profile::window::BUCKETS;
use crate::track::{Command, Past};
use crate::tui::action::Effect;
use crate::tui::walk::Walk;

impl App {
    /// The span of the past that is shown, if it is not the last window.
    pub(in crate::tui) fn past(&self) -> Option<Past> {
        self.walk.past(self.window_ns).filter(|_| self.frozen)
    }

    pub(super) fn freeze(&mut self, frozen: bool) -> Vec<Effect> {
        self.walk = Walk::default();
        if frozen == self.frozen {
            return Vec::new();
        }
        self.frozen = frozen;
        vec![Effect::Send(if frozen { Command::Freeze } else { Command::Thaw })]
    }

    /// Who wants to see the past wants it to stand still.
    fn stand_still(&mut self) -> Vec<Effect> {
        if self.frozen { Vec::new() } else { self.freeze(true) }
    }

    /// How far back the past goes, in ticks, as far as is known.
    fn oldest(&self) -> u64 {
        let timeline = self.answer.as_ref().and_then(|answer| answer.timeline.as_ref());
        timeline.map_or(BUCKETS as u64, |timeline| timeline.ticks_ns.len() as u64).saturating_sub(1)
    }

    pub(super) fn step(&mut self, newer: bool, fine: bool) -> Vec<Effect> {
        let effects = self.stand_still();
        let before = self.walk;
        self.walk.step(newer, fine, self.window_ns, self.oldest());
        if self.walk == before {
            self.note(if newer { "this is where the screen was frozen" } else { "nothing older is kept" });
        }
        effects
    }

    pub(super) fn mark(&mut self) -> Vec<Effect> {
        let effects = self.stand_still();
        self.walk.set_mark();
        // The timeline says the rest; a message would stand in its place.
        if self.walk.mark().is_none() && !self.walk.has_span() {
            self.note("the window again");
        }
        effects
    }

    pub(super) fn compare(&mut self) -> Vec<Effect> {
        self.compares = !self.compares;
        self.note(match self.compares {
            true => "every number is a difference from what was shown now; d again leaves",
            false => "numbers are numbers again",
        });
        vec![Effect::Send(Command::Baseline(self.compares))]
    }
}

//! The states of all panes: their selection, cursors and scroll positions.

use super::callers::state::CallersState;
use super::flame::rows::FlameRows;
use super::flame::state::FlameState;
use super::help::explain::NameQuestion;
use super::help::summary::TimeSummary;
use super::mode::SavedCursors;
use super::source::state::SourceState;
use super::threads::state::ThreadsState;
use super::timeline::state::TimelineState;
use super::top::state::TopState;
use crate::session::Answer;
use crate::tally::query::Pattern;
use crate::tui::action::Motion;
use crate::tui::layout::Pane;
use crate::tui::name_style::NameStyle;
use crate::tui::term::emulator::Emulator;

/// The states of all panes.
pub struct Panes {
    pub top: TopState,
    pub callers: CallersState,
    pub flame: FlameState,
    /// The levels of the flame graph for which the dashboard has rows.
    pub flame_rows: FlameRows,
    pub source: SourceState,
    pub threads: ThreadsState,
    /// Position in the history, while the display is frozen.
    pub timeline: TimelineState,
    /// The name that the explanation page is about.
    pub explanation: Option<NameQuestion>,
    /// The sentences about the time, once the session has answered.
    pub summary: Option<TimeSummary>,
    /// The target's terminal.
    pub emulator: Emulator,
}

impl Panes {
    /// Empty panes, and a terminal of this size for the target.
    pub fn new(target_size: (u16, u16)) -> Panes {
        Panes {
            top: TopState::default(),
            callers: CallersState::default(),
            flame: FlameState::default(),
            flame_rows: FlameRows::default(),
            source: SourceState::default(),
            threads: ThreadsState::default(),
            timeline: TimelineState::default(),
            explanation: None,
            summary: None,
            emulator: Emulator::new(target_size),
        }
    }

    /// Moves the cursor of a pane.
    pub fn go(&mut self, pane: Pane, motion: Motion, answer: Option<&Answer>) {
        match pane {
            Pane::Output => self.scroll_output(motion),
            // Before the first answer, keys scroll the output.
            _ if answer.is_none() => self.scroll_output(motion),
            Pane::Top => self.top.go(motion),
            Pane::Callers => {
                // On the center, truncated names scroll in both panes together.
                match motion {
                    Motion::Columns(steps) if steps > 0 && self.callers.step_out() => {}
                    Motion::Columns(steps) if steps < 0 && self.callers.step_in() => {}
                    motion => self.top.pan_by(motion),
                }
                self.callers.go(motion);
            }
            Pane::Flame => {
                if let Some(flame) = answer.and_then(|answer| answer.flame.as_ref())
                    && let Some(full) = self.flame.go(motion, flame, self.top.selected_name())
                {
                    self.top.select_name(&full);
                }
            }
            Pane::Threads => self.threads.go(motion),
            Pane::Source => {
                if let Some(listing) = answer.and_then(|answer| answer.listing.as_ref()) {
                    self.source.go(motion, listing);
                }
            }
        }
    }

    fn scroll_output(&mut self, motion: Motion) {
        let page = isize::try_from(self.emulator.size().1).unwrap_or(1).max(2) - 1;
        match motion {
            Motion::Rows(rows) => self.emulator.scroll(rows.into()),
            Motion::Pages(pages) => self.emulator.scroll(isize::from(pages) * page),
            Motion::First => self.emulator.scroll_to_end(false),
            Motion::Last => self.emulator.scroll_to_end(true),
            Motion::Columns(_) => {}
        }
    }

    /// Scrolls a pane by a number of rows, as the wheel does.
    pub fn scroll(&mut self, pane: Pane, rows: i16, answer: Option<&Answer>) {
        match (pane, answer) {
            (Pane::Top, _) => self.top.go(Motion::Rows(rows)),
            (Pane::Callers, _) => self.callers.go(Motion::Rows(rows)),
            (Pane::Threads, _) => self.threads.go(Motion::Rows(rows)),
            (Pane::Flame, Some(Answer { flame: Some(flame), .. })) => self.flame.scroll(rows, flame),
            (Pane::Flame, _) | (Pane::Source, None) => {}
            (pane, answer) => self.go(pane, Motion::Rows(rows), answer),
        }
    }

    /// Moves the cursor of a pane to the next match in a direction; returns whether there is one.
    pub fn find(
        &mut self,
        pane: Pane,
        (pattern, direction): (&Pattern, i8),
        names: NameStyle,
        answer: Option<&Answer>,
    ) -> bool {
        match pane {
            Pane::Top | Pane::Output => self.top.find(pattern, names, direction),
            Pane::Callers => answer
                .and_then(|answer| answer.callers.as_ref())
                .is_some_and(|callers| self.callers.find(pattern, names, direction, callers)),
            Pane::Threads => self.threads.find(pattern, direction),
            Pane::Source => answer
                .and_then(|answer| answer.listing.as_ref())
                .is_some_and(|listing| self.source.find(pattern, direction, listing)),
            Pane::Flame => {
                let Some(flame) = answer.and_then(|answer| answer.flame.as_ref()) else { return false };
                let found = self.flame.find(pattern, names, direction, flame, self.top.selected_name());
                found.inspect(|full| self.top.select_name(full)).is_some()
            }
        }
    }

    /// Full name and module of the function under the cursor of a pane.
    pub fn function_under_cursor<'a>(&'a self, pane: Pane, answer: &'a Answer) -> Option<(&'a str, &'a str)> {
        let edge = answer.callers.as_ref().filter(|_| pane == Pane::Callers);
        match edge.and_then(|callers| self.callers.edge(callers)) {
            Some(edge) => Some((&edge.full, &edge.module)),
            None => {
                let module = self.top.selected_names().map_or("", |(_, module)| module);
                Some((self.top.selected_name()?, module))
            }
        }
    }

    /// Returns the selection and cursors, for [`restore_cursors`](Self::restore_cursors).
    pub fn save_cursors(&self) -> SavedCursors {
        SavedCursors {
            top: self.top.save(),
            callers: self.callers.clone(),
            flame: self.flame.clone(),
            source: self.source.clone(),
        }
    }

    /// Restores the selection and cursors, as far as the newest answer has them.
    pub fn restore_cursors(&mut self, saved: SavedCursors, answer: Option<&Answer>) {
        self.top.restore(saved.top);
        (self.callers, self.flame, self.source) = (saved.callers, saved.flame, saved.source);
        if let Some(answer) = answer {
            if let Some(callers) = &answer.callers {
                self.callers.take(callers);
            }
            self.source.apply_answer(answer, self.top.is_firm());
        }
    }
}

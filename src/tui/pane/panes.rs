//! The states of all panes: their selection, cursors and scroll positions.

use super::callers::state::CallersState;
use super::flame::rows::FlameRows;
use super::flame::state::FlameState;
use super::help::explain::NameQuestion;
use super::mode::SavedCursors;
use super::source::state::SourceState;
use super::threads::state::ThreadsState;
use super::timeline::state::TimelineState;
use super::top::state::TopState;
use crate::session::Answer;
use crate::tui::layout::Pane;
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
            emulator: Emulator::new(target_size),
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

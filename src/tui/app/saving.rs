//! Saving from the screen: opening the prompt for a file name, and reporting the result.

use super::{App, Mode};
use crate::session::{Command, SavedFile};
use crate::tally::measure;
use crate::tui::action::{Action, Effect};
use crate::tui::pane::save::state::{self, SaveState};

impl App {
    pub(super) fn open_saving(&mut self) {
        if self.session.is_over {
            return self.screen.note("the session has ended: nothing can be saved");
        }
        self.screen.leave_page();
        let facts = self.session.answer.as_ref().map(|answer| &answer.facts);
        let up = facts.map_or_else(String::new, |facts| measure::duration(facts.up));
        let program = self.options.command.split_whitespace().next().unwrap_or_default();
        let mut saving = SaveState::new(&state::suggest_name(program, &up, self.saves.extension));
        saving.is_shown = self.saves.is_shown && self.is_limited();
        self.screen.mode = Mode::Save(saving);
    }

    /// Applies an action to the open line; returns `None` if the action does not concern it.
    pub(super) fn update_save_line(&mut self, action: &Action) -> Option<Vec<Effect>> {
        let is_limited = self.is_limited();
        let Mode::Save(saving) = &mut self.screen.mode else { return None };
        match action {
            Action::Insert(c) => saving.insert(c.encode_utf8(&mut [0; 4])),
            Action::Paste(text) => saving.insert(text),
            Action::Edit(edit) => saving.edit(*edit),
            Action::SaveFormat(step) => saving.step(*step),
            Action::SaveSpan => saving.is_shown = !saving.is_shown && is_limited,
            Action::Accept => {
                let Some(save) = saving.save() else { return Some(Vec::new()) };
                if let Some(format) = saving.format() {
                    self.saves.extension = format.extensions()[0];
                }
                self.saves.is_shown = saving.is_shown;
                self.screen.mode = Mode::Panes;
                self.screen.note(format!("saving {} …", save.path.display()));
                return Some(vec![Effect::Send(Command::Save(save))]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Whether the panes show less than the whole session: a window, or a span of the history.
    fn is_limited(&self) -> bool {
        self.question.window_ns.is_some() || self.question.past.is_some()
    }

    /// Shows the result of saving.
    pub(super) fn report_save(&mut self, saved: Result<SavedFile, String>) {
        match saved {
            Ok(SavedFile { path, bytes }) => {
                let place = path.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
                self.screen.note(format!("saved: {place} ({})", measure::bytes(bytes)));
                self.saves.last_file = Some(place);
            }
            Err(sentence) => self.screen.warn(sentence),
        }
    }
}

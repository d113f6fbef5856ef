//! Saving from the screen: opening the prompt for a file name, and reporting the result.

use super::{App, Mode, StatusMessage};
use crate::session::{Command, SavedFile};
use crate::tally::measure;
use crate::tui::action::{Action, Effect};
use crate::tui::pane::save::state::{self, SaveState};

impl App {
    pub(super) fn open_saving(&mut self) {
        if self.session_over {
            return self.note("the session has ended: nothing can be saved");
        }
        self.leave_page();
        let facts = self.answer.as_ref().map(|answer| &answer.facts);
        let up = facts.map_or_else(String::new, |facts| measure::duration(facts.up));
        let program = self.options.command.split_whitespace().next().unwrap_or_default();
        let mut saving = SaveState::new(&state::suggest_name(program, &up, self.last_extension));
        saving.is_shown = self.last_saved_shown && self.is_limited();
        self.mode = Mode::Save(saving);
    }

    /// Applies an action to the open line; returns `None` if the action does not concern it.
    pub(super) fn update_save_line(&mut self, action: &Action) -> Option<Vec<Effect>> {
        let is_limited = self.is_limited();
        let Mode::Save(saving) = &mut self.mode else { return None };
        match action {
            Action::Insert(c) => saving.insert(c.encode_utf8(&mut [0; 4])),
            Action::Paste(text) => saving.insert(text),
            Action::Edit(edit) => saving.edit(*edit),
            Action::SaveFormat(step) => saving.step(*step),
            Action::SaveSpan => saving.is_shown = !saving.is_shown && is_limited,
            Action::Accept => {
                let Some(save) = saving.save() else { return Some(Vec::new()) };
                if let Some(format) = saving.format() {
                    self.last_extension = format.extensions()[0];
                }
                self.last_saved_shown = saving.is_shown;
                self.mode = Mode::Panes;
                self.note(format!("saving {} …", save.path.display()));
                return Some(vec![Effect::Send(Command::Save(save))]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Whether the panes show less than the whole session: a window, or a span of the history.
    fn is_limited(&self) -> bool {
        self.window_ns.is_some() || self.past().is_some()
    }

    /// The last file that was saved.
    pub fn take_saved(&mut self) -> Option<String> {
        self.saved.take()
    }

    /// Shows the result of saving.
    pub(super) fn report_save(&mut self, saved: Result<SavedFile, String>) {
        match saved {
            Ok(SavedFile { path, bytes }) => {
                let place = path.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
                self.note(format!("saved: {place} ({})", measure::bytes(bytes)));
                self.saved = Some(place);
            }
            Err(sentence) => self.message = Some(StatusMessage { text: sentence, is_sticky: true }),
        }
    }
}

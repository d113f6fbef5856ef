//! Saving what is seen: the line on which it is asked for, and what came of it.

use super::{App, Message, Mode};
use crate::tally::measure;
use crate::track::{Command, Saved};
use crate::tui::action::{Action, Effect};
use crate::tui::saving::{self, Saving};

impl App {
    pub(super) fn open_saving(&mut self) {
        if self.session_over {
            return self.note("the session is over: nothing is left to be saved");
        }
        self.leave_page();
        let facts = self.answer.as_ref().map(|answer| &answer.facts);
        let up = facts.map_or_else(String::new, |facts| measure::duration(facts.up));
        let program = self.options.command.split_whitespace().next().unwrap_or_default();
        let mut saving = Saving::new(&saving::offer(program, &up, self.saved_as));
        saving.is_shown = self.saved_shown && self.shows_part();
        self.mode = Mode::Save(saving);
    }

    /// What an action is to the line, while it is open; `None` if nothing.
    pub(super) fn save(&mut self, action: &Action) -> Option<Vec<Effect>> {
        let shows_part = self.shows_part();
        let Mode::Save(saving) = &mut self.mode else { return None };
        match action {
            Action::Insert(c) => saving.insert(c.encode_utf8(&mut [0; 4])),
            Action::Paste(text) => saving.insert(text),
            Action::Edit(edit) => saving.edit(*edit),
            Action::SaveFormat(step) => saving.step(*step),
            Action::SaveSpan => saving.is_shown = !saving.is_shown && shows_part,
            Action::Accept => {
                let Some(save) = saving.save() else { return Some(Vec::new()) };
                if let Some(kind) = saving.kind() {
                    self.saved_as = kind.endings[0];
                }
                self.saved_shown = saving.is_shown;
                self.mode = Mode::Panes;
                self.note(format!("saving {} …", save.path.display()));
                return Some(vec![Effect::Send(Command::Save(save))]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Whether the panes show a part of the time: a window, or a span of the past.
    fn shows_part(&self) -> bool {
        self.window_ns.is_some() || self.past().is_some()
    }

    /// What came of it.
    pub(super) fn saved(&mut self, saved: Result<Saved, String>) {
        match saved {
            Ok(Saved { path, bytes }) => {
                let place = path.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
                self.note(format!("saved: {place} ({})", measure::bytes(bytes)));
            }
            Err(sentence) => self.message = Some(Message { text: sentence, stays: true }),
        }
    }
}

//! Saving what is seen.

use super::{App, Message};
use crate::tally::measure;
use crate::track::Saved;

impl App {
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

//! State of the line that asks for a file name. Its extension selects the format.

use std::path::PathBuf;

use crate::keyword::Keyword;
use crate::pprof::format::SaveFormat;
use crate::session::SaveRequest;
use crate::tui::action::Edit;
use crate::tui::line_editor::LineEditor;

/// The file name being edited, and the time to save.
#[derive(Clone, Debug)]
pub struct SaveState {
    line: LineEditor,
    /// Whether only the shown time is saved: the window, or a span of the history.
    pub is_shown: bool,
}

impl SaveState {
    /// Starts with a suggested name.
    pub fn new(name: &str) -> SaveState {
        let mut line = LineEditor::default();
        line.set(name);
        SaveState { line, is_shown: false }
    }

    /// The line.
    pub fn line(&self) -> &LineEditor {
        &self.line
    }

    /// Inserts text at the cursor.
    pub fn insert(&mut self, text: &str) {
        self.line.insert(text);
    }

    /// Edits the line.
    pub fn edit(&mut self, edit: Edit) {
        self.line.edit(edit);
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(self.line.text().trim())
    }

    /// The format that the file name selects.
    pub fn format(&self) -> Option<SaveFormat> {
        SaveFormat::from_path(&self.path()).map(|(format, _)| format)
    }

    /// Replaces the extension by that of the next format.
    pub fn step(&mut self, step: i8) {
        let all = SaveFormat::ALL;
        let text = self.line.text();
        let (stem, next) = match SaveFormat::from_path(&self.path()) {
            Some((format, extension)) => {
                let at = all.iter().position(|other| *other == format).unwrap_or(0);
                let next = (at as isize + isize::from(step)).rem_euclid(all.len() as isize);
                (text.trim_end().strip_suffix(extension).unwrap_or(&text).to_owned(), next as usize)
            }
            None => (text.trim_end().trim_end_matches('.').to_owned(), 0),
        };
        self.line.set(&(stem + all[next].extensions()[0]));
    }

    /// The request to save under the current name; `None` while the name selects no format.
    pub fn save(&self) -> Option<SaveRequest> {
        Some(SaveRequest { path: self.path(), format: self.format()?, is_shown: self.is_shown })
    }
}

/// The choices of the last save, which the next one starts with.
#[derive(Clone, Debug)]
pub struct SaveHistory {
    /// File name extension.
    pub extension: &'static str,
    /// Whether it was limited to the shown time.
    pub is_shown: bool,
    /// The last file that was saved.
    pub last_file: Option<String>,
}

impl Default for SaveHistory {
    fn default() -> SaveHistory {
        SaveHistory { extension: ".sigtop", is_shown: false, last_file: None }
    }
}

/// Suggests a file name from the program's name and the duration of the session.
pub fn suggest_name(program: &str, up: &str, ending: &str) -> String {
    let program = program.rsplit('/').next().unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['_', '.', '-', '+'].contains(c);
    let program: String = program.chars().filter(is_plain).take(60).collect();
    let up: String = up.chars().filter(is_plain).collect();
    format!("{}-{up}{ending}", if program.is_empty() { "sigtop" } else { program.trim_start_matches('-') })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_steps_through_all_formats_and_keeps_the_name() {
        let mut saving = SaveState::new("a.b.sigtop");
        let count = SaveFormat::ALL.len();
        let mut seen = Vec::new();
        for _ in 0..count {
            seen.push(saving.format().expect("a format").name());
            saving.step(1);
            assert!(saving.line().text().starts_with("a.b."));
        }
        assert_eq!(saving.line().text(), "a.b.sigtop");
        let mut all = crate::keyword::names::<SaveFormat>();
        all.sort();
        seen.sort();
        assert_eq!(seen, all);
        saving.step(-1);
        assert_eq!(saving.line().text(), "a.b.txt");
    }

    #[test]
    fn suggested_names_have_no_directory() {
        assert_eq!(suggest_name("/usr/bin/python3", "2m14s", ".sigtop"), "python3-2m14s.sigtop");
        assert_eq!(suggest_name("-x/\u{1b}[2J;rm", "1.2 s", ".txt"), "2Jrm-1.2s.txt");
        assert_eq!(suggest_name("", "–", ".txt"), "sigtop-.txt");
    }
}

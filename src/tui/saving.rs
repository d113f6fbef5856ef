//! The line on which is asked what to save: a file name, whose ending is the format, and which time.

use std::path::PathBuf;

use super::action::Edit;
use super::kinds::{Kind, kind_of, kinds};
use super::line::Line;
use crate::track::Save;

/// The line being typed, and how much is saved.
#[derive(Clone, Debug)]
pub struct Saving {
    line: Line,
    /// Whether only the time that is shown is saved: the window, or a span of the past.
    pub is_shown: bool,
}

impl Saving {
    /// Offers a name.
    pub fn new(name: &str) -> Saving {
        let mut line = Line::default();
        line.set(name);
        Saving { line, is_shown: false }
    }

    /// The line.
    pub fn line(&self) -> &Line {
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

    /// The kind of file that the name means.
    pub fn kind(&self) -> Option<Kind> {
        kind_of(&self.path()).map(|(kind, _)| kind)
    }

    /// The same name with the ending of the next kind.
    pub fn step(&mut self, step: i8) {
        let all: Vec<Kind> = kinds().collect();
        let text = self.line.text();
        let (stem, next) = match kind_of(&self.path()) {
            Some((kind, ending)) => {
                let at = all.iter().position(|other| other.name == kind.name).unwrap_or(0);
                let next = (at as isize + isize::from(step)).rem_euclid(all.len() as isize);
                (text.trim_end().strip_suffix(ending).unwrap_or(&text).to_owned(), next as usize)
            }
            None => (text.trim_end().trim_end_matches('.').to_owned(), 0),
        };
        self.line.set(&(stem + all[next].endings[0]));
    }

    /// What to save; `None` while the name means no kind of file.
    pub fn save(&self) -> Option<Save> {
        let form = self.kind()?.form;
        Some(Save { path: self.path(), form, is_shown: self.is_shown })
    }
}

/// A name for a file: of the program, and how long it was watched.
pub fn offer(program: &str, up: &str, ending: &str) -> String {
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
    fn tab_goes_through_all_kinds_and_keeps_the_name() {
        let mut saving = Saving::new("a.b.sigtop");
        let count = kinds().count();
        let mut seen = Vec::new();
        for _ in 0..count {
            seen.push(saving.kind().expect("a kind").name);
            saving.step(1);
            assert!(saving.line().text().starts_with("a.b."));
        }
        assert_eq!(saving.line().text(), "a.b.sigtop");
        let mut all: Vec<&str> = kinds().map(|kind| kind.name).collect();
        all.sort();
        seen.sort();
        assert_eq!(seen, all);
        saving.step(-1);
        assert_eq!(saving.line().text(), "a.b.txt");
    }

    #[test]
    fn no_name_leads_elsewhere() {
        assert_eq!(offer("/usr/bin/python3", "2m14s", ".sigtop"), "python3-2m14s.sigtop");
        assert_eq!(offer("-x/\u{1b}[2J;rm", "1.2 s", ".txt"), "2Jrm-1.2s.txt");
        assert_eq!(offer("", "–", ".txt"), "sigtop-.txt");
    }
}

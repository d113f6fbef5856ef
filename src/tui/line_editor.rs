//! A single-line text editor.

use crate::tui::action::Edit;

/// Maximum number of characters.
const MAX_LENGTH: usize = 1000;

/// A line of text with a cursor.
#[derive(Clone, Debug, Default)]
pub struct LineEditor {
    characters: Vec<char>,
    cursor: usize,
}

impl LineEditor {
    /// The characters.
    pub fn characters(&self) -> &[char] {
        &self.characters
    }

    /// The line as text.
    pub fn text(&self) -> String {
        self.characters.iter().collect()
    }

    /// The characters from `first` up to `end`; empty if out of range.
    pub fn text_from(&self, first: usize, end: usize) -> String {
        self.characters.get(first..end).unwrap_or_default().iter().collect()
    }

    /// Index of the character after the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Replaces the text and moves the cursor to its end.
    pub fn set(&mut self, text: &str) {
        *self = LineEditor::default();
        self.insert(text);
    }

    /// Inserts text at the cursor. Control characters and text beyond the maximum are dropped.
    pub fn insert(&mut self, text: &str) {
        let room = MAX_LENGTH - self.characters.len();
        let text: Vec<char> = text.chars().filter(|c| !c.is_control()).take(room).collect();
        let end = self.cursor + text.len();
        self.characters.splice(self.cursor..self.cursor, text);
        self.cursor = end;
    }

    /// Edits the line; returns whether the text changed.
    pub fn edit(&mut self, edit: Edit) -> bool {
        let length = self.characters.len();
        match edit {
            Edit::Left => self.cursor = self.cursor.saturating_sub(1),
            Edit::Right => self.cursor = (self.cursor + 1).min(length),
            Edit::Home => self.cursor = 0,
            Edit::End => self.cursor = length,
            Edit::Backspace => self.erase(self.cursor.saturating_sub(1)..self.cursor),
            Edit::Delete => self.erase(self.cursor..(self.cursor + 1).min(length)),
            Edit::All => self.erase(0..self.cursor),
            Edit::Word => {
                let before = &self.characters[..self.cursor];
                let word = before.iter().rposition(|c| c.is_alphanumeric()).map_or(0, |end| end + 1);
                let start = before[..word].iter().rposition(|c| !c.is_alphanumeric()).map_or(0, |at| at + 1);
                self.erase(start..self.cursor);
            }
        }
        self.characters.len() != length
    }

    fn erase(&mut self, range: std::ops::Range<usize>) {
        self.cursor = range.start;
        self.characters.drain(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_edited() {
        let mut line = LineEditor::default();
        line.insert("json::parse_value");
        line.edit(Edit::Word);
        assert_eq!(line.text(), "json::parse_");
        line.edit(Edit::Word);
        line.edit(Edit::Word);
        assert_eq!(line.text(), "");
        assert!(!line.edit(Edit::Word) && !line.edit(Edit::Backspace) && !line.edit(Edit::Delete));
        line.insert("ab\x1b\nc");
        assert_eq!(line.text(), "abc");
        line.edit(Edit::Left);
        line.edit(Edit::Left);
        assert!(line.edit(Edit::Delete));
        line.insert("X");
        assert_eq!((line.text().as_str(), line.cursor()), ("aXc", 2));
        line.insert(&"y".repeat(5000));
        assert_eq!(line.text().len(), MAX_LENGTH);
        line.set("z");
        assert_eq!((line.text().as_str(), line.cursor()), ("z", 1));
    }
}

//! Lines of help pages.

use crate::tui::text;

/// A line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelpLine {
    /// A blank line.
    Blank,
    /// The heading of the following lines.
    Heading(String),
    /// A key or term, and its meaning.
    Entry(String, String),
    /// Text over the whole width.
    Text(String),
    /// A name, a number, and a note.
    Number(String, String, String),
}

/// Columns of an entry's key or term.
pub const KEY_COLUMNS: u16 = 18;

/// Appends a key or term and its text, wrapped.
pub fn entry(lines: &mut Vec<HelpLine>, width: u16, key: &str, words: &str) {
    let room = usize::from(width.saturating_sub(KEY_COLUMNS + 4)).max(16);
    let long = text::columns(key, 99) > usize::from(KEY_COLUMNS) - 1;
    let mut key = key.to_owned();
    if long {
        lines.push(HelpLine::Entry(std::mem::take(&mut key), String::new()));
    }
    for line in text::wrap(words, room) {
        lines.push(HelpLine::Entry(std::mem::take(&mut key), line));
    }
}

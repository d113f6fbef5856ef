//! Text for a terminal: replacement of hostile characters, display width and truncation.
//!
//! No function reads more of a text than a screen's width, so a name of a megabyte costs nothing.

use std::borrow::Cow;

use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthChar;

/// Replacement for characters that must not reach a terminal.
pub const REPLACEMENT: char = '\u{fffd}';

/// Maximum number of combining marks that are shown with a letter.
const MAX_MARKS: usize = 4;

/// Returns the character to show for `c`: itself, or [`REPLACEMENT`] for control characters, for
/// characters without a width that are no combining marks, for the few that a terminal may display
/// in three columns, and for those that end lines or change the direction of text.
pub fn shown(c: char) -> char {
    let hidden = match c {
        ' '..='~' => return c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        // Joiners and selectors of variants, which have no shape.
        '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' => true,
        _ => c.is_control() || c.width().is_none_or(|width| width > 2 || width == 0 && !combines(c)),
    };
    if hidden { REPLACEMENT } else { c }
}

/// Whether a character without a width belongs to the letter before it.
fn combines(c: char) -> bool {
    let mut text = String::from('a');
    text.push(c);
    Span::raw(text).styled_graphemes(Style::new()).count() == 1
}

/// Whether a character is a combining mark: it is drawn in the cell of the letter before it.
pub fn is_mark(c: char) -> bool {
    c >= '\u{300}' && c.width() == Some(0) && shown(c) == c
}

/// Display width of [`shown`] of `c`: 1 or 2 columns, and 0 for a combining mark.
pub fn width(c: char) -> usize {
    match shown(c).width() {
        Some(0) if is_mark(c) => 0,
        width => width.unwrap_or(1).clamp(1, 2),
    }
}

/// The part of a text that is shown in one cell, or in two for a wide character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextCell<'t> {
    /// A character and its combining marks; a mark alone where it has no letter, or too many are
    /// before it.
    pub text: &'t str,
    /// The number of columns.
    pub width: usize,
}

impl TextCell<'_> {
    /// The character to show, and its marks.
    pub fn shown(&self) -> (char, &str) {
        let first = self.text.chars().next().unwrap_or(' ');
        (if is_mark(first) { REPLACEMENT } else { shown(first) }, &self.text[first.len_utf8().min(self.text.len())..])
    }
}

/// Returns the cells of a text.
pub fn cells(text: &str) -> impl Iterator<Item = TextCell<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let mut length = first.len_utf8();
        if !is_mark(first) {
            length +=
                rest[length..].chars().take_while(|&c| is_mark(c)).take(MAX_MARKS).map(char::len_utf8).sum::<usize>();
        }
        let (cell, after) = rest.split_at(length);
        rest = after;
        Some(TextCell { text: cell, width: width(first).max(1) })
    })
}

/// Display width of a text. Counting stops at the first number above `limit`.
pub fn columns(text: &str, limit: usize) -> usize {
    let mut sum = 0;
    for cell in cells(text) {
        sum += cell.width;
        if sum > limit {
            break;
        }
    }
    sum
}

/// The longest prefix of `text` that fits into `room` columns.
fn head_of(text: &str, room: usize) -> &str {
    let (mut used, mut length) = (0, 0);
    for cell in cells(text) {
        used += cell.width;
        if used > room {
            return &text[..length];
        }
        length += cell.text.len();
    }
    text
}

/// The longest suffix of `text` that fits into `room` columns, and begins with no combining mark.
fn tail_of(text: &str, room: usize) -> &str {
    let (mut used, mut marks, mut start) = (0, 0usize, text.len());
    for (at, c) in text.char_indices().rev() {
        if is_mark(c) {
            marks += 1;
            used += usize::from(marks > MAX_MARKS);
        } else {
            used += width(c);
            marks = 0;
        }
        if at == 0 {
            // Marks without a letter.
            used += marks.min(MAX_MARKS);
        }
        if used > room {
            return &text[start..];
        }
        if marks == 0 || at == 0 {
            start = at;
        }
    }
    &text[start..]
}

/// Truncates `text` on the right: `./server --po…`.
pub fn cut_right(text: &str, room: usize) -> Cow<'_, str> {
    if columns(text, room) <= room {
        return text.into();
    }
    if room == 0 {
        return "".into();
    }
    format!("{}…", head_of(text, room - 1)).into()
}

/// Truncates the path of a file on the left: `…/json/parser.rs:118`.
pub fn cut_left(text: &str, room: usize) -> Cow<'_, str> {
    if columns(text, room) <= room {
        return text.into();
    }
    let Some(room) = room.checked_sub(1) else { return "".into() };
    format!("…{}", tail_of(text, room)).into()
}

/// A window of `room` columns onto a text, `skip` columns before its end, but not before its start.
pub fn scroll(text: &str, room: usize, skip: usize) -> &str {
    let hidden = columns(text, room + skip).saturating_sub(room);
    head_of(tail_of(text, room + skip.min(hidden)), room)
}

/// Truncates `text` in the middle, with a third of the room before the ellipsis:
/// `std::map<std::string, …>::operator[](int)`.
pub fn cut_middle(text: &str, room: usize) -> Cow<'_, str> {
    if columns(text, room) <= room {
        return text.into();
    }
    let Some(room) = room.checked_sub(1) else { return "".into() };
    let left = room / 3;
    format!("{}…{}", head_of(text, left), tail_of(text, room - left)).into()
}

/// Wraps text into lines of at most `room` columns. A longer word gets a line of its own.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line, room) + 1 + columns(word, room) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hostile_is_shown() {
        for c in [
            '\u{17d8}', '\x1b', '\u{9b}', '\u{7f}', '\n', '\t', '\u{202e}', '\u{200d}', '\u{fe0f}', '\u{1160}',
            '\u{2028}', '\u{feff}',
        ] {
            assert_eq!(shown(c), REPLACEMENT, "{c:?}");
        }
        for c in ['a', 'é', '漢', '…', '▁', '👍'] {
            assert_eq!(shown(c), c);
        }
    }

    /// Regression test: a virama was shown as a replacement character.
    #[test]
    fn combining_marks_are_shown_with_their_letter() {
        let parts = |text| cells(text).map(|cell| (cell.text, cell.width)).collect::<Vec<_>>();
        assert_eq!(parts("हिन्दी"), [("ह", 1), ("ि", 1), ("न्", 1), ("द", 1), ("ी", 1)]);
        assert_eq!(parts("e\u{301}漢\u{301}"), [("e\u{301}", 1), ("漢\u{301}", 2)]);
        assert_eq!(columns("हिन्दी", 99), 5);
        assert_eq!((cut_right("हिन्दी", 4), cut_left("हिन्दी", 3)), ("हिन्…".into(), "…दी".into()));
        assert_eq!(cut_left("e\u{301}e\u{301}e\u{301}", 2), "…e\u{301}");
        assert_eq!(cut_middle("e\u{301}abcdef\u{301}", 4), "e\u{301}…ef\u{301}");
        assert_eq!(scroll("ae\u{301}bcd", 2, 2), "e\u{301}b");
    }

    #[test]
    fn marks_without_a_letter_and_heaps_of_them_are_replaced() {
        let heap = format!("e{}", "\u{301}".repeat(6));
        let words = |text: &str| cells(text).map(|cell| cell.shown().0).collect::<String>();
        assert_eq!((words("\u{301}a"), words(&heap)), ("\u{fffd}a".to_owned(), "e\u{fffd}\u{fffd}".to_owned()));
        assert_eq!((columns("\u{301}a", 9), columns(&heap, 9)), (2, 3));
        assert_eq!(columns(&"\u{301}".repeat(1 << 20), 9), 10, "it ends early");
    }

    #[test]
    fn paths_are_cut_on_the_left() {
        assert_eq!(cut_left("src/json/parser.rs", 18), "src/json/parser.rs");
        assert_eq!(cut_left("src/json/parser.rs", 10), "…parser.rs");
        assert_eq!((cut_left("abc", 1), cut_left("abc", 0)), ("…".into(), "".into()));
    }

    #[test]
    fn texts_scroll_to_their_start() {
        assert_eq!(scroll("abcdefghij", 4, 0), "ghij");
        assert_eq!(scroll("abcdefghij", 4, 3), "defg");
        assert_eq!(scroll("abcdefghij", 4, 300), "abcd");
        assert_eq!(scroll("abc", 4, 3), "abc");
    }

    #[test]
    fn other_cuts_fit_too() {
        assert_eq!(cut_right("./server --port 8080", 10), "./server …");
        assert_eq!(cut_middle("std::map<int, long>::operator[](int)", 16), "std::…tor[](int)");
        for room in 0..30 {
            for text in [
                "漢字漢字漢字漢字",
                "a漢b字c",
                "::::::::::::::::::::::",
                "\u{202e}\u{202e}\u{202e}\u{202e}",
                "हिन्दी हिन्दी हिन्दी",
                "\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
            ] {
                assert!(columns(&cut_left(text, room), 99) <= room);
                assert!(columns(scroll(text, room, 5), 99) <= room);
                assert!(columns(&cut_middle(text, room), 99) <= room);
                assert!(columns(&cut_right(text, room), 99) <= room);
            }
        }
    }
}

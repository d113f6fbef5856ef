//! Text for a terminal: replacement of hostile characters, display width and truncation.
//!
//! No function reads more of a text than a screen's width, so a name of a megabyte costs nothing.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Replacement for characters that must not reach a terminal.
pub const REPLACEMENT: char = '\u{fffd}';

/// Returns the character to show for `c`: itself, or [`REPLACEMENT`] for control characters, for
/// characters without a width (which combine with or reorder their neighbors), for the few that a
/// terminal may display in three columns, and for those that end lines or change the direction of
/// text.
pub fn shown(c: char) -> char {
    let hidden = match c {
        ' '..='~' => return c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control() || c.width().is_none_or(|width| !(1..=2).contains(&width)),
    };
    if hidden { REPLACEMENT } else { c }
}

/// Display width of [`shown`] of `c`: 1 or 2 columns.
pub fn width(c: char) -> usize {
    shown(c).width().unwrap_or(1).clamp(1, 2)
}

/// Display width of a text. Counting stops at the first number above `limit`.
pub fn columns(text: &str, limit: usize) -> usize {
    let mut sum = 0;
    for c in text.chars() {
        sum += width(c);
        if sum > limit {
            break;
        }
    }
    sum
}

/// The longest prefix of `text` that fits into `room` columns.
fn head_of(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += width(c);
        if used > room {
            return &text[..at];
        }
    }
    text
}

/// The longest suffix of `text` that fits into `room` columns.
fn tail_of(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += width(c);
        if used > room {
            return &text[at + c.len_utf8()..];
        }
    }
    text
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
            '\u{17d8}', '\x1b', '\u{9b}', '\u{7f}', '\n', '\t', '\u{202e}', '\u{200d}', '\u{301}', '\u{2028}',
            '\u{feff}',
        ] {
            assert_eq!(shown(c), REPLACEMENT, "{c:?}");
        }
        for c in ['a', 'é', '漢', '…', '▁', '👍'] {
            assert_eq!(shown(c), c);
        }
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
            for text in ["漢字漢字漢字漢字", "a漢b字c", "::::::::::::::::::::::", "\u{202e}\u{202e}\u{202e}\u{202e}"]
            {
                assert!(columns(&cut_left(text, room), 99) <= room);
                assert!(columns(scroll(text, room, 5), 99) <= room);
                assert!(columns(&cut_middle(text, room), 99) <= room);
                assert!(columns(&cut_right(text, room), 99) <= room);
            }
        }
    }
}

//! Text as a terminal may have it: what is shown for a hostile character, how wide text is, and how a long name is cut so
//! that the end that tells it from others stays.
//!
//! Every function here looks at no more of a text than a screen's width, so a name of a megabyte costs nothing.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// What stands for a character that must not reach a terminal.
pub const REPLACEMENT: char = '\u{fffd}';

/// The character that is shown for `c`: itself, or [`REPLACEMENT`] for controls, for characters without a width (which
/// pile up or reorder their neighbours), for the few that a terminal may take for three columns, and for those that end lines or change the direction of text.
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

/// Columns that [`shown`] of `c` takes: 1 or 2.
pub fn width(c: char) -> usize {
    shown(c).width().unwrap_or(1).clamp(1, 2)
}

/// Columns that a text takes, counted no further than the first number past `limit`.
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

/// The longest beginning of `text` that fits into `room` columns.
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

/// The longest end of `text` that fits into `room` columns.
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

/// `text` cut on the right: `./server --po…`.
pub fn cut_right(text: &str, room: usize) -> Cow<'_, str> {
    if columns(text, room) <= room {
        return text.into();
    }
    if room == 0 {
        return "".into();
    }
    format!("{}…", head_of(text, room - 1)).into()
}

/// `text` cut on the left, at a `::` where there is one: `…::Parser::parse_value`. The last `skip` columns are left out
/// as far as there is something to the left to be shown for them.
pub fn cut_left(text: &str, room: usize, skip: usize) -> Cow<'_, str> {
    let width = columns(text, room + skip);
    if width <= room {
        return text.into();
    }
    let skip = skip.min(width - room);
    if skip > 0 {
        // Somebody reads along: nothing but a window onto the name, no rounding to its parts.
        let left = tail_of(text, room + skip);
        return head_of(left, room).into();
    }
    let Some(room) = room.checked_sub(1) else { return "".into() };
    let tail = tail_of(text, room);
    match tail.find("::") {
        // A closure's last part tells nothing by itself.
        Some(at) if tail[at..].starts_with("::{") && tail[at + 2..].find("::").is_none() => format!("…{tail}").into(),
        Some(at) if at > 0 && tail.len() - at > 2 && at <= tail.len() / 2 => format!("…{}", &tail[at..]).into(),
        _ => format!("…{tail}").into(),
    }
}

/// `text` cut in the middle, a third of the room before the cut: `std::map<std::string, …>::operator[](int)`.
pub fn cut_middle(text: &str, room: usize) -> Cow<'_, str> {
    if columns(text, room) <= room {
        return text.into();
    }
    let Some(room) = room.checked_sub(1) else { return "".into() };
    let left = room / 3;
    format!("{}…{}", head_of(text, left), tail_of(text, room - left)).into()
}

/// Words in lines of at most `room` columns; a longer word has a line of its own.
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

/// The last part of a path of names: `parse_value` of `json::Parser::parse_value`. A part that tells nothing by itself
/// (`{{closure}}`, `{lambda()#1}`, `(anonymous)`) keeps the one before it.
pub fn bare(name: &str) -> &str {
    let mut start = name.len();
    loop {
        let at = parent(&name[..start]);
        let part = &name[at.unwrap_or(0)..];
        let Some(at) = at else { return name };
        if !part.starts_with(['{', '(', '<']) && !part.is_empty() {
            return part;
        }
        start = at - 2;
    }
}

/// Where the last part of `path` starts: behind the last `::` that is outside of brackets.
fn parent(path: &str) -> Option<usize> {
    let bytes = path.as_bytes();
    let mut depth = 0_usize;
    let mut at = bytes.len();
    while at > 0 {
        at -= 1;
        match bytes[at] {
            b'>' | b')' | b'}' => depth += 1,
            b'<' | b'(' | b'{' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => return Some(at + 1),
            _ => {}
        }
    }
    None
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
    fn names_are_cut_on_the_left_at_a_part() {
        let name = "serde_json::json::Parser::parse_value";
        assert_eq!(cut_left(name, 40, 0), name);
        assert_eq!(cut_left(name, 30, 0), "…::json::Parser::parse_value");
        assert_eq!(cut_left(name, 25, 0), "…::Parser::parse_value");
        assert_eq!(cut_left(name, 8, 0), "…e_value");
        assert_eq!(cut_left("tokio::runtime::set_scheduler::{{closure}}", 20, 0), "…eduler::{{closure}}");
        assert_eq!(cut_left(name, 1, 0), "…");
        assert_eq!(cut_left(name, 0, 0), "");
    }

    #[test]
    fn a_cut_name_can_be_read_to_its_head() {
        assert_eq!(cut_left("abcdefghij", 4, 3), "defg");
        assert_eq!(cut_left("abcdefghij", 4, 300), "abcd");
        assert_eq!(cut_left("abc", 4, 3), "abc");
    }

    #[test]
    fn other_cuts_fit_too() {
        assert_eq!(cut_right("./server --port 8080", 10), "./server …");
        assert_eq!(cut_middle("std::map<int, long>::operator[](int)", 16), "std::…tor[](int)");
        for room in 0..30 {
            for text in ["漢字漢字漢字漢字", "a漢b字c", "::::::::::::::::::::::", "\u{202e}\u{202e}\u{202e}\u{202e}"]
            {
                assert!(columns(&cut_left(text, room, 0), 99) <= room);
                assert!(columns(&cut_left(text, room, 5), 99) <= room);
                assert!(columns(&cut_middle(text, room), 99) <= room);
                assert!(columns(&cut_right(text, room), 99) <= room);
            }
        }
    }

    #[test]
    fn bare_names_still_tell() {
        assert_eq!(bare("json::Parser::parse_value"), "parse_value");
        assert_eq!(bare("main"), "main");
        assert_eq!(bare("tokio::run::{{closure}}"), "run::{{closure}}");
        assert_eq!(bare("<Vec<T> as Extend<a::B>>::extend"), "extend");
        assert_eq!(bare("std::function<void (a::b)>"), "function<void (a::b)>");
        assert_eq!(bare("a::{{closure}}::{{closure}}"), "a::{{closure}}::{{closure}}");
        assert_eq!(bare("::"), "::");
        assert_eq!(bare(""), "");
        assert_eq!(bare("libc.so.6+0x12ab"), "libc.so.6+0x12ab");
    }
}

//! Makes text from files safe to display: without control characters, invisible characters or
//! changes of text direction.

use std::borrow::Cow;

/// Maximum length of a name in bytes. Longer names are truncated and end in `…`.
pub const MAX_NAME_BYTES: usize = 4096;

/// Replaces every control, invisible or direction-changing character by U+FFFD, and truncates the
/// text to [`MAX_NAME_BYTES`].
pub fn sanitize(text: &str) -> String {
    if text.len() < MAX_NAME_BYTES && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut sanitized = String::with_capacity(text.len().min(MAX_NAME_BYTES));
    for character in text.chars().map(printable) {
        if sanitized.len() + character.len_utf8() > MAX_NAME_BYTES - '…'.len_utf8() {
            sanitized.push('…');
            break;
        }
        sanitized.push(character);
    }
    sanitized
}

/// Replaces what [`sanitize`] replaces in a text of any length, except the characters in `kept`.
pub fn sanitize_all<'t>(text: &'t str, kept: &[char]) -> Cow<'t, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|character| if kept.contains(&character) { character } else { printable(character) }).collect()
}

fn printable(character: char) -> char {
    if is_harmful(character) { char::REPLACEMENT_CHARACTER } else { character }
}

fn is_harmful(character: char) -> bool {
    matches!(character,
        // C0, DEL and C1.
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator: invisible.
        | '\u{ad}' | '\u{61c}' | '\u{180e}'
        // Zero-width characters and marks of direction.
        | '\u{200b}'..='\u{200f}'
        // Separators of lines and paragraphs, embeddings and overrides of direction.
        | '\u{2028}'..='\u{202e}'
        // Invisible operators, isolates of direction.
        | '\u{2060}'..='\u{206f}'
        // Byte order mark, annotations of lines, tags.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_do_not_change() {
        for name in ["main", "std::vector<int>::push_back(int&&)", "größe", "关闭", "a b"] {
            assert_eq!(sanitize(name), name);
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        let harmful =
            ('\0'..='\x1f').chain('\x7f'..='\u{9f}').chain("\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}".chars());
        for character in harmful {
            let name = format!("a{character}b");
            assert_eq!(sanitize(&name), "a\u{fffd}b", "{name:?}");
        }
        assert_eq!(sanitize("\x1b]52;c;aGk=\x07"), "\u{fffd}]52;c;aGk=\u{fffd}");
    }

    #[test]
    fn texts_of_any_length_keep_what_they_may() {
        let text = format!("{}\x1b\n\u{202e}", "x".repeat(MAX_NAME_BYTES));
        let sanitized = sanitize_all(&text, &['\n']);
        assert_eq!(sanitized, format!("{}\u{fffd}\n\u{fffd}", "x".repeat(MAX_NAME_BYTES)));
        assert!(matches!(sanitize_all("main", &[]), Cow::Borrowed("main")));
    }

    #[test]
    fn long_names_are_truncated_between_characters() {
        let sanitized = sanitize(&"ü".repeat(1 << 20));
        assert!(sanitized.len() <= MAX_NAME_BYTES && sanitized.len() > MAX_NAME_BYTES - 6, "{}", sanitized.len());
        assert!(sanitized.ends_with("ü…"));
        assert_eq!(sanitize(&"x".repeat(100)).len(), 100);
    }

    #[test]
    fn replacements_do_not_exceed_the_limit() {
        assert!(sanitize(&"\x01".repeat(MAX_NAME_BYTES)).len() <= MAX_NAME_BYTES);
    }
}

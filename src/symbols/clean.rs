//! Text from files, made safe to show: nothing in it that a terminal obeys, that hides, or that turns the line around.

/// Longest name kept, in bytes; what is longer ends in `…`.
pub const MAX_NAME_BYTES: usize = 4096;

/// The text with every control, invisible or direction-changing character as U+FFFD, and cut to [`MAX_NAME_BYTES`].
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len().min(MAX_NAME_BYTES));
    let characters =
        text.chars().map(|character| if is_harmful(character) { char::REPLACEMENT_CHARACTER } else { character });
    for character in characters {
        if cleaned.len() + character.len_utf8() > MAX_NAME_BYTES - '…'.len_utf8() {
            cleaned.push('…');
            break;
        }
        cleaned.push(character);
    }
    cleaned
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
    fn plain_names_stay() {
        for name in ["main", "std::vector<int>::push_back(int&&)", "größe", "关闭", "a b"] {
            assert_eq!(clean(name), name);
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_replaced() {
        let harmful =
            ('\0'..='\x1f').chain('\x7f'..='\u{9f}').chain("\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}".chars());
        for character in harmful {
            let name = format!("a{character}b");
            assert_eq!(clean(&name), "a\u{fffd}b", "{name:?}");
        }
        assert_eq!(clean("\x1b]52;c;aGk=\x07"), "\u{fffd}]52;c;aGk=\u{fffd}");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let cleaned = clean(&"ü".repeat(1 << 20));
        assert!(cleaned.len() <= MAX_NAME_BYTES && cleaned.len() > MAX_NAME_BYTES - 6, "{}", cleaned.len());
        assert!(cleaned.ends_with("ü…"));
        assert_eq!(clean(&"x".repeat(100)).len(), 100);
    }

    #[test]
    fn replacement_does_not_grow_past_the_limit() {
        assert!(clean(&"\x01".repeat(MAX_NAME_BYTES)).len() <= MAX_NAME_BYTES);
    }
}

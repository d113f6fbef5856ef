//! Texts as JSON has them.

use std::fmt::Write;

/// With quotes, and what JSON cannot hold escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // A String takes everything.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_backslashes_and_control_characters() {
        assert_eq!(quoted("a\"b\\c\n\u{1b}é"), "\"a\\\"b\\\\c\\u000a\\u001bé\"");
    }
}

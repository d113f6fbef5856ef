//! Formats names and command lines as one line that is safe to print; a command can be pasted into
//! a shell.

use std::ffi::OsStr;

/// Formats a name for a message: control characters and invalid UTF-8 are escaped.
pub(super) fn name(name: impl AsRef<OsStr>) -> String {
    let mut text = String::new();
    for chunk in name.as_ref().as_encoded_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if is_unsafe(letter) { text.extend(letter.escape_default()) } else { text.push(letter) }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Quotes words so that a shell reads them back.
pub fn command<W: AsRef<OsStr>>(words: &[W]) -> String {
    words.iter().map(|word| quote_word(word.as_ref())).collect::<Vec<_>>().join(" ")
}

fn quote_word(word: &OsStr) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "_-+=:,./@%^".contains(letter);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Some(text) if !text.contains(is_unsafe) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", name(word).replace('\'', r"\'")),
    }
}

/// Returns whether a character could move the cursor or reorder the line.
fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_command_reads_back_as_its_words() {
        assert_eq!(
            command(&["./app", "--name=two words", "it's", "", "*"]),
            r"./app '--name=two words' 'it'\''s' '' '*'"
        );
        assert_eq!(command(&["a\x1b[2Jb"]), r"$'a\u{1b}[2Jb'");
    }

    #[test]
    fn a_hostile_name_stays_on_its_line() {
        assert_eq!(name("ok\x1b]0;pwned\x07\n"), r"ok\u{1b}]0;pwned\u{7}\n");
        assert_eq!(name(OsStr::from_bytes(b"caf\xe9")), r"caf\xe9");
        assert_eq!(name("größe"), "größe");
    }
}

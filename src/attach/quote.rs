//! Names and command lines as one line of text: safe to print, and a command can be pasted into a shell.

use std::ffi::OsStr;

/// A name for a sentence: control characters and broken UTF-8 are escaped, nothing else is touched.
pub(super) fn name(name: impl AsRef<OsStr>) -> String {
    let mut text = String::new();
    for chunk in name.as_ref().as_encoded_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if harmful(letter) { text.extend(letter.escape_default()) } else { text.push(letter) }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Words as a shell would read them back.
pub(super) fn command<W: AsRef<OsStr>>(words: &[W]) -> String {
    words.iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "_-+=:,./@%^".contains(letter);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Some(text) if !text.contains(harmful) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", name(word).replace('\'', r"\'")),
    }
}

/// Would move the cursor, reorder the line, or worse.
fn harmful(letter: char) -> bool {
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

//! Converts keys and pastes into text: a character for a prompt, bytes for the target.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::tui::term::emulator::Emulator;

/// The character that a key types.
pub fn character(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(c) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => Some(c),
        _ => None,
    }
}

/// The bytes that the target receives for a key: those that the terminal sent, with cursor keys in
/// the mode that the target has set.
pub fn of_key(key: KeyEvent, bytes: Vec<u8>, emulator: &Emulator) -> Vec<u8> {
    let is_cursor_key =
        matches!(key.code, KeyCode::Up | KeyCode::Down | KeyCode::Left | KeyCode::Right | KeyCode::Home | KeyCode::End);
    match bytes[..] {
        [0x1b, b'[' | b'O', last] if is_cursor_key && emulator.application_cursor() => vec![0x1b, b'O', last],
        [0x1b, b'[' | b'O', last] if is_cursor_key => vec![0x1b, b'[', last],
        _ => bytes,
    }
}

/// The bytes that the target receives for pasted text. In bracketed paste mode, escape characters
/// are removed, so that the text cannot end the bracket.
pub fn of_paste(text: &str, emulator: &Emulator) -> Vec<u8> {
    if emulator.bracketed_paste() {
        format!("\x1b[200~{}\x1b[201~", text.replace('\x1b', "")).into_bytes()
    } else {
        // A terminal sends line breaks as carriage returns, like the Enter key.
        text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_keys_follow_the_mode_of_the_target() {
        let mut emulator = Emulator::new((40, 10));
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(of_key(up, b"\x1bOA".to_vec(), &emulator), b"\x1b[A");
        emulator.write(b"\x1b[?1h");
        assert_eq!(of_key(up, b"\x1b[A".to_vec(), &emulator), b"\x1bOA");
        assert_eq!(of_key(up, b"\x1b[1;5A".to_vec(), &emulator), b"\x1b[1;5A");
    }

    #[test]
    fn paste_cannot_end_its_own_bracket() {
        let mut emulator = Emulator::new((40, 10));
        assert_eq!(of_paste("a\r\nb\n", &emulator), b"a\rb\r");
        emulator.write(b"\x1b[?2004h");
        assert_eq!(of_paste("a\x1b[201~b", &emulator), b"\x1b[200~a[201~b\x1b[201~");
    }
}

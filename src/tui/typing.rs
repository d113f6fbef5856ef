//! What a key is to those who read text: a character for a prompt, bytes for the target.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::emulator::Emulator;

/// The character that a key writes.
pub fn character(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(c) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => Some(c),
        _ => None,
    }
}

/// The bytes that the target gets for a key: those that the terminal sent, with arrows as the target asked for them.
pub fn key(key: KeyEvent, bytes: Vec<u8>, emulator: &Emulator) -> Vec<u8> {
    let moves =
        matches!(key.code, KeyCode::Up | KeyCode::Down | KeyCode::Left | KeyCode::Right | KeyCode::Home | KeyCode::End);
    match bytes[..] {
        [0x1b, b'[' | b'O', last] if moves && emulator.application_cursor() => vec![0x1b, b'O', last],
        [0x1b, b'[' | b'O', last] if moves => vec![0x1b, b'[', last],
        _ => bytes,
    }
}

/// The bytes that the target gets for pasted text: marked if it asked for that, and then without an escape in it.
pub fn paste(text: &str, emulator: &Emulator) -> Vec<u8> {
    if emulator.bracketed_paste() {
        format!("\x1b[200~{}\x1b[201~", text.replace('\x1b', "")).into_bytes()
    } else {
        // A terminal sends the Enter key's byte for a new line.
        text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_as_the_target_wants_them() {
        let mut emulator = Emulator::new((40, 10));
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(key(up, b"\x1bOA".to_vec(), &emulator), b"\x1b[A");
        emulator.write(b"\x1b[?1h");
        assert_eq!(key(up, b"\x1b[A".to_vec(), &emulator), b"\x1bOA");
        assert_eq!(key(up, b"\x1b[1;5A".to_vec(), &emulator), b"\x1b[1;5A");
    }

    #[test]
    fn a_paste_cannot_end_its_own_mark() {
        let mut emulator = Emulator::new((40, 10));
        assert_eq!(paste("a\r\nb\n", &emulator), b"a\rb\r");
        emulator.write(b"\x1b[?2004h");
        assert_eq!(paste("a\x1b[201~b", &emulator), b"\x1b[200~a[201~b\x1b[201~");
    }
}

//! Decodes the terminal's input into keys, pastes and mouse events, on a thread of its own.
//!
//! A key keeps its bytes, because they are sent to the target when the user types into it. The
//! thread can be stopped, and ends when the terminal is gone; crossterm's reader can do neither, so
//! only its types for keys are used.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use crossbeam_channel::Sender;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::background;

/// Maximum length of the bytes of a key. A longer sequence is discarded.
const MAX_SEQUENCE: usize = 64;
/// Maximum length of a paste in bytes. The rest is discarded.
const MAX_PASTE: usize = 1 << 20;
/// Maximum time between two bytes of a key, in ms. An Esc that nothing follows in this time is the
/// Esc key.
const REST_OF_KEY_MS: u16 = 30;

/// An input event of the terminal.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A key press, with its bytes.
    Key(KeyEvent, Vec<u8>),
    /// A paste.
    Paste(String),
    /// A press of the first mouse button (column, row).
    Click(u16, u16),
    /// A turn of the mouse wheel (column, row), up (-1) or down (1).
    Wheel(u16, u16, i8),
    /// The terminal is gone.
    Gone,
}

/// Reads `terminal` into `inputs` until the other end of `stop` is closed or `inputs` has no
/// receiver.
pub fn read(mut terminal: File, stop: &OwnedFd, inputs: &Sender<Input>) {
    let mut decoder = KeyDecoder::default();
    let mut buffer = [0; 4096];
    let mut typed = Vec::new();
    decoder.feed(&background::take_typed(), &mut typed);
    if typed.into_iter().any(|input| inputs.send(input).is_err()) {
        return;
    }
    loop {
        let timeout = if decoder.is_idle() { PollTimeout::NONE } else { REST_OF_KEY_MS.into() };
        let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let ready = match poll(&mut fds, timeout) {
            Ok(ready) => ready,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => break,
        };
        if fds[1].any().unwrap_or(true) {
            return;
        }
        let mut events = Vec::new();
        if ready == 0 {
            decoder.flush(&mut events);
        } else {
            match terminal.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => decoder.feed(&buffer[..count], &mut events),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        for input in events {
            if inputs.send(input).is_err() {
                return;
            }
        }
    }
    // Without a receiver, the event is not needed.
    let _ = inputs.send(Input::Gone);
}

/// The decoder, with the bytes of an incomplete key or paste.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// The start of a late reply about the background. Its first two bytes alone are a key with Alt.
const COLOUR_REPLY: &[u8] = b"\x1b]11;";

impl KeyDecoder {
    /// Whether no key is incomplete.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Decodes bytes and appends the events.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Input>) {
        for &byte in bytes {
            if let Some(paste) = &mut self.paste {
                paste.push(byte);
                if paste.ends_with(PASTE_END) {
                    paste.truncate(paste.len() - PASTE_END.len());
                    events.push(Input::Paste(String::from_utf8_lossy(paste).into_owned()));
                    self.paste = None;
                } else if paste.len() > MAX_PASTE {
                    // The last bytes may be the start of the end marker and are kept.
                    let excess = MAX_PASTE - PASTE_END.len()..paste.len() - PASTE_END.len();
                    paste.drain(excess);
                }
                continue;
            }
            self.pending.push(byte);
            if self.pending == PASTE_START {
                self.pending.clear();
                self.paste = Some(Vec::new());
            } else if self.pending.len() > MAX_SEQUENCE {
                self.pending.clear();
            } else if self.is_complete() {
                self.emit(events);
            } else if let [0x1b, 0x1b, ..] = self.pending[..] {
                // The Esc key, followed by the start of another key.
                let rest = self.pending.split_off(1);
                self.emit(events);
                self.pending = rest;
            } else if self.pending.starts_with(b"\x1b]") && !self.may_be_reply() {
                self.split_alt(events);
            }
        }
    }

    /// Decodes an incomplete key as it is, after a timeout.
    pub fn flush(&mut self, events: &mut Vec<Input>) {
        if self.pending.len() > 2 && self.pending.len() < COLOUR_REPLY.len() && self.may_be_reply() {
            self.split_alt(events);
        }
        if !self.pending.is_empty() {
            self.emit(events);
        }
    }

    /// Whether the bytes are the start of a reply about a colour, or of its start.
    fn may_be_reply(&self) -> bool {
        let common = self.pending.len().min(COLOUR_REPLY.len());
        self.pending[..common] == COLOUR_REPLY[..common]
    }

    /// Decodes the key Alt+], and what followed it.
    fn split_alt(&mut self, events: &mut Vec<Input>) {
        let rest = self.pending.split_off(2);
        self.emit(events);
        self.feed(&rest, events);
    }

    fn is_complete(&self) -> bool {
        match &self.pending[..] {
            [0x1b] | [0x1b, 0x1b | b'[' | b'O'] => false,
            [0x1b, b'[', b'['] => false,
            [0x1b, b'[', b'[', _] => true,
            [0x1b, b'[', rest @ ..] => rest.last().is_some_and(|last| (0x40..=0x7e).contains(last)),
            [0x1b, b'O', ..] => true,
            [0x1b, b']'] => false,
            bytes @ [0x1b, b']', ..] => {
                bytes.starts_with(COLOUR_REPLY) && matches!(bytes, [.., 0x07] | [.., 0x1b, b'\\'])
            }
            [0x1b, rest @ ..] => is_complete_character(rest),
            bytes => is_complete_character(bytes),
        }
    }

    fn emit(&mut self, events: &mut Vec<Input>) {
        let bytes = std::mem::take(&mut self.pending);
        if let Some(mouse) = bytes.strip_prefix(b"\x1b[<") {
            events.extend(parse_mouse(mouse));
            return;
        }
        match &bytes[..] {
            [0x1b, b'[', b'?', .., b'c'] => return background::note_reply(),
            bytes if bytes.starts_with(COLOUR_REPLY) => return,
            _ => {}
        }
        let key = match &bytes[..] {
            [0x1b] => Some((KeyCode::Esc, KeyModifiers::NONE)),
            [0x1b, b'[', b'[', letter @ b'A'..=b'E'] => Some((KeyCode::F(letter - b'A' + 1), KeyModifiers::NONE)),
            [0x1b, b'[', parameters @ .., last] => parse_sequence(parameters, *last),
            [0x1b, b'O', last] => parse_sequence(&[], *last),
            [0x1b, rest @ ..] => parse_character(rest).map(|(code, modifiers)| (code, modifiers | KeyModifiers::ALT)),
            rest => parse_character(rest),
        };
        // An unknown key still has its bytes.
        let (code, modifiers) = key.unwrap_or((KeyCode::Null, KeyModifiers::NONE));
        events.push(Input::Key(KeyEvent::new(code, modifiers), bytes));
    }
}

/// Whether these bytes are a complete character, or cannot become one.
fn is_complete_character(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_some(),
    }
}

fn parse_character(bytes: &[u8]) -> Option<(KeyCode, KeyModifiers)> {
    let c = std::str::from_utf8(bytes).ok()?.chars().next()?;
    let control = |c: char| (KeyCode::Char(c), KeyModifiers::CONTROL);
    Some(match c {
        '\r' | '\n' => (KeyCode::Enter, KeyModifiers::NONE),
        '\t' => (KeyCode::Tab, KeyModifiers::NONE),
        '\u{7f}' | '\u{8}' => (KeyCode::Backspace, KeyModifiers::NONE),
        '\0' => control(' '),
        '\u{1}'..='\u{1a}' => control(char::from(c as u8 - 1 + b'a')),
        '\u{1c}'..='\u{1f}' => control(char::from(c as u8 + 0x40)),
        c => (KeyCode::Char(c), KeyModifiers::NONE),
    })
}

/// Parses a control sequence from its parameters and its final byte.
fn parse_sequence(parameters: &[u8], last: u8) -> Option<(KeyCode, KeyModifiers)> {
    let mut numbers = parameters.split(|&byte| byte == b';').map(parse_number);
    let first = numbers.next().flatten().unwrap_or(1);
    let bits = numbers.next().flatten().unwrap_or(1).saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)] {
        modifiers.set(modifier, bits & bit != 0);
    }
    let code = match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'Z' => KeyCode::BackTab,
        b'M' => KeyCode::Enter,
        b'P'..=b'S' => KeyCode::F(last - b'P' + 1),
        b'~' => match first {
            1 | 7 => KeyCode::Home,
            2 => KeyCode::Insert,
            3 => KeyCode::Delete,
            4 | 8 => KeyCode::End,
            5 => KeyCode::PageUp,
            6 => KeyCode::PageDown,
            11..=15 => KeyCode::F(first as u8 - 10),
            17..=21 => KeyCode::F(first as u8 - 11),
            23 | 24 => KeyCode::F(first as u8 - 12),
            _ => return None,
        },
        _ => return None,
    };
    Some((code, modifiers))
}

fn parse_number(bytes: &[u8]) -> Option<u16> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Parses a mouse report: `button;column;row`, and `M` for a press.
fn parse_mouse(bytes: &[u8]) -> Option<Input> {
    let (parameters, last) = bytes.split_at(bytes.len().checked_sub(1)?);
    let mut numbers = parameters.split(|&byte| byte == b';').map(parse_number);
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (column, row) = (column.saturating_sub(1), row.saturating_sub(1));
    match (last, button & !0b1_1100) {
        (b"M", 0) => Some(Input::Click(column, row)),
        (b"M", 64) => Some(Input::Wheel(column, row, -1)),
        (b"M", 65) => Some(Input::Wheel(column, row, 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<Input> {
        let (mut decoder, mut events) = (KeyDecoder::default(), Vec::new());
        decoder.feed(bytes, &mut events);
        decoder.flush(&mut events);
        events
    }

    fn named(bytes: &[u8]) -> Vec<(KeyCode, KeyModifiers)> {
        let key = |input| match input {
            Input::Key(event, _) => (event.code, event.modifiers),
            other => panic!("{other:?} is no key"),
        };
        keys(bytes).into_iter().map(key).collect()
    }

    #[test]
    fn keys_are_decoded() {
        let none = KeyModifiers::NONE;
        for (bytes, code) in [
            (&b"\x1b[A"[..], KeyCode::Up),
            (b"\x1bOB", KeyCode::Down),
            (b"\x1b[5~", KeyCode::PageUp),
            (b"\x1b[1~", KeyCode::Home),
            (b"\x1b[F", KeyCode::End),
            (b"\x1b[Z", KeyCode::BackTab),
            (b"\x1bOP", KeyCode::F(1)),
            (b"\x1b[[A", KeyCode::F(1)),
            (b"\x1b[21~", KeyCode::F(10)),
            (b"\x1b", KeyCode::Esc),
            (b"\r", KeyCode::Enter),
            (b"\x7f", KeyCode::Backspace),
            ("é".as_bytes(), KeyCode::Char('é')),
        ] {
            assert_eq!(named(bytes), [(code, none)], "{bytes:?}");
        }
        assert_eq!(named(b"\x03"), [(KeyCode::Char('c'), KeyModifiers::CONTROL)]);
        assert_eq!(named(b"\x1d"), [(KeyCode::Char(']'), KeyModifiers::CONTROL)]);
        assert_eq!(named(b"\x1b[1;5C"), [(KeyCode::Right, KeyModifiers::CONTROL)]);
        assert_eq!(named(b"\x1bx"), [(KeyCode::Char('x'), KeyModifiers::ALT)]);
        assert_eq!(named(b"\x1b\x1b[A"), [(KeyCode::Esc, none), (KeyCode::Up, none)]);
        assert_eq!(named(b"\xff"), [(KeyCode::Null, none)]);
        // Regression test: what was typed after Alt+] was taken for a reply of the terminal.
        let (bracket, q) = ((KeyCode::Char(']'), KeyModifiers::ALT), (KeyCode::Char('q'), none));
        assert_eq!(named(b"\x1b]q"), [bracket, q]);
        assert_eq!(named(b"\x1b]1"), [bracket, (KeyCode::Char('1'), none)]);
        assert_eq!(named(b"\x1b]11;rgb:ffff/ffff/ffff\x07q"), [q]);
        assert_eq!(named(b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\q"), [q]);
    }

    #[test]
    fn mouse_events_and_pastes_are_decoded() {
        assert_eq!(keys(b"\x1b[<0;11;5M\x1b[<0;11;5m"), [Input::Click(10, 4)]);
        assert_eq!(keys(b"\x1b[<65;1;1M\x1b[<64;1;1M"), [Input::Wheel(0, 0, 1), Input::Wheel(0, 0, -1)]);
        assert_eq!(keys(b"\x1b[200~q\x1b[A\x1b[201~"), [Input::Paste("q\x1b[A".into())]);
        let (mut decoder, mut events) = (KeyDecoder::default(), Vec::new());
        decoder.feed(PASTE_START, &mut events);
        (0..300).for_each(|_| decoder.feed(&[b'x'; 10_000], &mut events));
        decoder.feed(PASTE_END, &mut events);
        decoder.feed(b"q", &mut events);
        assert!(matches!(&events[0], Input::Paste(text) if text.len() <= MAX_PASTE), "a paste has a limit");
        assert!(matches!(&events[1], Input::Key(event, _) if event.code == KeyCode::Char('q')));
    }

    #[test]
    fn reader_ends_when_the_terminal_is_gone() {
        let (terminal, other) = nix::unistd::pipe().expect("a pipe");
        let (stop, _stopper) = nix::unistd::pipe().expect("a pipe");
        let (inputs, events) = crossbeam_channel::unbounded();
        nix::unistd::write(&other, b"q\x1b").expect("room in a pipe");
        drop(other);
        read(terminal.into(), &stop, &inputs);
        let events: Vec<Input> = events.try_iter().collect();
        assert_eq!(events.last(), Some(&Input::Gone));
        assert!(matches!(&events[0], Input::Key(event, _) if event.code == KeyCode::Char('q')));
    }

    #[test]
    fn reader_ends_when_it_is_stopped() {
        let (terminal, _other) = nix::unistd::pipe().expect("a pipe");
        let (stop, stopper) = nix::unistd::pipe().expect("a pipe");
        let (inputs, events) = crossbeam_channel::unbounded();
        drop(stopper);
        read(terminal.into(), &stop, &inputs);
        assert!(events.is_empty());
    }

    proptest! {
        #![proptest_config(property(256))]
        /// The bytes of all keys are the bytes that were read, in whatever pieces they were read.
        #[test]
        fn keys_keep_every_byte(bytes in prop::collection::vec(prop_oneof![
            Just(0x1b_u8), Just(b'['), Just(b']'), Just(b'1'), Just(b';'), Just(b'5'), Just(b'~'), any::<u8>()
        ], 0..60), cut in 1_usize..9) {
            prop_assume!(!bytes.windows(3).any(|window| window == b"\x1b[<"));
            prop_assume!(!bytes.windows(6).any(|window| window == PASTE_START));
            // Replies of the terminal are no keys.
            prop_assume!(!bytes.windows(5).any(|window| window == COLOUR_REPLY));
            prop_assume!(!bytes.windows(3).any(|window| window == b"\x1b[?"));
            let (mut decoder, mut events) = (KeyDecoder::default(), Vec::new());
            bytes.chunks(cut).for_each(|piece| decoder.feed(piece, &mut events));
            decoder.flush(&mut events);
            let kept: Vec<u8> = events.iter().flat_map(|input| match input {
                Input::Key(_, bytes) => bytes.clone(),
                _ => Vec::new(),
            }).collect();
            prop_assert_eq!(kept, bytes);
        }
    }
}

//! Bytes of the terminal to keys, pastes and clicks, on a thread of its own.
//!
//! The bytes of every key are kept beside its meaning, because the target, when it is typed into, gets what the terminal
//! sent. The thread waits for the terminal or for the word to stop, and ends when the terminal is gone; crossterm's own
//! reader can do neither, so only its words for keys are used.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use crossbeam_channel::Sender;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Bytes of one key, at most; a sequence longer than this is thrown away.
const MAX_SEQUENCE: usize = 64;
/// Bytes of one paste, at most; the rest of it is thrown away.
const MAX_PASTE: usize = 1 << 20;
/// How long the rest of a key may take. A lone Esc is a key of its own when nothing follows it.
const REST_OF_KEY_MS: u16 = 30;

/// What the terminal said.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A key, and its bytes.
    Key(KeyEvent, Vec<u8>),
    /// Text that was pasted.
    Paste(String),
    /// The first mouse button was pressed here (column, row).
    Click(u16, u16),
    /// The wheel was turned here (column, row), up (-1) or down (1).
    Wheel(u16, u16, i8),
    /// The terminal is gone.
    Gone,
}

/// Reads `terminal` into `inputs` until the other end of `stop` is closed, or nobody listens.
pub fn read(mut terminal: File, stop: &OwnedFd, inputs: &Sender<Input>) {
    let mut decoder = Decoder::default();
    let mut buffer = [0; 4096];
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
        let mut heard = Vec::new();
        if ready == 0 {
            decoder.flush(&mut heard);
        } else {
            match terminal.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => decoder.feed(&buffer[..count], &mut heard),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        for input in heard {
            if inputs.send(input).is_err() {
                return;
            }
        }
    }
    // Nobody may listen any more; then nobody needs to know.
    let _ = inputs.send(Input::Gone);
}

/// The state between two bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

impl Decoder {
    /// Whether no key is half read.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes in bytes; what they say is added to `heard`.
    pub fn feed(&mut self, bytes: &[u8], heard: &mut Vec<Input>) {
        for &byte in bytes {
            if let Some(paste) = &mut self.paste {
                paste.push(byte);
                if paste.ends_with(PASTE_END) {
                    paste.truncate(paste.len() - PASTE_END.len());
                    heard.push(Input::Paste(String::from_utf8_lossy(paste).into_owned()));
                    self.paste = None;
                } else if paste.len() > MAX_PASTE {
                    // Its last bytes may be the beginning of the end; what lies before them is too much.
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
                self.say(heard);
            } else if let [0x1b, 0x1b, ..] = self.pending[..] {
                // Esc, and the beginning of something else.
                let rest = self.pending.split_off(1);
                self.say(heard);
                self.pending = rest;
            }
        }
    }

    /// Nothing followed: what is half read is all there is.
    pub fn flush(&mut self, heard: &mut Vec<Input>) {
        if !self.pending.is_empty() {
            self.say(heard);
        }
    }

    fn is_complete(&self) -> bool {
        match &self.pending[..] {
            [0x1b] | [0x1b, 0x1b | b'[' | b'O'] => false,
            [0x1b, b'[', b'['] => false,
            [0x1b, b'[', b'[', _] => true,
            [0x1b, b'[', rest @ ..] => rest.last().is_some_and(|last| (0x40..=0x7e).contains(last)),
            [0x1b, b'O', ..] => true,
            [0x1b, rest @ ..] => whole_character(rest),
            bytes => whole_character(bytes),
        }
    }

    fn say(&mut self, heard: &mut Vec<Input>) {
        let bytes = std::mem::take(&mut self.pending);
        if let Some(mouse) = bytes.strip_prefix(b"\x1b[<") {
            heard.extend(pointed(mouse));
            return;
        }
        let key = match &bytes[..] {
            [0x1b] => Some((KeyCode::Esc, KeyModifiers::NONE)),
            [0x1b, b'[', b'[', letter @ b'A'..=b'E'] => Some((KeyCode::F(letter - b'A' + 1), KeyModifiers::NONE)),
            [0x1b, b'[', parameters @ .., last] => sequence(parameters, *last),
            [0x1b, b'O', last] => sequence(&[], *last),
            [0x1b, rest @ ..] => character(rest).map(|(code, modifiers)| (code, modifiers | KeyModifiers::ALT)),
            rest => character(rest),
        };
        // A key that has no name has its bytes still.
        let (code, modifiers) = key.unwrap_or((KeyCode::Null, KeyModifiers::NONE));
        heard.push(Input::Key(KeyEvent::new(code, modifiers), bytes));
    }
}

/// Whether these are all bytes of a character, or never will be one.
fn whole_character(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_some(),
    }
}

fn character(bytes: &[u8]) -> Option<(KeyCode, KeyModifiers)> {
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

/// A sequence by its parameters and its last byte.
fn sequence(parameters: &[u8], last: u8) -> Option<(KeyCode, KeyModifiers)> {
    let mut numbers = parameters.split(|&byte| byte == b';').map(number);
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

fn number(bytes: &[u8]) -> Option<u16> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// The mouse: `button;column;row` and `M` for pressed.
fn pointed(bytes: &[u8]) -> Option<Input> {
    let (parameters, last) = bytes.split_at(bytes.len().checked_sub(1)?);
    let mut numbers = parameters.split(|&byte| byte == b';').map(number);
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
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<Input> {
        let (mut decoder, mut heard) = (Decoder::default(), Vec::new());
        decoder.feed(bytes, &mut heard);
        decoder.flush(&mut heard);
        heard
    }

    fn named(bytes: &[u8]) -> Vec<(KeyCode, KeyModifiers)> {
        let key = |input| match input {
            Input::Key(event, _) => (event.code, event.modifiers),
            other => panic!("{other:?} is no key"),
        };
        keys(bytes).into_iter().map(key).collect()
    }

    #[test]
    fn keys_are_known_by_name() {
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
    }

    #[test]
    fn the_mouse_and_pastes_are_known() {
        assert_eq!(keys(b"\x1b[<0;11;5M\x1b[<0;11;5m"), [Input::Click(10, 4)]);
        assert_eq!(keys(b"\x1b[<65;1;1M\x1b[<64;1;1M"), [Input::Wheel(0, 0, 1), Input::Wheel(0, 0, -1)]);
        assert_eq!(keys(b"\x1b[200~q\x1b[A\x1b[201~"), [Input::Paste("q\x1b[A".into())]);
        let (mut decoder, mut heard) = (Decoder::default(), Vec::new());
        decoder.feed(PASTE_START, &mut heard);
        (0..300).for_each(|_| decoder.feed(&[b'x'; 10_000], &mut heard));
        decoder.feed(PASTE_END, &mut heard);
        decoder.feed(b"q", &mut heard);
        assert!(matches!(&heard[0], Input::Paste(text) if text.len() <= MAX_PASTE), "a paste has a limit");
        assert!(matches!(&heard[1], Input::Key(event, _) if event.code == KeyCode::Char('q')));
    }

    #[test]
    fn the_reader_ends_when_the_terminal_is_gone() {
        let (terminal, other) = nix::unistd::pipe().expect("a pipe");
        let (stop, _stopper) = nix::unistd::pipe().expect("a pipe");
        let (inputs, heard) = crossbeam_channel::unbounded();
        nix::unistd::write(&other, b"q\x1b").expect("room in a pipe");
        drop(other);
        read(terminal.into(), &stop, &inputs);
        let heard: Vec<Input> = heard.try_iter().collect();
        assert_eq!(heard.last(), Some(&Input::Gone));
        assert!(matches!(&heard[0], Input::Key(event, _) if event.code == KeyCode::Char('q')));
    }

    #[test]
    fn the_reader_ends_when_it_is_told_to() {
        let (terminal, _other) = nix::unistd::pipe().expect("a pipe");
        let (stop, stopper) = nix::unistd::pipe().expect("a pipe");
        let (inputs, heard) = crossbeam_channel::unbounded();
        drop(stopper);
        read(terminal.into(), &stop, &inputs);
        assert!(heard.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// The bytes of all keys are the bytes that came, however they were cut into pieces.
        #[test]
        fn no_byte_is_lost(bytes in prop::collection::vec(prop_oneof![
            Just(0x1b_u8), Just(b'['), Just(b';'), Just(b'5'), Just(b'~'), any::<u8>()
        ], 0..60), cut in 1_usize..9) {
            prop_assume!(!bytes.windows(3).any(|window| window == b"\x1b[<"));
            prop_assume!(!bytes.windows(6).any(|window| window == PASTE_START));
            let (mut decoder, mut heard) = (Decoder::default(), Vec::new());
            bytes.chunks(cut).for_each(|piece| decoder.feed(piece, &mut heard));
            decoder.flush(&mut heard);
            let kept: Vec<u8> = heard.iter().flat_map(|input| match input {
                Input::Key(_, bytes) => bytes.clone(),
                _ => Vec::new(),
            }).collect();
            prop_assert_eq!(kept, bytes);
        }
    }
}

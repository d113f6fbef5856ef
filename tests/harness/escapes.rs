//! A parser of sigtop's terminal output that fails on any sequence not listed here. It ignores what
//! the sequences mean, and is deliberately not the tolerant parser that models the screen.

/// The allowed control characters: line ends, of the farewell and of what is printed without a
/// screen.
const CONTROLS: [u8; 2] = [b'\r', b'\n'];

/// Any numbers separated by semicolons.
const NUMBERS: &str = "numbers";

/// The allowed sequences that begin with `ESC [`: final character, allowed parameters, and purpose.
const CSI: [(u8, &[&str], &str); 7] = [
    (b'H', &[NUMBERS], "the cursor to a cell: the screen is drawn in pieces"),
    (b'm', &[NUMBERS], "colours and weight of what follows"),
    (b'c', &[""], "the terminal's attributes asked, after its background"),
    (b'K', &[""], "the rest of the line of a progress cleared"),
    (b'J', &["2"], "a clear screen, at the start and where somebody else drew on it"),
    (b'h', &["?25", "?1049", "?2004", "?1000", "?1006"], "cursor, other screen, pastes marked, mouse and its form"),
    (b'l', &["?25", "?1049", "?2004", "?1000", "?1006"], "all of these taken back"),
];

/// The allowed string: OSC 52 with the clipboard's name, base64, and BEL. The key `y` copies a
/// name with it.
const COPY: &[u8] = b"52;c;";

/// The one allowed question: the background colour.
const BACKGROUND: &[u8] = b"11;?";

/// The parser's state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Text,
    Character { code: u32, left: u8, least: u32 },
    Escape,
    Csi(Vec<u8>),
    Osc(Vec<u8>),
}

/// Parses output that arrives in any pieces.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    state: State,
    /// Number of copies to the clipboard.
    pub(crate) copies: usize,
}

impl Default for Guard {
    fn default() -> Guard {
        Guard { state: State::Text, copies: 0 }
    }
}

impl Guard {
    /// Parses the next piece.
    ///
    /// # Errors
    /// The sequence that is not allowed.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        bytes.iter().try_for_each(|&byte| self.step(byte))
    }

    fn step(&mut self, byte: u8) -> Result<(), String> {
        self.state = match (std::mem::replace(&mut self.state, State::Text), byte) {
            (State::Text, 0x1b) => State::Escape,
            (State::Text, 0x20..=0x7e) => State::Text,
            (State::Text, 0xc2..=0xdf) => State::Character { code: u32::from(byte & 0x1f), left: 1, least: 0x80 },
            (State::Text, 0xe0..=0xef) => State::Character { code: u32::from(byte & 0x0f), left: 2, least: 0x800 },
            (State::Text, 0xf0..=0xf4) => State::Character { code: u32::from(byte & 0x07), left: 3, least: 0x1_0000 },
            (State::Text, control) if CONTROLS.contains(&control) => State::Text,
            (State::Text, other) => return Err(format!("the byte {other:#04x}")),
            (State::Character { code, left, least }, 0x80..=0xbf) => {
                let code = code << 6 | u32::from(byte & 0x3f);
                if left > 1 {
                    State::Character { code, left: left - 1, least }
                } else {
                    character(code, least)?;
                    State::Text
                }
            }
            (State::Character { .. }, other) => return Err(format!("a character broken by {other:#04x}")),
            (State::Escape, b'[') => State::Csi(Vec::new()),
            (State::Escape, b']') => State::Osc(Vec::new()),
            (State::Escape, other) => return Err(format!("ESC {:?}", char::from(other))),
            (State::Csi(mut parameters), 0x20..=0x3f) if parameters.len() < 64 => {
                parameters.push(byte);
                State::Csi(parameters)
            }
            (State::Csi(parameters), end) => {
                let parameters = String::from_utf8_lossy(&parameters).into_owned();
                if !is_allowed(&parameters, end) {
                    return Err(format!("ESC [ {parameters} {:?}", char::from(end)));
                }
                State::Text
            }
            (State::Osc(text), 0x07) if text == BACKGROUND => State::Text,
            (State::Osc(text), 0x07) => {
                let coded = text.strip_prefix(COPY).ok_or_else(|| format!("OSC {}", String::from_utf8_lossy(&text)))?;
                if !coded.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)) {
                    return Err(format!("a copy of {}", String::from_utf8_lossy(coded)));
                }
                self.copies += 1;
                State::Text
            }
            (State::Osc(mut text), 0x20..=0x7e) if text.len() < 4 << 20 => {
                text.push(byte);
                State::Osc(text)
            }
            (State::Osc(text), other) => {
                return Err(format!("{other:#04x} in OSC {}", String::from_utf8_lossy(&text[..text.len().min(80)])));
            }
        };
        Ok(())
    }
}

fn is_allowed(parameters: &str, end: u8) -> bool {
    let is_number = |part: &str| part.len() <= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |form: &str| form == parameters || (form == NUMBERS && parameters.split(';').all(is_number));
    CSI.iter().any(|(known, forms, _)| *known == end && forms.iter().any(|form| fits(form)))
}

/// Returns whether a character takes no cell, reverses the line, or is a control character in
/// another encoding.
fn character(code: u32, least: u32) -> Result<(), String> {
    let hidden = matches!(
        code,
        0x80..=0x9f | 0xad | 0x61c | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfe00..=0xfe0f | 0xfeff
            | 0xfff9..=0xfffb | 0xe0000..=0xe0fff
    );
    match char::from_u32(code) {
        Some(_) if code >= least && !hidden => Ok(()),
        _ => Err(format!("the character U+{code:04X}")),
    }
}

//! Asks the terminal for its background colour (OSC 11), to choose the theme. A request for the
//! terminal's attributes (DA1) follows, which every terminal answers: a terminal that does not know
//! the first one costs no wait, and after the second reply none is left for the shell.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

/// The questions: the background colour, then the attributes.
const QUESTION: &[u8] = b"\x1b]11;?\x07\x1b[c";
/// Maximum time to wait for the replies.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// Maximum number of bytes that are read.
const MAX_REPLY: usize = 4096;
/// The start of the reply about the colour, and of that about the attributes.
const COLOUR: &[u8] = b"\x1b]11;";
const ATTRIBUTES: &[u8] = b"\x1b[?";

/// Bytes that were typed while the replies were awaited.
static TYPED: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// Whether a reply may still come.
static IS_AWAITED: AtomicBool = AtomicBool::new(false);

/// Returns the keys that were typed while the terminal was asked.
pub(super) fn take_typed() -> Vec<u8> {
    std::mem::take(&mut *TYPED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notes that the last reply has arrived.
pub(super) fn note_reply() {
    IS_AWAITED.store(false, Ordering::Relaxed);
}

/// Whether a reply may still come, which is not to reach the shell.
pub(super) fn is_reply_awaited() -> bool {
    IS_AWAITED.load(Ordering::Relaxed)
}

/// Whether the background of the terminal that `open` opens for reading and writing is light;
/// `None` if it does not say. It is asked once.
pub(super) fn is_light(open: impl FnOnce() -> Option<(File, File)>) -> Option<bool> {
    static ANSWER: OnceLock<Option<bool>> = OnceLock::new();
    *ANSWER.get_or_init(move || {
        let (input, output) = open()?;
        let reply = ask(input, output)?;
        let (colour, typed) = split_reply(&reply);
        *TYPED.lock().unwrap_or_else(PoisonError::into_inner) = typed;
        parse_colour(&colour?).map(|luminance| luminance > 0.5)
    })
}

/// Sends the questions and reads until the last reply, or for [`MAX_WAIT`].
fn ask(mut input: File, mut output: File) -> Option<Vec<u8>> {
    // A background process would be stopped.
    if tcgetpgrp(&output).ok()? != getpgrp() {
        return None;
    }
    let original = tcgetattr(&output).ok()?;
    let mut raw = original.clone();
    cfmakeraw(&mut raw);
    tcsetattr(&output, SetArg::TCSANOW, &raw).ok()?;
    let (mut reply, deadline) = (Vec::new(), Instant::now() + MAX_WAIT);
    IS_AWAITED.store(output.write_all(QUESTION).is_ok(), Ordering::Relaxed);
    while is_reply_awaited() && reply.len() < MAX_REPLY {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let mut bytes = [0; 256];
        match poll(&mut polled, timeout) {
            Ok(0) => break,
            Ok(_) => match input.read(&mut bytes) {
                Ok(count) if count > 0 => reply.extend(&bytes[..count]),
                _ => break,
            },
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => break,
        }
        if find_sequence(&reply, ATTRIBUTES, |byte| byte == b'c').is_some() {
            note_reply();
        }
    }
    let _ = tcsetattr(&output, SetArg::TCSANOW, &original);
    Some(reply)
}

/// Returns the first sequence that begins with `start`, up to the byte that ends it.
fn find_sequence(bytes: &[u8], start: &[u8], is_end: impl Fn(u8) -> bool) -> Option<(usize, usize)> {
    let from = bytes.windows(start.len()).position(|window| window == start)?;
    let length = bytes[from + start.len()..].iter().position(|&byte| is_end(byte))?;
    Some((from, from + start.len() + length + 1))
}

/// Returns the reply about the colour, and what else was read besides the replies: keys.
fn split_reply(reply: &[u8]) -> (Option<Vec<u8>>, Vec<u8>) {
    let mut typed = reply.to_vec();
    // ESC \ or BEL ends the first reply.
    let colour = find_sequence(&typed, COLOUR, |byte| byte == 0x07 || byte == b'\\').map(|(from, to)| {
        let sequence: Vec<u8> = typed.drain(from..to).collect();
        sequence[COLOUR.len()..].to_vec()
    });
    if let Some((from, to)) = find_sequence(&typed, ATTRIBUTES, |byte| byte == b'c') {
        typed.drain(from..to);
    }
    (colour, typed)
}

/// Parses `rgb:ffff/ffff/ffff`, with one to four digits each; returns the luminance, 0 to 1.
fn parse_colour(reply: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(reply).ok()?.trim_end_matches(['\x07', '\\', '\x1b']);
    let parts = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
    let mut parts = parts.split('/').map(|digits| {
        let most = 16_u32.checked_pow(u32::try_from(digits.len()).ok()?).filter(|&most| most > 1)?;
        Some(f64::from(u32::from_str_radix(digits, 16).ok()?) / f64::from(most - 1))
    });
    let [red, green, blue] = [parts.next()??, parts.next()??, parts.next()??];
    Some(0.299 * red + 0.587 * green + 0.114 * blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_from_keys() {
        let split = |text: &str| {
            let (colour, typed) = split_reply(text.as_bytes());
            (
                colour.map(|colour| parse_colour(&colour).map(|luminance| luminance > 0.99)),
                String::from_utf8(typed).expect("text"),
            )
        };
        let white = Some(Some(true));
        assert_eq!(split("\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;4c"), (white, String::new()));
        assert_eq!(split("2\x1b]11;rgb:ff/ff/ff\x07j\x1b[?6cq"), (white, "2jq".to_owned()));
        assert_eq!(split("\x1b[?1;2c"), (None, String::new()));
        assert_eq!(split("\x1b[Aq"), (None, "\x1b[Aq".to_owned()));
        assert_eq!(split("\x1b]11;?\x07"), (Some(None), String::new()));
    }

    #[test]
    fn colours_are_light_or_dark() {
        let is_light = |text: &str| parse_colour(text.as_bytes()).map(|luminance| luminance > 0.5);
        assert_eq!(is_light("rgb:fdfd/f6f6/e3e3\x07"), Some(true));
        assert_eq!(is_light("rgba:00/2b/36/ff\x1b\\"), Some(false));
        for wrong in ["", "rgb:", "rgb:ff/ff", "rgb:x/y/z", "rgb:fffffffff/0/0", "hsl:1/2/3"] {
            assert_eq!(is_light(wrong), None, "{wrong}");
        }
    }
}

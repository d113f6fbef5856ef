//! Queue of a target's output for a screen that draws at its own pace. If the target writes faster,
//! lines that would scroll off unseen are dropped: of a run of plain lines the newest
//! [`KEPT_LINES`] stay, with the colours in force. Where the stream moves the cursor or changes a
//! mode nothing is dropped, and the target waits, as for any terminal.
//!
//! For an emulator with at most [`KEPT_LINES`] lines of grid and scrollback the result is the same,
//! except in a scrolling region with the cursor below it, where lines are overwritten and do not
//! scroll.

use memchr::{memchr, memchr_iter, memrchr_iter};

/// Number of newest lines that are kept of a run. Lines of the grid count twice, as the cursor may
/// have started anywhere in it.
pub const KEPT_LINES: usize = 2_400;
/// Queue length at which lines start to be dropped, in bytes.
const SHORTEN_FROM: usize = 128 * 1024;
/// Queue length at which reading stops, in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// Length of collected colour sequences at which they are condensed, in bytes.
const MAX_COLORS: usize = 4096;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct PtyOutputQueue {
    bytes: Vec<u8>,
    /// Queue length at which lines are dropped again.
    due: usize,
    /// Whether the bytes taken last ended inside a line, and possibly inside a sequence.
    is_cut: bool,
    /// Whether the reader is behind.
    is_behind: bool,
    /// Whether lines were dropped.
    shorter: bool,
}

impl PtyOutputQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns whether nothing more should be read until some is taken.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_BYTES
    }

    /// Records that the reader is behind.
    pub(super) fn set_behind(&mut self) {
        self.is_behind = true;
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= self.due.max(SHORTEN_FROM) {
            self.skip();
            self.due = 2 * self.bytes.len();
        }
    }

    /// Takes the whole queue, shortened if the reader was behind. Also returns whether lines were
    /// dropped.
    pub(super) fn take(&mut self) -> (Vec<u8>, bool) {
        if std::mem::take(&mut self.is_behind) {
            self.skip();
        }
        self.due = 0;
        self.is_cut = self.bytes.last().map_or(self.is_cut, |&byte| byte != b'\n');
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.shorter))
    }

    /// Drops all but the newest lines of each run of plain lines.
    fn skip(&mut self) {
        let mut first = if self.is_cut { memchr(b'\n', &self.bytes).map_or(self.bytes.len(), |at| at + 1) } else { 0 };
        let (mut shorter, mut copied) = (Vec::new(), 0);
        let mut at = first;
        while first < self.bytes.len() {
            let escape = memchr(0x1b, &self.bytes[at..]).map_or(self.bytes.len(), |offset| at + offset);
            let next = match parse_sequence(&self.bytes[escape..]) {
                Sequence::Plain(length) => {
                    at = escape + length;
                    continue;
                }
                Sequence::Other(length) => escape + length,
                Sequence::Cut => self.bytes.len(),
            };
            if let Some(cut) = find_cut(&self.bytes[first..escape]).map(|cut| first + cut) {
                shorter.extend_from_slice(&self.bytes[copied..first]);
                shorter.extend_from_slice(&replacement(&self.bytes[first..cut]));
                copied = cut;
            }
            (first, at) = (next, next);
        }
        if copied > 0 {
            shorter.extend_from_slice(&self.bytes[copied..]);
            self.bytes = shorter;
            self.shorter = true;
        }
    }
}

/// Returns where the newest lines of a run begin, if there are more before them.
fn find_cut(stretch: &[u8]) -> Option<usize> {
    let end = memrchr_iter(b'\n', stretch).nth(KEPT_LINES)?;
    // Without a carriage return the lines do not start at the left.
    (end > 0 && stretch[end - 1] == b'\r').then_some(end + 1)
}

/// Returns the bytes that replace dropped lines: CAN ends a sequence that was cut in two, the
/// started line stays a line, and the colours are restored.
fn replacement(lines: &[u8]) -> Vec<u8> {
    let mut colors = Vec::new();
    for at in memchr_iter(0x1b, lines) {
        let Sequence::Plain(length) = parse_sequence(&lines[at..]) else { continue };
        let sequence = &lines[at..at + length];
        if matches!(sequence, b"\x1b[m" | b"\x1b[0m") {
            colors.clear();
        }
        if sequence.ends_with(b"m") {
            colors.extend_from_slice(sequence);
        }
        if colors.len() > MAX_COLORS {
            colors = condense_colors(&colors);
        }
    }
    [b"\x18\r\n", &colors[..]].concat()
}

/// Condenses colour sequences. A property that they do not set comes out as it went in, from two
/// terminals that differ.
fn condense_colors(colors: &[u8]) -> Vec<u8> {
    let after = |before: &[u8]| {
        let mut parser = vt100::Parser::default();
        parser.process(before);
        parser.process(colors);
        parser
    };
    let (one, other) = (after(b""), after(b"\x1b[1;3;4;7;31;41m"));
    let (one, other) = (one.screen(), other.screen());
    let mut codes: Vec<String> = Vec::new();
    if (one.bold(), one.dim()) == (other.bold(), other.dim()) {
        let weight = if one.bold() { "1" } else { "2" };
        codes.extend(["22", weight].into_iter().take(1 + usize::from(one.bold() || one.dim())).map(str::to_owned));
    }
    let switches = [
        (one.italic(), other.italic(), 3),
        (one.underline(), other.underline(), 4),
        (one.inverse(), other.inverse(), 7),
    ];
    for (on, _, code) in switches.into_iter().filter(|(on, other, _)| on == other) {
        codes.push((if on { code } else { code + 20 }).to_string());
    }
    for (color, _, base) in [(one.fgcolor(), other.fgcolor(), 30), (one.bgcolor(), other.bgcolor(), 40)]
        .into_iter()
        .filter(|(color, other, _)| color == other)
    {
        codes.push(match color {
            vt100::Color::Default => format!("{}", base + 9),
            vt100::Color::Idx(index) => format!("{};5;{index}", base + 8),
            vt100::Color::Rgb(red, green, blue) => format!("{};2;{red};{green};{blue}", base + 8),
        });
    }
    // An empty list would be a reset.
    if codes.is_empty() { Vec::new() } else { format!("\x1b[{}m", codes.join(";")).into_bytes() }
}

/// The effect of an escape sequence on a run of plain lines.
enum Sequence {
    /// A sequence of this length in bytes that sets colours, or erases within its line.
    Plain(usize),
    /// Any other sequence, with its length in bytes.
    Other(usize),
    /// The sequence is missing or incomplete.
    Cut,
}

/// Parses a sequence. A control character inside it takes effect, and the sequence continues after
/// it.
fn parse_sequence(bytes: &[u8]) -> Sequence {
    let ends = |from: usize, first: u8| {
        let end = |byte: &u8| (first..=0x7e).contains(byte) || matches!(byte, 0x18 | 0x1a | 0x1b);
        bytes.get(from..).and_then(|rest| rest.iter().position(end)).map(|at| from + at)
    };
    match ends(1, 0x30).map(|at| (at, bytes[at])) {
        None => Sequence::Cut,
        Some((at, b'[')) => match ends(at + 1, 0x40).map(|end| (end, bytes[end])) {
            None => Sequence::Cut,
            Some((end, 0x1b)) => Sequence::Other(end),
            Some((end, b'm' | b'K')) if bytes[1..end].iter().all(|byte| matches!(byte, b'[' | b'0'..=b';')) => {
                Sequence::Plain(end + 1)
            }
            Some((end, _)) => Sequence::Other(end + 1),
        },
        Some((at, 0x1b)) => Sequence::Other(at),
        Some((at, _)) => Sequence::Other(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;

    /// Everything a user can see of a terminal with this many lines of scrollback: scrollback,
    /// grid, colours, cursor.
    fn seen(pieces: &[Vec<u8>], rows: u16) -> Vec<String> {
        let size = |count: u16| count.try_into().unwrap();
        let scrollback = KEPT_LINES - 2 * usize::from(rows);
        let mut parser = vt100::Parser::new(size(rows), size(30), scrollback);
        pieces.iter().for_each(|piece| parser.process(piece));
        parser.screen_mut().set_scrollback(usize::MAX);
        let mut lines = Vec::new();
        loop {
            let back = parser.screen().scrollback();
            lines.extend(parser.screen().rows_formatted(0, 30));
            if back == 0 {
                break;
            }
            parser.screen_mut().set_scrollback(back.saturating_sub(rows.into()));
        }
        lines.push(format!("{:?} {}", parser.screen().cursor_position(), parser.screen().attributes_formatted()));
        lines
    }

    /// The bytes handed over when the queue is emptied after every few pieces.
    fn passed(pieces: &[Vec<u8>], every: usize) -> Vec<Vec<u8>> {
        let mut queue = PtyOutputQueue::default();
        let mut passed = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            queue.push(piece);
            queue.set_behind();
            if index % every == every - 1 {
                passed.push(queue.take().0);
            }
        }
        passed.push(queue.take().0);
        passed
    }

    fn length(pieces: &[Vec<u8>]) -> usize {
        pieces.iter().map(Vec::len).sum()
    }

    fn lines(count: usize, form: impl Fn(usize) -> String) -> Vec<u8> {
        (0..count).map(form).collect::<String>().into_bytes()
    }

    #[test]
    fn what_is_taken_in_time_is_whole() {
        let mut queue = PtyOutputQueue::default();
        let piece = lines(2 * KEPT_LINES, |line| format!("{line}\r\n"));
        queue.push(&piece);
        assert_eq!(queue.take().0, piece);
        queue.push(&piece);
        queue.set_behind();
        assert!(queue.take().0.len() < piece.len());
    }

    #[test]
    fn a_flood_is_short_and_ends_the_same() {
        let pieces: Vec<_> =
            (0..300).map(|piece| lines(1000, |line| format!("\x1b[3{}m{piece} {line}\x1b[K\r\n", line % 8))).collect();
        let passed = passed(&pieces, 50);
        assert!(length(&passed) < length(&pieces) / 10, "{}", length(&passed));
        assert_eq!(seen(&passed, 20), seen(&pieces, 20));
    }

    #[test]
    fn the_backlog_of_a_flood_has_a_limit() {
        let mut queue = PtyOutputQueue::default();
        let piece = lines(600, |line| format!("{line:90}\r\n"));
        for _ in 0..1000 {
            queue.push(&piece);
            assert!(!queue.is_full());
        }
        queue.set_behind();
        assert!(queue.take().0.len() <= (KEPT_LINES + 2) * 92 + 100);
    }

    #[test]
    fn what_moves_the_cursor_stays() {
        let screens = lines(20_000, |line| format!("\x1b[{};1H{line}\r\n", line % 20));
        let mut queue = PtyOutputQueue::default();
        queue.push(&screens);
        queue.push(&screens);
        assert_eq!(queue.take().0, [&screens[..], &screens].concat());
        (0..6).for_each(|_| queue.push(&screens));
        assert!(queue.is_full(), "then nobody reads on");
    }

    #[test]
    fn lines_without_a_carriage_return_stay() {
        let stairs = lines(20_000, |line| format!("{line}\n"));
        assert_eq!(passed(std::slice::from_ref(&stairs), 1)[0], stairs);
    }

    /// A colour set long ago and never taken back is still there.
    #[test]
    fn many_colours_are_boiled_down() {
        let start = b"\x1b[44;1mstart\r\n".to_vec();
        let flood = lines(20_000, |line| format!("\x1b[38;2;{};2;3mx\x1b[39m\r\n", line % 256));
        let passed = passed(&[start.clone(), flood.clone()], 2);
        assert!(length(&passed) < flood.len() / 2);
        assert_eq!(seen(&passed, 20), seen(&[start, flood], 20));
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let flood = (1_usize..6000, 0_u8..8, "[a-z漢]{0,40}")
            .prop_map(|(count, color, text)| lines(count, |line| format!("{line}\x1b[3{color}m{text}\r\n")));
        let sequence = prop::sample::select(vec![
            "\x1b[H",
            "\x1b[5;5H",
            "\x1b[2J",
            "\x1b[?1049h",
            "\x1b[?1049l",
            "\x1b[m",
            "\x1b[1m",
            "\x1b[41m",
            "\x1b]0;title\x07",
            "\x1b7",
            "\x1b8",
            "\x1bc",
            "\x1b[K",
            "\x1b[3A",
            "\x1b[2L",
            "\x1b[4P",
            "\x1b[S",
            "\x1b[?25l",
            "\x1bM",
            "\x1b",
            "\x1b[",
            "\x1b[3",
            "m",
            "1;2H",
        ])
        .prop_map(|text| text.as_bytes().to_vec());
        let text = "[a-z漢\r\n\t\u{8}]{0,40}".prop_map(String::into_bytes);
        prop_oneof![2 => flood, 3 => sequence, 1 => text]
    }

    proptest! {
        #![proptest_config(property(40))]
        /// However the stream is cut and whatever is left out, what a person can see is the same.
        #[test]
        fn nobody_sees_a_difference(pieces in prop::collection::vec(piece(), 1..14), every in 1_usize..15, cut in 1_usize..200_000) {
            let pieces: Vec<Vec<u8>> = pieces.concat().chunks(cut.max(2_000)).map(<[u8]>::to_vec).collect();
            let (passed, whole) = (seen(&passed(&pieces, every), 10), seen(&pieces, 10));
            let first = passed.iter().zip(&whole).position(|(one, other)| one != other);
            prop_assert!(passed == whole, "line {first:?} of {} and {}", passed.len(), whole.len());
        }
    }
}

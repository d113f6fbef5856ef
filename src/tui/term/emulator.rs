//! Emulates a terminal for the target: its output becomes a grid of cells with scrollback, so that
//! no escape sequence reaches the real terminal.

use std::cell::Cell;
use std::num::NonZeroU16;

use ratatui::style::{Color, Modifier, Style};

use crate::attach::launch::output_queue::KEPT_LINES;

/// Number of scrollback lines.
const SCROLLBACK: usize = 2000;
/// Maximum size of the grid (columns, rows). A larger pane shows it with a margin.
pub const MAX_SIZE: (u16, u16) = (500, 200);
/// Minimum size of the grid (columns, rows), below which lines cannot be wrapped.
pub const MIN_SIZE: (u16, u16) = (20, 4);

// When output arrives too fast, at least this many lines of it are kept: enough for the scrollback.
const _: () = assert!(KEPT_LINES >= SCROLLBACK + 2 * MAX_SIZE.1 as usize);

/// An emulated terminal.
pub struct Emulator {
    parser: vt100::Parser,
    /// The number of used rows, once it has been computed from all cells.
    used: Cell<Option<u16>>,
    /// Whether nothing was ever written.
    is_unused: bool,
}

/// The contents of a cell.
pub struct Glyph<'a> {
    /// A character with its accents; empty for a blank.
    pub contents: &'a str,
    /// Whether it is two columns wide.
    pub wide: bool,
    /// Its colours and modifiers.
    pub style: Style,
}

impl Emulator {
    /// A blank terminal of this size (columns, rows), within the limits.
    pub fn new(size: (u16, u16)) -> Emulator {
        let (rows, columns) = grid_size(size);
        Emulator { parser: vt100::Parser::new(rows, columns, SCROLLBACK), used: Cell::default(), is_unused: true }
    }

    /// The parser, for a change of the grid.
    fn parser_mut(&mut self) -> &mut vt100::Parser {
        self.used.take();
        &mut self.parser
    }

    /// Processes output of the target.
    pub fn write(&mut self, bytes: &[u8]) {
        self.is_unused &= bytes.is_empty();
        self.parser_mut().process(bytes);
    }

    /// The number of rows that are worth showing: none if nothing was ever written, and at least
    /// one afterwards.
    pub fn shown_rows(&self) -> u16 {
        if self.is_unused { 0 } else { self.used_rows().max(1) }
    }

    /// Sets the size (columns, rows), within the limits.
    pub fn resize(&mut self, size: (u16, u16)) {
        let (rows, columns) = grid_size(size);
        self.parser_mut().set_size(rows, columns);
    }

    /// The size (columns, rows).
    pub fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.parser.screen().size();
        (columns.get(), rows.get())
    }

    /// Scrolls by a number of rows; negative numbers scroll back.
    pub fn scroll(&mut self, rows: isize) {
        let screen = self.parser_mut().screen_mut();
        let back = screen.scrollback().saturating_add_signed(-rows);
        screen.set_scrollback(back);
    }

    /// Scrolls to the newest line, or to the oldest one.
    pub fn scroll_to_end(&mut self, newest: bool) {
        let screen = self.parser_mut().screen_mut();
        screen.set_scrollback(if newest { 0 } else { SCROLLBACK });
    }

    /// The number of lines below the view.
    pub fn below(&self) -> usize {
        self.parser.screen().scrollback()
    }

    /// A cell of the view; `None` outside of the grid and for the second half of a wide character.
    pub fn cell(&self, row: u16, column: u16) -> Option<Glyph<'_>> {
        let cell = self.parser.screen().cell(row, column)?;
        if cell.is_wide_continuation() {
            return None;
        }
        let mut style = Style::new();
        if let Some(color) = color(cell.fgcolor()) {
            style = style.fg(color);
        }
        if let Some(color) = color(cell.bgcolor()) {
            style = style.bg(color);
        }
        let modifiers = [
            (cell.bold(), Modifier::BOLD),
            (cell.dim(), Modifier::DIM),
            (cell.italic(), Modifier::ITALIC),
            (cell.underline(), Modifier::UNDERLINED),
            (cell.inverse(), Modifier::REVERSED),
        ];
        let set = modifiers.into_iter().filter(|(set, _)| *set).map(|(_, modifier)| modifier);
        style = style.add_modifier(set.collect());
        Some(Glyph { contents: cell.contents(), wide: cell.is_wide(), style })
    }

    /// The position of the cursor (column, row), unless it is hidden or out of view.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        let screen = self.parser.screen();
        let (row, column) = screen.cursor_position();
        (!screen.hide_cursor() && screen.scrollback() == 0).then_some((column, row))
    }

    /// The number of rows from the top to the last one with contents, or to the cursor.
    pub fn used_rows(&self) -> u16 {
        let used = self.used.get().unwrap_or_else(|| self.count_used_rows());
        self.used.set(Some(used));
        used
    }

    fn count_used_rows(&self) -> u16 {
        let screen = self.parser.screen();
        let (columns, rows) = self.size();
        if screen.scrollback() > 0 || screen.alternate_screen() {
            return rows;
        }
        let cursor = screen.cursor_position();
        // A cursor at the start of an empty line does not count.
        let cursor_rows = if cursor.1 == 0 { cursor.0 } else { cursor.0 + 1 };
        let blank =
            |row: &u16| (0..columns).all(|column| screen.cell(*row, column).is_none_or(|cell| !cell.has_contents()));
        let written = (cursor_rows..rows).rev().find(|row| !blank(row)).map_or(0, |row| row + 1);
        written.max(cursor_rows)
    }

    /// Whether the target has set application mode for cursor keys.
    pub fn application_cursor(&self) -> bool {
        self.parser.screen().application_cursor()
    }

    /// Whether the target has set bracketed paste mode.
    pub fn bracketed_paste(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    /// The last lines of output, at most `count`, without colours, control characters and trailing
    /// blank lines.
    pub fn last_lines(&mut self, count: usize) -> Vec<String> {
        // Leave the alternate screen: a full-screen program has no lines of output.
        self.parser_mut().process(b"\x1b[?1049l");
        let (columns, rows) = self.size();
        let screen = self.parser_mut().screen_mut();
        screen.set_scrollback(SCROLLBACK);
        let mut lines: Vec<String> = Vec::new();
        loop {
            let back = screen.scrollback();
            let take = if back == 0 { usize::from(rows) } else { back.min(rows.into()) };
            lines.extend(screen.rows(0, columns).take(take).map(|line| sanitize(&line)));
            if back == 0 {
                break;
            }
            screen.set_scrollback(back - take);
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines.split_off(lines.len().saturating_sub(count))
    }
}

fn sanitize(line: &str) -> String {
    line.trim_end().chars().map(crate::tui::text::shown).collect()
}

fn grid_size((columns, rows): (u16, u16)) -> (NonZeroU16, NonZeroU16) {
    let bound = |value: u16, low: u16, high: u16| NonZeroU16::new(value.clamp(low, high)).unwrap_or(NonZeroU16::MIN);
    (bound(rows, MIN_SIZE.1, MAX_SIZE.1), bound(columns, MIN_SIZE.0, MAX_SIZE.0))
}

fn color(color: vt100::Color) -> Option<Color> {
    match color {
        vt100::Color::Default => None,
        vt100::Color::Idx(index) => Some(Color::Indexed(index)),
        vt100::Color::Rgb(red, green, blue) => Some(Color::Rgb(red, green, blue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    #[test]
    fn last_lines_include_scrollback() {
        let mut emulator = Emulator::new((40, 5));
        for line in 0..100 {
            emulator.write(format!("\x1b[31mline {line}\x1b[0m\r\n").as_bytes());
        }
        assert_eq!(emulator.last_lines(3), ["line 97", "line 98", "line 99"]);
        let all = emulator.last_lines(1000);
        assert_eq!((all.len(), all[0].as_str()), (100, "line 0"));
        assert_eq!(all.iter().enumerate().find(|(index, line)| **line != format!("line {index}")), None);
    }

    #[test]
    fn last_lines_exclude_the_alternate_screen() {
        let mut emulator = Emulator::new((40, 5));
        emulator.write(b"before\r\n\x1b[?1049h\x1b[2J\x1b[Hmenu");
        assert_eq!(emulator.last_lines(9), ["before"]);
    }

    #[test]
    fn scrolled_view_stays_while_output_arrives() {
        let mut emulator = Emulator::new((40, 4));
        (0..20).for_each(|line| emulator.write(format!("line {line}\r\n").as_bytes()));
        emulator.scroll(-5);
        let first = |emulator: &Emulator| emulator.parser.screen().rows(0, 40).next().unwrap();
        let before = first(&emulator);
        emulator.write(b"more\r\nmore\r\n");
        assert_eq!(first(&emulator), before);
        emulator.scroll_to_end(true);
        assert_eq!(emulator.below(), 0);
    }

    #[test]
    fn used_rows_end_at_the_last_line_or_the_cursor() {
        let mut emulator = Emulator::new((40, 10));
        assert_eq!(emulator.used_rows(), 0);
        emulator.write(b"one\r\ntwo\r\n");
        assert_eq!(emulator.used_rows(), 2);
        emulator.write(b"three");
        assert_eq!(emulator.used_rows(), 3);
        emulator.write(b"\x1b[9;1Hdown\x1b[1;1H");
        assert_eq!(emulator.used_rows(), 9);
    }

    proptest! {
        #![proptest_config(property(60))]
        /// No output and no resizing breaks the grid.
        #[test]
        fn hostile_output_does_not_break_the_grid(pieces in prop::collection::vec((piece(), 0_u16..60, 0_u16..20, -9_isize..9), 1..20)) {
            let mut emulator = Emulator::new((30, 6));
            for (bytes, columns, rows, scroll) in pieces {
                emulator.write(&bytes);
                emulator.resize((columns, rows));
                emulator.scroll(scroll);
                let (columns, rows) = emulator.size();
                for row in 0..rows {
                    for column in 0..columns {
                        emulator.cell(row, column);
                    }
                }
                let cursor = emulator.cursor();
                prop_assert!(cursor.is_none_or(|(_, row)| row < rows), "{cursor:?}");
                prop_assert!(emulator.used_rows() <= rows);
            }
            let lines = emulator.last_lines(50);
            prop_assert!(lines.iter().all(|line| !line.chars().any(char::is_control)));
        }
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let sequence = ("[\\[\\]PO()#?>=]?", "[0-9;?]{0,12}", "[a-zA-Z@`{|~^]")
            .prop_map(|(start, middle, end)| format!("\x1b{start}{middle}{end}").into_bytes());
        let text = "[a-z\u{300}\u{200d}\u{fe0f}漢👍\u{202e}\n\r\t\u{8}]{0,40}".prop_map(String::into_bytes);
        let one = prop_oneof![sequence, text, prop::collection::vec(any::<u8>(), 0..40)];
        prop::collection::vec(one, 0..12).prop_map(|parts| parts.concat())
    }
}

//! Writes to the screen buffer. Panes write through [`Canvas`] only, which replaces control
//! characters, invisible characters and direction changes, keeps combining marks in the cell of
//! their letter, clips to the screen, and maps glyphs to ASCII in ASCII locales.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::text;
use super::theme::{Role, Theme};

/// A screen buffer and its theme.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    /// Colours and glyphs.
    pub theme: Theme,
}

impl<'a> Canvas<'a> {
    /// Creates a canvas that draws into `buffer`.
    pub fn new(buffer: &'a mut Buffer, theme: Theme) -> Canvas<'a> {
        Canvas { buffer, theme }
    }

    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Writes `text` at (x, y), at most `room` columns of it; returns the columns used.
    pub fn put(&mut self, x: u16, y: u16, room: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if y < area.top() || y >= area.bottom() || x < area.left() {
            return 0;
        }
        let end = area.right().min(x.saturating_add(room));
        let mut at = x;
        for cell in text::cells(text) {
            let (c, marks) = cell.shown();
            let c = self.glyph(c);
            let width = text::width(c) as u16;
            if at.saturating_add(width) > end {
                break;
            }
            match marks {
                "" => self.buffer[(at, y)].set_char(c),
                _ if self.theme.ascii => self.buffer[(at, y)].set_char(c),
                _ => self.buffer[(at, y)].set_symbol(&format!("{c}{marks}")),
            }
            .set_style(style);
            if width == 2 {
                self.buffer[(at + 1, y)].reset();
            }
            at += width;
        }
        at.saturating_sub(x)
    }

    /// Writes spans one after the other; returns the columns used.
    pub fn spans(&mut self, x: u16, y: u16, room: u16, spans: &[Span<'_>]) -> u16 {
        let mut used = 0;
        for span in spans {
            used += self.put(x.saturating_add(used), y, room.saturating_sub(used), &span.content, span.style);
        }
        used
    }

    /// Writes one cell of an emulated terminal: a character with at most two combining marks. The
    /// cell keeps the width that the emulation gave it.
    pub fn cell(&mut self, x: u16, y: u16, contents: &str, wide: bool, style: Style) {
        if !self.buffer.area.contains((x, y).into()) {
            return;
        }
        let mut characters = contents.chars();
        let first = self.glyph(characters.next().map_or(' ', text::shown));
        let fits = (text::width(first) == 2) == wide && (!wide || x + 1 < self.buffer.area.right());
        let mut symbol = String::from(if fits { first } else { ' ' });
        if fits && !self.theme.ascii {
            symbol.extend(characters.filter(|&c| text::is_mark(c)).take(2));
        }
        self.buffer[(x, y)].set_symbol(&symbol).set_style(style);
    }

    /// Applies `style` to an area without changing its text.
    pub fn tint(&mut self, area: Rect, style: Style) {
        self.buffer.set_style(area.intersection(self.buffer.area), style);
    }

    /// Fills an area with blanks in `style`.
    pub fn blank(&mut self, area: Rect, style: Style) {
        let area = area.intersection(self.buffer.area);
        for position in area.positions() {
            self.buffer[position].reset();
            self.buffer[position].set_style(style);
        }
    }

    /// Draws a horizontal rule.
    pub fn rule(&mut self, x: u16, y: u16, width: u16) {
        let style = self.style(Role::Rule);
        for at in 0..width {
            self.put(x.saturating_add(at), y, 1, "─", style);
        }
    }

    /// Writes a junction glyph onto a horizontal rule; does nothing where there is other text.
    pub fn join(&mut self, x: u16, y: u16, glyph: &str) {
        let rule = self.glyph('─');
        let style = self.style(Role::Rule);
        if self.buffer.area.contains((x, y).into()) && self.buffer[(x, y)].symbol().starts_with(rule) {
            self.put(x, y, 1, glyph, style);
        }
    }

    /// The character to write for `c`: itself, or an ASCII substitute in an ASCII theme.
    fn glyph(&self, c: char) -> char {
        if !self.theme.ascii || c.is_ascii() {
            return c;
        }
        match c {
            '…' | '⋯' => '~',
            '–' | '─' => '-',
            '·' => '.',
            '▸' | '→' | '›' => '>',
            '←' => '<',
            '●' => '*',
            '○' => 'o',
            '│' | '‖' | '▏' | '▕' | '▌' => '|',
            '┬' | '┴' | '╭' | '╰' => '+',
            '░' => '.',
            '▒' => ':',
            '▓' => '+',
            '✕' | '×' => 'x',
            'Δ' => 'd',
            '±' => '~',
            '▁' | '▂' => '_',
            '▃' | '▄' => '=',
            '▅' | '▆' => '*',
            '▇' | '█' => '#',
            '▴' | '▲' | '↑' => '^',
            '▾' | '▼' | '↓' => 'v',
            '\u{a0}' => ' ',
            _ => '?',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;

    fn row(buffer: &Buffer) -> String {
        buffer.content().iter().map(|cell| cell.symbol()).collect()
    }

    fn written(ascii: bool, text: &str) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        let theme = Theme::new(Depth::None, ascii);
        Canvas::new(&mut buffer, theme).put(1, 0, 10, text, Style::new());
        row(&buffer)
    }

    #[test]
    fn text_is_clipped_and_cleaned() {
        assert_eq!(written(false, "abcdefghijklm"), " abcdefghij ");
        assert_eq!(written(false, "a\x1b[31mb"), " a\u{fffd}[31mb    ");
        assert_eq!(written(false, "漢字漢字漢字"), " 漢 字 漢 字 漢  ");
        assert_eq!(written(false, "हिन्दी\u{202e}"), " हिन्दी\u{fffd}     ");
        // Regression test: a mark took a control character before it to the terminal.
        assert_eq!(written(false, "\x1b\u{301}[2J"), " \u{fffd}\u{301}[2J       ");
        assert_eq!(written(false, "\u{e0127}\u{afa}x"), " \u{fffd}\u{afa}x         ");
        assert_eq!(written(true, "e\u{301}\u{301}x"), " ex         ");
        assert_eq!(written(true, "▸ é…"), " > ?~       ");
    }

    #[test]
    fn outside_of_the_screen_is_nothing() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 3, 1));
        let mut canvas = Canvas::new(&mut buffer, Theme::new(Depth::None, false));
        assert_eq!(canvas.put(3, 0, 9, "x", Style::new()), 0);
        assert_eq!(canvas.put(0, 1, 9, "x", Style::new()), 0);
        assert_eq!(canvas.put(u16::MAX, u16::MAX, u16::MAX, "x", Style::new()), 0);
        canvas.cell(2, 0, "漢", true, Style::new());
        canvas.rule(0, 0, 9);
        canvas.tint(Rect::new(2, 0, 9, 9), Style::new());
        assert_eq!(row(&buffer), "───");
    }

    #[test]
    fn a_terminal_cell_keeps_its_width() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 1));
        let mut canvas = Canvas::new(&mut buffer, Theme::new(Depth::None, false));
        canvas.cell(0, 0, "e\u{301}\u{301}\u{301}\u{202e}", false, Style::new());
        canvas.cell(1, 0, "漢", false, Style::new());
        canvas.cell(2, 0, "\u{9b}", false, Style::new());
        assert_eq!(row(&buffer), "e\u{301}\u{301} \u{fffd} ");
    }
}

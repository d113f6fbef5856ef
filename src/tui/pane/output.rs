//! Draws the target's terminal: its last rows on the dashboard, all of it if maximized. Until
//! something is written, the dashboard shows its title only. Its contents cannot affect other
//! panes.
//!
//! ```text
//! ─ 6 Output ─────────────────────────────────────────────────────────────────────── 120 lines below ─
//! listening on 127.0.0.1:8080
//! GET /index.html 200 1.2ms
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::Span;

use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::layout::Pane;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::mode::Mode;
use crate::tui::pane::sentences;
use crate::tui::pane::title;
use crate::tui::theme::{Depth, Role};

/// Draws the pane; returns the position of the target's cursor.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) -> Option<Position> {
    let typing = matches!(context.screen.mode, Mode::Typing);
    let active = context.screen.pane == Pane::Output && (typing || matches!(context.screen.mode, Mode::Panes));
    let below = context.panes.emulator.below();
    let remark = match (typing, below) {
        (true, _) => Some(Span::styled("keys go to the target · Ctrl-] returns", canvas.style(Role::Notable))),
        (false, 0) if area.height == 1 => Some(Span::styled("no output yet", canvas.style(Role::Dim))),
        (false, 0) => None,
        (false, 1) => Some(Span::styled("1 line below", canvas.style(Role::Notable))),
        (false, _) => {
            Some(Span::styled(format!("{} lines below", measure::count(below as u64)), canvas.style(Role::Notable)))
        }
    };
    title::draw_title(canvas, area, Some(Pane::Output), Pane::Output.name(), active, remark.as_slice());
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let used = context.panes.emulator.used_rows();
    if !context.options.output || (used == 0 && below == 0) {
        let words = if context.options.output { "no output yet" } else { "the target writes to its own terminal" };
        sentences::draw_centered(canvas, body, body.height / 3, words, Role::Dim);
        if !typing {
            return None;
        }
    }
    let cursor = context.panes.emulator.cursor();
    let mut needed = used;
    if let (true, Some((_, row))) = (typing, cursor) {
        needed = needed.max(row + 1);
    }
    let first = needed.saturating_sub(body.height);
    let (columns, rows) = context.panes.emulator.size();
    for row in first..rows.min(first.saturating_add(body.height)) {
        for column in 0..columns.min(body.width) {
            if let Some(cell) = context.panes.emulator.cell(row, column) {
                let style = limited(cell.style, canvas.theme.depth);
                canvas.cell(body.x + column, body.y + row - first, cell.contents, cell.wide, style);
            }
        }
    }
    let (column, row) = cursor?;
    let seen = row >= first && row - first < body.height && column < body.width;
    seen.then(|| Position::new(body.x + column, body.y + row - first))
}

/// Restricts the target's colours to those of this terminal.
fn limited(mut style: Style, depth: Depth) -> Style {
    let limit = |color: Option<Color>| match (depth, color) {
        (Depth::None, _) => None,
        (Depth::Sixteen, Some(Color::Rgb(..))) => None,
        (Depth::Sixteen, Some(Color::Indexed(16..))) => None,
        _ => color,
    };
    style.fg = limit(style.fg);
    style.bg = limit(style.bg);
    style
}

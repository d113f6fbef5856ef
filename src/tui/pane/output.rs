//! The target's terminal, live. On the dashboard its last rows, alone all of it; nothing in it can touch the other panes.
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
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::layout::Pane;
use crate::tui::theme::{Depth, Role};

/// Draws it; returns where the target's cursor is.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) -> Option<Position> {
    let typing = matches!(app.mode, Mode::Typing);
    let active = app.pane == Pane::Output && (typing || matches!(app.mode, Mode::Panes));
    let below = app.emulator.below();
    let remark = match (typing, below) {
        (true, _) => Some(Span::styled("your keys go to the target · Ctrl-] stops", canvas.style(Role::Notable))),
        (false, 0) => None,
        (false, 1) => Some(Span::styled("1 line below", canvas.style(Role::Notable))),
        (false, _) => {
            Some(Span::styled(format!("{} lines below", measure::count(below as u64)), canvas.style(Role::Notable)))
        }
    };
    super::title(canvas, area, Some(Pane::Output), Pane::Output.name(), active, remark.as_slice());
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let used = app.emulator.used_rows();
    if !app.options.output || (used == 0 && below == 0) {
        let words =
            if app.options.output { "nothing was written yet" } else { "the target writes to a terminal of its own" };
        super::centred(canvas, body, body.height / 3, words, Role::Dim);
        if !typing {
            return None;
        }
    }
    let cursor = app.emulator.cursor();
    let mut needed = used;
    if let (true, Some((_, row))) = (typing, cursor) {
        needed = needed.max(row + 1);
    }
    let first = needed.saturating_sub(body.height);
    let (columns, rows) = app.emulator.size();
    for row in first..rows.min(first.saturating_add(body.height)) {
        for column in 0..columns.min(body.width) {
            if let Some(cell) = app.emulator.cell(row, column) {
                let style = limited(cell.style, canvas.theme.depth);
                canvas.cell(body.x + column, body.y + row - first, cell.contents, cell.wide, style);
            }
        }
    }
    let (column, row) = cursor?;
    let seen = row >= first && row - first < body.height && column < body.width;
    seen.then(|| Position::new(body.x + column, body.y + row - first))
}

/// The target's colours, as far as this terminal has them.
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

//! Draws the title of a pane, with remarks at its right.

use crate::tui::canvas::Canvas;
use crate::tui::fit_line;
use crate::tui::layout::Pane;
use crate::tui::text;
use crate::tui::theme::Role;
use ratatui::layout::Rect;
use ratatui::text::Span;

/// Draws the title of a pane: `─ 1 Top ────────────── by flat ─`; returns the columns used at the
/// left.
pub(super) fn draw_title(
    canvas: &mut Canvas<'_>,
    area: Rect,
    pane: Option<Pane>,
    name: &str,
    active: bool,
    right: &[Span<'_>],
) -> u16 {
    canvas.rule(area.x, area.y, area.width);
    let role = if active { Role::TitleActive } else { Role::Title };
    let name = match pane {
        Some(pane) => format!(" {} {name} ", pane.number()),
        None => format!(" {name} "),
    };
    let style = canvas.style(role);
    let left = 1 + canvas.put(area.x + 1, area.y, area.width.saturating_sub(2), &name, style);
    let wide = fit_line::width(right) as u16;
    let room = area.width.saturating_sub(left + 2);
    if wide > 0 && wide + 2 <= room {
        let x = area.right() - wide - 3;
        canvas.put(x, area.y, 1, " ", style);
        canvas.spans(x + 1, area.y, wide, right);
        canvas.put(x + 1 + wide, area.y, 1, " ", style);
    }
    left
}

/// Columns of a title that the pane's name and the rules around it take.
pub(super) const TITLE_COLUMNS: u16 = 20;

/// Fits remarks at the right of a title. Those with the lowest rank are omitted first.
pub(super) fn fit_remarks(canvas: &Canvas<'_>, mut words: Vec<(u8, String, Role)>, width: u16) -> Vec<Span<'static>> {
    let room = usize::from(width.saturating_sub(TITLE_COLUMNS));
    loop {
        let wide: usize = words.iter().map(|(_, words, _)| text::columns(words, 999) + 3).sum();
        let least = words.iter().enumerate().min_by_key(|(_, (rank, ..))| *rank).map(|(index, _)| index);
        match least {
            Some(index) if wide > room + 3 => drop(words.remove(index)),
            _ => break,
        }
    }
    let dot = Span::styled(" · ", canvas.style(Role::Title));
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (_, words, role) in words {
        if !spans.is_empty() {
            spans.push(dot.clone());
        }
        spans.push(Span::styled(words, canvas.style(role)));
    }
    spans
}

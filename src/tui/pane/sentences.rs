//! Writes sentences into the middle of a pane.

use crate::tui::canvas::Canvas;
use crate::tui::text;
use crate::tui::theme::Role;
use ratatui::layout::Rect;

/// Writes centered sentences into an area, starting at its upper third.
pub(super) fn draw_sentences(canvas: &mut Canvas<'_>, area: Rect, sentences: &[(String, Role)]) {
    let room = area.width.saturating_sub(4).into();
    let lines =
        sentences.iter().flat_map(|(words, role)| text::wrap(words, room).into_iter().map(move |line| (line, *role)));
    for (row, (words, role)) in (area.height / 3..).zip(lines) {
        draw_centered(canvas, area, row, &words, role);
    }
}

/// Writes centered text into a row of `area`.
pub(super) fn draw_centered(canvas: &mut Canvas<'_>, area: Rect, row: u16, words: &str, role: Role) {
    if row >= area.height {
        return;
    }
    let words = text::cut_right(words, area.width.saturating_sub(2).into());
    let wide = text::columns(&words, area.width.into()) as u16;
    let style = canvas.style(role);
    canvas.put(area.x + (area.width - wide.min(area.width)) / 2, area.y + row, area.width, &words, style);
}

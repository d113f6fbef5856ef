//! Draws the row that stands for idle threads.

use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::pane::context::PaneContext;
use crate::tui::text;
use crate::tui::theme::Role;
use ratatui::layout::Rect;

/// Draws the number and the time of the idle threads into the last row of a pane, if there are any.
pub(super) fn draw_idle_row(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let Some((threads, ns)) = context.idle() else { return };
    let (y, room) = (area.bottom() - 1, area.width.saturating_sub(3));
    let plural = if threads == 1 { "" } else { "s" };
    let words = format!("idle: {} thread{plural}", measure::count(threads as u64));
    let [notable, dim] = [Role::Notable, Role::Dim].map(|role| canvas.style(role));
    let used = canvas.put(area.x + 2, y, room, &words, notable);
    let rest = format!("  {} not counted above · Z shows them", measure::shown(ns, context.session.unit()));
    let rest = if text::columns(&rest, 99) > (room - used).into() { "  Z shows them" } else { &rest };
    canvas.put(area.x + 2 + used, y, room - used, rest, dim);
}

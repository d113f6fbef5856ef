//! Cells that source and assembly share: values, column titles, the cursor.

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tally::change::Change;
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::pane::context::PaneContext;
use crate::tui::theme::Role;

/// Columns of a value.
pub(super) const VALUE_COLUMNS: u16 = 8;
/// Minimum columns to show cum.
pub(super) const CUM_FROM_COLUMNS: u16 = 52;

pub(super) fn part(ns: u64, base_ns: u64) -> f64 {
    if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 }
}

/// Writes a right-aligned value; 0 is left blank.
pub(super) fn value(
    canvas: &mut Canvas<'_>,
    (x, y): (u16, u16),
    context: &PaneContext<'_>,
    (ns, change): (u64, Option<Change>),
) {
    if ns > 0 {
        let words = measure::signed(ns, context.session.unit(), change.is_some_and(|change| change.negative));
        let pad = VALUE_COLUMNS.saturating_sub(words.chars().count() as u16);
        let style = tone(canvas, context, (ns, change));
        canvas.put(x + pad, y, VALUE_COLUMNS, &words, style);
    }
}

/// The style of a weight: by its share, or by its change if it is a difference.
pub(super) fn tone(canvas: &Canvas<'_>, context: &PaneContext<'_>, (ns, change): (u64, Option<Change>)) -> Style {
    match change {
        Some(change) => canvas.theme.change(change),
        None => canvas.theme.heat(part(ns, context.window_base_ns())),
    }
}

/// Writes the titles of the value columns; returns their columns.
pub(super) fn heads(canvas: &mut Canvas<'_>, (x, y): (u16, u16), with_cum: bool) -> u16 {
    let style = canvas.style(Role::Column);
    let heads = if with_cum { &["flat", "cum"][..] } else { &["flat"] };
    for (at, head) in heads.iter().enumerate() {
        let right = x + VALUE_COLUMNS * (at as u16 + 1);
        canvas.put(right - head.len() as u16, y, VALUE_COLUMNS, head, style);
    }
    VALUE_COLUMNS * heads.len() as u16
}

/// Highlights the row under the cursor.
pub(super) fn cursor(canvas: &mut Canvas<'_>, row: Rect, active: bool) {
    if active {
        canvas.put(row.x, row.y, 1, "▸", canvas.style(Role::TitleActive));
    }
    canvas.tint(row, canvas.theme.selected(active));
}

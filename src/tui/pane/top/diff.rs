//! The numbers of a row in a diff: the shares before and now of the measure by which rows are
//! sorted, the difference between them in percentage points, and the times behind them.

use ratatui::style::Style;

use crate::tally::change::Change;
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::top::columns::Column;
use crate::tui::pane::top::state::JoinedRow;
use crate::tui::theme::Role;

/// A cell in words, and its style. `bases_ns` are the weights that shares refer to, before and now.
pub(super) fn cell(
    canvas: &Canvas<'_>,
    context: &PaneContext<'_>,
    column: Column,
    line: &JoinedRow<'_>,
    bases_ns: (u64, u64),
) -> (String, Style) {
    let changes = line.changes.unwrap_or_default();
    let (ns, before_ns, change): (u64, u64, Change) = match context.question.sort.is_by_cum() {
        true => (line.window.1, changes.before_ns.1, changes.cum),
        false => (line.window.0, changes.before_ns.0, changes.flat),
    };
    let now_ns = if change.negative { before_ns.saturating_sub(ns) } else { before_ns.saturating_add(ns) };
    let [dim, text] = [Role::Dim, Role::Text].map(|role| canvas.style(role));
    let style = if change.significant { text } else { dim };
    match (column, before_ns, now_ns) {
        (Column::Points, ..) => {
            let words = measure::points((before_ns, now_ns), bases_ns);
            let is_none = !words.starts_with(['+', '-']);
            // A share that shrinks while the time grows is in doubt.
            let is_clear = change.negative == words.starts_with('-');
            (words, if is_none || !is_clear { style } else { canvas.theme.change(change) })
        }
        (Column::Times, 0, 0) => ("0".to_owned(), dim),
        (Column::Times, ..) => {
            let [before, now] = [before_ns, now_ns].map(|ns| measure::shown(ns, context.session.unit()));
            (format!("{before} → {now}"), dim)
        }
        (Column::Before, 0, 1..) => ("new".to_owned(), style),
        (Column::Before, ..) => (measure::share(before_ns, bases_ns.0), style),
        (_, 1.., 0) => ("gone".to_owned(), style),
        _ => (measure::share(now_ns, bases_ns.1), style),
    }
}

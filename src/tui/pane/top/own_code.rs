//! Own code in the top pane: foreign names are dim and, where foreign code is folded, a row names
//! the library call that took the most time:
//!
//! ```text
//! ▼self+lib  flat%     self    library  function        heaviest library call
//!     1.47s 21.00%    0.02s      1.45s  main::encode    serde_json::to_string
//!     1.15s 16.43%    0.11s      1.04s  main::order     memcmp
//! ```

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::canvas::Canvas;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::row_names;
use crate::tui::text;
use crate::tui::theme::Role;

/// The title of the column of library calls.
pub(super) const HEAD: &str = "heaviest library call";
/// Minimum columns of a library call behind the name.
const MIN_COLUMNS: u16 = 8;
/// Maximum columns of the pattern of own code in the title.
const MAX_PATTERN_COLUMNS: usize = 20;
/// The sign between the name and the library call behind it.
const ARROW: &str = " → ";

/// Whether foreign code is folded in the answer, and numbers are no differences.
pub(super) fn is_folded(context: &PaneContext<'_>) -> bool {
    context.answer.is_some_and(|answer| answer.question.own.folds && answer.baseline_ns.is_none())
}

/// The remark in the title while foreign code is folded: `own code`, or the pattern of own code.
pub(super) fn remark(context: &PaneContext<'_>) -> Option<String> {
    let own = &context.answer?.question.own;
    let pattern = own.pattern.as_ref().map(|pattern| text::cut_right(pattern.text(), MAX_PATTERN_COLUMNS));
    own.folds.then(|| pattern.map_or_else(|| "own code".to_owned(), |pattern| format!("own={pattern}")))
}

/// The style of a function's name: the hue of its module, or dim if it is foreign.
pub(super) fn name_style(canvas: &Canvas<'_>, is_own: bool, module: &str) -> Style {
    if is_own { canvas.theme.module(module) } else { canvas.style(Role::Dim) }
}

/// Draws a library call: in a column of its own, or behind the name if there is room.
pub(super) fn draw_library_call(
    canvas: &mut Canvas<'_>,
    place: Rect,
    context: &PaneContext<'_>,
    call: &str,
    is_behind_name: bool,
) {
    if call.is_empty() {
        return;
    }
    let (mut x, mut room) = (place.x, place.width);
    let dim = canvas.style(Role::Dim);
    if is_behind_name {
        let arrow = ARROW.chars().count() as u16;
        if room < arrow + MIN_COLUMNS {
            return;
        }
        canvas.put(x, place.y, arrow, ARROW, dim);
        (x, room) = (x + arrow, room - arrow);
    }
    let name = row_names::fit_name(context, call, call, room.into());
    canvas.put(x, place.y, room, &name, dim);
}

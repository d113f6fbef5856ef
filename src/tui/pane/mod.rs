//! The panes: one folder each, with its state and its drawing. [`panes::Panes`] holds the states,
//! and [`draw`] selects the drawing.

mod bars;
pub mod callers;
pub mod card;
pub mod command;
pub mod context;
mod edited_line;
pub mod flame;
pub mod header;
pub mod help;
mod idle_row;
pub mod labels;
pub mod mode;
pub mod output;
pub mod panes;
pub mod picker;
pub mod prompt;
mod row_names;
pub mod save;
pub mod screen_state;
mod sentences;
pub mod source;
pub mod status;
pub mod threads;
pub mod timeline;
mod title;
pub mod top;
pub mod waiting;

use ratatui::layout::{Position, Rect};

use super::canvas::Canvas;
use super::layout::Pane;
use context::PaneContext;

/// Draws a pane. Returns the position of the cursor if the pane has it.
pub(super) fn draw(pane: Pane, canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) -> Option<Position> {
    match pane {
        Pane::Top => top::draw::draw(canvas, area, context),
        Pane::Callers if context.shows_card() => callers::card::draw(canvas, area, context),
        Pane::Callers => callers::draw::draw(canvas, area, context),
        Pane::Flame => flame::draw::draw(canvas, area, context),
        Pane::Source => source::draw::draw(canvas, area, context),
        Pane::Threads => threads::draw::draw(canvas, area, context),
        Pane::Output => return output::draw(canvas, area, context),
    }
    None
}

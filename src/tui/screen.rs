//! Draws the whole screen from the state, without changing it.
//!
//! ```text
//! header   two lines of facts
//! body     the panes, or a page of words over them
//! status   one line of words: prompt, question, ending, banner, or the selected function in full
//! footer   the keys that matter here
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;

use super::app::App;
use super::canvas::Canvas;
use super::layout::MIN_SIZE;
use super::pane;
use super::pane::mode::Mode;
use super::text;
use super::theme::Role;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let context = &app.context();
    let mut canvas = Canvas::new(frame.buffer_mut(), app.options.theme);
    let cursor = match context.layout().filter(|_| (area.width, area.height) == app.screen.size) {
        Some(layout) => {
            pane::header::draw(&mut canvas, layout.header, context);
            if let Mode::Help(page, scroll) = app.screen.mode {
                pane::help::draw::draw(&mut canvas, layout.body, context, page, scroll);
            }
            let mut cursor = None;
            for (shown, area) in layout.panes.iter().filter(|_| !matches!(app.screen.mode, Mode::Help(..))) {
                cursor = pane::draw(*shown, &mut canvas, *area, context).or(cursor);
            }
            if app.screen.card && !matches!(app.screen.mode, Mode::Help(..)) {
                pane::card::draw(&mut canvas, layout.body, context);
            }
            if let (Some(bar), false) = (layout.bar, matches!(app.screen.mode, Mode::Help(..))) {
                let style = canvas.style(Role::Rule);
                let below = layout.panes.iter().any(|(_, area)| area.y == bar.bottom());
                canvas.put(bar.x, bar.y, 1, "┬", style);
                for y in bar.y + 1..bar.bottom() {
                    canvas.put(bar.x, y, 1, "│", style);
                }
                if below {
                    canvas.join(bar.x, bar.bottom(), "┴");
                }
            }
            pane::status::draw_footer(&mut canvas, layout.footer, context);
            match &app.screen.mode {
                Mode::Prompt(prompt, _) => Some(pane::prompt::draw::draw(&mut canvas, layout.status, context, prompt)),
                Mode::Save(saving) => Some(pane::save::draw::draw(&mut canvas, layout.status, context, saving)),
                Mode::Command(colon) => Some(pane::command::draw(&mut canvas, layout.status, colon)),
                _ => {
                    pane::status::draw(&mut canvas, layout.status, context);
                    cursor.filter(|_| matches!(app.screen.mode, Mode::Typing))
                }
            }
        }
        None => {
            too_small(&mut canvas, area);
            None
        }
    };
    if let Some(cursor) = cursor.filter(|cursor| area.contains(*cursor)) {
        frame.set_cursor_position(cursor);
    }
}

/// Draws one line with the minimum size, in the longest variant that fits.
pub(super) fn too_small(canvas: &mut Canvas<'_>, area: Rect) {
    let needs = format!("{}×{}", MIN_SIZE.0, MIN_SIZE.1);
    let ways =
        [format!("sigtop needs {needs}, here is {}×{}", area.width, area.height), format!("needs {needs}"), needs];
    let fits = |way: &&String| text::columns(way, 99) <= area.width.into();
    let words = ways.iter().find(fits).unwrap_or(&ways[2]);
    let style = canvas.style(Role::Notable);
    canvas.put(area.x, area.y, area.width, words, style);
}

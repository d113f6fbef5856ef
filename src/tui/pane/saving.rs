//! What is to be saved, on the line over the footer. It says what the file will have in it, or what its name lacks.
//!
//! ```text
//!  save: server-2m14s.pb.gz█                    pprof's profile.proto, with all there is · all 2m14s · focus=parse
//!  save: server█                                    the ending says the format: .sigtop, .pb.gz, .folded or .txt
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::text::Span;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::filters;
use crate::tui::kinds;
use crate::tui::pane::header::window_words;
use crate::tui::pane::prompt;
use crate::tui::pane::timeline;
use crate::tui::saving::Saving;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws it; returns where the cursor is.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App, saving: &Saving) -> Position {
    let style = canvas.style(Role::Prompt);
    let start = area.x + 1 + canvas.put(area.x + 1, area.y, area.width, "save: ", style);
    let typed = text::columns(&saving.line().text(), area.width.into()) as u16;
    let left = area.right().saturating_sub(start + typed + 3);
    let (words, role) = remark(app, saving, left.into());
    let wide = text::columns(&words, left.into()) as u16;
    let style = canvas.style(role);
    canvas.spans(area.right().saturating_sub(wide + 1), area.y, wide, &[Span::styled(words, style)]);
    let room = area.right().saturating_sub(start + wide + 2).max(1);
    prompt::line(canvas, Position::new(start, area.y), room, saving.line(), None)
}

fn remark(app: &App, saving: &Saving, room: usize) -> (String, Role) {
    let fits = |ways: Vec<String>| {
        let found = ways.iter().find(|words| text::columns(words, room + 1) <= room);
        found.cloned().unwrap_or_else(|| text::cut_right(&ways[ways.len() - 1], room).into_owned())
    };
    let Some(kind) = saving.kind() else {
        let endings = kinds::endings();
        return (fits(vec![format!("the ending says the format: {endings}"), endings]), Role::Notable);
    };
    if kind.form.is_none() {
        return (fits(vec![kind.words.to_owned(), "everything".to_owned()]), Role::Dim);
    }
    let span = match (app.past(), app.window_ns) {
        _ if !saving.is_shown => "all".to_owned(),
        (Some(past), _) => format!("the span of {}", timeline::length(past.ticks)),
        (None, Some(ns)) => format!("the last {}", window_words(Some(ns))),
        (None, None) => "all".to_owned(),
    };
    let chips: String = filters::chips(app.filters.now()).map(|chip| format!(" · {chip}")).collect();
    let words = kind.words;
    (fits(vec![format!("{words} · {span}{chips}"), format!("{span}{chips}"), span]), Role::Dim)
}

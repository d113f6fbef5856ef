//! The line of commands, on the line over the footer. It says what its word does, where Tab leads, or what is wrong.
//!
//! ```text
//!  :top10 -cum█        top10 -cum REGEX -REGEX · Top alone, so many rows; -cum sorts; REGEX is focus, -REGEX ignore
//!  :clock=rael█                                                                                    did you mean real?
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::text::Span;

use crate::tui::canvas::Canvas;
use crate::tui::colon::{self, Colon};
use crate::tui::pane::prompt;
use crate::tui::segments;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws it; returns where the cursor is.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, colon: &Colon) -> Position {
    let style = canvas.style(Role::Prompt);
    let start = area.x + 1 + canvas.put(area.x + 1, area.y, area.width, ":", style);
    let typed = text::columns(&colon.line().text(), area.width.into()) as u16;
    // What is wrong may take half of the line; what only helps takes what is left.
    let left = area.right().saturating_sub(start + typed + 3);
    let room = if colon.fault().is_some() { left.max(area.width / 2) } else { left };
    let remarks = remarks(canvas, colon, room.into());
    let wide = (segments::width(&remarks) as u16).min(room);
    canvas.spans(area.right().saturating_sub(wide + 1), area.y, wide, &remarks);
    let room = area.right().saturating_sub(start + wide + 2).max(1);
    let at = Position::new(start, area.y);
    prompt::line(canvas, at, room, colon.line(), colon.fault().map(|fault| fault.at))
}

fn remarks(canvas: &Canvas<'_>, colon: &Colon, room: usize) -> Vec<Span<'static>> {
    let dim = canvas.style(Role::Dim);
    if let Some(fault) = colon.fault() {
        return vec![Span::styled(text::cut_right(&fault.words, room).into_owned(), canvas.style(Role::Bad))];
    }
    let line = colon.line().text();
    if !colon.offers().is_empty() {
        let others = colon.offers().iter().filter(|offer| **offer != line);
        let words: Vec<&str> = others.map(|offer| offer.trim_end()).collect();
        return vec![Span::styled(text::cut_right(&words.join("  "), room).into_owned(), dim)];
    }
    match colon::hint(&line) {
        Some(word) if text::columns(word.words, room + 1) <= room => {
            let form = format!("{} · ", word.form);
            let spans = vec![Span::styled(form, canvas.style(Role::Key)), Span::styled(word.words, dim)];
            if segments::width(&spans) <= room { spans } else { vec![Span::styled(word.words, dim)] }
        }
        Some(_) => Vec::new(),
        None if line.is_empty() => {
            let help = "pprof's words: top10 -cum  peek REGEX  focus=REGEX  hz=250  help · empty: no filters";
            let short = "Tab lists the words";
            let fits = [help, short].into_iter().find(|words| text::columns(words, room + 1) <= room);
            fits.map(|words| Span::styled(words, dim)).into_iter().collect()
        }
        None => Vec::new(),
    }
}

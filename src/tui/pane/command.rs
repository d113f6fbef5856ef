//! Draws the command line, on the line over the footer, with a hint at its right: the effect of the
//! command, the completion of Tab, or the error.
//!
//! ```text
//!  :list parse█                              list REGEX · source of the first matching function
//!  :clock=wlal█                                                                did you mean wall?
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::text::Span;

use crate::tui::canvas::Canvas;
use crate::tui::command::command_line::CommandLine;
use crate::tui::command::complete::find_hint;
use crate::tui::fit_line;
use crate::tui::pane::edited_line;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws the command line; returns the position of the cursor.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, colon: &CommandLine) -> Position {
    let style = canvas.style(Role::Prompt);
    let start = area.x + 1 + canvas.put(area.x + 1, area.y, area.width, ":", style);
    let typed = text::columns(&colon.line().text(), area.width.into()) as u16;
    // An error may take up to half of the line; a hint takes only the columns that are left.
    let left = area.right().saturating_sub(start + typed + 3);
    let room = if colon.fault().is_some() { left.max(area.width / 2) } else { left };
    let remarks = remarks(canvas, colon, room.into());
    let wide = (fit_line::width(&remarks) as u16).min(room);
    canvas.spans(area.right().saturating_sub(wide + 1), area.y, wide, &remarks);
    let room = area.right().saturating_sub(start + wide + 2).max(1);
    let at = Position::new(start, area.y);
    edited_line::draw_line_editor(canvas, at, room, colon.line(), colon.fault().map(|fault| fault.at))
}

fn remarks(canvas: &Canvas<'_>, colon: &CommandLine, room: usize) -> Vec<Span<'static>> {
    let dim = canvas.style(Role::Dim);
    if let Some(fault) = colon.fault() {
        return vec![Span::styled(text::cut_right(&fault.words, room).into_owned(), canvas.style(Role::Bad))];
    }
    let line = colon.line().text();
    if !colon.completions().is_empty() {
        let others = colon.completions().iter().filter(|offer| **offer != line);
        let words: Vec<&str> = others.map(|offer| offer.trim_end()).collect();
        return vec![Span::styled(text::cut_right(&words.join("  "), room).into_owned(), dim)];
    }
    match find_hint(&line) {
        Some(command) => {
            let usage = Span::styled(format!("{} · ", command.usage), canvas.style(Role::Key));
            let help = Span::styled(command.help(), dim);
            let both = vec![usage, help.clone()];
            let fits = |spans: &Vec<Span<'_>>| fit_line::width(spans) <= room;
            [both, vec![help]].into_iter().find(fits).unwrap_or_default()
        }
        None if line.is_empty() => {
            let help = "pprof's commands: top10 -cum  peek REGEX  focus=REGEX  hz=250  help · empty: clear filters";
            let short = "Tab lists commands";
            let fits = [help, short].into_iter().find(|words| text::columns(words, room + 1) <= room);
            fits.map(|words| Span::styled(words, dim)).into_iter().collect()
        }
        None => Vec::new(),
    }
}

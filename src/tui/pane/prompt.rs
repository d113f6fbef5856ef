//! A prompt, on the line over the footer. It previews: the panes show what the pattern leaves.
//!
//! ```text
//!  focus: parse_va█                                                             1 210 of 1 851 samples
//!  ignore: mal(█                                                    unclosed group · 1 851 of 1 851 samples
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::Span;

use crate::tally::measure;
use crate::tally::query::Pattern;
use crate::tui::action::Subject;
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::layout::Pane;
use crate::tui::line::Line;
use crate::tui::neighbours;
use crate::tui::prompt::Prompt;
use crate::tui::segments;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws it; returns where the cursor is.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App, prompt: &Prompt) -> Position {
    let remarks = remarks(canvas, app, prompt);
    let wide = (segments::width(&remarks) as u16).min(area.width / 2);
    let label = format!("{}: ", prompt.subject.word());
    let style = canvas.style(Role::Prompt);
    let start = area.x + 1 + canvas.put(area.x + 1, area.y, area.width, &label, style);
    canvas.spans(area.right().saturating_sub(wide + 1), area.y, wide, &remarks);

    let room = area.right().saturating_sub(start + wide + 3).max(1);
    line(canvas, Position::new(start, area.y), room, prompt.line(), prompt.fault().map(|fault| fault.at))
}

/// Draws a line being typed; returns where the cursor is, which stays in view.
pub(super) fn line(canvas: &mut Canvas<'_>, at: Position, room: u16, line: &Line, fault: Option<usize>) -> Position {
    // What lies too far to the left of the cursor is scrolled out.
    let characters = line.characters();
    let mut first = 0;
    let mut before: usize = characters[..line.cursor()].iter().map(|c| text::width(*c)).sum();
    while before >= room.into() && first < line.cursor() {
        before -= text::width(characters[first]);
        first += 1;
    }
    let (plain, wrong) = (canvas.style(Role::Text), canvas.style(Role::Bad).add_modifier(Modifier::UNDERLINED));
    let mut x = at.x;
    let end = at.x + room;
    for (index, c) in characters.iter().enumerate().skip(first) {
        let style = if fault == Some(index) { wrong } else { plain };
        let used = canvas.put(x, at.y, end.saturating_sub(x), c.encode_utf8(&mut [0; 4]), style);
        if used == 0 {
            break;
        }
        x += used;
    }
    Position::new(at.x + before as u16, at.y)
}

/// How much a search finds in the pane that has the keys.
fn found(app: &App, pattern: &Pattern) -> (String, Role) {
    let answer = app.answer.as_deref();
    let callers = answer.and_then(|answer| answer.callers.as_ref());
    let rows = match app.pane {
        Pane::Source => {
            let listing = answer.and_then(|answer| answer.listing.as_ref());
            let lines = listing.map_or(0, |listing| app.listing.count(pattern, listing));
            return match lines {
                0 => ("no line".to_owned(), Role::Notable),
                1 => ("1 line".to_owned(), Role::Text),
                lines => (format!("{} lines", measure::count(lines as u64)), Role::Text),
            };
        }
        Pane::Flame => {
            let Some(flame) = answer.and_then(|answer| answer.flame.as_ref()) else {
                return ("no box".to_owned(), Role::Notable);
            };
            let (boxes, weight_ns) = app.flame.count(pattern, app.names, flame);
            let share = measure::percentage(weight_ns, app.window_base_ns());
            return match boxes {
                0 => ("no box".to_owned(), Role::Notable),
                1 => (format!("1 box, {}", share.trim_start()), Role::Text),
                boxes => (format!("{} boxes, {}", measure::count(boxes as u64), share.trim_start()), Role::Text),
            };
        }
        Pane::Callers => callers.map_or(0, |callers| neighbours::count(pattern, app.names, callers)),
        Pane::Threads => app.roster.count(pattern),
        Pane::Top | Pane::Output => app.list.count(pattern, app.names),
    };
    match rows {
        0 => ("no row".to_owned(), Role::Notable),
        1 => ("1 row".to_owned(), Role::Text),
        rows => (format!("{} rows", measure::count(rows as u64)), Role::Text),
    }
}

fn remarks(canvas: &Canvas<'_>, app: &App, prompt: &Prompt) -> Vec<Span<'static>> {
    let dim = canvas.style(Role::Dim);
    let mut remarks: Vec<Span<'static>> = Vec::new();
    if let Some(fault) = prompt.fault() {
        let words = text::cut_right(&fault.words, 40).into_owned();
        remarks.push(Span::styled(words, canvas.style(Role::Bad)));
        remarks.push(Span::styled(" · ", dim));
    }
    let (left, role) = match (prompt.subject, prompt.pattern()) {
        (Subject::Find, None) => return remarks,
        (Subject::Find, Some(pattern)) => found(app, pattern),
        _ => match app.answer.as_ref().filter(|answer| answer.question == app.question()) {
            // The numbers at hand are still those of another question.
            None => ("… samples".to_owned(), Role::Dim),
            Some(answer) => {
                let (kept, all) = (answer.window.kept_samples, answer.window.samples);
                let words = format!("{} of {} samples", measure::count(kept), measure::count(all));
                (words, if kept == 0 { Role::Notable } else { Role::Text })
            }
        },
    };
    remarks.push(Span::styled(left, canvas.style(role)));
    remarks
}

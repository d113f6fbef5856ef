//! Draws a prompt for a pattern on the status line. The panes preview the result of the pattern.
//!
//! ```text
//!  focus: parse_va█                                                      1 210 of 1 851 samples
//!  ignore: mal(█                                        unclosed group · 1 851 of 1 851 samples
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::text::Span;

use crate::tally::measure;
use crate::tally::query::Pattern;
use crate::tui::action::Subject;
use crate::tui::canvas::Canvas;
use crate::tui::fit_line;
use crate::tui::layout::Pane;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::edited_line;
use crate::tui::pane::prompt::state::Prompt;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws the prompt; returns the position of the cursor.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, prompt: &Prompt) -> Position {
    let remarks = remarks(canvas, context, prompt);
    let wide = (fit_line::width(&remarks) as u16).min(area.width / 2);
    let label = format!("{}: ", prompt.subject.word());
    let style = canvas.style(Role::Prompt);
    let start = area.x + 1 + canvas.put(area.x + 1, area.y, area.width, &label, style);
    canvas.spans(area.right().saturating_sub(wide + 1), area.y, wide, &remarks);

    let room = area.right().saturating_sub(start + wide + 3).max(1);
    edited_line::draw_line_editor(
        canvas,
        Position::new(start, area.y),
        room,
        prompt.line(),
        prompt.fault().map(|fault| fault.at),
    )
}

/// Formats the number of matches of a search in the active pane.
fn found(context: &PaneContext<'_>, pattern: &Pattern) -> (String, Role) {
    let answer = context.answer;
    let callers = answer.and_then(|answer| answer.callers.as_ref());
    let rows = match context.screen.pane {
        Pane::Source => {
            let listing = answer.and_then(|answer| answer.listing.as_ref());
            let lines = listing.map_or(0, |listing| context.panes.source.count(pattern, listing));
            return match lines {
                0 => ("no lines".to_owned(), Role::Notable),
                1 => ("1 line".to_owned(), Role::Text),
                lines => (format!("{} lines", measure::count(lines as u64)), Role::Text),
            };
        }
        Pane::Flame => {
            let Some(flame) = answer.and_then(|answer| answer.flame.as_ref()) else {
                return ("no boxes".to_owned(), Role::Notable);
            };
            let (boxes, weight_ns) = context.panes.flame.count(pattern, context.screen.names, flame);
            let share = measure::percentage(weight_ns, context.window_base_ns());
            return match boxes {
                0 => ("no boxes".to_owned(), Role::Notable),
                1 => (format!("1 box, {}", share.trim_start()), Role::Text),
                boxes => (format!("{} boxes, {}", measure::count(boxes as u64), share.trim_start()), Role::Text),
            };
        }
        Pane::Callers => {
            callers.map_or(0, |callers| context.panes.callers.count(pattern, context.screen.names, callers))
        }
        Pane::Threads => context.panes.threads.count(pattern),
        _ => context.panes.top.count(pattern, context.screen.names),
    };
    match rows {
        0 => ("no rows".to_owned(), Role::Notable),
        1 => ("1 row".to_owned(), Role::Text),
        rows => (format!("{} rows", measure::count(rows as u64)), Role::Text),
    }
}

fn remarks(canvas: &Canvas<'_>, context: &PaneContext<'_>, prompt: &Prompt) -> Vec<Span<'static>> {
    let dim = canvas.style(Role::Dim);
    let mut remarks: Vec<Span<'static>> = Vec::new();
    if let Some(fault) = prompt.fault() {
        let words = text::cut_right(&fault.words, 40).into_owned();
        remarks.push(Span::styled(words, canvas.style(Role::Bad)));
        remarks.push(Span::styled(" · ", dim));
    }
    let (left, role) = match (prompt.subject, prompt.pattern()) {
        (Subject::Find, None) => return remarks,
        (Subject::Find, Some(pattern)) => found(context, pattern),
        _ => match context.answer.filter(|_| context.is_current()) {
            // The answer still belongs to a previous question.
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

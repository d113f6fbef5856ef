//! The panes: one file each, one `draw` each, its layout drawn over it. They read the state and write to the canvas.

mod assembly;
pub mod callers;
pub mod colon;
pub mod flame;
pub mod header;
pub mod help;
pub mod output;
pub mod picker;
pub mod prompt;
pub mod saving;
pub mod source;
pub mod status;
pub mod threads;
pub mod timeline;
pub mod top;

use std::borrow::Cow;

use ratatui::layout::Rect;
use ratatui::text::Span;

use super::app::App;
use super::canvas::Canvas;
use super::layout::Pane;
use super::segments;
use super::text;
use super::theme::Role;
use crate::tally::query::without_owner;

/// Draws the rule over a pane: `─ 1 Top ────────────── by flat ─`; returns the columns of it that are taken on the left.
fn title(canvas: &mut Canvas<'_>, area: Rect, pane: Option<Pane>, name: &str, active: bool, right: &[Span<'_>]) -> u16 {
    canvas.rule(area.x, area.y, area.width);
    let role = if active { Role::TitleActive } else { Role::Title };
    let name = match pane {
        Some(pane) => format!(" {} {name} ", pane.number()),
        None => format!(" {name} "),
    };
    let style = canvas.style(role);
    let left = 1 + canvas.put(area.x + 1, area.y, area.width.saturating_sub(2), &name, style);
    let wide = segments::width(right) as u16;
    let room = area.width.saturating_sub(left + 2);
    if wide > 0 && wide + 2 <= room {
        let x = area.right() - wide - 3;
        canvas.put(x, area.y, 1, " ", style);
        canvas.spans(x + 1, area.y, wide, right);
        canvas.put(x + 1 + wide, area.y, 1, " ", style);
    }
    left
}

/// The name of a row, with the thread or process that it is of, where rows are one's alone: `parse [worker-0 41280]`.
fn owned<'a>(app: &App, name: &'a str, full: &str) -> Cow<'a, str> {
    let has_owners = app.answer.as_ref().is_some_and(|answer| answer.question.group.owner().is_some());
    match full.get(without_owner(full).len()..) {
        Some(owner) if has_owners && !name.ends_with(owner) => format!("{name}{owner}").into(),
        _ => name.into(),
    }
}

/// Columns that a pane's name and the rules around it take of a title.
const TITLE_COLUMNS: u16 = 20;

/// Words for the right of a title, as many as fit: those that matter least (lowest number) are left out first.
fn remarks(canvas: &Canvas<'_>, mut words: Vec<(u8, String, Role)>, width: u16) -> Vec<Span<'static>> {
    let room = usize::from(width.saturating_sub(TITLE_COLUMNS));
    loop {
        let wide: usize = words.iter().map(|(_, words, _)| text::columns(words, 999) + 3).sum();
        let least = words.iter().enumerate().min_by_key(|(_, (rank, ..))| *rank).map(|(index, _)| index);
        match least {
            Some(index) if wide > room + 3 => drop(words.remove(index)),
            _ => break,
        }
    }
    let dot = Span::styled(" · ", canvas.style(Role::Title));
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (_, words, role) in words {
        if !spans.is_empty() {
            spans.push(dot.clone());
        }
        spans.push(Span::styled(words, canvas.style(role)));
    }
    spans
}

/// Writes sentences in the middle of an area, from its upper third on.
fn sentences(canvas: &mut Canvas<'_>, area: Rect, sentences: &[(String, Role)]) {
    let room = area.width.saturating_sub(4).into();
    let lines =
        sentences.iter().flat_map(|(words, role)| text::wrap(words, room).into_iter().map(move |line| (line, *role)));
    for (row, (words, role)) in (area.height / 3..).zip(lines) {
        centred(canvas, area, row, &words, role);
    }
}

/// Writes text in the middle of a row of `area`.
fn centred(canvas: &mut Canvas<'_>, area: Rect, row: u16, words: &str, role: Role) {
    if row >= area.height {
        return;
    }
    let words = text::cut_right(words, area.width.saturating_sub(2).into());
    let wide = text::columns(&words, area.width.into()) as u16;
    let style = canvas.style(role);
    canvas.put(area.x + (area.width - wide.min(area.width)) / 2, area.y + row, area.width, &words, style);
}

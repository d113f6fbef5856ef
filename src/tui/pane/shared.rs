//! Drawing that panes share: titles, remarks in titles, sentences, and the line editor.

use std::borrow::Cow;

use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::Span;

use crate::tally::measure;
use crate::tally::query::without_owner;
use crate::tui::canvas::Canvas;
use crate::tui::fit_line;
use crate::tui::fit_names::{self, NameToFit};
use crate::tui::layout::Pane;
use crate::tui::line_editor::LineEditor;
use crate::tui::pane::context::PaneContext;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws the title of a pane: `─ 1 Top ────────────── by flat ─`; returns the columns used at the
/// left.
pub(super) fn draw_title(
    canvas: &mut Canvas<'_>,
    area: Rect,
    pane: Option<Pane>,
    name: &str,
    active: bool,
    right: &[Span<'_>],
) -> u16 {
    canvas.rule(area.x, area.y, area.width);
    let role = if active { Role::TitleActive } else { Role::Title };
    let name = match pane {
        Some(pane) => format!(" {} {name} ", pane.number()),
        None => format!(" {name} "),
    };
    let style = canvas.style(role);
    let left = 1 + canvas.put(area.x + 1, area.y, area.width.saturating_sub(2), &name, style);
    let wide = fit_line::width(right) as u16;
    let room = area.width.saturating_sub(left + 2);
    if wide > 0 && wide + 2 <= room {
        let x = area.right() - wide - 3;
        canvas.put(x, area.y, 1, " ", style);
        canvas.spans(x + 1, area.y, wide, right);
        canvas.put(x + 1 + wide, area.y, 1, " ", style);
    }
    left
}

/// The name of a row, with its thread or process if rows are grouped by thread or process:
/// `parse [worker-0 41280]`.
pub(super) fn name_with_owner<'a>(context: &PaneContext<'_>, name: &'a str, full: &str) -> Cow<'a, str> {
    let has_owners = context.answer.is_some_and(|answer| answer.question.group.owner().is_some());
    match full.get(without_owner(full).len()..) {
        Some(owner) if has_owners && !name.ends_with(owner) => format!("{name}{owner}").into(),
        _ => name.into(),
    }
}

/// Draws the number and the time of the idle threads into the last row of a pane, if there are any.
pub(super) fn draw_idle_row(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let Some((threads, ns)) = context.idle() else { return };
    let (y, room) = (area.bottom() - 1, area.width.saturating_sub(3));
    let plural = if threads == 1 { "" } else { "s" };
    let words = format!("idle: {} thread{plural}", measure::count(threads as u64));
    let [notable, dim] = [Role::Notable, Role::Dim].map(|role| canvas.style(role));
    let used = canvas.put(area.x + 2, y, room, &words, notable);
    let rest = format!("  {} not counted above · Z shows them", measure::value(ns, context.unit));
    let rest = if text::columns(&rest, 99) > (room - used).into() { "  Z shows them" } else { &rest };
    canvas.put(area.x + 2 + used, y, room - used, rest, dim);
}

/// Fits the names of visible rows in the style of the screen, or scrolls them.
pub(super) fn fit_names(context: &PaneContext<'_>, names: &[NameToFit<'_>]) -> Vec<String> {
    if context.top.pan() == 0 {
        return fit_names::fit_names(names, context.names);
    }
    names.iter().map(|name| fit_name(context, name.full, name.short, name.room).into_owned()).collect()
}

/// Fits one name in the style of the screen, or scrolls it.
pub(super) fn fit_name<'a>(context: &PaneContext<'_>, full: &'a str, short: &'a str, room: usize) -> Cow<'a, str> {
    match context.top.pan() {
        0 => fit_names::fit_name(&NameToFit { full, short, room }, context.names),
        pan => text::scroll(context.names.pick(full, short), room, pan.into()).into(),
    }
}

/// Columns of a title that the pane's name and the rules around it take.
pub(super) const TITLE_COLUMNS: u16 = 20;

/// Fits remarks at the right of a title. Those with the lowest rank are omitted first.
pub(super) fn fit_remarks(canvas: &Canvas<'_>, mut words: Vec<(u8, String, Role)>, width: u16) -> Vec<Span<'static>> {
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

/// Writes centered sentences into an area, starting at its upper third.
pub(super) fn draw_sentences(canvas: &mut Canvas<'_>, area: Rect, sentences: &[(String, Role)]) {
    let room = area.width.saturating_sub(4).into();
    let lines =
        sentences.iter().flat_map(|(words, role)| text::wrap(words, room).into_iter().map(move |line| (line, *role)));
    for (row, (words, role)) in (area.height / 3..).zip(lines) {
        draw_centered(canvas, area, row, &words, role);
    }
}

/// Writes centered text into a row of `area`.
pub(super) fn draw_centered(canvas: &mut Canvas<'_>, area: Rect, row: u16, words: &str, role: Role) {
    if row >= area.height {
        return;
    }
    let words = text::cut_right(words, area.width.saturating_sub(2).into());
    let wide = text::columns(&words, area.width.into()) as u16;
    let style = canvas.style(role);
    canvas.put(area.x + (area.width - wide.min(area.width)) / 2, area.y + row, area.width, &words, style);
}

/// Draws a line editor, scrolled so that the cursor is visible; returns the position of the cursor.
pub(super) fn draw_line_editor(
    canvas: &mut Canvas<'_>,
    at: Position,
    room: u16,
    line: &LineEditor,
    fault: Option<usize>,
) -> Position {
    // Text too far to the left of the cursor is scrolled out.
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

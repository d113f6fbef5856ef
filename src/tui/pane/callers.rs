//! Callers and callees of the selected function, each with its part of the function's cum: pprof's `-peek`.
//!
//! ```text
//! ─ 2 Callers ─────────────────────────────────
//!      1.10s 12.07%  handle_request
//!      4.90s 53.80%  json::Parser::parse_array
//! ── 2 callers ────────────────────────────────
//!  json::Parser::parse_value            server
//!  flat 6.22s 33.30%   cum 9.11s 48.70%
//! ── 2 callees ────────────────────────────────
//!      1.80s 19.80%  core::str::from_utf8
//!      1.09s 12.00%  alloc::raw_vec::grow
//! ```
//!
//! The centre has its place whatever comes and goes around it. With little room the rules go first, then its numbers.

use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::tally::callers::{Callers, Edge};
use crate::tally::diff::Change;
use crate::tally::measure;
use crate::tui::action::Subject;
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::filters;
use crate::tui::layout::Pane;
use crate::tui::neighbours;
use crate::tui::segments::{self, Segment};
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns of a value and of a percentage, with what parts them.
const VALUE_COLUMNS: u16 = 8;
const PERCENT_COLUMNS: u16 = 7;
/// Columns before the first number.
const MARGIN: u16 = 2;

/// The rows of the pane that are for callers, for the centre and for callees, from the first below the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Rows for callers.
    pub above: u16,
    /// Rows of the centre, with its rules.
    pub centre: u16,
    /// Rows for callees.
    pub below: u16,
}

/// Shares out the rows of an area.
pub fn rows(area: Rect) -> Rows {
    let all = area.height.saturating_sub(1);
    let centre = match all {
        0..5 => 1,
        5..9 => 2,
        _ => 4,
    };
    let rest = all.saturating_sub(centre);
    let above = if rest < 4 { rest / 2 } else { rest * 2 / 5 };
    Rows { above, centre: centre.min(all), below: rest - above }
}

/// The row of the pane's cursor at a row of the screen: callers are below 0, callees above, the centre 0.
pub fn row_at(area: Rect, row: u16, (above, below): (usize, usize)) -> Option<isize> {
    let rows = rows(area);
    let row = row.checked_sub(area.y + 1)?;
    Some(match row.checked_sub(rows.above) {
        None => -((rows.above - row) as isize + above as isize),
        Some(inside) if inside < rows.centre => 0,
        Some(inside) => (inside - rows.centre + 1) as isize + below as isize,
    })
}

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let active = app.pane == Pane::Callers && matches!(app.mode, Mode::Panes);
    super::title(canvas, area, Some(Pane::Callers), Pane::Callers.name(), active, &[]);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let Some(callers) = app.answer.as_ref().and_then(|answer| answer.callers.as_ref()) else {
        return;
    };
    if callers.short.is_empty() {
        return super::sentences(canvas, body, &absent(app, &callers.full));
    }
    let rows = rows(area);
    centre(canvas, Rect { y: body.y + rows.above, height: rows.centre, ..body }, app, callers);
    let (above, below) = app.neighbours.scrolled();
    for index in 0..usize::from(rows.above) {
        let y = body.y + rows.above - 1 - index as u16;
        row(canvas, Rect { y, height: 1, ..body }, app, callers, -((index + above + 1) as isize), active);
    }
    for index in 0..usize::from(rows.below) {
        let y = body.y + rows.above + rows.centre + index as u16;
        row(canvas, Rect { y, height: 1, ..body }, app, callers, (index + below + 1) as isize, active);
    }
    let sides = [
        (callers.callers.is_empty() && rows.above > 0, body.y + rows.above.saturating_sub(1), "its stacks begin here"),
        (
            callers.callees.is_empty() && rows.below > 0,
            body.y + rows.above + rows.centre,
            "it calls nothing that was seen",
        ),
    ];
    for (empty, y, words) in sides {
        if empty {
            let dim = canvas.style(Role::Dim);
            canvas.put(body.x + MARGIN, y, body.width.saturating_sub(MARGIN), words, dim);
        }
    }
}

fn centre(canvas: &mut Canvas<'_>, area: Rect, app: &App, callers: &Callers) {
    let [strong, dim] = [Role::Strong, Role::Dim].map(|role| canvas.style(role));
    let mut y = area.y;
    if area.height >= 4 {
        rule(canvas, Rect { y, ..area }, callers.callers.len(), "caller");
        y += 1;
        rule(canvas, Rect { y: area.bottom() - 1, ..area }, callers.callees.len(), "callee");
    }
    let room = usize::from(area.width.saturating_sub(2));
    let name = &*super::owned(app, app.names.pick(&callers.full, &callers.short), &callers.full);
    // The module stands beside it only where the name has its room.
    let beside =
        *callers.module != *name && text::columns(name, room) + 2 + text::columns(&callers.module, room) <= room;
    let module = if beside { callers.module.as_str() } else { "" };
    let name_room = room.saturating_sub(text::columns(module, room));
    let hue = strong.patch(canvas.theme.module(&callers.module));
    let cut = text::cut_left(name, name_room, app.list.pan().into());
    canvas.put(area.x + 1, y, area.width.saturating_sub(1), &cut, hue);
    let wide = text::columns(module, room) as u16;
    canvas.put(area.right().saturating_sub(wide + 1), y, wide, module, dim);
    if area.height < 2 {
        return;
    }
    let base_ns = app.window_base_ns();
    let number = |label: &str, ns: u64, change: Option<Change>| {
        let part = if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
        let heat = change.map_or_else(|| canvas.theme.heat(part), |change| canvas.theme.change(change));
        let negative = change.is_some_and(|change| change.negative);
        let value = Span::styled(measure::signed(ns, app.unit, negative), heat);
        let share = Span::styled(format!(" {}", measure::percentage(ns, base_ns).trim_start()), heat);
        let label = Span::styled(format!("{label} "), dim);
        Segment::new(1).or(vec![label.clone(), value.clone(), share.clone()]).or(vec![label, value]).or_nothing()
    };
    let (flat, cum) = (callers.changes.map(|changes| changes.flat), callers.changes.map(|changes| changes.cum));
    let line = segments::fit(&[number("flat", callers.flat_ns, flat), number("cum", callers.cum_ns, cum)], room);
    canvas.spans(area.x + 1, y + 1, room as u16, &line);
}

/// A rule that says how many there are.
fn rule(canvas: &mut Canvas<'_>, place: Rect, count: usize, what: &str) {
    let words = match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        count => format!("{} {what}s", measure::count(count as u64)),
    };
    canvas.rule(place.x, place.y, place.width);
    let dim = canvas.style(Role::Column);
    let wide = place.width.saturating_sub(3);
    canvas.put(place.x + 2, place.y, wide, &format!(" {words} "), dim);
}

fn row(canvas: &mut Canvas<'_>, place: Rect, app: &App, callers: &Callers, row: isize, active: bool) {
    let Some(edge) = neighbours::edge(callers, row) else { return };
    let part = if callers.whole_ns == 0 { 0.0 } else { edge.weight_ns as f64 / callers.whole_ns as f64 };
    let heat = edge.change.map_or_else(|| canvas.theme.heat(part), |change| canvas.theme.change(change));
    let negative = edge.change.is_some_and(|change| change.negative);
    let mut x = place.x + MARGIN - 1;
    let mut used = MARGIN - 1;
    for (words, wide) in [
        (measure::signed(edge.weight_ns, app.unit, negative), VALUE_COLUMNS),
        (measure::percentage(edge.weight_ns, callers.whole_ns), PERCENT_COLUMNS),
    ] {
        let pad = wide.saturating_sub(words.chars().count() as u16);
        canvas.put(x + pad, place.y, place.width.saturating_sub(used + pad), &words, heat);
        (x, used) = (x + wide, used + wide);
    }
    name(canvas, Rect { x: x + 2, width: place.width.saturating_sub(used + 2), ..place }, app, edge);
    if row == app.neighbours.row() && active {
        canvas.put(place.x, place.y, 1, "▸", canvas.style(Role::TitleActive));
        canvas.tint(place, canvas.theme.selected(true));
    }
}

fn name(canvas: &mut Canvas<'_>, place: Rect, app: &App, edge: &Edge) {
    let mark = if edge.inlined && place.width > 30 { " (inline)" } else { "" };
    let full = app.names.pick(&edge.full, &edge.short);
    let room = usize::from(place.width).saturating_sub(mark.len());
    let matched = match &app.mode {
        Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => {
            prompt.pattern().is_some_and(|pattern| pattern.matches(full))
        }
        Mode::Prompt(prompt, _) => prompt.pattern().is_some_and(|pattern| pattern.matches(&edge.full)),
        _ => app.found.as_ref().is_some_and(|pattern| pattern.matches(full)),
    };
    let hue = canvas.theme.module(&edge.module);
    let style = if matched { hue.patch(canvas.style(Role::Match)) } else { hue };
    let cut = text::cut_left(full, room, app.list.pan().into());
    let used = canvas.put(place.x, place.y, place.width, &cut, style);
    let dim = canvas.style(Role::Dim);
    canvas.put(place.x + used, place.y, place.width.saturating_sub(used), mark, dim);
}

/// Why the centre has no numbers: a filter, by its name, or the window.
pub(super) fn absent(app: &App, full: &str) -> Vec<(String, Role)> {
    let known = app.list.selected_names().filter(|_| app.list.selected_name() == Some(full));
    let name = known.map_or(full, |(short, _)| app.names.pick(full, short));
    let name = text::cut_left(name, 60, 0).into_owned();
    let mut lines = vec![(name, Role::Strong)];
    let Some(answer) = &app.answer else { return lines };
    let filters = &answer.question.filters;
    let words = match filters::culprit(filters, full, known.map(|(_, module)| module)) {
        Some(filters::Culprit::Certain(word, pattern)) => format!("is taken out by {word}={pattern}"),
        Some(filters::Culprit::Among(chips)) => format!("is in no sample that {chips} leaves"),
        None => {
            let window = super::header::window_words(answer.facts.window_ns);
            match answer.facts.window_ns {
                Some(_) => format!("is in no sample of the last {window}"),
                None => "is in no sample".to_owned(),
            }
        }
    };
    let filtered = *filters != crate::tally::query::Filters::default();
    lines.push((words, if filtered { Role::Notable } else { Role::Text }));
    if filtered {
        lines.push(("u takes the last filter back, U all of them".to_owned(), Role::Dim));
    }
    lines
}

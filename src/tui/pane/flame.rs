//! The flame: all stacks of the window as boxes, as wide as their time; below (or above) each box, what it calls.
//!
//! ```text
//! ─ 3 Flame ──────────────────────────────────────────────────────── 2 levels more · by module ─
//! ▏all 18.7s
//! ▏main::worker_loop 92.00%                                             ▏gc::sweep 6.00%
//! ▏handle_request 81.00%                              ▏log::flush 9.00%  ▏mark 4.00%
//! ▏json::Parser::parse_object 49.00%   ▏…::render::page  ▏write
//! ```
//!
//! The line over the footer names the box under the cursor in full.

use std::borrow::Cow;

use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::tally::diff::Difference;
use crate::tally::flame::{Flame, FlameBox};
use crate::tally::measure;
use crate::tally::query::{Pattern, Roots};
use crate::tui::action::Subject;
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::fill::{Light, Surface};
use crate::tui::flame::{self, Colour};
use crate::tui::layout::Pane;
use crate::tui::text;
use crate::tui::theme::{Depth, Role};
use crate::tui::tiling::Tile;

/// Columns for a name that cannot be had in whole, at least: fewer are stray letters.
const LEAST_CUT: usize = 8;

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let active = app.pane == Pane::Flame && matches!(app.mode, Mode::Panes);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let shown = app.answer.as_ref().and_then(|answer| answer.flame.as_deref());
    let tiles = shown.map(|flame| app.flame.tiles(flame)).unwrap_or_default();
    let levels = tiles.last().map_or(0, |tile| tile.depth + 1);
    let more = levels.saturating_sub(app.flame.first() + usize::from(body.height));
    let remarks = remarks(canvas, app, shown, (app.flame.first(), more), area.width);
    super::title(canvas, area, Some(Pane::Flame), Pane::Flame.name(), active, &remarks);
    let Some(flame) = shown.filter(|_| !tiles.is_empty()) else {
        return nothing(canvas, body, app, shown);
    };
    let selected = app.list.selected_name();
    let cursor = app.flame.at(flame, &tiles, selected).filter(|_| active);
    let found = match &app.mode {
        Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => prompt.pattern(),
        _ => app.found.as_ref(),
    };
    for tile in &tiles {
        let Some(row) = tile.depth.checked_sub(app.flame.first()).filter(|row| *row < body.height.into()) else {
            continue;
        };
        let y = if app.flame.root_below { body.bottom() - 1 - row as u16 } else { body.y + row as u16 };
        let light = light(app, flame, tile, cursor, selected, found);
        let place = Rect { x: body.x + tile.x, y, width: tile.width, height: 1 };
        paint(canvas, place, app, &flame.boxes[tile.index], light);
    }
}

fn light(
    app: &App,
    flame: &Flame,
    tile: &Tile,
    cursor: Option<Tile>,
    selected: Option<&str>,
    found: Option<&Pattern>,
) -> Light {
    let shown = &flame.boxes[tile.index];
    match () {
        () if cursor.is_some_and(|cursor| cursor.index == tile.index) => Light::Cursor,
        () if !shown.full.is_empty() && selected == Some(&shown.full) => Light::Lit,
        () if found.is_some_and(|pattern| flame::matches(pattern, app.names, shown)) => Light::Found,
        () => Light::Plain,
    }
}

fn paint(canvas: &mut Canvas<'_>, place: Rect, app: &App, shown: &FlameBox, light: Light) {
    let base_ns = app.window_base_ns();
    let heat = if base_ns == 0 { 0.0 } else { shown.self_ns as f64 / base_ns as f64 };
    let (colour, module, full) = (app.flame.colour, shown.module.as_str(), shown.full.as_str());
    let change = shown.difference.map(|difference| {
        let part = if base_ns == 0 { 0.0 } else { difference.ns as f64 / base_ns as f64 };
        (difference.change, part)
    });
    let fill = canvas.theme.fill(Surface { colour, module, name: full, heat, light, change });
    let Rect { x, y, width, .. } = place;
    canvas.blank(place, fill);
    let mark = match (width, light) {
        (1, _) => canvas.theme.speck(heat),
        (_, Light::Cursor) => "▸",
        _ => "▏",
    };
    let edge = if light == Light::Cursor { fill } else { canvas.theme.edge(fill) };
    canvas.put(x, y, 1, mark, edge);
    let mut room = width - 1;
    if canvas.theme.depth == Depth::None && width > 2 {
        canvas.put(place.right() - 1, y, 1, "▕", fill);
        room -= 1;
    }
    if room > 0 {
        canvas.put(x + 1, y, room, &words(app, shown, room.into()), fill);
    }
}

/// As much of a box's name as there is room for, and its share where both fit.
fn words<'a>(app: &App, shown: &'a FlameBox, room: usize) -> Cow<'a, str> {
    let name = app.names.pick(&shown.full, &shown.short);
    let (columns, bare) = (text::columns(name, room), text::bare(name));
    // Behind a space, a share is two characters at least.
    if columns + 3 <= room {
        let share = share(app, shown);
        return if columns + 1 + share.len() <= room { format!("{name} {share}").into() } else { name.into() };
    }
    match () {
        () if columns <= room => name.into(),
        () if text::columns(bare, room) <= room => bare.into(),
        () if room >= LEAST_CUT => text::cut_left(bare, room, 0),
        () => Cow::Borrowed(""),
    }
}

/// What a box weighs: its part of the window, and in units what all weigh.
fn share(app: &App, shown: &FlameBox) -> String {
    let base_ns = app.window_base_ns();
    let is_all = shown.full.is_empty();
    match shown.difference {
        Some(Difference { ns, change }) if is_all => measure::signed(ns, app.unit, change.negative),
        Some(Difference { ns, change }) => {
            let sign = match change.negative {
                _ if ns == 0 => "",
                true => "-",
                false => "+",
            };
            format!("{sign}{}", measure::percentage(ns, base_ns).trim_start())
        }
        None if is_all => measure::value(shown.weight_ns, app.unit),
        None => measure::percentage(shown.weight_ns, base_ns).trim_start().to_owned(),
    }
}

/// The words at the right of the title: what is left out of the picture, and how to read it.
fn remarks(
    canvas: &Canvas<'_>,
    app: &App,
    shown: Option<&Flame>,
    (before, more): (usize, usize),
    width: u16,
) -> Vec<Span<'static>> {
    let mut words: Vec<(u8, String, Role)> = Vec::new();
    if let Some(last) = app.flame.zoom().last() {
        let short = shown.and_then(|flame| flame.boxes.get(app.flame.root(flame)?)).map(|root| root.short.as_str());
        let name = text::cut_left(text::bare(short.unwrap_or(last)), 32, 0).into_owned();
        words.push((5, format!("in {name}"), Role::Notable));
    }
    if let Some(hidden) = shown.map(|flame| flame.hidden).filter(|hidden| *hidden > 0) {
        words.push((1, format!("{} too narrow", measure::count(hidden)), Role::Title));
    }
    // Levels towards the root, and beyond what is in view.
    let count = |levels: usize| measure::count(levels as u64);
    let levels = match (before, more) {
        (0, 0) => None,
        (0, 1) => Some("1 level more".to_owned()),
        (0, more) => Some(format!("{} levels more", count(more))),
        (before, 0) => Some(format!("{} to the root", count(before))),
        (before, more) => Some(format!("{} to the root, {} more", count(before), count(more))),
    };
    words.extend(levels.map(|levels| (3, levels, Role::Title)));
    if app.flame.bottom_up {
        words.push((4, "bottom-up".to_owned(), Role::Notable));
    }
    let rooted = match app.roots {
        Roots::Plain => None,
        Roots::Threads => Some("threads at the root"),
        Roots::Processes => Some("processes at the root"),
        Roots::Both => Some("processes, threads at the root"),
    };
    words.extend(rooted.map(|words| (4, words.to_owned(), Role::Notable)));
    let compares = app.answer.as_ref().is_some_and(|answer| answer.baseline_ns.is_some());
    let by = match app.flame.colour {
        _ if compares => "red more, blue less",
        Colour::Module => "by module",
        Colour::Heat => "by heat",
    };
    words.push((2, by.to_owned(), Role::Title));
    super::remarks(canvas, words, width)
}

/// Says why there is no box.
fn nothing(canvas: &mut Canvas<'_>, body: Rect, app: &App, shown: Option<&Flame>) {
    let zoomed = app.flame.zoom().last().is_some();
    if zoomed && shown.is_some_and(|flame| app.flame.root(flame).is_none()) && !app.list.is_empty() {
        super::centred(canvas, body, body.height / 3, "no sample of this box is left in the window", Role::Text);
        super::centred(canvas, body, body.height / 3 + 1, "Backspace zooms out", Role::Dim);
        return;
    }
    // The top list says what is waited for; where it has no room, the flame does.
    let beside = app.layout().is_some_and(|layout| layout.pane(Pane::Top).is_some());
    if !beside && app.list.is_empty() {
        super::sentences(canvas, body, &super::status::waiting(app));
    }
}

//! Draws the flame graph: the stacks of the window as boxes whose width is their time, with the
//! callees below (or above) their caller.
//!
//! ```text
//! ─ 3 Flame ──────────────────────────────── ↑0 ↓14 levels · Enter on ⋯ unfolds · by module ─
//! ▏all 18.7s
//! ▏⋯ _start › … › main › main::worker_loop (6) 92.00%                    ▏gc::sweep 6.00%
//! ▏handle_request 81.00%                              ▏log::flush 9.00%  ▏mark 4.00%
//! ▏json::Parser::parse_object 49.00%   ▏…::render::page  ▏write
//! ```
//!
//! A row that begins with `⋯` is a folded chain of boxes. The status line shows the full name of
//! the box under the cursor.

use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::keyword::Keyword;
use crate::tally::change::{Change, Difference};
use crate::tally::flame::{Flame, FlameBox};
use crate::tally::measure;
use crate::tally::query::{Pattern, TagRoot};
use crate::tui::canvas::Canvas;
use crate::tui::layout::Pane;
use crate::tui::name_parts::bare_name;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::flame::label;
use crate::tui::pane::flame::state::{self, Colour};
use crate::tui::pane::flame::tiling::{Tile, TileKind};
use crate::tui::pane::labels;
use crate::tui::pane::sentences;
use crate::tui::pane::title;
use crate::tui::pane::waiting;
use crate::tui::text;
use crate::tui::theme::flame_style::{self, FlameBoxLook, Highlight};
use crate::tui::theme::{Depth, Role};

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let active = context.is_active(Pane::Flame);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let shown = context.answer.and_then(|answer| answer.flame.as_deref());
    let tiles = shown.map(|flame| context.panes.flame.tiles(flame)).unwrap_or_default();
    let levels = tiles.last().map_or(0, |tile| tile.depth + 1);
    let more = levels.saturating_sub(context.panes.flame.first() + usize::from(body.height));
    let hidden = if context.panes.flame.root_below {
        (more, context.panes.flame.first())
    } else {
        (context.panes.flame.first(), more)
    };
    let has_folds = tiles.iter().any(|tile| matches!(tile.kind, TileKind::Folded(_)));
    let remarks = remarks(canvas, context, shown, hidden, has_folds, area.width);
    title::draw_title(canvas, area, Some(Pane::Flame), Pane::Flame.name(), active, &remarks);
    let Some(flame) = shown.filter(|_| !tiles.is_empty()) else {
        return nothing(canvas, body, context, shown);
    };
    let selected = context.panes.top.selected_name();
    let cursor = context.panes.flame.at(flame, &tiles, selected).filter(|_| active);
    let found = context.search_pattern();
    let shades = shades(flame, &tiles, canvas.theme.depth);
    for (tile, shade) in tiles.iter().zip(shades) {
        let Some(row) = tile.depth.checked_sub(context.panes.flame.first()).filter(|row| *row < body.height.into())
        else {
            continue;
        };
        let y = if context.panes.flame.root_below { body.bottom() - 1 - row as u16 } else { body.y + row as u16 };
        let light = light(context, flame, tile, cursor, selected, found);
        let tile = cursor.filter(|_| light == Highlight::Cursor).unwrap_or(*tile);
        let place = Rect { x: body.x + tile.x, y, width: tile.width, height: 1 };
        BoxPainter { context, flame, tile, shade, light }.paint(canvas, place);
    }
}

fn light(
    context: &PaneContext<'_>,
    flame: &Flame,
    tile: &Tile,
    cursor: Option<Tile>,
    selected: Option<&str>,
    found: Option<&Pattern>,
) -> Highlight {
    let any = |is_it: &dyn Fn(&FlameBox) -> bool| tile.boxes(flame).any(|index| is_it(&flame.boxes[index]));
    match () {
        () if cursor.is_some_and(|cursor| cursor.index == tile.index) => Highlight::Cursor,
        () if selected.is_some_and(|selected| any(&|shown| !shown.full.is_empty() && shown.full == selected)) => {
            Highlight::Selected
        }
        () if found.is_some_and(|pattern| any(&|shown| state::matches(pattern, context.screen.names, shown))) => {
            Highlight::Match
        }
        () => Highlight::Plain,
    }
}

/// The shade of each tile: that of its function, or the next one if the box before it in the same
/// level or its caller has that one and is own code as well, or foreign as well. With sixteen
/// colours, the boxes of a level alternate between two.
fn shades(flame: &Flame, tiles: &[Tile], depth: Depth) -> Vec<u8> {
    let mut shades: Vec<u8> = Vec::with_capacity(tiles.len());
    let mut caller = 0;
    for (index, tile) in tiles.iter().enumerate() {
        let shown = &flame.boxes[tile.focus];
        while index > 0 && tiles[caller].last != flame.boxes[tile.index].parent && caller + 1 < index {
            caller += 1;
        }
        let same = |other: usize| flame.boxes[tiles[other].focus].is_own == shown.is_own;
        let is_beside =
            |other: &usize| tiles[*other].depth == tile.depth && tiles[*other].x + tiles[*other].width == tile.x;
        let before = index.checked_sub(1).filter(is_beside).filter(|&other| same(other)).map(|other| shades[other]);
        let above = Some(caller).filter(|&other| index > 0 && same(other)).map(|other| shades[other]);
        let mut shade = flame_style::shade(&shown.full);
        let is_alike = |one: u8, other: u8| one == other || (depth == Depth::Sixteen && one % 2 == other % 2);
        while before.is_some_and(|before| is_alike(before, shade)) || above == Some(shade) {
            shade = (shade + 1) % flame_style::SHADES;
        }
        shades.push(shade);
    }
    shades
}

/// Draws one tile.
struct BoxPainter<'a> {
    context: &'a PaneContext<'a>,
    flame: &'a Flame,
    tile: Tile,
    shade: u8,
    light: Highlight,
}

impl BoxPainter<'_> {
    fn paint(&self, canvas: &mut Canvas<'_>, place: Rect) {
        let BoxPainter { context, flame, tile, shade, light } = *self;
        let (shown, named) = (&flame.boxes[tile.index], &flame.boxes[tile.focus]);
        let base_ns = context.window_base_ns();
        let part = |ns: u64| if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
        let heat = part(self.self_ns());
        let (colour, module) = (context.panes.flame.colour, named.module.as_str());
        let change = shown.difference.map(|Difference { ns, change }| {
            // A share that shrinks while the time grows is in doubt.
            let points = measure::points(shown.before_and_now(), context.diff_bases_ns());
            let is_clear = points != "0" && points.starts_with('-') == change.negative;
            (Change { significant: change.significant && is_clear, ..change }, part(ns))
        });
        let look = FlameBoxLook { colour, module, is_own: named.is_own, shade, heat, highlight: light, change };
        let fill = canvas.theme.flame_box(look);
        let Rect { x, y, width, .. } = place;
        canvas.blank(place, fill);
        let mark = match (width, light, tile.kind) {
            (1, ..) => canvas.theme.speck(heat),
            (_, Highlight::Cursor, _) => "▸",
            (_, _, TileKind::Unfolded) => "▾",
            _ => "▏",
        };
        let is_plain = light != Highlight::Cursor && mark != "▾";
        let edge = if is_plain { canvas.theme.edge(fill) } else { fill };
        canvas.put(x, y, 1, mark, edge);
        let mut room = width - 1;
        if canvas.theme.depth == Depth::None && width > 2 {
            canvas.put(place.right() - 1, y, 1, "▕", fill);
            room -= 1;
        }
        if room > 0 {
            canvas.put(x + 1, y, room, &self.words(room.into()), fill);
        }
    }

    /// The weight of the samples that end in the boxes of the tile, ns.
    fn self_ns(&self) -> u64 {
        let own = self.tile.boxes(self.flame).map(|index| self.flame.boxes[index].self_ns);
        own.fold(0, u64::saturating_add)
    }

    fn name(&self, index: usize) -> &str {
        let shown = &self.flame.boxes[index];
        self.context.screen.names.pick(&shown.full, &shown.short)
    }

    /// As much of the names as fits, and the share if both fit. The box under the cursor and the
    /// selected function show their self time too.
    fn words(&self, room: usize) -> String {
        let shown = &self.flame.boxes[self.tile.index];
        let share = share(self.context, shown);
        let stands_out = matches!(self.light, Highlight::Cursor | Highlight::Selected);
        let own = if stands_out && shown.difference.is_none() && !shown.full.is_empty() {
            let own = measure::percentage(self.self_ns(), self.context.window_base_ns());
            Some(format!("{share}, self {}", own.trim_start()))
        } else {
            None
        };
        if let TileKind::Folded(_) = self.tile.kind {
            let mut boxes: Vec<usize> = self.tile.boxes(self.flame).collect();
            boxes.reverse();
            let names: Vec<&str> = boxes.iter().map(|&index| self.name(index)).collect();
            let focus = boxes.iter().position(|&index| index == self.tile.focus).unwrap_or(0);
            let least = text::columns(names[focus], room) + 8;
            let share = [own, Some(share)].into_iter().flatten().find(|share| least + share.len() < room);
            return match share {
                Some(share) => format!("{} {share}", label::fit_chain(&names, focus, room - share.len() - 1)),
                None => label::fit_chain(&names, focus, room),
            };
        }
        let name = self.name(self.tile.index);
        let left = room.saturating_sub(text::columns(name, room) + 1);
        match [own, Some(share)].into_iter().flatten().find(|share| share.len() <= left) {
            Some(share) => format!("{name} {share}"),
            None => label::fit_name(name, room).into_owned(),
        }
    }
}

/// Weight of a box: a share of the window, for the root an absolute value.
fn share(context: &PaneContext<'_>, shown: &FlameBox) -> String {
    let base_ns = context.window_base_ns();
    let is_all = shown.full.is_empty();
    match shown.difference {
        Some(Difference { ns, change }) if is_all => measure::signed(ns, context.session.unit(), change.negative),
        // As in Top, the difference is that of shares.
        Some(_) => measure::points(shown.before_and_now(), context.diff_bases_ns()),
        None if is_all => measure::shown(shown.weight_ns, context.session.unit()),
        None => measure::percentage(shown.weight_ns, base_ns).trim_start().to_owned(),
    }
}

/// Remarks in the title: what is hidden, and the meaning of colours.
fn remarks(
    canvas: &Canvas<'_>,
    context: &PaneContext<'_>,
    shown: Option<&Flame>,
    (above, below): (usize, usize),
    has_folds: bool,
    width: u16,
) -> Vec<Span<'static>> {
    let mut words: Vec<(u8, String, Role)> = Vec::new();
    if let Some(last) = context.panes.flame.zoom().last() {
        let short =
            shown.and_then(|flame| flame.boxes.get(context.panes.flame.root(flame)?)).map(|root| root.short.as_str());
        let name = text::cut_right(bare_name(short.unwrap_or(last)), 32).into_owned();
        words.push((5, format!("zoom: {name}"), Role::Notable));
    }
    if let Some(hidden) = shown.map(|flame| flame.hidden).filter(|hidden| *hidden > 0) {
        let plural = if hidden == 1 { "box" } else { "boxes" };
        words.push((0, format!("{} {plural} hidden", measure::count(hidden)), Role::Title));
    }
    if above + below > 0 {
        words.push((
            3,
            format!("↑{} ↓{} levels", measure::count(above as u64), measure::count(below as u64)),
            Role::Title,
        ));
    }
    if has_folds {
        words.push((2, "Enter on ⋯ unfolds".to_owned(), Role::Title));
    }
    if let Some((threads, _)) = context.idle() {
        words.push((4, format!("without {}", labels::idle_threads(threads)), Role::Notable));
    }
    if context.panes.flame.bottom_up {
        words.push((4, "bottom-up".to_owned(), Role::Notable));
    }
    if context.question.roots != TagRoot::Plain {
        words.push((4, context.question.roots.word().label.to_owned(), Role::Notable));
    }
    let compares = context.answer.is_some_and(|answer| answer.baseline_ns.is_some());
    let by = match context.panes.flame.colour {
        _ if compares => "red: more, blue: less",
        Colour::Module => "by module",
        Colour::Heat => "by heat",
    };
    words.push((1, by.to_owned(), Role::Title));
    title::fit_remarks(canvas, words, width)
}

/// Explains why there are no boxes.
fn nothing(canvas: &mut Canvas<'_>, body: Rect, context: &PaneContext<'_>, shown: Option<&Flame>) {
    let zoomed = context.panes.flame.zoom().last().is_some();
    if zoomed && shown.is_some_and(|flame| context.panes.flame.root(flame).is_none()) && !context.panes.top.is_empty() {
        sentences::draw_centered(canvas, body, body.height / 3, "no samples of this box in the window", Role::Text);
        sentences::draw_centered(canvas, body, body.height / 3 + 1, "Backspace zooms out", Role::Dim);
        return;
    }
    // The top pane explains it; if that is not visible, this pane does.
    let beside = context.layout().is_some_and(|layout| layout.pane(Pane::Top).is_some());
    if !beside && context.panes.top.is_empty() {
        sentences::draw_sentences(canvas, body, &waiting::waiting(context));
    }
}

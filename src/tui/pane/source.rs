//! The selected function line by line, live: pprof's `-list` of one function, in the whole of its file.
//!
//! ```text
//! ─ 4 Source  json::Parser::parse_value  src/json/parser.rs:118-171 ────────── flat 6.22s 33.30%  cum 9.11s 48.70% ─
//!     flat     cum        line
//!                          118  fn parse_value(&mut self) -> Result<Value> {
//!    0.40s   0.40s ▌       119      let byte = self.peek()?;
//! ▸  4.10s   4.10s ████    120      while is_space(self.bytes[self.at]) { self.at += 1 }
//!            2.90s ░░░     124          b'"' => self.parse_string(),                    → from_utf8 1.80s
//! ```
//!
//! The bar is a line's part of the heaviest line, dark what is its own and light what it calls. What is missing (source,
//! line tables, symbols) is said above, and the assembly ([`assembly`](super::assembly)) takes its place. With little room
//! the bar goes first, then cum.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::assembly;
use crate::symbols::assembly::LineState;
use crate::symbols::source::Source;
use crate::symbols::worker::SymbolState;
use crate::tally::diff::Change;
use crate::tally::lines::{Callee, LineWeight};
use crate::tally::measure;
use crate::tally::query::Pattern;
use crate::track::listing::{Found, Listing, MAX_COPIES};
use crate::tui::action::Subject;
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::layout::Pane;
use crate::tui::listing::{ListingView, Side};
use crate::tui::segments::{self, Segment};
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns from which on source and assembly stand side by side, and rows from which on one below the other.
const BESIDE_FROM_COLUMNS: u16 = 110;
const BELOW_FROM_ROWS: u16 = 14;
/// Columns of a value, and of a bar.
pub(super) const VALUE_COLUMNS: u16 = 8;
const BAR_COLUMNS: u16 = 5;
/// Columns from which on there is room for cum, and for a bar.
pub(super) const CUM_FROM_COLUMNS: u16 = 52;
const BAR_FROM_COLUMNS: u16 = 72;
/// Rows of sentences above the rows, at most.
const MAX_NOTICES: usize = 3;
/// Columns between a text and what stands at the right of it.
const NOTE_GAP: usize = 3;

/// What is where in the pane. Both sides have a row for the heads of their columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Sentences above.
    pub notices: Vec<String>,
    /// The source.
    pub source: Option<Rect>,
    /// The assembly.
    pub assembly: Option<Rect>,
}

impl Areas {
    /// Shares out the pane's area.
    pub fn new(area: Rect, view: &ListingView, listing: &Listing) -> Areas {
        let mut notices = notices(view, listing, area.width.saturating_sub(2).into());
        notices.truncate(MAX_NOTICES.min(usize::from(area.height.saturating_sub(3))));
        let taken = 1 + notices.len() as u16;
        let body = Rect { y: area.y + taken.min(area.height), height: area.height.saturating_sub(taken), ..area };
        let one = |side| match side {
            Side::Source => (Some(body), None),
            Side::Assembly => (None, Some(body)),
        };
        let (source, assembly) = match view.shows_both(listing) {
            true if body.width >= BESIDE_FROM_COLUMNS => {
                let left = Rect { width: body.width / 2, ..body };
                (Some(left), Some(Rect { x: left.right() + 1, width: body.width - left.width - 1, ..body }))
            }
            true if body.height >= BELOW_FROM_ROWS => {
                let above = Rect { height: body.height / 2, ..body };
                (Some(above), Some(Rect { y: above.bottom(), height: body.height - above.height, ..body }))
            }
            _ if view.text(listing).is_none() && view.rows().rows.is_empty() => (None, None),
            _ => one(view.side(listing)),
        };
        Areas { notices, source, assembly }
    }

    /// Rows of each side, without the heads of columns.
    pub fn rows(&self) -> (usize, usize) {
        let rows = |side: Option<Rect>| side.map_or(0, |side| side.height.saturating_sub(1).into());
        (rows(self.source), rows(self.assembly))
    }

    /// The side at a cell of the screen, and the row of it, counted from the first in view.
    pub fn at(&self, column: u16, row: u16) -> Option<(Side, usize)> {
        let hit = |side, area: Option<Rect>| {
            let area = area.filter(|area| area.contains((column, row).into()))?;
            Some((side, usize::from(row.checked_sub(area.y + 1)?)))
        };
        hit(Side::Source, self.source).or_else(|| hit(Side::Assembly, self.assembly))
    }
}

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let active = app.pane == Pane::Source && matches!(app.mode, Mode::Panes);
    let listing = app.answer.as_ref().and_then(|answer| answer.listing.as_ref());
    title(canvas, area, app, listing, active);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let Some(listing) = listing else {
        if app.list.is_empty() {
            super::sentences(canvas, body, &super::status::waiting(app));
        }
        return;
    };
    let areas = Areas::new(area, &app.listing, listing);
    if (areas.source, areas.assembly) == (None, None) {
        return super::sentences(canvas, body, &nothing(app, listing, areas.notices));
    }
    let notable = canvas.style(Role::Notable);
    for (y, notice) in (area.y + 1..).zip(&areas.notices) {
        canvas.put(area.x + 1, y, area.width.saturating_sub(2), notice, notable);
    }
    let side = app.listing.side(listing);
    let is_active = |of: Side| active && side == of;
    if let Some((area, source)) = areas.source.zip(app.listing.text(listing)) {
        lines(canvas, area, app, listing, source, is_active(Side::Source));
    }
    if let Some(area) = areas.assembly {
        assembly::draw(canvas, area, app, listing, is_active(Side::Assembly));
    }
    if let (Some(source), Some(assembly)) = (areas.source, areas.assembly)
        && source.y == assembly.y
    {
        let rule = canvas.style(Role::Rule);
        for y in source.y..source.bottom() {
            canvas.put(source.right(), y, 1, "│", rule);
        }
    }
}

fn title(canvas: &mut Canvas<'_>, area: Rect, app: &App, listing: Option<&Listing>, active: bool) {
    let both = listing.is_some_and(|listing| app.listing.shows_both(listing));
    let side = listing.map_or(Side::Source, |listing| app.listing.side(listing));
    let name = if side == Side::Assembly && !both { "Assembly" } else { Pane::Source.name() };
    let Some(listing) = listing.filter(|listing| !listing.lines.full.is_empty()) else {
        super::title(canvas, area, Some(Pane::Source), name, active, &[]);
        return;
    };
    let lines = &listing.lines;
    let base_ns = app.window_base_ns();
    let [dim, strong] = [Role::Dim, Role::Strong].map(|role| canvas.style(role));
    let number = |label: &str, ns: u64, change: Option<Change>| {
        let heat = tone(canvas, app, (ns, change));
        let label = Span::styled(format!("{label} "), dim);
        let negative = change.is_some_and(|change| change.negative);
        let value = Span::styled(measure::signed(ns, app.unit, negative), heat);
        let share = Span::styled(format!(" {}", measure::percentage(ns, base_ns).trim_start()), heat);
        Segment::new(2).or(vec![label.clone(), value.clone(), share]).or(vec![label, value]).or_nothing()
    };
    let copies = copies(listing).map(|words| Segment::new(1).or_text(words, canvas.style(Role::Notable)).or_nothing());
    let mut remarks: Vec<Segment> = copies.into_iter().collect();
    if !lines.short.is_empty() {
        let changes = lines.changes;
        remarks.extend([
            number("flat", lines.flat_ns, changes.map(|changes| changes.flat)),
            number("cum", lines.cum_ns, changes.map(|changes| changes.cum)),
        ]);
    }
    let right = segments::fit(&remarks, usize::from(area.width / 2).saturating_sub(8));
    let taken = segments::width(&right) as u16 + 4;
    let left = super::title(canvas, area, Some(Pane::Source), name, active, &right);
    let room = usize::from(area.width.saturating_sub(left + taken));
    let short = app.list.selected_names().filter(|_| app.list.selected_name() == Some(&lines.full));
    let short = if lines.short.is_empty() { short.map_or("", |(short, _)| short) } else { lines.short.as_str() };
    let named = super::owned(app, app.names.pick(&lines.full, short), &lines.full);
    let function = text::cut_left(&named, room.saturating_sub(2), 0).into_owned();
    let hue = strong.patch(canvas.theme.module(&lines.module));
    let mut x = area.x + left;
    if !function.is_empty() {
        x += canvas.put(x, area.y, room as u16, &format!(" {function} "), hue);
    }
    let place = place(&app.listing, listing);
    let room = room.saturating_sub(usize::from(x - area.x - left) + 2);
    if room >= 10 && !place.is_empty() {
        canvas.put(x, area.y, room as u16 + 2, &format!(" {} ", text::cut_left(&place, room, 0)), dim);
    }
}

/// Where the function is: `src/json/parser.rs:118-171`.
fn place(view: &ListingView, listing: &Listing) -> String {
    let Some(file) = view.file() else { return String::new() };
    let path = view.text(listing).map_or(file, |source| &source.path);
    match range(view, listing) {
        Some((first, last)) if first < last => format!("{path}:{first}-{last}"),
        Some((first, _)) => format!("{path}:{first}"),
        None => path.to_owned(),
    }
}

/// The lines of the file that are the function's, as far as its code says.
fn range(view: &ListingView, listing: &Listing) -> Option<(u32, u32)> {
    let file = view.file()?;
    let ranges = listing.codes.iter().filter_map(|code| code.range(&listing.lines.function, file));
    ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// How many copies of the function there are, if it is more than one.
fn copies(listing: &Listing) -> Option<String> {
    let inlined = listing.codes.iter().all(|code| *code.full != *listing.lines.function);
    match (listing.codes.len(), listing.beyond_ns) {
        (0 | 1, 0) => None,
        (count, 0) if inlined => Some(format!("inlined into {count} functions")),
        (count, 0) => Some(format!("{count} copies")),
        _ => Some(format!("the first {MAX_COPIES} of many copies")),
    }
}

/// What is missing, and what helps.
fn notices(view: &ListingView, listing: &Listing, room: usize) -> Vec<String> {
    let found: Option<&Found> = view.file().and_then(|file| listing.source(file));
    let without = |path: &str| {
        let remedy = match path.starts_with("/usr/") || path.starts_with("/lib") {
            true => "install its debug symbols",
            false => "build with debug = 1 (Rust) or -g",
        };
        format!("{path} has no line tables: {remedy}")
    };
    let absent = listing.codes.first().filter(|code| code.lines == LineState::Absent && view.file().is_none());
    let mut sentences = Vec::new();
    match (&listing.module, found) {
        (Some((_, SymbolState::Missing(why))), _) => sentences.push(why.clone()),
        (Some((path, SymbolState::Symbols | SymbolState::Exports)), _) => sentences.push(without(path)),
        (Some((path, SymbolState::Reading)), None) => {
            sentences.push(format!("the line tables of {path} are being read"))
        }
        (_, None) => sentences.extend(absent.map(|code| without(&code.path))),
        (_, Some(Err(why))) => sentences.push(why.clone()),
        (_, Some(Ok(source))) => sentences.extend(doubt(view, listing, source)),
    }
    if listing.codes.is_empty() && !matches!(listing.module, Some((_, SymbolState::Missing(_)))) {
        sentences.extend(listing.refused.first().cloned());
    }
    sentences.iter().flat_map(|sentence| text::wrap(sentence, room)).collect()
}

/// Why a source file may not be the one that was compiled.
fn doubt(view: &ListingView, listing: &Listing, source: &Source) -> Option<String> {
    let last = listing
        .lines
        .lines
        .iter()
        .filter(|line| Some(line.file.as_str()) == view.file())
        .map(|line| line.line)
        .max()?;
    if last as usize > source.lines.len() && !source.is_cut {
        let count = source.lines.len();
        return Some(format!(
            "{} has {count} lines, but samples are on line {last}: it is another version",
            source.path
        ));
    }
    let code = listing.codes.first()?;
    let newer = source.modified.zip(code.modified).is_some_and(|(source, code)| source > code);
    newer.then(|| {
        format!("{} was changed after {} was built: lines may be off, so build it again", source.path, code.path)
    })
}

/// What to say where there is neither source nor assembly.
fn nothing(app: &App, listing: &Listing, notices: Vec<String>) -> Vec<(String, Role)> {
    if listing.lines.short.is_empty() {
        return super::callers::absent(app, &listing.lines.full);
    }
    let mut sentences: Vec<(String, Role)> = Vec::new();
    let waiting = listing.waiting > 0 || matches!(listing.module, Some((_, SymbolState::Reading)));
    match (notices.is_empty(), waiting) {
        (false, _) => sentences.push((notices.join(" "), Role::Notable)),
        (true, true) => sentences.push(("its code is being read".to_owned(), Role::Dim)),
        (true, false) => sentences.push(("it lies in no file: there is no source of it".to_owned(), Role::Text)),
    }
    sentences
}

/// What is said of the line with the cursor over the footer: where it is and all that it calls, or where it was inlined;
/// and its weight.
pub(super) fn line_under_cursor(app: &App) -> Option<(String, &LineWeight)> {
    let listing = app.answer.as_ref()?.listing.as_ref()?;
    let side = app.listing.side(listing);
    let row = app.listing.scroll(side).row();
    let line = match side {
        Side::Source => row as u32 + 1,
        Side::Assembly => app.listing.line_of(row)?,
    };
    let weight = app.listing.line_weight(listing, line)?;
    let base = weight.file.rsplit('/').next().unwrap_or_default();
    let calls = weight
        .callees
        .iter()
        .take(MAX_COPIES)
        .map(|callee| format!("{} {}", app.names.pick(&callee.full, &callee.short), called(app, callee)));
    let calls = calls.collect::<Vec<_>>().join(", ");
    let inlined = weight.inlined_into.iter().map(|call| format!(" ← {}:{}", call.short, call.line));
    let words = match (calls.is_empty(), weight.inlined_into.is_empty()) {
        (false, _) => format!("{base}:{line} → {calls}"),
        (true, false) => format!("{base}:{line}{}", inlined.collect::<String>()),
        (true, true) => return None,
    };
    Some((words, weight))
}

/// What a call weighs.
fn called(app: &App, callee: &Callee) -> String {
    measure::signed(callee.weight_ns, app.unit, callee.change.is_some_and(|change| change.negative))
}

pub(super) fn part(ns: u64, base_ns: u64) -> f64 {
    if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 }
}

/// What is searched for, to be lit.
pub(super) fn sought(app: &App) -> Option<&Pattern> {
    match &app.mode {
        Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => prompt.pattern(),
        _ => app.found.as_ref(),
    }
}

/// Writes a value at the right of its column; 0 is left out.
pub(super) fn value(canvas: &mut Canvas<'_>, (x, y): (u16, u16), app: &App, (ns, change): (u64, Option<Change>)) {
    if ns > 0 {
        let words = measure::signed(ns, app.unit, change.is_some_and(|change| change.negative));
        let pad = VALUE_COLUMNS.saturating_sub(words.chars().count() as u16);
        let style = tone(canvas, app, (ns, change));
        canvas.put(x + pad, y, VALUE_COLUMNS, &words, style);
    }
}

/// How a weight looks: by its part of the whole, or by what kind of difference it is.
fn tone(canvas: &Canvas<'_>, app: &App, (ns, change): (u64, Option<Change>)) -> Style {
    match change {
        Some(change) => canvas.theme.change(change),
        None => canvas.theme.heat(part(ns, app.window_base_ns())),
    }
}

/// Writes heads over columns of values.
pub(super) fn heads(canvas: &mut Canvas<'_>, (x, y): (u16, u16), with_cum: bool) -> u16 {
    let style = canvas.style(Role::Column);
    let heads = if with_cum { &["flat", "cum"][..] } else { &["flat"] };
    for (at, head) in heads.iter().enumerate() {
        let right = x + VALUE_COLUMNS * (at as u16 + 1);
        canvas.put(right - head.len() as u16, y, VALUE_COLUMNS, head, style);
    }
    VALUE_COLUMNS * heads.len() as u16
}

fn lines(canvas: &mut Canvas<'_>, area: Rect, app: &App, listing: &Listing, source: &Source, active: bool) {
    let (with_cum, with_bar) = (area.width >= CUM_FROM_COLUMNS, area.width >= BAR_FROM_COLUMNS);
    let digits = (source.lines.len().max(1).ilog10() as u16 + 1).max(4);
    let values = heads(canvas, (area.x + 1, area.y), with_cum);
    let bar = if with_bar { BAR_COLUMNS + 1 } else { 0 };
    let number_at = area.x + 1 + values + bar + 1;
    let column = canvas.style(Role::Column);
    canvas.put(number_at + digits - 4, area.y, area.right().saturating_sub(number_at), "line", column);
    let own = range(&app.listing, listing);
    let scroll = app.listing.scroll(Side::Source);
    let heaviest_ns = listing.lines.lines.iter().map(|line| line.cum_ns).max().unwrap_or(0);
    for (y, row) in (area.y + 1..area.bottom()).zip(scroll.offset()..source.lines.len()) {
        let line = row as u32 + 1;
        let weight = app.listing.line_weight(listing, line);
        let is_own = own.is_none_or(|(first, last)| (first..=last).contains(&line));
        if let Some(weight) = weight {
            let changes = weight.changes;
            value(canvas, (area.x + 1, y), app, (weight.flat_ns, changes.map(|changes| changes.flat)));
            if with_cum {
                let cum = (weight.cum_ns, changes.map(|changes| changes.cum));
                value(canvas, (area.x + 1 + VALUE_COLUMNS, y), app, cum);
            }
            if with_bar {
                let place = Rect { x: area.x + 1 + values + 1, y, width: BAR_COLUMNS, height: 1 };
                draw_bar(canvas, place, app, weight, heaviest_ns);
            }
        }
        let dim = canvas.style(Role::Dim);
        canvas.put(number_at, y, digits, &format!("{line:>0$}", usize::from(digits)), dim);
        let x = number_at + digits + 2;
        let room = area.right().saturating_sub(x);
        let shown: String = source.lines[row].chars().skip(app.listing.pan().into()).collect();
        let matched = sought(app).is_some_and(|pattern| pattern.matches(&source.lines[row]));
        let style = match () {
            () if matched => canvas.style(Role::Match),
            () if is_own || weight.is_some() => canvas.style(Role::Text),
            () => dim,
        };
        let used = canvas.put(x, y, room, &shown, style);
        if let Some(weight) = weight {
            note(canvas, Rect { x: x + used, y, width: room - used, height: 1 }, app, weight);
        }
        if row == scroll.row() {
            cursor(canvas, Rect { y, height: 1, ..area }, active);
        }
    }
}

/// Marks the row that the reader stands on.
pub(super) fn cursor(canvas: &mut Canvas<'_>, row: Rect, active: bool) {
    if active {
        canvas.put(row.x, row.y, 1, "▸", canvas.style(Role::TitleActive));
    }
    canvas.tint(row, canvas.theme.selected(active));
}

fn draw_bar(canvas: &mut Canvas<'_>, place: Rect, app: &App, weight: &LineWeight, heaviest_ns: u64) {
    let cells = |ns: u64| (part(ns, heaviest_ns) * f64::from(place.width)).round() as usize;
    let (own, all) = (cells(weight.flat_ns), cells(weight.cum_ns));
    let least = usize::from(weight.flat_ns > 0 && own == 0);
    let bar: String = std::iter::repeat_n('█', own)
        .chain(std::iter::repeat_n('▌', least))
        .chain(std::iter::repeat_n('░', all.saturating_sub(own + least)))
        .collect();
    let whole = (weight.flat_ns.max(weight.cum_ns), weight.changes.map(|changes| changes.cum));
    let style = tone(canvas, app, whole);
    canvas.put(place.x, place.y, place.width, &bar, style);
}

/// What a line calls most, or where it was inlined, at the right.
fn note(canvas: &mut Canvas<'_>, place: Rect, app: &App, weight: &LineWeight) {
    let room = usize::from(place.width);
    let ways: Vec<String> = match (weight.callees.first(), weight.inlined_into.first()) {
        (Some(callee), _) => {
            let name = app.names.pick(&callee.full, &callee.short);
            let ns = called(app, callee);
            let more = if weight.callees.len() > 1 { format!(" +{}", weight.callees.len() - 1) } else { String::new() };
            vec![
                format!("→ {name} {ns}{more}"),
                format!("→ {} {ns}{more}", text::bare(name)),
                format!("→ {}", text::bare(name)),
            ]
        }
        (None, Some(_)) => {
            let calls = weight.inlined_into.iter().map(|call| format!("← {}:{}", text::bare(&call.short), call.line));
            let calls: Vec<String> = calls.collect();
            (1..=calls.len()).rev().map(|count| calls[..count].join(" ")).collect()
        }
        (None, None) => return,
    };
    let fits = |way: &&String| text::columns(way, room) + NOTE_GAP <= room;
    if let Some(way) = ways.iter().find(fits) {
        let wide = text::columns(way, room) as u16;
        let style = canvas.style(Role::Dim);
        canvas.put(place.right() - wide - 1, place.y, wide, way, style);
    }
}

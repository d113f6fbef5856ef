//! Draws the source of the selected function, like pprof's `-list`, within its whole file.
//!
//! ```text
//! ─ 4 Source  json::Parser::parse_value  src/json/parser.rs:118-171 ────────── flat 6.22s 33.30%  cum 9.11s 48.70% ─
//!     flat     cum        line
//!                          118  fn parse_value(&mut self) -> Result<Value> {
//!    0.40s   0.40s ▌       119      let byte = self.peek()?;
//! ▸  4.10s   4.10s ████    120      while is_space(self.bytes[self.at]) { self.at += 1 }
//!            2.90s ░░░     124          b'"' => self.parse_string(),             → from_utf8 1.80s
//! ```
//!
//! The bar is a line's weight relative to the heaviest line, dark for flat and light for callees.
//! If source, line tables or symbols are missing, a notice above says so, and the
//! [`assembly`](super::assembly) is shown instead. If there is little room, the bar is omitted
//! first, then cum.

use ratatui::layout::Rect;
use ratatui::text::Span;

use super::assembly;
use crate::session::{MAX_COPIES, SourceListing, SourceResult};
use crate::symbols::assembly::LineState;
use crate::symbols::source::SourceFile;
use crate::symbols::worker::SymbolState;
use crate::tally::change::Change;
use crate::tally::lines::{Callee, LineWeight};
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::fit_line::{self, Segment};
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::layout::Pane;
use crate::tui::name_parts::bare_name;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::row_names;
use crate::tui::pane::sentences;
use crate::tui::pane::source::cells::{CUM_FROM_COLUMNS, VALUE_COLUMNS, cursor, heads, part, tone, value};
use crate::tui::pane::source::state::{ListingKind, SourceState};
use crate::tui::pane::title;
use crate::tui::pane::waiting;
use crate::tui::text;
use crate::tui::theme::Role;

/// Minimum columns to show source and assembly side by side, and minimum rows to show one below the
/// other.
const BESIDE_FROM_COLUMNS: u16 = 110;
const BELOW_FROM_ROWS: u16 = 14;
/// Columns of a bar.
const BAR_COLUMNS: u16 = 5;
/// Minimum columns to show a bar.
const BAR_FROM_COLUMNS: u16 = 72;
/// Maximum rows of notices.
const MAX_NOTICES: usize = 3;
/// Columns between a line and the note to its right.
const NOTE_GAP: usize = 3;

/// Areas of the pane. Both listings include a row of column titles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Notices above the listings.
    pub notices: Vec<String>,
    /// The source.
    pub source: Option<Rect>,
    /// The assembly.
    pub assembly: Option<Rect>,
}

impl Areas {
    /// Divides the pane's area.
    pub fn new(area: Rect, view: &SourceState, listing: &SourceListing) -> Areas {
        let mut notices = notices(view, listing, area.width.saturating_sub(2).into());
        notices.truncate(MAX_NOTICES.min(usize::from(area.height.saturating_sub(3))));
        let taken = 1 + notices.len() as u16;
        let body = Rect { y: area.y + taken.min(area.height), height: area.height.saturating_sub(taken), ..area };
        let one = |side| match side {
            ListingKind::Source => (Some(body), None),
            ListingKind::Assembly => (None, Some(body)),
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

    /// Rows of source and assembly, without column titles.
    pub fn rows(&self) -> (usize, usize) {
        let rows = |side: Option<Rect>| side.map_or(0, |side| side.height.saturating_sub(1).into());
        (rows(self.source), rows(self.assembly))
    }

    /// The listing at a cell of the screen, and its visible row there.
    pub fn at(&self, column: u16, row: u16) -> Option<(ListingKind, usize)> {
        let hit = |side, area: Option<Rect>| {
            let area = area.filter(|area| area.contains((column, row).into()))?;
            Some((side, usize::from(row.checked_sub(area.y + 1)?)))
        };
        hit(ListingKind::Source, self.source).or_else(|| hit(ListingKind::Assembly, self.assembly))
    }
}

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let active = context.is_active(Pane::Source);
    let listing = context.answer.and_then(|answer| answer.listing.as_ref());
    title(canvas, area, context, listing, active);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let Some(listing) = listing else {
        if context.panes.top.is_empty() {
            sentences::draw_sentences(canvas, body, &waiting::waiting(context));
        }
        return;
    };
    let areas = Areas::new(area, &context.panes.source, listing);
    if (areas.source, areas.assembly) == (None, None) {
        return sentences::draw_sentences(canvas, body, &nothing(context, listing, areas.notices));
    }
    let notable = canvas.style(Role::Notable);
    for (y, notice) in (area.y + 1..).zip(&areas.notices) {
        canvas.put(area.x + 1, y, area.width.saturating_sub(2), notice, notable);
    }
    let side = context.panes.source.side(listing);
    let is_active = |of: ListingKind| active && side == of;
    if let Some((area, source)) = areas.source.zip(context.panes.source.text(listing)) {
        lines(canvas, area, context, listing, source, is_active(ListingKind::Source));
    }
    if let Some(area) = areas.assembly {
        assembly::draw(canvas, area, context, listing, is_active(ListingKind::Assembly));
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

fn title(
    canvas: &mut Canvas<'_>,
    area: Rect,
    context: &PaneContext<'_>,
    listing: Option<&SourceListing>,
    active: bool,
) {
    let both = listing.is_some_and(|listing| context.panes.source.shows_both(listing));
    let side = listing.map_or(ListingKind::Source, |listing| context.panes.source.side(listing));
    let name = if side == ListingKind::Assembly && !both { "Assembly" } else { Pane::Source.name() };
    let Some(listing) = listing.filter(|listing| !listing.lines.full.is_empty()) else {
        title::draw_title(canvas, area, Some(Pane::Source), name, active, &[]);
        return;
    };
    let lines = &listing.lines;
    let base_ns = context.window_base_ns();
    let [dim, strong] = [Role::Dim, Role::Strong].map(|role| canvas.style(role));
    let number = |label: &str, ns: u64, change: Option<Change>| {
        let heat = tone(canvas, context, (ns, change));
        let label = Span::styled(format!("{label} "), dim);
        let negative = change.is_some_and(|change| change.negative);
        let value = Span::styled(measure::signed(ns, context.session.unit(), negative), heat);
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
    let right = fit_line::fit(&remarks, usize::from(area.width / 2).saturating_sub(8));
    let taken = fit_line::width(&right) as u16 + 4;
    let left = title::draw_title(canvas, area, Some(Pane::Source), name, active, &right);
    let room = usize::from(area.width.saturating_sub(left + taken));
    let short = context.panes.top.selected_names().filter(|_| context.panes.top.selected_name() == Some(&lines.full));
    let short = if lines.short.is_empty() { short.map_or("", |(short, _)| short) } else { lines.short.as_str() };
    let short = row_names::name_with_owner(context, short, &lines.full);
    let function = NameToFit { full: &lines.full, short: &short, room: room.saturating_sub(2) };
    let function = fit_name(&function, context.screen.names);
    let hue = strong.patch(canvas.theme.module(&lines.module));
    let mut x = area.x + left;
    if !function.is_empty() {
        x += canvas.put(x, area.y, room as u16, &format!(" {function} "), hue);
    }
    let place = place(&context.panes.source, listing);
    let room = room.saturating_sub(usize::from(x - area.x - left) + 2);
    if room >= 10 && !place.is_empty() {
        canvas.put(x, area.y, room as u16 + 2, &format!(" {} ", text::cut_left(&place, room)), dim);
    }
}

/// The location of the function: `src/json/parser.rs:118-171`.
fn place(view: &SourceState, listing: &SourceListing) -> String {
    let Some(file) = view.file() else { return String::new() };
    let path = view.text(listing).map_or(file, |source| &source.path);
    match range(view, listing) {
        Some((first, last)) if first < last => format!("{path}:{first}-{last}"),
        Some((first, _)) => format!("{path}:{first}"),
        None => path.to_owned(),
    }
}

/// The function's lines in the shown file according to its line tables.
pub fn range(view: &SourceState, listing: &SourceListing) -> Option<(u32, u32)> {
    let file = view.file()?;
    let ranges = listing.codes.iter().filter_map(|code| code.range(&listing.lines.function, file));
    ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// The number of copies of the function, if there are several.
fn copies(listing: &SourceListing) -> Option<String> {
    let inlined = listing.codes.iter().all(|code| *code.full != *listing.lines.function);
    match (listing.codes.len(), listing.beyond_ns) {
        (0 | 1, 0) => None,
        (count, 0) if inlined => Some(format!("inlined into {count} functions")),
        (count, 0) => Some(format!("{count} copies")),
        _ => Some(format!("first {MAX_COPIES} of many copies")),
    }
}

/// Returns what is missing, and the remedy, as lines that fit into `room` columns.
fn notices(view: &SourceState, listing: &SourceListing, room: usize) -> Vec<String> {
    let found: Option<&SourceResult> = view.file().and_then(|file| listing.source(file));
    let without = |path: &str| match path {
        // Its modules are bracketed, too.
        path if path.starts_with('[') => "functions of the kernel have no source here".to_owned(),
        path if path.starts_with("/usr/") || path.starts_with("/lib") => {
            format!("{path} has no line tables: install its debug symbols")
        }
        path => format!("{path} has no line tables: build with debug = 1 (Rust) or -g"),
    };
    let absent = listing.codes.first().filter(|code| code.lines == LineState::Absent && view.file().is_none());
    let mut sentences = Vec::new();
    match (&listing.module, found) {
        (Some((_, SymbolState::Missing(why))), _) => sentences.push(why.clone()),
        (Some((path, SymbolState::Symbols | SymbolState::Exports)), _) => sentences.push(without(path)),
        (Some((path, SymbolState::Reading)), None) => sentences.push(format!("reading the line tables of {path}")),
        (_, None) => sentences.extend(absent.map(|code| without(&code.path))),
        (_, Some(Err(why))) => sentences.push(why.clone()),
        (_, Some(Ok(source))) => sentences.extend(find_mismatch(view, listing, source)),
    }
    if listing.codes.is_empty() && !matches!(listing.module, Some((_, SymbolState::Missing(_)))) {
        sentences.extend(listing.refused.first().cloned());
    }
    sentences.iter().flat_map(|sentence| text::wrap(sentence, room)).collect()
}

/// Returns the reason why a source file may differ from the compiled one, if there is one.
fn find_mismatch(view: &SourceState, listing: &SourceListing, source: &SourceFile) -> Option<String> {
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
            "{} has {count} lines, but samples are on line {last}: it is a different version",
            source.path
        ));
    }
    let code = listing.codes.first()?;
    let newer = source.modified.zip(code.modified).is_some_and(|(source, code)| source > code);
    newer.then(|| {
        format!("{} is newer than {}: line numbers may be wrong, rebuild to correct them", source.path, code.path)
    })
}

/// Sentences for a function without source and assembly.
fn nothing(context: &PaneContext<'_>, listing: &SourceListing, notices: Vec<String>) -> Vec<(String, Role)> {
    if listing.lines.short.is_empty() {
        return waiting::absent(context, &listing.lines.full);
    }
    let mut sentences: Vec<(String, Role)> = Vec::new();
    let waiting = listing.waiting > 0 || matches!(listing.module, Some((_, SymbolState::Reading)));
    match (notices.is_empty(), waiting) {
        (false, _) => sentences.push((notices.join(" "), Role::Notable)),
        (true, true) => sentences.push(("reading its code".to_owned(), Role::Dim)),
        (true, false) => sentences.push(("not backed by a file: no source available".to_owned(), Role::Text)),
    }
    sentences
}

/// Sentences that say why there is neither source nor assembly of the function.
pub fn explain_absence(context: &PaneContext<'_>, listing: &SourceListing) -> Vec<String> {
    match notices(&context.panes.source, listing, usize::MAX) {
        notices if !notices.is_empty() => notices,
        none => nothing(context, listing, none).into_iter().map(|(sentence, _)| sentence).collect(),
    }
}

/// Describes the line under the cursor for the status line: its location with its callees or where
/// it was inlined, and its weight.
pub fn line_under_cursor<'a>(context: &PaneContext<'a>) -> Option<(String, &'a LineWeight)> {
    let listing = context.answer?.listing.as_ref()?;
    let side = context.panes.source.side(listing);
    let row = context.panes.source.scroll(side).row();
    let line = match side {
        ListingKind::Source => row as u32 + 1,
        ListingKind::Assembly => context.panes.source.line_of(row)?,
    };
    let weight = context.panes.source.line_weight(listing, line)?;
    let base = weight.file.rsplit('/').next().unwrap_or_default();
    let calls = weight.callees.iter().take(MAX_COPIES).map(|callee| {
        format!("{} {}", context.screen.names.pick(&callee.full, &callee.short), called(context, callee))
    });
    let calls = calls.collect::<Vec<_>>().join(", ");
    let inlined = weight.inlined_into.iter().map(|call| format!(" ← {}:{}", call.short, call.line));
    let words = match (calls.is_empty(), weight.inlined_into.is_empty()) {
        (false, _) => format!("{base}:{line} → {calls}"),
        (true, false) => format!("{base}:{line}{}", inlined.collect::<String>()),
        (true, true) => return None,
    };
    Some((words, weight))
}

/// The weight of a call.
fn called(context: &PaneContext<'_>, callee: &Callee) -> String {
    measure::signed(callee.weight_ns, context.session.unit(), callee.change.is_some_and(|change| change.negative))
}

fn lines(
    canvas: &mut Canvas<'_>,
    area: Rect,
    context: &PaneContext<'_>,
    listing: &SourceListing,
    source: &SourceFile,
    active: bool,
) {
    let (with_cum, with_bar) = (area.width >= CUM_FROM_COLUMNS, area.width >= BAR_FROM_COLUMNS);
    let digits = (source.lines.len().max(1).ilog10() as u16 + 1).max(4);
    let values = heads(canvas, (area.x + 1, area.y), with_cum);
    let bar = if with_bar { BAR_COLUMNS + 1 } else { 0 };
    let number_at = area.x + 1 + values + bar + 1;
    let column = canvas.style(Role::Column);
    canvas.put(number_at + digits - 4, area.y, area.right().saturating_sub(number_at), "line", column);
    let own = range(&context.panes.source, listing);
    let scroll = context.panes.source.scroll(ListingKind::Source);
    let heaviest_ns = listing.lines.lines.iter().map(|line| line.cum_ns).max().unwrap_or(0);
    for (y, row) in (area.y + 1..area.bottom()).zip(scroll.offset()..source.lines.len()) {
        let line = row as u32 + 1;
        let weight = context.panes.source.line_weight(listing, line);
        let is_own = own.is_none_or(|(first, last)| (first..=last).contains(&line));
        if let Some(weight) = weight {
            let changes = weight.changes;
            value(canvas, (area.x + 1, y), context, (weight.flat_ns, changes.map(|changes| changes.flat)));
            if with_cum {
                let cum = (weight.cum_ns, changes.map(|changes| changes.cum));
                value(canvas, (area.x + 1 + VALUE_COLUMNS, y), context, cum);
            }
            if with_bar {
                let place = Rect { x: area.x + 1 + values + 1, y, width: BAR_COLUMNS, height: 1 };
                draw_bar(canvas, place, context, weight, heaviest_ns);
            }
        }
        let dim = canvas.style(Role::Dim);
        canvas.put(number_at, y, digits, &format!("{line:>0$}", usize::from(digits)), dim);
        let x = number_at + digits + 2;
        let room = area.right().saturating_sub(x);
        let shown: String = source.lines[row].chars().skip(context.panes.source.pan().into()).collect();
        let matched = context.search_pattern().is_some_and(|pattern| pattern.matches(&source.lines[row]));
        let style = match () {
            () if matched => canvas.style(Role::Match),
            () if is_own || weight.is_some() => canvas.style(Role::Text),
            () => dim,
        };
        let used = canvas.put(x, y, room, &shown, style);
        if let Some(weight) = weight {
            note(canvas, Rect { x: x + used, y, width: room - used, height: 1 }, context, weight);
        }
        if row == scroll.row() {
            cursor(canvas, Rect { y, height: 1, ..area }, active);
        }
    }
}

fn draw_bar(canvas: &mut Canvas<'_>, place: Rect, context: &PaneContext<'_>, weight: &LineWeight, heaviest_ns: u64) {
    let cells = |ns: u64| (part(ns, heaviest_ns) * f64::from(place.width)).round() as usize;
    let (own, all) = (cells(weight.flat_ns), cells(weight.cum_ns));
    let least = usize::from(weight.flat_ns > 0 && own == 0);
    let bar: String = std::iter::repeat_n('█', own)
        .chain(std::iter::repeat_n('▌', least))
        .chain(std::iter::repeat_n('░', all.saturating_sub(own + least)))
        .collect();
    let whole = (weight.flat_ns.max(weight.cum_ns), weight.changes.map(|changes| changes.cum));
    let style = tone(canvas, context, whole);
    canvas.put(place.x, place.y, place.width, &bar, style);
}

/// Draws the heaviest callee of a line, or where it was inlined, at the right.
fn note(canvas: &mut Canvas<'_>, place: Rect, context: &PaneContext<'_>, weight: &LineWeight) {
    let room = usize::from(place.width);
    let ways: Vec<String> = match (weight.callees.first(), weight.inlined_into.first()) {
        (Some(callee), _) => {
            let name = context.screen.names.pick(&callee.full, &callee.short);
            let ns = called(context, callee);
            let more = if weight.callees.len() > 1 { format!(" +{}", weight.callees.len() - 1) } else { String::new() };
            vec![
                format!("→ {name} {ns}{more}"),
                format!("→ {} {ns}{more}", bare_name(name)),
                format!("→ {}", bare_name(name)),
            ]
        }
        (None, Some(_)) => {
            let calls = weight.inlined_into.iter().map(|call| format!("← {}:{}", bare_name(&call.short), call.line));
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

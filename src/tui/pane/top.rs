//! The top list: pprof's columns, for the window and, where there is room, for the total beside it.
//!
//! ```text
//! ─ 1 Top ──────────────────────── last 10 s ────────────────────────────── total ────────────────────────── 3/212 by flat ─
//!       flat  flat%   sum%      cum   cum%  │     flat  flat%      cum   cum%  function                           module
//! ▸    6.22s 33.30% 33.30%    9.11s 48.70%  │   98.31s 31.20%  142.51s 45.20%  json::Parser::parse_value          server
//!      3.11s 16.60% 49.90%    3.11s 16.60%  │   51.02s 16.19%   51.02s 16.19%  memmove_avx                        libc.so.6
//! ```
//!
//! Where there is room, a trend stands before the name: `▁▁▂▂▃▅▆█ ▲` is the share over the window, and a mark where it goes
//! up or down by more than chance. With less room the total's columns go
//! first, then the trend, sum%, cum, flat and cum%. Where a row is a function in one thread or process, that stands before its name.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::TITLE_COLUMNS;
use crate::symbols::worker::SymbolState;
use crate::tally::diff::Changes;
use crate::tally::measure::{self, Unit};
use crate::tally::query::{Group, Sort, without_owner};
use crate::tally::table::{Inline, Table};
use crate::tally::trend::{Direction, PARTS, Trend};
use crate::track::Facts;
use crate::tui::action::Subject;
use crate::tui::app::{App, Mode};
use crate::tui::canvas::Canvas;
use crate::tui::layout::Pane;
use crate::tui::list::{Line, NameStyle};
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns that a function's name needs at least.
const NAME_COLUMNS: u16 = 20;
/// Columns of the name from which on the module has a column of its own, and that column's.
const MODULE_FROM_COLUMNS: u16 = 52;
const MODULE_COLUMNS: u16 = 18;
/// Columns of a percentage.
const PERCENT_COLUMNS: u16 = 6;
/// Columns of a value at least.
const VALUE_COLUMNS: u16 = 7;
/// Columns before the first number.
const MARGIN: u16 = 2;

/// Columns of a trend with its mark, and what parts it from the numbers.
const TREND_COLUMNS: u16 = PARTS as u16 + 2;
const TREND_GAP: u16 = 2;
/// Columns of a thread or process, where there is little room, some, and enough for all of it.
const OWNER_COLUMNS: (u16, u16, u16) = (9, 14, 22);
const OWNER_GAP: u16 = 1;
/// Columns that a name has where there is a trend and no total.
const NAME_BESIDE_TREND: u16 = 30;

/// A column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Flat,
    FlatShare,
    SumShare,
    Cum,
    CumShare,
}

impl Column {
    const ALL: [Column; 5] = [Column::Flat, Column::FlatShare, Column::SumShare, Column::Cum, Column::CumShare];
    /// Those of the total, which is not sorted by.
    const TOTAL: [Column; 4] = [Column::Flat, Column::FlatShare, Column::Cum, Column::CumShare];
    /// What goes, in this order, where room is short.
    const EXPENDABLE: [Column; 4] = [Column::SumShare, Column::Cum, Column::Flat, Column::CumShare];

    fn head(self) -> &'static str {
        match self {
            Column::Flat => "flat",
            Column::FlatShare => "flat%",
            Column::SumShare => "sum%",
            Column::Cum => "cum",
            Column::CumShare => "cum%",
        }
    }

    fn sort(self) -> Option<Sort> {
        match self {
            Column::Flat | Column::FlatShare => Some(Sort::Flat),
            Column::Cum | Column::CumShare => Some(Sort::Cum),
            Column::SumShare => None,
        }
    }

    fn width(self, value: u16) -> u16 {
        match self {
            Column::Flat => value + 1,
            Column::Cum => value + 2,
            Column::FlatShare | Column::SumShare | Column::CumShare => PERCENT_COLUMNS + 1,
        }
    }
}

/// Which columns there are, and where.
struct Plan {
    /// Of the window.
    window: Vec<Column>,
    /// Of the total; empty where it has no room.
    total: Vec<Column>,
    /// Columns of a value.
    value: u16,
    /// Where the bar between window and total is, from the left.
    bar: u16,
    /// Where trends start, from the left; nowhere where they have no room.
    trend: Option<u16>,
    /// Where threads or processes start, from the left, and their columns; 0 where rows are not one's alone.
    owner: u16,
    owner_columns: u16,
    /// Where names start, from the left.
    name: u16,
    /// Columns of a name.
    name_columns: u16,
    /// Where modules' names start, from the left.
    module: u16,
    /// Columns of a module's name; 0 where it has no room.
    module_columns: u16,
}

impl Plan {
    fn new(width: u16, both: bool, trends: bool, has_owners: bool, value: u16) -> Plan {
        let owner_columns = match width {
            _ if !has_owners => 0,
            0..60 => OWNER_COLUMNS.0,
            60..120 => OWNER_COLUMNS.1,
            _ => OWNER_COLUMNS.2,
        };
        let owner_room = owner_columns + u16::from(has_owners) * OWNER_GAP;
        let span = |columns: &[Column]| columns.iter().map(|column| column.width(value)).sum::<u16>();
        let mut window = Column::ALL.to_vec();
        let mut total = if both { Column::TOTAL.to_vec() } else { Vec::new() };
        let mut has_trend = trends;
        let bar = |window: &[Column]| MARGIN + span(window) + 2;
        let name = |window: &[Column], total: &[Column], has_trend: bool| {
            let numbers = if total.is_empty() { MARGIN + span(window) } else { bar(window) + 1 + span(total) };
            numbers + 2 + if has_trend { TREND_COLUMNS + TREND_GAP } else { 0 }
        };
        let fits = |window: &[Column], total: &[Column], has_trend| {
            // A narrow list without a total has more use for names than for trends.
            let least = if has_trend && !both { NAME_BESIDE_TREND } else { NAME_COLUMNS };
            name(window, total, has_trend) + owner_room + least <= width
        };
        for keep in [&Column::TOTAL[..2], &[Column::FlatShare]] {
            if !fits(&window, &total, has_trend) {
                total.retain(|column| keep.contains(column));
            }
        }
        has_trend &= fits(&window, &total, has_trend);
        for column in Column::EXPENDABLE {
            if !fits(&window, &total, has_trend) {
                window.retain(|kept| *kept != column);
            }
        }
        let trend = has_trend.then(|| name(&window, &total, false));
        let (bar, owner) = (bar(&window), name(&window, &total, has_trend));
        let name = owner + owner_room;
        let room = width.saturating_sub(name);
        let module_columns = if room >= MODULE_FROM_COLUMNS { MODULE_COLUMNS } else { 0 };
        let name_columns = room.saturating_sub(module_columns + u16::from(module_columns > 0) * 2);
        let module = width.saturating_sub(module_columns);
        Plan { window, total, value, bar, trend, owner, owner_columns, name, name_columns, module, module_columns }
    }
}

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let active = app.pane == Pane::Top && matches!(app.mode, Mode::Panes);
    let Some(answer) = &app.answer else {
        super::title(canvas, area, Some(Pane::Top), Pane::Top.name(), active, &remarks(canvas, app, area.width));
        return super::sentences(canvas, below(area, 1), &super::status::waiting(app));
    };
    let both = app.shows_both();
    let unit = app.unit;
    let sign = u16::from(answer.baseline_ns.is_some());
    let widest = measure::value(answer.total.total_ns.max(answer.window.total_ns), unit).len() as u16 + sign;
    // A name does not touch the bar to the pane beside it.
    let margin = u16::from(area.right() < app.size.0);
    let has_owners = answer.question.group.owner().is_some();
    let plan =
        Plan::new(area.width - margin, both, !answer.trends.rows.is_empty(), has_owners, widest.max(VALUE_COLUMNS));
    // Where the title names groups of columns, remarks have what lies behind them.
    let room = if both { (area.width + TITLE_COLUMNS).saturating_sub(plan.name) } else { area.width };
    let words = remarks(canvas, app, room);
    let left = super::title(canvas, area, Some(Pane::Top), Pane::Top.name(), active, &words);
    if both {
        let window = format!(" {} ", super::header::span_words(app));
        let end = plan.bar.saturating_sub(2);
        group(canvas, area, left, end, &window);
        group(
            canvas,
            area,
            left.max(plan.bar),
            plan.name.saturating_sub(2),
            if sign > 0 { " since then " } else { " total " },
        );
    }
    if app.list.is_empty() {
        return super::sentences(canvas, below(area, 1), &super::status::waiting(app));
    }
    heads(canvas, area, app, &plan);
    let bases = Bases::new(app, &answer.window, &answer.total);
    let selected = app.list.selection().map(|(index, _)| index);
    for (y, (index, line)) in (area.y + 2..area.bottom()).zip(app.list.view()) {
        let place = Rect { y, height: 1, ..area };
        row(canvas, place, app, &plan, &bases, unit, &line);
        if selected == Some(index) {
            canvas.put(area.x, y, 1, "▸", canvas.style(Role::TitleActive));
            canvas.tint(place, canvas.theme.selected(active));
        }
    }
}

/// An area without its first rows.
fn below(area: Rect, rows: u16) -> Rect {
    Rect { y: area.y + rows, height: area.height.saturating_sub(rows), ..area }
}

/// What percentages are of, ns.
struct Bases {
    window_ns: u64,
    total_ns: u64,
}

impl Bases {
    fn new(app: &App, window: &Table, total: &Table) -> Bases {
        Bases { window_ns: app.base_ns(window), total_ns: app.base_ns(total) }
    }
}

/// What names are waited for: so many frames; or, where they have names from symbols already, the files whose line tables are
/// being read, which can take seconds.
fn symbolizing(facts: &Facts, room: usize) -> Option<String> {
    let (pending, all) = facts.symbolizing;
    if pending == 0 {
        return None;
    }
    let mut read = facts.files.iter().filter(|(_, state)| *state == SymbolState::Reading).map(|(file, _)| file);
    let done = || measure::count(all.saturating_sub(pending) as u64);
    let ways = match (read.next(), read.count()) {
        (Some(file), 0) => [format!("reading lines of {file}"), format!("reading {file}"), "reading lines".to_owned()],
        (Some(_), more) => [format!("reading lines of {} files", more + 1), "reading lines".to_owned(), String::new()],
        (None, _) => {
            let all = measure::count(all as u64);
            [format!("symbolizing {}/{all}", done()), format!("{}/{all} named", done()), "symbolizing".to_owned()]
        }
    };
    ways.into_iter().find(|way| text::columns(way, 999) <= room)
}

/// The words at the right of the title.
fn remarks(canvas: &Canvas<'_>, app: &App, width: u16) -> Vec<Span<'static>> {
    let mut words: Vec<(u8, String, Role)> = Vec::new();
    let group = shown_group(app);
    let room = width.saturating_sub(TITLE_COLUMNS).into();
    let waited = app.answer.as_ref().and_then(|answer| symbolizing(&answer.facts, room));
    words.extend(waited.map(|words| (4, words, Role::Notable)));
    if let Some((index, _)) = app.list.selection().filter(|_| app.list.offset() > 0 || app.list.is_cut()) {
        let place = format!("{}/{}", measure::count(index as u64 + 1), measure::count(app.list.len() as u64));
        words.push((1, place, Role::Title));
    }
    if group != Group::Function {
        words.push((6, groups_word(group).to_owned(), Role::Notable));
    }
    if app.relative {
        words.push((5, "% of what is shown".to_owned(), Role::Notable));
    }
    match app.names {
        NameStyle::Short => {}
        NameStyle::Full => words.push((2, "full names".to_owned(), Role::Title)),
        NameStyle::Bare => words.push((2, "bare names".to_owned(), Role::Title)),
    }
    let by = match app.sort {
        Sort::Flat => "by flat",
        Sort::Cum => "by cum",
        Sort::Name => "by name",
    };
    words.push((3, by.to_owned(), Role::Title));
    super::remarks(canvas, words, width)
}

/// What a row is, in the numbers at hand.
fn shown_group(app: &App) -> Group {
    app.answer.as_ref().map_or(app.group, |answer| answer.question.group)
}

fn groups_word(group: Group) -> &'static str {
    match group {
        Group::Function => "functions",
        Group::File => "files",
        Group::Line => "lines",
        Group::Address => "addresses",
        Group::Module => "modules",
        Group::Thread => "by thread",
        Group::Process => "by process",
    }
}

fn group_word(group: Group) -> &'static str {
    match group {
        Group::Function => "function",
        Group::File => "file",
        Group::Line => "line",
        Group::Address => "address",
        Group::Module => "module",
        Group::Thread | Group::Process => "function",
    }
}

/// Names a group of columns in the title, ending where the group ends.
fn group(canvas: &mut Canvas<'_>, area: Rect, from: u16, end: u16, words: &str) {
    let wide = text::columns(words, 99) as u16;
    if from + wide < end && end < area.width {
        let style = canvas.style(Role::ColumnSorted);
        canvas.put(area.x + end - wide + 1, area.y, wide, words, style);
    }
}

fn heads(canvas: &mut Canvas<'_>, area: Rect, app: &App, plan: &Plan) {
    let y = area.y + 1;
    let role = |sort: Option<Sort>| if sort == Some(app.sort) { Role::ColumnSorted } else { Role::Column };
    let mut x = area.x + MARGIN;
    for (group, columns) in [&plan.window, &plan.total].into_iter().enumerate() {
        if group == 1 && !columns.is_empty() {
            let rule = canvas.style(Role::Rule);
            canvas.put(area.x + plan.bar, y, 1, "│", rule);
            x = area.x + plan.bar + 1;
        }
        for column in columns {
            let wide = column.width(plan.value);
            // The total is not sorted by, only shown.
            let style = canvas.style(role(column.sort().filter(|_| group == 0)));
            right(canvas, x, y, wide, column.head(), style);
            x += wide;
        }
    }
    if let Some(trend) = plan.trend {
        let style = canvas.style(Role::Column);
        canvas.put(area.x + trend, y, TREND_COLUMNS, "trend", style);
    }
    let style = canvas.style(Role::Column);
    let owners = if shown_group(app) == Group::Process { "process" } else { "thread" };
    canvas.put(area.x + plan.owner, y, plan.owner_columns, owners, style);
    let style = canvas.style(role(Some(Sort::Name)));
    canvas.put(area.x + plan.name, y, plan.name_columns, group_word(shown_group(app)), style);
    if plan.module_columns > 0 {
        let style = canvas.style(Role::Column);
        canvas.put(area.x + plan.module, y, plan.module_columns, "module", style);
    }
}

fn right(canvas: &mut Canvas<'_>, x: u16, y: u16, wide: u16, words: &str, style: Style) {
    let words_wide = text::columns(words, 99) as u16;
    canvas.put(x + wide.saturating_sub(words_wide), y, wide, words, style);
}

fn row(canvas: &mut Canvas<'_>, place: Rect, app: &App, plan: &Plan, bases: &Bases, unit: Unit, line: &Line<'_>) {
    let mut x = place.x + MARGIN;
    for column in &plan.window {
        number(
            canvas,
            &mut x,
            place.y,
            *column,
            plan.value,
            (line.window, line.changes.0),
            line.sum_ns,
            bases.window_ns,
            unit,
        );
    }
    if !plan.total.is_empty() {
        let rule = canvas.style(Role::Rule);
        canvas.put(place.x + plan.bar, place.y, 1, "│", rule);
        x = place.x + plan.bar + 1;
        for column in &plan.total {
            number(canvas, &mut x, place.y, *column, plan.value, (line.total, line.changes.1), 0, bases.total_ns, unit);
        }
    }
    if let (Some(at), Some(trend)) = (plan.trend, line.trend) {
        draw_trend(canvas, place.x + at, place.y, trend);
    }
    if plan.owner_columns > 0 {
        let owner = text::cut_middle(&line.row.owner, plan.owner_columns.into());
        let style = canvas.style(Role::Text);
        canvas.put(place.x + plan.owner, place.y, plan.owner_columns, &owner, style);
    }
    name(canvas, place, app, plan, line);
}

/// A row's share over the window, its highest part in full height, and a mark where it goes up or down.
fn draw_trend(canvas: &mut Canvas<'_>, x: u16, y: u16, trend: &Trend) {
    const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let shares = trend.shares.map(|share| if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
    let most = shares.iter().copied().fold(0.0_f32, f32::max);
    if most > 0.0 {
        for (at, share) in (x..).zip(shares) {
            // A part without a sample is blank.
            let level = ((share / most * 8.0).ceil() as usize).clamp(1, 8) - 1;
            let style = canvas.theme.heat(share.into());
            canvas.put(at, y, 1, if share > 0.0 { BARS[level] } else { " " }, style);
        }
    }
    let (mark, role) = match trend.direction {
        Direction::Rising => ("▲", Role::Bad),
        Direction::Falling => ("▼", Role::Good),
        Direction::Steady => return,
    };
    let style = canvas.style(role);
    canvas.put(x + PARTS as u16 + 1, y, 1, mark, style);
}

#[expect(clippy::too_many_arguments, reason = "one cell of a table, each argument one thing of it")]
fn number(
    canvas: &mut Canvas<'_>,
    x: &mut u16,
    y: u16,
    column: Column,
    value: u16,
    ((flat_ns, cum_ns), changes): ((u64, u64), Option<Changes>),
    sum_ns: u64,
    base_ns: u64,
    unit: Unit,
) {
    let (ns, share) = match column {
        Column::Flat => (flat_ns, false),
        Column::FlatShare => (flat_ns, true),
        Column::SumShare => (sum_ns, true),
        Column::Cum => (cum_ns, false),
        Column::CumShare => (cum_ns, true),
    };
    let change = changes.and_then(|changes| match column {
        Column::Flat | Column::FlatShare => Some(changes.flat),
        Column::Cum | Column::CumShare => Some(changes.cum),
        Column::SumShare => None,
    });
    let negative = change.is_some_and(|change| change.negative);
    let words = if share { measure::percentage(ns, base_ns) } else { measure::signed(ns, unit, negative) };
    let part = if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
    let style = match column {
        _ if ns == 0 => canvas.style(Role::Dim),
        Column::SumShare => canvas.style(Role::Dim),
        _ if change.is_some() => canvas.theme.change(change.unwrap_or_default()),
        Column::Flat | Column::FlatShare | Column::Cum | Column::CumShare => canvas.theme.heat(part),
    };
    let wide = column.width(value);
    right(canvas, *x, y, wide, &words, style);
    *x += wide;
}

fn name(canvas: &mut Canvas<'_>, place: Rect, app: &App, plan: &Plan, line: &Line<'_>) {
    let mark = match line.row.inline {
        Inline::No => "",
        Inline::Partial => " (partial-inline)",
        Inline::Yes => " (inline)",
    };
    // Where a name has no room, what it is called matters more than that it was inlined.
    let mark = if usize::from(plan.name_columns) < mark.len() + 24 { "" } else { mark };
    let room = usize::from(plan.name_columns).saturating_sub(mark.len());
    let full = match app.names {
        // The thread or process has its column.
        NameStyle::Full if plan.owner_columns > 0 => without_owner(&line.row.full),
        names => names.of(line.row),
    };
    let cut = match app.names {
        NameStyle::Full if app.list.pan() == 0 => text::cut_middle(full, room),
        _ => text::cut_left(full, room, app.list.pan().into()),
    };
    let matched = match &app.mode {
        Mode::Prompt(prompt, _) if prompt.subject == Subject::Find => {
            prompt.pattern().is_some_and(|pattern| pattern.matches(full))
        }
        Mode::Prompt(prompt, _) => prompt.pattern().is_some_and(|pattern| pattern.matches(&line.row.full)),
        _ => app.found.as_ref().is_some_and(|pattern| pattern.matches(full)),
    };
    let hue = canvas.theme.module(&line.row.module);
    let style = if matched { hue.patch(canvas.style(Role::Match)) } else { hue };
    let x = place.x + plan.name;
    let used = canvas.put(x, place.y, plan.name_columns, &cut, style);
    let dim = canvas.style(Role::Dim);
    canvas.put(x + used, place.y, plan.name_columns - used, mark, dim);
    if plan.module_columns > 0 {
        let module = text::cut_right(&line.row.module, plan.module_columns.saturating_sub(1).into());
        canvas.put(place.x + plan.module, place.y, plan.module_columns, &module, dim);
    }
}

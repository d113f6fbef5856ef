//! Draws the top pane: pprof's columns for the window and, if they fit, for the total beside it.
//!
//! ```text
//! ─ 1 Top ──────────────────────── last 10 s ────────────────────────────── total ────────────────────────── 3/212 by flat ─
//!       flat  flat%   sum%      cum   cum%  │     flat  flat%      cum   cum%  function                           module
//! ▸    6.22s 33.30% 33.30%    9.11s 48.70%  │   98.31s 31.20%  142.51s 45.20%  json::Parser::parse_value          server
//!      3.11s 16.60% 49.90%    3.11s 16.60%  │   51.02s 16.19%   51.02s 16.19%  memmove_avx                        libc.so.6
//! ```
//!
//! If rows are sorted by it, lat% follows: the share of wall-clock time in which the process ran.
//! Of fewer than 1 000 samples, or where threads run for shorter than ten periods at a time, it has
//! its margin, `80±3%`.
//!
//! The trend before the name (`▁▁▂▂▃▅▆▇ ▲`) is the share over the window, with an arrow if it rises
//! or falls significantly. If rows are grouped by thread or process, its name is before the
//! function's. In a [diff](super::diff), the numbers are shares before and now:
//!
//! ```text
//!    before%      now%  ▼Δ points            time  function
//! ▸    0.18% →  12.31%     +12.13   0.02s → 1.37s  json::Parser::parse_value
//!      3.93% →    gone      -3.93       0.43s → 0  gc::mark
//! ```

use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use crate::keyword::Keyword;
use crate::session::Facts;
use crate::symbols::worker::SymbolState;
use crate::tally::measure;
use crate::tally::memory_sum::MemorySum;
use crate::tally::query::{Grouping, Sort, without_owner};
use crate::tally::top::{InlineState, TopRow, TopTable};
use crate::tally::trend::{Direction, PARTS, Trend};
use crate::tui::canvas::Canvas;
use crate::tui::fit_names::NameToFit;
use crate::tui::layout::Pane;
use crate::tui::name_style::NameStyle;
use crate::tui::pane::bars::draw_bars;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::idle_row;
use crate::tui::pane::labels;
use crate::tui::pane::row_names;
use crate::tui::pane::sentences;
use crate::tui::pane::title::{self, TITLE_COLUMNS};
use crate::tui::pane::top::columns::{Column, MARGIN, TREND_COLUMNS, TopColumns, TopContents};
use crate::tui::pane::top::diff;
use crate::tui::pane::top::own_code;
use crate::tui::pane::top::owners;
use crate::tui::pane::top::state::JoinedRow;
use crate::tui::pane::top::waits;
use crate::tui::pane::waiting;
use crate::tui::text;
use crate::tui::theme::Role;

/// Minimum columns of a value.
const VALUE_COLUMNS: u16 = 6;
/// Columns of the decimals of a value, with the point.
const DECIMAL_COLUMNS: u16 = 3;
/// Maximum columns of the file that is the baseline.
const BASE_COLUMNS: usize = 24;
/// The margin of a count from which on it is dim.
const DIM_MARGIN: f64 = 0.2;
/// Samples that a row needs for a trend. With fewer it shows chance.
const TREND_SAMPLES: u64 = 5;

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let active = context.is_active(Pane::Top);
    let Some(answer) = context.answer else {
        title::draw_title(
            canvas,
            area,
            Some(Pane::Top),
            Pane::Top.name(),
            active,
            &remarks(canvas, context, area.width),
        );
        return sentences::draw_sentences(canvas, below(area, 1), &waiting::waiting(context));
    };
    let plan = plan(context, area);
    // Remarks are to the right of the titles of column groups.
    let has_total = !plan.total.is_empty();
    let room = if has_total { (area.width + TITLE_COLUMNS).saturating_sub(plan.name) } else { area.width };
    let words = remarks(canvas, context, room);
    let left = title::draw_title(canvas, area, Some(Pane::Top), Pane::Top.name(), active, &words);
    if has_total {
        let window = format!(" {} ", labels::shown_time(context));
        let end = plan.bar.saturating_sub(2);
        group(canvas, area, left, end, &window);
        group(canvas, area, left.max(plan.bar), plan.name.saturating_sub(2), " total ");
    }
    if context.panes.top.is_empty() {
        return sentences::draw_sentences(canvas, below(area, 1), &waiting::waiting(context));
    }
    let area = waits::draw(canvas, area, context, &answer.waits);
    heads(canvas, area, context, &plan);
    let bases = Bases::new(context, &answer.window, &answer.total);
    let selected = context.panes.top.selection().map(|(index, _)| index);
    idle_row::draw_idle_row(canvas, area, context);
    let lines: Vec<(usize, JoinedRow<'_>)> =
        context.panes.top.view().take(area.height.saturating_sub(2).into()).collect();
    let names = fit_row_names(context, &plan, &lines);
    let owners: Vec<&str> = lines.iter().map(|(_, line)| &*line.row.owner).collect();
    let owners = owners::fit_owners(&owners, plan.owner_columns.into());
    let texts = names.iter().zip(&owners);
    for (y, ((index, line), (name, owner))) in (area.y + 2..area.bottom()).zip(lines.iter().zip(texts)) {
        let (index, place) = (*index, Rect { y, height: 1, ..area });
        row(canvas, place, context, &plan, &bases, line);
        canvas.put(place.x + plan.owner, y, plan.owner_columns, owner, canvas.style(Role::Text));
        draw_name(canvas, place, context, &plan, line, name);
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

/// The columns for a pane of this area.
fn plan(context: &PaneContext<'_>, area: Rect) -> TopColumns {
    let Some(answer) = context.answer else { return TopColumns::new(area.width, TopContents::default()) };
    // Leaves a gap between names and the bar to the next pane.
    let width = area.width - u16::from(area.right() < context.screen.size.0);
    let is_diff = answer.baseline_ns.is_some();
    let columns = |has_total: bool| {
        let most_ns =
            if has_total { answer.total.total_ns.max(answer.window.total_ns) } else { answer.window.total_ns };
        // A whole number has no decimals, but its parts may have.
        let most = measure::value(most_ns, context.session.unit());
        let decimals = if most.contains('.') { 0 } else { DECIMAL_COLUMNS };
        let least = measure::shown(1, context.session.unit()).len() as u16;
        let widest = (most.len() as u16 + decimals).max(least) + u16::from(is_diff);
        let contents = TopContents {
            sort: context.question.sort,
            is_diff,
            has_total,
            has_trends: !answer.trends.rows.is_empty(),
            // The samples of a saved profile may have one time, or none.
            has_latency: answer.window.latency_ns > 0 && answer.facts.origin.is_none(),
            is_memory: answer.facts.clock.is_memory(),
            is_folded: answer.question.own.folds,
            has_owners: answer.question.group.owner().is_some(),
            has_titles: answer.question.group == Grouping::Title,
            value: widest.max(VALUE_COLUMNS),
        };
        TopColumns::new(width, contents)
    };
    // Without the total's columns, values are narrower.
    let both = columns(answer.question.window_ns.is_some());
    if both.total.is_empty() { columns(false) } else { both }
}

/// Whether the total is shown beside the window.
pub fn shows_total(context: &PaneContext<'_>, area: Rect) -> bool {
    !plan(context, area).total.is_empty()
}

/// Bases of percentages, ns.
struct Bases {
    window_ns: u64,
    total_ns: u64,
    /// The bases of shares before and now, in a diff.
    diff_ns: (u64, u64),
    /// The mean weight of a sample, ns.
    sample_ns: u64,
    /// The base of latencies, ns, the number of samples, and the part that is not known.
    latency: (u64, u64, u64),
    /// The mean number of bytes between two samples of memory; 0 of time.
    interval: u64,
}

impl Bases {
    fn new(context: &PaneContext<'_>, window: &TopTable, total: &TopTable) -> Bases {
        Bases {
            window_ns: context.base_ns(window),
            total_ns: context.base_ns(total),
            diff_ns: context.diff_bases_ns(),
            sample_ns: window.total_ns / window.samples.max(1),
            latency: match context.question.relative {
                true => (window.kept_latency_ns, window.kept_samples, window.unknown_latency),
                false => (window.latency_ns, window.samples, window.unknown_latency),
            },
            interval: window.interval,
        }
    }
}

/// Describes pending symbolization: the number of frames or, if all have names from symbol tables,
/// the files whose line tables are being read, which can take seconds.
fn symbolizing(facts: &Facts, room: usize) -> Option<String> {
    let (pending, all) = facts.symbolizing;
    if pending == 0 || !facts.waits_for_names {
        return None;
    }
    let mut read = facts.files.iter().filter(|(_, state)| *state == SymbolState::Reading).map(|(file, _)| file);
    let done = || measure::count(all.saturating_sub(pending) as u64);
    let ways = match (read.next(), read.count()) {
        (Some(file), 0) => {
            [format!("reading line tables of {file}"), format!("reading {file}"), "reading line tables".to_owned()]
        }
        (Some(_), more) => [
            format!("reading line tables of {} files", more + 1),
            "reading line tables".to_owned(),
            "reading lines".to_owned(),
        ],
        (None, _) => {
            let all = measure::count(all as u64);
            [format!("symbolizing {}/{all}", done()), format!("{}/{all} names", done()), "symbolizing".to_owned()]
        }
    };
    ways.into_iter().find(|way| text::columns(way, 999) <= room)
}

/// Remarks in the title.
fn remarks(canvas: &Canvas<'_>, context: &PaneContext<'_>, width: u16) -> Vec<Span<'static>> {
    let mut words: Vec<(u8, String, Role)> = Vec::new();
    let group = shown_group(context);
    let room = width.saturating_sub(TITLE_COLUMNS).into();
    let waited = context.answer.and_then(|answer| symbolizing(&answer.facts, room));
    words.extend(waited.map(|words| (4, words, Role::Notable)));
    if let Some(answer) = context.answer.filter(|answer| answer.baseline_ns.is_some()) {
        let measured = if context.question.sort.is_by_cum() { "cum" } else { "flat" };
        let time = match (answer.question.window_ns, &context.options.base) {
            (None, Some(base)) => format!("diff against {}", text::cut_left(base, BASE_COLUMNS)),
            (None, None) => "diff".to_owned(),
            _ => labels::shown_time(context),
        };
        words.push((7, format!("{time}, {measured}"), Role::Notable));
        let both = measure::duration(Duration::from_nanos(answer.overlap_ns));
        words.extend((answer.overlap_ns > 0).then(|| (6, format!("windows overlap by {both}"), Role::Notable)));
    }
    if !context.panes.top.is_empty() {
        let all = measure::count(context.panes.top.len() as u64);
        let is_cut = context.panes.top.offset() > 0 || context.panes.top.is_cut();
        let place = context.panes.top.selection().filter(|_| is_cut);
        let place = place.map_or(String::new(), |(index, _)| format!("{}/", measure::count(index as u64 + 1)));
        words.push((1, format!("{place}{all} {}", plural(group.row_title(), context.panes.top.len())), Role::Title));
    }
    if group != Grouping::Function {
        words.push((6, group.word().label.to_owned(), Role::Notable));
    }
    words.extend(own_code::remark(context).map(|own| (6, own, Role::Notable)));
    if context.panes.top.trunk_len() > 0 {
        words.push((2, format!("trunk: last {}", context.panes.top.trunk_len()), Role::Title));
    }
    if context.question.relative {
        words.push((5, "% of kept samples".to_owned(), Role::Notable));
    }
    match context.screen.names {
        NameStyle::Short => {}
        NameStyle::Full => words.push((2, "full names".to_owned(), Role::Title)),
        NameStyle::Bare => words.push((2, "bare names".to_owned(), Role::Title)),
    }
    title::fit_remarks(canvas, words, width)
}

/// A noun for this number of things.
fn plural(noun: &str, count: usize) -> String {
    match count {
        1 => noun.to_owned(),
        _ if noun.ends_with('s') => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// The grouping of the answer.
fn shown_group(context: &PaneContext<'_>) -> Grouping {
    context.answer.map_or(context.question.group, |answer| answer.question.group)
}

/// Writes the title of a group of columns, right-aligned with the group.
fn group(canvas: &mut Canvas<'_>, area: Rect, from: u16, end: u16, words: &str) {
    let wide = text::columns(words, 99) as u16;
    if from + wide < end && end < area.width {
        let style = canvas.style(Role::ColumnSorted);
        canvas.put(area.x + end - wide + 1, area.y, wide, words, style);
    }
}

fn heads(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, plan: &TopColumns) {
    let y = area.y + 1;
    let mut x = area.x + MARGIN;
    for (group, columns) in [&plan.window, &plan.total].into_iter().enumerate() {
        if group == 1 && !columns.is_empty() {
            let rule = canvas.style(Role::Rule);
            canvas.put(area.x + plan.bar, y, 1, "│", rule);
            x = area.x + plan.bar + 1;
        }
        for column in columns {
            let wide = column.width(plan.value);
            // The total is not a sort key.
            let is_sorted = group == 0 && plan.sorted == Some(*column);
            let style = canvas.style(if is_sorted { Role::ColumnSorted } else { Role::Column });
            let head = if is_sorted { format!("▼{}", column.head()) } else { column.head().to_owned() };
            right(canvas, x, y, wide, &head, style);
            x += wide;
        }
    }
    if let Some(trend) = plan.trend {
        let style = canvas.style(Role::Column);
        canvas.put(area.x + trend, y, TREND_COLUMNS, "trend/max", style);
    }
    let style = canvas.style(Role::Column);
    let owners = match shown_group(context) {
        Grouping::Process => "process",
        Grouping::Title => "title",
        _ => "thread",
    };
    canvas.put(area.x + plan.owner, y, plan.owner_columns, owners, style);
    let by_name = context.question.sort == Sort::Name;
    let style = canvas.style(if by_name { Role::ColumnSorted } else { Role::Column });
    let head = format!("{}{}", if by_name { "▲" } else { "" }, shown_group(context).row_title());
    canvas.put(area.x + plan.name, y, plan.name_columns, &head, style);
    if plan.module_columns > 0 {
        let style = canvas.style(Role::Column);
        let head = if own_code::is_folded(context) { own_code::HEAD } else { "module" };
        canvas.put(area.x + plan.module, y, plan.module_columns, head, style);
    }
}

fn right(canvas: &mut Canvas<'_>, x: u16, y: u16, wide: u16, words: &str, style: Style) {
    let words_wide = text::columns(words, 99) as u16;
    canvas.put(x + wide.saturating_sub(words_wide), y, wide, words, style);
}

fn row(
    canvas: &mut Canvas<'_>,
    place: Rect,
    context: &PaneContext<'_>,
    plan: &TopColumns,
    bases: &Bases,
    line: &JoinedRow<'_>,
) {
    let mut x = place.x + MARGIN;
    for column in &plan.window {
        let wide = column.width(plan.value);
        let (words, style) = match column {
            Column::Before | Column::Now | Column::Points | Column::Times => {
                diff::cell(canvas, context, *column, line, bases.diff_ns)
            }
            Column::Latency => latency_cell(canvas, line.latency_ns, bases.latency),
            Column::Count => count_cell(canvas, bases, line),
            _ => cell(canvas, context, *column, (line, line.window), bases.window_ns),
        };
        right(canvas, x, place.y, wide, &words, style);
        if *column == Column::Now {
            let dim = canvas.style(Role::Dim);
            canvas.put(x + 1, place.y, 1, "→", dim);
        }
        x += wide;
    }
    if !plan.total.is_empty() {
        let rule = canvas.style(Role::Rule);
        canvas.put(place.x + plan.bar, place.y, 1, "│", rule);
        x = place.x + plan.bar + 1;
        for column in &plan.total {
            let wide = column.width(plan.value);
            let (words, style) = cell(canvas, context, *column, (line, line.total), bases.total_ns);
            right(canvas, x, place.y, wide, &words, style);
            x += wide;
        }
    }
    let has_samples = line.window.0 >= bases.sample_ns.saturating_mul(TREND_SAMPLES);
    if let (Some(at), Some(trend), true) = (plan.trend, line.trend, has_samples) {
        draw_trend(canvas, place.x + at, place.y, trend);
    }
}

/// Draws a row's share over the window, scaled to its maximum, and an arrow if it rises or falls.
fn draw_trend(canvas: &mut Canvas<'_>, x: u16, y: u16, trend: &Trend) {
    let shares = trend.shares.map(|share| if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
    let most = shares.iter().copied().fold(0.0_f32, f32::max);
    if most > 0.0 {
        draw_bars(canvas, x, y, shares.map(|share| f64::from(share / most)));
    }
    let (mark, role) = match trend.direction {
        Direction::Rising => ("▲", Role::Bad),
        Direction::Falling => ("▼", Role::Good),
        Direction::Steady => return,
    };
    let style = canvas.style(role);
    canvas.put(x + PARTS as u16 + 1, y, 1, mark, style);
}

/// A number of a row, and its style.
fn cell(
    canvas: &Canvas<'_>,
    context: &PaneContext<'_>,
    column: Column,
    (line, (flat_ns, cum_ns)): (&JoinedRow<'_>, (u64, u64)),
    base_ns: u64,
) -> (String, Style) {
    let (ns, is_share) = match column {
        Column::Flat | Column::Folded => (flat_ns, false),
        Column::Own => (flat_ns.saturating_sub(line.library_ns), false),
        Column::Library => (line.library_ns, false),
        Column::FlatShare => (flat_ns, true),
        Column::SumShare => (line.sum_ns, true),
        Column::Cum => (cum_ns, false),
        _ => (cum_ns, true),
    };
    let words = if is_share { measure::share(ns, base_ns) } else { measure::shown(ns, context.session.unit()) };
    let part = if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
    let is_dim = ns == 0 || column == Column::SumShare;
    (words, if is_dim { canvas.style(Role::Dim) } else { canvas.theme.heat(part) })
}

/// The share of the wall-clock time, and its style. Where chance has much of it, it is dim.
fn latency_cell(canvas: &Canvas<'_>, ns: u64, (base_ns, samples, unknown): (u64, u64, u64)) -> (String, Style) {
    let (words, is_rough) = measure::rough_share(ns, base_ns, samples, unknown);
    let part = if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
    (words, if is_rough || ns == 0 { canvas.style(Role::Dim) } else { canvas.theme.heat(part) })
}

/// The number of allocations with its margin. Where chance has much of it, it is dim.
fn count_cell(canvas: &Canvas<'_>, bases: &Bases, line: &JoinedRow<'_>) -> (String, Style) {
    let margin = MemorySum { bytes: line.window.1, objects: line.latency_ns }.count_margin(bases.interval);
    let style = if margin >= DIM_MARGIN { Role::Dim } else { Role::Text };
    let margin = if line.changes.is_some() || bases.interval == 0 { 0.0 } else { margin };
    (measure::rough_count(line.latency_ns, margin), canvas.style(style))
}

/// The mark of an inlined function. If there is little room, the name has priority.
fn inline_mark(row: &TopRow, plan: &TopColumns) -> &'static str {
    let mark = match row.inline {
        InlineState::No => "",
        InlineState::Partial => " (partial-inline)",
        InlineState::Yes => " (inline)",
    };
    if usize::from(plan.name_columns) < mark.len() + 24 { "" } else { mark }
}

/// The names of the visible rows as they are shown.
fn fit_row_names(context: &PaneContext<'_>, plan: &TopColumns, lines: &[(usize, JoinedRow<'_>)]) -> Vec<String> {
    let mut names = Vec::with_capacity(lines.len());
    for (_, JoinedRow { row, .. }) in lines {
        let room = usize::from(plan.name_columns).saturating_sub(inline_mark(row, plan).len());
        // The thread or process has a column of its own.
        let full = if plan.owner_columns > 0 { without_owner(&row.full) } else { &row.full };
        names.push(NameToFit { full, short: &row.short, room });
    }
    row_names::fit_names(context, &names)
}

fn draw_name(
    canvas: &mut Canvas<'_>,
    place: Rect,
    context: &PaneContext<'_>,
    plan: &TopColumns,
    line: &JoinedRow<'_>,
    name: &str,
) {
    let matched = context.is_match(&line.row.full, context.screen.names.of(line.row));
    let hue = own_code::name_style(canvas, line.row.is_own, &line.row.module);
    let style = if matched { hue.patch(canvas.style(Role::Match)) } else { hue };
    let x = place.x + plan.name;
    let used = canvas.put(x, place.y, plan.name_columns, name, style);
    let dim = canvas.style(Role::Dim);
    let used = used + canvas.put(x + used, place.y, plan.name_columns - used, inline_mark(line.row, plan), dim);
    if own_code::is_folded(context) {
        let call = match plan.module_columns {
            0 => Rect { x: x + used, width: plan.name_columns - used, ..place },
            columns => Rect { x: place.x + plan.module, width: columns, ..place },
        };
        own_code::draw_library_call(canvas, call, context, &line.row.library_call, plan.module_columns == 0);
    } else if plan.module_columns > 0 {
        let module = text::cut_right(&line.row.module, plan.module_columns.saturating_sub(1).into());
        canvas.put(place.x + plan.module, place.y, plan.module_columns, &module, dim);
    }
}

//! Draws the tree of callers and callees of the selected function, each with its share of the
//! function's cum, like pprof's `-peek`.
//!
//! ```text
//! ─ 2 Callers ─────────────────────────────────
//!    12%  ▇          ▸ handle_request
//!     9%  ▇            ▸ server::worker_loop
//!    54%  ▇▇▇▇       ▾ json::Parser::parse_array
//! ── 2 callers ────────────────────────────────
//!  json::Parser::parse_value            server
//!  flat 6.22s 33.30%   cum 9.11s 48.70%
//! ── 2 callees ────────────────────────────────
//!    20%  ▇▇         ▸ core::str::from_utf8
//!    12%  ▇          ▸ alloc::raw_vec::grow
//! ```
//!
//! The center keeps its rows when callers and callees come and go. If there is little room, the
//! rules are omitted first, then the center's numbers.

use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::tally::callers::{CallEdge, Callers};
use crate::tally::change::Change;
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::fit_line::{self, Segment};
use crate::tui::fit_names::NameToFit;
use crate::tui::layout::Pane;
use crate::tui::pane::callers::state::TreeRow;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::row_names;
use crate::tui::pane::sentences;
use crate::tui::pane::title;
use crate::tui::pane::waiting;
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns of a percentage, of a difference in percentage points, and of the time behind it, which
/// narrow panes leave out.
const PERCENT_COLUMNS: u16 = 7;
const POINTS_COLUMNS: u16 = 8;
const CHANGE_COLUMNS: u16 = 9;
/// Columns of a bar, and of a bar in a narrow pane, with the gap before it.
const BAR_COLUMNS: u16 = 9;
const SHORT_BAR_COLUMNS: u16 = 5;
/// Columns of a pane that has the longer bar.
const BAR_FROM_COLUMNS: u16 = 48;
/// Columns of the indentation of a level, and of the sign before a name.
const LEVEL_COLUMNS: u16 = 2;
const SIGN_COLUMNS: u16 = 2;
/// Maximum number of levels that are indented.
const MAX_LEVELS: usize = 12;
/// Columns before the first number.
const MARGIN: u16 = 1;

/// Rows of the pane for callers, center and callees, below the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Rows for callers.
    pub above: u16,
    /// Rows of the center, including its rules.
    pub centre: u16,
    /// Rows for callees.
    pub below: u16,
}

/// Divides the rows of an area.
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

/// The pane's row at a row of the screen: negative for callers, positive for callees, 0 for the
/// center.
pub fn row_at(area: Rect, row: u16, (above, below): (usize, usize)) -> Option<isize> {
    let rows = rows(area);
    let row = row.checked_sub(area.y + 1)?;
    Some(match row.checked_sub(rows.above) {
        None => -((rows.above - row) as isize + above as isize),
        Some(inside) if inside < rows.centre => 0,
        Some(inside) => (inside - rows.centre + 1) as isize + below as isize,
    })
}

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let active = context.is_active(Pane::Callers);
    title::draw_title(canvas, area, Some(Pane::Callers), Pane::Callers.name(), active, &[]);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let Some(callers) = context.answer.and_then(|answer| answer.callers.as_ref()) else {
        return;
    };
    if callers.short.is_empty() {
        return sentences::draw_sentences(canvas, body, &waiting::absent(context, &callers.full));
    }
    let rows = rows(area);
    centre(canvas, Rect { y: body.y + rows.above, height: rows.centre, ..body }, context, callers);
    let (above, below) = context.panes.callers.scrolled();
    let callers_rows =
        (0..rows.above).map(|index| (body.y + rows.above - 1 - index, -((usize::from(index) + above + 1) as isize)));
    let first_y = body.y + rows.above + rows.centre;
    let callees_rows = (0..rows.below).map(|index| (first_y + index, (usize::from(index) + below + 1) as isize));
    let shown: Vec<ShownRow<'_>> = callers_rows
        .chain(callees_rows)
        .filter_map(|(y, row)| {
            let (tree_row, edge) = (context.panes.callers.tree_row(row)?, context.panes.callers.edge_at(callers, row)?);
            Some(ShownRow { row, tree_row, edge, area: Rect { y, height: 1, ..body } })
        })
        .collect();
    let names: Vec<NameToFit<'_>> = shown.iter().map(ShownRow::name_to_fit).collect();
    for (row, name) in shown.iter().zip(row_names::fit_names(context, &names)) {
        row.draw(canvas, context, callers, &name, active);
    }
    let sides = [
        (callers.callers.is_empty() && rows.above > 0, body.y + rows.above.saturating_sub(1), "no callers sampled"),
        (callers.callees.is_empty() && rows.below > 0, body.y + rows.above + rows.centre, "no callees sampled"),
    ];
    for (empty, y, words) in sides {
        if empty {
            let dim = canvas.style(Role::Dim);
            canvas.put(body.x + MARGIN, y, body.width.saturating_sub(MARGIN), words, dim);
        }
    }
}

fn centre(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, callers: &Callers) {
    let [strong, dim] = [Role::Strong, Role::Dim].map(|role| canvas.style(role));
    let mut y = area.y;
    if area.height >= 4 {
        rule(canvas, Rect { y, ..area }, callers.callers.len(), "caller");
        y += 1;
        rule(canvas, Rect { y: area.bottom() - 1, ..area }, callers.callees.len(), "callee");
    }
    let room = usize::from(area.width.saturating_sub(2));
    let short = &*row_names::name_with_owner(context, &callers.short, &callers.full);
    let name = context.screen.names.pick(&callers.full, short);
    // The module is shown only if the whole name fits beside it.
    let beside =
        *callers.module != *name && text::columns(name, room) + 2 + text::columns(&callers.module, room) <= room;
    let module = if beside { callers.module.as_str() } else { "" };
    let name_room = room.saturating_sub(text::columns(module, room));
    let hue = strong.patch(canvas.theme.module(&callers.module));
    let cut = row_names::fit_name(context, &callers.full, short, name_room);
    canvas.put(area.x + 1, y, area.width.saturating_sub(1), &cut, hue);
    let wide = text::columns(module, room) as u16;
    canvas.put(area.right().saturating_sub(wide + 1), y, wide, module, dim);
    if area.height < 2 {
        return;
    }
    let base_ns = context.window_base_ns();
    let number = |label: &str, ns: u64, change: Option<Change>| {
        let part = if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
        let heat = change.map_or_else(|| canvas.theme.heat(part), |change| canvas.theme.change(change));
        let negative = change.is_some_and(|change| change.negative);
        let value = Span::styled(measure::signed(ns, context.session.unit(), negative), heat);
        let share = Span::styled(format!(" {}", measure::percentage(ns, base_ns).trim_start()), heat);
        let label = Span::styled(format!("{label} "), dim);
        let segment = match change {
            // A time has no share of two windows.
            Some(_) => Segment::new(1),
            None => Segment::new(1).or(vec![label.clone(), value.clone(), share]),
        };
        segment.or(vec![label, value]).or_nothing()
    };
    let (flat, cum) = (callers.changes.map(|changes| changes.flat), callers.changes.map(|changes| changes.cum));
    let line = fit_line::fit(&[number("flat", callers.flat_ns, flat), number("cum", callers.cum_ns, cum)], room);
    canvas.spans(area.x + 1, y + 1, room as u16, &line);
}

/// Draws a rule with the number of callers or callees.
fn rule(canvas: &mut Canvas<'_>, place: Rect, count: usize, what: &str) {
    let words = match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        count => format!("{} {what}s", measure::count(count as u64)),
    };
    canvas.rule(place.x, place.y, place.width);
    let dim = canvas.style(Role::Column);
    let wide = place.width.saturating_sub(3);
    canvas.put(place.x + 2, place.y, wide, &format!(" {words} "), dim);
}

fn indent(row: &TreeRow) -> u16 {
    row.depth().min(MAX_LEVELS) as u16 * LEVEL_COLUMNS
}

/// The mark of a call that is always inlined.
const INLINE: &str = " (inline)";

/// A row of the tree on the screen.
struct ShownRow<'a> {
    row: isize,
    tree_row: &'a TreeRow,
    edge: &'a CallEdge,
    area: Rect,
}

impl ShownRow<'_> {
    /// Columns of the bar, with the gap before it.
    fn bar_columns(&self) -> u16 {
        if self.area.width >= BAR_FROM_COLUMNS { BAR_COLUMNS } else { SHORT_BAR_COLUMNS }
    }

    /// Columns of a difference.
    fn change_columns(&self) -> u16 {
        if self.area.width >= BAR_FROM_COLUMNS { POINTS_COLUMNS + CHANGE_COLUMNS } else { POINTS_COLUMNS }
    }

    /// Columns before the sign.
    fn sign_column(&self) -> u16 {
        let is_change = self.edge.change.is_some();
        let numbers = if is_change { self.change_columns() } else { PERCENT_COLUMNS + self.bar_columns() };
        MARGIN + numbers + 1 + indent(self.tree_row).min(self.area.width / 3)
    }

    /// Columns of the name and the mark behind it.
    fn name_columns(&self) -> u16 {
        self.area.width.saturating_sub(self.sign_column() + SIGN_COLUMNS)
    }

    fn mark(&self) -> &'static str {
        if self.edge.inlined && self.name_columns() > 30 { INLINE } else { "" }
    }

    fn name_to_fit(&self) -> NameToFit<'_> {
        let room = usize::from(self.name_columns()).saturating_sub(self.mark().len());
        NameToFit { full: &self.edge.full, short: &self.edge.short, room }
    }

    fn draw(&self, canvas: &mut Canvas<'_>, context: &PaneContext<'_>, callers: &Callers, name: &str, active: bool) {
        let ShownRow { edge, area, .. } = *self;
        let (words, wide, style) = match edge.change {
            Some(change) => {
                let now_ns = match change.negative {
                    true => edge.before_ns.saturating_sub(edge.weight_ns),
                    false => edge.before_ns.saturating_add(edge.weight_ns),
                };
                let words = measure::points((edge.before_ns, now_ns), context.diff_bases_ns());
                (words, POINTS_COLUMNS, canvas.theme.change(change))
            }
            None => {
                let part = if callers.whole_ns == 0 { 0.0 } else { edge.weight_ns as f64 / callers.whole_ns as f64 };
                let bar = f64::from(self.bar_columns() - 1);
                let cells = (part.clamp(0.0, 1.0) * bar).round() as usize;
                let words = format!(
                    "{:>wide$} {}",
                    measure::share(edge.weight_ns, callers.whole_ns),
                    "▇".repeat(cells),
                    wide = usize::from(PERCENT_COLUMNS)
                );
                (words, 0, canvas.theme.heat(part))
            }
        };
        let put = |canvas: &mut Canvas<'_>, column: u16, words: &str, style| {
            canvas.put(area.x + column, area.y, area.width.saturating_sub(column), words, style)
        };
        put(canvas, MARGIN + wide.saturating_sub(text::columns(&words, 99) as u16), &words, style);
        if let Some(change) = edge.change.filter(|_| self.change_columns() > POINTS_COLUMNS) {
            let sign = if change.negative || edge.weight_ns == 0 { "" } else { "+" };
            let words = format!("{sign}{}", measure::signed(edge.weight_ns, context.session.unit(), change.negative));
            let end = MARGIN + self.change_columns();
            put(canvas, end.saturating_sub(text::columns(&words, 99) as u16), &words, canvas.style(Role::Dim));
        }
        let sign = match (self.tree_row.is_unfolded, edge.children.is_empty()) {
            (false, _) => "▸",
            (true, false) => "▾",
            // It is the root or a leaf.
            (true, true) => "·",
        };
        let dim = canvas.style(Role::Dim);
        put(canvas, self.sign_column(), sign, dim);
        let matched = context.is_match(&edge.full, context.screen.names.pick(&edge.full, &edge.short));
        let hue = if edge.is_own { canvas.theme.module(&edge.module) } else { dim };
        let style = if matched { hue.patch(canvas.style(Role::Match)) } else { hue };
        let start = self.sign_column() + SIGN_COLUMNS;
        let used = put(canvas, start, name, style);
        put(canvas, start + used, self.mark(), dim);
        if self.row == context.panes.callers.row() && active {
            put(canvas, 0, "▸", canvas.style(Role::TitleActive));
            canvas.tint(area, canvas.theme.selected(true));
        }
    }
}

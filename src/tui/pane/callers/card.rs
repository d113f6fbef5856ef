//! Draws the card of the selected function beside the top pane: who calls it, what it calls, its
//! hottest lines, when it ran and in which threads.
//!
//! ```text
//! ─ 2 score (work.py:2) ────────── 76.10% self · 77.30% with callees ─
//!  called by    100%  main › run › price › <genexpr>
//!  calls       1.20%  memcmp
//!              0.60%  pthread_self
//! ── hottest lines · work.py ─────────────────────────────────────────
//!            4 │ t=0
//!   15.10%   5 │ for c in o["name"]:
//!   61.00%   6 │     t=(t*31+ord(c))&0xffffffff
//!            7 │ return t
//! ────────────────────────────────────────────────────────────────────
//!  last minute  ▅▆▇▇▆▇▇▇▇▆▅▅▇▇▇▇▇ up to 84%
//!  threads     99.20% MainThread
//! ```
//!
//! The shares in the title are shares of all time, those below are shares of the function's time
//! with callees. Of a function without source, the hottest instructions are shown.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::excerpt;
use crate::session::SourceListing;
use crate::tally::activity::RowActivity;
use crate::tally::callers::{CallEdge, Callers};
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::fit_line::{self, Segment};
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::layout::Pane;
use crate::tui::name_parts::bare_name;
use crate::tui::pane::bars::draw_bars;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::row_names;
use crate::tui::pane::sentences;
use crate::tui::pane::source::draw as source;
use crate::tui::pane::title;
use crate::tui::pane::waiting;
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns of the title around the name and its shares, and of the shorter share.
const TITLE_COLUMNS: usize = 9;
const OWN_SHARE_COLUMNS: usize = 12;
/// Columns of the words before values, and of a share with the gap behind it.
const LABEL_COLUMNS: u16 = 12;
const SHARE_COLUMNS: u16 = 8;
/// Minimum rows for the last minute and the threads.
const ACTIVITY_FROM_ROWS: u16 = 7;
/// Maximum rows of callers and of callees if lines are shown too.
const MOST_NEIGHBORS: usize = 5;
/// Rows of the card for each row of callers or callees beyond the first.
const ROWS_PER_NEIGHBOR: usize = 6;
/// The text between a caller and what it calls.
const NEXT: &str = " › ";

/// Draws the card.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let Some((answer, callers)) = context.answer.and_then(|answer| Some((answer, answer.callers.as_ref()?))) else {
        title::draw_title(canvas, area, Some(Pane::Callers), Pane::Callers.name(), false, &[]);
        return;
    };
    draw_card_title(canvas, area, context, callers);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if callers.short.is_empty() {
        return sentences::draw_sentences(canvas, body, &waiting::absent(context, &callers.full));
    }
    let listing = answer.listing.as_ref().filter(|listing| listing.lines.full == callers.full);
    // Threads and waits have no module, and no lines.
    let listing = listing.filter(|_| !callers.module.is_empty());
    let activity = answer.activity.as_ref().filter(|_| body.height >= ACTIVITY_FROM_ROWS);
    let activity_rows = if activity.is_some() { 3 } else { 0 };
    let above = Rect { height: body.height - activity_rows, ..body };
    let has_lines = listing.is_some_and(|listing| !hot_rows(context, listing).is_empty());
    let most = match has_lines {
        true => MOST_NEIGHBORS.min(1 + usize::from(body.height) / ROWS_PER_NEIGHBOR),
        // One row says why there are no lines.
        false => usize::from(above.height.saturating_sub(2)) / 2,
    };
    let mut painter = CardPainter { canvas, context, callers, area: above, y: above.y };
    painter.draw_callers(most);
    painter.draw_callees(most);
    if let Some(listing) = listing {
        painter.draw_lines(listing);
    }
    if let Some(activity) = activity {
        (painter.area, painter.y) = (body, painter.y.min(above.bottom()));
        painter.draw_activity(activity);
    }
}

/// Draws the name of the function and its shares of all time.
fn draw_card_title(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, callers: &Callers) {
    let base_ns = context.window_base_ns();
    let dim = canvas.style(Role::Dim);
    let number = |ns: u64, words: &str| {
        let part = if base_ns == 0 { 0.0 } else { ns as f64 / base_ns as f64 };
        let share = measure::percentage(ns, base_ns).trim_start().to_owned();
        [Span::styled(share, canvas.theme.heat(part)), Span::styled(format!(" {words}"), dim)]
    };
    let own = number(callers.flat_ns, "self").to_vec();
    let both = [own.clone(), vec![Span::styled(" · ", dim)], number(callers.cum_ns, "with callees").to_vec()].concat();
    let shares = Segment::new(1).or(both).or(own);
    // A row that filters have taken has no short name.
    let selected =
        context.panes.top.selected_names().filter(|_| context.panes.top.selected_name() == Some(&callers.full));
    let short = if callers.short.is_empty() { selected.map_or("", |(short, _)| short) } else { &callers.short };
    let short = row_names::name_with_owner(context, short, &callers.full);
    // The name comes first, but the time in the function itself is always said.
    let left = usize::from(area.width).saturating_sub(TITLE_COLUMNS);
    let beside = left.saturating_sub(text::columns(context.screen.names.pick(&callers.full, &short), left));
    let right = match callers.short.is_empty() {
        true => Vec::new(),
        false => fit_line::fit(&[shares], beside.max(OWN_SHARE_COLUMNS)),
    };
    let room = left.saturating_sub(fit_line::width(&right));
    let name = fit_name(&NameToFit { full: &callers.full, short: &short, room }, context.screen.names);
    title::draw_title(canvas, area, Some(Pane::Callers), &name, false, &right);
}

/// The rows of the function's listing that have weight, with it: lines of its source, or its
/// instructions if the source is unavailable.
fn hot_rows(context: &PaneContext<'_>, listing: &SourceListing) -> Vec<(usize, u64)> {
    match context.panes.source.text(listing) {
        Some(source) => {
            let lines =
                listing.lines.lines.iter().filter(|line| Some(line.file.as_str()) == context.panes.source.file());
            let rows = lines.filter_map(|line| Some(((line.line as usize).checked_sub(1)?, line.cum_ns)));
            rows.filter(|&(row, _)| row < source.lines.len()).collect()
        }
        None => {
            let weight = |(index, row): (usize, usize)| (index, context.panes.source.row_weight(row).cum().0);
            instruction_rows(context)
                .into_iter()
                .enumerate()
                .map(weight)
                .filter(|&(_, weight_ns)| weight_ns > 0)
                .collect()
        }
    }
}

/// The rows of the assembly that are instructions, not titles or source lines.
fn instruction_rows(context: &PaneContext<'_>) -> Vec<usize> {
    let assembly = context.panes.source.rows();
    (0..assembly.rows.len()).filter(|&row| assembly.instruction(row).is_some()).collect()
}

/// Draws the sections of the card below each other.
struct CardPainter<'a, 'c> {
    canvas: &'a mut Canvas<'c>,
    context: &'a PaneContext<'a>,
    callers: &'a Callers,
    area: Rect,
    /// The next free row.
    y: u16,
}

impl CardPainter<'_, '_> {
    /// Writes text at a column of the current row, as far as it fits.
    fn put(&mut self, column: u16, text: &str, style: Style) -> u16 {
        let room = if self.y < self.area.bottom() { self.area.width.saturating_sub(column) } else { 0 };
        self.canvas.put(self.area.x + column, self.y, room, text, style)
    }

    fn put_label(&mut self, label: &str) {
        let dim = self.canvas.style(Role::Dim);
        self.put(1, label, dim);
    }

    fn put_share(&mut self, column: u16, ns: u64, whole_ns: u64) {
        let part = if whole_ns == 0 { 0.0 } else { ns as f64 / whole_ns as f64 };
        let style = self.canvas.theme.heat(part);
        self.put(column, &format!("{:>6}", measure::share(ns, whole_ns)), style);
    }

    fn draw_rule(&mut self, words: &str) {
        if self.y >= self.area.bottom() {
            return;
        }
        self.canvas.rule(self.area.x, self.y, self.area.width);
        let style = self.canvas.style(Role::Column);
        if !words.is_empty() {
            self.put(2, &text::cut_right(words, self.area.width.saturating_sub(4).into()), style);
        }
        self.y += 1;
    }

    /// Columns of a name behind a label and a share.
    fn name_room(&self) -> usize {
        self.area.width.saturating_sub(LABEL_COLUMNS + SHARE_COLUMNS + 1).into()
    }

    fn draw_callers(&mut self, most: usize) {
        self.put_label("called by");
        if self.callers.callers.is_empty() {
            let dim = self.canvas.style(Role::Dim);
            self.put(LABEL_COLUMNS, "no callers sampled", dim);
            self.y += 1;
            return;
        }
        let callers = self.callers;
        for (index, edge) in callers.callers.iter().take(most.max(1)).enumerate() {
            let way = if index == 0 { self.way(edge) } else { String::new() };
            self.draw_neighbor(edge, &way);
        }
    }

    fn draw_callees(&mut self, most: usize) {
        self.put_label("calls");
        if self.callers.callees.is_empty() {
            let dim = self.canvas.style(Role::Dim);
            self.put(LABEL_COLUMNS, "no callees sampled", dim);
            self.y += 1;
            return;
        }
        let callers = self.callers;
        callers.callees.iter().take(most.max(1)).for_each(|edge| self.draw_neighbor(edge, ""));
    }

    /// Draws a caller or a callee, behind the way to it.
    fn draw_neighbor(&mut self, edge: &CallEdge, way: &str) {
        self.put_share(LABEL_COLUMNS, edge.weight_ns, self.callers.whole_ns);
        let dim = self.canvas.style(Role::Dim);
        let start = LABEL_COLUMNS + SHARE_COLUMNS;
        let used = self.put(start, way, dim);
        let hue = if edge.is_own { self.canvas.theme.module(&edge.module) } else { dim };
        let room = self.name_room().saturating_sub(used.into());
        let name = match way {
            "" => fit_name(&NameToFit { full: &edge.full, short: &edge.short, room }, self.context.screen.names),
            _ => step_name(&edge.short).into(),
        };
        self.put(start + used, &name, hue);
        self.y += 1;
    }

    /// The way from the root to a caller that most of its calls take: as much of it as fits, those
    /// next to the caller first.
    fn way(&self, caller: &CallEdge) -> String {
        let mut above: Vec<&CallEdge> = Vec::new();
        while let Some(edge) = above.last().unwrap_or(&caller).children.first()
            && edge.weight_ns > caller.weight_ns / 2
        {
            above.push(edge);
        }
        let is_whole = above.last().unwrap_or(&caller).children.is_empty();
        let cut = format!("…{NEXT}");
        let columns = |text: &str| text::columns(text, 999);
        let room = self.name_room().saturating_sub(columns(step_name(&caller.short)));
        let mut way = String::new();
        for (index, edge) in above.iter().enumerate() {
            let longer = format!("{}{NEXT}{way}", step_name(&edge.short));
            let is_last = is_whole && index + 1 == above.len();
            let mark = if is_last { 0 } else { columns(&cut) };
            if columns(&longer) + mark > room {
                return if columns(&way) + columns(&cut) <= room { cut + &way } else { String::new() };
            }
            way = longer;
        }
        match is_whole || columns(&way) + columns(&cut) > room {
            true => way,
            false => cut + &way,
        }
    }

    /// Draws the hottest lines or instructions in the rows that are left.
    fn draw_lines(&mut self, listing: &SourceListing) {
        let weights = hot_rows(self.context, listing);
        let source = self.context.panes.source.text(listing);
        let path = source.map(|source| source.path.rsplit('/').next().unwrap_or_default());
        let what = match (path, weights.is_empty()) {
            (_, true) => String::new(),
            (Some(file), _) => format!(" hottest lines · {file} "),
            (None, _) => " hottest instructions ".to_owned(),
        };
        self.draw_rule(&what);
        if weights.is_empty() {
            let dim = self.canvas.style(Role::Dim);
            let room = usize::from(self.area.width.saturating_sub(2));
            let sentences = source::explain_absence(self.context, listing);
            let lines = sentences.iter().flat_map(|sentence| text::wrap(sentence, room));
            for line in lines.take(usize::from(self.area.bottom().saturating_sub(self.y))) {
                self.put(1, &line, dim);
                self.y += 1;
            }
            return;
        }
        let room = usize::from(self.area.bottom().saturating_sub(self.y));
        let instructions = if source.is_none() { instruction_rows(self.context) } else { Vec::new() };
        let length = source.map_or(instructions.len(), |source| source.lines.len());
        let all = 0..=length.saturating_sub(1);
        let within = match source.and_then(|_| source::range(&self.context.panes.source, listing)) {
            Some((first, last)) => (first as usize).saturating_sub(1)..=(last as usize).min(length).saturating_sub(1),
            None => all,
        };
        let shown = excerpt::choose(&weights, within, room);
        let line_text = |row: usize| match source {
            Some(source) => source.lines.get(row).map_or("", |line| line),
            None => {
                let at = instructions.get(row).and_then(|&row| self.context.panes.source.rows().instruction(row));
                at.map_or("", |(_, at)| &at.text)
            }
        };
        let lines: Vec<&str> = shown.iter().flatten().map(|&row| line_text(row)).collect();
        let indents =
            lines.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
        let indent = indents.min().unwrap_or(0);
        let digits = length.max(1).ilog10() as usize + 1;
        let [dim, plain, rule] = [Role::Dim, Role::Text, Role::Rule].map(|role| self.canvas.style(role));
        for row in shown {
            let Some(row) = row else {
                self.put(1 + SHARE_COLUMNS, "⋯", dim);
                self.y += 1;
                continue;
            };
            let weight_ns = weights.iter().find(|(hot, _)| *hot == row).map(|(_, weight_ns)| *weight_ns);
            if let Some(weight_ns) = weight_ns {
                self.put_share(1, weight_ns, self.callers.whole_ns);
            }
            let mut column = 1 + SHARE_COLUMNS;
            if source.is_some() {
                column += self.put(column, &format!("{:>digits$} ", row + 1), dim);
            }
            column += self.put(column, "│ ", rule);
            let style = if weight_ns.is_some() { plain } else { dim };
            self.put(column, line_text(row).get(indent..).unwrap_or_default(), style);
            self.y += 1;
        }
    }

    /// Draws when the function ran and in which threads.
    fn draw_activity(&mut self, activity: &RowActivity) {
        self.draw_rule("");
        let most = activity.shares.iter().copied().fold(0.0, f32::max);
        self.put_label("last minute");
        if most > 0.0 && self.y < self.area.bottom() {
            let words = format!("up to {}", measure::percent(f64::from(most) * 100.0).trim_start());
            let room = usize::from(self.area.width.saturating_sub(LABEL_COLUMNS + 3)).saturating_sub(words.len());
            let bars = &activity.shares[activity.shares.len().saturating_sub(room)..];
            let heights = bars.iter().map(|share| f64::from(share / most));
            draw_bars(self.canvas, self.area.x + LABEL_COLUMNS + 1, self.y, heights);
            let dim = self.canvas.style(Role::Dim);
            self.put(LABEL_COLUMNS + 2 + bars.len() as u16, &words, dim);
        }
        self.y += 1;
        self.put_label("threads");
        let all_ns = activity.threads.iter().fold(0, |sum: u64, part| sum.saturating_add(part.weight_ns));
        let mut column = LABEL_COLUMNS;
        for (index, part) in activity.threads.iter().enumerate() {
            let rest = activity.threads.len() - index - 1;
            let more = if rest > 0 { format!("  +{rest}") } else { String::new() };
            let is_only = activity.threads.iter().filter(|other| other.name == part.name).count() == 1;
            let name = if is_only { part.name.to_string() } else { format!("{} {}", part.name, part.tid) };
            let needed = SHARE_COLUMNS + (text::columns(&name, 99) + more.len()) as u16;
            let dim = self.canvas.style(Role::Dim);
            if column + needed >= self.area.width {
                let words = format!("+{}", rest + 1);
                self.put(column + 2, &words, dim);
                break;
            }
            self.put_share(column, part.weight_ns, all_ns);
            let style = self.canvas.style(Role::Text);
            let used = self.put(column + SHARE_COLUMNS, &name, style);
            column += SHARE_COLUMNS + used + 1;
        }
        self.y += 1;
    }
}

/// The name of a function on the way to another: its last part, without the file.
fn step_name(short: &str) -> &str {
    let name = bare_name(short);
    name.split_once(" (").map_or(name, |(name, _)| name)
}

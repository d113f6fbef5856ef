//! Draws the history of a frozen display on the status line: the load in ticks of 0.1 s or
//! multiples of them, and the shown time.
//!
//! ```text
//!  4.2 s ago  14:03:22  ▁▁▂▁▁▃▅▇█▇▅▃▁▁▁▂▃▃▂▁▁▁▁▂▂▁  window 2 s · 0.1 s per cell
//! ```
//!
//! The shown time has the background of a selection; `m` is the first end of a span. The text at
//! the right says how to set the other end and how to clear a span.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::layout::Rect;

use crate::profile::totals::BUCKET_NS;
use crate::tally::timeline::Timeline;
use crate::tui::canvas::Canvas;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::labels::length;
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns of the age at the left, and of the time of day beside it on wide screens.
const LEFT_COLUMNS: u16 = 13;
const TIME_COLUMNS: u16 = 10;
/// Minimum columns to show the time of day.
const TIME_FROM_COLUMNS: u16 = 60;
/// Minimum columns to show the text at the right, and its columns.
const WORDS_FROM_COLUMNS: u16 = 70;
const RIGHT_COLUMNS: u16 = 28;
/// Possible numbers of ticks per cell.
const SCALES: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];
/// Share whose heat colour the fullest cell has.
const HOTTEST: f64 = 0.3;

/// The part of the history that the cells show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeScale {
    /// Ticks per cell.
    scale: u64,
    /// Ticks since the end of the last cell.
    right: u64,
    cells: u64,
}

impl TimeScale {
    /// Chooses the scale that shows a span. The visible part moves in steps of half its length, so
    /// that small steps do not move it.
    fn new(cells: u64, older: u64, newer: u64) -> TimeScale {
        let fits = |scale: &&u64| older - newer < (**scale * cells / 2).max(1);
        let scale = *SCALES.iter().find(fits).unwrap_or(&SCALES[SCALES.len() - 1]);
        let half = (scale * cells / 2).max(1);
        TimeScale { scale, right: newer / half * half, cells }
    }

    /// Ticks since the start and the end of a cell.
    fn cell(self, cell: u64) -> (u64, u64) {
        let newer = self.right + (self.cells - 1 - cell) * self.scale;
        (newer + self.scale - 1, newer)
    }
}

/// The cells of the strip, what they show, and the columns to their right.
struct Strip {
    cells: Rect,
    view: TimeScale,
    right: u16,
    /// The shown time: ticks since its start and its end.
    shown: (u64, u64),
}

impl Strip {
    /// Lays out the strip on the status line; `None` if it has no room.
    fn new(area: Rect, context: &PaneContext<'_>) -> Option<Strip> {
        let left = LEFT_COLUMNS + if shows_time_of_day(area, context) { TIME_COLUMNS } else { 0 };
        let has_words = area.width >= WORDS_FROM_COLUMNS + left - LEFT_COLUMNS;
        let right = if has_words { RIGHT_COLUMNS } else { 1 };
        let width = area.width.saturating_sub(left + right);
        let (newer, ticks) = context.panes.timeline.past(context.question.window_ns).map_or_else(
            || (0, context.question.window_ns.map_or(1, |ns| ns.div_ceil(BUCKET_NS).max(1))),
            |past| (past.back, past.buckets),
        );
        let older = newer + ticks - 1;
        let cells = Rect { x: area.x + left, width, ..area };
        (width > 0).then(|| Strip {
            cells,
            view: TimeScale::new(width.into(), older, newer),
            right,
            shown: (older, newer),
        })
    }
}

fn shows_time_of_day(area: Rect, context: &PaneContext<'_>) -> bool {
    area.width >= TIME_FROM_COLUMNS && context.answer.is_some_and(|answer| answer.facts.clock_unix_ns > 0)
}

/// The ticks since the end of the cell at a column of the status line, if there is one.
pub fn time_at(area: Rect, context: &PaneContext<'_>, column: u16) -> Option<u64> {
    context.answer?.timeline.as_ref()?;
    let Strip { cells, view, .. } = Strip::new(area, context)?;
    let cell = column.checked_sub(cells.x).filter(|cell| *cell < cells.width)?;
    Some(view.cell(cell.into()).1)
}

/// Draws the timeline.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>) {
    let [dim, strong, key] = [Role::Dim, Role::Notable, Role::Key].map(|role| canvas.style(role));
    let walk = context.panes.timeline;
    let where_to = match walk.back() {
        0 => "now".to_owned(),
        back => format!("{} ago", length(back)),
    };
    canvas.put(area.x + 1, area.y, LEFT_COLUMNS - 1, &where_to, strong);
    if let Some(answer) = context.answer.filter(|_| shows_time_of_day(area, context)) {
        let shown_ns = answer.now_ns.saturating_sub(walk.back().saturating_mul(BUCKET_NS));
        let time = time_of_day(answer.facts.clock_unix_ns.saturating_add(shown_ns), TimeZone::system());
        canvas.put(area.x + LEFT_COLUMNS - 1, area.y, TIME_COLUMNS, &time, dim);
    }
    let Some(timeline) = context.answer.and_then(|answer| answer.timeline.as_ref()) else { return };
    let Some(Strip { cells, view, right, shown: (older, newer) }) = Strip::new(area, context) else { return };
    bars(canvas, cells, timeline, view, (older, newer));
    if let Some(anchor) = walk.anchor() {
        let at = (0..cells.width).find(|&cell| {
            let (older, newer) = view.cell(cell.into());
            (newer..=older).contains(&anchor)
        });
        if let Some(cell) = at {
            canvas.put(cells.x + cell, area.y, 1, "m", key);
        }
    }
    if right > 1 {
        let is_all = walk.past(context.question.window_ns).is_none() && context.question.window_ns.is_none();
        let long = if is_all { "all".to_owned() } else { length(older - newer + 1) };
        let words = match (walk.anchor(), walk.has_span()) {
            (Some(_), _) => "m sets the other end".to_owned(),
            (None, true) => format!("span {long} · m clears it"),
            (None, false) => format!("window {long} · {} per cell", length(view.scale)),
        };
        let words = text::cut_right(&words, usize::from(right - 2));
        canvas.put(area.right() - right + 1, area.y, right - 1, &words, dim);
    }
}

/// Formats a time in UTC, ns since 1970, as the time of day in a zone: `14:03:22`.
fn time_of_day(unix_ns: u64, zone: TimeZone) -> String {
    let time = Timestamp::from_nanosecond(unix_ns.into());
    time.map_or_else(|_| String::new(), |time| time.to_zoned(zone).strftime("%H:%M:%S").to_string())
}

fn bars(canvas: &mut Canvas<'_>, area: Rect, timeline: &Timeline, view: TimeScale, (older, newer): (u64, u64)) {
    const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let sums: Vec<Option<u64>> =
        (0..view.cells).map(|cell| view.cell(cell)).map(|(from, to)| timeline.sum(from, to)).collect();
    let most = sums.iter().flatten().copied().max().unwrap_or(0).max(1) as f64;
    for (cell, sum) in (0..area.width).zip(&sums) {
        let Some(ns) = sum else { continue };
        let part = *ns as f64 / most;
        let level = ((part * 8.0).ceil() as usize).clamp(1, 8) - 1;
        let (x, (from, to)) = (area.x + cell, view.cell(cell.into()));
        let inside = to <= older && newer <= from;
        let style = if inside { canvas.theme.heat(part * HOTTEST) } else { canvas.style(Role::Dim) };
        canvas.put(x, area.y, 1, BARS[level], style);
        if inside {
            canvas.tint(Rect { x, width: 1, ..area }, canvas.theme.selected(false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_that_of_the_zone() {
        assert_eq!(time_of_day(1_700_000_000_500_000_000, TimeZone::UTC), "22:13:20");
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(time_of_day(1_700_000_000_000_000_000, zone), "00:13:20");
        assert_eq!(time_of_day(u64::MAX, TimeZone::UTC).len(), 8);
    }

    #[test]
    fn spans_are_visible_and_small_steps_do_not_move_the_scale() {
        for cells in [1, 2, 9, 40, 100, 300] {
            for (older, newer) in [(0, 0), (19, 0), (99, 0), (599, 0), (120, 101), (5999, 5990), (5999, 5000)] {
                let view = TimeScale::new(cells, older, newer);
                let ((oldest, _), (_, newest)) = (view.cell(0), view.cell(cells - 1));
                assert!(newest <= newer, "{cells} {older} {newer} {view:?}");
                let is_long = older - newer >= SCALES[8] * cells / 2;
                assert!(oldest >= older || is_long || cells == 1, "{cells} {older} {newer} {view:?}");
            }
        }
        assert_eq!(TimeScale::new(100, 25, 6), TimeScale::new(100, 26, 7));
    }
}

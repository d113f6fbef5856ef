//! The recent past of a frozen screen, on the line over the footer: how much ran in each tenth of a second, or in a few of them where
//! the window is long, and which of it is looked at.
//!
//! ```text
//!  4.2 s ago  ▁▁▂▁▁▃▅▇█▇▅▃▁▁▁▂▃▃▂▁▁▁▁▂▂▁  window 2 s · 0.1 s each
//! ```
//!
//! What is looked at stands on the ground of a selection; `m` is the end of a span that was marked. The words at the right say how to
//! mark the other end, and how to leave a span.

use std::time::Duration;

use ratatui::layout::Rect;

use crate::profile::window::BUCKET_NS;
use crate::tally::measure;
use crate::tally::timeline::Timeline;
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::text;
use crate::tui::theme::Role;

/// Columns of the words at the left.
const LEFT_COLUMNS: u16 = 13;
/// Columns from which on there are words at the right, and theirs.
const WORDS_FROM_COLUMNS: u16 = 70;
const RIGHT_COLUMNS: u16 = 28;
/// Ticks that a cell may have.
const SCALES: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];
/// The part of a hot function that the fullest cell looks like.
const HOTTEST: f64 = 0.3;

/// So many ticks as a length of time.
pub fn length(ticks: u64) -> String {
    measure::duration(Duration::from_nanos(ticks.saturating_mul(BUCKET_NS)))
}

/// Which part of the past so many cells show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    /// Ticks of a cell.
    scale: u64,
    /// How long ago the last tick of the last cell was.
    right: u64,
    cells: u64,
}

impl View {
    /// The view in which a span is seen. It moves by half its length, so that it stands still under small steps.
    fn new(cells: u64, older: u64, newer: u64) -> View {
        let fits = |scale: &&u64| older - newer < (**scale * cells / 2).max(1);
        let scale = *SCALES.iter().find(fits).unwrap_or(&SCALES[SCALES.len() - 1]);
        let half = (scale * cells / 2).max(1);
        View { scale, right: newer / half * half, cells }
    }

    /// How long ago a cell began and ended, in ticks.
    fn cell(self, cell: u64) -> (u64, u64) {
        let newer = self.right + (self.cells - 1 - cell) * self.scale;
        (newer + self.scale - 1, newer)
    }
}

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let [dim, strong, key] = [Role::Dim, Role::Notable, Role::Key].map(|role| canvas.style(role));
    let walk = app.walk;
    let where_to = match walk.back() {
        0 => "now".to_owned(),
        back => format!("{} ago", length(back)),
    };
    canvas.put(area.x + 1, area.y, LEFT_COLUMNS - 1, &where_to, strong);
    let Some(timeline) = app.answer.as_ref().and_then(|answer| answer.timeline.as_ref()) else { return };
    let right = if area.width >= WORDS_FROM_COLUMNS { RIGHT_COLUMNS } else { 1 };
    let cells = area.width.saturating_sub(LEFT_COLUMNS + right);
    if cells == 0 {
        return;
    }
    let shown = walk.past(app.window_ns);
    let (newer, ticks) = shown.map_or_else(
        || (0, app.window_ns.map_or(1, |ns| ns.div_ceil(BUCKET_NS).max(1))),
        |past| (past.back, past.ticks),
    );
    let older = newer + ticks - 1;
    let view = View::new(cells.into(), older, newer);
    bars(canvas, Rect { x: area.x + LEFT_COLUMNS, width: cells, ..area }, timeline, view, (older, newer));
    if let Some(mark) = walk.mark() {
        let at = (0..cells).find(|&cell| {
            let (older, newer) = view.cell(cell.into());
            (newer..=older).contains(&mark)
        });
        if let Some(cell) = at {
            canvas.put(area.x + LEFT_COLUMNS + cell, area.y, 1, "m", key);
        }
    }
    if right > 1 {
        let long = if shown.is_none() && app.window_ns.is_none() { "all".to_owned() } else { length(ticks) };
        let words = match (walk.mark(), walk.has_span()) {
            (Some(_), _) => "m marks the other end".to_owned(),
            (None, true) => format!("span {long} · m leaves it"),
            (None, false) => format!("window {long} · {} each", length(view.scale)),
        };
        let words = text::cut_right(&words, usize::from(right - 2));
        canvas.put(area.right() - right + 1, area.y, right - 1, &words, dim);
    }
}

fn bars(canvas: &mut Canvas<'_>, area: Rect, timeline: &Timeline, view: View, (older, newer): (u64, u64)) {
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
    fn a_span_is_always_in_view_and_the_view_stands_still_under_small_steps() {
        for cells in [1, 2, 9, 40, 100, 300] {
            for (older, newer) in [(0, 0), (19, 0), (99, 0), (599, 0), (120, 101), (5999, 5990), (5999, 5000)] {
                let view = View::new(cells, older, newer);
                let ((oldest, _), (_, newest)) = (view.cell(0), view.cell(cells - 1));
                assert!(newest <= newer, "{cells} {older} {newer} {view:?}");
                let is_long = older - newer >= SCALES[8] * cells / 2;
                assert!(oldest >= older || is_long || cells == 1, "{cells} {older} {newer} {view:?}");
            }
        }
        assert_eq!(View::new(100, 25, 6), View::new(100, 26, 7));
    }
}

//! Bars that show how a weight changes over a window.

use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;

/// Draws bars of these heights, from 0 to 1, one per column. Those of 0 are blank, and none touches
/// the row above.
pub(super) fn draw_bars(canvas: &mut Canvas<'_>, x: u16, y: u16, heights: impl IntoIterator<Item = f64>) {
    const BARS: [&str; 7] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇"];
    let style = canvas.style(Role::Dim);
    for (at, height) in (x..).zip(heights) {
        let level = ((height * 7.0).ceil() as usize).clamp(1, 7) - 1;
        canvas.put(at, y, 1, if height > 0.0 { BARS[level] } else { " " }, style);
    }
}

//! Draws the detail card of the selected function over the lower panes: its whole name, where it
//! is, its weights with their margins of error, and its callers.
//!
//! ```text
//! ─ Function ─────────────────────────────────────── y copies the name · Enter shows callers ─
//!  json::Parser<std::io::BufReader<std::net::TcpStream>>::parse_value(&mut self)
//!  module  server   hottest line  src/json/parser.rs:121
//!  flat    1.88s  17.18% ±2.3    cum  2.30s  21.02% ±2.4    last 10 s
//!  callers  82%  json::Parser::parse_object
//!           18%  json::Parser::parse_array
//! ```

use ratatui::layout::Rect;
use ratatui::text::Span;

use super::context::PaneContext;
use super::status::Described;
use super::{labels, status, title};
use crate::session::SourceListing;
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::layout::Pane;
use crate::tui::text;
use crate::tui::theme::Role;

/// Maximum rows of a name.
const NAME_ROWS: usize = 6;
/// Maximum number of callers.
const CALLERS: usize = 4;
/// Columns of the words before values.
const LABEL_COLUMNS: usize = 8;

/// The text after the hottest line.
const HOTTEST: &str = " (hottest)";

/// A line: its label, its value, and the role of the value.
type CardLine = (&'static str, String, Role);

/// Draws the card into the lower part of the body, or into the upper part if it would cover the
/// selected row.
pub fn draw(canvas: &mut Canvas<'_>, body: Rect, context: &PaneContext<'_>) {
    let lines = lines(context, body.width.saturating_sub(2).into());
    let height = (lines.len() as u16 + 1).min(body.height);
    let selected = selected_row(context);
    let below = Rect { y: body.bottom() - height, height, ..body };
    let covers = |area: Rect| selected.is_some_and(|y| (area.y..area.bottom()).contains(&y));
    let above = Rect { height, ..body };
    let area = if covers(below) && !covers(above) { above } else { below };
    canvas.blank(area, canvas.style(Role::Text));
    let words = match area.width {
        0..60 => "Esc closes",
        _ if context.screen.pane == Pane::Top => "y copies the name · Enter shows callers · Esc closes",
        _ => "y copies the name · Esc closes",
    };
    title::draw_title(canvas, area, None, "Function", true, &[Span::styled(words, canvas.style(Role::Title))]);
    let dim = canvas.style(Role::Dim);
    for (y, (label, value, role)) in (area.y + 1..area.bottom()).zip(&lines) {
        canvas.put(area.x + 1, y, LABEL_COLUMNS as u16, label, dim);
        let indent = if *role == Role::Strong { 0 } else { LABEL_COLUMNS as u16 };
        let style = canvas.style(*role);
        canvas.put(area.x + 1 + indent, y, area.width.saturating_sub(2 + indent), value, style);
    }
}

/// The row of the screen that the selection of the top pane is on.
fn selected_row(context: &PaneContext<'_>) -> Option<u16> {
    let area = context.top_table(context.layout()?.pane(Pane::Top)?);
    let (index, _) = context.panes.top.selection()?;
    let row = index.checked_sub(context.panes.top.offset())?;
    Some(area.y + crate::tui::layout::TOP_HEAD + row as u16)
}

fn lines(context: &PaneContext<'_>, room: usize) -> Vec<CardLine> {
    let Described { full, module, numbers: shares, .. } = status::function(context);
    if full.is_empty() {
        return vec![("", "no function is selected".to_owned(), Role::Dim)];
    }
    let mut lines: Vec<CardLine> = Vec::new();
    lines.extend(wrap_name(full, room).into_iter().map(|line| ("", line, Role::Strong)));
    let listing = context.answer.and_then(|answer| answer.listing.as_ref());
    let line = listing.filter(|listing| listing.lines.full == full).and_then(hottest_line);
    if !module.is_empty() {
        lines.push(("module", module.to_owned(), Role::Text));
    }
    let left = room.saturating_sub(LABEL_COLUMNS);
    // Of a long path, the end says most.
    let written = line.map(|line| text::cut_middle(&line, left.saturating_sub(HOTTEST.len())).into_owned() + HOTTEST);
    lines.extend(written.map(|line| ("line", line, Role::Text)));
    if let Some((_, row)) = context.panes.top.selection() {
        let value = |ns| measure::shown(ns, context.session.unit());
        // Behind the shares is the count of allocations.
        let values = [row.window.0, row.window.1].map(|ns| format!("  {}", value(ns)));
        let values = values.into_iter().chain([String::new()]);
        let shares: Vec<String> = shares.into_iter().zip(values).map(|(share, value)| share + &value).collect();
        let time = if context.answer.is_some_and(|answer| answer.baseline_ns.is_some()) {
            "difference".to_owned()
        } else {
            labels::shown_time(context)
        };
        if !shares.is_empty() {
            lines.push(("weight", format!("{}   ({time})", shares.join("   ")), Role::Text));
        }
    }
    let callers = context.answer.and_then(|answer| answer.callers.as_ref()).filter(|callers| callers.full == full);
    if let Some(callers) = callers {
        let whole_ns = callers.whole_ns;
        let edges = callers.callers.iter().take(CALLERS).enumerate().map(|(index, edge)| {
            let share = measure::percentage(edge.weight_ns, whole_ns);
            let room = room.saturating_sub(LABEL_COLUMNS + share.len() + 2);
            let name = fit_name(&NameToFit { full: &edge.full, short: &edge.short, room }, context.screen.names);
            (if index == 0 { "callers" } else { "" }, format!("{share}  {name}"), Role::Text)
        });
        lines.extend(edges);
        if callers.callers.is_empty() {
            lines.push(("callers", "none sampled".to_owned(), Role::Dim));
        }
    }
    lines
}

/// The line with most of the function's own weight, or of its weight if it has none of its own.
fn hottest_line(listing: &SourceListing) -> Option<String> {
    let known = listing.lines.lines.iter().filter(|line| line.line > 0);
    let hottest = known.max_by_key(|line| (line.flat_ns, line.cum_ns))?;
    Some(format!("{}:{}", hottest.file, hottest.line))
}

/// Wraps a name at any cell, in at most [`NAME_ROWS`] rows.
fn wrap_name(name: &str, room: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for cell in text::cells(name) {
        if used + cell.width > room.max(2) {
            if rows.len() == NAME_ROWS {
                rows.last_mut().into_iter().for_each(|row| {
                    let last = text::cells(row).last().map_or(0, |cell| cell.text.len());
                    row.truncate(row.len() - last);
                    row.push('…');
                });
                break;
            }
            rows.push(String::new());
            used = 0;
        }
        rows.last_mut().into_iter().for_each(|row| row.push_str(cell.text));
        used += cell.width;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_wrapped_whole() {
        assert_eq!(wrap_name("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(wrap_name("漢字漢", 5), ["漢字", "漢"]);
        assert_eq!(wrap_name("हिन्दी", 3), ["हिन्", "दी"]);
        let rows = wrap_name(&"x".repeat(1000), 10);
        assert_eq!((rows.len(), rows[5].as_str()), (NAME_ROWS, "xxxxxxxxx…"));
        assert_eq!(wrap_name("ab", 0), ["ab"]);
    }
}

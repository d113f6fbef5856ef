//! Draws a page over the panes: keys and terms, losses and overhead, the explanation of a name,
//! the deepest stack of a thread, or the stacks of threads that wait for each other.
//!
//! ```text
//! ─ Keys and terms ─────────────────────────────────────────────────────────────────────── Esc closes · more below ─
//!  Screen                                             Terms
//!  Tab · Shift-Tab   next, previous pane              flat         time in the function itself; …
//! ```

use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::tui::canvas::Canvas;
use crate::tui::layout;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::help::lines::{HelpLine, KEY_COLUMNS};
use crate::tui::pane::help::pages::{self, HelpPage, PageFacts};
use crate::tui::pane::title;
use crate::tui::theme::Role;

/// Columns of a name and of a number.
const NAME_COLUMNS: u16 = 28;
const NUMBER_COLUMNS: u16 = 12;

/// Draws the page.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, page: HelpPage, scroll: usize) {
    let facts = PageFacts {
        table: context.options.keys.bindings(),
        facts: context.answer.map(|answer| &answer.facts),
        explanation: context.panes.explanation.as_ref(),
        summary: context.panes.summary.as_ref(),
        thread: context.panes.threads.deepest(),
        chain: context.panes.threads.chain(),
        now_ns: context.answer.map_or(0, |answer| answer.now_ns),
    };
    let columns = pages::columns(page, &facts, area.width);
    let height = layout::page_rows(context.screen.size);
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let scroll = scroll.min(rows.saturating_sub(height));
    let name = match page {
        HelpPage::Help => "Keys and terms",
        HelpPage::Losses => "Losses and overhead",
        HelpPage::Explain => "Name resolution",
        HelpPage::Summary => "Where the time goes",
        HelpPage::Stack => "Deepest stack",
        HelpPage::Holder => "Who holds the lock",
    };
    let more = match rows > scroll + height {
        true if area.width < 60 => "more below",
        true => "more below · Esc closes",
        false => "Esc closes",
    };
    let style = canvas.style(Role::Title);
    title::draw_title(canvas, area, None, name, true, &[Span::styled(more, style)]);
    let wide = area.width / columns.len().max(1) as u16;
    for (x, lines) in (area.x..).step_by(wide.max(1).into()).zip(columns) {
        for (y, line) in (area.y + 1..area.bottom()).zip(lines.iter().skip(scroll)) {
            put(canvas, Rect { x: x + 1, y, width: wide.saturating_sub(1), height: 1 }, line);
        }
    }
}

fn put(canvas: &mut Canvas<'_>, place: Rect, line: &HelpLine) {
    let Rect { x, y, width, .. } = place;
    let [strong, key, text, dim] = [Role::Strong, Role::Key, Role::Text, Role::Dim].map(|role| canvas.style(role));
    match line {
        HelpLine::Blank => {}
        HelpLine::Heading(words) => {
            canvas.put(x, y, width, words, strong);
        }
        HelpLine::Entry(name, words) => {
            canvas.put(x, y, width, name, key);
            canvas.put(x + KEY_COLUMNS, y, width.saturating_sub(KEY_COLUMNS), words, text);
        }
        HelpLine::Text(words) => {
            canvas.put(x, y, width, words, text);
        }
        HelpLine::Number(name, value, note) => {
            let at = NAME_COLUMNS + NUMBER_COLUMNS.saturating_sub(value.chars().count() as u16);
            // On a narrow screen the number directly follows the name.
            let at = at.min(width.saturating_sub(value.chars().count() as u16));
            canvas.put(x, y, at, name, dim);
            canvas.put(x + at, y, width.saturating_sub(at), value, text);
            let note_at = NAME_COLUMNS + NUMBER_COLUMNS + 2;
            canvas.put(x + note_at, y, width.saturating_sub(note_at), note, dim);
        }
    }
}

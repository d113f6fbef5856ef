//! Draws the line that asks for a file name, with the contents of the file, or the known extensions
//! if the name has none of them.
//!
//! ```text
//!  save: server-2m14s.pb.gz█    pprof's profile.proto, with all there is · all 2m14s · focus=parse
//!  save: server█                the extension selects the format: .sigtop, .pb.gz, .folded or .txt
//! ```

use ratatui::layout::{Position, Rect};
use ratatui::text::Span;

use crate::keyword::Keyword;
use crate::pprof::format::SaveFormat;
use crate::tui::canvas::Canvas;
use crate::tui::filters;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::edited_line;
use crate::tui::pane::labels::{self, format_window};
use crate::tui::pane::save::state::SaveState;
use crate::tui::text;
use crate::tui::theme::Role;

/// Draws the line; returns the position of the cursor.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, saving: &SaveState) -> Position {
    let style = canvas.style(Role::Prompt);
    let start = area.x + 1 + canvas.put(area.x + 1, area.y, area.width, "save: ", style);
    let typed = text::columns(&saving.line().text(), area.width.into()) as u16;
    let left = area.right().saturating_sub(start + typed + 3);
    let (words, role) = remark(context, saving, left.into());
    let wide = text::columns(&words, left.into()) as u16;
    let style = canvas.style(role);
    canvas.spans(area.right().saturating_sub(wide + 1), area.y, wide, &[Span::styled(words, style)]);
    let room = area.right().saturating_sub(start + wide + 2).max(1);
    edited_line::draw_line_editor(canvas, Position::new(start, area.y), room, saving.line(), None)
}

fn remark(context: &PaneContext<'_>, saving: &SaveState, room: usize) -> (String, Role) {
    let fits = |ways: Vec<String>| {
        let found = ways.iter().find(|words| text::columns(words, room + 1) <= room);
        found.cloned().unwrap_or_else(|| text::cut_right(&ways[ways.len() - 1], room).into_owned())
    };
    let Some(format) = saving.format() else {
        let extensions = SaveFormat::list_extensions();
        return (fits(vec![format!("the extension selects the format: {extensions}"), extensions]), Role::Notable);
    };
    if format == SaveFormat::Recording {
        return (fits(vec![format.word().help.to_owned(), "everything".to_owned()]), Role::Dim);
    }
    let span = match (context.question.past, context.question.window_ns) {
        _ if !saving.is_shown => "all".to_owned(),
        (Some(past), _) => format!("span of {}", labels::length(past.buckets)),
        (None, Some(ns)) => format!("last {}", format_window(Some(ns))),
        (None, None) => "all".to_owned(),
    };
    let chips: String = filters::chips(context.filters).map(|chip| format!(" · {chip}")).collect();
    let words = format.word().help;
    (fits(vec![format!("{words} · {span}{chips}"), format!("{span}{chips}"), span]), Role::Dim)
}

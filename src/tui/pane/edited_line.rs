//! Draws a line that is being typed.

use crate::tui::canvas::Canvas;
use crate::tui::line_editor::LineEditor;
use crate::tui::text;
use crate::tui::theme::Role;
use ratatui::layout::Position;
use ratatui::style::Modifier;

/// Draws a line editor, scrolled so that the cursor is visible; returns the position of the cursor.
pub(super) fn draw_line_editor(
    canvas: &mut Canvas<'_>,
    at: Position,
    room: u16,
    line: &LineEditor,
    fault: Option<usize>,
) -> Position {
    // Text too far to the left of the cursor is scrolled out.
    let characters = line.characters();
    let mut first = 0;
    let mut before: usize = characters[..line.cursor()].iter().map(|c| text::width(*c)).sum();
    while before >= room.into() && first < line.cursor() {
        before -= text::width(characters[first]);
        first += 1;
    }
    let (plain, wrong) = (canvas.style(Role::Text), canvas.style(Role::Bad).add_modifier(Modifier::UNDERLINED));
    let mut x = at.x;
    let end = at.x + room;
    let shown: String = characters[first..].iter().collect();
    let mut index = first;
    for cell in text::cells(&shown) {
        let style = if fault == Some(index) { wrong } else { plain };
        let used = canvas.put(x, at.y, end.saturating_sub(x), cell.text, style);
        if used == 0 {
            break;
        }
        x += used;
        index += cell.text.chars().count();
    }
    Position::new(at.x + before as u16, at.y)
}

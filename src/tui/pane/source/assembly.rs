//! Draws the assembly of the selected function, like pprof's `-disasm`, with source lines and jump
//! arrows. It is a part of the source pane and has no title of its own.
//!
//! ```text
//!     flat     cum  address        instruction
//!                                  119  let byte = self.peek()?;
//!    0.40s   0.40s   401a2b    ╭─▸ movzbl (%rax),%ecx
//! ▸  4.10s   4.10s   401a2e    │   cmp $0x20,%cl
//!                    401a31    ╰── je 401a2b
//!            2.90s   401a33        call core::str::from_utf8
//! ```
//!
//! If there is little room, the arrows are omitted first, then cum, then addresses.

use ratatui::layout::Rect;

use crate::session::SourceListing;
use crate::symbols::assembly::{Code, LocationLine};
use crate::tui::canvas::Canvas;
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::name_parts::bare_name;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::source::arrows::{self, LANES};
use crate::tui::pane::source::cells::{self, CUM_FROM_COLUMNS, VALUE_COLUMNS};
use crate::tui::pane::source::state::{AssemblyRow, ListingKind};
use crate::tui::text;
use crate::tui::theme::Role;

/// Minimum columns to show addresses, and to show arrows.
const ADDRESS_FROM_COLUMNS: u16 = 46;
const ARROWS_FROM_COLUMNS: u16 = 58;

/// Start of the columns.
struct Columns {
    with_cum: bool,
    address: Option<(u16, usize)>,
    arrows: Option<u16>,
    text: u16,
}

/// Draws the assembly.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    context: &PaneContext<'_>,
    listing: &SourceListing,
    active: bool,
) {
    let shown = context.panes.source.rows();
    let with_cum = area.width >= CUM_FROM_COLUMNS;
    let mut x = area.x + 1 + cells::heads(canvas, (area.x + 1, area.y), with_cum) + 2;
    let digits = shown.codes.iter().map(|code| format!("{:x}", code.end).len()).max().unwrap_or(1).max(7);
    let column = canvas.style(Role::Column);
    let address = (area.width >= ADDRESS_FROM_COLUMNS).then_some((x, digits));
    if address.is_some() {
        canvas.put(x + digits as u16 - 7, area.y, area.right().saturating_sub(x), "address", column);
        x += digits as u16 + 1;
    }
    let arrows = (area.width >= ARROWS_FROM_COLUMNS && !shown.arrows.is_empty()).then_some(x);
    if arrows.is_some() {
        x += LANES as u16 + 2;
    }
    canvas.put(x, area.y, area.right().saturating_sub(x), "instruction", column);
    let columns = Columns { with_cum, address, arrows, text: x };
    let scroll = context.panes.source.scroll(ListingKind::Assembly);
    // Highlights the jump at the cursor, or one to the cursor.
    let at = scroll.row();
    let lit = shown.arrows.iter().position(|arrow| arrow.from == at);
    let lit = lit.or_else(|| shown.arrows.iter().position(|arrow| arrow.to == at));
    for (y, row) in (area.y + 1..area.bottom()).zip(scroll.offset()..shown.rows.len()) {
        let place = Rect { y, height: 1, ..area };
        match shown.rows[row] {
            AssemblyRow::Copy(code) => copy(canvas, place, context, &shown.codes[code]),
            AssemblyRow::Location(code, at) => {
                let code = &shown.codes[code];
                origin(canvas, place, context, listing, code.place(&code.instructions[at]), columns.text);
            }
            AssemblyRow::Instruction(..) => instruction(canvas, place, context, row, &columns),
        }
        if let Some(x) = columns.arrows.filter(|_| !matches!(shown.rows[row], AssemblyRow::Copy(_))) {
            let [dim, notable] = [Role::Dim, Role::Notable].map(|role| canvas.style(role));
            for (at, (glyph, is_lit)) in (x..).zip(arrows::columns(&shown.arrows, row, lit)) {
                if glyph != ' ' && at < area.right() {
                    canvas.put(at, y, 1, glyph.encode_utf8(&mut [0; 4]), if is_lit { notable } else { dim });
                }
            }
        }
        if row == at {
            cells::cursor(canvas, place, active);
        }
    }
}

/// Draws the title of a copy of the function.
fn copy(canvas: &mut Canvas<'_>, place: Rect, context: &PaneContext<'_>, code: &Code) {
    canvas.rule(place.x, place.y, place.width);
    let module = code.path.rsplit('/').next().unwrap_or_default();
    let room = usize::from(place.width.saturating_sub(6));
    let tail = format!("  {module} {:x}-{:x}", code.start, code.end);
    let tail = if text::columns(&tail, room) * 2 < room { tail } else { String::new() };
    let name = NameToFit { full: &code.full, short: &code.short, room: room - text::columns(&tail, room) };
    let name = fit_name(&name, context.screen.names);
    let style = canvas.style(Role::Title);
    canvas.put(place.x + 2, place.y, place.width.saturating_sub(3), &format!(" {name}{tail} "), style);
}

/// Draws the source line of the following instructions, and where it was inlined.
fn origin(
    canvas: &mut Canvas<'_>,
    place: Rect,
    context: &PaneContext<'_>,
    listing: &SourceListing,
    lines: &[LocationLine],
    x: u16,
) {
    let Some((first, calls)) = lines.split_first() else { return };
    let text = match listing.source(&first.file) {
        Some(Ok(source)) => source.line(first.line).unwrap_or_default().trim_start(),
        _ => "",
    };
    let base = first.file.rsplit('/').next().unwrap_or_default();
    let here = context.panes.source.file() == Some(&*first.file);
    let mut words = match (first.line, here && !text.is_empty()) {
        (0, _) => base.to_owned(),
        (line, true) => line.to_string(),
        (line, false) => format!("{base}:{line}"),
    };
    if !text.is_empty() {
        words = format!("{words}  {text}");
    }
    let room = usize::from(place.right().saturating_sub(x));
    // As many of the nearest calls as fit; the line itself has priority.
    let chain: Vec<String> = calls.iter().map(|call| format!(" ← {}:{}", bare_name(&call.short), call.line)).collect();
    let inlined = if calls.is_empty() { String::new() } else { format!("  {}", bare_name(&first.short)) };
    let tails = (0..=chain.len()).rev().map(|count| format!("{inlined}{}", chain[..count].concat()));
    let left = room.saturating_sub(text::columns(&words, room).min(room / 2));
    let tail = tails.into_iter().find(|tail| text::columns(tail, room) <= left).unwrap_or_default();
    let words = text::cut_right(&words, room.saturating_sub(text::columns(&tail, room))).into_owned();
    let [column, dim] = [Role::Column, Role::Dim].map(|role| canvas.style(role));
    let used = canvas.put(x, place.y, room as u16, &words, column);
    canvas.put(x + used, place.y, (room as u16).saturating_sub(used), &tail, dim);
}

fn instruction(canvas: &mut Canvas<'_>, place: Rect, context: &PaneContext<'_>, row: usize, columns: &Columns) {
    let Some((_, at)) = context.panes.source.rows().instruction(row) else { return };
    let weight = context.panes.source.row_weight(row);
    cells::value(canvas, (place.x + 1, place.y), context, weight.flat());
    if columns.with_cum {
        cells::value(canvas, (place.x + 1 + VALUE_COLUMNS, place.y), context, weight.cum());
    }
    let dim = canvas.style(Role::Dim);
    if let Some((x, digits)) = columns.address {
        canvas.put(x, place.y, digits as u16, &format!("{:>digits$x}", at.address), dim);
    }
    let matched = context.search_pattern().is_some_and(|pattern| pattern.matches(&at.text));
    let style = match () {
        () if matched => canvas.style(Role::Match),
        () if context.panes.source.is_own(row) => canvas.style(Role::Text),
        () => dim,
    };
    let shown: String = at.text.chars().skip(context.panes.source.pan().into()).collect();
    canvas.put(columns.text, place.y, place.right().saturating_sub(columns.text), &shown, style);
}

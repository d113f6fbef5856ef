//! Draws the process picker. Processes that cannot be watched are listed dimmed, with the reason.
//!
//! ```text
//!  sigtop   select a process                                3 of 214 processes can be watched
//! ─ filter: red▏──────────────────────────────────────────────────────────────────────────────
//!       pid  user       cpu%  command
//! ▸ *  4123  me         98.2  ./server --port 8080                                      agent
//!      4200  me          0.3  redis-server *:6379                                from outside
//!      1201  me          1.0  ssh-agent                                         not traceable
//!         1  root          –  /sbin/init                                           other user
//!  ./server --port 8080
//!  Enter profile  Space mark  / filter  q leave
//! ```
//!
//! Marked processes have an asterisk.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Span;

use crate::attach::find::WatchMethod;
use crate::attach::survey::SurveyedProcess;
use crate::tally::measure;
use crate::tui::canvas::Canvas;
use crate::tui::fit_line::{self, Segment};
use crate::tui::keys::{Binding, KeyContext};
use crate::tui::layout::MIN_SIZE;
use crate::tui::pane::picker::state::Picker;
use crate::tui::pane::sentences;
use crate::tui::pane::title;

use crate::tui::theme::{Role, Theme};
use crate::tui::{screen, text};

/// Rows above the list: program name, filter, column titles.
pub const HEAD: u16 = 3;
/// Rows of the footer, and of the reason above it, which may need two.
const KEYS: u16 = 1;
const fn reason_rows(rows: u16) -> u16 {
    if rows >= 16 { 2 } else { 1 }
}
/// Columns of a PID and of a CPU share, with the gap before them.
const PID: u16 = 9;
const CPU: u16 = 7;
/// Columns of a user name, and the minimum columns of the screen to show it.
const USER: u16 = 11;
const USER_FROM: u16 = 70;
/// Columns of a reason, and the minimum columns of the screen to show it.
const REASON: u16 = 17;
const REASON_FROM: u16 = 58;

/// Rows of the list on a screen with this many rows.
pub fn rows(rows: u16) -> usize {
    rows.saturating_sub(HEAD + reason_rows(rows) + KEYS).into()
}

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, picker: &Picker, theme: Theme, table: &[Binding]) {
    let area = frame.area();
    let mut canvas = Canvas::new(frame.buffer_mut(), theme);
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        return screen::too_small(&mut canvas, area);
    }
    let line = |y| Rect { y, height: 1, ..area };
    head(&mut canvas, line(0), picker);
    let cursor = filter(&mut canvas, line(1), picker);
    heads(&mut canvas, line(2));
    let list = Rect { y: HEAD, height: rows(area.height) as u16, ..area };
    if picker.counts().0 == 0 {
        let words = if picker.is_waiting() { "scanning processes…" } else { "no process matches" };
        sentences::draw_centered(&mut canvas, list, list.height / 3, words, Role::Dim);
    }
    for (y, (candidate, is_selected, is_marked)) in (list.y..list.bottom()).zip(picker.view()) {
        row(&mut canvas, line(y), candidate);
        if is_marked {
            canvas.put(area.x + 1, y, 1, "*", canvas.style(Role::Strong));
        }
        if is_selected {
            canvas.put(area.x, y, 1, "▸", canvas.style(Role::TitleActive));
            canvas.tint(line(y), canvas.theme.selected(true));
        }
    }
    reason(&mut canvas, Rect { y: list.bottom(), height: reason_rows(area.height), ..area }, picker);
    footer(&mut canvas, line(area.height - 1), picker, table);
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

fn head(canvas: &mut Canvas<'_>, area: Rect, picker: &Picker) {
    let (shown, all) = picker.counts();
    let count = |number: usize| measure::count(number as u64);
    let counts = match picker.watchable() {
        _ if picker.is_waiting() => String::new(),
        watchable if shown == all => format!("{} of {} processes can be watched", count(watchable), count(all)),
        watchable => format!(
            "{} of {} matching processes can be watched, {} in total",
            count(watchable),
            count(shown),
            count(all)
        ),
    };
    let counts = if picker.hides_others { format!("{counts}; /proc hides those of others") } else { counts };
    let (strong, text, dim) = (canvas.style(Role::Strong), canvas.style(Role::Text), canvas.style(Role::Dim));
    let facts = [
        Segment::new(9).or_text("sigtop", strong),
        Segment::new(5).or_text("select a process", text).or_nothing(),
        Segment::new(3).or_text(counts, dim).or_nothing(),
    ];
    canvas.spans(area.x + 1, area.y, area.width - 1, &fit_line::fit(&facts, usize::from(area.width) - 2));
}

/// Draws the rule with the filter; returns the position of the cursor while the filter is edited.
fn filter(canvas: &mut Canvas<'_>, area: Rect, picker: &Picker) -> Option<Position> {
    let line = picker.filter();
    if !picker.is_typing() && line.characters().is_empty() {
        title::draw_title(canvas, area, None, "Processes", true, &[]);
        return None;
    }
    let left = title::draw_title(canvas, area, None, "Processes matching", true, &[]);
    let room = usize::from(area.width.saturating_sub(left + 3));
    let cursor = line.cursor();
    // The cursor stays visible.
    let first =
        (0..=cursor).find(|&first| text::columns(&line.text_from(first, cursor), 9999) < room).unwrap_or(cursor);
    let before = text::columns(&line.text_from(first, cursor), 9999) as u16;
    let style = canvas.style(Role::Prompt);
    let shown = line.text_from(first, line.characters().len());
    let used = canvas.put(left, area.y, room as u16, &shown, style);
    canvas.put(left + used, area.y, 1, " ", style);
    Some(Position::new(left + before, area.y))
}

fn heads(canvas: &mut Canvas<'_>, area: Rect) {
    let style = canvas.style(Role::Column);
    let (mut x, width) = (area.x, area.width);
    x += PID;
    canvas.put(x - 3, area.y, 3, "pid", style);
    if width >= USER_FROM {
        canvas.put(x + 2, area.y, USER - 2, "user", style);
        x += USER;
    }
    x += CPU;
    canvas.put(x - 4, area.y, 4, "cpu%", style);
    canvas.put(x + 2, area.y, width - x - 2, "command", style);
}

fn row(canvas: &mut Canvas<'_>, area: Rect, candidate: &SurveyedProcess) {
    let open = candidate.obstacle.is_none();
    let role = if open { Role::Text } else { Role::Dim };
    let style = canvas.style(role);
    let mut x = area.x + PID;
    let pid = candidate.pid.to_string();
    canvas.put(x - pid.len() as u16, area.y, PID, &pid, style);
    if area.width >= USER_FROM {
        canvas.put(x + 2, area.y, USER - 2, &text::cut_right(&candidate.user, usize::from(USER) - 2), style);
        x += USER;
    }
    x += CPU;
    let cpu = candidate.cpu.map_or_else(|| "–".to_owned(), |cpu| format!("{cpu:.1}"));
    canvas.put(x - text::columns(&cpu, 9) as u16, area.y, CPU, &cpu, style);
    let reason = if area.width >= REASON_FROM { REASON } else { 0 };
    let room = area.width.saturating_sub(x + 2 + reason);
    // The row shows the file name only; the full path is below the list.
    let whole = candidate.command();
    let file = whole.split(' ').next().and_then(|program| program.rfind('/')).map_or(0, |slash| slash + 1);
    let whole = &whole[file..];
    let command = text::cut_right(whole, room.into());
    let name = if open { canvas.style(Role::Strong) } else { style };
    // The program name is highlighted.
    let program = command.split(' ').next().unwrap_or_default();
    let used = canvas.put(x + 2, area.y, room, program, name);
    canvas.put(x + 2 + used, area.y, room - used, &command[program.len()..], style);
    let label = match (&candidate.obstacle, candidate.method) {
        (Some(obstacle), _) => Some(obstacle.refusal.label()),
        (None, method) => method.map(WatchMethod::label),
    };
    if let Some(word) = label.filter(|_| reason > 0) {
        let wide = word.len() as u16 + 1;
        canvas.put(area.right() - wide, area.y, wide, word, canvas.style(Role::Dim));
    }
}

/// Draws why the selected process cannot be watched, or its whole command if it can.
fn reason(canvas: &mut Canvas<'_>, area: Rect, picker: &Picker) {
    let Some(candidate) = picker.selection() else { return };
    let (words, role) = match &candidate.obstacle {
        Some(obstacle) => (obstacle.sentence.clone(), Role::Notable),
        None => (format!("{}{}", describe_relatives(picker), candidate.command()), Role::Dim),
    };
    let style = canvas.style(role);
    let room = usize::from(area.width) - 2;
    let lines = text::wrap(&words, room);
    for (index, y) in (area.y..area.bottom()).enumerate().take(lines.len()) {
        let end = if y + 1 == area.bottom() { lines.len() } else { index + 1 };
        let line = lines[index..end].join(" ");
        canvas.put(area.x + 1, y, area.width - 2, &text::cut_right(&line, room), style);
    }
}

/// Says which processes are marked, which are watched with the selected one, or who started it.
fn describe_relatives(picker: &Picker) -> String {
    let marked: Vec<String> = picker.marked().iter().map(u32::to_string).collect();
    if !marked.is_empty() {
        return format!("{} marked: {} · ", measure::count(marked.len() as u64), marked.join(" "));
    }
    match (picker.server(), picker.children()) {
        (Some(server), _) => format!("started by {} {} (Left) · ", server.comm, server.pid),
        (None, 0) => String::new(),
        (None, 1) => "with its child · ".to_owned(),
        (None, children) => format!("with its {} children · ", measure::count(children as u64)),
    }
}

fn footer(canvas: &mut Canvas<'_>, area: Rect, picker: &Picker, table: &[Binding]) {
    let (key, dim) = (canvas.style(Role::Key), canvas.style(Role::Dim));
    let open = picker.selection().is_some_and(|candidate| candidate.obstacle.is_none());
    let applies = |binding: &&Binding| match binding.label.as_ref() {
        "Enter" => open || !picker.marked().is_empty(),
        "Space" => open && !picker.is_typing(),
        "Left" => picker.server().is_some(),
        "a" => picker.can_mark_all(),
        "/" | "q" => !picker.is_typing(),
        "Esc" => picker.is_typing() || !picker.filter().characters().is_empty(),
        _ => true,
    };
    let here =
        table.iter().filter(|binding| binding.context == KeyContext::Picker && binding.hint.1 > 0).filter(applies);
    let segments: Vec<Segment> = here
        .map(|binding| {
            let spans =
                vec![Span::styled(binding.label.to_string(), key), Span::styled(format!(" {}", binding.hint.0), dim)];
            Segment::new(binding.hint.1).gap(2).or(spans).or_nothing()
        })
        .collect();
    let line = fit_line::fit(&segments, usize::from(area.width) - 2);
    canvas.spans(area.x + 1, area.y, area.width - 1, &line);
}

//! Text of the page that shows the stack of a thread that waits for a lock beside that of the
//! thread that holds it, which may wait itself.

use std::time::Duration;

use crate::tally::measure;
use crate::tally::threads::ThreadRow;
use crate::tui::pane::help::lines::HelpLine;
use crate::tui::text;

/// Minimum columns of one stack. With less room, the stacks follow each other.
const STACK_COLUMNS: u16 = 36;

/// The lines of the page, in a column for each thread if there is room.
pub fn columns(chain: &[&ThreadRow], now_ns: u64, width: u16) -> Vec<Vec<HelpLine>> {
    let count = chain.len().max(1) as u16;
    let room = if width / count >= STACK_COLUMNS { width / count } else { width };
    let columns: Vec<_> = chain.iter().map(|thread| stack(thread, now_ns, room.saturating_sub(2))).collect();
    if columns.is_empty() {
        return vec![vec![HelpLine::Text("no thread waits for a lock whose holder is known".to_owned())]];
    }
    if room < width || columns.len() == 1 {
        return columns;
    }
    vec![columns.join(&HelpLine::Blank)]
}

/// The stack of one thread, callees first.
fn stack(thread: &ThreadRow, now_ns: u64, room: u16) -> Vec<HelpLine> {
    let fit = |words: &str| text::cut_right(words, room.into()).into_owned();
    let mut lines = vec![HelpLine::Heading(fit(&format!("{} ({})", thread.name, thread.tid)))];
    let wait = thread.wait.as_ref().map(|wait| match wait.since_ns {
        Some(since_ns) if now_ns > since_ns => {
            format!("{} for {}", wait.name, measure::duration(Duration::from_nanos(now_ns - since_ns)))
        }
        _ => wait.name.to_string(),
    });
    lines.push(HelpLine::Text(fit(wait.as_deref().unwrap_or("runs"))));
    lines.push(HelpLine::Blank);
    if thread.stack.is_empty() {
        lines.push(HelpLine::Text(fit("no sample in the window")));
    }
    lines.extend(thread.stack.iter().map(|row| HelpLine::Text(fit(&row.short))));
    lines
}

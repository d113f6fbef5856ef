//! Text of the page about the deepest stack of a thread: its size, the functions with the largest
//! frames, and all frames.

use crate::tally::measure;
use crate::tally::text::Text;
use crate::tally::threads::ThreadRow;
use crate::tui::pane::help::lines::{HelpLine, entry};

/// Number of functions with the largest frames.
const LARGEST: usize = 8;

/// The lines of the page.
pub fn lines(thread: Option<&ThreadRow>, width: u16) -> Vec<HelpLine> {
    let mut lines = vec![HelpLine::Heading("Size".to_owned())];
    let Some((thread, stack)) = thread.and_then(|thread| Some((thread, thread.deepest.as_ref()?))) else {
        entry(&mut lines, width, "unknown", "no stack of this thread was measured yet");
        return lines;
    };
    entry(&mut lines, width, "thread", &format!("{} ({})", thread.name, thread.tid));
    entry(&mut lines, width, "used", &stack.size_words());
    let in_frames: u64 = stack.frames.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let others = stack.used.saturating_sub(in_frames);
    if !stack.frames.is_empty() && others > 0 {
        let words = format!("{} of it for arguments, environment and data of the thread", measure::bytes(others));
        entry(&mut lines, width, "not in frames", &words);
    }
    let largest = largest(stack.frames.iter().map(|(row, bytes)| (&row.short, *bytes)));
    if largest.iter().any(|function| function.frames > 1) || stack.frames.len() > LARGEST {
        lines.push(HelpLine::Blank);
        lines.push(HelpLine::Heading("Largest functions".to_owned()));
        for FunctionSize { name, bytes, frames } in largest.into_iter().take(LARGEST) {
            entry(&mut lines, width, &sized(bytes), &times(name, frames));
        }
    }
    lines.push(HelpLine::Blank);
    lines.push(HelpLine::Heading("Frames, callees first".to_owned()));
    // Recursive calls are one line.
    for calls in stack.frames.chunk_by(|a, b| a == b) {
        let (row, bytes) = &calls[0];
        entry(&mut lines, width, &sized(*bytes), &times(&row.full, calls.len()));
    }
    lines
}

/// A name, and how often it is meant.
fn times(name: &str, count: usize) -> String {
    if count > 1 { format!("{name} × {}", measure::count(count as u64)) } else { name.to_owned() }
}

fn sized(bytes: u64) -> String {
    let words = if bytes == 0 { "–".to_owned() } else { measure::bytes(bytes) };
    format!("{words:>10}")
}

/// The frames of a function.
struct FunctionSize<'a> {
    name: &'a Text,
    bytes: u64,
    frames: usize,
}

/// Sums the frames of each function. The largest comes first.
fn largest<'a>(frames: impl Iterator<Item = (&'a Text, u64)>) -> Vec<FunctionSize<'a>> {
    let mut functions: Vec<FunctionSize<'a>> = Vec::new();
    for (name, bytes) in frames {
        match functions.iter_mut().find(|function| function.name == name) {
            Some(function) => {
                function.bytes = function.bytes.saturating_add(bytes);
                function.frames += 1;
            }
            None => functions.push(FunctionSize { name, bytes, frames: 1 }),
        }
    }
    functions.sort_by_key(|function| std::cmp::Reverse(function.bytes));
    functions
}

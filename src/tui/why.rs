//! Why there is no better name: what was asked about a function's file, and what was found out, as lines of a page.

use super::page::{self, KEY_COLUMNS, Line};
use super::text;
use crate::symbols::inquiry::Inquiry;

/// A question about a name, and its answer.
#[derive(Clone, Debug)]
pub struct Why {
    /// Full name of the function.
    pub full: String,
    /// Last part of the path of its file; empty for code in no file.
    pub module: String,
    /// What was found of the files of this name; nothing before they were looked at.
    pub found: Option<Vec<Inquiry>>,
}

/// The lines of the page.
pub fn lines(why: Option<&Why>, width: u16) -> Vec<Line> {
    let Some(why) = why else { return Vec::new() };
    let mut lines = vec![Line::Heading("Name".to_owned())];
    entry(&mut lines, width, "shown", &why.full);
    entry(&mut lines, width, "file", if why.module.is_empty() { "none" } else { &why.module });
    let verdict = match &why.found {
        _ if why.module.is_empty() && why.full.starts_with('[') => {
            "a mark of its own: the stack goes on towards its root, but could not be followed"
        }
        _ if why.module.is_empty() => "code that was made at run time, or lies in no file: nothing names it",
        None => "its file is being looked at …",
        Some(found) if found.is_empty() => "no process maps a file of this name any more",
        Some(_) if why.full.contains("+0x") => "it lies outside of every symbol of its file",
        Some(found) if found.iter().all(Inquiry::is_whole) => {
            "there are symbols and line tables: no better name is to be had"
        }
        Some(_) => "its file does not tell all: see below",
    };
    entry(&mut lines, width, "why", verdict);
    for inquiry in why.found.iter().flatten() {
        lines.push(Line::Blank);
        lines.push(Line::Heading(inquiry.path.clone()));
        inquiry.findings().iter().for_each(|(head, words)| entry(&mut lines, width, head, words));
    }
    lines
}

/// Adds words; of a path or a name that is wider than the screen nothing is left out.
fn entry(lines: &mut Vec<Line>, width: u16, head: &str, words: &str) {
    let room = usize::from(width.saturating_sub(KEY_COLUMNS + 4)).max(16);
    let (mut broken, mut used) = (String::new(), 0);
    for c in words.chars() {
        used = if c == ' ' { 0 } else { used + text::width(c) };
        if used > room {
            broken.push(' ');
            used = text::width(c);
        }
        broken.push(c);
    }
    page::entry(lines, width, head, &broken);
}

//! Texts of scenarios that describe one line of a function, and the full names of functions.

use std::collections::HashMap;

use crate::symbols::messages::ResolvedLine;

/// A function as a stack names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LineText {
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: u32,
}

#[derive(Default)]
pub(super) struct FullNames(pub(super) HashMap<String, String>);

impl FullNames {
    pub(super) fn full(&self, short: &str) -> String {
        self.0.get(short).map_or(short, String::as_str).to_owned()
    }

    pub(super) fn resolve(&self, text: LineText, inlined: bool) -> ResolvedLine {
        let LineText { function: short, file, line } = text;
        let full = self.full(&short);
        ResolvedLine { full, short, file, line, inlined }
    }
}

pub(super) fn line_text(text: &str) -> Result<LineText, String> {
    let (mut function, mut file, mut line) = (text, "", 0);
    if let Some((before, place)) = text.rsplit_once('@')
        && let Some((path, digits)) = place.rsplit_once(':')
        && let Ok(digits) = digits.parse()
    {
        (function, file, line) = (before, path, digits);
    }
    if function.is_empty() {
        return Err("a frame without a name".to_owned());
    }
    Ok(LineText { function: function.to_owned(), file: file.to_owned(), line })
}

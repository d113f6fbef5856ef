//! The `:` line while it is typed: editing, completion with Tab, and the history.

use super::colon_command::ColonCommand;
use super::complete::complete;
use super::parse::parse;
use crate::tui::action::Edit;
use crate::tui::line_editor::LineEditor;
use crate::tui::pane::prompt::state::Fault;

/// Maximum number of lines in the history.
const MAX_HISTORY: usize = 100;

/// The `:` line.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    line: LineEditor,
    fault: Option<Fault>,
    /// The completions that Tab cycles through, and the index of the current one.
    completions: Option<(Vec<String>, usize)>,
    /// The index of the history line that is shown, counted from the newest, and the text that was
    /// typed before.
    recalled: Option<(usize, String)>,
}

impl CommandLine {
    /// The text and the cursor.
    pub fn line(&self) -> &LineEditor {
        &self.line
    }

    /// The error in the line, after an attempt to execute it.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The completions that Tab cycles through.
    pub fn completions(&self) -> &[String] {
        self.completions.as_ref().map_or(&[], |(completions, _)| completions)
    }

    /// Inserts text at the cursor.
    pub fn insert(&mut self, text: &str) {
        self.line.insert(text);
        self.reset();
    }

    /// Edits the line.
    pub fn edit(&mut self, edit: Edit) {
        if self.line.edit(edit) {
            self.reset();
        }
    }

    /// Clears the error, the completions and the recalled line of the previous text.
    fn reset(&mut self) {
        (self.fault, self.completions, self.recalled) = (None, None, None);
    }

    /// Parses the line. If that fails, [`CommandLine::fault`] says why from now on.
    pub fn parse(&mut self) -> Option<ColonCommand> {
        match parse(&self.line.text()) {
            Ok(command) => Some(command),
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }

    /// Completes the line as far as all completions agree; after that, cycles through them.
    pub fn complete<'a>(&mut self, functions: impl Iterator<Item = &'a str>) {
        if let Some((completions, index)) = &mut self.completions {
            *index = (*index + 1) % completions.len();
            self.line.set(&completions[*index]);
            return;
        }
        let text = self.line.text();
        let completions = complete(&text, functions);
        let first = completions.first().cloned().unwrap_or_default();
        let common_prefix = completions.iter().skip(1).fold(first, |prefix, completion| {
            prefix.chars().zip(completion.chars()).take_while(|(one, other)| one == other).map(|(c, _)| c).collect()
        });
        if common_prefix.len() > text.len() && common_prefix.starts_with(&text) {
            self.line.set(&common_prefix);
            self.reset();
        } else if let Some(first) = completions.first() {
            self.line.set(first);
            self.reset();
            self.completions = (completions.len() > 1).then_some((completions, 0));
        }
    }

    /// Shows an older (-1) or newer (1) line of the history. The line after the newest is the text
    /// that was being typed.
    pub fn recall(&mut self, history: &CommandHistory, step: i8) {
        let (index, typed) = match self.recalled.take() {
            Some((index, typed)) => (Some(index), typed),
            None => (None, self.line.text()),
        };
        let next = match (index, step) {
            (None, ..0) => Some(0),
            (None, _) => None,
            (Some(index), ..0) => Some(index + 1),
            (Some(index), _) => index.checked_sub(1),
        };
        let next = next.map(|next| next.min(history.0.len().saturating_sub(1)));
        self.reset();
        match next.and_then(|next| Some((next, history.0.iter().rev().nth(next)?))) {
            Some((next, line)) => {
                self.line.set(line);
                self.recalled = Some((next, typed));
            }
            None => self.line.set(&typed),
        }
    }
}

/// The lines that were executed, the newest last.
#[derive(Clone, Debug, Default)]
pub struct CommandHistory(Vec<String>);

impl CommandHistory {
    /// Adds a line as the newest, and removes an older equal one.
    pub fn push(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        self.0.retain(|kept| *kept != line);
        if self.0.len() == MAX_HISTORY {
            self.0.remove(0);
        }
        self.0.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tab(text: &str, times: usize) -> String {
        let mut line = CommandLine::default();
        line.insert(text);
        (0..times).for_each(|_| line.complete(["json::parse", "json::print", "main"].into_iter()));
        line.line().text()
    }

    #[test]
    fn tab_completes_then_cycles() {
        for (typed, times, expected) in [
            ("foc", 1, "focus="),
            ("sh", 1, "show"),
            ("clock=", 1, "clock=cpu"),
            ("clock=", 2, "clock=wall"),
            ("clock=", 3, "clock=user"),
            ("clock=", 6, "clock=cpu"),
            ("clock w", 1, "clock=wall"),
            ("peek js", 1, "peek json::p"),
            ("peek js", 2, "peek json::parse"),
            ("focus=MAI", 1, "focus=main"),
            ("tagfocus=t", 1, "tagfocus=thread="),
            ("tagfocus=t", 2, "tagfocus=tid="),
            ("top10 -c", 1, "top10 -cum"),
            ("xyz", 2, "xyz"),
        ] {
            assert_eq!(tab(typed, times), expected, "{typed}");
        }
        assert!(tab("", 1).starts_with("top"));
    }

    #[test]
    fn up_and_down_walk_the_history() {
        let mut history = CommandHistory::default();
        ["top", "cum", "top", " "].iter().for_each(|entry| history.push((*entry).to_owned()));
        let mut line = CommandLine::default();
        line.insert("pe");
        let mut step = |step| {
            line.recall(&history, step);
            line.line().text()
        };
        assert_eq!([step(-1), step(-1), step(-1)], ["top", "cum", "cum"]);
        assert_eq!([step(1), step(1), step(1)], ["top", "pe", "pe"]);
        (0..1000).for_each(|number| history.push(format!("hz={number}")));
        assert_eq!(history.0.len(), MAX_HISTORY);
    }
}

//! State of a prompt for a pattern. The last pattern that compiled stays in force as a preview
//! while the text is being edited.

use crate::tally::query::Pattern;
use crate::tui::action::{Edit, Subject};
use crate::tui::line_editor::LineEditor;

/// An error in an input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Index of the wrong character.
    pub at: usize,
    /// Description of the error.
    pub words: String,
}

/// A prompt for a pattern.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The use of the pattern.
    pub subject: Subject,
    line: LineEditor,
    /// The last pattern that compiled; `None` for an empty line.
    good: Option<Pattern>,
    fault: Option<Fault>,
}

impl Prompt {
    /// Creates an empty prompt.
    pub fn new(subject: Subject) -> Prompt {
        Prompt { subject, line: LineEditor::default(), good: None, fault: None }
    }

    /// The line.
    pub fn line(&self) -> &LineEditor {
        &self.line
    }

    /// The pattern in force.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.good.as_ref()
    }

    /// The error in the current text.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Inserts text at the cursor.
    pub fn insert(&mut self, text: &str) {
        self.line.insert(text);
        self.compile();
    }

    /// Edits the line.
    pub fn edit(&mut self, edit: Edit) {
        if self.line.edit(edit) {
            self.compile();
        }
    }

    fn compile(&mut self) {
        self.fault = None;
        let text = self.line.text();
        if text.is_empty() {
            self.good = None;
            return;
        }
        // Searches are for plain text, so that `operator()` needs no escaping.
        let text = match self.subject {
            Subject::Find if text.chars().any(char::is_uppercase) => regex::escape(&text),
            Subject::Find => format!("(?i){}", regex::escape(&text)),
            _ => text,
        };
        match Pattern::new(&text) {
            Ok(pattern) => self.good = Some(pattern),
            Err(error) => self.fault = Some(fault(&error, self.line.characters().len())),
        }
    }
}

/// Extracts position and description from the message of regex, which contains the pattern and a
/// `^` below the position.
pub(in crate::tui) fn fault(error: &regex::Error, length: usize) -> Fault {
    let message = error.to_string();
    let mark = message.lines().find(|line| line.contains('^') && line.trim_matches([' ', '^']).is_empty());
    let column = mark.and_then(|line| line.find('^')).map(|column| column.saturating_sub(4));
    let words = match error {
        regex::Error::CompiledTooBig(_) => "too big".to_owned(),
        _ => message.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned(),
    };
    Fault { at: column.unwrap_or(length).min(length.saturating_sub(1)), words }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Prompt {
        let mut prompt = Prompt::new(Subject::Focus);
        text.chars().for_each(|c| prompt.insert(&c.to_string()));
        prompt
    }

    #[test]
    fn last_valid_pattern_stays_in_force() {
        let mut prompt = typed("parse(");
        assert_eq!(prompt.pattern().map(Pattern::text), Some("parse"));
        assert_eq!(prompt.fault(), Some(&Fault { at: 5, words: "unclosed group".into() }));
        prompt.insert("x)");
        assert_eq!(prompt.pattern().map(Pattern::text), Some("parse(x)"));
        assert_eq!(prompt.fault(), None);
        prompt.edit(Edit::All);
        assert!(prompt.pattern().is_none() && prompt.fault().is_none());
    }

    #[test]
    fn errors_have_positions() {
        for (text, at) in [("ab[z-a]", 3), ("a**(", 3), ("äö)", 2), ("\\", 0), ("a{2,1}b", 1), ("(?P<a>", 0)] {
            assert_eq!(typed(text).fault().map(|fault| fault.at), Some(at), "{text}");
        }
        let big = typed("(a{1000}){1000}");
        assert_eq!(big.fault().map(|fault| fault.words.as_str()), Some("too big"));
    }

    #[test]
    fn searches_are_plain_text() {
        let mut prompt = Prompt::new(Subject::Find);
        prompt.insert("operator(");
        assert!(prompt.pattern().unwrap().matches("std::Operator()"));
        let mut prompt = Prompt::new(Subject::Find);
        prompt.insert("Op");
        assert!(!prompt.pattern().unwrap().matches("operator"));
    }
}

//! A prompt for a pattern: what its line amounts to so far. It previews: the last pattern that compiled stays in
//! force while the next is being typed.

use super::action::{Edit, Subject};
use super::line::Line;
use crate::tally::query::Pattern;

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which character of the line.
    pub at: usize,
    /// What is wrong there.
    pub words: String,
}

/// A prompt being filled in.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What it is for.
    pub subject: Subject,
    line: Line,
    /// The last pattern that compiled; `None` for an empty line.
    good: Option<Pattern>,
    fault: Option<Fault>,
}

impl Prompt {
    /// An empty prompt.
    pub fn new(subject: Subject) -> Prompt {
        Prompt { subject, line: Line::default(), good: None, fault: None }
    }

    /// The line.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// The pattern in force.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.good.as_ref()
    }

    /// What is wrong with the line as it is.
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
        // What is found is plain text; nobody wants to escape `operator()`.
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

/// Reads out of regex's words, which come with the pattern and a `^` under the place, where the fault is.
pub(super) fn fault(error: &regex::Error, length: usize) -> Fault {
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
    fn the_last_pattern_that_compiled_stays() {
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
    fn the_fault_is_where_it_is() {
        for (text, at) in [("ab[z-a]", 3), ("a**(", 3), ("äö)", 2), ("\\", 0), ("a{2,1}b", 1), ("(?P<a>", 0)] {
            assert_eq!(typed(text).fault().map(|fault| fault.at), Some(at), "{text}");
        }
        let big = typed("(a{1000}){1000}");
        assert_eq!(big.fault().map(|fault| fault.words.as_str()), Some("too big"));
    }

    #[test]
    fn what_is_found_is_plain_text() {
        let mut prompt = Prompt::new(Subject::Find);
        prompt.insert("operator(");
        assert!(prompt.pattern().unwrap().matches("std::Operator()"));
        let mut prompt = Prompt::new(Subject::Find);
        prompt.insert("Op");
        assert!(!prompt.pattern().unwrap().matches("operator"));
    }
}

//! Replies of tools: a text of bounded length that says what was left out, or an error.

use serde_json::{Value, json};

use crate::symbols::sanitize::sanitize;

/// Maximum length of a reply in bytes: some 2 000 tokens.
const MAX_BYTES: usize = 7000;
/// Maximum number of characters of a name.
const MAX_NAME: usize = 160;

/// Maximum number of characters of a sentence, which has several names.
const MAX_SENTENCE: usize = 480;

/// Quotes a name of the target: it is data, whatever it says.
pub(super) fn quote(name: &str) -> String {
    quote_at_most(name, MAX_NAME)
}

/// Quotes a sentence that has names of the target.
pub(super) fn quote_sentence(sentence: &str) -> String {
    quote_at_most(sentence, MAX_SENTENCE)
}

fn quote_at_most(text: &str, max: usize) -> String {
    let clean = sanitize(text);
    let cut: String = clean.chars().take(max).collect();
    let more = if cut.len() < clean.len() { "…" } else { "" };
    Value::from(cut + more).to_string()
}

/// An error, with a hint and the values that would do.
#[derive(Debug)]
pub(super) struct ToolError {
    error: String,
    hint: String,
    options: Vec<String>,
}

impl ToolError {
    pub(super) fn new(error: impl Into<String>, hint: impl Into<String>, options: Vec<String>) -> ToolError {
        ToolError { error: error.into(), hint: hint.into(), options }
    }
}

impl std::fmt::Display for ToolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ToolError { error, hint, options } = self;
        let options: Vec<_> = options.iter().map(|option| sanitize(option)).collect();
        write!(f, "{}", json!({"error": sanitize(error), "hint": sanitize(hint), "options": options}))
    }
}

/// A text with rows, as many as fit.
pub(super) struct ReplyText {
    text: String,
    limit: usize,
    rows: usize,
    omitted: usize,
}

impl ReplyText {
    /// Starts with the lines before the rows. At most `limit` rows follow.
    pub(super) fn new(head: String, limit: usize) -> ReplyText {
        ReplyText { text: head, limit, rows: 0, omitted: 0 }
    }

    /// Adds a row, or counts it if there is no room.
    pub(super) fn push(&mut self, row: &str) {
        if self.rows < self.limit && self.text.len() + row.len() < MAX_BYTES {
            self.text += "\n";
            self.text += row;
            self.rows += 1;
        } else {
            self.omitted += 1;
        }
    }

    /// The text. Its last line says how many rows were left out.
    pub(super) fn finish(self) -> String {
        match self.omitted {
            0 => self.text,
            omitted => format!("{}\n({omitted} more rows left out: raise limit, or filter by focus)", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cut() {
        assert_eq!(quote("a\"b\x1b[31m\n"), Value::from(sanitize("a\"b\x1b[31m\n")).to_string());
        assert_eq!(quote_sentence(&"s".repeat(400)).len(), 402);
        assert!(!quote("x\ny").contains('\n') && quote(&"é".repeat(500)).chars().count() == MAX_NAME + 3);
    }

    #[test]
    fn every_cut_is_said() {
        let mut reply = ReplyText::new("head".to_owned(), 2);
        ["a", "b", "c"].iter().for_each(|row| reply.push(row));
        assert_eq!(reply.finish(), "head\na\nb\n(1 more rows left out: raise limit, or filter by focus)");
        let mut reply = ReplyText::new(String::new(), usize::MAX);
        (0..1000).for_each(|_| reply.push(&"x".repeat(100)));
        let text = reply.finish();
        assert!(text.len() < MAX_BYTES + 100 && text.contains("more rows left out"), "{}", text.len());
    }
}

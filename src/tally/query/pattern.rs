//! Regular expressions of filters.

use regex::Regex;

/// A compiled regular expression. Two patterns are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles `text` (unanchored, case-sensitive).
    ///
    /// # Errors
    /// The syntax error that `regex` reports.
    pub fn new(text: &str) -> Result<Pattern, regex::Error> {
        Regex::new(text).map(Pattern)
    }

    /// Compiles `text` as [`new`](Self::new) does.
    ///
    /// # Errors
    /// The syntax error in one sentence.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        // Only the last line of the message is a sentence; the lines before it point at the place.
        Pattern::new(text).map_err(|error| {
            let message = error.to_string();
            message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        })
    }

    /// The expression as the user typed it.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it matches anywhere in `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text() == other.text()
    }
}

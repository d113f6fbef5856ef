//! The answers that sentences are made from, and a sentence.

use crate::session::Answer;
use crate::symbols::sanitize::sanitize;

/// A sentence and where its figures are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence. Control characters of names are escaped.
    pub text: String,
    /// The table and the row, such as `Top: parse`.
    pub row: String,
    /// The importance: those of the greatest are kept if there are too many.
    pub(super) importance: u32,
}

impl Sentence {
    /// A sentence of this importance about a row.
    pub(super) fn new(importance: u32, (table, row): (&str, &str), text: String) -> Sentence {
        let row = if row.is_empty() { table.to_owned() } else { format!("{table}: {row}") };
        Sentence { text: sanitize(&text), row: sanitize(&row), importance }
    }
}

/// The answers that sentences are made from.
pub struct Evidence<'a> {
    /// The answer to [`question`](super::question).
    pub answer: &'a Answer,
    /// The answer to the same question about the last seconds, with trends.
    pub recent: Option<&'a Answer>,
}

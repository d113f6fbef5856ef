//! The whole question as a value.

use regex::Regex;

use super::tag::Tag;
use crate::link::wire::Clock;
use crate::profile::Era;
use crate::profile::window::Span;

/// A regular expression and its text; equal when the text is.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles `text` (unanchored, case-sensitive).
    ///
    /// # Errors
    /// What is wrong with it, as `regex` puts it.
    pub fn new(text: &str) -> Result<Pattern, regex::Error> {
        Regex::new(text).map(Pattern)
    }

    /// As it was typed.
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

/// Which samples and frames count, in pprof's sense. Patterns match function, file and module names, tags
/// the thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filters {
    /// Keep samples with a match of any of these.
    pub focus: Vec<Pattern>,
    /// Drop samples with a match; wins over `focus`.
    pub ignore: Vec<Pattern>,
    /// Delete matching frames.
    pub hide: Vec<Pattern>,
    /// Delete frames that do not match.
    pub show: Vec<Pattern>,
    /// Cut everything above the rootmost match.
    pub show_from: Vec<Pattern>,
    /// Keep samples of threads with a match of any of these.
    pub tagfocus: Vec<Tag>,
    /// Drop samples of threads with a match; wins over `tagfocus`.
    pub tagignore: Vec<Tag>,
}

/// Order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sort {
    /// By flat, then name.
    #[default]
    Flat,
    /// By cum, then name.
    Cum,
    /// By name.
    Name,
}

/// What is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Group {
    /// A function: its full name.
    #[default]
    Function,
    /// A source file: its path; what is inlined of it is a row of its own, `src/s_sin.c (inline)`. Code of unknown source
    /// is `[libc.so.6]`, in no module `<unknown>`.
    File,
    /// A line: `name file:line`.
    Line,
    /// An address, as in the module's file: `0000000000401a2b name file:line`, or with `[libc.so.6]` where it has no name.
    Address,
    /// A module: its path.
    Module,
}

/// A question to the books.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Of which books.
    pub era: Era,
    /// Of which clock.
    pub clock: Clock,
    /// Of which time.
    pub span: Span,
    /// Of which samples.
    pub filters: Filters,
    /// In which order.
    pub sort: Sort,
    /// Into which rows.
    pub group: Group,
}

impl Default for Query {
    fn default() -> Query {
        Query {
            era: Era::Now,
            clock: Clock::Prof,
            span: Span::Total,
            filters: Filters::default(),
            sort: Sort::default(),
            group: Group::default(),
        }
    }
}

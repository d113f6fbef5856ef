//! The whole question as a value.

use regex::Regex;

pub use super::rows::without_owner;
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
    /// A function in one thread: `parse [worker-0 41280]`. Its thread is at the root of each stack.
    Thread,
    /// A function in one process likewise.
    Process,
}

impl Group {
    /// What of rows' functions makes them several, if anything does.
    pub fn owner(self) -> Option<Owner> {
        match self {
            Group::Thread => Some(Owner::Thread),
            Group::Process => Some(Owner::Process),
            Group::Function | Group::File | Group::Line | Group::Address | Group::Module => None,
        }
    }
}

/// Whose a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A thread's.
    Thread,
    /// A process's.
    Process,
}

/// What lies at the root of every stack: pprof's tagroot. It is a frame like any other, also to filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Roots {
    /// Nothing that was not sampled.
    #[default]
    Plain,
    /// The thread.
    Threads,
    /// The process.
    Processes,
    /// The process, and on it the thread.
    Both,
}

impl Roots {
    /// Those that there are, from the root on.
    pub fn owners(self) -> &'static [Owner] {
        match self {
            Roots::Plain => &[],
            Roots::Threads => &[Owner::Thread],
            Roots::Processes => &[Owner::Process],
            Roots::Both => &[Owner::Process, Owner::Thread],
        }
    }
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
    /// What lies at the root of every stack. Threads and processes need [frames](crate::profile::Profile::label) for that.
    pub roots: Roots,
}

impl Query {
    /// Who lies at the root of every stack, from the root on.
    pub fn owners(&self) -> &'static [Owner] {
        match (self.group.owner(), self.roots) {
            (Some(Owner::Thread), Roots::Plain) => Roots::Threads.owners(),
            (Some(Owner::Process), Roots::Plain) => Roots::Processes.owners(),
            (_, roots) => roots.owners(),
        }
    }

    /// Whether anything is asked about threads and processes by their [frames](crate::profile::Profile::label).
    pub fn has_owners(&self) -> bool {
        !self.owners().is_empty()
    }
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
            roots: Roots::default(),
        }
    }
}
